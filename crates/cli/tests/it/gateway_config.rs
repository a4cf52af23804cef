//! The config of `carom gateway`: its layers, and what is said of what makes no sense.

use crate::serving::{Serving, folder, inside, ran};
use std::process::Stdio;

/// What is said of this config.
async fn refused(name: &str, text: &str) -> String {
    let folder = folder(name, &[("c.toml", text), ("keys.toml", "")]);
    let ran = ran(&folder, &["gateway", "-c", "c.toml", "--listen", "127.0.0.1:0"]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{text}: {ran:?}");
    ran.stderr
}

#[tokio::test]
async fn mistakes_have_a_file_a_line_a_key_and_what_is_accepted() {
    let feed = |more: &str| format!("[[feed]]\nbroker = \"simulated\"\nuser = \"demo\"\n{more}\n");
    let two = feed("") + &feed("");
    let elsewhere = |more: &str| feed(&format!("url = \"ws://127.0.0.1:1\"\n{more}"));
    for (text, problem) in [
        (
            "[gateway]\nlisten = 8765",
            "c.toml:2: gateway.listen: an integer is no text; accepted: an IP address or localhost",
        ),
        ("[gateway]\nlisten = \"8765\"", "c.toml:2: gateway.listen: `8765` is no address and port; accepted: an IP"),
        ("[gateway]\n\nlisen = \"x\"", "c.toml:3: gateway.lisen: there is no such key; did you mean `listen`?"),
        ("[gatewy]\n", "c.toml:1: gatewy: there is no such key; did you mean `gateway`?"),
        ("gateway = 1", "c.toml:1: gateway: an integer is no table; accepted: a table, as in [gateway]"),
        (
            "[gateway]\nslow_after = 30",
            "c.toml:2: gateway.slow_after: an integer is no time with a unit; accepted: a time",
        ),
        (
            "[gateway]\nslow_after = \"0s\"",
            "c.toml:2: gateway.slow_after: no time at all is out of bounds; accepted: a time from 1ms",
        ),
        (
            "[gateway]\nsnapshot = \"yes\"",
            "c.toml:2: gateway.snapshot: a text is neither true nor false; accepted: true or",
        ),
        ("[gateway]\ntls_key = \"k\"", "c.toml:2: gateway.tls_key: tls_certificate is missing; accepted: both or none"),
        (
            "[gateway.limits]\nclients = 0",
            "c.toml:2: gateway.limits.clients: 0 is too few; accepted: a number from 1 on",
        ),
        (
            "[gateway.limits]\ncliens = 1",
            "c.toml:2: gateway.limits.cliens: there is no such key; did you mean `clients`?",
        ),
        (
            "[gateway]\nkeys = \"keys.toml\"\n[[key]]\n",
            "c.toml:2: gateway.keys: there are keys in this file too, at c.toml:3: key",
        ),
        (
            "[gateway]\nkeys = \"none.toml\"",
            "c.toml:2: gateway.keys: the keys in `none.toml` cannot be read: No such file or directory (os error 2); \
             `carom key new --user demo --broker simulated --file none.toml` makes it\n",
        ),
        ("[[key]]\nuser = \"a\"", "c.toml:1: key.broker: is missing; accepted: the name of a broker"),
        ("[feed]\n", "c.toml:1: feed: a table is no list; accepted: tables, each under [[feed]]"),
        ("[[feed]]\nuser = \"demo\"", "c.toml:1: feed.broker: is missing; accepted: the name of a broker"),
        (
            "[[feed]]\nbroker = \"kites\"\nuser = \"demo\"",
            "c.toml:1: feed.adapter: is missing; accepted: \"simulated\", \"kite\", \"delta\", \"outside\", as `kites` is no broker",
        ),
        (&feed("adapter = \"kites\""), "c.toml:4: feed.adapter: `kites` is no adapter; accepted: \"simulated\""),
        (&feed("max_connections = 0"), "c.toml:4: feed.max_connections: 0 is too few"),
        (
            &feed("max_connections = 10001"),
            "c.toml:4: feed.max_connections: 10001 are too many; accepted: a number from 1 to",
        ),
        (&feed("linger = \"1441m\""), "c.toml:4: feed.linger: 86460s is out of bounds; accepted: a time up to a day"),
        (&feed("rate = 1e9"), "c.toml:4: feed.rate: 1000000000 is out of bounds; accepted: ticks per second"),
        (&feed("credential = \"hush\""), "c.toml:4: feed.credential: is for an exchange that runs elsewhere"),
        (
            &elsewhere("seed = 1"),
            "c.toml:5: feed.seed: is for an exchange that is started here; accepted: without a url",
        ),
        (
            &elsewhere("credential = \"hush\"\ncredential_file = \"f\""),
            "c.toml:6: feed.credential_file: there is credential too; accepted: one of them",
        ),
        (
            &elsewhere("credential_command = []"),
            "c.toml:5: feed.credential_command: no program is named; accepted: a program",
        ),
        (
            &feed("url = \"http://a\""),
            "c.toml:4: feed.url: `http://a` begins with neither ws:// nor wss://; accepted: where an exchange is",
        ),
        (
            &feed("url = \"wss://a\""),
            "c.toml:4: feed.url: `wss://a` asks for TLS, which exchanges do not speak; accepted",
        ),
        (&feed("url = \"ws://a:70001\""), "c.toml:4: feed.url: `ws://a:70001` has no port from 1 to 65535"),
        (&feed("url = \"ws://a b\""), "c.toml:4: feed.url: `ws://a b` is no address: invalid uri"),
        (&feed("url = \"ws://me:hush@a\""), "c.toml:4: feed.url: `ws://..@a` has a user in it"),
        (&feed("delay = \"25h\""), "c.toml:4: feed.delay: "),
        (&feed("attempt_timeout = 0"), "c.toml:4: feed.attempt_timeout: "),
        (
            &feed("delay = \"2s\"\nmax_delay = \"1s\""),
            "c.toml:5: feed.max_delay: 1s is below delay; accepted: from 2s on",
        ),
        (
            &feed("max_attempt_timeout = \"1s\""),
            "c.toml:4: feed.max_attempt_timeout: 1s is below attempt_timeout; accepted: from 2s on",
        ),
        (&two, "c.toml:7: feed.user: has a feed at this broker already"),
        ("[gateway\n", "c.toml:1: "),
    ] {
        let said = refused("config-wrong", text).await;
        assert!(said.starts_with("error: ") && said.contains(problem), "{text}: {said}");
        assert!(!said.contains("hush"), "{said}");
    }
}

#[tokio::test]
async fn flags_go_over_the_file_over_variables_over_dotenv_over_defaults() {
    let dotenv =
        "WEBSOCKET_HOST = 'localhost'\nexport MAX_SYMBOLS_PER_WEBSOCKET=11 # fewer\nMAX_WEBSOCKET_CONNECTIONS=12\n";
    let feed = "[[feed]]\nbroker = \"simulated\"\nuser = \"demo\"\nmax_topics_per_connection = 33\n";
    let folder = folder("config-layers", &[(".env", dotenv), ("c.toml", feed)]);
    let start = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = inside(&folder, &[&["gateway"], args].concat());
        command.envs(variables.iter().copied());
        Serving::start(command)
    };
    let gateway = start(&[], &[("WEBSOCKET_PORT", "0")]).await;
    let banner = &gateway.banner;
    assert!(banner.contains("(.env:1: WEBSOCKET_HOST, the variable WEBSOCKET_PORT)"), "{banner}");
    assert!(banner.contains("up to 11 symbols on each of 12 connections"), "{banner}");
    let variables = [("WEBSOCKET_PORT", "1"), ("MAX_WEBSOCKET_CONNECTIONS", "22"), ("MAX_SYMBOLS_PER_WEBSOCKET", "22")];
    let gateway = start(&["-c", "c.toml", "--listen", "127.0.0.1:0"], &variables).await;
    let banner = &gateway.banner;
    assert!(banner.contains("(--listen)") && banner.contains("up to 33 symbols on each of 22 connections"), "{banner}");
    let typed = ["--listen", "127.0.0.1:0", "--max-topics-per-connection", "44", "--max-connections", "45"];
    let gateway = start(&[&["-c", "c.toml"], &typed[..]].concat(), &variables).await;
    assert!(gateway.banner.contains("up to 44 symbols on each of 45 connections"), "{}", gateway.banner);
}

