//! Sockets and identities of a client, counted from the nodes' side.

use crate::support::{ms, requests, soon, write};
use carom_indy::Pool;
use std::time::{Duration, Instant};
use testkit::indy::{self, Conduct};

/// With the windows that everybody has: 5 s, or 5 requests.
async fn opened_and_idle(nodes: &indy::Pool) -> Pool {
    let pool = soon(Pool::open(nodes.genesis()).into_future()).await.unwrap();
    soon(nodes.until(|nodes| nodes.all_sockets() == 0)).await;
    pool
}

/// Since when a node has the sockets that it had last, and when the last of them went.
fn last_stay(nodes: &indy::Pool, node: usize) -> (Duration, Duration) {
    let history = nodes.history(node);
    let (ended, came) = history.split_last().expect("somebody came");
    assert_eq!(ended.1, 0, "{history:?}");
    let since = came.iter().rev().take_while(|(_, open)| *open > 0).last().expect("somebody came");
    (since.0, ended.0)
}

#[tokio::test]
async fn an_opened_idle_client_holds_no_sockets() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = opened_and_idle(&nodes).await;
    assert!((0..4).all(|node| nodes.accepted(node) > 0), "it has asked them all");
    assert!(pool.snapshot().windows.is_empty(), "it is open, and holds nothing");
}

#[tokio::test]
async fn five_writes_and_a_sixth_within_five_seconds_are_two_identities_and_five_seconds_later_all_sockets_are_gone() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = opened_and_idle(&nodes).await;
    let before: Vec<_> = (0..4).map(|node| nodes.identities(node).len()).collect();
    let identities = || (0..4).map(|node| nodes.identities(node).len() - before[node]).collect::<Vec<_>>();
    // Slow enough that nobody has what it wants before everybody was asked.
    nodes.conduct_all(Conduct::Slow(ms(200)));
    for number in 1..=5 {
        soon(pool.submit(&write(number))).await.unwrap();
    }
    soon(nodes.until(|nodes| requests(nodes) == [5; 4])).await;
    assert_eq!(identities(), [1; 4]);
    let asked = Instant::now();
    soon(pool.submit(&write(6))).await.unwrap();
    soon(nodes.until(|nodes| requests(nodes) == [6; 4])).await;
    assert_eq!(identities(), [2; 4]);

    soon(nodes.until(|nodes| nodes.all_sockets() == 0)).await;
    // The window was opened for the sixth. Later by what a busy machine takes to close, not by the age of anybody's last use.
    let gone = asked.elapsed().as_secs();
    assert!((5..10).contains(&gone), "{gone} s later; {:?}", nodes.history(0));
}

#[tokio::test]
async fn sockets_of_a_request_that_waits_stay_beyond_the_window() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = opened_and_idle(&nodes).await;
    nodes.conduct_all(Conduct::Slow(ms(7_000)));
    soon(pool.submit(&write(1))).await.unwrap();
    soon(nodes.until(|nodes| nodes.all_sockets() == 0)).await;
    let stays: Vec<_> = (0..4).map(|node| last_stay(&nodes, node)).collect();
    let waited = stays.iter().filter(|(since, ended)| *ended - *since >= ms(7_000)).count();
    assert!(waited >= 2, "two have to agree, seven seconds later: {stays:?}");
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
