//! `carom load` on a terminal: a bar while it runs that leaves nothing behind, and a report that fits.

use crate::program::command;
use crate::terminal::on_terminal_of;
use crate::web::load;
use std::time::Duration;
use testkit::http::Server;

#[tokio::test]
async fn a_bar_is_shown_and_gone_in_the_end() {
    let server = Server::start("alone").await.unwrap();
    server.set_delay(Duration::from_millis(20));
    for columns in [30, 40, 80, 200] {
        let mut command = command(["load", "-n", "40", "-c", "2", &server.url("/")]);
        command.env("TERM", "xterm");
        let (code, seen) = on_terminal_of(columns, command).await;
        assert_eq!(code, Some(0), "{seen:?}");
        let (bar, report) = seen.split_once("GET http://").expect("the report comes last");
        assert!(bar.ends_with("\r\u{1b}[K") && !report.contains('\u{1b}'), "wiped: {seen:?}");
        assert!(bar.matches(" of 40 requests").count() > 1, "{seen:?}");
        assert_eq!(bar.contains("\r["), columns > 40, "{seen:?}");
        let drawn = bar.split('\r').map(|line| line.trim_end_matches("\u{1b}[K"));
        assert!(drawn.clone().all(|line| line.len() < columns.into()), "{columns}: {seen:?}");
        assert!(!bar.contains('\n') && !bar.contains("\u{1b}[?"), "{seen:?}");
        let fits = report.lines().skip(1).all(|line| line.len() <= columns.into());
        assert!(fits || columns < 40, "{columns}: {seen:?}");
    }
}

#[tokio::test]
async fn no_bar_where_it_could_not_be_wiped_or_nobody_sees_it() {
    let server = Server::start("alone").await.unwrap();
    let mut command = command(["load", "-n", "2", &server.url("/")]);
    command.env("TERM", "dumb");
    let (code, seen) = on_terminal_of(80, command).await;
    assert_eq!((code, seen.contains('\u{1b}')), (Some(0), false), "{seen:?}");
    let ran = load(&["-n", "2", &server.url("/")]).await;
    assert_eq!((ran.code, &*ran.stderr, ran.stdout.contains('\u{1b}')), (Some(0), "", false), "{ran:?}");
}
