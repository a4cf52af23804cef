//! The cancellation grid: whatever nodes do and however a request asks, its caller may give up at any await, and afterwards
//! nothing of it is left: no entry, no socket that nobody needs, and the next request is served. What was not sent by then is
//! never sent.

use carom::Requester;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;
use testkit::nodes::{Nodes, Question, Treats};
use tokio::time::sleep;

const MS: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug)]
enum Asks {
    Any,
    Quorum,
    QuorumOfFew,
    All,
}

#[derive(Clone, Copy, Debug)]
enum GiveUp {
    AfterPolls(usize),
    After(Duration),
}

const ASKS: [Asks; 4] = [Asks::Any, Asks::Quorum, Asks::QuorumOfFew, Asks::All];

const GIVE_UP: [GiveUp; 7] = [
    GiveUp::AfterPolls(0),
    GiveUp::AfterPolls(1),
    GiveUp::AfterPolls(2),
    GiveUp::After(MS),
    GiveUp::After(Duration::from_millis(15)),
    GiveUp::After(Duration::from_millis(120)),
    GiveUp::After(Duration::from_secs(3)),
];

fn treatments() -> [Treats; 10] {
    [
        Treats::Answers("yes", Duration::ZERO),
        Treats::Answers("yes", 20 * MS),
        Treats::Acknowledges(10 * MS, "yes", 2_000 * MS),
        Treats::AckOnly,
        Treats::Mute,
        Treats::Nacks("no"),
        Treats::RefusesSockets,
        Treats::OpensAfter(50 * MS),
        Treats::Hangs,
        Treats::Drops,
    ]
}

async fn caller(requester: Requester<Nodes>, asks: Asks, question: Question) {
    let key = |answer: &String| Some(answer.clone());
    match asks {
        Asks::Any => drop(requester.any(question, |_| true).await),
        Asks::Quorum => drop(requester.quorum(question, 3, key).await),
        Asks::QuorumOfFew => drop(requester.quorum(question, 2, key).at_once(2).await),
        Asks::All => drop(requester.all(question).await),
    }
}

/// How many nodes have been sent this.
fn sent(nodes: &Nodes, Question(tag): Question) -> usize {
    nodes.seen().iter().filter(|seen| seen.tag == tag).count()
}

async fn give_up(caller: impl Future<Output = ()>, when: GiveUp) {
    let mut caller = pin!(caller);
    match when {
        GiveUp::AfterPolls(polls) => {
            for _ in 0..polls {
                if caller.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                    return;
                }
                tokio::task::yield_now().await;
            }
        }
        GiveUp::After(time) => drop(tokio::time::timeout(time, caller).await),
    }
}

#[tokio::test(start_paused = true)]
async fn giving_up_leaves_nothing_behind_wherever_it_happens() {
    for treats in treatments() {
        for asks in ASKS {
            for when in GIVE_UP {
                for (limit, in_line) in [(5, false), (1, false), (1, true)] {
                    let cell = format!("{treats:?}, {asks:?}, {when:?}, limit {limit}, in line: {in_line}");
                    cell_of_the_grid(&treats, asks, when, limit, in_line, &cell).await;
                }
            }
        }
    }
}

async fn cell_of_the_grid(treats: &Treats, asks: Asks, when: GiveUp, limit: usize, in_line: bool, cell: &str) {
    let nodes = Nodes::new();
    let requester = Requester::builder(nodes.clone())
        .nodes(Nodes::backends(4))
        .request_limit(limit)
        .max_windows(in_line.then_some(1))
        .active_for(100 * MS)
        .ack_timeout(500 * MS)
        .reply_timeout(1_500 * MS)
        .build()
        .unwrap();
    (1..=4).for_each(|node| nodes.treat(node, treats.clone()));
    let ahead = in_line.then(|| tokio::spawn(caller(requester.clone(), Asks::All, Question(3))));
    tokio::task::yield_now().await;
    give_up(caller(requester.clone(), asks, Question(1)), when).await;
    let sent_by_then = sent(&nodes, Question(1));
    let snapshot = requester.snapshot();
    let others = usize::from(ahead.as_ref().is_some_and(|ahead| !ahead.is_finished()));
    assert!(snapshot.asking + snapshot.in_line <= others, "{cell}: {snapshot:?}");
    if let Some(ahead) = ahead {
        ahead.await.unwrap();
    }
    sleep(101 * MS).await;
    let snapshot = requester.snapshot();
    assert_eq!((snapshot.windows, nodes.open()), (vec![], 0), "{cell}");
    assert_eq!(sent(&nodes, Question(1)), sent_by_then, "{cell}: sent after its caller gave up");
    (1..=4).for_each(|node| nodes.treat(node, Treats::Answers("yes", Duration::ZERO)));
    assert!(requester.any(Question(2), |_| true).await.is_ok(), "{cell}: the next one is served");
    drop(requester);
    sleep(MS).await;
    assert_eq!(nodes.open(), 0, "{cell}");
}

#[tokio::test(start_paused = true)]
async fn a_request_given_up_or_timed_out_while_its_socket_opens_is_never_sent() {
    let nodes = Nodes::new();
    let requester = Requester::builder(nodes.clone()).nodes(Nodes::backends(1)).build().unwrap();
    nodes.treat(1, Treats::OpensAfter(3_000 * MS));
    give_up(caller(requester.clone(), Asks::All, Question(1)), GiveUp::After(MS)).await;
    let timed_out = requester.any(Question(2), |_| true).ack_timeout(1_000 * MS).await;
    assert!(timed_out.is_err());
    assert_eq!(nodes.seen(), [], "the socket is not open yet");
    assert!(requester.any(Question(3), |_| true).await.is_ok());
    let tags: Vec<u32> = nodes.seen().iter().map(|seen| seen.tag).collect();
    assert_eq!((tags, nodes.opened()), (vec![3], 1), "the same socket, and only what is waited for");
}
