//! What is read ends well too: permits come back, acknowledgements arrive, nobody waits for somebody who does not read.

use crate::support::{Teller, client, in_time, number_of, numbers, refusal, usual};
use bytes::{Bytes, BytesMut};
use carom_pulsar::wire::{
    self, CloseConsumer, Codec, Command, CommandType, Compression, Frame, MessageIdData, MessageMetadata, Payload,
};
use carom_pulsar::{Client, Error, ServerError, SubType};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;
use testkit::pulsar::{Answer, Cluster, On};

#[tokio::test]
async fn what_is_asked_for_again_comes_even_if_the_queue_was_full() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").receiver_queue(4).await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    for number in 0..8 {
        producer.send(format!("{number}")).await.unwrap();
    }
    // One is on its way to the user, the others fill the queue.
    let permits = |cluster: &Cluster| cluster.connection_list(0)[0].consumers[0].permits;
    cluster.until(|cluster| permits(cluster) == 0).await;
    consumer.redeliver();
    let mut read = vec![];
    while read.last() != Some(&7) {
        read.push(number_of(&in_time(consumer.next()).await.unwrap()));
    }
    assert_eq!(read.iter().rev().take(8).rev().copied().collect::<Vec<_>>(), (0..8).collect::<Vec<_>>(), "{read:?}");
}

#[tokio::test]
async fn an_acknowledgement_that_nobody_waits_for_is_told_to_the_next_broker_before_the_consumer_closes() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    client.producer("orders").await.unwrap().send("0").await.unwrap();
    let message = consumer.next().await.unwrap();
    cluster.answer(On::Anywhere, CommandType::Ack, Answer::Close.times(1, Answer::Normal));
    {
        let mut acking = std::pin::pin!(consumer.ack(&message));
        let polled = std::future::poll_fn(|context| Poll::Ready(acking.as_mut().poll(context))).await;
        assert!(polled.is_pending());
    }
    in_time(consumer.close()).await.unwrap();
    assert_eq!((cluster.accepted(0), cluster.backlog("orders", "kitchen")), (2, Some(0)));
}

#[tokio::test]
async fn closing_a_client_does_not_wait_for_a_consumer_that_nobody_reads() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).operation_timeout(Duration::from_secs(3600)).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    for number in 0..10 {
        producer.send(format!("{number}")).await.unwrap();
    }
    cluster.until(|cluster| cluster.connection_list(0)[0].consumers[0].pending == 10).await;
    in_time(client.close()).await;
    // What was on its way is handed out, then there is no more.
    while let Ok(message) = in_time(consumer.next()).await {
        assert_eq!(number_of(&message), 0);
    }
}

#[tokio::test]
async fn a_consumer_that_is_sent_away_before_it_has_begun_begins_again() {
    let begun = AtomicUsize::new(0);
    let teller = Teller::start(move |command, url| match command {
        Command::Subscribe(subscribe) if begun.fetch_add(1, Ordering::Relaxed) == 0 => {
            vec![CloseConsumer { consumer_id: subscribe.consumer_id, ..CloseConsumer::default() }.into()]
        }
        command => usual(command, url),
    })
    .await;
    let client = Client::builder(&teller.url).build().unwrap();
    let consumer = in_time(client.consumer("orders", "kitchen")).await.unwrap();
    in_time(consumer.close()).await.unwrap();
}

#[tokio::test]
async fn next_can_be_given_up_and_loses_nothing() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").receiver_queue(2).await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    let sender = tokio::spawn(async move {
        for number in 0..100 {
            producer.send(format!("{number}")).await.unwrap();
        }
    });
    let mut read = Vec::new();
    while read.len() < 100 {
        tokio::select! {
            biased;
            message = consumer.next() => read.push(number_of(&message.unwrap())),
            () = tokio::task::yield_now() => {}
        }
    }
    sender.await.unwrap();
    assert_eq!(read, (0..100).collect::<Vec<_>>());
    drop(consumer);
    let mut again = client.consumer("orders", "audit").await.unwrap();
    client.producer("orders").await.unwrap().send("100").await.unwrap();
    assert_eq!(numbers(&mut again, 1).await, [100]);
}

