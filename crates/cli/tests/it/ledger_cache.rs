//! `carom ledger --cache`: whoever has a ledger asks for nothing of it, however the one before ended.

use crate::pool::{Pool, json_of, nym};
use crate::program::Running;
use std::time::Duration;
use testkit::indy::Conduct;

#[tokio::test]
async fn the_next_run_asks_for_what_is_new_alone() {
    let pool = Pool::start().await;
    pool.nodes.grow(60);
    let folder = pool.folder().join("cache").to_str().unwrap().to_owned();
    let status = ["--cache", &folder, "--json", "status"];
    assert_eq!(json_of(&pool.ledger(&status).await)["size"], 64);
    assert_eq!(pool.asked("CATCHUP_REQ"), 2);
    pool.nodes.grow(1);
    assert_eq!(json_of(&pool.ledger(&status).await)["size"], 65);
    assert_eq!(pool.asked("CATCHUP_REQ"), 3);
}

#[cfg(unix)]
#[tokio::test]
async fn a_killed_process_restarted_from_its_cache_asks_for_nothing_it_already_has() {
    let pool = Pool::start().await;
    pool.nodes.grow(60);
    // It catches up, and then waits for an answer that does not come.
    pool.nodes.conduct_all(Conduct::AckOnly);
    let folder = pool.folder().join("cache").to_str().unwrap().to_owned();
    let (genesis, file) = (pool.folder().join("genesis"), pool.file("nym.json", &nym(1).to_string()));
    let running = Running::start(["ledger", "-g", genesis.to_str().unwrap(), "--cache", &folder, "submit", &file]);
    pool.nodes.until(|_| pool.requests() == [1; 4]).await;
    let killed = running.end("-KILL").await;
    assert_eq!((killed.code, &*killed.stdout), (None, ""), "{killed:?}");
    assert_eq!(pool.asked("CATCHUP_REQ"), 2);

    pool.nodes.until(|nodes| nodes.all_sockets() == 0).await;
    pool.nodes.conduct_all(Conduct::Honest);
    let ran = pool.ledger(&["--cache", &folder, "submit", &file]).await;
    assert_eq!(json_of(&ran)["txn"]["data"]["dest"], "did1");
    assert_eq!(pool.asked("CATCHUP_REQ"), 2, "it has all of it already");
    let mut heard = (0..4).flat_map(|node| pool.nodes.heard(node));
    let says = |asked: &serde_json::Value| asked["op"] == "LEDGER_STATUS" && asked["txnSeqNo"] == 64;
    assert!(heard.any(|asked| says(&asked)), "it asks how far the ledger goes, and says how far its own does");
}

#[cfg(unix)]
#[tokio::test]
async fn a_process_killed_while_it_catches_up_has_kept_what_had_come() {
    let pool = Pool::start().await;
    pool.nodes.grow(600);
    // So that something is kept long before the end.
    pool.nodes.conduct_all(Conduct::Slow(Duration::from_millis(300)));
    let folder = pool.folder().join("cache");
    let (genesis, cache) = (pool.folder().join("genesis"), folder.to_str().unwrap().to_owned());
    let running = Running::start(["ledger", "-g", genesis.to_str().unwrap(), "--cache", &cache, "status"]);
    while !std::fs::read_dir(&folder).is_ok_and(|mut files| files.next().is_some()) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // It may be writing, or have written just now.
    let killed = running.end("-KILL").await;
    assert_eq!((killed.code, &*killed.stdout), (None, ""), "{killed:?}");
    let asked = || (0..4).flat_map(|node| pool.nodes.heard(node)).filter_map(|asked| asked["seqNoStart"].as_u64());
    assert!(asked().max() < Some(555), "it was not done");

    pool.nodes.conduct_all(Conduct::Honest);
    let begun = asked().filter(|start| *start == 5).count();
    let again = pool.ledger(&["--cache", &cache, "--json", "status"]).await;
    assert_eq!(json_of(&again)["size"], 604);
    // Killed before the file had its name, it has nothing; otherwise it goes on from there.
    let whole = std::fs::read_dir(&folder).unwrap().count() == 1;
    assert_eq!(asked().filter(|start| *start == 5).count(), begun + usize::from(!whole));
}
