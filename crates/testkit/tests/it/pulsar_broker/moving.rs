//! Topics move, brokers die.

use super::client::{Client, End, message, producer};
use carom_pulsar::wire::{Command, Ping, SubType};
use testkit::pulsar::Cluster;
use tokio::net::TcpStream;

#[tokio::test]
async fn an_unloaded_topic_sends_its_clients_away_and_keeps_its_messages() {
    let cluster = Cluster::start(2).await.unwrap();
    cluster.own("t", 0);
    let mut old = Client::connect(&cluster, 0).await;
    old.produce("t", 1, Some("me")).await;
    old.send(1, 0, "a").await;
    old.subscribe("t", 2, SubType::Exclusive).await;
    old.flow(2, 10).await;
    assert_eq!(old.receive().await.1, "a");

    cluster.unload("t", 1);
    match (old.hear().await, old.hear().await) {
        (Command::CloseProducer(producer), Command::CloseConsumer(consumer)) => {
            assert_eq!((producer.producer_id, producer.assigned_broker_service_url), (1, None));
            assert_eq!((consumer.consumer_id, consumer.assigned_broker_service_url), (2, None));
        }
        other => panic!("{other:?}"),
    }
    // What was on the way is not stored, and the connection stays.
    old.say(message(1, 1, "late")).await;
    assert!(matches!(old.ask(Ping {}).await, Command::Pong(_)));
    assert!(matches!(old.ask(producer("t", 1, Some("me"))).await, Command::Failure(_)));
    let seen = &cluster.connection_list(0)[0];
    assert!(seen.producers.is_empty() && seen.consumers.is_empty(), "{seen:?}");

    let mut new = Client::connect(&cluster, 1).await;
    new.produce("t", 1, Some("me")).await;
    let id = new.send(1, 1, "b").await;
    assert_eq!((id.ledger_id, id.entry_id), (2, 0), "the new owner begins a ledger");
    new.subscribe("t", 1, SubType::Exclusive).await;
    new.flow(1, 10).await;
    assert_eq!([new.receive().await.1, new.receive().await.1], ["a", "b"]);
}

#[tokio::test]
async fn the_new_owner_may_be_named() {
    let cluster = Cluster::start(2).await.unwrap();
    cluster.own("t", 0);
    cluster.own("u", 0);
    let mut client = Client::connect(&cluster, 0).await;
    client.produce("t", 1, None).await;
    client.produce("u", 2, None).await;
    cluster.unload_assigned("t", 1);
    let told = client.hear().await;
    assert!(
        matches!(&told, Command::CloseProducer(told) if told.assigned_broker_service_url == Some(cluster.url(1))),
        "{told:?}"
    );
    cluster.shed(0, 1);
    let told = client.hear().await;
    assert!(matches!(&told, Command::CloseProducer(told) if told.producer_id == 2), "{told:?}");
    assert_eq!((cluster.owner("t"), cluster.owner("u")), (Some(1), Some(1)));
}

#[tokio::test]
async fn a_stopped_broker_is_gone_and_its_topics_go_to_others() {
    let cluster = Cluster::start(2).await.unwrap();
    cluster.own("t", 0);
    let mut client = Client::connect(&cluster, 0).await;
    client.produce("t", 1, Some("me")).await;
    client.send(1, 0, "a").await;
    cluster.stop(0).await;
    assert!(matches!(client.frame().await, Err(End::Closed)));
    assert!(TcpStream::connect(cluster.address(0)).await.is_err());
    assert_eq!(cluster.owner("t"), None);

    let mut client = Client::connect(&cluster, 1).await;
    client.produce("t", 1, Some("me")).await;
    assert_eq!(cluster.owner("t"), Some(1));
    assert_eq!(cluster.payloads("t"), [b"a"]);

    cluster.restart(0).unwrap();
    Client::connect(&cluster, 0).await;
    cluster.refuse(1).await;
    assert!(TcpStream::connect(cluster.address(1)).await.is_err());
    client.send(1, 1, "b").await;
    cluster.restart(1).unwrap();
    Client::connect(&cluster, 1).await;
    assert_eq!((cluster.accepted(0), cluster.accepted(1)), (2, 2));
}
