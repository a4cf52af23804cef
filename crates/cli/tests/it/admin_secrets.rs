//! Secrets are in nothing that the program says of itself: no log, however much is logged, and no answer to whoever may see all.

use crate::admin::{ANY, Listener, get, say};
use crate::program::{PATIENCE, carom, command, run};
use crate::serving::{Serving, folder, inside};
use crate::up::http;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use testkit::http::{Authority, Server};
use tokio::process::Child;
use tokio::time::{sleep, timeout};

const ADMIN: &str = "admin-token-that-nobody-may-see";
const GUESSED: &str = "guessed-token-that-nobody-may-see";
const CREDENTIAL: &str = "credential-in-a-file-that-nobody-may-see";
const PRINTED: &str = "credential-of-a-command-that-nobody-may-see";
const HEADER: &str = "authorization-that-nobody-may-see";
const COOKIE: &str = "cookie-that-nobody-may-see";
const QUERY: &str = "query-that-nobody-may-see";
const USERINFO: &str = "userinfo-that-nobody-may-see";
const VARIABLE: &str = "variable-that-nobody-may-see";
/// What is no secret, and is shown.
const SHOWN: &str = "a-name-that-all-may-see";

/// A text as it could be found somewhere: as it is, or written as bytes often are, whatever stands before it.
fn forms(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned(), secret.bytes().map(|byte| format!("{byte:02x}")).collect()];
    for before in 0..3 {
        let mut bytes = vec![0; before];
        bytes.extend(secret.bytes());
        // Characters at the edges depend on the neighbours.
        let (first, last) = ([0, 2, 3][before], bytes.len() / 3 * 4);
        forms.extend(
            [BASE64_STANDARD.encode(&bytes), BASE64_URL_SAFE_NO_PAD.encode(&bytes)]
                .map(|text| text[first..last].to_owned()),
        );
    }
    forms
}

fn has(text: &str, secret: &str) -> bool {
    let folded = text.to_ascii_lowercase();
    forms(secret).iter().any(|form| text.contains(form) || folded.contains(&form.to_ascii_lowercase()))
}

/// Otherwise nothing could be found out by searching.
#[test]
fn what_is_there_would_be_found() {
    assert!(has(&format!("token={ADMIN};"), ADMIN) && !has("token", ADMIN));
    for around in ["", "a", "ab", "abc", "user:"] {
        let text = format!("{around}{ADMIN}{around}");
        assert!(has(&BASE64_STANDARD.encode(&text), ADMIN), "{text}");
        assert!(has(&BASE64_URL_SAFE_NO_PAD.encode(&text), ADMIN), "{text}");
        assert!(has(&text.to_uppercase(), ADMIN));
    }
}

/// The program, with everything that it writes in files: there is more of it than anybody reads meanwhile.
struct Logged {
    child: Child,
    folder: std::path::PathBuf,
}

impl Logged {
    async fn start(folder: &Path, args: &[&str]) -> Logged {
        let file = |name: &str| std::fs::File::create(folder.join(name)).unwrap();
        let child = inside(folder, args)
            .env("CAROM_LOG", "trace")
            .env("CAROM_KEY", VARIABLE)
            .env("DATABASE_PASSWORD", VARIABLE)
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .unwrap();
        let logged = Logged { child, folder: folder.to_owned() };
        logged.until("stdout", "carom is up: ").await;
        logged
    }

    fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.folder.join(name)).unwrap()).into_owned()
    }

    async fn until(&self, name: &str, word: &str) {
        let there = async {
            while !self.read(name).contains(word) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(timeout(PATIENCE, there).await.is_ok(), "no {word} in {name}");
    }

    /// What stands between these two in its banner, on one line.
    fn place(&self, begins: &str, before: &str) -> SocketAddr {
        let banner = self.read("stdout");
        let line = banner.lines().find(|line| line.starts_with(begins)).expect("it is in the banner");
        line.split_once(before).unwrap().1.split([' ', '/']).next().unwrap().parse().unwrap()
    }
}

