//! Both ways are one: whatever a server says, and in whatever pieces, it cannot be told which way a request has gone.

mod between;

use super::*;
use crate::Backend;
use crate::agent::dial::Dialer;
use crate::cause::Chain;
use crate::tcp::Tcp;
use carom_core::random::Random;
use http::Response;
use hyper::ext::ReasonPhrase;
use std::io;
use testkit::cases::{bytes, cases};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;

const METHODS: [&str; 6] = ["GET", "GET", "GET", "HEAD", "OPTIONS", "DELETE"];
const LINES: [&str; 14] = [
    "HTTP/1.1 200 OK",
    "HTTP/1.1 200 OK",
    "HTTP/1.1 200 OK",
    "HTTP/1.1 200 Fine",
    "HTTP/1.1 200",
    "HTTP/1.1 204 No Content",
    "HTTP/1.1 304 Not Modified",
    "HTTP/1.1 404 Not Found",
    "HTTP/1.1 503 Service Unavailable",
    "HTTP/1.1 999 ",
    "HTTP/1.0 200 OK",
    "HTTP/1.1 99 Odd",
    "HTTP/1.2 200 OK",
    "ICY 200 OK",
];
const HEADERS: [&str; 9] = [
    "X-A: 1",
    "x-a:2",
    "X-B:  in between \t ",
    "X-Empty:",
    "Set-Cookie: a=1",
    "Set-Cookie: b=2",
    "Date: now",
    "Connection: keep-alive",
    "CONNECTION:  Keep-Alive ",
];
/// Not plain, or none at all.
const ODD: [&str; 14] = [
    "Connection: close",
    "Connection: keep-alive, x-own",
    "Connection:",
    "Upgrade: other",
    "Content-Length: 5",
    "Content-Length: +5",
    "Content-Length: 5, 5",
    "Transfer-Encoding: gzip",
    "Transfer-Encoding: chunked",
    "X-A : 1",
    " folded",
    "no colon",
    "X-\u{e9}: 1",
    "X-Nul: \0",
];
const INFORMATIONAL: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";

/// What a server says to one request, in pieces, and whether it closes the connection then.
#[derive(Clone, Debug, Default)]
struct Answer {
    pieces: Vec<Vec<u8>>,
    closes: bool,
}

/// What came of one request.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    head: Result<(String, Vec<String>), String>,
    body: Vec<u8>,
    is_whole: bool,
    is_at_rest: bool,
}

fn one_of<'a>(random: &mut Random, texts: &[&'a str]) -> &'a str {
    texts[random.below(texts.len())]
}

/// An answer as some server might give it. Where it may not be understood, its end is the connection's.
fn answer(random: &mut Random, request: &Request<Body>) -> Answer {
    let end = if random.chance(0.05) { "\n" } else { "\r\n" };
    let longest = if random.chance(0.1) { 100_000 } else { 600 };
    let body = bytes(random, longest);
    let mut head = if random.chance(0.05) { INFORMATIONAL.to_owned() } else { String::new() };
    let lines = if random.chance(0.3) { &LINES[..] } else { &LINES[..3] };
    let mut closes = random.chance(0.1);
    let line = one_of(random, lines);
    closes |= LINES[..9].iter().all(|good| *good != line);
    head += &format!("{line}{end}");
    for _ in 0..random.below(5) {
        head += &format!("{}{end}", one_of(random, &HEADERS));
    }
    if random.chance(0.15) {
        head += &format!("{}{end}", one_of(random, &ODD));
        closes = true;
    }
    let way = random.below(10);
    closes |= way == 1;
    // Whether more than was promised comes in time to be noticed is up to chance.
    let is_bare = request.method() == Method::HEAD || line.contains(" 204 ") || line.contains(" 304 ");
    let mut said = match way {
        _ if is_bare => format!("{head}Content-Length: {}{end}{end}", body.len()).into_bytes(),
        0 => [format!("{head}Transfer-Encoding: chunked{end}{end}").into_bytes(), in_chunks(&body)].concat(),
        1 => [format!("{head}{end}").into_bytes(), body].concat(),
        _ => [format!("{head}Content-Length: {}{end}{end}", body.len()).into_bytes(), body].concat(),
    };
    if random.chance(0.1) {
        closes = true;
        let (at, byte) = (random.below(said.len().min(200)), random.bits() as u8);
        match random.below(3) {
            0 => said[at] = byte,
            1 => said.insert(at, byte),
            _ => drop(said.remove(at)),
        }
    }
    if random.chance(0.1) {
        closes = true;
        said.truncate(random.below(said.len()));
    }
    let longest = if random.chance(0.1) { 3 + said.len() / 50 } else { 2 * said.len() + 1 };
    let mut pieces = Vec::new();
    while !said.is_empty() {
        let rest = said.split_off((1 + random.below(longest)).min(said.len()));
        pieces.push(said);
        said = rest;
    }
    Answer { pieces, closes }
}

