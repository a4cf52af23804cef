//! Requests to a pool: who is asked, and what comes of the answers.

use crate::support::{information, ms, read, read_delta, read_nym, requests, soon, write};
use carom_indy::message::{LONGEST_MESSAGE, LONGEST_REPLY};
use carom_indy::{Pool, Reply, Request, SubmitError};
use serde_json::{Value, json};
use std::error::Error;
use testkit::indy::{self, Conduct};

async fn opened(nodes: &indy::Pool) -> Pool {
    let pool = soon(Pool::open(nodes.genesis()).active_for(ms(500)).into_future()).await.unwrap();
    soon(nodes.until(|nodes| nodes.all_sockets() == 0)).await;
    pool
}

/// One that does not wait for long.
async fn impatient(nodes: &indy::Pool) -> Pool {
    let pool = Pool::open(nodes.genesis()).ack_timeout(ms(1_500)).reply_timeout(ms(4_000));
    soon(pool.into_future()).await.unwrap()
}

fn agreed(reply: Reply) -> Value {
    match reply {
        Reply::Agreed(result) => result,
        Reply::Each(_) => panic!("{reply:?}"),
    }
}

#[tokio::test]
async fn reads_ask_some_writes_ask_all_and_information_is_for_each() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = opened(&nodes).await;
    let Reply::Each(told) = soon(pool.submit(&information(1))).await.unwrap() else { panic!("each for itself") };
    assert_eq!(told.len(), 4);
    assert!(
        told.iter().all(|(alias, told)| told.as_ref().is_ok_and(|told| told["data"]["alias"] == **alias)),
        "{told:?}"
    );
    // Slow enough that nobody has what it wants before everybody was asked.
    nodes.conduct_all(Conduct::Slow(ms(200)));
    let result = agreed(soon(pool.submit(&read(2, 2))).await.unwrap());
    assert_eq!(result["data"]["txnMetadata"]["seqNo"], 2);
    // One may lie, so two have to agree, and three are asked.
    soon(nodes.until(|nodes| requests(nodes).iter().sum::<usize>() == 7)).await;
    let result = agreed(soon(pool.submit(&write(3))).await.unwrap());
    assert_eq!((&result["txnMetadata"]["seqNo"], &result["txn"]["data"]["dest"]), (&json!(1), &json!("did3")));
    soon(nodes.until(|nodes| requests(nodes).iter().sum::<usize>() == 11)).await;
    let nothing = agreed(soon(pool.submit(&read(4, 99))).await.unwrap());
    assert_eq!(nothing["data"], Value::Null);
}

#[tokio::test]
async fn a_single_read_opens_one_socket() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = soon(Pool::open(nodes.genesis()).single_reads(true).active_for(ms(300)).into_future()).await.unwrap();
    soon(nodes.until(|nodes| nodes.all_sockets() == 0)).await;
    let before: usize = (0..4).map(|node| nodes.accepted(node)).sum();
    soon(pool.submit(&read(1, 1))).await.unwrap();
    let after: usize = (0..4).map(|node| nodes.accepted(node)).sum();
    assert_eq!((after - before, requests(&nodes).iter().sum::<usize>()), (1, 1));
}

#[tokio::test]
async fn silent_nodes_are_asked_by_one_read_and_by_no_later_one_until_they_respond() {
    // Two may fail of seven. The timeout is longer than anything here waits for.
    for single in [false, true] {
        let nodes = indy::Pool::start(7).await.unwrap();
        let opening = Pool::open(nodes.genesis()).preferred(["Node1", "Node2"]).single_reads(single);
        let pool = soon(opening.ack_timeout(ms(60_000)).into_future()).await.unwrap();
        (0..2).for_each(|node| nodes.conduct(node, Conduct::Mute));
        let asked = || [0, 1].map(|node| nodes.heard(node).iter().filter(|asked| asked["reqId"].is_u64()).count());
        for number in 1..=12 {
            agreed(soon(pool.submit(&read(number, 1))).await.unwrap());
        }
        assert_eq!(asked(), [1, 1], "by the first read");
        nodes.conduct_all(Conduct::Honest);
        let Reply::Each(_) = soon(pool.submit(&information(13))).await.unwrap() else { panic!("each for itself") };
        agreed(soon(pool.submit(&read(14, 1))).await.unwrap());
        assert_eq!(asked()[0], 3, "it is asked first again");
    }
}

