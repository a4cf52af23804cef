//! `carom check`: a config that makes sense, what would run, and one that does not.

use crate::serving::{folder, ran};

const EXAMPLE: &str = include_str!("../../../../contrib/carom.toml");

#[tokio::test]
async fn what_would_run_is_shown_and_does_not_run() {
    // Whoever ran it would not get this port.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap();
    let config = format!(
        "[admin]\n[[service]]\nname = \"api\"\nlisten = \"{at}\"\nprotocol = \"http\"\nresolve = \"api.invalid\"\ntls = true\n\
         [[service]]\nname = \"db\"\nlisten = \"localhost:5433\"\nprotocol = \"tcp\"\nresolve = [\"10.0.0.1:5432\", \"10.0.0.2\"]\n\
         default_port = 5433\nspares = 0\nmaximum = 7\n[gateway]\nkeys = \"keys.toml\"\n"
    );
    let folder = folder("check-summary", &[("carom.toml", &config), ("keys.toml", "")]);
    let expected = format!(
        "carom.toml makes sense: 2 services and the gateway
admin: 127.0.0.1:9464 (carom.toml:1: admin.listen)
service api: http on {at} (carom.toml:4: service.listen) to api.invalid over TLS
  2 spares, at most 32 connections
service db: tcp on 127.0.0.1:5433 (carom.toml:10: service.listen) to 10.0.0.1:5432, 10.0.0.2:5433
  0 spares, at most 7 connections
gateway: 127.0.0.1:8765 (the default)
bus: memory (the default)
feed: demo at simulated from an exchange started here
keys: 0 (carom.toml:17: gateway.keys)
"
    );
    for args in [&["check"][..], &["check", "-c", "carom.toml"]] {
        let ran = ran(&folder, args).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(0), &*expected), "{ran:?}");
        assert_eq!(ran.stderr, "warning: there are no keys at all, and nobody is let in\n");
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_told_and_is_not_zero() {
    let tls = "[gateway]\ntls_certificate = \"carom.toml\"\ntls_key = \"carom.toml\"\n";
    let files = [("carom.toml", "[[service]]\nnme = \"a\"\n"), ("empty.toml", ""), ("tls.toml", tls)];
    let folder = folder("check-wrong", &files);
    for (args, problem) in [
        (&["check"][..], "error: carom.toml:1: service.name: is missing, unless `nme` in line 2 is meant"),
        (&["check", "-c", "none.toml"], "error: `none.toml`: cannot be read: "),
        (&["check", "-c", "tls.toml"], "error: tls.toml: gateway.tls_certificate: no certificate in carom.toml"),
        (&["check", "-c", "empty.toml"], "error: empty.toml: lists nothing to run; accepted: at least one [[service]]"),
    ] {
        let ran = ran(&folder, args).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.starts_with(problem), "{ran:?}");
    }
}

#[tokio::test]
async fn the_example_works() {
    let folder = folder("check-example", &[("carom.toml", EXAMPLE)]);
    let ran = ran(&folder, &["check"]).await;
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{ran:?}");
    assert!(ran.stdout.starts_with("carom.toml makes sense: 2 services and the gateway\n"), "{ran:?}");
}

#[tokio::test]
async fn the_other_examples_work() {
    let key = format!("[[key]]\nuser = \"demo\"\nbroker = \"simulated\"\nsha256 = \"{}\"\n", "a".repeat(64));
    for (example, shown) in [
        (include_str!("../../../../contrib/zeromq.toml"), "feed: asha at zerodha from whoever publishes on the bus"),
        (include_str!("../../../../contrib/nats.toml"), "feed: demo at simulated from ws://127.0.0.1:7001"),
        (include_str!("../../../../contrib/brokers.toml"), "feed: asha at deltaexchange from wss://public-socket"),
    ] {
        let files = [
            ("carom.toml", example),
            ("keys.toml", &key),
            ("access_token", "x"),
            ("instruments.csv", crate::brokers::KITE),
            ("products.json", crate::brokers::DELTA),
        ];
        let ran = ran(&folder("check-others", &files), &["check"]).await;
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{ran:?}");
        assert!(ran.stdout.contains(shown), "{ran:?}");
    }
}

/// With all that is commented out, and the files that are named then.
#[tokio::test]
async fn the_example_works_with_every_key() {
    let key = |line: &str| {
        let (key, _) = line.strip_prefix("# ")?.split_once(" = ")?;
        key.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit()).then(|| key.to_owned())
    };
    let without = |line: &str| if key(line).is_some() { line[2..].to_owned() } else { line.to_owned() };
    let all: String = EXAMPLE.lines().map(|line| without(line) + "\n").collect();
    let made = rcgen::generate_simple_self_signed(["api.example.com".to_owned()]).unwrap();
    let (chain, private) = (made.cert.pem(), made.signing_key.serialize_pem());
    let known = |user, digit: &str| {
        format!("[[key]]\nuser = \"{user}\"\nbroker = \"simulated\"\nsha256 = \"{}\"\n", digit.repeat(64))
    };
    let keys = known("demo", "a") + &known("asha", "b");
    let files = [
        ("carom.toml", &*all),
        ("ca.pem", &chain),
        ("chain.pem", &chain),
        ("key.pem", &private),
        ("keys.toml", &keys),
        ("token", "x"),
        ("admin-token", "sixteen-characters-at-least"),
    ];
    let folder = folder("check-all", &files);
    let ran = ran(&folder, &["check"]).await;
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{ran:?}");
    // Every key that the help knows is in it.
    let help = crate::program::carom(["up", "--help"]).await.stdout;
    let (_, further) = help.split_once("Further keys of a service").unwrap();
    let (further, _) = further.split_once("[gateway] and [[feed]]").unwrap();
    for line in further.lines().filter(|line| line.starts_with("    ") && !line.starts_with("     ")) {
        let (key, _) = line.trim().split_once(" = ").unwrap_or_else(|| panic!("{line}"));
        assert!(all.lines().any(|line| line.starts_with(&format!("{key} = "))), "{key} is not in the example");
    }
}
