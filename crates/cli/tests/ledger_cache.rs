//! `carom ledger --cache`: whoever has a ledger asks for nothing of it, however the one before ended.

mod pool;
mod program;

use pool::{Pool, json_of, nym};
use program::Running;
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
