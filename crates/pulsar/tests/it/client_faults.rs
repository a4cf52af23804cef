//! Brokers that misbehave: what is wrong with one producer stays with it, what is wrong with a connection is told to all.

use crate::support::{Teller, client, in_time, numbers, refusal, told_by, usual};
use carom_pulsar::wire::{
    Command, CommandType, LookupResponse, LookupType, PartitionedMetadataResponse, PartitionedType, WireError,
};
use carom_pulsar::{Client, ConnectionError, Error, ServerError};
use std::time::Duration;
use testkit::clock::advance;
use testkit::pulsar::{Answer, Cluster, On};

#[tokio::test]
async fn an_error_for_one_producer_leaves_the_others_of_the_connection_alone() {
    for per_broker in [1, 5] {
        let cluster = Cluster::start(1).await.unwrap();
        let client = client(&cluster).connections_per_broker(per_broker).build().unwrap();
        let good = client.producer("good").await.unwrap();
        let bad = client.producer("bad").await.unwrap();
        let begun = cluster.heard(0, CommandType::Producer);
        let (accepted, connections) = (cluster.accepted(0), cluster.connections(0));
        let persistence = Answer::Error(ServerError::Persistence).times(2, Answer::Normal);
        cluster.answer(On::topic("bad"), CommandType::Send, persistence);
        for number in 0..3 {
            let sending = bad.send(format!("{number}"));
            good.send("0").await.unwrap();
            sending.await.unwrap();
        }
        assert_eq!(crate::support::written(&cluster, "bad"), [0, 1, 2]);
        assert_eq!(cluster.producers("good").len(), 1);
        assert!(cluster.heard(0, CommandType::Producer) > begun, "the bad one has begun anew");
        assert_eq!((cluster.accepted(0), cluster.connections(0)), (accepted, connections), "on the same connection");
    }
}

#[tokio::test]
async fn what_was_refused_while_later_ones_were_stored_fails_and_the_others_are_stored_once() {
    // Sent again it would be out of order, and to a broker that knows messages by their numbers, nothing new.
    for deduplicate in [false, true] {
        let cluster = Cluster::start(1).await.unwrap();
        cluster.deduplicate(deduplicate);
        let client = client(&cluster).build().unwrap();
        let producer = client.producer("orders").await.unwrap();
        let persistence = Answer::Normal.times(1, Answer::Error(ServerError::Persistence).times(2, Answer::Normal));
        cluster.answer(On::Anywhere, CommandType::Send, persistence);
        let sending: Vec<_> = (0..10).map(|number| producer.send(format!("{number}"))).collect();
        for (number, sending) in sending.into_iter().enumerate() {
            match in_time(sending).await {
                Ok(_) => assert!(![1, 2].contains(&number), "{number} is not stored"),
                Err(error) => {
                    assert_eq!((number.clamp(1, 2), refusal(&error)), (number, Some(ServerError::Persistence)))
                }
            }
        }
        assert_eq!(crate::support::written(&cluster, "orders"), [0, 3, 4, 5, 6, 7, 8, 9]);
        in_time(producer.send("10")).await.unwrap();
    }
}

#[tokio::test]
async fn a_message_that_is_refused_for_good_fails_alone() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let producer = client.producer("orders").await.unwrap();
    let begun = cluster.heard(0, CommandType::Producer);
    for why in [ServerError::NotAllowed, ServerError::Checksum, ServerError::Authorization] {
        let stored = cluster.log("orders").len();
        cluster.answer(On::Anywhere, CommandType::Send, Answer::Error(why).times(1, Answer::Normal));
        let (first, second) = (producer.send("0"), producer.send("1"));
        assert_eq!(refusal(&first.await.unwrap_err()), Some(why));
        second.await.unwrap();
        assert_eq!(crate::support::written(&cluster, "orders")[stored..], [1]);
    }
    assert_eq!(cluster.heard(0, CommandType::Producer), begun, "the producer is none the worse");
}

#[tokio::test]
async fn a_topic_that_has_ended_and_a_producer_that_was_fenced_off_end_the_producer() {
    for why in [ServerError::TopicTerminated, ServerError::ProducerFenced] {
        let cluster = Cluster::start(1).await.unwrap();
        let client = client(&cluster).build().unwrap();
        let producer = client.producer("orders").await.unwrap();
        cluster.answer(On::Anywhere, CommandType::Send, Answer::Normal.times(1, Answer::Error(why)));
        let sending: Vec<_> = (0..3).map(|number| producer.send(format!("{number}"))).collect();
        for (number, sending) in sending.into_iter().enumerate() {
            match in_time(sending).await {
                Ok(_) => assert_eq!(number, 0),
                Err(error) => assert_eq!((number.max(1), refusal(&error)), (number, Some(why)), "{}", told_by(&error)),
            }
        }
        let later = producer.send("3").await.unwrap_err();
        assert!(matches!(later, Error::Ended { .. }), "{later}");
        assert_eq!(refusal(&later), Some(why));
        cluster.until(|cluster| cluster.producers("orders").is_empty()).await;
    }
}

