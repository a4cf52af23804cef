//! The life of a pool: opened with few nodes or wrong ones, twice, and with bad options; closed while somebody waits.

use crate::support::{ms, read, requests, soon, write};
use carom_indy::{Pool, PoolError, SubmitError};
use serde_json::Value;
use std::error::Error;
use std::time::Duration;
use testkit::indy::{self, Conduct};
use testkit::temp_dir::TempDir;

/// The genesis of these nodes, with another port for each of the first so many, and who keeps those ports from others.
async fn misplaced(nodes: &indy::Pool, count: usize) -> (String, indy::Pool) {
    let elsewhere = indy::Pool::start(count).await.unwrap();
    let mut genesis = nodes.genesis();
    for node in 0..count {
        elsewhere.stop(node).await;
        let ports = [nodes, &elsewhere].map(|nodes| nodes.address(node).port().to_string());
        genesis = genesis.replace(&ports[0], &ports[1]);
    }
    (genesis, elsewhere)
}

#[tokio::test]
async fn pools_of_one_two_and_three_nodes_open_and_answer() {
    for count in 1..=3 {
        let nodes = indy::Pool::start(count).await.unwrap();
        nodes.grow(3);
        let pool = soon(Pool::open(nodes.genesis()).into_future()).await.unwrap();
        assert_eq!((pool.nodes().len(), pool.head().size as usize), (count, count + 3));
        soon(pool.submit(&read(1, 1))).await.unwrap();
        soon(pool.submit(&write(2))).await.unwrap();
    }
}

#[tokio::test]
async fn nodes_that_are_not_where_the_genesis_says_are_named() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let (genesis, _elsewhere) = misplaced(&nodes, 4).await;
    let error = soon(Pool::open(genesis).into_future()).await.unwrap_err();
    assert!(matches!(error, PoolError::Disconnected(_)), "{error}");
    let text = error.source().unwrap().to_string();
    assert!(text.matches(": cannot connect to 127.0.0.1:").count() >= 3, "three are enough to give up: {text}");
}

#[tokio::test]
async fn a_pool_opens_although_nobody_is_where_the_genesis_says_that_one_node_is() {
    let nodes = indy::Pool::start(4).await.unwrap();
    nodes.stop(0).await;
    let pool = soon(Pool::open(nodes.genesis()).into_future()).await.unwrap();
    soon(pool.submit(&write(1))).await.unwrap();
    assert_eq!(requests(&nodes)[0], 0);
}

#[tokio::test]
async fn a_genesis_with_another_place_for_one_node_is_that_of_another_pool() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let (genesis, _elsewhere) = misplaced(&nodes, 1).await;
    let error = soon(Pool::open(genesis).into_future()).await.unwrap_err();
    assert!(matches!(error, PoolError::Conflict(_)), "{error}");
}

#[tokio::test]
async fn a_pool_opened_twice_is_two_that_know_nothing_of_each_other() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let open = || Pool::open(nodes.genesis()).into_future();
    let (one, other) = soon(async { tokio::join!(open(), open()) }).await;
    let (one, other) = (one.unwrap(), other.unwrap());
    one.close();
    assert!(matches!(soon(one.submit(&write(1))).await, Err(SubmitError::Closed)));
    soon(other.submit(&write(1))).await.unwrap();
}

#[tokio::test]
async fn options_that_make_no_sense_are_told_before_anybody_is_asked() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let open = || Pool::open(nodes.genesis());
    for (opening, problem) in [
        (open().active_for(Duration::ZERO), "active_for"),
        (open().request_limit(0), "request_limit"),
        (open().ack_timeout(Duration::ZERO), "ack_timeout"),
        (open().ack_timeout(ms(2_000)).reply_timeout(ms(1_000)), "reply_timeout"),
        (open().read_nodes(0), "read_nodes"),
        (open().max_windows(0), "max_windows"),
    ] {
        let error = soon(opening.into_future()).await.unwrap_err();
        assert!(matches!(error, PoolError::Options(_)), "{error}");
        assert!(error.to_string().contains(problem), "{error}");
    }
    assert!((0..4).all(|node| nodes.accepted(node) == 0));
}

#[tokio::test]
async fn who_waits_when_a_pool_is_closed_is_told_and_it_can_be_opened_again() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = soon(Pool::open(nodes.genesis()).into_future()).await.unwrap();
    nodes.conduct_all(Conduct::Mute);
    let (request, again) = (write(1), pool.clone());
    let closing = async {
        nodes.until(|nodes| requests(nodes) == [1; 4]).await;
        again.close();
        again.close();
    };
    let (submitted, ()) = soon(async { tokio::join!(pool.submit(&request), closing) }).await;
    assert!(matches!(submitted, Err(SubmitError::OutcomeUnknown(_))), "the nodes have it: {submitted:?}");
    soon(nodes.until(|nodes| nodes.all_sockets() == 0)).await;
    assert!(matches!(soon(pool.refresh()).await, Err(PoolError::Closed)));
    nodes.conduct_all(Conduct::Honest);
    let opened = soon(Pool::open(nodes.genesis()).into_future()).await.unwrap();
    soon(opened.submit(&write(2))).await.unwrap();
}

#[tokio::test]
async fn a_pool_opens_after_an_earlier_attempt_has_failed() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let open = || soon(Pool::open(nodes.genesis()).ack_timeout(ms(1_500)).into_future());
    nodes.conduct_all(Conduct::Mute);
    let error = open().await.unwrap_err();
    assert!(matches!(error, PoolError::TimedOut(_)), "{error}");
    nodes.conduct_all(Conduct::Honest);
    open().await.unwrap();
}

#[tokio::test]
async fn a_cache_from_when_the_nodes_were_elsewhere_does_not_lock_the_pool_out() {
    let (nodes, folder) = (indy::Pool::start(4).await.unwrap(), TempDir::new());
    let (elsewhere, here) = (misplaced(&nodes, 3).await, nodes.genesis());
    let moved = |genesis: &str| {
        let lines: Vec<Value> = genesis.lines().take(3).map(|line| serde_json::from_str(line).unwrap()).collect();
        lines.iter().for_each(|line| nodes.append(line));
    };
    let open = || soon(Pool::open(here.as_str()).cache(folder.join("cache")).into_future());
    moved(&elsewhere.0);
    assert_eq!(open().await.unwrap().head().size, 7);
    moved(&here);
    let pool = open().await.unwrap();
    assert_eq!(pool.head().size, 10, "those of the genesis were asked, and the ledger goes on");
    soon(pool.submit(&write(1))).await.unwrap();
}