#[tokio::test]
async fn what_an_operator_rewinds_comes_again_and_can_be_acknowledged() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    for number in 0..5 {
        producer.send(format!("{number}")).await.unwrap();
    }
    for _ in 0..2 {
        assert_eq!(in_time(numbers(&mut consumer, 5)).await, [0, 1, 2, 3, 4]);
        assert_eq!(cluster.backlog("orders", "kitchen"), Some(0));
        cluster.rewind("orders", "kitchen");
    }
}

#[tokio::test]
async fn what_is_handed_out_after_redeliver_does_not_come_again_after_a_move() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    producer.send("0").await.unwrap();
    in_time(numbers(&mut consumer, 1)).await;
    // Nothing is left to come again.
    consumer.redeliver();
    producer.send("1").await.unwrap();
    let held = in_time(consumer.next()).await.unwrap();
    assert_eq!(number_of(&held), 1);
    cluster.unload("orders", 0);
    producer.send("2").await.unwrap();
    assert_eq!(number_of(&in_time(consumer.next()).await.unwrap()), 2);
}

/// What the broker sends instead of the first message of the cluster: a compressed batch that says it holds so many messages.
fn compressed(cluster: &Cluster, count: i32) -> Answer {
    let consumer_id = cluster.connection_list(0)[0].consumers[0].id;
    let message_id = MessageIdData { ledger_id: 1, entry_id: 0, ..MessageIdData::default() };
    let metadata = MessageMetadata {
        producer_name: "another".into(),
        compression: Some(Compression::Lz4 as i32),
        num_messages_in_batch: Some(count),
        ..MessageMetadata::default()
    };
    let command = wire::Message { consumer_id, message_id, ..wire::Message::default() };
    let payload = Payload { metadata, payload: Bytes::from_static(b"xx") };
    let mut bytes = BytesMut::new();
    Codec::default().encode(&Frame::with_message(command, payload), &mut bytes).unwrap();
    Answer::Bytes(bytes.to_vec()).times(1, Answer::Normal)
}

#[tokio::test]
async fn a_message_that_cannot_be_read_can_be_acknowledged() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    cluster.answer(On::topic("orders"), CommandType::Message, compressed(&cluster, 1));
    client.producer("orders").await.unwrap().send("0").await.unwrap();
    let Err(Error::Unreadable { topic, id, .. }) = in_time(consumer.next()).await else { panic!("it was read") };
    assert_eq!(cluster.backlog("orders", "kitchen"), Some(1));
    consumer.ack((&*topic, id)).await.unwrap();
    assert_eq!(cluster.backlog("orders", "kitchen"), Some(0));
    let elsewhere = consumer.ack(("persistent://public/default/bills", id)).await.unwrap_err();
    assert!(matches!(elsewhere, Error::Foreign { .. }), "{elsewhere}");
}

#[tokio::test]
async fn message_that_was_not_taken_is_delivered_once_after_a_reconnect() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").sub_type(SubType::Shared).await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    // Each receipt comes after the message before it, on the same connection.
    for number in 0..20 {
        producer.send(format!("{number}")).await.unwrap();
    }
    cluster.until(|cluster| cluster.connection_list(0)[0].consumers[0].pending == 20).await;
    cluster.unload("orders", 0);
    producer.send("20").await.unwrap();
    assert_eq!(in_time(numbers(&mut consumer, 21)).await, (0..=20).collect::<Vec<_>>());
}

