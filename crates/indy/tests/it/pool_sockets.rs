//! Sockets and identities of a client, counted from the nodes' side.

use crate::support::{requests, soon, write};
use carom_indy::Pool;
use std::pin::pin;
use std::time::Duration;
use testkit::clock::advance;
use testkit::indy::{self, Conduct};
use testkit::wait::until;

/// How long a window takes requests here. No test takes that long: the clock is moved past it.
const WINDOW: Duration = Duration::from_secs(600);

/// How long nodes take to answer, so that nobody has what it wants before everybody was asked.
const SLOW: Duration = Duration::from_secs(20);

/// Longer than nodes take.
const TIMEOUT: Duration = Duration::from_secs(7200);

async fn opened_and_idle(nodes: &indy::Pool) -> Pool {
    let opening = Pool::open(nodes.genesis()).active_for(WINDOW).ack_timeout(TIMEOUT).reply_timeout(TIMEOUT);
    let pool = soon(opening.into_future()).await.unwrap();
    advance(WINDOW).await;
    soon(nodes.until(|nodes| nodes.all_sockets() == 0)).await;
    pool
}

#[tokio::test]
async fn an_opened_idle_client_holds_no_sockets() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = soon(Pool::open(nodes.genesis()).into_future()).await.unwrap();
    // As long as a window takes requests by default.
    advance(Duration::from_secs(5)).await;
    soon(nodes.until(|nodes| nodes.all_sockets() == 0)).await;
    assert!((0..4).all(|node| nodes.accepted(node) > 0), "it has asked them all");
    assert!(pool.snapshot().windows.is_empty(), "it is open, and holds nothing");
}

#[tokio::test]
async fn sixth_write_opens_a_second_window_and_all_sockets_are_gone_when_that_ends() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = opened_and_idle(&nodes).await;
    let before: Vec<_> = (0..4).map(|node| nodes.identities(node).len()).collect();
    let identities = || (0..4).map(|node| nodes.identities(node).len() - before[node]).collect::<Vec<_>>();
    nodes.conduct_all(Conduct::Slow(SLOW));
    for (number, windows) in [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 2)] {
        let request = write(number);
        let mut submitting = pin!(pool.submit(&request));
        tokio::select! {
            biased;
            ended = &mut submitting => panic!("nobody has answered: {ended:?}"),
            () = soon(nodes.until(|nodes| requests(nodes) == [number as usize; 4])) => {}
        }
        assert_eq!(identities(), [windows; 4]);
        advance(SLOW).await;
        soon(submitting).await.unwrap();
    }
    assert_eq!(pool.snapshot().windows.len(), 1, "the second window is open");
    advance(WINDOW).await;
    soon(nodes.until(|nodes| nodes.all_sockets() == 0)).await;
}

#[tokio::test]
async fn sockets_of_a_request_that_waits_stay_beyond_the_window() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = opened_and_idle(&nodes).await;
    nodes.conduct_all(Conduct::Slow(WINDOW + SLOW));
    let request = write(1);
    let mut submitting = pin!(pool.submit(&request));
    let waiting = async {
        soon(nodes.until(|nodes| requests(nodes) == [1; 4])).await;
        advance(WINDOW).await;
        let ended = || pool.snapshot().windows.iter().all(|window| window.active_until.is_none());
        until("the window takes no more requests", ended).await;
    };
    tokio::select! {
        biased;
        ended = &mut submitting => panic!("nobody has answered: {ended:?}"),
        () = waiting => {}
    }
    let sockets: Vec<_> = pool.snapshot().windows.iter().map(|window| window.sockets.len()).collect();
    assert_eq!((sockets, nodes.all_sockets()), (vec![4], 4), "they are waited for");
    advance(SLOW).await;
    soon(submitting).await.unwrap();
    soon(nodes.until(|nodes| nodes.all_sockets() == 0)).await;
}

#[tokio::test]
async fn opening_pools_in_a_loop_leaves_no_sockets() {
    let nodes = indy::Pool::start(4).await.unwrap();
    for _ in 0..10 {
        drop(soon(Pool::open(nodes.genesis()).into_future()).await.unwrap());
    }
    soon(nodes.until(|nodes| nodes.all_sockets() == 0)).await;
    assert!(
        (0..4).all(|node| nodes.accepted(node) >= 2 && nodes.history(node).last().is_some_and(|(_, open)| *open == 0))
    );
}
