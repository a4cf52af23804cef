//! Messages go through: one topic, partitions, several topics, batches, redirects, proxies, tokens.

use crate::support::{client, in_time, number_of, numbers, told_by};
use carom_pulsar::wire::{Command, CommandType, InitialPosition, Lookup, LookupResponse, LookupType};
use carom_pulsar::{Client, Error, Outgoing, ServerError, SubType};
use testkit::pulsar::{Answer, Cluster, On};

#[tokio::test]
async fn what_is_sent_arrives_in_order_and_is_acknowledged() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    let producer = client.producer("orders").await.unwrap();

    let sending: Vec<_> = (0..100).map(|number| producer.send(format!("{number}"))).collect();
    for (number, sending) in sending.into_iter().enumerate() {
        assert_eq!(sending.await.unwrap().entry, number as u64);
    }
    for number in 0..100 {
        let message = consumer.next().await.unwrap();
        assert_eq!(number_of(&message), number);
        consumer.ack(&message).await.unwrap();
    }
    assert_eq!(cluster.backlog("orders", "kitchen"), Some(0));
    assert_eq!(cluster.accepted(0), 1, "everybody shares one connection");

    producer.close().await.unwrap();
    consumer.close().await.unwrap();
    assert!(cluster.producers("orders").is_empty());
    assert_eq!(cluster.consumers("orders", "kitchen"), 0);
}

#[tokio::test]
async fn a_message_carries_its_key_and_properties() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    let producer = client.producer("orders").name("till").await.unwrap();
    producer.send(Outgoing::new("tea").key("table 3").property("milk", "no").event_time(7)).await.unwrap();
    let message = consumer.next().await.unwrap();
    assert_eq!((&message.payload[..], message.key.as_deref()), (&b"tea"[..], Some("table 3")));
    assert_eq!(message.properties, [("milk".to_owned(), "no".to_owned())]);
    assert_eq!((&*message.producer, message.event_time, message.sequence), ("till", Some(7), 0));
}

#[tokio::test]
async fn a_topic_that_is_not_stored_is_read_though_its_messages_have_one_id() {
    let topic = "non-persistent://public/default/orders";
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let mut consumer = client.consumer(topic, "kitchen").await.unwrap();
    let producer = client.producer(topic).await.unwrap();
    // Who has not asked yet misses what is sent.
    cluster.until(|cluster| cluster.connection_list(0)[0].consumers[0].permits > 0).await;
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.push(producer.send(format!("{number}")).await.unwrap());
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(in_time(numbers(&mut consumer, 3)).await, [0, 1, 2]);
}

#[tokio::test]
async fn a_subscription_that_is_cumulative_and_one_that_starts_early() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let producer = client.producer("orders").await.unwrap();
    for number in 0..10 {
        producer.send(format!("{number}")).await.unwrap();
    }
    let early = client.consumer("orders", "audit").initial_position(InitialPosition::Earliest);
    let mut consumer = early.receiver_queue(3).await.unwrap();
    for number in 0..10 {
        let message = consumer.next().await.unwrap();
        assert_eq!(number_of(&message), number);
        if number == 6 {
            consumer.ack_cumulative(&message).await.unwrap();
        }
    }
    assert_eq!(cluster.backlog("orders", "audit"), Some(3));
    consumer.redeliver();
    assert_eq!(number_of(&consumer.next().await.unwrap()), 7);
    consumer.unsubscribe().await.unwrap();
    assert_eq!(cluster.backlog("orders", "audit"), None);
}

#[tokio::test]
async fn partitions_take_turns_and_are_read_together() {
    let cluster = Cluster::start(2).await.unwrap();
    cluster.partitions("orders", 2);
    cluster.own("orders-partition-0", 0);
    cluster.own("orders-partition-1", 1);
    let client = client(&cluster).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").sub_type(SubType::Failover).await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    assert_eq!(producer.partitions(), 2);
    for number in 0..10 {
        let id = producer.send(format!("{number}")).await.unwrap();
        assert_eq!(id.partition, number % 2);
    }
    let mut read = numbers(&mut consumer, 10).await;
    read.sort_unstable();
    assert_eq!(read, (0..10).collect::<Vec<_>>());
    assert_eq!((cluster.log("orders-partition-0").len(), cluster.log("orders-partition-1").len()), (5, 5));
    let keyed = |key: &str| producer.send(Outgoing::new("x").key(key));
    assert_eq!(keyed("a").await.unwrap().partition, keyed("a").await.unwrap().partition);
}

