//! Both ways are one: whatever a client says, and however a backend answers, it cannot be told which way a request has gone.

use super::*;
use carom_core::random::Random;
use testkit::cases::cases;
use tokio::task::yield_now;

/// How a client begins decides which way is gone: the plain one until something is not plain, or never that one.
const PLAIN: &[u8] = b"GET /first HTTP/1.1\r\nHost: a.test\r\nX-First: 1\r\n\r\n";
const NEVER_PLAIN: &[u8] = b"GET /first HTTP/1.1\r\nHost: a.test\r\nX-First: 1\r\nKeep-Alive: 5\r\n\r\n";

const METHODS: [&str; 8] = ["GET", "GET", "GET", "HEAD", "POST", "DELETE", "OPTIONS", "M-SEARCH"];
const TARGETS: [&str; 20] = [
    "/",
    "/?a=b",
    "/bytes/0",
    "/bytes/10",
    "/bytes/20000",
    "/chunked/0",
    "/chunked/40000",
    "/trailers",
    "/status/204",
    "/status/205",
    "/status/304",
    "/status/404",
    "http://b.test/bytes/5",
    "http://b.test?c",
    "http://me@b.test/",
    "b.test",
    "*",
    "//two",
    "/\u{fc}",
    "/a b",
];
const HEADERS: [&str; 13] = [
    "X-A: 1",
    "x-a:2",
    "X-B:  in between \t ",
    "X-Empty:",
    "Accept: */*",
    "Cookie: a=1; b=2",
    "Cookie: c=3",
    "Via: 1.1 another",
    "Date: now",
    "Trailer: x-sum",
    "TE: trailers",
    "Connection: keep-alive",
    "CONNECTION:  Keep-Alive ",
];
/// Not plain, or none at all.
const ODD: [&str; 19] = [
    "Connection: close",
    "Connection: X-A, keep-alive",
    "Connection: keep-alive, close",
    "Connection:",
    "Keep-Alive: timeout=5",
    "Proxy-Connection: keep-alive",
    "Expect: 100-continue",
    "Upgrade: other",
    "Content-Length: 0",
    "Content-Length: +0",
    "Transfer-Encoding: gzip",
    "Host: b.test",
    "Host:",
    "X-A : 1",
    " folded",
    "no colon",
    ": no name",
    "X-\u{e9}: 1",
    "X-Nul: \0",
];
/// How a backend answers that does not know better, and whether its answer is whole.
const ANSWERS: [(&str, bool); 10] = [
    ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", true),
    ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", true),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-a\r\n\r\n5\r\nhello\r\n0\r\nx-a: 1\r\n\r\n", true),
    ("HTTP/1.0 200 Just So\r\nX-A: 1\r\nX-A: 2\r\n\r\nuntil the end", true),
    ("HTTP/1.1 204 \r\nContent-Length: 5\r\nTrailer: x-a\r\n\r\n", true),
    ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nDate: then\r\n\r\n", true),
    (
        "HTTP/1.1 103 Early\r\nX-A: 1\r\n\r\nHTTP/1.1 299 \r\nConnection: close, x-b\r\nX-B: 1\r\nContent-Length: 0\r\n\r\n",
        true,
    ),
    ("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort", false),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", false),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nuntil the end", true),
];

/// A request as it came to a backend, or an answer as it came to a client, without what differs from time to time.
#[derive(Debug, PartialEq, Eq)]
struct Message {
    line: String,
    headers: Vec<String>,
    body: Vec<u8>,
}

fn one_of<'a>(random: &mut Random, texts: &[&'a str]) -> &'a str {
    texts[random.below(texts.len())]
}

