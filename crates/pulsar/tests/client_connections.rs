//! How many connections there are: shared, kept in place, released, and no more dials than needed.

mod support;

use carom_pulsar::wire::CommandType;
use carom_pulsar::{BuildError, Builder, Client, ServerError};
use std::collections::BTreeSet;
use std::time::Duration;
use support::{client, open};
use testkit::pulsar::{Answer, Cluster, On};
use tokio::task::JoinSet;

fn soon(client: Builder) -> Builder {
    let client = client.connection_max_idle_of_tests(Duration::from_millis(100));
    client.connection_idle_interval(Duration::from_millis(20))
}

#[tokio::test]
async fn options_that_make_no_sense_are_refused() {
    let at = || Client::builder("pulsar://127.0.0.1:6650");
    let refused = |built: Result<Client, BuildError>| match built {
        Err(BuildError::Option { option, .. }) => option,
        Err(error) => panic!("{error}"),
        Ok(client) => panic!("{client:?}"),
    };
    let seconds = Duration::from_secs;
    assert_eq!(refused(at().connection_max_idle(seconds(14)).build()), "connection_max_idle");
    assert_eq!(refused(at().operation_timeout(seconds(0)).build()), "operation_timeout");
    assert_eq!(refused(at().keep_alive(seconds(0)).build()), "keep_alive");
    for max_idle in [None, Some(seconds(15)), Some(seconds(60))] {
        at().connection_max_idle(max_idle).build().unwrap();
    }
    assert!(matches!(Client::builder("http://a").build(), Err(BuildError::Address(_))));
}

#[tokio::test]
async fn a_thousand_lookups_at_once_make_one_dial() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let mut lookups = JoinSet::new();
    for number in 0..1000 {
        let client = client.clone();
        lookups.spawn(async move { client.partitions(&format!("topic-{number}")).await });
    }
    while let Some(lookup) = lookups.join_next().await {
        assert_eq!(lookup.unwrap().unwrap(), 0);
    }
    assert_eq!(cluster.accepted(0), 1);
}

#[tokio::test]
async fn a_producer_that_begins_anew_stays_on_its_connection() {
    // On another of its ten connections it would be busy: its name is still held by the first.
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).connections_per_broker(10).build().unwrap();
    let mut others = Vec::new();
    for number in 0..9 {
        others.push(client.producer(format!("other-{number}")).await.unwrap());
    }
    let producer = client.producer("orders").name("till").await.unwrap();
    let at = |cluster: &Cluster| {
        let connections = cluster.connection_list(0);
        let held = connections.iter().find(|one| one.producers.iter().any(|producer| producer.name == "till"));
        held.map(|connection| connection.id)
    };
    let first = at(&cluster).unwrap();
    assert!(cluster.connections(0) > 5, "they are spread");
    // Nobody holds the other connections any more: by its burden alone it would be any of them.
    for other in others {
        other.close().await.unwrap();
    }
    for round in 1..=20 {
        let (begun, refusal) = (cluster.heard(0, CommandType::Producer), Answer::Error(ServerError::Persistence));
        cluster.answer(On::topic("orders"), CommandType::Send, refusal.times(1, Answer::Normal));
        producer.send("0").await.unwrap();
        assert!(cluster.heard(0, CommandType::Producer) > begun, "round {round}");
        assert_eq!(at(&cluster), Some(first), "round {round}");
    }
}

#[tokio::test]
async fn a_producer_whose_connection_dies_gets_its_place_back() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).connections_per_broker(10).build().unwrap();
    let mut producers = Vec::new();
    for number in 0..5 {
        producers.push(client.producer(format!("topic-{number}")).await.unwrap());
    }
    let places = |client: &Client| -> BTreeSet<usize> {
        let used = client.connections();
        used.iter().filter(|one| one.roles.contains_key("producer")).map(|one| one.place).collect()
    };
    let last = producers.pop().unwrap();
    for other in producers {
        other.close().await.unwrap();
    }
    let before = places(&client);
    assert!(!before.contains(&0), "it would be the first otherwise");
    cluster.disconnect(0);
    last.send("0").await.unwrap();
    assert_eq!(places(&client), before);
}

