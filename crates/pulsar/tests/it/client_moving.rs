//! Topics move, brokers die: nothing is lost, doubled or reordered, and the connections left behind are released.

use crate::support::{Teller, client, in_time, number_of, numbers, open, refusal, told_by, usual, written};
use bytes::BytesMut;
use carom::Policy;
use carom::dns::{DnsOptions, Ipv6};
use carom_pulsar::wire::{
    CloseProducer, Codec, Command, CommandType, PartitionedMetadata, PartitionedMetadataResponse, PartitionedType,
};
use carom_pulsar::{Builder, Client, Error, ServerError, SubType};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;
use testkit::clock::advance;
use testkit::dns::DnsServer;
use testkit::pulsar::{Answer, Cluster, On};
use testkit::wait::until;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Lets go of what is unused within some tenths of a second.
fn soon(client: Builder) -> Client {
    let client = client.connection_max_idle_of_tests(Duration::from_millis(200));
    client.connection_idle_interval(Duration::from_millis(50)).build().unwrap()
}

fn never(client: Builder) -> Client {
    client.connection_max_idle(None).build().unwrap()
}

#[tokio::test]
async fn a_topic_goes_from_a_to_b_to_c_and_no_message_is_lost_doubled_or_reordered() {
    let cluster = Cluster::start(3).await.unwrap();
    cluster.own("orders", 0);
    let client = never(client(&cluster));
    let mut consumer = client.consumer("orders", "kitchen").receiver_queue(20).await.unwrap();
    let producer = client.producer("orders").max_pending(30).await.unwrap();

    let sender = tokio::spawn(async move {
        let mut sending = JoinSet::new();
        for number in 0..600 {
            // Polled by a task of its own, in order: up to thirty are in flight whenever the topic moves.
            let mut one = Box::pin(producer.send(format!("{number}")));
            let at_once = std::future::poll_fn(|context| Poll::Ready(one.as_mut().poll(context))).await;
            assert!(at_once.is_pending());
            sending.spawn(one);
            if sending.len() > 30 {
                sending.join_next().await.unwrap().unwrap().unwrap();
            }
        }
        while let Some(sent) = sending.join_next().await {
            sent.unwrap().unwrap();
        }
    });
    let reader = tokio::spawn(async move { numbers(&mut consumer, 600).await });
    for (stored, owner) in [(100, 1), (200, 2), (300, 0), (400, 1), (500, 2)] {
        cluster.until(|cluster| cluster.log("orders").len() >= stored).await;
        assert!(cluster.log("orders").len() < 600, "it moves while messages are sent");
        cluster.unload("orders", owner);
    }
    sender.await.unwrap();
    assert_eq!(written(&cluster, "orders"), (0..600).collect::<Vec<_>>());
    assert_eq!(reader.await.unwrap(), (0..600).collect::<Vec<_>>());
    cluster.until(|cluster| cluster.backlog("orders", "kitchen") == Some(0)).await;
}

#[tokio::test]
async fn a_broker_that_says_where_the_topic_went_saves_the_lookup() {
    let cluster = Cluster::start(2).await.unwrap();
    cluster.own("orders", 0);
    let client = never(client(&cluster));
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    let lookups = cluster.heard(0, CommandType::Lookup);
    cluster.unload_assigned("orders", 1);
    producer.send("7").await.unwrap();
    assert_eq!(numbers(&mut consumer, 1).await, [7]);
    assert_eq!(cluster.heard(0, CommandType::Lookup), lookups);
}