#[tokio::test]
async fn a_message_without_a_receipt_ends_when_its_time_is_up() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).operation_timeout(Duration::from_secs(1)).build().unwrap();
    let producer = client.producer("orders").await.unwrap();
    cluster.answer(On::Anywhere, CommandType::Send, Answer::Ignored.times(1, Answer::Normal));
    assert!(matches!(producer.send("0").await, Err(Error::TimedOut { what: "the message", .. })));
    producer.send("1").await.unwrap();
}

#[tokio::test]
async fn a_broker_that_withholds_its_pong_and_all_else_is_left() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).keep_alive(Duration::from_millis(100)).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    cluster.answer(On::Anywhere, CommandType::Ping, Answer::Silent.times(1, Answer::Normal));
    cluster.until(|cluster| cluster.accepted(0) == 2).await;
    producer.send("0").await.unwrap();
    assert_eq!(numbers(&mut consumer, 1).await, [0]);
}

#[tokio::test]
async fn pings_are_answered_while_messages_are_sent() {
    let cluster = Cluster::start(1).await.unwrap();
    cluster.keep_alive(Duration::from_millis(50));
    let client = client(&cluster).build().unwrap();
    let producer = client.producer("orders").await.unwrap();
    let large = vec![7; 256 * 1024];
    while cluster.heard(0, CommandType::Pong) < 3 {
        let sending: Vec<_> = (0..20).map(|_| producer.send(large.clone())).collect();
        for sending in sending {
            sending.await.unwrap();
        }
    }
    assert_eq!(cluster.accepted(0), 1, "the broker never had to close it");
}

#[tokio::test]
async fn bad_frames_end_the_connection_and_everybody_begins_anew() {
    for bad in [Answer::oversized(), Answer::garbage(), Answer::cut_short()] {
        let cluster = Cluster::start(1).await.unwrap();
        cluster.deduplicate(true);
        let client = client(&cluster).build().unwrap();
        let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
        let other = client.producer("other").await.unwrap();
        let producer = client.producer("orders").await.unwrap();
        cluster.answer(On::topic("orders"), CommandType::Send, bad.times(1, Answer::Normal));
        producer.send("0").await.unwrap();
        other.send("0").await.unwrap();
        assert_eq!(numbers(&mut consumer, 1).await, [0]);
        assert_eq!((cluster.accepted(0), cluster.log("orders").len()), (2, 1));
    }
}

#[tokio::test]
async fn a_bad_checksum_ends_the_connection_and_the_message_comes_again() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    cluster.answer(On::Anywhere, CommandType::Message, Answer::BadChecksum.times(1, Answer::Normal));
    producer.send("0").await.unwrap();
    assert_eq!(numbers(&mut consumer, 1).await, [0]);
    assert_eq!(cluster.accepted(0), 2);
}

#[tokio::test]
async fn a_command_that_nobody_knows_is_passed_over() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let producer = client.producer("orders").await.unwrap();
    let Answer::Bytes(unknown) = Answer::unknown_command() else { unreachable!() };
    cluster.inject(0, &unknown);
    producer.send("0").await.unwrap();
    assert_eq!(cluster.accepted(0), 1);
}

#[tokio::test]
async fn a_broker_that_refuses_the_handshake_is_quoted() {
    let cluster = Cluster::start(1).await.unwrap();
    cluster.answer(On::Anywhere, CommandType::Connect, Answer::Error(ServerError::Authentication));
    let client = client(&cluster).build().unwrap();
    let refused = client.partitions("orders").await.unwrap_err();
    let Error::Lease(lease) = &refused else { panic!("{refused}") };
    let cause = std::error::Error::source(lease).and_then(|cause| cause.downcast_ref());
    assert!(matches!(cause, Some(ConnectionError::Refused { error: ServerError::Authentication, .. })), "{cause:?}");
}

/// A broker that says that every topic has this many partitions.
async fn of_partitions(partitions: u32) -> Teller {
    Teller::start(move |command, url| match command {
        Command::PartitionedMetadata(asked) => vec![
            PartitionedMetadataResponse {
                request_id: asked.request_id,
                response: Some(PartitionedType::Success as i32),
                partitions: Some(partitions),
                ..PartitionedMetadataResponse::default()
            }
            .into(),
        ],
        command => usual(command, url),
    })
    .await
}

