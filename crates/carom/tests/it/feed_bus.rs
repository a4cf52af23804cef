//! The memory bus: by prefix, never waiting for those who are slow.

use bytes::Bytes;
use carom::feed::bus::{BACKLOG_BYTES, Bus};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn messages_go_to_all_whose_prefix_fits_in_order() {
    let bus = Bus::memory();
    let (mut all, mut nse, mut none) = (bus.subscribe(""), bus.subscribe("NSE_"), bus.subscribe("MCX_"));
    for (topic, payload) in [("NSE_SBIN_LTP", "1"), ("BSE_SBIN_LTP", "2"), ("NSE_INFY_QUOTE", "3")] {
        bus.clone().publish(topic, payload);
    }
    drop(bus);
    let mut seen = Vec::new();
    while let Some(message) = all.next().await {
        seen.push(message.topic.to_string());
    }
    assert_eq!(seen, ["NSE_SBIN_LTP", "BSE_SBIN_LTP", "NSE_INFY_QUOTE"]);
    assert_eq!(nse.next().await.unwrap().payload, "1");
    assert_eq!(nse.next().await.unwrap().payload, "3");
    assert_eq!((nse.next().await, none.next().await), (None, None), "the bus is gone");
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_misses_the_oldest_counted_and_costs_the_others_nothing() {
    let bus = Bus::memory();
    let (mut slow, mut quick) = (bus.subscribe_with_backlog("", 10), bus.subscribe(""));
    for number in 0..100_u8 {
        bus.publish("T", vec![number]);
    }
    assert_eq!((slow.missed(), quick.missed()), (90, 0));
    let first = slow.next().await.unwrap().payload;
    assert_eq!(&*first, &[90]);
    for number in 0..100_u8 {
        assert_eq!(&*quick.next().await.unwrap().payload, &[number]);
    }
    // Giving up while waiting loses nothing.
    assert!(tokio::time::timeout(Duration::from_secs(1), quick.next()).await.is_err());
    bus.publish("T", "later");
    assert_eq!(quick.next().await.unwrap().payload, "later");
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_woken_by_a_message_and_by_the_end() {
    let bus = Bus::memory();
    let mut waiting = bus.subscribe("NSE_");
    let reader =
        tokio::spawn(async move { (waiting.next().await.map(|message| message.payload), waiting.next().await) });
    tokio::task::yield_now().await;
    bus.publish("NSE_SBIN_LTP", "1");
    tokio::task::yield_now().await;
    drop(bus);
    assert_eq!(reader.await.unwrap(), (Some("1".into()), None));
}

#[tokio::test]
async fn all_that_waits_is_read_in_one_go() {
    let bus = Bus::memory();
    let mut messages = bus.subscribe("");
    for number in 1..=3u8 {
        bus.publish("T", vec![number]);
    }
    let mut read = Vec::new();
    assert!(messages.next_many(&mut read).await);
    assert_eq!(read.iter().map(|message| message.payload[0]).collect::<Vec<_>>(), [1, 2, 3]);
    drop(bus);
    assert!(!messages.next_many(&mut read).await, "there will be no more");
    assert_eq!(read.len(), 3, "nothing is read twice");
}

#[tokio::test]
async fn few_large_messages_are_as_many_as_may_wait() {
    let bus = Bus::memory();
    let mut messages = bus.subscribe_with_backlog("", 1_000_000);
    let (megabyte, too_large) = (Bytes::from(vec![0; 1 << 20]), Bytes::from(vec![0; BACKLOG_BYTES + 1]));
    for _ in 0..200 {
        bus.publish("", megabyte.clone());
    }
    assert_eq!(messages.missed(), 200 - 64);
    assert_eq!(messages.next().await.unwrap().payload.len(), 1 << 20);
    bus.publish("", megabyte.clone());
    assert_eq!(messages.missed(), 200 - 64, "what was read makes room");
    let mut read = Vec::new();
    messages.next_many(&mut read).await;
    assert_eq!(read.len(), 64);
    bus.publish("", megabyte);
    bus.publish("", too_large);
    assert_eq!((messages.missed(), messages.next().await.unwrap().payload.len()), (200 - 63, BACKLOG_BYTES + 1));
    for _ in 0..1_000 {
        bus.publish("T", "small");
    }
    assert_eq!(messages.missed(), 200 - 63);
}