/// Every path, with every head that makes a difference.
async fn all_answers(at: SocketAddr) -> String {
    let right = format!("authorization: Bearer {ADMIN}");
    let wrong = format!("authorization: Bearer {GUESSED}");
    let mut said = String::new();
    let mut paths: Vec<String> =
        ["/", "/healthz", "/metrics", "/api/snapshot", "/kang/snapshot", "/kang/types", "/none"]
            .map(str::to_owned)
            .into();
    let types = get(at, "/kang/types", &[&right]).await.json();
    for kind in types.as_array().unwrap().iter().map(|kind| kind.as_str().unwrap()) {
        let path = format!("/kang/objects/{kind}");
        let ids = get(at, &path, &[&right]).await.json();
        paths.push(path);
        paths.extend(ids.as_array().unwrap().iter().map(|id| format!("/kang/obj/{kind}/{}", id.as_str().unwrap())));
    }
    assert!(paths.len() > 16, "there is much to ask for: {paths:?}");
    for path in &paths {
        for head in [&[&*right][..], &[&right, "accept: text/html"], &[&right, "accept: text/plain"], &[&wrong], &[]] {
            said += &format!("{:?}", get(at, path, head).await);
        }
        said += &format!("{:?}", get(at, &format!("{path}?token={ADMIN}&{QUERY}"), &[&right]).await);
        let other = format!("POST {path} HTTP/1.1\r\nhost: {USERINFO}\r\n{right}\r\nconnection: close\r\n\r\n");
        said += &say(at, other.as_bytes()).await;
    }
    let mut events = Listener::start(at, &[&right]).await;
    said += &events.next().await.expect("an event").to_string();
    said
}

