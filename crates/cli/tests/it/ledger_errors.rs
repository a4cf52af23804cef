//! `carom ledger`, when it cannot: what is said, what it exits with, and nothing on stdout.

use crate::pool::{Pool, nym};
use crate::program::carom;
use serde_json::json;
use testkit::indy::Conduct;

#[tokio::test]
async fn command_lines_and_files_that_make_no_sense_ask_nobody() {
    let pool = Pool::start().await;
    let request = |name: &str, text: &str| pool.file(name, text);
    let (no_json, empty) = (request("no.json", "reqId: 7"), request("empty.json", ""));
    let (no_number, no_type) =
        (request("number.json", r#"{"operation": {"type": "1"}}"#), request("type.json", r#"{"reqId": 7}"#));
    let long =
        request("long.json", &json!({"reqId": 7, "operation": {"type": "1", "raw": "x".repeat(140_000)}}).to_string());
    let endless = request("endless.json", &"x".repeat(300_000));
    let folder = pool.folder().to_str().unwrap().to_owned();
    for (args, problem) in [
        (&["get-txn", "0"][..], "'0'"),
        (&["get-txn", "-1"], "'-1'"),
        (&["get-txn", "five"], "'five'"),
        (&["get-txn", "18446744073709551616"], "'18446744073709551616'"),
        (&["get-txn"], "<N>"),
        (&["get-txn", "1", "--ledger", "wat"], "'wat'"),
        (&["--ack-timeout", "0", "status"], "'0'"),
        (&["--ack-timeout", "5s", "--reply-timeout", "1s", "status"], "--reply-timeout 1s is below --ack-timeout 5s"),
        (&["wat"], "'wat'"),
        (&["submit"], "<FILE>"),
        (&["submit", "no/such/file"], "`no/such/file`: cannot be read: "),
        (&["submit", &folder], "cannot be read: "),
        (&["submit", &no_json], "no.json`: the request is malformed: not JSON: "),
        (&["submit", &empty], "empty.json`: the request is malformed: not JSON: "),
        (&["submit", "-"], "stdin: the request is malformed: not JSON: "),
        (&["submit", &no_number], "number.json`: the request is malformed: reqId is no number"),
        (&["submit", &no_type], "type.json`: the request is malformed: operation has no type"),
        (&["submit", &long], "and 131072 is the limit"),
        (&["submit", &endless], "longer than 262144 bytes"),
    ] {
        let ran = pool.ledger(args).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{args:?}: {ran:?}");
        assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains(problem), "{args:?}: {ran:?}");
    }
    assert_eq!((0..4).map(|node| pool.nodes.accepted(node)).sum::<usize>(), 0);
}

#[tokio::test]
async fn a_genesis_that_is_of_no_use() {
    let pool = Pool::start().await;
    let good = pool.nodes.genesis();
    let ports: Vec<_> = (0..4).map(|node| pool.nodes.address(node).port().to_string()).collect();
    let no_ports =
        ports.iter().fold(good, |text, port| text.replace(&format!("\"client_port\":{port}"), "\"client_port\":0"));
    let of = |name: &str, text: &str| pool.file(name, text);
    for (genesis, problem) in [
        ("no/such/genesis".to_owned(), "`no/such/genesis`: cannot be read: "),
        (of("empty", "\n\n"), "empty`: the genesis holds no transactions"),
        (of("diary", "\nmy diary\n"), "diary`: the genesis is damaged: line 2: not JSON"),
        (of("ports", &no_ports), "(line 1: the client_port of Node1 is not a number from 1 to 65535: 0)"),
    ] {
        let ran = carom(["ledger", "-g", &genesis, "status"]).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.contains("error: `") && ran.stderr.contains(problem), "{problem}: {ran:?}");
    }
    std::fs::write(pool.folder().join("latin"), b"\xe9t\xe9").unwrap();
    let ran = carom(["ledger", "status", "-g", pool.folder().join("latin").to_str().unwrap()]).await;
    assert!(ran.code == Some(2) && ran.stderr.contains("latin`: not a text: "), "{ran:?}");
    let ran = carom(["ledger", "status"]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{ran:?}");
    assert!(ran.stderr.starts_with("error: --genesis is missing"), "{ran:?}");
}

#[tokio::test]
async fn damaged_genesis_sends_no_request_and_writes_no_cache() {
    let pool = Pool::start().await;
    let genesis = pool.nodes.genesis();
    let cache = pool.folder().join("cache").to_str().unwrap().to_owned();
    let lines: Vec<_> = genesis.lines().collect();
    for (damaged, problem) in [
        (genesis[..genesis.len() - 10].to_owned(), "line 4: not JSON: EOF while parsing"),
        ([lines[0], lines[2], lines[3]].join("\n"), "line 2: its seqNo is 3, and 2 is due"),
        (genesis.replace("[\"VALIDATOR\"]", "[]"), "names no validator that can be used"),
        ("\n".to_owned(), "holds no transactions"),
    ] {
        pool.file("genesis", &damaged);
        for args in [&["--cache", &cache, "status"][..], &["--cache", &cache, "get-txn", "1"]] {
            let ran = pool.ledger(args).await;
            assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{ran:?}");
            assert!(ran.stderr.starts_with("error: `") && ran.stderr.contains(problem), "{problem}: {ran:?}");
        }
    }
    assert!(!std::path::Path::new(&cache).exists(), "there is a cache");
    assert_eq!((0..4).map(|node| pool.nodes.accepted(node)).sum::<usize>(), 0);
}

#[tokio::test]
async fn a_pool_that_cannot_be_reached() {
    let pool = Pool::start().await;
    for node in 0..4 {
        pool.nodes.stop(node).await;
    }
    for args in [&["status"][..], &["--json", "status"], &["get-txn", "1"]] {
        let ran = pool.ledger(args).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
        assert!(ran.stderr.starts_with("error: no node could be reached, or the connection broke\n"), "{ran:?}");
        // The last of them is not waited for: no two can agree any more.
        let refused = |node: usize| {
            let at = pool.nodes.address(node);
            ran.stderr.contains(&format!("\n  Node{}: cannot connect to {at}: Connection refused", node + 1))
        };
        assert!((0..4).filter(|&node| refused(node)).count() >= 3, "{ran:?}");
    }
}

#[tokio::test]
async fn nodes_that_are_silent_only_acknowledge_or_have_no_ledger_in_common() {
    let pool = Pool::start().await;
    pool.nodes.conduct_all(Conduct::AckOnly);
    let file = pool.file("nym.json", &nym(1).to_string());
    let ran = pool.ledger(&["--ack-timeout", "1500ms", "--reply-timeout", "2s", "submit", &file]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.starts_with("error: sent, outcome unknown: submit the same request again\n"), "{ran:?}");
    // With three silent no two can agree any more: whoever is last has no time left to be waited for.
    assert!(ran.stderr.contains(": acknowledged, no answer for 2s\n"), "{ran:?}");

    pool.nodes.conduct_all(Conduct::Mute);
    let ran = pool.ledger(&["--ack-timeout", "1500ms", "status"]).await;
    assert!(ran.code == Some(1) && ran.stderr.contains(": silent for 1.5s\n"), "{ran:?}");

    pool.nodes.conduct_all(Conduct::Honest);
    for node in 0..4 {
        pool.nodes.append_at(node, json!({"txn": {"type": "1", "of": node}}));
    }
    let ran = pool.ledger(&["status"]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.contains(": answered: 5 transactions with root "), "{ran:?}");
}

#[tokio::test]
async fn refusals_and_answers_that_differ() {
    let pool = Pool::start().await;
    let file = pool.file("nym.json", &nym(1).to_string());
    pool.nodes.conduct_all(Conduct::Reject("not\u{1b}[2J you".into()));
    let ran = pool.ledger(&["submit", &file]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.starts_with("error: the request was rejected: not\\u{1b}[2J you\n"), "{ran:?}");
    for node in 0..4 {
        pool.nodes.conduct(node, Conduct::Nack(format!("reason {node}")));
    }
    let ran = pool.ledger(&["submit", &file]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.starts_with("error: too few nodes gave the same answer\n"), "{ran:?}");
    assert!(ran.stderr.contains("\n  Node2: refused: reason 1\n"), "{ran:?}");
    pool.nodes.conduct_all(Conduct::Nack("not you".into()));
    let information = json!({"reqId": 3, "operation": {"type": "119"}}).to_string();
    let ran = pool.ledger(&["submit", &pool.file("information.json", &information)]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.starts_with("error: no node answered\n  Node1: refused: not you\n"), "{ran:?}");
}

#[tokio::test]
async fn a_transaction_that_is_not_there() {
    let pool = Pool::start().await;
    for (args, problem) in [
        (&["get-txn", "99"][..], "error: the pool ledger has no transaction 99; it has 4\n"),
        (&["get-txn", "-l", "domain", "1"], "error: the domain ledger has no transaction 1\n"),
    ] {
        let ran = pool.ledger(args).await;
        assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(1), "", problem), "{ran:?}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn output_that_cannot_be_written_is_a_failure() {
    let pool = Pool::start().await;
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ran = crate::program::run(pool.command(&["get-txn", "1"]).stdout(full)).await;
    assert!(ran.code == Some(1) && ran.stderr.contains("error: the output cannot be written: "), "{ran:?}");
}
