//! Answers through the handle: any valid one, a quorum, everybody's; and what errors say.

use carom::window::{Account, Builder, Told};
use carom::{RequestError, Requester};
use std::error::Error;
use std::time::Duration;
use testkit::nodes::{NodeError, Nodes, Question, Treats};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn builder(nodes: &Nodes) -> Builder<Nodes> {
    let in_order = ["node-1", "node-2", "node-3", "node-4"];
    Requester::builder(nodes.clone()).nodes(Nodes::backends(4)).name("ledger").preferred(in_order)
}

fn treat_all(nodes: &Nodes, treats: &Treats) {
    (1..=4).for_each(|node| nodes.treat(node, treats.clone()));
}

/// Answers with the same text are equal.
fn text<A: ToString + ?Sized>(answer: &A) -> Option<String> {
    Some(answer.to_string())
}

#[tokio::test(start_paused = true)]
async fn any_goes_on_until_an_answer_is_valid() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).build().unwrap();
    nodes.treat(1, Treats::RefusesSockets);
    nodes.treat(2, Treats::Nacks("not now"));
    nodes.treat(3, Treats::Answers("garbage", Duration::ZERO));
    let answered = requester.any(Question(1), |answer| answer == "yes").await.unwrap();
    assert_eq!((&*answered.node, &*answered.answer), ("node-4", "yes"));
}

#[tokio::test(start_paused = true)]
async fn any_says_what_each_node_said_when_none_gives_a_valid_answer() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).build().unwrap();
    nodes.treat(1, Treats::RefusesSockets);
    nodes.treat(2, Treats::Nacks("not now"));
    nodes.treat(3, Treats::AckOnly);
    nodes.treat(4, Treats::Mute);
    let began = Instant::now();
    let error = requester.any(Question(1), |_| true).await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), 110, "the time of one that acknowledged, and of one that did not");
    assert_eq!(
        error.to_string(),
        "`ledger`: no valid answer; node-1: no sockets here, node-2: refused, node-3: acknowledged, no answer for 100s, \
         node-4: silent for 10s"
    );
    let source = error.source().and_then(|source| source.downcast_ref::<NodeError>());
    assert_eq!(source, Some(&NodeError::Refused));
    let [_, Account { node, told: Told::Nack(reason), .. }, _, _] = error.accounts() else { panic!("{error:?}") };
    assert_eq!((&**node, &**reason), ("node-2", "not now"));
}

#[tokio::test(start_paused = true)]
async fn a_quorum_is_of_equal_answers() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).build().unwrap();
    nodes.treat(1, Treats::Answers("a lie", Duration::ZERO));
    nodes.treat(2, Treats::Chats("yes"));
    nodes.treat(3, Treats::Twice("yes"));
    nodes.treat(4, Treats::Mute);
    let agreed = requester.quorum(Question(1), 2, text).await.unwrap();
    let names: Vec<&str> = agreed.iter().map(|answered| &*answered.node).collect();
    assert_eq!((names, &*agreed[0].answer), (vec!["node-2", "node-3"], "yes"));
}

#[tokio::test(start_paused = true)]
async fn a_quorum_that_is_out_of_reach_fails_at_once_and_keeps_the_answers() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).build().unwrap();
    for (node, text) in [(1, "a"), (2, "b"), (3, "c")] {
        nodes.treat(node, Treats::Answers(text, Duration::ZERO));
    }
    nodes.treat(4, Treats::Mute);
    let began = Instant::now();
    let error = requester.quorum(Question(1), 3, text).await.unwrap_err();
    assert!(began.elapsed() < SECOND, "the silent one cannot help");
    let RequestError::NoQuorum { wanted: 3, accounts, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(&accounts[0].told, Told::Reply(answer) if answer == "a"));
    let said = "`ledger`: no 3 nodes agree; node-1: answered, node-2: answered,";
    assert!(error.to_string().starts_with(said), "{error}");
}

#[tokio::test(start_paused = true)]
async fn answers_without_a_key_do_not_count_however_many_there_are() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).build().unwrap();
    treat_all(&nodes, &Treats::Answers("garbage", Duration::ZERO));
    let error = requester.quorum(Question(1), 2, |_| None::<()>).await.unwrap_err();
    assert!(matches!(&error, RequestError::NoQuorum { .. }), "{error}");
    assert!(matches!(&error.accounts()[0].told, Told::Invalid(text) if text == "garbage"));
}

#[tokio::test(start_paused = true)]
async fn equal_refusals_are_a_refusal_and_count_apart_from_replies() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).build().unwrap();
    nodes.treat(1, Treats::Answers("same text", Duration::ZERO));
    nodes.treat(2, Treats::Nacks("same text"));
    nodes.treat(3, Treats::Mute);
    nodes.treat(4, Treats::Acknowledges(MS, "yes", SECOND));
    let error = requester.quorum(Question(1), 2, text).await.unwrap_err();
    assert!(matches!(&error, RequestError::NoQuorum { .. }), "one of each is no quorum: {error}");
    treat_all(&nodes, &Treats::Nacks("no such key"));
    let error = requester.quorum(Question(2), 2, text).await.unwrap_err();
    let RequestError::Refused { refusals, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(&refusals[0].told, Told::Nack(reason) if reason == "no such key"));
    assert_eq!(error.to_string(), "`ledger`: 2 nodes refuse the request; node-1: refused, node-2: refused");
}

