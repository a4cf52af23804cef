//! Whatever is sent to the admin listener, it goes on, and never finds that it was its own fault.
//!
//! Each case has a seed of its own. A failure names it; `CAROM_SEED=<seed> cargo test` runs that case alone.

use crate::admin::{ANY, get, say, say_and_end};
use crate::serving::folder;
use crate::up::{Backend, Up, tcp};
use carom_core::random::Random;

const CASES: u64 = 400;
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "OPTIONS", "CONNECT", "get", "G\u{0}T", "", "PRI"];
const PATHS: [&str; 22] = [
    "/",
    "/healthz",
    "/api/snapshot",
    "/kang/snapshot",
    "/kang/obj/pool/1",
    "/kang/obj/pool/99999999999999999999999",
    "/kang/obj/%70ool/%31",
    "/kang/objects/%ff%00",
    "/kang/%",
    "/metrics",
    "//",
    "/../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/assets/../../carom.toml",
    "/assets/%00",
    "/api/snapshot/",
    "/api//events",
    "*",
    "http://127.0.0.1/healthz",
    "http://user:password@127.0.0.1/healthz",
    "127.0.0.1:80",
    "/\u{e9}\u{1f600}?%zz=%&&#",
];
const VERSIONS: [&str; 6] = ["HTTP/1.1", "HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/9.9", ""];
const HEADS: [&str; 18] = [
    "host: localhost",
    "host: localhost",
    "host: 127.0.0.1:1",
    "host: [::1",
    "host:",
    "host: \u{ff}",
    "authorization: Bearer x",
    "authorization:",
    "content-length: 3",
    "content-length: -1",
    "content-length: 99999999999999999999",
    "transfer-encoding: chunked",
    "transfer-encoding: gzip, chunked",
    "expect: 100-continue",
    "upgrade: h2c",
    "connection: upgrade, close",
    "no colon",
    " folded: line",
];
const BODIES: [&str; 5] = ["", "abc", "3\r\nabc\r\n0\r\n\r\n", "zz\r\n", "\u{0}\u{0}\u{0}"];

fn pick<'a>(random: &mut Random, of: &[&'a str]) -> &'a str {
    of[random.below(of.len())]
}

/// A request, or what looks like one.
fn odd(random: &mut Random) -> String {
    let (method, path, version) = (pick(random, &METHODS), pick(random, &PATHS), pick(random, &VERSIONS));
    let mut request = format!("{method} {path} {version}\r\n");
    for _ in 0..random.below(6) {
        request += &format!("{}\r\n", pick(random, &HEADS));
    }
    if random.below(20) == 0 {
        request += &format!("x: {}\r\n", "y".repeat(random.below(40_000)));
    }
    if random.below(20) == 0 {
        request += &"h: v\r\n".repeat(random.below(200));
    }
    request + "\r\n" + pick(random, &BODIES)
}

#[tokio::test]
async fn odd_requests_are_no_fault_of_its_own() {
    let a = Backend::start("a").await;
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{}", tcp("a", ANY, &a, ""));
    let up = Up::start(&folder("odd", &[("c.toml", &config)])).await;
    let only = std::env::var("CAROM_SEED").ok().map(|seed| seed.parse::<u64>().expect("CAROM_SEED is a number"));
    let mut answered = 0;
    for seed in only.map_or(0..CASES, |seed| seed..seed + 1) {
        let mut random = Random::new(seed);
        // Several at once, and something to end it with: whoever waits for more of it is told that there is none.
        let mut sent: String = (0..=random.below(3)).map(|_| odd(&mut random)).collect();
        if random.below(4) == 0 {
            let end = sent.char_indices().map(|(at, _)| at).nth(random.below(sent.chars().count()));
            sent.truncate(end.unwrap_or_default());
        }
        let answers = say_and_end(up.admin(), sent.as_bytes()).await;
        for line in answers.lines().filter(|line| line.starts_with("HTTP/1.")) {
            answered += 1;
            let status: u16 = line.split(' ').nth(1).unwrap().parse().unwrap();
            assert!(
                [200, 400, 401, 404, 405, 413, 414, 421, 431, 505].contains(&status),
                "CAROM_SEED={seed}: {line}: {sent:?}"
            );
        }
    }
    assert!(only.is_some() || answered > CASES / 4, "{answered} answers");
    assert_eq!(get(up.admin(), "/healthz", &[]).await.status, 200);
    let pipelined = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(50);
    let answers =
        say(up.admin(), format!("{pipelined}GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes()).await;
    assert_eq!((answers.matches("HTTP/1.1 200 ").count(), answers.matches("HTTP/1.1 421 ").count()), (50, 1));
    let ended = up.running.end("-TERM").await;
    assert_eq!(ended.code, Some(0));
    assert!(!ended.stderr.contains("panicked"), "{ended:?}");
}