#[tokio::test]
async fn a_broker_of_any_name_has_the_adapter_that_is_named() {
    let config = "[[feed]]\nbroker = \"paper\"\nadapter = \"simulated\"\nuser = \"demo\"\n";
    let folder = folder("config-adapter", &[("c.toml", config)]);
    let gateway = Serving::gateway(&folder, &["-c", "c.toml"]).await;
    assert!(gateway.banner.contains("feed: demo at paper from an exchange started here"), "{}", gateway.banner);
    let ran = gateway.watched(&gateway.key(), &["--count", "1", "NSE:SBIN"]).await;
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 1), "{ran:?}");
}

#[tokio::test]
async fn options_that_make_no_sense() {
    let folder = folder("config-options", &[]);
    for (args, problem) in [
        (&["--max-connections", "0"][..], "accepted: a number from 1 to 10000"),
        (&["--max-topics-per-connection", "many"], "accepted: a number from 1 to 1000000"),
        (&["--tls-key", "key.pem"], "--tls-certificate"),
        (&["--tls-certificate", "chain.pem"], "--tls-key"),
    ] {
        let ran = ran(&folder, &[&["gateway"], args].concat()).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.contains(problem), "{ran:?}");
    }
}

#[tokio::test]
async fn what_openalgo_has_and_is_not_used_here_is_named() {
    let folder = folder("config-unused", &[(".env", "ZMQ_HOST = '127.0.0.1'\nZMQ_PORT = '5555'\n")]);
    let mut gateway = Serving::gateway(&folder, &[]).await;
    let told = gateway.running.told("note").await;
    assert_eq!(told, "note: ticks stay in this process, and this is not used: .env:1: ZMQ_HOST, .env:2: ZMQ_PORT");
}