/// Frames that deliver entries of ledger 1 as the chunks of one message.
fn chunks(consumer_id: u64, entries: std::ops::Range<u64>, parts: &[&'static str]) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    for (index, (entry_id, part)) in entries.zip(parts).enumerate() {
        let message_id = MessageIdData { ledger_id: 1, entry_id, ..MessageIdData::default() };
        let metadata = MessageMetadata {
            producer_name: "another".into(),
            uuid: Some("another-0".into()),
            num_chunks_from_msg: Some(parts.len() as i32),
            total_chunk_msg_size: Some(parts.concat().len() as i32),
            chunk_id: Some(index as i32),
            ..MessageMetadata::default()
        };
        let command = wire::Message { consumer_id, message_id, ..wire::Message::default() };
        let payload = Payload { metadata, payload: Bytes::from_static(part.as_bytes()) };
        Codec::default().encode(&Frame::with_message(command, payload), &mut bytes).unwrap();
    }
    bytes.to_vec()
}

#[tokio::test]
async fn chunked_message_is_delivered_once_and_acknowledged_as_a_whole() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").sub_type(SubType::Shared).await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    // The entries exist, but the broker sends nothing for them by itself.
    cluster.answer(On::topic("orders"), CommandType::Message, Answer::Ignored);
    for number in 0..3 {
        producer.send(format!("{number}")).await.unwrap();
    }
    cluster.behave();
    let consumer_id = cluster.connection_list(0)[0].consumers[0].id;
    cluster.inject(0, &chunks(consumer_id, 0..3, &["one ", "large ", "message"]));
    let message = in_time(consumer.next()).await.unwrap();
    assert_eq!((&*message.payload, message.id.entry), (&b"one large message"[..], 2));
    assert_eq!(cluster.backlog("orders", "kitchen"), Some(3));
    consumer.ack(&message).await.unwrap();
    assert_eq!(cluster.backlog("orders", "kitchen"), Some(0));
}

#[tokio::test]
async fn a_batch_that_lies_about_its_size_does_not_lift_the_limit_of_the_queue() {
    for count in [i32::MAX, i32::MIN] {
        let cluster = Cluster::start(1).await.unwrap();
        let client = client(&cluster).build().unwrap();
        let mut consumer = client.consumer("orders", "kitchen").receiver_queue(10).await.unwrap();
        let producer = client.producer("orders").await.unwrap();
        cluster.answer(On::topic("orders"), CommandType::Message, compressed(&cluster, count));
        producer.send("0").await.unwrap();
        let unreadable = in_time(consumer.next()).await;
        let Err(Error::Unreadable { topic, id, .. }) = unreadable else { panic!("{unreadable:?}") };
        for number in 1..=50 {
            producer.send(format!("{number}")).await.unwrap();
        }
        let most = cluster.connection_list(0)[0].consumers[0].pending;
        assert!(most <= 1 + 10 + 1, "{most} were sent to a queue of 10, one that was read, and one on its way");
        consumer.ack((&*topic, id)).await.unwrap();
        assert_eq!(in_time(numbers(&mut consumer, 50)).await, (1..=50).collect::<Vec<_>>());
        assert_eq!(cluster.accepted(0), 1, "nobody had to go because of it");
    }
}

#[tokio::test]
async fn a_message_of_another_topic_or_subscription_cannot_be_acknowledged() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    let others = [
        client.consumer("bills", "kitchen").await.unwrap(),
        client.consumer("orders", "audit").sub_type(SubType::Shared).await.unwrap(),
    ];
    // The bills' ledger is the first: all of it is before the order.
    for topic in ["bills", "orders"] {
        client.producer(topic).await.unwrap().send("0").await.unwrap();
    }
    let order = in_time(consumer.next()).await.unwrap();
    for other in &others {
        for refused in [other.ack(&order).await, other.ack_cumulative(&order).await] {
            assert!(matches!(refused, Err(Error::Foreign { .. })), "{refused:?}");
        }
    }
    let left = [("bills", "kitchen"), ("orders", "audit")].map(|(topic, name)| cluster.backlog(topic, name));
    assert_eq!(left, [Some(1), Some(1)]);
    let twice = client.consumer("bills", "audit").topic("persistent://public/default/bills").await.unwrap_err();
    assert!(matches!(twice, Error::Option { option: "topic", .. }), "{twice}");
}

