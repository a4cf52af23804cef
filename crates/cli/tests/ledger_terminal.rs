//! `carom ledger` on a terminal: indented answers, and a bar while it catches up that leaves nothing behind.
#![cfg(unix)]

mod pool;
mod program;

use pool::Pool;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use tokio::process::Command;

/// Runs it with stdout and stderr on a terminal: what it exits with, and what the terminal saw.
async fn on_terminal(mut command: Command) -> (Option<i32>, String) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let open = || OpenOptions::new().read(true).write(true).open(std::ffi::OsStr::from_bytes(name.as_bytes()));
    let mut child = command.stdout(open().unwrap()).stderr(open().unwrap()).spawn().unwrap();
    // It holds the far side too, and while it does the terminal has no end.
    drop(command);
    let reading = tokio::task::spawn_blocking(move || {
        let mut seen = Vec::new();
        // Where the far side is gone, reading fails, and what came before is there.
        let _ = File::from(ours).read_to_end(&mut seen);
        String::from_utf8(seen).unwrap()
    });
    let seen = tokio::time::timeout(program::PATIENCE, reading).await.expect("it ends").unwrap();
    (child.wait().await.unwrap().code(), seen)
}

#[tokio::test]
async fn catching_up_is_shown_on_a_terminal_and_gone_in_the_end() {
    let pool = Pool::start().await;
    pool.nodes.grow(96);
    let (code, seen) = on_terminal(pool.command(&["status"])).await;
    assert_eq!(code, Some(0), "{seen:?}");
    let (bar, answer) = seen.split_once("pool ledger: 100 transactions").expect("the answer comes last");
    for line in [
        "\rcatching up [#.............................] 4 of 100 transactions",
        "\rcatching up [################..............] 54 of 100 transactions",
        "\rcatching up [##############################] 100 of 100 transactions",
    ] {
        assert!(bar.contains(line), "{seen:?}");
    }
    let last = bar.trim_end_matches('\r').rsplit('\r').next().unwrap();
    assert!(bar.ends_with('\r') && last.len() > 60 && last.trim().is_empty(), "wiped: {seen:?}");
    assert!(!answer.contains("catching"), "{seen:?}");
    // Not for whoever reads stderr.
    let ran = pool.ledger(&["status"]).await;
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{ran:?}");
}

#[tokio::test]
async fn answers_are_indented_for_people_and_in_one_line_with_json() {
    let pool = Pool::start().await;
    let (code, seen) = on_terminal(pool.command(&["get-txn", "2"])).await;
    assert_eq!(code, Some(0), "{seen:?}");
    assert!(seen.starts_with("{\r\n") && seen.contains("\r\n  \"txn\": {\r\n"), "{seen:?}");
    let (_, seen) = on_terminal(pool.command(&["get-txn", "2", "--json"])).await;
    assert_eq!((seen.matches('\n').count(), seen.starts_with("{\"")), (1, true), "{seen:?}");
}
