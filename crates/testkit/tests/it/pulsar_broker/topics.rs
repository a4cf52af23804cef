//! Lookups, logs and subscriptions, as they should be.

use super::client::{Client, End, full, greeting, message, producer, subscribe};
use carom_pulsar::wire::{
    AckType, CloseConsumer, CloseProducer, Command, CommandType, Connect, GetLastMessageId, Lookup, LookupResponse,
    LookupType, PartitionedMetadata, Ping, RedeliverUnacknowledged, ServerError, SubType, TopicsOfNamespace,
    Unsubscribe,
};
use testkit::pulsar::{Cluster, Position};

async fn lookup(client: &mut Client, topic: &str) -> LookupResponse {
    match client.ask(Lookup { topic: full(topic), request_id: 4, ..Lookup::default() }).await {
        Command::LookupResponse(response) => response,
        other => panic!("{other:?}"),
    }
}

fn failed(command: &Command) -> ServerError {
    match command {
        Command::Failure(failure) => ServerError::of(failure.error),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn any_broker_says_who_owns_a_topic() {
    let cluster = Cluster::start(3).await.unwrap();
    cluster.own("t", 2);
    let mut client = Client::connect(&cluster, 0).await;
    let response = lookup(&mut client, "t").await;
    assert_eq!(response.response, Some(LookupType::Connect as i32));
    assert_eq!(response.broker_service_url, Some(cluster.url(2)));
    assert_eq!(response.proxy_through_service_url, Some(false));

    cluster.redirect_lookups(true);
    let response = lookup(&mut client, "t").await;
    assert_eq!(response.response, Some(LookupType::Redirect as i32));
    let mut owner = Client::connect(&cluster, 2).await;
    let response = lookup(&mut owner, "t").await;
    assert_eq!(response.response, Some(LookupType::Connect as i32));
    assert_eq!((cluster.heard(0, CommandType::Lookup), cluster.heard(2, CommandType::Lookup)), (2, 1));

    // Topics that nobody has are spread.
    for topic in ["a", "b"] {
        lookup(&mut client, topic).await;
    }
    assert_eq!((cluster.owner("a"), cluster.owner("b")), (Some(0), Some(1)));
    let answer = client.ask(producer("t", 1, None)).await;
    assert_eq!(failed(&answer), ServerError::ServiceNotReady, "another owns it");
}

#[tokio::test]
async fn a_broker_leads_to_another_as_a_proxy() {
    let cluster = Cluster::start(2).await.unwrap();
    cluster.own("t", 1);
    cluster.proxy(true);
    let mut client = Client::raw(cluster.address(0)).await;
    let broker = Some(cluster.address(1).to_string());
    client.say(Connect { proxy_to_broker_url: broker, ..greeting() }).await;
    assert!(matches!(client.hear().await, Command::Connected(_)));
    assert_eq!(lookup(&mut client, "t").await.proxy_through_service_url, Some(true));
    client.produce("t", 1, None).await;
    let seen = &cluster.connection_list(0)[0];
    assert_eq!((seen.target, seen.producers.len()), (1, 1));
}

#[tokio::test]
async fn partitions_and_namespaces_are_told() {
    let cluster = Cluster::start(1).await.unwrap();
    cluster.partitions("many", 3);
    let mut client = Client::connect(&cluster, 0).await;
    for (topic, count) in [("many", 3), ("one", 0), ("many-partition-1", 0)] {
        match client.ask(PartitionedMetadata { topic: full(topic), request_id: 1, ..Default::default() }).await {
            Command::PartitionedMetadataResponse(response) => assert_eq!(response.partitions, Some(count)),
            other => panic!("{other:?}"),
        }
    }
    lookup(&mut client, "one").await;
    match client.ask(TopicsOfNamespace { namespace: "public/default".into(), ..Default::default() }).await {
        Command::TopicsOfNamespaceResponse(response) => {
            let names = ["many-partition-0", "many-partition-1", "many-partition-2", "one"];
            assert_eq!(response.topics, names.map(full));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_sent_is_stored_and_delivered_while_there_are_permits() {
    let cluster = Cluster::start(1).await.unwrap();
    let mut client = Client::connect(&cluster, 0).await;
    assert_eq!(client.produce("t", 1, Some("me")).await.producer_name, "me");
    client.subscribe("t", 9, SubType::Exclusive).await;
    for (sequence, text) in ["a", "b", "c"].into_iter().enumerate() {
        let id = client.send(1, sequence as u64, text).await;
        assert_eq!((id.ledger_id, id.entry_id), (1, sequence as u64));
    }
    let log = cluster.log("t");
    assert_eq!(cluster.payloads("t"), [b"a", b"b", b"c"]);
    assert_eq!((log[2].producer.as_str(), log[2].sequence, log[2].messages), ("me", 2, 1));
    assert_eq!(log[2].position, Position { ledger: 1, entry: 2 });

    client.flow(9, 2).await;
    let first = client.receive().await.0.message_id;
    assert_eq!(client.receive().await.1, "b");
    assert!(matches!(client.ask(Ping {}).await, Command::Pong(_)), "no permit, no message");
    client.flow(9, 1).await;
    let (third, text) = client.receive().await;
    assert_eq!(text, "c");
    client.ack(9, first, AckType::Individual).await;
    assert_eq!(cluster.backlog("t", "s"), Some(2));
    client.ack(9, third.message_id.clone(), AckType::Cumulative).await;
    assert_eq!(cluster.backlog("t", "s"), Some(0));

    let last = client.ask(GetLastMessageId { consumer_id: 9, request_id: 1 }).await;
    assert!(matches!(&last, Command::GetLastMessageIdResponse(last) if last.last_message_id.entry_id == 2), "{last:?}");
    let end = client.ask(Unsubscribe { consumer_id: 9, request_id: 1, force: None }).await;
    assert!(matches!(end, Command::Success(_)));
    assert_eq!(cluster.backlog("t", "s"), None);
}

#[tokio::test]
async fn what_is_not_acknowledged_comes_again() {
    let cluster = Cluster::start(1).await.unwrap();
    let mut client = Client::connect(&cluster, 0).await;
    client.produce("t", 1, None).await;
    for (sequence, text) in ["a", "b", "c"].into_iter().enumerate() {
        client.send(1, sequence as u64, text).await;
    }
    let mut first = Client::connect(&cluster, 0).await;
    let mut second = Client::connect(&cluster, 0).await;
    first.subscribe("t", 1, SubType::Shared).await;
    second.subscribe("t", 1, SubType::Shared).await;
    first.flow(1, 10).await;
    let (a, b) = (first.receive().await, first.receive().await);
    first.receive().await;
    first.ack(1, b.0.message_id, AckType::Individual).await;
    // One of them on demand, to whoever may have it: the other has no permits.
    let message_ids = vec![a.0.message_id];
    first.say(RedeliverUnacknowledged { consumer_id: 1, message_ids, consumer_epoch: None }).await;
    let (again, text) = first.receive().await;
    assert_eq!((text.as_str(), again.redelivery_count), ("a", Some(1)));
    // And all when its consumer goes.
    second.flow(1, 10).await;
    drop(first);
    let (a, c) = (second.receive().await, second.receive().await);
    assert_eq!((a.1.as_str(), a.0.redelivery_count, c.1.as_str()), ("a", Some(2), "c"));
    let close = CloseConsumer { consumer_id: 1, request_id: 3, ..Default::default() };
    assert!(matches!(second.ask(close).await, Command::Success(_)));
    assert_eq!(cluster.backlog("t", "s"), Some(2));
}

#[tokio::test]
async fn the_next_takes_over_a_failover_subscription() {
    let cluster = Cluster::start(1).await.unwrap();
    let mut writer = Client::connect(&cluster, 0).await;
    writer.produce("t", 1, None).await;
    let (mut first, mut second) = (Client::connect(&cluster, 0).await, Client::connect(&cluster, 0).await);
    for (client, active) in [(&mut first, true), (&mut second, false)] {
        client.subscribe("t", 5, SubType::Failover).await;
        let told = client.hear().await;
        assert!(matches!(told, Command::ActiveConsumerChange(told) if told.is_active == Some(active)));
        client.flow(5, 10).await;
    }
    writer.send(1, 0, "a").await;
    assert_eq!(first.receive().await.1, "a");
    drop(first);
    assert!(matches!(second.hear().await, Command::ActiveConsumerChange(told) if told.is_active == Some(true)));
    assert_eq!(second.receive().await.1, "a");
}

#[tokio::test]
async fn names_and_exclusive_places_are_taken_once() {
    let cluster = Cluster::start(1).await.unwrap();
    let (mut one, mut two) = (Client::connect(&cluster, 0).await, Client::connect(&cluster, 0).await);
    one.produce("t", 1, Some("me")).await;
    let busy = two.ask(producer("t", 1, Some("me"))).await;
    assert_eq!(failed(&busy), ServerError::ProducerBusy);
    one.subscribe("t", 1, SubType::Exclusive).await;
    for sub_type in [SubType::Exclusive, SubType::Shared] {
        let busy = two.ask(subscribe("t", 1, sub_type)).await;
        assert_eq!(failed(&busy), ServerError::ConsumerBusy);
    }
    // A later self on the same connection, with a name that the broker gave.
    let mut later = producer("t", 2, Some("me"));
    (later.epoch, later.user_provided_producer_name) = (Some(1), Some(false));
    assert!(matches!(one.ask(later).await, Command::ProducerSuccess(_)));
    drop(one);
    cluster.until(|cluster| cluster.connections(0) == 1).await;
    two.produce("t", 1, Some("me")).await;
    two.subscribe("t", 1, SubType::Shared).await;
    let close = CloseProducer { producer_id: 1, request_id: 3, ..Default::default() };
    assert!(matches!(two.ask(close.clone()).await, Command::Success(_)));
    assert_eq!(failed(&two.ask(close).await), ServerError::Unknown);
    assert_eq!((cluster.producers("t").len(), cluster.accepted(0)), (0, 2));
}

#[tokio::test]
async fn duplicates_are_stored_once_if_asked_for() {
    let cluster = Cluster::start(1).await.unwrap();
    cluster.deduplicate(true);
    let mut client = Client::connect(&cluster, 0).await;
    assert_eq!(client.produce("t", 1, Some("me")).await.last_sequence_id, Some(-1));
    client.send(1, 0, "a").await;
    let again = client.send(1, 0, "a").await;
    assert_eq!(again.ledger_id as i64, -1);
    client.send(1, 1, "b").await;
    assert_eq!(cluster.payloads("t"), [b"a", b"b"]);
    assert_eq!(client.produce("t", 1, Some("me")).await.last_sequence_id, Some(1));
}

#[tokio::test]
async fn what_nobody_subscribes_to_need_not_be_kept() {
    let cluster = Cluster::start(1).await.unwrap();
    cluster.keep_unsubscribed(false);
    let mut client = Client::connect(&cluster, 0).await;
    client.produce("t", 1, None).await;
    client.send(1, 0, "a").await;
    assert_eq!(client.send(1, 1, "b").await.entry_id, 1, "entries are counted all the same");
    assert_eq!(cluster.payloads("t"), [b"b"]);
    client.subscribe("t", 2, SubType::Exclusive).await;
    client.send(1, 2, "c").await;
    client.send(1, 3, "d").await;
    assert_eq!(cluster.payloads("t"), [b"b", b"c", b"d"]);
}

#[tokio::test]
async fn who_has_no_token_is_refused() {
    let cluster = Cluster::start(1).await.unwrap();
    cluster.require_token("secret");
    let token = |token: &'static str| Connect {
        auth_method_name: Some("token".into()),
        auth_data: Some(token.as_bytes().into()),
        ..greeting()
    };
    for connect in [greeting(), token("guess")] {
        let mut client = Client::raw(cluster.address(0)).await;
        assert_eq!(failed(&client.ask(connect).await), ServerError::Authentication);
        assert!(matches!(client.frame().await, Err(End::Closed)));
    }
    let mut client = Client::raw(cluster.address(0)).await;
    assert!(matches!(client.ask(token("secret")).await, Command::Connected(_)));
}

#[tokio::test]
async fn who_sends_without_a_producer_is_cut_off() {
    let cluster = Cluster::start(1).await.unwrap();
    let mut client = Client::connect(&cluster, 0).await;
    client.say(message(1, 0, "a")).await;
    assert!(matches!(client.frame().await, Err(End::Closed)));
    assert_eq!(cluster.connections(0), 0);
}