#[tokio::test]
async fn lookups_follow_redirects() {
    let cluster = Cluster::start(3).await.unwrap();
    cluster.own("orders", 2);
    cluster.redirect_lookups(true);
    let client = client(&cluster).build().unwrap();
    client.producer("orders").await.unwrap().send("0").await.unwrap();
    assert_eq!(cluster.log("orders").len(), 1);
    assert_eq!((cluster.heard(0, CommandType::Lookup), cluster.heard(2, CommandType::Lookup)), (1, 1));
}

#[tokio::test]
async fn lookups_that_go_round_in_circles_end() {
    let broker = crate::support::Teller::start(|command, url| match command {
        Command::Lookup(Lookup { request_id, .. }) => {
            let (response, broker_service_url) = (Some(LookupType::Redirect as i32), Some(url.to_owned()));
            let request_id = *request_id;
            vec![LookupResponse { request_id, response, broker_service_url, ..LookupResponse::default() }.into()]
        }
        command => crate::support::usual(command, url),
    })
    .await;
    let client = Client::builder(&broker.url).build().unwrap();
    let refused = client.producer("orders").await.unwrap_err();
    assert!(matches!(refused, Error::Redirects { redirects: 20, .. }), "{refused}");
}

#[tokio::test]
async fn a_broker_behind_a_proxy_has_its_own_connection_to_the_proxy() {
    let cluster = Cluster::start(2).await.unwrap();
    cluster.own("orders", 1);
    cluster.proxy(true);
    let client = client(&cluster).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    client.producer("orders").await.unwrap().send("7").await.unwrap();
    assert_eq!(numbers(&mut consumer, 1).await, [7]);
    assert_eq!((cluster.connections(0), cluster.connections(1)), (2, 0), "all through the proxy");
    let targets: Vec<_> = cluster.connection_list(0).iter().map(|connection| connection.target).collect();
    assert_eq!(targets, [0, 1]);
}

#[tokio::test]
async fn a_token_opens_the_door_and_a_wrong_one_says_why_not() {
    let cluster = Cluster::start(1).await.unwrap();
    cluster.require_token("sesame");
    client(&cluster).token("sesame").build().unwrap().producer("orders").await.unwrap();
    let refused = client(&cluster).token("open").build().unwrap().producer("orders").await.unwrap_err();
    assert!(told_by(&refused).contains("Authentication"), "{}", told_by(&refused));
}

#[tokio::test]
async fn refusals_are_typed() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    cluster.answer(On::topic("forbidden"), CommandType::Producer, Answer::Error(ServerError::Authorization));
    let refused = client.producer("forbidden").await.unwrap_err();
    assert!(matches!(refused, Error::Refused { error: ServerError::Authorization, .. }), "{refused}");
    let _held = client.consumer("orders", "kitchen").await.unwrap();
    let refused = client.consumer("orders", "kitchen").await.unwrap_err();
    assert!(matches!(refused, Error::Refused { error: ServerError::ConsumerBusy, .. }), "{refused}");
    let refused = client.producer("a/b").await.unwrap_err();
    assert!(matches!(refused, Error::Topic(_)), "{refused}");
}

#[tokio::test]
async fn a_message_beyond_the_limit_fails_alone() {
    let cluster = Cluster::start(1).await.unwrap();
    cluster.max_message_size(1000);
    let client = client(&cluster).build().unwrap();
    let producer = client.producer("orders").await.unwrap();
    let (small, large, last) = (producer.send("0"), producer.send(vec![0; 1001]), producer.send("1"));
    small.await.unwrap();
    assert!(matches!(large.await, Err(Error::TooLarge { limit: 1000, .. })));
    last.await.unwrap();
    assert_eq!(cluster.log("orders").len(), 2);
}

#[tokio::test]
async fn a_client_that_is_closed_says_so_to_everybody() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    cluster.answer(On::Anywhere, CommandType::Send, Answer::Ignored);
    let waiting = producer.send("0");
    client.close().await;
    assert!(matches!(waiting.await, Err(Error::Closed)));
    assert!(matches!(producer.send("1").await, Err(Error::Closed)));
    assert!(matches!(consumer.next().await, Err(Error::Closed)));
    assert!(client.producer("orders").await.is_err());
    cluster.until(|cluster| cluster.connections(0) == 0).await;
}