fn in_chunks(body: &[u8]) -> Vec<u8> {
    let chunks = body.chunks(1000).flat_map(|chunk| {
        let line = format!("{:x}\r\n", chunk.len());
        [line.as_bytes(), chunk, b"\r\n"].concat()
    });
    chunks.chain(*b"0\r\n\r\n").collect()
}

fn request(random: &mut Random) -> Request<Body> {
    let uri = one_of(random, &["/", "/orders?all", "*", "/a?", "//two"]);
    let mut request = Request::builder().method(one_of(random, &METHODS)).uri(uri).header("host", "a.test");
    for _ in 0..random.below(4) {
        request = request.header(one_of(random, &["x-a", "accept", "cookie"]), one_of(random, &["1", "", "a b"]));
    }
    request.body(Body::empty()).unwrap()
}

/// Hears so many requests, if there are so many, and says to each what it is to; what it heard.
fn serve(listener: TcpListener, answers: Vec<Answer>) -> JoinHandle<io::Result<Vec<u8>>> {
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await?;
        client.set_nodelay(true)?;
        let mut heard = Vec::new();
        for answer in answers {
            if !hears(&mut client, &mut heard).await {
                break;
            }
            for piece in answer.pieces {
                // Who has understood that it is none may have gone.
                if client.write_all(&piece).await.is_err() {
                    return Ok(heard);
                }
                yield_now().await;
            }
            if answer.closes {
                let _ = client.shutdown().await;
                break;
            }
        }
        // Whoever still says something hears no reset before it has heard all of this.
        while hears(&mut client, &mut Vec::new()).await {}
        Ok(heard)
    })
}

/// Hears one more head. `false` if there is none.
async fn hears(client: &mut TcpStream, heard: &mut Vec<u8>) -> bool {
    let before = heard.len();
    while !heard[before..].ends_with(b"\r\n\r\n") {
        if client.read_buf(heard).await.unwrap_or_default() == 0 {
            return false;
        }
    }
    true
}

/// A connection to a server that says this.
async fn connected(answers: Vec<Answer>) -> (Connection, JoinHandle<io::Result<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let backend = Backend::fixed(listener.local_addr().unwrap());
    let server = serve(listener, answers);
    let dialled = Dialer::plain(Tcp::default()).dial(&backend).await.unwrap();
    (Connection::begin(dialled, &Arc::from("http://a.test")), server)
}

/// The answer, or how it was lost.
fn lost(exchanged: Exchanged) -> Result<Response<Coming>, String> {
    match exchanged {
        Exchanged::Answered(response) => Ok(response),
        Exchanged::Unsent(_, error) => Err(format!("unsent: {}", Chain(&error))),
        Exchanged::Unanswered(error) => Err(format!("unanswered: {}", Chain(&error))),
        // What is wrong with it is noticed early or late.
        Exchanged::Broken(_) => Err("broken".to_owned()),
        Exchanged::Spoilt(error) => Err(format!("spoilt: {}", Chain(&error))),
    }
}

fn get() -> Box<Request<Body>> {
    Box::new(Request::builder().uri("/").header("host", "a.test").body(Body::empty()).unwrap())
}

/// What is answered, to its end.
async fn told(connection: &mut Connection, request: Box<Request<Body>>) -> Vec<u8> {
    let Exchanged::Answered(mut response) = connection.send(request).await else { panic!("no answer") };
    let mut body = Vec::new();
    while let Some(frame) = poll_fn(|cx| connection.poll_frame(response.body_mut(), cx)).await {
        body.extend(frame.unwrap().into_data().unwrap());
    }
    connection.finish();
    body
}

