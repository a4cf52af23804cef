//! `carom ledger`, when there is an answer: that alone is on stdout.

use crate::pool::{Pool, json_of, nym};
use serde_json::json;
use std::process::Stdio;
use std::time::Duration;
use testkit::indy::Conduct;
use tokio::io::AsyncWriteExt;

#[tokio::test]
async fn status_tells_how_far_the_ledger_goes_and_what_each_node_says() {
    let pool = Pool::start().await;
    pool.nodes.grow(3);
    let ran = pool.ledger(&["status"]).await;
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{ran:?}");
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with("pool ledger: 7 transactions, root "), "{ran:?}");
    assert_eq!(lines[1], "caught up: yes (4 of 4 nodes have it, 2 must)");
    for node in 0..4 {
        let expected = format!("Node{} {:<21} answers: the same", node + 1, pool.nodes.address(node));
        assert_eq!(lines[2 + node], expected);
    }

    let status = json_of(&pool.ledger(&["--json", "status"]).await);
    assert_eq!(status["root"], lines[0].rsplit(' ').next().unwrap());
    assert_eq!(
        (&status["size"], &status["caught_up"], &status["agreeing"], &status["needed"]),
        (&json!(7), &json!(true), &json!(4), &json!(2))
    );
    let node = &status["nodes"][2];
    assert_eq!((&node["alias"], &node["address"]), (&json!("Node3"), &json!(pool.nodes.address(2).to_string())));
    assert_eq!((&node["answers"], &node["size"], &node["error"]), (&json!(true), &json!(7), &json!(null)));
    assert_eq!(node["root"], status["root"]);
}

#[tokio::test]
async fn status_names_who_does_not_answer_and_who_has_another_ledger() {
    let pool = Pool::start().await;
    pool.nodes.stop(0).await;
    pool.nodes.append_at(1, json!({"txn": {"type": "1", "of": "one node alone"}}));
    let ran = pool.ledger(&["status"]).await;
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{ran:?}");
    assert!(ran.stdout.contains("pool ledger: 4 transactions"), "{ran:?}");
    assert!(ran.stdout.contains("caught up: yes (2 of 4 nodes have it, 2 must)"), "{ran:?}");
    assert!(ran.stdout.contains("no answer: cannot connect to 127.0.0.1:"), "{ran:?}");
    assert!(ran.stdout.contains("answers: 5 transactions with root "), "{ran:?}");
    let status = json_of(&pool.ledger(&["status", "--json"]).await);
    let (gone, ahead) = (&status["nodes"][0], &status["nodes"][1]);
    assert_eq!((&gone["answers"], &gone["size"], &gone["root"]), (&json!(false), &json!(null), &json!(null)));
    assert!(gone["error"].as_str().unwrap().starts_with("cannot connect to "), "{gone}");
    assert_eq!((&ahead["answers"], &ahead["size"]), (&json!(true), &json!(5)));
}

#[tokio::test]
async fn get_txn_prints_the_transaction_in_a_line() {
    let pool = Pool::start().await;
    for args in [&["get-txn", "2"][..], &["get-txn", "2", "--json"], &["get-txn", "--ledger", "pool", "2"]] {
        let transaction = json_of(&pool.ledger(args).await);
        assert_eq!(transaction["txnMetadata"]["seqNo"], 2, "{args:?}");
        assert_eq!(transaction["txn"]["data"]["data"]["alias"], "Node2", "{args:?}");
    }
}

#[tokio::test]
async fn a_lying_node_is_outvoted() {
    let pool = Pool::start().await;
    pool.nodes.conduct(1, Conduct::Lying);
    assert_eq!(json_of(&pool.ledger(&["get-txn", "1"]).await)["txnMetadata"]["seqNo"], 1);
}

#[tokio::test]
async fn submit_sends_a_file_or_stdin_as_it_is_and_prints_the_reply() {
    let pool = Pool::start().await;
    let file = pool.file("nym.json", &format!("\n{:#}\n\n", nym(7)));
    // Slow enough that it has not what it wants before everybody was asked.
    pool.nodes.conduct_all(Conduct::Slow(Duration::from_millis(200)));
    let result = json_of(&pool.ledger(&["submit", &file]).await);
    assert_eq!((&result["txn"]["data"]["dest"], &result["txnMetadata"]["seqNo"]), (&json!("did7"), &json!(1)));
    assert_eq!(pool.requests(), [1; 4]);
    assert!(pool.nodes.heard(2).contains(&nym(7)), "{:?}", pool.nodes.heard(2));

    let mut child = pool.command(&["submit", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(nym(8).to_string().as_bytes()).await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("did8"));
}

#[tokio::test]
async fn what_each_node_answers_for_itself_is_printed_by_alias() {
    let pool = Pool::start().await;
    let request = json!({"identifier": "Th7MpTaRZVRYnPiabds81Y", "reqId": 3, "operation": {"type": "119"}});
    let file = pool.file("information.json", &request.to_string());
    pool.nodes.conduct(3, Conduct::Nack("not you".into()));
    let told = json_of(&pool.ledger(&["submit", &file]).await);
    assert_eq!(told["Node1"]["result"]["data"]["alias"], "Node1");
    assert_eq!(told["Node4"], json!({"error": "refused: not you"}));
    assert_eq!(told.as_object().unwrap().len(), 4);
}

#[tokio::test]
async fn submit_prints_no_state_proof_that_was_not_verified() {
    let pool = Pool::start().await;
    let request = json!({"identifier": "x", "reqId": 4, "operation": {"type": "105", "dest": "did"}});
    let result = json_of(&pool.ledger(&["submit", &pool.file("get-nym.json", &request.to_string())]).await);
    assert_eq!((&result["data"]["dest"], result.get("state_proof")), (&json!("did"), None));
}
