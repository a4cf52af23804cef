//! HTTP services: what is refused, and what clients are told when nobody answers.

use crate::program::PATIENCE;
use crate::proxying::Proxy;
use serde_json::Value;
use testkit::backends::Nobody;
use testkit::http::{Script, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";

async fn node() -> Server {
    Server::start("node-1").await.unwrap()
}

/// The status, and the JSON of an answer.
fn told(answer: &str) -> (&str, Value) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    assert!(head.contains("\r\ncontent-type: application/json"), "{answer}");
    (&head["HTTP/1.1 ".len()..][..3], serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}")))
}

#[tokio::test]
async fn what_could_be_read_in_two_ways_reaches_nobody() {
    let node = node().await;
    let proxy = Proxy::http("http-shapes", &[node.address()], "").await;
    for (shape, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: a.test, b.test\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: me@a.test\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde", "400"),
        ("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: +3\r\n\r\nabc", "400"),
        ("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3, 3\r\n\r\nabc", "400"),
        ("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501"),
        ("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "400"),
        ("POST / HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: a.test\r\nX: a\r\n b\r\n\r\n", "400"),
        ("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n", "501"),
        ("GET * HTTP/1.1\r\nHost: a.test\r\n\r\n", "400"),
        ("GET ftp://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", "400"),
    ] {
        // Whoever is not refused at once is told to leave afterwards.
        let shape = shape.replacen("\r\nHost", "\r\nConnection: close\r\nHost", 1);
        let shape = if shape.contains("Connection") {
            shape
        } else {
            shape.replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)
        };
        let answer = proxy.say(shape.as_bytes()).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")) || answer.starts_with(&format!("HTTP/1.0 {status} ")),
            "{shape}: {answer}"
        );
    }
    assert_eq!(node.requests(), 0);
}

/// Targets that are neither a path, nor an absolute URI, nor `*` of OPTIONS.
const NO_PATHS: [&str; 9] = [
    "GET admin",
    "GET admin:80",
    "GET 127.0.0.1",
    "GET admin/path",
    "GET ?query",
    "GET *",
    "POST *",
    "OPTIONS admin",
    "OPTIONS **",
];

