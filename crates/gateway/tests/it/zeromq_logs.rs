//! What is logged of messages that make no sense: each reason by itself, with a topic, and no more often because there are more of them.

use carom::feed::Feed;
use carom_gateway::Gateway;
use carom_gateway::bus::{Outside, ZeroMq};
use carom_zmtp::pubsub::{Encoded, Limits, Role, Socket};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use testkit::logs::Logs;
use testkit::wait::soon;
use tokio::time::sleep;

const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

// On one thread: what is logged elsewhere is not heard.
#[tokio::test]
async fn each_reason_is_told_once_and_with_a_topic() {
    let logs = Logs::capture();
    let zeromq = ZeroMq::bind_sub(ANYWHERE).await.unwrap();
    let feed = Feed::builder(Outside).build().unwrap();
    let gateway = Gateway::builder().listen(ANYWHERE).feed_on("zerodha", "asha", feed, zeromq.clone().into());
    let gateway = gateway.start().await.unwrap();

    let mut publisher = soon(Socket::connect(zeromq.local_addr(), Role::Publisher, Limits::default())).await.unwrap();
    soon(publisher.next()).await.unwrap();
    let long = vec![b'x'; 300 << 10];
    let senseless: [&[&[u8]]; 7] = [
        &[b"NSE_ONE_LTP"],
        &[b"NSE_THREE_LTP", b"{}", b"{}"],
        &[b"NSE_LONG_LTP", &long],
        &[b"NSE_\xff_LTP", b"{}"],
        &[b"NSE_SBIN_FOO", b"{}"],
        &[b"A_asha_orders", b"{}"],
        &[b"A_ravi_orders", br#"{"user_id":"ravi"}"#],
    ];
    for _ in 0..5 {
        for parts in senseless {
            publisher.push(&Encoded::new(parts)).unwrap();
            soon(publisher.flush()).await.unwrap();
        }
    }
    soon(async {
        while gateway.snapshot().malformed < 35 {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;

    let all = logs.text();
    let told: Vec<&str> = all.lines().filter(|line| line.starts_with("WARN") && line.contains("no sense")).collect();
    for (reason, topic) in [
        ("has not 2 frames", "NSE_ONE_LTP"),
        ("more than 262144 bytes", "NSE_LONG_LTP"),
        ("not UTF-8", "NSE_\u{fffd}_LTP"),
        ("of no kind that is known", "NSE_SBIN_FOO"),
        ("names no user", "A_asha_orders"),
        ("names another user", "A_ravi_orders"),
    ] {
        let of_it: Vec<_> = told.iter().filter(|line| line.contains(reason)).collect();
        assert!(of_it.len() == 1 && of_it[0].contains(topic) && of_it[0].contains("count=1 "), "{reason}: {all}");
    }
    assert_eq!(told.len(), 6, "{all}");
}
