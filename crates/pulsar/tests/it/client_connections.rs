//! How many connections there are: shared, kept in place, released, and no more dials than needed.

use crate::support::{Teller, client, in_time, open, told_by, usual};
use carom::Policy;
use carom::dns::{DnsOptions, Ipv6};
use carom::set::Idleness;
use carom_pulsar::wire::{Command, CommandType};
use carom_pulsar::{BuildError, Builder, Client, Error, ServerError};
use std::collections::BTreeSet;
use std::time::Duration;
use testkit::dns::{Answer as DnsAnswer, DnsServer, RecordType};
use testkit::pulsar::{Answer, Cluster, On};
use tokio::net::TcpSocket;
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
    for nonsense in [seconds(0), Duration::from_nanos(1), Duration::MAX] {
        assert_eq!(refused(at().connection_max_idle(nonsense).build()), "connection_max_idle");
        assert_eq!(refused(at().connection_max_idle_of_tests(nonsense).build()), "connection_max_idle");
        assert_eq!(refused(at().connection_idle_interval(nonsense).build()), "connection_idle_interval");
        assert_eq!(refused(at().operation_timeout(nonsense).build()), "operation_timeout");
        assert_eq!(refused(at().keep_alive(nonsense).build()), "keep_alive");
    }
    assert_eq!(refused(at().connection_max_idle(seconds(14)).build()), "connection_max_idle");
    let unused = at().connection_max_idle(None).connection_idle_interval(seconds(1));
    assert_eq!(refused(unused.build()), "connection_idle_interval");
    at().connection_max_idle(None).connection_idle_interval(None).build().unwrap();
    assert_eq!(refused(at().operation_timeout(Duration::from_micros(999)).build()), "operation_timeout");
    assert_eq!(refused(at().recovery(Policy::default().attempts(0)).build()), "recovery");
    for delay in [seconds(0), Duration::from_nanos(1)] {
        let hasty = Policy::default().delay(delay);
        assert_eq!(refused(at().recovery(hasty.clone().max_delay(None)).build()), "recovery");
        assert_eq!(refused(at().recovery(hasty).build()), "recovery");
    }
    at().recovery(Policy::default().delay(Duration::from_millis(1))).build().unwrap();
    assert_eq!(refused(at().dns(DnsOptions::default().concurrency(0)).build()), "dns");
    assert_eq!(refused(at().dns(DnsOptions::default().nameservers_at("a..b")).build()), "dns");
    assert_eq!(refused(at().token("").build()), "token");
    at().token("").token_from(String::new).build().unwrap();
    for max_idle in [None, Some(seconds(15)), Some(seconds(60))] {
        at().connection_max_idle(max_idle).build().unwrap();
    }
    assert!(matches!(Client::builder("http://a").build(), Err(BuildError::Address(_))));
}

#[tokio::test]
async fn options_of_producers_and_consumers_that_make_no_sense_are_refused_before_anything_is_asked() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let refused = |error: Error| match error {
        Error::Option { option, .. } => option,
        error => panic!("{error}"),
    };
    let producer = || client.producer("orders");
    assert_eq!(refused(producer().max_pending(0).await.unwrap_err()), "max_pending");
    assert_eq!(refused(producer().max_pending(usize::MAX).await.unwrap_err()), "max_pending");
    assert_eq!(refused(producer().name("").await.unwrap_err()), "name");
    let consumer = || client.consumer("orders", "kitchen");
    assert_eq!(refused(consumer().receiver_queue(0).await.unwrap_err()), "receiver_queue");
    assert_eq!(refused(consumer().receiver_queue(u32::MAX).await.unwrap_err()), "receiver_queue");
    assert_eq!(refused(consumer().name("").await.unwrap_err()), "name");
    assert_eq!(refused(client.consumer("orders", "").await.unwrap_err()), "subscription");
    assert_eq!(cluster.accepted(0), 0);
    producer().max_pending(1).await.unwrap().send("0").await.unwrap();
    consumer().receiver_queue(1).await.unwrap();
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
    let producer = client.producer("orders").await.unwrap();
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    cluster.until(|cluster| open(cluster) == 2).await;
    // Neither has a place to come back to, and both come back.
    cluster.unload("orders", 0);
    in_time(producer.send("0")).await.unwrap();
    assert_eq!(in_time(consumer.next()).await.unwrap().payload, "0");
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
    assert!(cluster.heard(0, CommandType::Ping) > 0);
    cluster.until(|cluster| open(cluster) == 0).await;
}

