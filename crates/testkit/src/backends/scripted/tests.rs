//! Scripts are followed, and every connection is counted.

use super::*;
use std::time::Duration;
use tokio::time::{Instant, timeout};

const LONG: Duration = Duration::from_secs(3600);

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 80))
}

async fn connect(script: &Scripted, last: u8) -> Connection {
    script.connect(&Backend::fixed(address(last))).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn connections_are_counted_per_address_and_in_all() {
    let script = Scripted::new();
    let one = connect(&script, 1).await;
    let two = connect(&script, 2).await;
    let three = connect(&script, 2).await;
    assert_eq!((one.id(), two.id(), three.id()), (1, 2, 3));
    assert_eq!(three.backend().socket_addr(), address(2));
    assert_eq!((script.open(address(1)), script.open(address(2)), script.open_total()), (1, 2, 3));

    script.close(two).await;
    drop(three);
    assert_eq!((script.open(address(1)), script.open(address(2)), script.open_total()), (1, 0, 1));
    assert_eq!((script.opened_total(), script.peak()), (3, 3));
    assert_eq!((script.connects_started(address(2)), script.closes_started(address(2))), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn connecting_follows_the_script_of_its_address() {
    let script = Scripted::new();
    let backend = Backend::fixed(address(1));
    script.set(address(1), OnConnect::Fail("no"));
    assert_eq!(script.connect(&backend).await.unwrap_err(), ScriptError("no"));
    connect(&script, 2).await;

    script.set(address(1), OnConnect::Never);
    assert!(timeout(LONG, script.connect(&backend)).await.is_err());

    script.set(address(1), OnConnect::Slow(Duration::from_secs(3)));
    let started = Instant::now();
    connect(&script, 1).await;
    assert_eq!(started.elapsed(), Duration::from_secs(3));

    script.set(address(1), OnConnect::Panic);
    let connecting = tokio::spawn({
        let script = script.clone();
        async move { script.connect(&Backend::fixed(address(1))).await.map(drop) }
    });
    assert!(connecting.await.unwrap_err().is_panic());
    assert_eq!((script.connects_started(address(1)), script.open_total()), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn checks_follow_the_script_and_fail_once_killed() {
    let script = Scripted::new();
    let mut connection = connect(&script, 1).await;
    assert!(script.check(&mut connection).unwrap().await.is_ok());
    script.set(address(1), OnCheck::Fail);
    assert!(script.check(&mut connection).unwrap().await.is_err());
    script.set(address(1), OnCheck::Never);
    assert!(timeout(LONG, script.check(&mut connection).unwrap()).await.is_err());
    script.set(address(1), OnCheck::Slow(Duration::from_secs(2)));
    assert!(script.check(&mut connection).unwrap().await.is_ok());
    connection.kill();
    assert!(script.check(&mut connection).unwrap().await.is_err());
    assert_eq!(script.checks_started(address(1)), 5);
}

#[tokio::test(start_paused = true)]
async fn a_connection_counts_as_open_until_its_closing_is_over() {
    let script = Scripted::new();
    script.set(address(1), OnClose::Slow(Duration::from_secs(1)));
    let connection = connect(&script, 1).await;
    let closing = tokio::spawn({
        let script = script.clone();
        async move { script.close(connection).await }
    });
    script.until(|script| script.closes_started(address(1)) == 1).await;
    assert_eq!(script.open_total(), 1);
    closing.await.unwrap();
    assert_eq!(script.open_total(), 0);

    script.set(address(1), OnClose::Never);
    let connection = connect(&script, 1).await;
    assert!(timeout(LONG, script.close(connection)).await.is_err());
    assert_eq!(script.open_total(), 0);

    script.set(address(1), OnClose::Panic);
    let connection = connect(&script, 1).await;
    let closing = tokio::spawn({
        let script = script.clone();
        async move { script.close(connection).await }
    });
    assert!(closing.await.unwrap_err().is_panic());
    assert_eq!(script.open_total(), 0);
}

#[tokio::test(start_paused = true)]
async fn it_is_known_how_connections_have_ended() {
    let script = Scripted::new();
    let (one, two, three) = (connect(&script, 1).await, connect(&script, 2).await, connect(&script, 3).await);
    script.shut(&one);
    assert!(one.is_shut() && !two.is_shut());
    assert_eq!(script.ends(), Ends { shut: 1, ..Ends::default() });
    two.kill();
    script.shut(&one);
    drop((one, two, three));
    assert_eq!(script.ends(), Ends { shut: 1, shut_again: 1, killed: 1, dropped: 1 });
}

#[tokio::test(start_paused = true)]
async fn the_killed_are_closed_and_the_others_are_not() {
    let script = Scripted::new();
    let mut killed = connect(&script, 1).await;
    let mut alive = connect(&script, 2).await;
    let watcher = tokio::spawn(script.closed(&killed).unwrap());
    script.kill_all(address(1));
    watcher.await.unwrap();
    assert!(!script.liveness(&mut killed).is_usable());
    assert!(script.liveness(&mut alive).is_usable());
    assert_eq!(script.open_total(), 2);

    script.set(address(2), Behaviour::Open(false));
    assert!(!script.liveness(&mut alive).is_usable());
    let watcher = script.closed(&alive).unwrap();
    drop(alive);
    assert!(timeout(LONG, watcher).await.is_err(), "its own drop is not an end");
}