/// What comes of these requests on one connection, and what its server heard.
async fn outcomes(fully: u8, requests: Vec<Request<Body>>, answers: Vec<Answer>) -> (Vec<Outcome>, Vec<u8>) {
    let closes: Vec<bool> = answers.iter().map(|answer| answer.closes).collect();
    let (mut connection, server) = connected(answers).await;
    connection.fully = fully;
    let mut outcomes = Vec::new();
    for (request, closes) in requests.into_iter().zip(closes) {
        let head = lost(connection.send(Box::new(request)).await);
        let mut outcome = Outcome { head: Err(String::new()), body: Vec::new(), is_whole: false, is_at_rest: false };
        match head {
            Ok(response) => {
                let (parts, mut coming) = response.into_parts();
                let reason = parts.extensions.get::<ReasonPhrase>().map(|reason| reason.as_bytes().to_vec());
                let line = format!("{:?} {} {reason:?} {:?}", parts.version, parts.status, coming.size_hint());
                let headers = parts.headers.iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
                outcome.head = Ok((line, headers));
                outcome.is_whole = loop {
                    match poll_fn(|cx| connection.poll_frame(&mut coming, cx)).await {
                        Some(Ok(frame)) => outcome.body.extend_from_slice(&frame.into_data().unwrap_or_default()),
                        Some(Err(_)) => break false,
                        None => break true,
                    }
                };
                connection.finish();
            }
            Err(lost) => outcome.head = Err(lost),
        }
        // Of one that is being closed it is up to chance whether that is known yet.
        outcome.is_at_rest = !closes && connection.is_at_rest();
        let goes_on = outcome.is_at_rest;
        outcomes.push(outcome);
        if !goes_on {
            break;
        }
    }
    drop(connection);
    (outcomes, server.await.unwrap().unwrap_or_default())
}

#[tokio::test]
async fn nobody_can_tell_which_way_a_request_has_gone() {
    let mut plainly = 0;
    for (_case, mut random) in cases(400) {
        let count = 1 + random.below(4);
        let requests: Vec<_> = (0..count).map(|_| request(&mut random)).collect();
        let answers: Vec<_> = requests.iter().map(|request| answer(&mut random, request)).collect();
        let again = |request: &Request<Body>| {
            let (mut copy, of) = (Request::new(Body::empty()), request);
            (*copy.method_mut(), *copy.uri_mut()) = (of.method().clone(), of.uri().clone());
            *copy.headers_mut() = of.headers().clone();
            copy
        };
        let copies = requests.iter().map(again).collect();
        let soon = Duration::from_secs(60);
        let plain = timeout(soon, outcomes(0, requests, answers.clone())).await.expect("it ends");
        let full = timeout(soon, outcomes(u8::MAX, copies, answers.clone())).await.expect("it ends");
        plainly += plain.0.iter().filter(|outcome| outcome.is_at_rest).count();
        let said: Vec<_> = answers.iter().flat_map(|answer| &answer.pieces).map(|piece| piece.escape_ascii()).collect();
        assert_eq!(plain.0, full.0, "{}", said.iter().map(|piece| format!("{piece:.300}|")).collect::<String>());
        assert_eq!(String::from_utf8_lossy(&plain.1), String::from_utf8_lossy(&full.1));
    }
    assert!(plainly > 100 || !testkit::cases::usual(), "{plainly} went well");
}

#[tokio::test]
async fn what_nobody_asked_for_ends_a_connection_either_way() {
    for said in ["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1", "HTTP/1.1 204 No Content\r\n\r\nmore"] {
        for fully in [0, u8::MAX] {
            let answers = vec![Answer { pieces: vec![said.into()], closes: false }];
            let (told, _) = outcomes(fully, vec![*get()], answers).await;
            assert!(told[0].is_whole && !told[0].is_at_rest, "{told:?}");
        }
    }
}

#[tokio::test]
async fn a_connection_goes_either_way_and_comes_back() {
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    const PLAIN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let asked = ["GET", "DELETE", "GET", "GET"].into_iter().chain(["GET"; FULLY as usize + 1]);
    let said = [PLAIN, PLAIN, PLAIN, CHUNKED].into_iter().chain([PLAIN; FULLY as usize + 1]);
    let (mut connection, server) =
        connected(said.map(|said| Answer { pieces: vec![said.into()], closes: false }).collect()).await;
    let mut ways = String::new();
    for method in asked {
        let mut request = get();
        *request.method_mut() = method.parse().unwrap();
        let body = told(&mut connection, request).await;
        assert!(body == b"ok" && connection.is_at_rest(), "{method} after {ways}");
        ways.push(if matches!(connection.way, Way::Plain(_)) { 'p' } else { 'f' });
    }
    // What is not plain in a request says nothing of the next; what is not plain in an answer does.
    assert_eq!(ways, format!("pfpf{}p", "f".repeat(FULLY.into())));
    drop(connection);
    server.await.unwrap().unwrap();
}