#[tokio::test]
async fn one_liar_is_outvoted() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = opened(&nodes).await;
    nodes.conduct(0, Conduct::Lying);
    for number in 1..=4 {
        let result = agreed(soon(pool.submit(&read(number, 1))).await.unwrap());
        assert_eq!(result["data"]["txnMetadata"]["seqNo"], 1);
    }
}

/// `.invalid` never resolves (RFC 6761).
const UNRESOLVABLE: (usize, &str) = (3, "node4.invalid");

#[tokio::test]
async fn one_liar_of_four_is_outvoted_while_a_validator_has_a_host_name_that_does_not_resolve() {
    let nodes = indy::Pool::start_named(4, &[UNRESOLVABLE]).await.unwrap();
    // The liar is asked first and answers first.
    let opening = Pool::open(nodes.genesis()).active_for(ms(500)).preferred(["Node1"]);
    let pool = soon(opening.into_future()).await.unwrap();
    assert_eq!(pool.quorum(), 2);
    nodes.conduct(0, Conduct::Lying);
    (1..3).for_each(|node| nodes.conduct(node, Conduct::Slow(ms(100))));
    let result = agreed(soon(pool.submit(&read(1, 1))).await.unwrap());
    assert_eq!(result["data"]["txnMetadata"]["seqNo"], 1);
    let result = agreed(soon(pool.submit(&write(2))).await.unwrap());
    assert_eq!(result["data"], Value::Null, "the liar's result has data: {result}");
}

#[tokio::test]
async fn one_liar_of_four_is_outvoted_while_a_validator_has_an_unusable_alias_or_port() {
    for (field, unusable) in [("client_port", json!(0)), ("alias", json!("Node2")), ("alias", json!(""))] {
        let nodes = indy::Pool::start(4).await.unwrap();
        let mut change = nodes.removal(3);
        change["txn"]["data"]["data"] = json!({field: unusable});
        nodes.append(&change);
        let opening = Pool::open(nodes.genesis()).active_for(ms(500)).preferred(["Node1"]);
        let pool = soon(opening.into_future()).await.unwrap();
        assert_eq!((pool.nodes().len(), pool.quorum()), (3, 2), "{field}: {unusable}");
        nodes.conduct(0, Conduct::Lying);
        (1..3).for_each(|node| nodes.conduct(node, Conduct::Slow(ms(100))));
        let result = agreed(soon(pool.submit(&read(1, 1))).await.unwrap());
        assert_eq!(result["data"]["txnMetadata"]["seqNo"], 1, "{field}: {unusable}");
    }
}

#[tokio::test]
async fn a_validator_with_a_host_name_is_resolved_and_asked() {
    let nodes = indy::Pool::start_named(4, &[(3, "localhost")]).await.unwrap();
    let pool = opened(&nodes).await;
    let node = pool.nodes().into_iter().find(|node| node.alias == "Node4").unwrap();
    assert_eq!(node.address.to_string(), format!("localhost:{}", nodes.address(3).port()));
    let only = Request::try_from(&information(1)).unwrap().nodes(["Node4"]);
    let Reply::Each(told) = soon(pool.send(&only)).await.unwrap() else { panic!("each for itself") };
    assert!(told["Node4"].is_ok(), "{told:?}");
}

#[tokio::test]
async fn a_validator_whose_host_name_does_not_resolve_is_reported_with_its_name() {
    let nodes = indy::Pool::start_named(4, &[UNRESOLVABLE]).await.unwrap();
    // Longer than a resolver takes that gets no response from its nameserver.
    let pool = soon(Pool::open(nodes.genesis()).ack_timeout(ms(60_000)).into_future()).await.unwrap();
    let told = soon(pool.survey()).await.unwrap();
    assert!(told["Node4"].as_ref().is_err_and(|reason| reason == "cannot resolve node4.invalid"), "{told:?}");
}