#[tokio::test]
async fn ack_cumulative_is_refused_where_messages_are_shared() {
    for (sub_type, refused) in
        [(SubType::Exclusive, false), (SubType::Failover, false), (SubType::Shared, true), (SubType::KeyShared, true)]
    {
        let cluster = Cluster::start(1).await.unwrap();
        let client = client(&cluster).build().unwrap();
        let mut consumer = client.consumer("orders", "kitchen").sub_type(sub_type).await.unwrap();
        client.producer("orders").await.unwrap().send("0").await.unwrap();
        let message = in_time(consumer.next()).await.unwrap();
        match (in_time(consumer.ack_cumulative(&message)).await, refused) {
            (Ok(()), false) => assert_eq!(cluster.backlog("orders", "kitchen"), Some(0)),
            (Err(Error::CumulativeAck { sub_type: said, .. }), true) => {
                assert_eq!((said, cluster.heard(0, CommandType::Ack)), (sub_type, 0));
                consumer.ack(&message).await.unwrap();
            }
            (outcome, _) => panic!("{sub_type:?}: {outcome:?}"),
        }
    }
}

#[tokio::test]
async fn closing_a_client_does_not_wait_for_a_consumer_that_has_ended_and_that_nobody_reads() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).operation_timeout(Duration::from_secs(3600)).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    for number in 0..3 {
        producer.send(format!("{number}")).await.unwrap();
    }
    let message = in_time(consumer.next()).await.unwrap();
    cluster.until(|cluster| cluster.connection_list(0)[0].consumers[0].pending == 3).await;
    cluster.answer(On::Anywhere, CommandType::Subscribe, Answer::Error(ServerError::Authorization));
    cluster.unload("orders", 0);
    let ended = in_time(async {
        loop {
            if let Err(error) = consumer.ack(&message).await {
                return error;
            }
        }
    });
    let ended = ended.await;
    assert_eq!(refusal(&ended), Some(ServerError::Authorization), "{ended}");
    in_time(client.close()).await;
}

#[tokio::test]
async fn a_close_that_the_broker_never_confirms_says_so() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).operation_timeout(Duration::from_secs(1)).build().unwrap();
    let consumer = client.consumer("orders", "kitchen").await.unwrap();
    cluster.answer(On::Anywhere, CommandType::CloseConsumer, Answer::Ignored);
    let late = in_time(consumer.close()).await.unwrap_err();
    assert!(matches!(late, Error::TimedOut { what: "closing", .. }), "{late}");
}

#[tokio::test]
async fn a_consumer_outlives_an_outage_longer_than_an_operation_may_take() {
    let cluster = Cluster::start(1).await.unwrap();
    let allowed = Duration::from_secs(1);
    let client = client(&cluster).operation_timeout(allowed).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    client.producer("orders").await.unwrap().send("0").await.unwrap();
    let message = in_time(consumer.next()).await.unwrap();
    cluster.stop(0).await;
    // As long as two operations may take, each of which ends by itself.
    for _ in 0..2 {
        let late = in_time(consumer.ack(&message)).await.unwrap_err();
        assert!(matches!(late, Error::TimedOut { what: "the acknowledgement", .. }), "{late}");
    }
    assert!(consumer.trouble().is_some());
    cluster.restart(0).unwrap();
    let again = Client::builder(cluster.url(0)).build().unwrap();
    again.producer("orders").await.unwrap().send("1").await.unwrap();
    assert_eq!(number_of(&in_time(consumer.next()).await.unwrap()), 1);
    assert!(consumer.trouble().is_none());
}

#[tokio::test]
async fn unsubscribing_ends_in_time_where_there_is_no_broker() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).operation_timeout(Duration::from_secs(1)).build().unwrap();
    let consumer = client.consumer("orders", "kitchen").await.unwrap();
    cluster.stop(0).await;
    in_time(async {
        while consumer.trouble().is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let late = in_time(consumer.unsubscribe()).await.unwrap_err();
    assert!(matches!(late, Error::TimedOut { what: "unsubscribing", .. }), "{late}");
}
