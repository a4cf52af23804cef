//! `carom gateway` on a `carom exchange` that runs elsewhere: faults, and another token.

use crate::program::Running;
use crate::serving::{Serving, folder, inside, ran};

fn config(exchange: &Serving, more: &str) -> String {
    format!("[[feed]]\nbroker = \"simulated\"\nuser = \"demo\"\nurl = \"{}\"\n{more}", exchange.url)
}

#[tokio::test]
async fn connections_that_are_cut_are_made_up_for() {
    let folder = folder("upstream-cut", &[]);
    let exchange = Serving::exchange(&folder, &["--kill-every", "150ms", "--rate", "500", "--ack-delay", "1ms"]).await;
    assert!(exchange.banner.contains(&format!("url = \"{}\"", exchange.url)), "{}", exchange.banner);
    std::fs::write(folder.join("carom.toml"), config(&exchange, "")).unwrap();
    let mut gateway = Serving::gateway(&folder, &["-c", "carom.toml"]).await;
    // More than one connection brings, and not many more: each is waited for longer than the one before.
    let ran = gateway.watched(&gateway.key(), &["--count", "20", "NSE:SBIN"]).await;
    assert_eq!((ran.code, ran.stdout.lines().count(), &*ran.stderr), (Some(0), 20, ""), "{ran:?}");
    gateway.running.told("a connection was lost").await;
    assert_eq!(gateway.running.end("-TERM").await.code, Some(0));
    assert_eq!(exchange.running.end("-INT").await.code, Some(0));
}

/// With the delays that feeds have otherwise, so many attempts take longer than anybody here waits.
#[tokio::test]
async fn attempts_are_as_far_apart_as_the_config_says() {
    let folder = folder("upstream-delay", &[]);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = format!(
        "[[feed]]\nbroker = \"simulated\"\nuser = \"demo\"\nurl = \"ws://{}\"\ndelay = \"5ms\"\nmax_delay = \"50ms\"\n",
        listener.local_addr().unwrap()
    );
    std::fs::write(folder.join("carom.toml"), config).unwrap();
    let gateway = Serving::gateway(&folder, &["-c", "carom.toml"]).await;
    let _watching = Running::of(gateway.watch(&gateway.key(), &["NSE:SBIN"]));
    let attempts = async {
        for _ in 0..20 {
            drop(listener.accept().await.unwrap());
        }
    };
    tokio::time::timeout(crate::program::PATIENCE, attempts).await.expect("it tries again soon");
}

#[tokio::test]
async fn another_token_is_read_from_its_file_and_ticks_go_on() {
    let folder = folder("upstream-token", &[("token", "monday\n"), ("held", "monday\n")]);
    let mut exchange = Serving::exchange(&folder, &["--token-file", "token"]).await;
    std::fs::write(folder.join("carom.toml"), config(&exchange, "credential_file = \"held\"\n")).unwrap();
    let gateway = Serving::gateway(&folder, &["-c", "carom.toml"]).await;
    let key = gateway.key();
    assert_eq!(gateway.watched(&key, &["--count", "1", "NSE:SBIN"]).await.code, Some(0));

    std::fs::write(folder.join("token"), "\n").unwrap();
    exchange.running.signal("-HUP").await;
    let told = exchange.running.told("stays").await;
    assert!(told.ends_with("`token`: there is no token in it"), "{told}");
    std::fs::write(folder.join("token"), "tuesday\n").unwrap();
    exchange.running.signal("-HUP").await;
    exchange.running.told("read again").await;
    std::fs::write(folder.join("held"), "tuesday\n").unwrap();
    // Nobody has asked for this one yet, so that it cannot be left from before.
    let ran = gateway.watched(&key, &["--count", "1", "NSE:RELIANCE"]).await;
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 1), "{ran:?}");
}

#[tokio::test]
async fn the_same_token_read_again_ends_nothing() {
    let folder = folder("upstream-same", &[("token", "monday\n")]);
    let mut exchange = Serving::exchange(&folder, &["--token-file", "token"]).await;
    let file = folder.join("token");
    assert!(exchange.banner.contains(&format!("credential_file = {file:?}")), "{}", exchange.banner);
    std::fs::write(folder.join("carom.toml"), config(&exchange, "credential_file = \"token\"\n")).unwrap();
    let gateway = Serving::gateway(&folder, &["-c", "carom.toml"]).await;
    let key = gateway.key();
    assert_eq!(gateway.watched(&key, &["--count", "1", "NSE:SBIN"]).await.code, Some(0));
    exchange.running.signal("-HUP").await;
    exchange.running.told("is the same").await;
    let ran = gateway.watched(&key, &["--count", "1", "NSE:RELIANCE"]).await;
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 1), "{ran:?}");
}

