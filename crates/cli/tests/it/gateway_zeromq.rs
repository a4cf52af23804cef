//! `carom gateway` on OpenAlgo's bus: others publish to it, or subscribe to it.

use crate::program::{PATIENCE, Running};
use crate::serving::{Serving, folder, inside};
use carom_zmtp::pubsub::{Encoded, Event, Limits, Role, Socket};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::timeout;

/// A gateway with a feed of this adapter, on a bus of this end.
async fn gateway(name: &str, bind: &str, adapter: &str) -> Serving {
    let bus = format!("[gateway]\nbus = \"zeromq\"\n[gateway.zeromq]\nbind = \"{bind}\"\nport = 0\n");
    let feed = format!("[[feed]]\nbroker = \"angel\"\nuser = \"demo\"\nadapter = \"{adapter}\"\n");
    Serving::gateway(&folder(name, &[("c.toml", &(bus + &feed))]), &["-c", "c.toml"]).await
}

/// Where the other end connects to.
fn bus(gateway: &Serving) -> SocketAddr {
    let (_, at) = gateway.banner.split_once(" connect to tcp://").expect("it is in the banner");
    at.split(' ').next().unwrap().parse().unwrap()
}

/// A publisher that is heard.
async fn publisher(at: SocketAddr) -> Socket {
    let mut publisher = Socket::connect(at, Role::Publisher, Limits::default()).await.expect("it is let in");
    assert_eq!(timeout(PATIENCE, publisher.next()).await.unwrap().unwrap(), Event::Subscribed("".into()));
    publisher
}

async fn publish(publisher: &mut Socket, topic: &str, payload: &Value) {
    publisher.push(&Encoded::new(&[topic.as_bytes(), payload.to_string().as_bytes()])).unwrap();
    publisher.flush().await.unwrap();
}

#[tokio::test]
async fn what_others_publish_is_served() {
    let gateway = gateway("zeromq-sub", "sub", "outside").await;
    assert!(gateway.banner.contains("bus: zeromq (c.toml:2: gateway.bus)\n  publishers connect"), "{}", gateway.banner);
    assert!(
        gateway.banner.contains("\nfeed: demo at angel from whoever publishes on the bus\nkey"),
        "{}",
        gateway.banner
    );
    let mut watching = Running::of(gateway.watch(&gateway.key(), &["--json", "--mode", "ltp", "NSE:SBIN"]));
    let mut publisher = publisher(bus(&gateway)).await;
    // Nobody says when somebody has subscribed; whoever comes later gets what comes next.
    let mut due = tokio::time::interval(Duration::from_millis(20));
    let line = loop {
        tokio::select! {
            line = watching.line() => break line,
            _ = due.tick() => publish(&mut publisher, "NSE_SBIN_LTP", &json!({"ltp": 812.05})).await,
        }
    };
    let tick: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&tick["symbol"], &tick["data"]["ltp"], &tick["broker"]),
        (&json!("SBIN"), &json!(812.05), &json!("angel"))
    );
    // What makes no sense is passed over, and a publisher that comes back is heard again.
    publisher.push(&Encoded::new(&[b"NSE_SBIN_LTP", b"{}", b"more"])).unwrap();
    publish(&mut publisher, "NSE_SBIN_LTP", &json!([])).await;
    drop(publisher);
    let mut publisher = self::publisher(bus(&gateway)).await;
    publish(&mut publisher, "NSE_SBIN_LTP", &json!({"ltp": 813.05})).await;
    while !watching.line().await.contains("813.05") {}
    assert_eq!(gateway.running.end("-TERM").await.code, Some(0));
}

#[tokio::test]
async fn what_is_served_is_published_to_others() {
    let gateway = gateway("zeromq-pub", "pub", "simulated").await;
    assert!(gateway.banner.contains("\n  subscribers connect to tcp://127.0.0.1:"), "{}", gateway.banner);
    let mut subscriber =
        Socket::connect(bus(&gateway), Role::Subscriber, Limits::default()).await.expect("it is let in");
    subscriber.subscribe(b"NSE_RELIANCE").unwrap();
    subscriber.flush().await.unwrap();
    let _watching = Running::of(gateway.watch(&gateway.key(), &["NSE:RELIANCE", "NSE:SBIN"]));
    let Event::Message(parts) = timeout(PATIENCE, subscriber.next()).await.expect("it is published").unwrap() else {
        panic!("a publisher says nothing else");
    };
    assert_eq!(parts.len(), 2, "{parts:?}");
    assert!(parts[0].starts_with(b"NSE_RELIANCE_"), "{parts:?}");
    assert!(serde_json::from_slice::<Value>(&parts[1]).unwrap()["ltp"].is_number(), "{parts:?}");
    assert_eq!(gateway.running.end("-TERM").await.code, Some(0));
    let ended = async { while subscriber.next().await.is_ok() {} };
    timeout(PATIENCE, ended).await.expect("the bus ends with the gateway");
}

#[tokio::test]
async fn a_port_that_is_taken_is_named_with_who_wanted_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap();
    let folder = folder("zeromq-taken", &[("c.toml", "[gateway]\nbus = \"zeromq\"\n")]);
    let mut command = inside(&folder, &["gateway", "--listen", "127.0.0.1:0", "-c", "c.toml"]);
    command.env("ZMQ_PORT", at.port().to_string()).stdout(std::process::Stdio::piped());
    let ran = crate::program::run(command.stderr(std::process::Stdio::piped())).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    let problem = format!("error: cannot listen on {at} (the variable ZMQ_PORT) for ZeroMQ: ");
    let whose = "; OpenAlgo's own proxy may have it\n";
    assert!(ran.stderr.starts_with(&problem) && ran.stderr.ends_with(whose), "{ran:?}");
}
