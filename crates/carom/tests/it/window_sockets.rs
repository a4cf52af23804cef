//! Sockets as the nodes see them: opened when a request needs one, and gone when there is no reason for them.

use carom::Requester;
use carom::window::{Builder, WindowSnapshot};
use std::collections::BTreeSet;
use std::time::Duration;
use testkit::nodes::{Nodes, Question, Treats};
use tokio::time::{Instant, sleep, sleep_until};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn builder(nodes: &Nodes) -> Builder<Nodes> {
    Requester::builder(nodes.clone()).nodes(Nodes::backends(4)).name("ledger")
}

async fn ask_any(requester: &Requester<Nodes>, tag: u32) {
    requester.any(Question(tag), |_| true).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_requester_has_no_sockets() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).build().unwrap();
    sleep(60 * SECOND).await;
    assert_eq!((nodes.opened(), nodes.identities()), (0, 0));
    assert_eq!(requester.snapshot().windows, []);
}

#[tokio::test(start_paused = true)]
async fn one_node_needed_is_one_socket_opened() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).build().unwrap();
    ask_any(&requester, 1).await;
    assert_eq!((nodes.opened(), nodes.open(), nodes.seen().len()), (1, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn ten_requests_in_three_seconds_are_two_windows_and_none_is_left_after_five_more() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).build().unwrap();
    let began = Instant::now();
    for tag in 0..10 {
        sleep_until(began + tag * 300 * MS).await;
        requester.quorum(Question(tag), 2, |answer| Some(answer.clone())).await.unwrap();
    }
    assert_eq!(nodes.identities(), 2);
    let identities: BTreeSet<u32> = nodes.seen().iter().map(|seen| seen.identity).collect();
    assert_eq!(identities.len(), 2);
    assert!(nodes.most() <= 8, "{} at a time", nodes.most());
    // The second window has had its five requests as well.
    sleep(100 * MS).await;
    assert_eq!(nodes.open(), 0);
    assert_eq!(requester.snapshot().windows, []);
}

#[tokio::test(start_paused = true)]
async fn the_same_tag_again_and_again_takes_no_more_windows_than_other_tags() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).build().unwrap();
    for _ in 0..30 {
        ask_any(&requester, 7).await;
    }
    assert_eq!((nodes.identities(), nodes.open()), (6, 0), "five requests each");
    for _ in 0..30 {
        requester.quorum(Question(7), 2, |answer| Some(answer.clone())).await.unwrap();
        // Those whose answers were not needed give them.
        sleep(MS).await;
    }
    assert_eq!((nodes.identities(), nodes.open()), (12, 0));
    assert!(nodes.most() <= 4, "{} at a time", nodes.most());
}

#[tokio::test(start_paused = true)]
async fn a_window_is_measured_from_its_creation() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).build().unwrap();
    let began = Instant::now();
    ask_any(&requester, 1).await;
    sleep_until(began + 4_900 * MS).await;
    ask_any(&requester, 2).await;
    assert_eq!(
        (nodes.identities(), nodes.open()),
        (1, 2),
        "the second request goes to another node of the same window"
    );
    sleep_until(began + 5_050 * MS).await;
    assert_eq!(nodes.open(), 0, "use does not make it longer");
    ask_any(&requester, 3).await;
    assert_eq!(nodes.identities(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_outlives_its_window_keeps_just_its_socket() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).preferred(["node-1"]).build().unwrap();
    nodes.treat(1, Treats::Acknowledges(MS, "late", 30 * SECOND));
    let slow = tokio::spawn({
        let requester = requester.clone();
        async move { requester.any(Question(1), |_| true).await }
    });
    sleep(100 * MS).await;
    requester.all(Question(2)).nodes(["node-2", "node-3"]).await.unwrap();
    assert_eq!(nodes.open(), 3);
    sleep(5 * SECOND).await;
    assert_eq!((nodes.open(), nodes.open_to(1)), (1, 1));
    assert_eq!(slow.await.unwrap().unwrap().answer, "late");
    sleep(MS).await;
    assert_eq!(nodes.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_full_window_is_over_when_its_requests_are() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).build().unwrap();
    for tag in 0..4 {
        ask_any(&requester, tag).await;
    }
    assert_eq!(nodes.open(), 4);
    ask_any(&requester, 4).await;
    sleep(MS).await;
    assert_eq!(nodes.open(), 0);
    ask_any(&requester, 5).await;
    assert_eq!(nodes.identities(), 2);
}