#[tokio::test]
async fn a_state_proof_that_was_not_verified_is_not_returned() {
    let nodes = indy::Pool::start(4).await.unwrap();
    for single in [false, true] {
        let pool = soon(Pool::open(nodes.genesis()).single_reads(single).into_future()).await.unwrap();
        let result = agreed(soon(pool.submit(&read_nym(1))).await.unwrap());
        assert_eq!(result["data"]["dest"], "V4SGRU86Z58d6TV7PBUe6f");
        assert!(result.get("state_proof").is_none(), "{result}");
    }
}

#[tokio::test]
async fn a_revocation_delta_is_agreed_on_although_each_node_has_its_own_state_proof_from() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = opened(&nodes).await;
    let result = agreed(soon(pool.submit(&read_delta(1))).await.unwrap());
    assert_eq!(result["data"]["revocRegDefId"], "registry");
    assert!(result["data"].get("stateProofFrom").is_none(), "it is not verified: {result}");
}

#[tokio::test]
async fn who_is_silent_or_only_acknowledges_is_named() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = impatient(&nodes).await;
    nodes.conduct_all(Conduct::Mute);
    let error = soon(pool.submit(&write(10))).await.unwrap_err();
    assert!(matches!(error, SubmitError::OutcomeUnknown(_)), "{error}");
    assert!(error.source().unwrap().to_string().contains(": silent for 1.5s"), "{:?}", error.source());
    nodes.conduct_all(Conduct::AckOnly);
    let error = soon(pool.submit(&write(11))).await.unwrap_err();
    assert!(error.source().unwrap().to_string().contains("acknowledged, no answer for 4s"), "{:?}", error.source());
    nodes.conduct_all(Conduct::Slow(ms(2_000)));
    soon(pool.submit(&write(12))).await.expect("acknowledged, and so given more time");
}

#[tokio::test]
async fn refusals_say_why() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = opened(&nodes).await;
    for conduct in [Conduct::Nack("not you".into()), Conduct::Reject("not you".into())] {
        nodes.conduct_all(conduct);
        let error = soon(pool.submit(&write(1))).await.unwrap_err();
        assert_eq!(error.to_string(), "the request was rejected: not you");
    }
    for node in 0..4 {
        nodes.conduct(node, Conduct::Nack(format!("reason {node}")));
    }
    let error = soon(pool.submit(&write(2))).await.unwrap_err();
    assert!(matches!(error, SubmitError::NoConsensus(_)), "{error}");
    nodes.conduct_all(Conduct::Honest);
    let unknown = json!({"identifier": "x", "reqId": 3, "operation": {"type": "999"}});
    assert_eq!(
        soon(pool.submit(&unknown)).await.unwrap_err().to_string(),
        "the request was rejected: invalid type: 999"
    );
}

#[tokio::test]
async fn what_cannot_be_sent_is_told_before_anything_is() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = opened(&nodes).await;
    let text = |request: Value| {
        let pool = pool.clone();
        async move { soon(pool.submit(&request)).await.unwrap_err().to_string() }
    };
    assert_eq!(text(json!({"operation": {"type": "1"}})).await, "the request is malformed: reqId is no number");
    assert_eq!(text(json!({"reqId": 1, "operation": {}})).await, "the request is malformed: operation has no type");
    let large = json!({"reqId": 1, "operation": {"type": "1", "raw": "x".repeat(LONGEST_MESSAGE)}});
    assert!(text(large).await.ends_with("bytes, and 131072 is the limit"));
    assert_eq!(requests(&nodes), [0; 4]);
    pool.close();
    assert_eq!(text(write(1)).await, "the pool is closed");
}

/// The reply to request 1 with so many bytes of data.
fn reply_of(size: usize) -> Conduct {
    Conduct::Says(json!({"op": "REPLY", "result": {"reqId": 1, "data": "x".repeat(size)}}).to_string())
}