#[tokio::test]
async fn more_partitions_than_anybody_makes_are_not_taken_on_a_brokers_word() {
    for said in [10_001, 1 << 31, u32::MAX] {
        let teller = of_partitions(said).await;
        let client = Client::builder(&teller.url).build().unwrap();
        let refused =
            |error| matches!(error, Error::Partitions { partitions, limit: 10_000, .. } if partitions == said);
        assert!(refused(in_time(client.partitions("orders")).await.unwrap_err()));
        assert!(refused(in_time(client.producer("orders")).await.unwrap_err()));
        assert!(refused(in_time(client.consumer("orders", "kitchen")).await.unwrap_err()));
    }
    let teller = of_partitions(10_000).await;
    let client = Client::builder(&teller.url).build().unwrap();
    assert_eq!(in_time(client.partitions("orders")).await.unwrap(), 10_000);
}

#[tokio::test]
async fn the_lookup_of_partitions_counts_towards_the_time_that_a_producer_may_take_to_begin() {
    let (timeout, late) = (Duration::from_secs(3600), Duration::from_secs(3000));
    let cluster = Cluster::start(1).await.unwrap();
    cluster.keep_alive(2 * timeout);
    let client = client(&cluster).operation_timeout(timeout).keep_alive(2 * timeout).connection_max_idle(None);
    let client = client.build().unwrap();
    cluster.answer(On::Anywhere, CommandType::PartitionedMetadata, Answer::Normal.after(late));
    cluster.answer(On::Anywhere, CommandType::Producer, Answer::Ignored);
    let beginning = tokio::spawn(client.producer("orders").into_future());
    in_time(cluster.until(|cluster| cluster.heard(0, CommandType::PartitionedMetadata) == 1)).await;
    advance(late).await;
    in_time(cluster.until(|cluster| cluster.heard(0, CommandType::Producer) == 1)).await;
    // What is left, and not all of the time again.
    advance(timeout - late).await;
    let error = in_time(beginning).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::TimedOut { what: "the producer", .. }), "{}", told_by(&error));
}

/// A broker that names the owner of every topic by these addresses.
async fn naming(plain: Option<&'static str>, tls: Option<&'static str>) -> Teller {
    Teller::start(move |command, url| match command {
        Command::Lookup(asked) => vec![
            LookupResponse {
                request_id: asked.request_id,
                response: Some(LookupType::Connect as i32),
                broker_service_url: plain.map(str::to_owned),
                broker_service_url_tls: tls.map(str::to_owned),
                ..LookupResponse::default()
            }
            .into(),
        ],
        command => usual(command, url),
    })
    .await
}

#[tokio::test]
async fn a_client_without_tls_does_not_dial_an_address_with_tls() {
    for plain in [None, Some("")] {
        let teller = naming(plain, Some("pulsar+ssl://127.0.0.1:1")).await;
        let error = in_time(Client::builder(&teller.url).build().unwrap().producer("orders")).await.unwrap_err();
        assert!(matches!(error, Error::NoAddress { scheme: "pulsar", .. }), "{}", told_by(&error));
    }
    let teller = naming(Some("pulsar+ssl://127.0.0.1:1"), None).await;
    let error = in_time(Client::builder(&teller.url).build().unwrap().producer("orders")).await.unwrap_err();
    assert!(matches!(&error, Error::Address(wrong) if wrong.problem.contains("with TLS")), "{}", told_by(&error));
}

#[tokio::test]
async fn a_command_that_the_broker_does_not_take_fails_at_once() {
    let cluster = Cluster::start(1).await.unwrap();
    cluster.max_message_size(100);
    let client = client(&cluster).operation_timeout(Duration::from_secs(60)).build().unwrap();
    let error = in_time(client.producer("x".repeat(20_000))).await.unwrap_err();
    let too_large = matches!(error, Error::Unsayable { source: WireError::TooLarge { .. }, .. });
    assert!(too_large, "{}", told_by(&error));
    in_time(client.producer("orders")).await.unwrap();
}

#[tokio::test]
async fn a_source_that_gives_an_empty_token_is_the_reason_that_there_is_no_connection() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).operation_timeout(Duration::from_secs(3)).token_from(String::new).build().unwrap();
    let error = in_time(client.partitions("orders")).await.unwrap_err();
    assert!(told_by(&error).contains("the token is empty"), "{}", told_by(&error));
    assert_eq!(cluster.heard(0, CommandType::Connect), 0);
}