/// Until a connection that another client has used from now on would be released: all that was due by now is.
async fn until_others_are_released(cluster: &Cluster) {
    let (before, opened) = (open(cluster), cluster.accepted(0));
    let other = soon(client(cluster)).build().unwrap();
    other.partitions("orders").await.unwrap();
    assert_eq!(cluster.accepted(0), opened + 1);
    in_time(async {
        while !other.connections().is_empty() {
            cluster.until(|cluster| open(cluster) <= before).await;
        }
    })
    .await;
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
    until_others_are_released(&cluster).await;
    assert_eq!((open(&cluster), client.connections().len()), (2, 2));
}

#[tokio::test]
async fn found_idle_at_one_look_and_in_use_at_the_next_it_stays() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = soon(client(&cluster)).connection_max_idle_of_tests(Duration::from_millis(300)).build().unwrap();
    client.partitions("orders").await.unwrap();
    let first = client.connections()[0].id;
    in_time(async {
        while !matches!(client.connections()[0].idleness, Idleness::IdleMarked { .. }) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    let producer = client.producer("orders").await.unwrap();
    until_others_are_released(&cluster).await;
    until_others_are_released(&cluster).await;
    until_others_are_released(&cluster).await;
    producer.send("0").await.unwrap();
    let connection = &client.connections()[0];
    assert_eq!((connection.id, connection.idleness, connection.leases), (first, Idleness::Using, 1));
    assert_eq!(cluster.connections(0), 1);
}

#[tokio::test]
async fn a_consumer_that_is_closed_leaves_its_connection_to_be_released() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = soon(client(&cluster)).build().unwrap();
    let consumer = client.consumer("orders", "kitchen").await.unwrap();
    until_others_are_released(&cluster).await;
    assert_eq!(cluster.connections(0), 1, "a consumer that waits for messages is using it");
    consumer.close().await.unwrap();
    in_time(cluster.until(|cluster| open(cluster) == 0)).await;
}

#[tokio::test]
async fn looks_during_a_slow_handshake_leave_it_alone() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = soon(client(&cluster)).build().unwrap();
    // Five times as long as a connection may be idle.
    cluster.answer(On::Anywhere, CommandType::Connect, Answer::Normal.after(Duration::from_millis(500)));
    in_time(client.partitions("orders")).await.unwrap();
    assert_eq!((cluster.accepted(0), cluster.heard(0, CommandType::Connect)), (1, 1));
    in_time(cluster.until(|cluster| open(cluster) == 0)).await;
}

#[tokio::test]
async fn a_dial_that_failed_is_not_remembered() {
    let cluster = Cluster::start(1).await.unwrap();
    cluster.refuse(0).await;
    let hasty = client(&cluster).operation_timeout(Duration::from_secs(2)).build().unwrap();
    let failed = hasty.partitions("orders").await.unwrap_err();
    assert!(matches!(failed, Error::TimedOut { source: Some(_), .. }), "{}", told_by(&failed));
    assert!(told_by(&failed).contains("refused"), "{}", told_by(&failed));
    assert!(hasty.connections().is_empty());
    cluster.restart(0).unwrap();
    in_time(async { while hasty.partitions("orders").await.is_err() {} }).await;
    assert_eq!(cluster.accepted(0), 1);
}

