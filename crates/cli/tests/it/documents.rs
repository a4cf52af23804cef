//! What the program says of itself.

use crate::program::carom;

#[tokio::test]
async fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = carom(["completions", shell]).await;
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
        for word in [
            "resolve",
            "follow",
            "ledger",
            "get-txn",
            "gateway",
            "exchange",
            "watch",
            "max-connections",
            "top",
            "token-file",
        ] {
            assert!(ran.stdout.contains(word), "{shell}: {word}");
        }
    }
    let ran = carom(["completions", "wat"]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
}

#[tokio::test]
async fn manual_pages() {
    let ran = carom(["man"]).await;
    assert!(ran.stdout.contains(".TH carom 1") && ran.stdout.contains("carom\\-resolve(1)"), "{}", ran.stdout);
    let ran = carom(["man", "resolve"]).await;
    assert!(ran.stdout.contains(".TH carom-resolve 1") && ran.stdout.contains("\\-\\-follow"), "{}", ran.stdout);
    assert!(ran.stdout.contains("\n.nf\n"), "examples keep their lines: {}", ran.stdout);
    let ran = carom(["man", "ledger"]).await;
    assert!(ran.stdout.contains(".TH carom-ledger 1") && ran.stdout.contains("\\-\\-genesis"), "{}", ran.stdout);
    let ran = carom(["man", "ledger", "get-txn"]).await;
    assert!(ran.stdout.contains(".TH carom-ledger-get-txn 1"), "{}", ran.stdout);
    for (words, option) in [
        (&["man", "gateway"][..], "\\-\\-tls\\-certificate"),
        (&["man", "exchange"], "\\-\\-kill\\-every"),
        (&["man", "watch"], "\\-\\-key\\-file"),
        (&["man", "get"], "\\-\\-no\\-srv"),
        (&["man", "top"], "\\-\\-token\\-file"),
        (&["man", "load"], "\\-\\-rate"),
        (&["man", "key", "new"], "\\-\\-broker"),
    ] {
        let ran = carom(words).await;
        let title = format!(".TH carom-{} 1", words[1..].join("-"));
        assert!(ran.stdout.contains(&title) && ran.stdout.contains(option), "{}", ran.stdout);
    }
    for (words, problem) in [
        (&["man", "wat"][..], "error: `wat` is no command of carom; there are up, check, top, resolve, get, load, "),
        (&["man", "ledger", "wat"], "error: `wat` is no command of ledger; there are status, get-txn, submit\n"),
        (&["man", "resolve", "wat"], "error: `wat` is no command of resolve; there are none\n"),
    ] {
        let ran = carom(words).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
        assert!(ran.stderr.starts_with(problem), "{}", ran.stderr);
    }
}

#[tokio::test]
async fn help_and_version() {
    let ran = carom(["--version"]).await;
    assert_eq!(ran.stdout, concat!("carom ", env!("CARGO_PKG_VERSION"), "\n"));
    let ran = carom(["--help"]).await;
    assert!(ran.stdout.lines().count() < 30 && ran.stdout.contains("resolve"), "{}", ran.stdout);
    for command in [
        &["up"][..],
        &["check"],
        &["top"],
        &["resolve"],
        &["ledger"],
        &["gateway"],
        &["exchange"],
        &["watch"],
        &["key", "new"],
        &["get"],
        &["load"],
    ] {
        let ran = carom(command.iter().chain(&["--help"])).await;
        assert!(ran.stdout.contains("Examples:") && ran.stdout.contains("Exit codes:"), "{}", ran.stdout);
        assert!(ran.stdout.lines().all(|line| line.len() <= 100), "{}", ran.stdout);
    }
    let ran = carom::<&str>([]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    assert!(ran.stderr.contains("Usage: carom"), "{}", ran.stderr);
}

#[tokio::test]
async fn a_log_filter_that_makes_no_sense_is_refused() {
    let mut command = crate::program::command(["resolve", "-S", "127.0.0.1"]);
    command.env("CAROM_LOG", "a=b=c").stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let ran = crate::program::run(&mut command).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    assert!(ran.stderr.contains("CAROM_LOG=\"a=b=c\""), "{}", ran.stderr);
}
