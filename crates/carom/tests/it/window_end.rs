//! How requesters end: closed, dropped, or with their runtime; nobody waits for ever, and nothing stays open.

use carom::window::BuildError;
use carom::{RequestError, Requester};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use testkit::nodes::{Nodes, Question, Treats};
use tokio::time::sleep;

const MS: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn closing_ends_requests_and_sockets() {
    let nodes = Nodes::new();
    let requester = Requester::builder(nodes.clone()).nodes(Nodes::backends(4)).name("ledger").build().unwrap();
    (1..=4).for_each(|node| nodes.treat(node, Treats::Mute));
    let waiting = tokio::spawn({
        let requester = requester.clone();
        async move { requester.all(Question(1)).await }
    });
    sleep(100 * MS).await;
    assert_eq!(nodes.open(), 4);
    requester.close();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, RequestError::Closed { .. }));
    assert_eq!(error.to_string(), "`ledger` is closed");
    sleep(MS).await;
    assert_eq!((nodes.open(), requester.is_closed()), (0, true));
    assert!(matches!(requester.any(Question(2), |_| true).await, Err(RequestError::Closed { .. })));
    assert_eq!(nodes.opened(), 4);
}

#[tokio::test]
async fn nobody_waits_for_a_runtime_that_has_ended() {
    let its_own = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let nodes = Nodes::new();
    let builder = Requester::builder(nodes.clone()).nodes(Nodes::backends(2)).name("ledger");
    let requester = builder.runtime(its_own.handle().clone()).build().unwrap();
    (1..=2).for_each(|node| nodes.treat(node, Treats::Mute));
    let mut waiting = Box::pin(requester.all(Question(1)));
    assert!(ready_now(&mut waiting).is_none(), "nobody has answered");
    its_own.shutdown_background();
    assert!(matches!(waiting.await, Err(RequestError::Closed { .. })));
    assert!(matches!(requester.all(Question(2)).await, Err(RequestError::Closed { .. })));
}

/// What a future has ready.
fn ready_now<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[test]
fn without_a_runtime_or_nodes_there_is_no_requester() {
    let nodes = Nodes::new;
    let error = Requester::builder(nodes()).nodes(Nodes::backends(1)).build().unwrap_err();
    assert!(matches!(error, BuildError::NoRuntime));
    let error = Requester::builder(nodes()).build().unwrap_err();
    assert_eq!(error.to_string(), "there are no nodes");
    let twice = Nodes::backends(2).into_iter().chain(Nodes::backends(1));
    assert_eq!(
        Requester::builder(nodes()).nodes(twice).build().unwrap_err().to_string(),
        "two nodes are named `node-1`"
    );
    let error = Requester::builder(nodes()).nodes(Nodes::backends(1)).request_limit(0).build().unwrap_err();
    assert_eq!(error.to_string(), "request_limit must be at least 1");
}