/// A request as somebody might say it.
fn request(random: &mut Random, with_heads: bool) -> Vec<u8> {
    let end = if random.chance(0.05) { "\n" } else { "\r\n" };
    let method = Some(one_of(random, &METHODS)).filter(|method| with_heads || *method != "HEAD").unwrap_or("PUT");
    let version = if random.chance(0.03) { one_of(random, &["HTTP/1.0", "HTTP/1.2", "http/1.1"]) } else { "HTTP/1.1" };
    let targets = if random.chance(0.2) { &TARGETS[..] } else { &TARGETS[..12] };
    let target = one_of(random, targets);
    let mut said = if random.chance(0.05) { end.to_owned() } else { String::new() };
    said += &format!("{method} {target} {version}{end}");
    if !random.chance(0.03) {
        said += &format!("Host: a.test{end}");
    }
    for _ in 0..random.below(5) {
        said += &format!("{}{end}", one_of(random, &HEADERS));
    }
    if random.chance(0.1) {
        said += &format!("{}{end}", one_of(random, &ODD));
    }
    let mut said = said.into_bytes();
    if random.chance(0.1) {
        let (at, byte) = (random.below(said.len()), random.bits() as u8);
        match random.below(3) {
            0 => said[at] = byte,
            1 => said.insert(at, byte),
            _ => drop(said.remove(at)),
        }
    }
    // Only heads are spoilt: how much of a body a backend gets that is none is up to chance.
    let rest = match random.below(20) {
        0 => "Content-Length: 3\r\n\r\nabc",
        1 => "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        _ => end,
    };
    said.extend_from_slice(rest.as_bytes());
    said
}

/// What came of it.
#[derive(Debug)]
struct Outcome {
    passed: Vec<Message>,
    told: Vec<Message>,
    /// Whoever is cut off while it speaks may not hear all that it was told.
    is_cut_off: bool,
}

/// Says this in pieces and no more; what it hears, and whether that ends as it should.
async fn converse(client: TcpStream, pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let (mut listening, mut speaking) = client.into_split();
    let speaks = async move {
        for piece in pieces {
            // Who has been told that it is over may go on in vain.
            if speaking.write_all(piece).await.is_err() {
                break;
            }
            yield_now().await;
        }
        let _ = speaking.shutdown().await;
        speaking
    };
    let mut heard = Vec::new();
    let (_speaking, read) = soon(async { tokio::join!(speaks, listening.read_to_end(&mut heard)) }).await;
    (heard, read.is_ok())
}

/// What comes of it before a node with this script, or one that behaves.
async fn outcome(script: Option<Script>, pieces: &[&[u8]], with_heads: bool) -> Outcome {
    let house = Arc::new(House::with(None).await);
    if let Some(script) = script {
        house.node.script(script);
    }
    let served = house.serve_next();
    let (heard, is_whole) = converse(house.client().await, pieces).await;
    soon(served).await.unwrap();
    let passed = house.node.seen().into_iter().map(|seen| {
        let headers = seen.headers.iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
        Message { line: format!("{} {}", seen.method, seen.target), headers: in_order(headers), body: seen.body }
    });
    Outcome { passed: passed.collect(), told: told(&heard, with_heads), is_cut_off: !is_whole }
}

/// By name: among those of one name their order matters, and no other.
fn in_order(mut headers: Vec<String>) -> Vec<String> {
    headers.sort_by(|one, other| one.split(':').next().cmp(&other.split(':').next()));
    headers
}

/// The answers in it that are whole.
fn told(mut heard: &[u8], with_heads: bool) -> Vec<Message> {
    let mut answers = Vec::new();
    while let Some(length) = heard.windows(4).position(|end| end == b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&heard[..length]).into_owned();
        heard = &heard[length + 4..];
        let mut lines = head.split("\r\n").map(str::to_owned);
        let line = lines.next().unwrap();
        let mut headers: Vec<String> = lines.collect();
        let of = |name: &str| headers.iter().find_map(|header| header.strip_prefix(name)).map(str::to_owned);
        let is_bare = ["HTTP/1.1 204", "HTTP/1.1 304"].iter().any(|bare| line.starts_with(bare));
        // Nothing here has a body like that; one that asked for no more than the head may get nothing behind it.
        let is_head = with_heads && (heard.is_empty() || heard.starts_with(b"HTTP/1."));
        let body = if is_bare || is_head {
            Some((Vec::new(), heard))
        } else if of("transfer-encoding: chunked").is_some() {
            put_together(heard)
        } else if let Some(length) = of("content-length: ") {
            heard.split_at_checked(length.parse().unwrap()).map(|(body, rest)| (body.to_vec(), rest))
        } else {
            Some((heard.to_vec(), &heard[heard.len()..]))
        };
        let Some((mut body, rest)) = body else { break };
        heard = rest;
        headers.retain(|header| !header.starts_with("date: ") || header == "date: now" || header == "date: then");
        if line.starts_with("HTTP/1.1 50") {
            // Why it has not answered names a backend, and what was tried.
            body.clear();
            headers.retain(|header| !header.starts_with("content-length: "));
        }
        answers.push(Message { line, headers: in_order(headers), body });
    }
    answers
}