/// A pool of one node, with more time than a debug build takes to encrypt 8 MiB.
async fn patient(nodes: &indy::Pool) -> Pool {
    soon(Pool::open(nodes.genesis()).ack_timeout(ms(60_000)).into_future()).await.unwrap()
}

#[tokio::test]
async fn a_reply_of_2_mib_is_taken() {
    let nodes = indy::Pool::start(1).await.unwrap();
    let pool = patient(&nodes).await;
    for size in [200 * 1024, 2 << 20] {
        nodes.conduct_all(reply_of(size));
        let result = agreed(soon(pool.submit(&read(1, 1))).await.unwrap());
        assert_eq!(result["data"].as_str().map(str::len), Some(size));
    }
}

#[tokio::test]
async fn a_reply_above_8_mib_ends_the_connection() {
    let nodes = indy::Pool::start(1).await.unwrap();
    let pool = patient(&nodes).await;
    nodes.conduct_all(reply_of(LONGEST_REPLY));
    let error = soon(pool.submit(&read(1, 1))).await.unwrap_err();
    assert!(matches!(error, SubmitError::Disconnected(_)), "{error}");
    assert!(error.source().unwrap().to_string().contains("8388608 is the limit"), "{:?}", error.source());
}

#[tokio::test]
async fn garbage_is_an_invalid_answer_and_what_nobody_asked_for_is_none() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = opened(&nodes).await;
    for (node, garbage) in
        ["po", "[]", "{\"op\":\"REPLY\"}", "{\"op\":\"REQACK\",\"reqId\":77}"].into_iter().enumerate()
    {
        nodes.conduct(node, Conduct::Says(garbage.into()));
    }
    let request = Request::try_from(&write(2)).unwrap().ack_timeout(ms(1_500));
    let error = soon(pool.send(&request)).await.unwrap_err();
    assert!(matches!(error, SubmitError::OutcomeUnknown(_)), "{error}");
    let text = error.source().unwrap().to_string();
    assert!(text.contains("Node2: invalid answer") && text.contains("Node3: invalid answer"), "{text}");
    assert!(text.contains(": silent for 1.5s"), "the first of the others settles it: {text}");
}

#[tokio::test]
async fn what_comes_twice_counts_once() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = opened(&nodes).await;
    nodes.conduct_all(Conduct::Twice);
    for number in 3..9 {
        agreed(soon(pool.submit(&write(number))).await.unwrap());
    }
}

#[tokio::test]
async fn after_garbage_the_next_node_is_asked_without_waiting_for_a_timeout() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let opening = Pool::open(nodes.genesis()).single_reads(true).preferred(["Node1"]).active_for(ms(500));
    // The timeout is longer than anything here waits for.
    let pool = soon(opening.ack_timeout(ms(60_000)).into_future()).await.unwrap();
    soon(nodes.until(|nodes| nodes.all_sockets() == 0)).await;
    nodes.conduct(0, Conduct::Says("garbage".into()));
    let result = agreed(soon(pool.submit(&read(1, 2))).await.unwrap());
    assert_eq!(result["data"]["txnMetadata"]["seqNo"], 2);
    assert_eq!(requests(&nodes)[0], 1, "it was asked first");
}