#[tokio::test]
async fn nothing_that_is_said_has_a_secret_in_it() {
    let authority = Authority::new();
    let (certificate, own) = (authority.issue(["api.example"]), authority.issue(["client.example"]));
    let node = Server::start_tls("node", certificate.serving(["h2"])).await.unwrap();
    let (plain, gone) = (Server::start("plain").await.unwrap(), Server::start("gone").await.unwrap());
    gone.kill().await;
    let folder = folder(
        "admin-secrets",
        &[
            ("admin-token", ADMIN),
            ("credential", CREDENTIAL),
            ("printed", PRINTED),
            ("ca.pem", &authority.pem()),
            ("chain.pem", own.pem()),
            ("key.pem", own.key_pem()),
        ],
    );
    let keys = folder.join("keys.toml");
    let new_key = async |user: &str| {
        carom(["key", "new", "--user", user, "--file", keys.to_str().unwrap()]).await.stdout.trim().to_owned()
    };
    let (key, other_key) = (new_key("asha").await, new_key("ravi").await);
    let exchange = Serving::exchange(&folder, &["--token-file", "credential"]).await;
    let tls =
        "tls = { ca = \"ca.pem\", server_name = \"api.example\", certificate = \"chain.pem\", key = \"key.pem\" }";
    let feed = |user: &str, credential: &str| {
        format!(
            "[[feed]]\nbroker = \"simulated\"\nuser = \"{user}\"\nurl = \"{}/?apikey={QUERY}\"\n{credential}\n",
            exchange.url
        )
    };
    let config = [
        format!("[admin]\nlisten = \"{ANY}\"\ntoken_file = \"admin-token\"\n"),
        http(SHOWN, ANY, node.address(), tls),
        http("plain", ANY, plain.address(), ""),
        http("gone", ANY, gone.address(), "attempts = 1\nclaim_timeout = \"200ms\""),
        format!("[gateway]\nlisten = \"{ANY}\"\nkeys = \"keys.toml\"\n"),
        feed("asha", "credential_file = \"credential\""),
        feed("ravi", "credential_command = [\"cat\", \"printed\"]"),
    ];
    std::fs::write(folder.join("c.toml"), config.concat()).unwrap();
    let up = Logged::start(&folder, &["up", "-c", "c.toml"]).await;

    for service in [SHOWN, "plain", "gone"] {
        let at = up.place(&format!("service {service}: "), " on ");
        for target in [format!("/path?secret={QUERY}"), format!("http://user:{USERINFO}@api.example/?{QUERY}")] {
            let head = format!("host: api.example\r\nauthorization: Bearer {HEADER}\r\ncookie: session={COOKIE}");
            let answer =
                say(at, format!("GET {target} HTTP/1.1\r\n{head}\r\nconnection: close\r\n\r\n").as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 "), "{service}: {answer}");
        }
    }
    assert!(node.seen().iter().any(|seen| seen.header("authorization").is_some_and(|shown| shown.contains(HEADER))));
    let url = format!("ws://{}", up.place("gateway: ", "ws://"));
    let watch = |key: &str| {
        let mut watch = command(["watch", "--url", &url, "--count", "1", "NSE:SBIN"]);
        watch.env("CAROM_KEY", key).env("CAROM_LOG", "trace").stdout(Stdio::piped()).stderr(Stdio::piped());
        watch
    };
    let (watched, refused) = (run(&mut watch(&key)).await, run(&mut watch(GUESSED)).await);
    assert_eq!((watched.code, refused.code), (Some(0), Some(1)), "{watched:?} {refused:?}");
    // Its feed presents another credential, which is refused.
    let waits = watch(&other_key).spawn().unwrap();
    up.until("stderr", "refuses the credential").await;
    drop(waits);

    let at = up.place("admin: ", "http://");
    let answers = all_answers(at).await;
    let top = async |token: &str, args: &[&str]| {
        std::fs::write(folder.join("shown"), token).unwrap();
        let url = format!("http://{at}");
        let args = [&["top", "--once", "--token-file", "shown"], args, &[&*url]].concat();
        run(inside(&folder, &args).env("CAROM_LOG", "trace").stdout(Stdio::piped()).stderr(Stdio::piped())).await
    };
    let tops = [top(ADMIN, &["--json"]).await, top(ADMIN, &[]).await, top(GUESSED, &["--json"]).await];
    assert_eq!(tops.each_ref().map(|ran| ran.code), [Some(0), Some(0), Some(1)], "{tops:?}");

    let Logged { mut child, .. } = up;
    let id = child.id().unwrap().to_string();
    for signal in ["-HUP", "-TERM"] {
        assert!(tokio::process::Command::new("kill").args([signal, &id]).status().await.unwrap().success());
        let read = |name: &str| String::from_utf8_lossy(&std::fs::read(folder.join(name)).unwrap()).into_owned();
        let heard = async {
            while signal == "-HUP" && !read("stderr").contains(" was read again: ") {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, heard).await.expect("it hears");
    }
    assert_eq!(timeout(PATIENCE, child.wait()).await.expect("it ends").unwrap().code(), Some(0));

    let read = |name: &str| String::from_utf8_lossy(&std::fs::read(folder.join(name)).unwrap()).into_owned();
    let outputs = [
        ("stdout", read("stdout")),
        ("stderr", read("stderr")),
        ("answers", answers),
        ("top", format!("{tops:?}")),
        ("watch", format!("{watched:?}{refused:?}")),
    ];
    for (name, text) in &outputs[..4] {
        assert!(has(text, SHOWN), "what is shown would be found in {name}");
    }
    let lines: Vec<&str> = own.key_pem().lines().filter(|line| !line.starts_with("---")).collect();
    let planted = [ADMIN, GUESSED, CREDENTIAL, PRINTED, HEADER, COOKIE, QUERY, USERINFO, VARIABLE, &key, &other_key];
    for (name, text) in &outputs {
        for secret in planted.iter().chain(&lines) {
            let at = text.lines().find(|line| has(line, secret));
            assert!(at.is_none(), "{secret} is in {name}: {}", at.unwrap_or_default());
        }
    }
}

/// What a config says wrong is told, with what was written where that is no secret.
#[tokio::test]
async fn a_config_of_no_use_is_told_without_its_secrets() {
    let folder = folder("admin-secrets-config", &[]);
    for feed in [
        format!("url = \"ws://user:{USERINFO}@127.0.0.1:7001\""),
        format!("url = \"http://user:{USERINFO}@127.0.0.1:7001\""),
        format!("url = \"ws://127.0.0.1:7001\"\ncredential = \"{CREDENTIAL}\"\ncredential_file = \"x\""),
        format!("url = \"ws://127.0.0.1:7001\"\ncredential = [\"{CREDENTIAL}\"]"),
    ] {
        let config = format!("[[feed]]\nbroker = \"simulated\"\nuser = \"asha\"\n{feed}\n");
        std::fs::write(folder.join("c.toml"), config).unwrap();
        let ran = crate::serving::ran(&folder, &["check", "-c", "c.toml"]).await;
        assert!(!ran.stderr.is_empty() && ran.code == Some(2), "{feed}: {ran:?}");
        for secret in [USERINFO, CREDENTIAL] {
            assert!(!has(&format!("{ran:?}"), secret), "{ran:?}");
        }
    }
}