#[tokio::test]
async fn three_connections_then_one_within_the_bound_and_no_message_is_lost_doubled_or_reordered() {
    // The first scenario upstream has for this: one producer, one consumer, a connection to every broker; under load.
    let (max_idle, interval) = (Duration::from_secs(15), Duration::from_secs(5));
    let cluster = Cluster::start(3).await.unwrap();
    cluster.own("orders", 0);
    let client = client(&cluster).connection_max_idle(max_idle).connection_idle_interval(interval);
    let client = client.operation_timeout(Duration::from_secs(60)).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    let (enough, until) = tokio::sync::watch::channel(false);
    let sender = tokio::spawn(async move {
        let mut sent = 0;
        while !*until.borrow() {
            let ten: Vec<_> = (sent..sent + 10).map(|number| producer.send(format!("{number}"))).collect();
            for sending in ten {
                sending.await.unwrap();
            }
            sent += 10;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        (producer, sent)
    });
    let (total, known) = tokio::sync::watch::channel(usize::MAX);
    let reader = tokio::spawn(async move {
        let mut read = Vec::new();
        while read.len() < *known.borrow() {
            // How many there are may be known only after the last has been read.
            let next = tokio::time::timeout(Duration::from_millis(100), consumer.next()).await;
            let Ok(message) = next else { continue };
            let message = message.unwrap();
            consumer.ack(&message).await.unwrap();
            read.push(number_of(&message));
        }
        (consumer, read)
    });
    for owner in 0..3 {
        if owner > 0 {
            cluster.unload("orders", owner);
        }
        let stored = cluster.written("orders");
        cluster.until(|cluster| cluster.written("orders") >= stored + 50).await;
    }
    let unused: Vec<_> = client.connections().into_iter().filter(|one| one.leases == 0).collect();
    assert_eq!((open(&cluster), unused.len()), (3, 2));
    // The detector looks once each time that the clock is advanced, and messages are sent in between.
    let mut looks = 0;
    while open(&cluster) > 1 {
        looks += 1;
        assert!(looks <= 10, "twice as many as it takes");
        advance(interval).await;
        let stored = cluster.written("orders");
        cluster.until(|cluster| cluster.written("orders") >= stored + 50).await;
    }
    let released = Instant::now().into_std();
    assert!(unused.iter().all(|connection| released - connection.last_used >= max_idle), "after {looks} looks");
    let stored = cluster.written("orders");
    cluster.until(|cluster| cluster.written("orders") >= stored + 50).await;
    enough.send_replace(true);
    let (_producer, sent) = sender.await.unwrap();
    total.send_replace(sent);
    let (_consumer, read) = reader.await.unwrap();
    let all = (0..sent).collect::<Vec<_>>();
    assert!(written(&cluster, "orders") == all && read == all, "each once and in order");
    assert_eq!((0..3).map(|broker| cluster.connections(broker)).collect::<Vec<_>>(), [0, 0, 1]);
    assert_eq!(
        (0..3).map(|broker| cluster.accepted(broker)).collect::<Vec<_>>(),
        [1, 1, 1],
        "nothing in use was released"
    );
    let roles = &client.connections()[0].roles;
    assert_eq!((roles.get("producer"), roles.get("consumer")), (Some(&1), Some(&1)));
}

#[tokio::test]
async fn two_partitions_end_with_two_connections_at_most() {
    let cluster = Cluster::start(4).await.unwrap();
    cluster.partitions("orders", 2);
    let client = soon(client(&cluster));
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    for owner in 0..4 {
        cluster.unload("orders-partition-0", owner);
        cluster.unload("orders-partition-1", (owner + 1) % 4);
        let both = [producer.send(format!("{owner}")), producer.send(format!("{owner}"))];
        for sending in both {
            sending.await.unwrap();
        }
        assert_eq!(numbers(&mut consumer, 2).await, [owner, owner]);
    }
    cluster.until(|cluster| open(cluster) <= 2).await;
    producer.send("9").await.unwrap();
    assert_eq!(numbers(&mut consumer, 1).await, [9]);
    assert!(open(&cluster) <= 2);
}

#[tokio::test]
async fn one_consumer_of_two_topics_of_one_broker_ends_with_one_connection() {
    let cluster = Cluster::start(3).await.unwrap();
    let client = soon(client(&cluster));
    for topic in ["coffee", "tea"] {
        cluster.own(topic, 0);
    }
    let mut consumer = client.consumer("coffee", "kitchen").topic("tea").await.unwrap();
    let producers = [client.producer("coffee").await.unwrap(), client.producer("tea").await.unwrap()];
    for owner in 0..3 {
        cluster.shed(owner, (owner + 1) % 3);
        for (number, producer) in producers.iter().enumerate() {
            producer.send(format!("{number}")).await.unwrap();
        }
        let mut read = numbers(&mut consumer, 2).await;
        read.sort_unstable();
        assert_eq!(read, [0, 1]);
    }
    cluster.until(|cluster| open(cluster) == 1).await;
    producers[1].send("5").await.unwrap();
    assert_eq!(numbers(&mut consumer, 1).await, [5]);
    assert_eq!(open(&cluster), 1);
}

#[tokio::test]
async fn what_a_dead_connection_left_without_a_receipt_is_sent_again_and_stored_once() {
    let cluster = Cluster::start(1).await.unwrap();
    cluster.deduplicate(true);
    let client = never(client(&cluster));
    let producer = client.producer("orders").await.unwrap();
    let mut unplaced = 0;
    for number in 0..100 {
        // Stored, and the receipt never comes: the numbers tell the broker that it has it.
        let answer = Answer::Normal.times(number % 7, Answer::DoneAndClose.times(1, Answer::Normal));
        if number % 25 == 0 {
            cluster.answer(On::Anywhere, CommandType::Send, answer);
        }
        let receipt = producer.send(format!("{number}")).await.unwrap();
        unplaced += usize::from(!receipt.is_placed());
    }
    assert_eq!(written(&cluster, "orders"), (0..100).collect::<Vec<_>>());
    assert_eq!(unplaced, 4, "where it is was said only in the receipts that were lost");
}

#[tokio::test]
async fn a_broker_dies_and_its_topics_are_found_elsewhere() {
    let cluster = Cluster::start(3).await.unwrap();
    cluster.own("orders", 1);
    cluster.deduplicate(true);
    let urls = format!("{},{}", cluster.url(0), cluster.address(1));
    let client = never(Client::builder(urls).operation_timeout(Duration::from_secs(10)));
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    let first: Vec<_> = (0..50).map(|number| producer.send(format!("{number}"))).collect();
    cluster.until(|cluster| cluster.log("orders").len() > 5).await;
    cluster.stop(1).await;
    let second: Vec<_> = (50..100).map(|number| producer.send(format!("{number}"))).collect();
    for sending in first.into_iter().chain(second) {
        sending.await.unwrap();
    }
    assert_eq!(written(&cluster, "orders"), (0..100).collect::<Vec<_>>());
    assert_eq!(numbers(&mut consumer, 100).await, (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_was_handed_out_and_not_acknowledged_does_not_come_again_after_a_move() {
    let cluster = Cluster::start(2).await.unwrap();
    cluster.own("orders", 0);
    let client = never(client(&cluster));
    let mut consumer = client.consumer("orders", "kitchen").sub_type(SubType::Failover).await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    for number in 0..3 {
        producer.send(format!("{number}")).await.unwrap();
    }
    let held = consumer.next().await.unwrap();
    cluster.unload("orders", 1);
    assert_eq!(number_of(&consumer.next().await.unwrap()), 1);
    consumer.ack(&held).await.unwrap();
    cluster.until(|cluster| cluster.backlog("orders", "kitchen") == Some(2)).await;
}

#[tokio::test]
async fn acknowledgements_survive_the_connection_that_lost_them() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = never(client(&cluster));
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    producer.send("0").await.unwrap();
    let message = consumer.next().await.unwrap();
    cluster.answer(On::Anywhere, CommandType::Ack, Answer::Close.times(1, Answer::Normal));
    consumer.ack(&message).await.unwrap();
    assert_eq!(cluster.backlog("orders", "kitchen"), Some(0));
}

#[tokio::test]
async fn a_topic_that_is_not_ready_is_asked_for_again() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = never(client(&cluster));
    for command in [CommandType::Lookup, CommandType::PartitionedMetadata, CommandType::Producer] {
        let not_ready = Answer::Error(ServerError::ServiceNotReady).times(2, Answer::Normal);
        cluster.answer(On::Anywhere, command, not_ready);
    }
    let producer = client.producer("orders").await.unwrap();
    assert_eq!(cluster.heard(0, CommandType::Producer), 3);

    // Its predecessor may still be there, or too much that nobody has read.
    for (passing, heard) in [(ServerError::ProducerBusy, 6), (ServerError::ProducerBlockedQuotaExceeded, 9)] {
        let passing = Answer::Error(passing).times(2, Answer::Normal);
        cluster.answer(On::Anywhere, CommandType::Producer, passing);
        cluster.unload("orders", 0);
        in_time(producer.send("0")).await.unwrap();
        assert_eq!(cluster.heard(0, CommandType::Producer), heard);
    }
}

#[tokio::test]
async fn broker_that_is_back_is_used_within_seconds_whatever_the_longest_delay() {
    let cluster = Cluster::start(1).await.unwrap();
    // Delays that an outage of a minute or two leads to with the defaults.
    let slow = Policy::default().attempts(1).delay(Duration::from_secs(60)).max_delay(Duration::from_secs(60));
    let client = Client::builder(cluster.url(0)).recovery(slow).build().unwrap();
    let producer = client.producer("orders").await.unwrap();
    cluster.stop(0).await;
    let sending = producer.send("0");
    in_time(async {
        while producer.trouble().is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    cluster.restart(0).unwrap();
    in_time(sending).await.unwrap();
    assert_eq!(written(&cluster, "orders"), [0]);
}

#[tokio::test]
async fn retry_that_waits_for_an_hour_is_made_at_once_when_the_resolver_publishes_other_addresses() {
    let (ready, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (is_ready, asks) = (Arc::clone(&ready), Arc::clone(&asked));
    let broker = Teller::start_at("0.0.0.0", move |command, url| match command {
        Command::PartitionedMetadata(PartitionedMetadata { topic, request_id, .. })
            if topic.ends_with("orders") && !is_ready.load(Ordering::SeqCst) =>
        {
            asks.fetch_add(1, Ordering::SeqCst);
            let not_ready = PartitionedMetadataResponse {
                request_id: *request_id,
                response: Some(PartitionedType::Failed as i32),
                error: Some(ServerError::ServiceNotReady as i32),
                ..PartitionedMetadataResponse::default()
            };
            vec![not_ready.into()]
        }
        command => usual(command, url),
    })
    .await;
    let server = DnsServer::start().await.unwrap();
    server.zone().a("service.test", 0, ["127.0.0.1"]);
    let dns = DnsOptions::default().nameservers([server.address()]).ipv6(Ipv6::Never).hosts("/nonexistent/hosts");
    let hour = Duration::from_secs(3600);
    let client = Client::builder(format!("pulsar://service.test:{}", broker.address.port()))
        .dns(dns.min_ttl(Duration::from_millis(50)))
        .operation_timeout(24 * hour)
        .recovery(Policy::default().delay(hour).max_delay(hour))
        .build()
        .unwrap();
    // From here on the first addresses are no news.
    in_time(client.partitions("others")).await.unwrap();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.partitions("orders").await }
    });
    until("it is told to come again", || asked.load(Ordering::SeqCst) == 1).await;
    // The same addresses again are no news either.
    let known = server.asked().len();
    until("the resolver asks again", || server.asked().len() > known + 2).await;
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    ready.store(true, Ordering::SeqCst);
    server.zone().a("service.test", 0, ["127.0.0.1", "127.0.0.2"]);
    assert_eq!(in_time(waiting).await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn a_producer_outlives_an_outage_longer_than_an_operation_and_each_send_says_what_is_wrong() {
    let cluster = Cluster::start(1).await.unwrap();
    let soon = Policy::default().delay(Duration::from_millis(10)).max_delay(Duration::from_millis(50));
    let client = Client::builder(cluster.url(0)).operation_timeout(Duration::from_secs(2)).recovery(soon);
    let client = never(client);
    let producer = client.producer("orders").await.unwrap();
    assert!(producer.trouble().is_none());
    cluster.stop(0).await;
    // Three times as long as an operation may take.
    for _ in 0..3 {
        let lost = in_time(producer.send("0")).await.unwrap_err();
        assert!(matches!(lost, Error::TimedOut { what: "the message", source: Some(_), .. }), "{}", told_by(&lost));
    }
    assert!(producer.trouble().is_some());
    cluster.restart(0).unwrap();
    in_time(async { while producer.send("1").await.is_err() {} }).await;
    assert!(producer.trouble().is_none());
    assert_eq!(cluster.written("orders"), cluster.payloads("orders").iter().filter(|sent| **sent == b"1").count());
}

#[tokio::test]
async fn a_producer_whose_broker_answers_nothing_is_begun_again_and_again() {
    let cluster = Cluster::start(1).await.unwrap();
    let soon = Policy::default().delay(Duration::from_millis(10)).max_delay(Duration::from_millis(50));
    let client = never(client(&cluster).operation_timeout(Duration::from_secs(1)).recovery(soon));
    let producer = client.producer("orders").await.unwrap();
    cluster.answer(On::Anywhere, CommandType::Producer, Answer::Ignored.times(3, Answer::Normal));
    cluster.unload("orders", 0);
    in_time(async { while producer.send("0").await.is_err() {} }).await;
    assert!(cluster.heard(0, CommandType::Producer) >= 5, "once in the beginning, three times in vain, and once more");
}

#[tokio::test]
async fn what_a_broker_says_for_good_ends_a_producer_that_has_begun() {
    for why in [ServerError::Authorization, ServerError::TopicTerminated, ServerError::TopicNotFound] {
        let cluster = Cluster::start(1).await.unwrap();
        let client = never(client(&cluster).operation_timeout(Duration::from_secs(1)));
        let producer = client.producer("orders").await.unwrap();
        cluster.answer(On::Anywhere, CommandType::Producer, Answer::Error(why));
        cluster.unload("orders", 0);
        let later = in_time(async {
            loop {
                match producer.send("0").await {
                    Err(error @ (Error::Ended { .. } | Error::Refused { .. })) => break error,
                    Err(_) => {}
                    Ok(id) => panic!("stored at {id}"),
                }
            }
        });
        assert_eq!(refusal(&later.await), Some(why));
    }
}

#[tokio::test]
async fn closing_ends_a_producer_that_looks_for_its_broker() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = never(client(&cluster));
    let (one, other) = (client.producer("orders").await.unwrap(), client.producer("orders").await.unwrap());
    cluster.stop(0).await;
    in_time(async {
        while one.trouble().is_none() || other.trouble().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    in_time(one.close()).await.unwrap();
    in_time(client.close()).await;
    assert!(matches!(other.send("0").await, Err(Error::Closed)));
}

/// Tells the only producer there is that its topic is at an address now.
fn send_away(cluster: &Cluster, to: &str) {
    let producer_id = cluster.connection_list(0)[0].producers[0].id;
    let assigned_broker_service_url = Some(to.to_owned());
    let close = CloseProducer { producer_id, request_id: 0, assigned_broker_service_url, ..CloseProducer::default() };
    let mut bytes = BytesMut::new();
    Codec::default().encode(&close.into(), &mut bytes).unwrap();
    cluster.inject(0, &bytes);
}

#[tokio::test]
async fn an_address_that_makes_no_sense_is_no_reason_to_end_but_to_look_the_topic_up() {
    for nonsense in ["", "http://nowhere", "pulsar://a,b", "pulsar://a..b"] {
        let cluster = Cluster::start(1).await.unwrap();
        let client = never(client(&cluster));
        let producer = client.producer("orders").await.unwrap();
        let begun = cluster.heard(0, CommandType::Producer);
        send_away(&cluster, nonsense);
        in_time(cluster.until(|cluster| cluster.heard(0, CommandType::Producer) > begun)).await;
        in_time(producer.send("0")).await.unwrap();
    }
}

#[tokio::test]
async fn where_nobody_answers_a_producer_waits_for_five_seconds_of_its_time() {
    let cluster = Cluster::start(1).await.unwrap();
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = never(client(&cluster).operation_timeout(Duration::from_secs(3600)));
    let producer = client.producer("orders").await.unwrap();
    send_away(&cluster, &format!("pulsar://{}", silent.local_addr().unwrap()));
    let _accepted = in_time(silent.accept()).await.unwrap();
    advance(Duration::from_secs(5)).await;
    in_time(producer.send("0")).await.unwrap();
}