#[tokio::test]
async fn a_broker_that_closes_while_the_client_releases_does_no_harm() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = soon(client(&cluster)).build().unwrap();
    for round in 1..=20 {
        // Whether it was released, closed, or both at once, the next lookup has a connection of its own.
        in_time(client.partitions("orders")).await.unwrap();
        assert_eq!((cluster.accepted(0), client.connections().len()), (round, 1), "round {round}");
        let used = client.connections()[0].last_used;
        let due = used + Duration::from_millis(95 + 2 * round as u64);
        tokio::time::sleep_until(due.into()).await;
        cluster.disconnect(0);
        in_time(async {
            while !client.connections().is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

#[test]
fn a_client_that_is_closed_leaves_no_task_behind() {
    let (here, there) = (tokio::runtime::Runtime::new().unwrap(), tokio::runtime::Runtime::new().unwrap());
    here.block_on(async {
        let cluster = Cluster::start(2).await.unwrap();
        cluster.own("orders", 1);
        let client = soon(client(&cluster)).runtime(there.handle().clone()).build().unwrap();
        let producer = client.producer("orders").await.unwrap();
        let consumer = client.consumer("orders", "kitchen").await.unwrap();
        producer.send("0").await.unwrap();
        assert!(there.metrics().num_alive_tasks() > 2);
        in_time(client.close()).await;
        in_time(async {
            while there.metrics().num_alive_tasks() > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        in_time(cluster.until(|cluster| open(cluster) == 0)).await;
        drop((producer, consumer));
    });
}

#[tokio::test]
async fn of_a_name_with_two_addresses_the_one_that_works_is_found() {
    // The name that the client knows, and the one that lookups give. The dead address of both is the first to be tried.
    let (broker, _deaf) = loop {
        let broker = Teller::start_at("127.0.0.2", |command, url| {
            let port = url.rsplit_once(':').map_or("", |(_, port)| port);
            match command {
                Command::Lookup(_) => usual(command, &format!("pulsar://owner.test:{port}")),
                command => usual(command, url),
            }
        })
        .await;
        let deaf = TcpSocket::new_v4().unwrap();
        // Somebody else may have the same port at the other address.
        if deaf.bind(([127, 0, 0, 1], broker.address.port()).into()).is_ok() {
            break (broker, deaf);
        }
    };
    let port = broker.address.port();
    let server = DnsServer::start().await.unwrap();
    for name in ["service.test", "owner.test"] {
        server.zone().a(name, 60, ["127.0.0.1", "127.0.0.2"]);
    }
    let dns = DnsOptions::default().nameservers([server.address()]).ipv6(Ipv6::Never).hosts("/nonexistent/hosts");
    let at = |name: &str| Client::builder(format!("pulsar://{name}:{port}")).dns(dns.clone()).build().unwrap();
    let client = at("service.test");
    in_time(in_time(client.producer("orders")).await.unwrap().send("0")).await.unwrap();
    let mut to: Vec<_> = client.connections().iter().map(|one| one.backend.to_string()).collect();
    to.sort();
    assert_eq!(to.len(), 2);
    for (to, name) in to.iter().zip(["owner.test", "service.test"]) {
        assert!(to.contains(name) && to.contains("127.0.0.2"), "{to}");
    }

    // Of a name with one address, that one.
    server.zone().a("one.test", 60, ["127.0.0.2"]);
    in_time(at("one.test").partitions("orders")).await.unwrap();
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

#[tokio::test]
async fn whatever_is_asked_of_a_client_that_is_closed_says_that_it_is_closed() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let producer = client.producer("orders").await.unwrap();
    in_time(client.close()).await;
    assert!(matches!(producer.send("0").await, Err(Error::Closed)));
    assert!(matches!(in_time(client.producer("orders")).await, Err(Error::Closed)));
    assert!(matches!(in_time(client.consumer("orders", "kitchen")).await, Err(Error::Closed)));
    assert!(matches!(in_time(client.partitions("orders")).await, Err(Error::Closed)));
    in_time(client.close()).await;
}

#[tokio::test]
async fn a_hundred_who_want_the_same_broker_at_once_resolve_its_name_together() {
    let broker = Teller::start(|command, url| match command {
        Command::Lookup(_) => usual(command, &url.replace("127.0.0.1", "owner.test")),
        command => usual(command, url),
    })
    .await;
    let server = DnsServer::start().await.unwrap();
    server.zone().a("owner.test", 60, ["127.0.0.1"]);
    let dns = DnsOptions::default().nameservers([server.address()]).ipv6(Ipv6::Never).hosts("/nonexistent/hosts");
    // Until all are on their way to the broker.
    server.zone().answer("owner.test", RecordType::A, DnsAnswer::Records.after(Duration::from_secs(1)));
    let client = Client::builder(&broker.url).dns(dns).build().unwrap();
    let mut producers = JoinSet::new();
    for number in 0..100 {
        producers.spawn(client.producer(format!("topic-{number}")).into_future());
    }
    let mut begun = Vec::new();
    while let Some(producer) = in_time(producers.join_next()).await {
        begun.push(producer.unwrap().unwrap());
    }
    let asked = server.count("owner.test", RecordType::A);
    assert!(asked < 10, "on a slow machine some may come late, not all: {asked}");
}