#[tokio::test]
async fn a_target_that_is_no_path_is_a_bad_request() {
    let node = node().await;
    let proxy = Proxy::http("http-targets", &[node.address()], "").await;
    for target in NO_PATHS {
        // The first goes through the fast path, the second through hyper.
        for more in ["", "Connection: close\r\n"] {
            let mut socket = proxy.connect().await;
            socket.write_all(format!("{target} HTTP/1.1\r\nHost: a.test\r\n{more}\r\n").as_bytes()).await.unwrap();
            let mut status = [0; 12];
            timeout(PATIENCE, socket.read_exact(&mut status)).await.expect("a response").unwrap();
            assert_eq!(&status, b"HTTP/1.1 400", "{target}, {more:?}");
        }
    }
    assert_eq!(node.requests(), 0);
    let answer = proxy.say(b"OPTIONS * HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let answer = proxy.say(b"GET http://b.test/path HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let targets: Vec<_> = node.seen().iter().map(|seen| seen.target.clone()).collect();
    assert_eq!(targets, ["*", "/path"]);
}

#[tokio::test]
async fn a_target_over_http_2_that_is_no_path_is_a_bad_request() {
    /// Static entries of HPACK: `:status: 200` and `:status: 400`.
    const OK: u8 = 0x88;
    const BAD_REQUEST: u8 = 0x8c;
    let node = node().await;
    let proxy = Proxy::http("http-targets-2", &[node.address()], "").await;
    assert_eq!(http2_status(&proxy, "GET", "*").await, BAD_REQUEST);
    assert_eq!(http2_status(&proxy, "POST", "*").await, BAD_REQUEST);
    assert_eq!(http2_status(&proxy, "HEAD", "*").await, BAD_REQUEST);
    assert_eq!(http2_status(&proxy, "GET", "?query").await, BAD_REQUEST);
    assert_eq!(node.requests(), 0);
    assert_eq!(http2_status(&proxy, "OPTIONS", "*").await, OK);
    assert_eq!(http2_status(&proxy, "GET", "/path").await, OK);
    let targets: Vec<_> = node.seen().iter().map(|seen| seen.target.clone()).collect();
    assert_eq!(targets, ["*", "/path"]);
}

/// The first byte of the header block of a response over HTTP/2, written by hand: clients refuse to send such paths.
async fn http2_status(proxy: &Proxy, method: &str, path: &str) -> u8 {
    const HEADERS: u8 = 1;
    const SETTINGS: u8 = 4;
    const END_STREAM: u8 = 0x1;
    const END_STREAM_AND_HEADERS: u8 = 0x5;
    // Names from the static table of HPACK, values as they are.
    let mut block = vec![0x86];
    for (name, value) in [(2, method), (4, path), (1, "a.test")] {
        block.extend([name, value.len() as u8]);
        block.extend_from_slice(value.as_bytes());
    }
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend([0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]);
    sent.extend([0, 0, block.len() as u8, HEADERS, END_STREAM_AND_HEADERS, 0, 0, 0, 1]);
    sent.extend(block);
    let mut socket = proxy.connect().await;
    socket.write_all(&sent).await.unwrap();
    let response = async {
        loop {
            let mut head = [0; 9];
            socket.read_exact(&mut head).await.unwrap();
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            socket.read_exact(&mut payload).await.unwrap();
            if head[3] == HEADERS {
                assert!(method != "HEAD" || head[4] & END_STREAM != 0, "a response to HEAD has no body");
                return payload[0];
            }
        }
    };
    timeout(PATIENCE, response).await.expect("a response")
}

#[tokio::test]
async fn a_length_beside_pieces_goes_no_further_and_ends_the_connection() {
    let node = node().await;
    let proxy = Proxy::http("http-both", &[node.address()], "").await;
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let sent = format!(
        "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"
    );
    let answer = proxy.say(sent.as_bytes()).await;
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    for seen in node.seen() {
        assert_eq!((seen.target.as_str(), seen.header("content-length")), ("/", None));
    }
}

#[tokio::test]
async fn heads_have_bounds() {
    let node = node().await;
    let proxy = Proxy::http("http-heads", &[node.address()], "").await;
    let long = format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-Long: {}\r\n", "x".repeat(80 << 10));
    let many = format!("GET / HTTP/1.1\r\nHost: a.test\r\n{}", "X-Many: 1\r\n".repeat(200));
    for head in [long, many] {
        let mut socket = proxy.connect().await;
        // Whoever has heard enough may end it before everything was said.
        let _ = socket.write_all(format!("{head}\r\n").as_bytes()).await;
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, socket.read_to_end(&mut answer)).await.expect("it ends");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    assert_eq!(node.requests(), 0);
}

#[tokio::test]
async fn a_refused_connection_is_a_bad_gateway_or_nobody_to_serve() {
    let nobody = Nobody::new().unwrap();
    let proxy = Proxy::http(
        "http-502",
        &[nobody.address()],
        "attempts = 1\ndelay = \"10ms\"\nmax_delay = \"20ms\"\noutage_wait = 0",
    )
    .await;
    let answer = proxy.say(GET).await;
    let (status, told) = told(&answer);
    assert_eq!((status, &told["error"], &told["service"]), ("502", &"connect".into(), &"it".into()), "{answer}");
    assert!(told["message"].as_str().unwrap().to_lowercase().contains("refused"), "{answer}");
    assert_eq!(proxy.health().await["failed"], 1);
}

#[tokio::test]
async fn what_is_no_answer_is_a_bad_gateway_that_names_the_backend() {
    let node = node().await;
    node.script(Script::new().request().say("what do you want?\r\n\r\n").close());
    let proxy = Proxy::http("http-garbage", &[node.address()], "").await;
    let answer = proxy.say(GET).await;
    let (status, told) = told(&answer);
    assert_eq!((status, &told["error"]), ("502", &"receive".into()), "{answer}");
    assert_eq!(told["backend"], node.address().to_string(), "{answer}");
}

#[tokio::test]
async fn no_connection_in_time_is_service_unavailable() {
    let node = node().await;
    node.script(Script::new().request().hold());
    let proxy = Proxy::http("http-503", &[node.address()], "maximum = 1\nspares = 1\nclaim_timeout = \"100ms\"").await;
    let mut first = proxy.connect().await;
    first.write_all(GET).await.unwrap();
    timeout(PATIENCE, node.until(|node| node.requests() == 1)).await.expect("it is asked");
    let answer = proxy.say(GET).await;
    let (status, told) = told(&answer);
    assert_eq!((status, &told["error"]), ("503", &"claim".into()), "{answer}");
}

#[tokio::test]
async fn a_backend_that_says_nothing_in_time_is_a_gateway_timeout() {
    let node = node().await;
    node.script(Script::new().request().hold());
    let proxy = Proxy::http("http-504", &[node.address()], "request_timeout = \"100ms\"").await;
    let answer = proxy.say(GET).await;
    let (status, told) = told(&answer);
    assert_eq!((status, &told["error"]), ("504", &"timeout".into()), "{answer}");
    proxy.until("nothing is held", |service| service["busy"] == 0 && service["clients"] == 0).await;
}

#[tokio::test]
async fn a_client_that_does_not_say_the_rest_in_time_is_told_so() {
    let node = node().await;
    let proxy = Proxy::http("http-408", &[node.address()], "request_timeout = \"200ms\"").await;
    let mut socket = proxy.connect().await;
    socket.write_all(b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nabc").await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, socket.read_to_string(&mut answer)).await.expect("it ends").unwrap();
    let (status, told) = told(&answer);
    assert_eq!((status, &told["error"]), ("408", &"request".into()), "{answer}");
    assert!(told["message"].as_str().unwrap().contains("did not come"), "{answer}");
    proxy.until("nothing is held", |service| service["busy"] == 0 && service["clients"] == 0).await;
    assert_eq!(proxy.health().await["failed"], 0);
    assert!(proxy.say(GET).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_body_that_is_none_is_the_clients_mistake() {
    let node = node().await;
    let proxy = Proxy::http("http-spoilt", &[node.address()], "").await;
    let head = "POST / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    let answer = proxy.say(format!("{head}3\r\nabc\r\nnonsense\r\n").as_bytes()).await;
    let (status, told) = told(&answer);
    assert_eq!((status, &told["error"]), ("400", &"request".into()), "{answer}");
    proxy.until("nothing is held", |service| service["busy"] == 0 && service["clients"] == 0).await;
    let health = proxy.health().await;
    assert_eq!((&health["failed"], &health["served"]), (&0.into(), &0.into()));
}

#[tokio::test]
async fn beyond_so_many_clients_are_told_so() {
    let node = node().await;
    let proxy = Proxy::http("http-clients", &[node.address()], "max_clients = 1").await;
    let first = proxy.connect().await;
    proxy.until("a client", |service| service["clients"] == 1).await;
    let answer = proxy.say(GET).await;
    let (status, told) = told(&answer);
    assert_eq!((status, &told["error"], &told["service"]), ("503", &"clients".into(), &"it".into()), "{answer}");
    drop(first);
    proxy.until("room", |service| service["clients"] == 0).await;
    assert!(proxy.say(GET).await.starts_with("HTTP/1.1 200 "));
}