/// A body that comes in pieces with its trailers, and what is behind it.
fn put_together(mut said: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (mut body, mut has_ended) = (Vec::new(), false);
    loop {
        let end = said.windows(2).position(|end| end == b"\r\n")?;
        let (line, rest) = (&said[..end], &said[end + 2..]);
        if has_ended {
            if line.is_empty() {
                return Some((body, rest));
            }
            body.extend_from_slice(line);
            said = rest;
            continue;
        }
        let length = usize::from_str_radix(std::str::from_utf8(line).unwrap(), 16).unwrap();
        has_ended = length == 0;
        let (piece, rest) = rest.split_at_checked(length)?;
        body.extend_from_slice(piece);
        said = if has_ended { rest } else { rest.strip_prefix(b"\r\n")? };
    }
}

/// Cut anywhere.
fn pieces<'a>(random: &mut Random, mut said: &'a [u8]) -> Vec<&'a [u8]> {
    let longest = if random.chance(0.2) { 3 } else { 2 * said.len() };
    let mut pieces = Vec::new();
    while !said.is_empty() {
        let (piece, rest) = said.split_at((1 + random.below(longest)).min(said.len()));
        pieces.push(piece);
        said = rest;
    }
    pieces
}

#[tokio::test]
async fn nobody_can_tell_which_way_a_request_has_gone() {
    for (_case, mut random) in cases(200) {
        let with_heads = random.chance(0.6);
        let (answer, is_whole) = ANSWERS[random.below(ANSWERS.len())];
        let script = (!with_heads).then(|| {
            let (script, ends) = (Script::new().request().say(answer), !is_whole || answer.ends_with("until the end"));
            if ends { script.close() } else { script.again() }
        });
        let mut said: Vec<u8> = (0..random.below(6)).flat_map(|_| request(&mut random, with_heads)).collect();
        // Whatever a length in it says that has been spoilt, there is enough of it.
        said.extend(format!("GET /last HTTP/1.1\r\nHost: a.test\r\nX-Last: {}\r\n\r\n", "x".repeat(1000)).into_bytes());
        let pieces = pieces(&mut random, &said);
        let go = |first: &'static [u8]| [&[first], &pieces[..]].concat();
        let mut plain = outcome(script.clone(), &go(PLAIN), with_heads).await;
        let mut other = outcome(script.clone(), &go(NEVER_PLAIN), with_heads).await;
        let said = String::from_utf8_lossy(&said);
        assert_eq!(plain.passed, other.passed, "{said}");
        if plain.is_cut_off || other.is_cut_off {
            let heard = plain.told.len().min(other.told.len());
            plain.told.truncate(heard);
            other.told.truncate(heard);
        } else {
            assert_eq!(!plain.told.is_empty(), is_whole || with_heads, "the first is answered, if there is an answer");
        }
        assert_eq!(plain.told, other.told, "{said}");
    }
}

#[tokio::test]
async fn heads_that_are_too_long_are_answered_as_ever() {
    let with = |path: usize, header: usize| {
        format!("GET /{} HTTP/1.1\r\nHost: a.test\r\nX-A: {}\r\n\r\n", "p".repeat(path), "h".repeat(header))
    };
    let many = format!("GET / HTTP/1.1\r\nHost: a.test\r\n{}\r\n", "X-A: 1\r\n".repeat(100));
    for (said, status) in [(with(9, 60_000), "200"), (with(60_000, 9), "200"), (with(9, 200_000), "431"), (many, "431")]
    {
        for first in [PLAIN, NEVER_PLAIN] {
            // In one go, and with its end behind it.
            for cut in [said.len(), said.len() - 2] {
                let (head, rest) = said.as_bytes().split_at(cut);
                let Outcome { passed, told, is_cut_off } = outcome(None, &[first, head, rest], false).await;
                assert_eq!(passed.len(), if status == "200" { 2 } else { 1 });
                assert!(is_cut_off || told.len() == 2, "{told:?}");
                let line = format!("HTTP/1.1 {status} ");
                assert!(told.iter().skip(1).all(|told| told.line.starts_with(&line)), "{told:?} is not {status}");
            }
        }
    }
}
