//! The buses of `carom gateway`, as they are configured: what is accepted, and what is said of the rest.

use crate::program::Ran;
use crate::serving::{folder, inside};
use crate::up::Up;
use std::process::Stdio;

/// `carom check` of this config, with these variables.
async fn checked(name: &str, config: &str, variables: &[(&str, &str)]) -> Ran {
    let files = [("c.toml", config), ("token", "hush-hush\n"), ("empty", "\n"), ("ca.pem", "hush")];
    let folder = folder(name, &files);
    let mut command = inside(&folder, &["check", "-c", "c.toml"]);
    command.envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
    crate::program::run(&mut command).await
}

fn zeromq(more: &str) -> String {
    format!("[gateway]\nbus = \"zeromq\"\n[gateway.zeromq]\n{more}\n")
}

fn nats(more: &str) -> String {
    format!("[gateway]\nbus = \"nats\"\n[gateway.nats]\n{more}\n{ELSEWHERE}")
}

/// A feed that can be the same for several gateways.
const ELSEWHERE: &str = "[[feed]]\nbroker = \"simulated\"\nuser = \"demo\"\nurl = \"ws://127.0.0.1:7001\"\n";

#[tokio::test]
async fn mistakes_have_a_file_a_line_a_key_and_what_is_accepted() {
    let feed = |user| format!("[[feed]]\nbroker = \"simulated\"\nuser = \"{user}\"\n");
    let two = zeromq("") + &feed("asha") + &feed("ravi");
    for (config, problem) in [
        (
            "[gateway]\nbus = \"kafka\"",
            "c.toml:2: gateway.bus: `kafka` is no kind of bus; accepted: \"memory\", \"zeromq\" or \"nats\"",
        ),
        ("[gateway]\nbus = true", "c.toml:2: gateway.bus: true is no text; accepted: \"memory\""),
        ("[gateway.zeromq]\nport = 1", "c.toml:1: gateway.zeromq: is for another bus; accepted: with bus = \"zeromq\""),
        (
            "[gateway]\nbus = \"zeromq\"\n[gateway.nats]",
            "c.toml:3: gateway.nats: is for another bus; accepted: with bus = \"nats\"",
        ),
        (
            &zeromq("bind = \"push\""),
            "c.toml:4: gateway.zeromq.bind: `push` is no end of a bus; accepted: \"sub\", for publishers to connect to, or \"pub\"",
        ),
        (&zeromq("host = \"openalgo\""), "c.toml:4: gateway.zeromq.host: `openalgo` is no address; accepted: an IP"),
        (&zeromq("port = 70000"), "c.toml:4: gateway.zeromq.port: 70000 is no port; accepted: a port from 0 to 65535"),
        (&zeromq("hwm = 1"), "c.toml:4: gateway.zeromq.hwm: there is no such key; accepted: `bind`, `host`, `port`"),
        (
            &two,
            "c.toml:10: feed.user: a ZeroMQ bus names no users, so it is one user's (c.toml:2: gateway.bus); accepted: one",
        ),
        (
            &nats("url = \"nats://me:hush-hush@a\""),
            "c.toml:4: gateway.nats.url: this is no address of a NATS server; accepted: one or a list, such as \"nats://",
        ),
        (&nats("url = [\"nats://a\", \"\"]"), "c.toml:4: gateway.nats.url: this is no address of a NATS server"),
        (&nats("url = 4222"), "c.toml:4: gateway.nats.url: an integer is no text"),
        (&nats("prefix = \"a.*\""), "c.toml:4: gateway.nats.prefix: `a.*` cannot begin a subject; accepted: letters"),
        (
            &nats("replicas = 6"),
            "c.toml:4: gateway.nats.replicas: 6 is no number of replicas; accepted: from 1 to 5, and not more than there are",
        ),
        (&nats("token_file = \"none\""), "c.toml:4: gateway.nats.token_file: `none`: cannot be read: "),
        (
            &nats("credentials_file = \"empty\""),
            "c.toml:4: gateway.nats.credentials_file: `empty`: there is nothing in it",
        ),
        (
            &nats("token_file = \"token\"\ncredentials_file = \"token\""),
            "c.toml:4: gateway.nats.token_file: there is credentials_file too; accepted: one of them",
        ),
        (
            &nats("user = \"asha\""),
            "c.toml:3: gateway.nats.password_file: is missing; accepted: a file with the password of that user",
        ),
        (
            &nats("user = \"asha\"\npassword = \"hush\""),
            "c.toml:3: gateway.nats.password_file: is missing; accepted: a file with the password of that user",
        ),
        (
            &nats("password_file = \"token\""),
            "c.toml:3: gateway.nats.user: is missing; accepted: the name of the user who has that password",
        ),
        (
            &nats("user = \"asha\"\npassword_file = \"token\"\ntoken_file = \"token\""),
            "c.toml:4: gateway.nats.user: there is token_file too; accepted: one of them",
        ),
        (
            &nats("ca = \"ca.pem\""),
            "c.toml:4: gateway.nats.ca: `ca.pem`: there are no certificates in it; accepted: the name of a PEM file",
        ),
        (
            &nats("servers = 1"),
            "c.toml:4: gateway.nats.servers: there is no such key; accepted: `ca`, `credentials_file`",
        ),
    ] {
        let ran = checked("bus-wrong", config, &[]).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{config}: {ran:?}");
        assert!(ran.stderr.starts_with(&format!("error: {problem}")), "{config}: {ran:?}");
        assert!(!ran.stderr.contains("hush"), "{ran:?}");
    }
}

