//! Feeds of brokers in the config of `carom gateway`: what is accepted, and what is said of the rest.

use crate::brokers::{DELTA, KITE, delta, kite};
use crate::program::Ran;
use crate::serving::{folder, ran};

/// `carom check` of this config, beside files of several kinds.
async fn checked(name: &str, config: &str) -> Ran {
    let short = KITE.replace("738561,", "hush-hush,");
    let files =
        [("c.toml", config), ("kite.csv", KITE), ("delta.json", DELTA), ("short.csv", &short), ("none.pem", "")];
    ran(&folder(name, &files), &["check", "-c", "c.toml"]).await
}

const KEYS: &str = "api_key = \"hush-key\"\ncredential = \"hush-token\"\n";

#[tokio::test]
async fn mistakes_have_a_file_a_line_a_key_and_what_is_accepted() {
    let listed = format!("{KEYS}instruments = \"kite.csv\"\n");
    for (config, problem) in [
        (
            "[[feed]]\nbroker = \"angel\"\nuser = \"asha\"",
            "c.toml:1: feed.adapter: is missing; accepted: \"simulated\", \"kite\", \"delta\", \"outside\", as `angel` is no broker",
        ),
        (
            &kite("adapter = \"upstox\""),
            "c.toml:4: feed.adapter: `upstox` is no adapter; accepted: \"simulated\", \"kite\", \"delta\"",
        ),
        (&kite(""), "c.toml:1: feed.api_key: is missing; accepted: the key of an app at Kite Connect"),
        (&kite("api_key = \" \""), "c.toml:4: feed.api_key: it is empty; accepted"),
        (
            &kite("api_key = \"hush-key\""),
            "c.toml:1: feed.credential_file: is missing; accepted: one of credential_file, credential_command and",
        ),
        (
            &kite(KEYS),
            "c.toml:1: feed.instruments: is missing; accepted: a file with Kite's list, as of https://api.kite",
        ),
        (
            &kite(&format!("{KEYS}instrument = \"kite.csv\"")),
            "c.toml:1: feed.instruments: is missing, unless `instrument` in line 6 is meant to be it; accepted: a file",
        ),
        (
            &kite("api_key = \"hush-key\"\ncredentials_file = \"token\"\n"),
            "c.toml:1: feed.credential_file: is missing, unless `credentials_file` in line 5 is meant to be it; accepted:",
        ),
        (&kite(&format!("{KEYS}instruments = \"none.pem\"")), "c.toml:6: feed.instruments: `none.pem`: there are no"),
        (
            &kite(&format!("{KEYS}instruments = \"none.csv\"")),
            "c.toml:6: feed.instruments: `none.csv`: the instruments cannot be read",
        ),
        (&kite(&format!("{KEYS}instruments = \"short.csv\"")), "c.toml:6: feed.instruments: `short.csv`: line 3: "),
        (
            &kite(&format!("{KEYS}instruments = \"delta.json\"")),
            "c.toml:6: feed.instruments: `delta.json`: that is JSON, and not a list",
        ),
        (
            &kite(&format!("{listed}url = \"https://kite\"")),
            "c.toml:7: feed.url: `https://kite` begins with neither ws://",
        ),
        (
            &kite(&format!("{listed}url = \"wss://me:hush@kite\"")),
            "c.toml:7: feed.url: `wss://..@kite` has a user in it",
        ),
        (
            &kite(&format!("{listed}url = \"wss://ws.kite.trade/?v=3&api_key=hush\"")),
            "c.toml:7: feed.url: there is api_key in it, which is put there with every connection; accepted: without it",
        ),
        (&kite(&format!("{listed}ca = \"none.pem\"")), "c.toml:7: feed.ca: "),
        (
            &kite(&format!("{listed}url = \"ws://127.0.0.1:1\"\nca = \"none.pem\"")),
            "c.toml:8: feed.ca: `ws://127.0.0.1:1` is spoken to without tls",
        ),
        (
            &kite(&format!("{listed}symbols = 7")),
            "c.toml:7: feed.symbols: means nothing to the adapter kite; accepted: with simulated",
        ),
        (&delta(""), "c.toml:1: feed.instruments: is missing; accepted: a file with its list, as of https://api.india"),
        (&delta("instruments = \"kite.csv\""), "c.toml:4: feed.instruments: `kite.csv`: that is no answer to GET"),
        (
            &delta("instruments = \"delta.json\"\napi_key = \"hush-key\""),
            "c.toml:5: feed.api_key: means nothing to the adapter delta; accepted: with kite",
        ),
        (
            "[[feed]]\nbroker = \"desk\"\nuser = \"asha\"\nadapter = \"outside\"",
            "c.toml:4: feed.adapter: needs a bus that others publish on; accepted: with bus = \"zeromq\"",
        ),
        (
            "[gateway]\nbus = \"nats\"\n[[feed]]\nbroker = \"desk\"\nuser = \"asha\"\nadapter = \"outside\"\nmax_connections = 1",
            "c.toml:7: feed.max_connections: means nothing to the adapter outside; accepted: with simulated, kite, delta",
        ),
        (
            &delta("instruments = \"delta.json\"\ncredential = \"hush-token\""),
            "c.toml:5: feed.credential: means nothing to the adapter delta; accepted: with simulated, kite",
        ),
    ] {
        let ran = checked("broker-wrong", config).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{config}: {ran:?}");
        assert!(ran.stderr.starts_with(&format!("error: {problem}")), "{config}: {ran:?}");
        assert!(!ran.stderr.contains("hush"), "{ran:?}");
    }
}