#[tokio::test(start_paused = true)]
async fn a_quorum_may_ask_a_few_and_more_as_they_fail() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).build().unwrap();
    assert_eq!(requester.quorum(Question(1), 2, text).at_once(3).await.unwrap().len(), 2);
    sleep(MS).await;
    assert_eq!(nodes.seen().len(), 3);
    treat_all(&nodes, &Treats::Answers("yes", Duration::ZERO));
    nodes.treat(2, Treats::Drops);
    nodes.treat(3, Treats::Mute);
    let agreed = requester.quorum(Question(2), 2, text).at_once(2).ack_timeout(SECOND).await.unwrap();
    assert_eq!(agreed.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn all_is_what_every_node_says_or_why_it_does_not() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).build().unwrap();
    nodes.treat(2, Treats::Hangs);
    nodes.treat(3, Treats::Panics);
    nodes.treat(4, Treats::Nacks("no"));
    let accounts = requester.all(Question(1)).await.unwrap();
    let said: Vec<String> = accounts.iter().map(|Account { node, told, .. }| format!("{node}: {told}")).collect();
    let expected = ["node-1: answered", "node-2: silent for 10s", "node-3: the transport panicked", "node-4: refused"];
    assert_eq!(said, expected);
}

#[tokio::test(start_paused = true)]
async fn a_judge_that_panics_takes_nobody_with_it() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).build().unwrap();
    let error = requester.any(Question(1), |_| panic!("as told")).await.unwrap_err();
    assert!(matches!(&error.accounts()[3].told, Told::Invalid(answer) if answer == "yes"));
    assert!(requester.any(Question(2), |_| true).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn nodes_that_restart_fail_who_waits_and_serve_who_comes_after() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).build().unwrap();
    treat_all(&nodes, &Treats::AckOnly);
    let waiting = tokio::spawn({
        let requester = requester.clone();
        async move { requester.quorum(Question(1), 2, text).await }
    });
    sleep(100 * MS).await;
    nodes.restart();
    let error = waiting.await.unwrap().unwrap_err();
    // It fails once too few are left, whoever of them is heard of last.
    let ended = error.to_string().matches("the node has ended the socket").count();
    assert!(ended >= 3, "{error}");
    treat_all(&nodes, &Treats::Answers("yes", Duration::ZERO));
    assert_eq!(requester.all(Question(2)).await.unwrap().len(), 4);
    assert_eq!(nodes.identities(), 1, "the window goes on");
}

#[tokio::test(start_paused = true)]
async fn timeouts_fire_while_others_are_answered_all_the_time() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).build().unwrap();
    nodes.treat(1, Treats::Answers("yes", 5 * MS));
    nodes.treat(4, Treats::Mute);
    let busy = tokio::spawn({
        let requester = requester.clone();
        async move {
            for tag in 10.. {
                requester.any(Question(tag), |_| true).nodes(["node-1"]).await.unwrap();
            }
        }
    });
    let began = Instant::now();
    let error = requester.any(Question(1), |_| true).nodes(["node-4"]).await.unwrap_err();
    assert_eq!(error.to_string(), "`ledger`: no valid answer; node-4: silent for 10s");
    assert_eq!(began.elapsed().as_secs(), 10);
    assert!(nodes.seen().len() > 1_000 && !busy.is_finished());
    busy.abort();
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_changes_nothing() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).active_for(60 * SECOND).build().unwrap();
    nodes.treat(1, Treats::Answers("too late", 11 * SECOND));
    let answered = requester.any(Question(1), |_| true).await.unwrap();
    assert_eq!(&*answered.node, "node-2");
    nodes.treat(1, Treats::Answers("in time", 3 * SECOND));
    let answered = requester.any(Question(2), |_| true).nodes(["node-1"]).await.unwrap();
    assert_eq!(answered.answer, "in time", "the late one came before it on the same socket");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_succeed_is_said_at_once() {
    let nodes = Nodes::new();
    let requester = builder(&nodes).build().unwrap();
    let texts = [
        requester.all(Question(1)).nodes(["node-1", "node-8", "node-9"]).await.unwrap_err().to_string(),
        requester.all(Question(1)).nodes([""; 0]).await.unwrap_err().to_string(),
        requester.quorum(Question(1), 5, text).await.unwrap_err().to_string(),
        requester.quorum(Question(1), 0, text).await.unwrap_err().to_string(),
        requester.any(Question(1), |_| true).reply_timeout(Duration::ZERO).await.unwrap_err().to_string(),
        requester.any(Question(1), |_| true).reply_timeout(9 * SECOND).await.unwrap_err().to_string(),
        requester.any(Question(1), |_| true).at_once(0).await.unwrap_err().to_string(),
    ];
    let expected = [
        "`ledger` has no nodes named node-8, node-9",
        "the request to `ledger` names no nodes",
        "a quorum of 5 is out of reach: `ledger` asks 4 nodes",
        "a quorum must be at least 1",
        "reply_timeout must be above zero",
        "reply_timeout must not be below ack_timeout",
        "at_once must be at least 1",
    ];
    assert_eq!(texts, expected);
    assert_eq!(nodes.opened(), 0);
}