#[tokio::test(start_paused = true)]
async fn requests_with_the_same_tag_are_kept_apart() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).build().unwrap();
    nodes.treat(1, Treats::Answers("one", SECOND));
    let ask = || requester.quorum(Question(7), 4, |_| Some(()));
    let (first, second) = tokio::join!(ask(), ask());
    assert_eq!((first.unwrap().len(), second.unwrap().len()), (4, 4));
    assert_eq!(nodes.identities(), 2, "no window carries a tag twice");
}

#[tokio::test(start_paused = true)]
async fn other_nodes_make_a_new_window_and_the_old_one_finishes() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).build().unwrap();
    for node in 1..=4 {
        nodes.treat(node, Treats::Answers("yes", SECOND));
    }
    let under_way = tokio::spawn({
        let requester = requester.clone();
        async move { requester.quorum(Question(1), 4, |_| Some(())).await }
    });
    sleep(500 * MS).await;
    assert!(!requester.set_nodes(Nodes::backends(4).into_iter().rev()).unwrap(), "the same ones in another order");
    assert!(requester.set_nodes(Nodes::backends(2)).unwrap());
    assert_eq!(requester.all(Question(2)).await.unwrap().len(), 2);
    assert_eq!(under_way.await.unwrap().unwrap().len(), 4, "asked before there were others");
    assert_eq!(nodes.identities(), 2);
    sleep(10 * MS).await;
    assert_eq!(nodes.open(), 2, "the old window is gone, the new one active");
    let error = requester.set_nodes(Vec::<carom::Backend>::new()).unwrap_err();
    assert_eq!(error.to_string(), "there are no nodes");
}

#[tokio::test(start_paused = true)]
async fn a_requester_that_is_dropped_leaves_no_sockets() {
    let nodes = Nodes::new();
    for tag in 0..10 {
        let requester = builder(&nodes).build().unwrap();
        requester.all(Question(tag)).await.unwrap();
        assert_eq!(nodes.open(), 4);
        drop(requester);
        sleep(MS).await;
        assert_eq!(nodes.open(), 0);
    }
    assert_eq!(nodes.opened(), 40);
}

#[tokio::test(start_paused = true)]
async fn over_max_windows_requests_wait_in_order() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).max_windows(1).request_limit(1).hedge_after(None).build().unwrap();
    for node in 1..=4 {
        nodes.treat(node, Treats::Answers("yes", SECOND));
    }
    let began = Instant::now();
    let ask = |tag| requester.any(Question(tag), |_| true);
    let (first, second, third) = tokio::join!(ask(1), ask(2), ask(3));
    assert!(first.is_ok() && second.is_ok() && third.is_ok());
    let tags: Vec<u32> = nodes.seen().iter().map(|seen| seen.tag).collect();
    assert_eq!((tags, nodes.most()), (vec![1, 2, 3], 1));
    assert!(began.elapsed() >= 3 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_shows_windows_sockets_and_who_waits() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).max_windows(1).request_limit(1).build().unwrap();
    (1..=4).for_each(|node| nodes.treat(node, Treats::Mute));
    let (one, other) = (requester.clone(), requester.clone());
    let waiting = [
        tokio::spawn(async move { one.all(Question(1)).await.map(drop).map_err(drop) }),
        tokio::spawn(async move { other.all(Question(2)).await.map(drop).map_err(drop) }),
    ];
    sleep(MS).await;
    let snapshot = requester.snapshot();
    assert_eq!((snapshot.nodes.len(), snapshot.asking, snapshot.in_line), (4, 1, 1));
    let [WindowSnapshot { started: 1, asking: 1, active_until: None, sockets, .. }] = &*snapshot.windows else {
        panic!("{snapshot:?}")
    };
    assert!(sockets.len() == 4 && sockets.iter().all(|socket| socket.waiting == 1));
    waiting.iter().for_each(|task| task.abort());
    sleep(MS).await;
    assert_eq!((requester.snapshot().windows, nodes.open()), (vec![], 0));
}
