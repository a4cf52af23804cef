//! `carom gateway` on a `carom exchange` that runs elsewhere: faults, and another token.
#![cfg(unix)]

mod program;
mod serving;

use serving::{Serving, folder, ran};

fn config(exchange: &Serving, more: &str) -> String {
    format!("[[feed]]\nbroker = \"simulated\"\nuser = \"demo\"\nurl = \"{}\"\n{more}", exchange.url)
}

#[tokio::test]
async fn connections_that_are_cut_are_made_up_for() {
    let folder = folder("upstream-cut", &[]);
    let exchange = Serving::exchange(&folder, &["--kill-every", "150ms", "--rate", "500", "--ack-delay", "1ms"]).await;
    assert!(exchange.banner.contains(&format!("url = \"{}\"", exchange.url)), "{}", exchange.banner);
    std::fs::write(folder.join("carom.toml"), config(&exchange, "")).unwrap();
    let gateway = Serving::gateway(&folder, &["-c", "carom.toml"]).await;
    let ran = gateway.watched(&gateway.key(), &["--count", "60", "NSE:SBIN"]).await;
    assert_eq!((ran.code, ran.stdout.lines().count(), &*ran.stderr), (Some(0), 60, ""), "{ran:?}");
    assert_eq!(gateway.running.end("-TERM").await.code, Some(0));
    assert_eq!(exchange.running.end("-INT").await.code, Some(0));
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
async fn an_exchange_that_makes_no_sense_is_refused() {
    let folder = folder("upstream-errors", &[("empty", "\n")]);
    for (args, problem) in [
        (&["exchange", "--symbols", "0"][..], "error: --symbols must be from 1 to 1000000, not 0"),
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
