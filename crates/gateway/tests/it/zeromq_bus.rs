//! A bus on ZeroMQ: who binds, who connects, late or again, too slow or making no sense.

use carom_gateway::bus::{Bus, HIGH_WATER, Message, Subscription, ZeroMq, ZeroMqStatus};
use carom_zmtp::SocketError;
use carom_zmtp::pubsub::{Encoded, Event, Limits, Role, Socket};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use testkit::wait::soon;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Nothing takes this long unless it is broken.
const LONG: Duration = Duration::from_secs(300);

const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

async fn until(zeromq: &ZeroMq, condition: impl Fn(&ZeroMqStatus) -> bool) {
    let wait = async {
        while !condition(&zeromq.status()) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(LONG, wait).await.unwrap_or_else(|_| panic!("never: {:?}", zeromq.status()));
}

async fn publisher(zeromq: &ZeroMq) -> Socket {
    let mut socket = connect(zeromq, Role::Publisher).await;
    assert_eq!(soon(socket.next()).await.unwrap(), Event::Subscribed("".into()), "to everything");
    socket
}

async fn connect(zeromq: &ZeroMq, role: Role) -> Socket {
    soon(Socket::connect(zeromq.local_addr(), role, Limits::default())).await.unwrap()
}

async fn say(socket: &mut Socket, parts: &[&[u8]]) {
    socket.push(&Encoded::new(parts)).unwrap();
    soon(socket.flush()).await.unwrap();
}

async fn heard(messages: &mut Subscription) -> (String, String) {
    let Message { topic, payload } = soon(messages.next()).await.expect("a bus");
    (topic.to_string(), String::from_utf8(payload.to_vec()).unwrap())
}

fn pair(topic: &str, payload: &str) -> (String, String) {
    (topic.to_owned(), payload.to_owned())
}

/// A subscriber that has these prefixes: a message that is published for it until it comes says that it has.
async fn subscriber(zeromq: &ZeroMq, prefixes: &[&str]) -> Socket {
    let mut socket = connect(zeromq, Role::Subscriber).await;
    for prefix in prefixes.iter().chain(&["ready"]) {
        socket.subscribe(prefix.as_bytes()).unwrap();
    }
    let bus = Bus::from(zeromq.clone());
    let ready = async {
        loop {
            bus.publish("ready", "");
            if let Ok(event) = timeout(Duration::from_millis(10), socket.next()).await {
                return event.unwrap();
            }
        }
    };
    assert_eq!(soon(ready).await, Event::Message(vec!["ready".into(), "".into()]));
    socket.unsubscribe(b"ready").unwrap();
    soon(socket.flush()).await.unwrap();
    socket
}

/// The next message that is not about being ready.
async fn received(socket: &mut Socket) -> Result<(String, String), SocketError> {
    loop {
        if let Event::Message(parts) = soon(socket.next()).await? {
            let parts: Vec<_> = parts.iter().map(|part| str::from_utf8(part).unwrap().to_owned()).collect();
            let [topic, payload] = parts.try_into().expect("two frames");
            if topic != "ready" {
                return Ok((topic, payload));
            }
        }
    }
}

#[tokio::test]
async fn any_number_of_publishers_come_late_and_leave_and_come_back() {
    let zeromq = ZeroMq::bind_sub(ANYWHERE).await.unwrap();
    let mut messages = Bus::from(zeromq.clone()).subscribe("");
    let mut first = publisher(&zeromq).await;
    say(&mut first, &[b"NSE_SBIN_LTP", b"1"]).await;
    assert_eq!(heard(&mut messages).await, pair("NSE_SBIN_LTP", "1"));
    let mut second = publisher(&zeromq).await;
    say(&mut second, &[b"NSE_INFY_LTP", b"2"]).await;
    assert_eq!(heard(&mut messages).await, pair("NSE_INFY_LTP", "2"));
    until(&zeromq, |status| status.peers == 2).await;
    drop(first);
    until(&zeromq, |status| status.peers == 1).await;
    let mut again = publisher(&zeromq).await;
    say(&mut again, &[b"NSE_SBIN_LTP", b"3"]).await;
    assert_eq!(heard(&mut messages).await, pair("NSE_SBIN_LTP", "3"));
    let status = zeromq.status();
    assert_eq!((status.malformed, status.dropped, status.refused), (0, 0, 0));
}

#[tokio::test]
async fn a_bus_that_starts_again_has_the_port_and_a_port_that_is_taken_is_an_error() {
    let zeromq = ZeroMq::bind_sub(ANYWHERE).await.unwrap();
    let address = zeromq.local_addr();
    let mut peer = publisher(&zeromq).await;
    for taken in [ZeroMq::bind_sub(address).await, ZeroMq::bind_pub(address).await] {
        let error = taken.expect_err("a port is taken");
        assert_eq!((error.address, error.to_string()), (address, format!("cannot bind ZeroMQ to {address}")));
        let source = error.source().unwrap().downcast_ref::<std::io::Error>().unwrap();
        assert_eq!(source.kind(), std::io::ErrorKind::AddrInUse);
    }
    drop(zeromq);
    assert!(matches!(soon(peer.next()).await, Err(SocketError::Closed | SocketError::Io(_))));
    let zeromq = soon(bind_when_free(address)).await;
    let mut messages = Bus::from(zeromq.clone()).subscribe("");
    let mut peer = publisher(&zeromq).await;
    say(&mut peer, &[b"NSE_SBIN_LTP", b"1"]).await;
    assert_eq!(heard(&mut messages).await, pair("NSE_SBIN_LTP", "1"));
}

/// The listener ends a moment after its bus was dropped.
async fn bind_when_free(address: SocketAddr) -> ZeroMq {
    loop {
        match ZeroMq::bind_sub(address).await {
            Ok(zeromq) => return zeromq,
            Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
        }
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_counted_and_the_next_message_comes() {
    let zeromq = ZeroMq::bind_sub(ANYWHERE).await.unwrap();
    let mut messages = Bus::from(zeromq.clone()).subscribe("");
    let mut peer = publisher(&zeromq).await;
    let long = vec![b'x'; 2 << 20];
    let senseless: [&[&[u8]]; 8] = [
        &[b"NSE_SBIN_LTP"],
        &[b""],
        &[b"NSE_SBIN_LTP", b"{}", b"{}"],
        &[b"1", b"2", b"3", b"4", &long],
        &[b"NSE_\xff_LTP", b"{}"],
        &[&long[..300], b"{}"],
        &[b"NSE_SBIN_LTP", &long],
        &[&long, b"{}"],
    ];
    for (count, parts) in (1..).zip(senseless) {
        say(&mut peer, parts).await;
        say(&mut peer, &[b"NSE_SBIN_LTP", count.to_string().as_bytes()]).await;
        assert_eq!(heard(&mut messages).await, pair("NSE_SBIN_LTP", &count.to_string()));
        assert_eq!(zeromq.status().malformed, count);
    }
    assert_eq!(zeromq.status().peers, 1, "and the connection is the same");
}

#[tokio::test]
async fn who_speaks_something_else_is_turned_away_and_nobody_else_is() {
    let zeromq = ZeroMq::bind_sub(ANYWHERE).await.unwrap();
    let mut messages = Bus::from(zeromq.clone()).subscribe("");
    let mut peer = publisher(&zeromq).await;
    let mut browser = TcpStream::connect(zeromq.local_addr()).await.unwrap();
    browser.write_all(&[b'G'; 64]).await.unwrap();
    let mut said = Vec::new();
    // A reset says the same.
    let _ = soon(browser.read_to_end(&mut said)).await;
    let same = soon(Socket::connect(zeromq.local_addr(), Role::Subscriber, Limits::default())).await;
    assert!(same.is_err(), "two that subscribe have nothing to say to each other");
    until(&zeromq, |status| status.refused == 2 && status.peers == 1).await;
    say(&mut peer, &[b"NSE_SBIN_LTP", b"1"]).await;
    assert_eq!(heard(&mut messages).await, pair("NSE_SBIN_LTP", "1"));
}

#[tokio::test]
async fn subscribers_get_what_they_subscribe_to_from_then_on() {
    let zeromq = ZeroMq::bind_pub(ANYWHERE).await.unwrap();
    let bus = Bus::from(zeromq.clone());
    let mut here = bus.subscribe("NSE_");
    bus.publish("NSE_SBIN_LTP", "0");
    let mut all = subscriber(&zeromq, &[""]).await;
    let mut some = subscriber(&zeromq, &["NSE_SBIN", "BSE_"]).await;
    for (topic, payload) in [("NSE_SBIN_LTP", "1"), ("NSE_INFY_LTP", "2"), ("BSE_SBIN_LTP", "3")] {
        bus.publish(topic, payload);
    }
    for (topic, payload) in [("NSE_SBIN_LTP", "1"), ("NSE_INFY_LTP", "2"), ("BSE_SBIN_LTP", "3")] {
        assert_eq!(received(&mut all).await.unwrap(), pair(topic, payload), "in their order, and none from before");
    }
    assert_eq!(received(&mut some).await.unwrap(), pair("NSE_SBIN_LTP", "1"));
    assert_eq!(received(&mut some).await.unwrap(), pair("BSE_SBIN_LTP", "3"));
    for payload in ["0", "1", "2"] {
        assert_eq!(heard(&mut here).await.1, payload, "and so does this process");
    }
    drop(all);
    until(&zeromq, |status| status.peers == 1).await;
    let mut again = subscriber(&zeromq, &["NSE_"]).await;
    bus.publish("NSE_SBIN_LTP", "4");
    assert_eq!(received(&mut again).await.unwrap(), pair("NSE_SBIN_LTP", "4"));
}

#[tokio::test]
async fn what_is_not_wanted_any_more_does_not_come() {
    let zeromq = ZeroMq::bind_pub(ANYWHERE).await.unwrap();
    let bus = Bus::from(zeromq.clone());
    let mut socket = subscriber(&zeromq, &["NSE_", "BSE_"]).await;
    socket.unsubscribe(b"NSE_").unwrap();
    soon(socket.flush()).await.unwrap();
    let heeded = async {
        loop {
            bus.publish("NSE_SBIN_LTP", "1");
            bus.publish("BSE_SBIN_LTP", "2");
            let first = received(&mut socket).await.unwrap();
            if first == pair("BSE_SBIN_LTP", "2") {
                return;
            }
            assert_eq!(received(&mut socket).await.unwrap(), pair("BSE_SBIN_LTP", "2"));
        }
    };
    soon(heeded).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_that_stops_reading_misses_what_is_counted_and_the_others_nothing() {
    let zeromq = ZeroMq::bind_pub(ANYWHERE).await.unwrap();
    let bus = Bus::from(zeromq.clone());
    let mut stalls = subscriber(&zeromq, &["NSE_"]).await;
    let mut reads = subscriber(&zeromq, &["NSE_"]).await;
    let large = "x".repeat(4000);
    let mut published = 0_usize;
    // The system's own queues are filled first, however long they are.
    while zeromq.status().dropped < 500 {
        bus.publish("NSE_SBIN_LTP", format!("{published} {large}"));
        let (_, payload) = received(&mut reads).await.unwrap();
        assert_eq!(payload.split(' ').next(), Some(published.to_string().as_str()), "every one of them");
        published += 1;
    }
    let kept = published - usize::try_from(zeromq.status().dropped).unwrap();
    assert!(kept >= HIGH_WATER, "{kept} of {published}");
    let mut last = None;
    for _ in 0..kept {
        let (_, payload) = received(&mut stalls).await.unwrap();
        let number: usize = payload.split(' ').next().unwrap().parse().unwrap();
        assert!(last.is_none_or(|last| last < number), "{number} after {last:?}");
        last = Some(number);
    }
    // There is room again, and nothing else waited.
    bus.publish("NSE_END", "");
    for socket in [&mut stalls, &mut reads] {
        assert_eq!(received(socket).await.unwrap().0, "NSE_END");
    }
}

#[tokio::test]
async fn what_waits_is_written_when_the_bus_is_closed() {
    let zeromq = ZeroMq::bind_pub(ANYWHERE).await.unwrap();
    zeromq.set_linger(LONG);
    let bus = Bus::from(zeromq.clone());
    let mut socket = subscriber(&zeromq, &[""]).await;
    for number in 0..500 {
        bus.publish("NSE_SBIN_LTP", number.to_string());
    }
    let reading = tokio::spawn(async move {
        for number in 0..500 {
            assert_eq!(received(&mut socket).await.unwrap().1, number.to_string());
        }
        assert!(matches!(received(&mut socket).await, Err(SocketError::Closed)));
    });
    soon(bus.close(Instant::now() + LONG)).await;
    assert_eq!(zeromq.status().peers, 0);
    soon(reading).await.unwrap();
    assert!(TcpStream::connect(zeromq.local_addr()).await.is_err(), "nobody is let in");
    bus.publish("NSE_SBIN_LTP", "nobody hears it");
    soon(bus.close(Instant::now() + LONG)).await;
    assert_eq!(zeromq.status().dropped, 0);
}

#[tokio::test]
async fn closing_does_not_wait_for_who_does_not_read() {
    let zeromq = ZeroMq::bind_pub(ANYWHERE).await.unwrap();
    let bus = Bus::from(zeromq.clone());
    let mut stalls = subscriber(&zeromq, &["NSE_"]).await;
    let (large, mut published) = ("x".repeat(4000), 0);
    while zeromq.status().dropped == 0 {
        bus.publish("NSE_SBIN_LTP", large.clone());
        published += 1;
        tokio::task::yield_now().await;
    }
    soon(bus.close(Instant::now() + Duration::from_millis(50))).await;
    until(&zeromq, |status| status.peers == 0).await;
    let dropped = zeromq.status().dropped;
    assert!(dropped >= HIGH_WATER as u64 / 2, "{dropped}");
    // What the system has of it comes all the same.
    let mut read = 0;
    while received(&mut stalls).await.is_ok() {
        read += 1;
    }
    assert_eq!(read + dropped, published, "each was written, or is counted");
}

#[tokio::test]
async fn a_bus_ends_with_the_last_who_has_it() {
    let zeromq = ZeroMq::bind_sub(ANYWHERE).await.unwrap();
    let bus = Bus::from(zeromq.clone());
    let mut messages = bus.subscribe("");
    let mut peer = publisher(&zeromq).await;
    drop(zeromq);
    say(&mut peer, &[b"NSE_SBIN_LTP", b"1"]).await;
    assert_eq!(heard(&mut messages).await, pair("NSE_SBIN_LTP", "1"), "somebody has it still");
    drop(bus);
    assert_eq!(soon(messages.next()).await, None);
    assert!(soon(peer.next()).await.is_err());
}