#[tokio::test]
async fn what_the_environment_says_is_named_with_where_it_was_said() {
    for (dotenv, variable, problem) in [
        ("A=1\nWEBSOCKET_PORT=http\n", ("X", ""), ".env:2: WEBSOCKET_PORT: `http` makes no sense; accepted: a port"),
        (
            "",
            ("MAX_WEBSOCKET_CONNECTIONS", "0"),
            "the variable MAX_WEBSOCKET_CONNECTIONS: `0` makes no sense; accepted: ",
        ),
        ("BROKEN\nWEBSOCKET_HOST: localhost\n", ("X", ""), ".env:2: there is no = after the name"),
    ] {
        let folder = folder("config-environment", &[(".env", dotenv)]);
        let mut command = inside(&folder, &["gateway"]);
        command.env(variable.0, variable.1).stdout(Stdio::piped()).stderr(Stdio::piped());
        let ran = crate::program::run(&mut command).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.starts_with(&format!("error: {problem}")), "{ran:?}");
    }
}

#[tokio::test]
async fn what_others_have_in_dotenv_is_passed_over() {
    let folder = folder("config-others", &[]);
    let dotenv = b"# caf\xe9\nBROKEN\nSECRET='\xff'\n\xfe\xff\nMAX_WEBSOCKET_CONNECTIONS=7\n";
    std::fs::write(folder.join(".env"), dotenv).unwrap();
    let gateway = Serving::gateway(&folder, &[]).await;
    assert!(gateway.banner.contains("on each of 7 connections"), "{}", gateway.banner);
}

#[tokio::test]
async fn a_port_that_is_taken_is_named_with_who_wanted_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap();
    let config = format!("[gateway]\nlisten = \"{at}\"\n");
    let folder = folder("config-taken", &[("c.toml", &config), (".env", &format!("WEBSOCKET_PORT={}", at.port()))]);
    for (args, origin) in [
        (&["gateway"][..], ".env:1: WEBSOCKET_PORT"),
        (&["gateway", "-c", "c.toml"], "c.toml:2: gateway.listen"),
        (&["gateway", "--listen", &at.to_string()], "--listen"),
    ] {
        let ran = ran(&folder, args).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
        assert!(ran.stderr.starts_with(&format!("error: cannot listen on {at} ({origin}): ")), "{ran:?}");
    }
}

#[tokio::test]
async fn a_certificate_that_is_none_is_named() {
    let config = "[gateway]\ntls_certificate = \"none.pem\"\ntls_key = \"none.pem\"\n";
    let folder = folder("config-tls", &[("c.toml", config)]);
    let ran = ran(&folder, &["gateway", "-c", "c.toml", "--listen", "127.0.0.1:0"]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.starts_with("error: TLS cannot be offered: ") && ran.stderr.contains("none.pem"), "{ran:?}");
    let typed = ["--listen", "127.0.0.1:0", "--tls-certificate", "other.pem", "--tls-key", "other.pem"];
    let ran = crate::serving::ran(&folder, &[&["gateway", "-c", "c.toml"], &typed[..]].concat()).await;
    assert!(ran.stderr.contains("other.pem") && !ran.stderr.contains("none.pem"), "{ran:?}");
}

/// What `--help` shows of the config is one, apart from files that are not here.
#[tokio::test]
async fn the_config_that_is_shown_works() {
    let help = crate::program::carom(["gateway", "--help"]).await.stdout;
    let (_, shown) = help.split_once("Config:\n").unwrap();
    let (shown, _) = shown.split_once("\nBrokers:\n").unwrap();
    let missing =
        |line: &&str| ["keys = ", "tls_certificate = ", "tls_key = "].iter().any(|key| line.trim().starts_with(key));
    let config: String = shown.lines().filter(|line| !missing(line)).map(|line| format!("{line}\n")).collect();
    // Others may have the ports that are shown.
    let ports = [":8765\"", ":9464\""];
    assert!(ports.iter().all(|port| config.contains(port)), "{config}");
    let config = ports.iter().fold(config, |config, port| config.replace(port, ":0\""));
    let folder = folder("config-shown", &[("c.toml", &config), ("token", "x")]);
    let gateway = Serving::start(inside(&folder, &["gateway", "-c", "c.toml"])).await;
    assert!(gateway.banner.contains("feed: demo at simulated from an exchange started here"), "{}", gateway.banner);
    assert!(gateway.banner.contains("feed: asha at simulated from ws://127.0.0.1:7001"), "{}", gateway.banner);
}