#[tokio::test]
async fn what_would_run_is_shown_with_who_says_so() {
    let both = [("ZMQ_HOST", "localhost"), ("ZMQ_PORT", "5556")];
    for (config, variables, shown) in [
        ("[gateway]\n", &[][..], "bus: memory (the default)\n"),
        (
            "[gateway]\nbus = \"zeromq\"\n",
            &[],
            "bus: zeromq (c.toml:2: gateway.bus)\n  publishers connect to tcp://127.0.0.1:5555 (the default)\n",
        ),
        (
            &zeromq("bind = \"pub\""),
            &both,
            "  subscribers connect to tcp://127.0.0.1:5556 (the variable ZMQ_HOST, the variable ZMQ_PORT)\n",
        ),
        (
            &zeromq("host = \"0.0.0.0\"\nport = 5557"),
            &[("ZMQ_HOST", "openalgo"), ("ZMQ_PORT", "?")],
            "tcp://0.0.0.0:5557 (c.toml:4: gateway.zeromq.host, c.toml:5: gateway.zeromq.port)\n",
        ),
        (
            &format!("[gateway]\nbus = \"nats\"\n{ELSEWHERE}"),
            &[],
            "bus: nats (c.toml:2: gateway.bus)\n  at nats://127.0.0.1:4222, with subjects that begin with carom\n",
        ),
        (
            &nats(
                "url = [\"nats://one\", \"tls://two:4443\"]\nprefix = \"desk.one\"\nreplicas = 3\ntoken_file = \"token\"",
            ),
            &[],
            "  at nats://one,tls://two:4443, with subjects that begin with desk.one\n",
        ),
        (&nats("user = \"asha\"\npassword_file = \"token\""), &[], "  at nats://127.0.0.1:4222, with subjects"),
    ] {
        let ran = checked("bus-shown", config, variables).await;
        assert_eq!(ran.code, Some(0), "{config}: {ran:?}");
        // Prices of whoever can come are worth a word.
        let warned = ran.stderr.starts_with("warning: whoever can reach 0.0.0.0:5557 (c.toml:4: gateway.zeromq.host");
        assert_eq!((warned, ran.stderr.is_empty()), (config.contains("0.0.0.0"), !warned), "{config}: {ran:?}");
        assert!(ran.stdout.contains(shown) && !ran.stdout.contains("hush"), "{config}: {ran:?}");
    }
}