#[tokio::test]
async fn a_refused_credential_is_tried_again_when_somebody_says_so() {
    let folder = folder("upstream-again", &[("token", "tuesday\n")]);
    let mut exchange = Serving::exchange(&folder, &["--token-file", "token"]).await;
    std::fs::write(folder.join("carom.toml"), config(&exchange, "credential = \"monday\"\n")).unwrap();
    let mut gateway = Serving::gateway(&folder, &["-c", "carom.toml"]).await;
    let key = gateway.key();
    let mut watching = Running::of(gateway.watch(&key, &["NSE:SBIN"]));
    gateway.running.told("refuses the credential").await;
    std::fs::write(folder.join("token"), "monday\n").unwrap();
    exchange.running.signal("-HUP").await;
    exchange.running.told("read again").await;
    gateway.running.signal("-HUP").await;
    let told = gateway.running.told("the feed of").await;
    assert_eq!(told, "the feed of demo at simulated tries its credential again");
    watching.line().await;
}

#[tokio::test]
async fn a_token_from_stdin_is_read_once() {
    let folder = folder("upstream-stdin", &[("token", "monday\n")]);
    let mut command = inside(&folder, &["exchange", "--listen", "127.0.0.1:0", "--token-file", "-"]);
    command.stdin(std::fs::File::open(folder.join("token")).unwrap());
    let mut exchange = Serving::start(command).await;
    let banner = &exchange.banner;
    assert!(banner.contains("credential = \"THE TOKEN\"") && !banner.contains("monday"), "{banner}");
    exchange.running.signal("-HUP").await;
    exchange.running.told("there is no file to read a token from").await;
    assert_eq!(exchange.running.end("-TERM").await.code, Some(0));
}

/// Whoever opens a pipe that nobody writes to waits for good.
#[tokio::test]
async fn a_credential_that_never_comes_does_not_hold_up_the_end() {
    let folder = folder("upstream-never", &[]);
    let exchange = Serving::exchange(&folder, &[]).await;
    let made = std::process::Command::new("mkfifo").arg(folder.join("pipe")).status().unwrap();
    assert!(made.success());
    std::fs::write(folder.join("carom.toml"), config(&exchange, "credential_file = \"pipe\"\n")).unwrap();
    let gateway = Serving::gateway(&folder, &["-c", "carom.toml"]).await;
    let ran = gateway.watched(&gateway.key(), &["--for", "2s", "--count", "1", "NSE:SBIN"]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert_eq!(gateway.running.end("-TERM").await.code, Some(0));
}

/// More than one connection carries, all of them named on the command line.
#[tokio::test]
async fn everything_that_is_listed_can_be_watched() {
    let folder = folder("upstream-listed", &[]);
    let listed = ran(&folder, &["exchange", "--list", "--symbols", "2500"]).await;
    let symbols: Vec<_> = listed.stdout.lines().collect();
    assert_eq!((listed.code, symbols.len(), symbols[0].split(':').count()), (Some(0), 2500, 2), "{listed:?}");
    let gateway = Serving::gateway(&folder, &[]).await;
    let args = [&["--json", "--mode", "ltp", "--count", "2500"], &symbols[..]].concat();
    let ran = gateway.watched(&gateway.key(), &args).await;
    assert_eq!((ran.code, ran.stdout.lines().count(), &*ran.stderr), (Some(0), 2500, ""), "{}", ran.stderr);
}

#[tokio::test]
async fn an_exchange_that_makes_no_sense_is_refused() {
    let folder = folder("upstream-errors", &[("empty", "\n")]);
    for (args, problem) in [
        (&["exchange", "--symbols", "0"][..], "error: --symbols must be from 1 to 1000000, not 0"),
        (&["exchange", "--list", "--symbols", "0"], "error: --symbols must be from 1 to 1000000, not 0"),
        (&["exchange", "--rate=-1"], "error: --rate must be from 0 to 1000000, not -1"),
        (&["exchange", "--rate", "2000000"], "error: --rate must be from 0 to 1000000"),
        (&["exchange", "--max-connections", "0"], "error: --max-connections must be"),
        (&["exchange", "--token", ""], "error: the token is empty"),
        (&["exchange", "--token-file", "empty"], "error: `empty`: there is no token in it"),
        (&["exchange", "--token", "x", "--token-file", "empty"], "cannot be used with"),
        (&["exchange", "--listen", "somewhere"], "`somewhere` is no address and port"),
    ] {
        let ran = ran(&folder, args).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(problem), "{args:?}: {ran:?}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let ran = ran(&folder, &["exchange", "--listen", &at]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.starts_with(&format!("error: cannot listen on {at}: ")), "{ran:?}");
}