#[tokio::test]
async fn none_per_broker_is_one_for_each_user() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).connections_per_broker(0).build().unwrap();
    for _ in 0..4 {
        client.partitions("orders").await.unwrap();
    }
    assert_eq!(cluster.accepted(0), 4);
    cluster.until(|cluster| open(cluster) == 0).await;
    let _producer = client.producer("orders").await.unwrap();
    let _consumer = client.consumer("orders", "kitchen").await.unwrap();
    cluster.until(|cluster| open(cluster) == 2).await;
}

#[tokio::test]
async fn five_per_broker_are_five_at_most() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).connections_per_broker(5).build().unwrap();
    let mut producers = Vec::new();
    for number in 0..9 {
        producers.push(client.producer(format!("topic-{number}")).await.unwrap());
    }
    assert!((1..=5).contains(&open(&cluster)));
    for producer in &producers {
        producer.send("0").await.unwrap();
    }
}

#[tokio::test]
async fn a_dropped_producer_and_consumer_are_closed_and_their_connection_released() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = soon(client(&cluster)).build().unwrap();
    let consumer = client.consumer("orders", "kitchen").await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    let last = producer.send("0");
    drop(producer);
    last.await.unwrap();
    drop(consumer);
    cluster.until(|cluster| cluster.producers("orders").is_empty()).await;
    cluster.until(|cluster| cluster.consumers("orders", "kitchen") == 0).await;
    cluster.until(|cluster| open(cluster) == 0).await;
    assert!(client.connections().is_empty());
    client.partitions("orders").await.unwrap();
    assert_eq!(cluster.accepted(0), 2);
}

#[tokio::test]
async fn pings_do_not_keep_a_connection_and_a_request_under_way_does() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = soon(client(&cluster)).connection_max_idle_of_tests(Duration::from_millis(300));
    let client = client.keep_alive(Duration::from_millis(100)).build().unwrap();
    let slow = Answer::Normal.after(Duration::from_millis(900));
    cluster.answer(On::Anywhere, CommandType::PartitionedMetadata, slow);
    client.partitions("orders").await.unwrap();
    assert_eq!(cluster.accepted(0), 1, "it was in use for three times as long as it may be idle");
    assert!(cluster.heard(0, CommandType::Ping) > 3);
    cluster.until(|cluster| open(cluster) == 0).await;
}

#[tokio::test]
async fn what_is_not_to_be_released_stays() {
    let cluster = Cluster::start(2).await.unwrap();
    cluster.own("orders", 0);
    let client = client(&cluster).connection_max_idle(None).build().unwrap();
    let producer = client.producer("orders").await.unwrap();
    cluster.unload("orders", 1);
    producer.send("0").await.unwrap();
    producer.close().await.unwrap();
    assert!(client.connections().iter().all(|connection| connection.leases == 0));
    assert_eq!(open(&cluster), 2);
}

#[tokio::test]
async fn of_a_name_with_two_addresses_the_one_that_works_is_found() {
    // `localhost` is ::1 and 127.0.0.1 where both are known; nobody listens at ::1.
    let cluster = Cluster::start(1).await.unwrap();
    let url = format!("pulsar://localhost:{}", cluster.address(0).port());
    let client = Client::builder(url).operation_timeout(Duration::from_secs(10)).build().unwrap();
    client.producer("orders").await.unwrap().send("0").await.unwrap();
}

#[tokio::test]
async fn of_two_hosts_the_one_that_works_is_asked() {
    let cluster = Cluster::start(2).await.unwrap();
    cluster.stop(0).await;
    let urls = format!("{},{}", cluster.url(0), cluster.address(1));
    let client = Client::builder(urls).operation_timeout(Duration::from_secs(10)).build().unwrap();
    client.producer("orders").await.unwrap().send("0").await.unwrap();
    assert_eq!(cluster.accepted(1), 1);
}