#[tokio::test]
async fn what_would_run_is_shown_without_secrets() {
    let elsewhere = "url = \"ws://127.0.0.1:7002/?api=hush\"\n";
    let own = "[[feed]]\nbroker = \"desk\"\nadapter = \"delta\"\nuser = \"ravi\"\ninstruments = \"delta.json\"\n";
    let listed = format!("{KEYS}instruments = \"kite.csv\"\n");
    let config = kite(&listed) + &delta("instruments = \"delta.json\"") + own + elsewhere;
    let ran = checked("broker-shown", &config).await;
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{ran:?}");
    for shown in [
        "feed: asha at zerodha from wss://ws.kite.trade (kite, 3 instruments)\n",
        "feed: asha at deltaexchange from wss://public-socket.india.delta.exchange (delta, 2 instruments)\n",
        "feed: ravi at desk from ws://127.0.0.1:7002/?.. (delta, 2 instruments)\n",
    ] {
        assert!(ran.stdout.contains(shown), "{ran:?}");
    }
    assert!(!ran.stdout.contains("hush"), "{ran:?}");
}

/// None of it need be a mistake: a token may come later, and a broker may allow somebody more.
#[tokio::test]
async fn what_may_not_be_meant_is_said() {
    let with = |credential: &str| kite(&format!("api_key = \"hush-key\"\n{credential}\ninstruments = \"kite.csv\"\n"));
    for (config, warning) in [
        (with("credential_file = \"none\""), "has nothing to present to the broker yet; the file none: No such file"),
        (
            with("credential_command = [\"no-such-program\", \"hush\"]"),
            "has nothing to present to the broker yet; the program no-such-program: it is not found\n",
        ),
        (
            with("credential_command = [\"./no-such-program\"]"),
            "has nothing to present to the broker yet; the program ./no-such-program: it is not found\n",
        ),
        (
            with("max_connections = 10\ncredential = \"hush-token\""),
            "may have 3000 symbols on each of 10 connections; the broker allows 3000 on each of 3\n",
        ),
        (
            with("max_connections = 1\nmax_topics_per_connection = 5000\ncredential_command = [\"cat\", \"kite.csv\"]"),
            "may have 5000 symbols on each of 1 connection; the broker allows 3000 on each of 3\n",
        ),
    ] {
        let ran = checked("broker-warned", &config).await;
        assert_eq!(ran.code, Some(0), "{config}: {ran:?}");
        let warning = format!("warning: the feed of asha at zerodha {warning}");
        assert!(ran.stderr.starts_with(&warning) && ran.stderr.matches('\n').count() == 1, "{config}: {ran:?}");
        assert!(!ran.stderr.contains("hush"), "{ran:?}");
    }
}

/// The tables in a part of the help: each from its head to the end of its paragraph.
fn tables(shown: &str) -> Vec<String> {
    let is_head = |line: &&str| line.trim().starts_with('[') && line.trim().ends_with(']');
    let table = |text: &str| {
        let lines: Vec<&str> = text.lines().skip_while(|line| !is_head(line)).collect();
        (!lines.is_empty()).then(|| lines.join("\n") + "\n")
    };
    shown.split("\n\n").filter_map(table).collect()
}

/// What `--help` shows of brokers and buses is a config, with the files that it names.
#[tokio::test]
async fn what_is_shown_works() {
    let help = crate::program::carom(["gateway", "--help"]).await.stdout;
    let (_, shown) = help.split_once("\nBrokers:\n").unwrap();
    let (brokers, buses) = shown.split_once("\n\nFurther:\n").unwrap().0.split_once("\n\nBuses:\n").unwrap();
    let (brokers, buses) = (tables(brokers), tables(buses));
    assert_eq!((brokers.len(), buses.len()), (2, 2), "{help}");
    let on = |bus: &str, table: &str| {
        let feed = "[[feed]]\nbroker = \"simulated\"\nuser = \"demo\"\nurl = \"ws://127.0.0.1:7001\"\n";
        format!("[gateway]\nbus = \"{bus}\"\n{table}{feed}")
    };
    let ca = rcgen::generate_simple_self_signed(["nats".to_owned()]).unwrap().cert.pem();
    for (config, shown) in [
        (brokers[0].clone(), "from wss://ws.kite.trade (kite, 3 instruments)"),
        (brokers[1].clone(), "from wss://public-socket.india.delta.exchange (delta, 2 instruments)"),
        (on("zeromq", &buses[0]), "publishers connect to tcp://127.0.0.1:5555"),
        (on("nats", &buses[1]), "at nats://127.0.0.1:4222"),
    ] {
        let files = [
            ("c.toml", &*config),
            ("instruments.csv", KITE),
            ("access_token", "x"),
            ("products.json", DELTA),
            ("nats-token", "x"),
            ("ca.pem", &ca),
        ];
        let ran = ran(&folder("broker-help", &files), &["check", "-c", "c.toml"]).await;
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{config}: {ran:?}");
        assert!(ran.stdout.contains(shown), "{config}: {ran:?}");
    }
}
