//! `carom ledger` on a terminal: indented answers, and a bar while it catches up that leaves nothing behind.

use crate::pool::Pool;
use crate::terminal::on_terminal;

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