#[tokio::test]
async fn variables_of_a_bus_that_is_not_used_are_named_and_may_be_nonsense() {
    for (config, whereabouts) in [("[gateway]\n", "stay in this process"), (&*nats(""), "go over NATS")] {
        let ran = checked("bus-unused", config, &[("ZMQ_HOST", "openalgo"), ("ZMQ_PORT", "")]).await;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let note = format!("note: ticks {whereabouts}, and this is not used: the variable ZMQ_HOST\n");
        assert_eq!(ran.stderr, note);
    }
    let ran = checked("bus-nonsense", &zeromq(""), &[("ZMQ_HOST", "openalgo")]).await;
    let problem = "error: c.toml:2: gateway.bus: the variable ZMQ_HOST: `openalgo` makes no sense; accepted: an IP";
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.starts_with(problem), "{ran:?}");
}

/// A bus is somewhere too.
#[tokio::test]
async fn an_address_that_is_somebody_elses_is_refused() {
    let config = zeromq("port = 9464") + "[admin]\n";
    let ran = checked("bus-taken", &config, &[]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{ran:?}");
    let problem = "error: c.toml:4: gateway.zeromq.port: 127.0.0.1:9464 is taken, at c.toml:5: admin.listen";
    assert!(ran.stderr.starts_with(problem), "{ran:?}");
}

/// Every gateway would have another one of its own.
#[tokio::test]
async fn an_exchange_that_is_started_here_is_no_upstream_of_several() {
    let ran = checked("bus-own-exchange", "[gateway]\nbus = \"nats\"\n", &[]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let warning = "warning: the feed of demo at simulated has an exchange that is started here, and with every other";
    assert!(ran.stderr.starts_with(warning) && ran.stderr.matches('\n').count() == 1, "{ran:?}");
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_waited_for_and_named() {
    let nobody = crate::up::Nobody::somewhere();
    let unused = nobody.address();
    let folder = folder("bus-unreachable", &[("c.toml", &nats(&format!("url = \"nats://{unused}\"")))]);
    for command in [&["gateway", "-c", "c.toml", "--listen", "127.0.0.1:0"][..], &["up", "-c", "c.toml"]] {
        let mut running = crate::program::Running::of(inside(&folder, command));
        let told = running.told("waiting for NATS").await;
        let problem =
            format!("c.toml:4: gateway.nats.url: no NATS server at nats://{unused} could be reached: IO error: ");
        let (_, why) = told.split_once(&problem).unwrap_or_else(|| panic!("{told}"));
        assert_eq!(why.matches("Connection refused").count(), 1, "{told}");
        let ended = running.end("-TERM").await;
        assert_eq!((ended.code, ended.stdout.contains("key of ")), (Some(0), false), "{ended:?}");
    }
}

#[tokio::test]
async fn another_bus_is_for_the_next_start() {
    let config = |bind: &str| {
        let gateway = "[gateway]\nlisten = \"127.0.0.1:0\"\nbus = \"zeromq\"\n";
        format!("{gateway}[gateway.zeromq]\nbind = \"{bind}\"\nport = 0\n")
    };
    let folder = folder("bus-reload", &[("c.toml", &config("sub"))]);
    let mut up = Up::start(&folder).await;
    assert!(up.banner.contains("bus: zeromq (c.toml:3: gateway.bus)\n  publishers connect to tcp://"), "{}", up.banner);
    let note = "note: the gateway and its feeds are as before";
    up.reload(&format!("\n{}", config("sub"))).await;
    assert!(!up.running.heard.contains(note), "it is written elsewhere, and means the same: {}", up.running.heard);
    up.reload(&config("pub")).await;
    assert!(up.running.heard.contains(note), "{}", up.running.heard);
}