#[tokio::test]
async fn a_request_goes_as_the_text_that_it_is() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = opened(&nodes).await;
    // Written anew, the number would be another.
    let text = r#"{"reqId": 7, "operation": {"type": "1", "dest": "x", "raw": 123456789012345678901234567890}}"#;
    let request = Request::parse(text).unwrap();
    assert_eq!((request.req_id(), request.text()), (7, text));
    agreed(soon(pool.send(&request)).await.unwrap());
    for (text, problem) in
        [("", "not JSON: "), ("7", "reqId is no number"), (r#"{"reqId": 7}"#, "operation has no type")]
    {
        let error = Request::parse(text).unwrap_err().to_string();
        assert!(error.starts_with("the request is malformed: ") && error.contains(problem), "{error}");
    }
}

#[tokio::test]
async fn a_request_may_name_nodes_and_timeouts() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = opened(&nodes).await;
    let request = |value: &Value| Request::try_from(value).unwrap();
    let some = request(&information(1)).nodes(["Node2", "Node4"]);
    let Reply::Each(told) = soon(pool.send(&some)).await.unwrap() else { panic!("each for itself") };
    assert_eq!(told.keys().collect::<Vec<_>>(), ["Node2", "Node4"]);
    assert_eq!(requests(&nodes), [0, 1, 0, 1]);
    for (names, problem) in [
        (&["Node9"][..], "has no nodes named Node9"),
        (&[], "names no nodes"),
        (&["Node1"], "a quorum of 2 is out of reach"),
    ] {
        let error = soon(pool.send(&request(&write(2)).nodes(names.iter().copied()))).await.unwrap_err();
        assert!(matches!(error, SubmitError::Request(_)), "{error}");
        assert!(error.source().unwrap().to_string().contains(problem), "{:?}", error.source());
    }
    nodes.conduct_all(Conduct::AckOnly);
    let hurried = request(&write(3)).ack_timeout(ms(1_000)).reply_timeout(ms(1_700));
    let error = soon(pool.send(&hurried)).await.unwrap_err();
    assert!(error.source().unwrap().to_string().contains("acknowledged, no answer for 1.7s"), "{:?}", error.source());
    nodes.conduct_all(Conduct::Mute);
    let error = soon(pool.send(&request(&write(4)).ack_timeout(ms(1_000)))).await.unwrap_err();
    assert!(error.source().unwrap().to_string().contains("silent for 1s"), "{:?}", error.source());
}

#[tokio::test]
async fn a_survey_has_what_each_node_says_of_its_ledger() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = opened(&nodes).await;
    nodes.append_at(1, json!({"txn": {"type": "1"}}));
    nodes.conduct(2, Conduct::Says(json!({"op": "LEDGER_STATUS"}).to_string()));
    nodes.stop(3).await;
    let told = soon(pool.survey()).await.unwrap();
    assert_eq!(told["Node1"], Ok(pool.head()));
    assert_eq!(told["Node2"].as_ref().unwrap().size, 5);
    assert_eq!(told["Node3"], Err("invalid answer".to_owned()));
    assert!(told["Node4"].as_ref().is_err_and(|reason| reason.starts_with("cannot connect to ")), "{told:?}");
    assert_eq!(pool.head().size, 4, "one that goes further is not believed");
    pool.close();
    assert!(matches!(pool.survey().await, Err(SubmitError::Closed)));
}

#[tokio::test]
async fn a_write_whose_connections_are_cut_once_reconnects_with_its_identity_and_is_answered() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = opened(&nodes).await;
    let identities = || (0..4).map(|node| nodes.identities(node).len()).collect::<Vec<_>>();
    let before = identities();
    // The nodes carry it out at once, and the answer is on its way when the connections are cut.
    nodes.conduct_all(Conduct::Slow(ms(1_000)));
    let request = write(1);
    let cutting = async {
        nodes.until(|nodes| requests(nodes) == [1; 4]).await;
        nodes.conduct_all(Conduct::Honest);
        (0..4).for_each(|node| nodes.disconnect(node));
    };
    let (written, ()) = soon(async { tokio::join!(pool.submit(&request), cutting) }).await;
    assert_eq!(agreed(written.unwrap())["txnMetadata"]["seqNo"], 1);
    assert_eq!(identities(), before.iter().map(|before| before + 1).collect::<Vec<_>>(), "one identity per window");
    let next = agreed(soon(pool.submit(&write(2))).await.unwrap());
    assert_eq!(next["txnMetadata"]["seqNo"], 2, "it was written once");
}

