//! What is read ends well too: permits come back, acknowledgements arrive, nobody waits for somebody who does not read.

mod support;

use carom_pulsar::Client;
use carom_pulsar::wire::{CloseConsumer, Command, CommandType};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;
use support::{Teller, client, in_time, number_of, numbers, usual};
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