#[tokio::test]
async fn a_write_whose_connections_are_cut_for_good_fails_with_its_outcome_unknown() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = impatient(&nodes).await;
    nodes.conduct_all(Conduct::Slow(ms(3_000)));
    let request = write(1);
    let cutting = async {
        nodes.until(|nodes| requests(nodes) == [1; 4]).await;
        for node in 0..4 {
            nodes.stop(node).await;
        }
    };
    let (failed, ()) = soon(async { tokio::join!(pool.submit(&request), cutting) }).await;
    let error = failed.unwrap_err();
    assert!(matches!(error, SubmitError::OutcomeUnknown(_)), "{error}");
    assert_eq!(error.to_string(), "sent, outcome unknown: submit the same request again");
    // As it says.
    nodes.conduct_all(Conduct::Honest);
    (0..4).for_each(|node| nodes.restart(node).unwrap());
    assert_eq!(agreed(soon(pool.submit(&request)).await.unwrap())["txnMetadata"]["seqNo"], 1);
}

#[tokio::test]
async fn a_write_that_one_node_refuses_and_others_may_have_fails_with_its_outcome_unknown() {
    // None of these settles it before the refusal is heard.
    for others in [Conduct::Mute, Conduct::AckOnly, Conduct::Disconnects] {
        let nodes = indy::Pool::start(4).await.unwrap();
        let pool = impatient(&nodes).await;
        nodes.conduct_all(others.clone());
        nodes.conduct(0, Conduct::Nack("not you".into()));
        let error = soon(pool.submit(&write(1))).await.unwrap_err();
        assert!(matches!(error, SubmitError::OutcomeUnknown(_)), "{others:?}: {error}");
        assert!(error.source().unwrap().to_string().contains("Node1: refused"), "{:?}", error.source());
        // Of a read there is nothing to know.
        let error = soon(pool.submit(&read(2, 1))).await.unwrap_err();
        assert!(!matches!(error, SubmitError::OutcomeUnknown(_)), "{others:?}: {error}");
    }
}

#[tokio::test]
async fn a_write_whose_pool_is_closed_fails_with_its_outcome_unknown_once_it_was_sent() {
    let nodes = indy::Pool::start(4).await.unwrap();
    for (request, sent) in [(write(1), true), (read(2, 1), false)] {
        let pool = opened(&nodes).await;
        nodes.conduct_all(Conduct::Mute);
        let before: usize = requests(&nodes).iter().sum();
        let closing = async {
            nodes.until(|nodes| requests(nodes).iter().sum::<usize>() >= before + 3).await;
            pool.close();
        };
        let (failed, ()) = soon(async { tokio::join!(pool.submit(&request), closing) }).await;
        let error = failed.unwrap_err();
        match sent {
            true => assert!(matches!(error, SubmitError::OutcomeUnknown(_)), "{error}"),
            false => assert!(matches!(error, SubmitError::Closed), "{error}"),
        }
        assert!(matches!(pool.submit(&write(3)).await, Err(SubmitError::Closed)), "it is not sent any more");
        nodes.conduct_all(Conduct::Honest);
    }
}

#[tokio::test]
async fn a_node_that_restarts_its_listener_is_asked_again() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = opened(&nodes).await;
    for node in 0..4 {
        nodes.stop(node).await;
    }
    let refused = soon(pool.submit(&write(2))).await.unwrap_err();
    assert!(matches!(refused, SubmitError::Disconnected(_)), "{refused}");
    assert!(refused.source().unwrap().to_string().contains("cannot connect to 127.0.0.1"), "{:?}", refused.source());
    for node in 0..4 {
        nodes.restart(node).unwrap();
    }
    soon(pool.submit(&write(3))).await.unwrap();
}

#[tokio::test]
async fn the_same_number_twice_at_once_is_two_requests() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = opened(&nodes).await;
    let (one, other) = (read(7, 1), read(7, 2));
    let (one, other) = soon(async { tokio::join!(pool.submit(&one), pool.submit(&other)) }).await;
    assert_eq!(agreed(one.unwrap())["data"]["txnMetadata"]["seqNo"], 1);
    assert_eq!(agreed(other.unwrap())["data"]["txnMetadata"]["seqNo"], 2);
}
