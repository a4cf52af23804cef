//! HTTP services: what goes on to backends and comes back from them, and what does not.

use crate::program::PATIENCE;
use crate::proxying::Proxy;
use carom::agent::{Agent, Body, Protocol};
use http::{Request, Version};
use http_body_util::BodyExt;
use testkit::http::{Script, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

async fn node() -> Server {
    Server::start("node-1").await.unwrap()
}

/// A proxy before a node that says this to every request.
async fn saying(test: &str, answer: &'static str) -> (Server, Proxy) {
    let node = node().await;
    node.script(Script::new().request().say(answer).again());
    let proxy = Proxy::http(test, &[node.address()], "").await;
    (node, proxy)
}

fn has(answer: &str, line: &str) -> bool {
    answer.split("\r\n\r\n").next().unwrap().lines().any(|said| said.eq_ignore_ascii_case(line))
}

#[tokio::test]
async fn what_a_client_says_to_its_proxy_alone_stays_there() {
    let node = node().await;
    let proxy = Proxy::http("http-hop", &[node.address()], "").await;
    let answer = proxy
        .say(
            b"POST /orders?all=1 HTTP/1.1\r\nHost: shop.test:81\r\nConnection: close, X-Own\r\nX-Own: 1\r\nKeep-Alive: timeout=5\r\n\
              Proxy-Connection: keep-alive\r\nTE: trailers, gzip\r\nUpgrade: something\r\nX-Kept: 2\r\nX-Forwarded-For: 10.0.0.9\r\n\
              Via: 1.0 another\r\nContent-Length: 4\r\n\r\nbody",
        )
        .await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(has(&answer, "via: 1.1 carom"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nbody"), "{answer}");

    let seen = &node.seen()[0];
    assert_eq!((seen.target.as_str(), seen.body.as_slice()), ("/orders?all=1", &b"body"[..]));
    assert_eq!(seen.header("host"), Some("shop.test:81"), "addresses have no name of their own");
    assert_eq!((seen.header("x-kept"), seen.header("x-forwarded-for")), (Some("2"), Some("10.0.0.9")));
    assert_eq!((seen.header("te"), seen.header("connection")), (Some("trailers"), Some("te")));
    let via: Vec<_> = seen.headers.get_all("via").iter().collect();
    assert_eq!(via, ["1.0 another", "1.1 carom"]);
    for gone in ["x-own", "keep-alive", "proxy-connection", "upgrade", "transfer-encoding"] {
        assert_eq!(seen.header(gone), None, "{gone}");
    }
}

#[tokio::test]
async fn what_a_backend_says_to_its_client_alone_stays_there() {
    let (_node, proxy) = saying(
        "http-hop-back",
        "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Own\r\nKeep-Alive: timeout=5\r\nX-Own: 1\r\nX-Kept: 2\r\n\
         Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    )
    .await;
    let answer = proxy.say(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").await;
    assert!(has(&answer, "x-kept: 2") && has(&answer, "transfer-encoding: chunked"), "{answer}");
    assert!(!answer.contains("x-own") && !answer.contains("keep-alive"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n3\r\nabc\r\n0\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn the_host_is_the_one_that_is_configured() {
    let node = node().await;
    let proxy = Proxy::http("http-host", &[node.address()], "host = \"api.test:8080\"").await;
    proxy.say(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").await;
    assert_eq!(node.seen()[0].header("host"), Some("api.test:8080"));
}

#[tokio::test]
async fn a_target_that_names_its_host_goes_before_the_header() {
    let node = node().await;
    let proxy = Proxy::http("http-absolute", &[node.address()], "").await;
    proxy.say(b"GET http://b.test/path?q HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").await;
    let seen = &node.seen()[0];
    assert_eq!((seen.target.as_str(), seen.header("host")), ("/path?q", Some("b.test")));
}

#[tokio::test]
async fn answers_without_a_body_have_none() {
    for (name, method, head) in [
        ("head", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"),
        ("204", "GET", "HTTP/1.1 204 No Content\r\n\r\n"),
        ("304", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\n\r\n"),
    ] {
        let (node, proxy) = saying(&format!("http-empty-{name}"), head).await;
        // On the same connection again: whoever took something for a body would not hear the second answer.
        let request = format!("{method} / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let last = format!("{method} / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        let answer = proxy.say(format!("{request}{last}").as_bytes()).await;
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 2, "{name}: {answer}");
        assert!(answer.ends_with("\r\n\r\n"), "{name}: {answer}");
        assert_eq!(answer.contains("content-length: 1000"), method == "HEAD", "{name}: {answer}");
        assert_eq!(node.requests(), 2, "{name}");
    }
}

#[tokio::test]
async fn pieces_and_trailers_pass_both_ways() {
    let node = node().await;
    let proxy = Proxy::http("http-trailers", &[node.address()], "").await;
    let answer =
        proxy.say(b"GET /trailers HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\nConnection: close, te\r\n\r\n").await;
    assert!(has(&answer, "trailer: x-sum"), "{answer}");
    assert!(answer.ends_with("4\r\nxxxx\r\n0\r\nx-sum: 4\r\n\r\n"), "{answer}");

    let sent = b"POST / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    let answer = proxy.say(sent).await;
    assert!(answer.ends_with("\r\n\r\nabcde"), "{answer}");
    let seen = &node.seen()[1];
    assert_eq!((seen.header("transfer-encoding"), seen.header("content-length")), (Some("chunked"), None));
}

#[tokio::test]
async fn a_body_of_unknown_length_reaches_the_backend_whatever_the_method() {
    let node = node().await;
    let proxy = Proxy::http("http-get-body", &[node.address()], "").await;
    for (number, method) in ["GET", "HEAD", "DELETE", "OPTIONS"].into_iter().enumerate() {
        let head = "HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nTransfer-Encoding: chunked";
        proxy.say(format!("{method} / {head}\r\n\r\n3\r\nabc\r\n0\r\n\r\n").as_bytes()).await;
        let seen = &node.seen()[number];
        assert_eq!((seen.method.as_str(), seen.body.as_slice()), (method, &b"abc"[..]));
        assert_eq!((seen.header("transfer-encoding"), seen.header("content-length")), (Some("chunked"), None));
    }
    let agent = Agent::builder().protocol(Protocol::Http2).build().unwrap();
    let body = Body::new(Body::from("query").map_frame(|frame| frame).boxed_unsync());
    let request = Request::get(format!("http://{}/", proxy.address)).body(body).unwrap();
    let response = timeout(PATIENCE, agent.request(request)).await.expect("it comes").unwrap();
    assert_eq!(response.into_body().bytes(100).await.unwrap(), "query");
}

#[tokio::test]
async fn an_answer_with_a_length_beside_its_pieces_is_whole() {
    let answer =
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n";
    let (_node, proxy) = saying("http-length-pieces", answer).await;
    let answer = proxy.say(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").await;
    assert!(!answer.contains("content-length"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nB\r\nhello world\r\n0\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn an_answer_in_a_coding_that_nobody_undoes_is_none() {
    let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let (_node, proxy) = saying("http-coding", answer).await;
    let answer = proxy.say(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("transfer coding"), "{answer}");
    proxy.until("nothing is held", |service| service["busy"] == 0).await;
}

#[tokio::test]
async fn a_transfer_coding_that_connection_names_is_checked() {
    let answer = "HTTP/1.1 200 OK\r\nConnection: transfer-encoding\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let (_node, proxy) = saying("http-coding-named", answer).await;
    let answer = proxy.say(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("transfer coding"), "{answer}");

    let answer = "HTTP/1.1 200 OK\r\nConnection: Transfer-Encoding, Content-Length\r\nContent-Length: 5\r\n\
                  Transfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n";
    let (_node, proxy) = saying("http-pieces-named", answer).await;
    let answer = proxy.say(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").await;
    assert!(!answer.contains("content-length"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nB\r\nhello world\r\n0\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn what_frames_a_request_cannot_be_removed_by_connection() {
    let node = node().await;
    let proxy = Proxy::http("http-framing-named", &[node.address()], "").await;
    let named = "Connection: close, transfer-encoding, content-length, host";
    // A length in front of the coding is in the head that hyper hands over.
    let head = format!("POST / HTTP/1.1\r\nHost: a.test\r\n{named}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked");
    proxy.say(format!("{head}\r\n\r\n3\r\nabc\r\n0\r\n\r\n").as_bytes()).await;
    for seen in node.seen() {
        assert_eq!((seen.header("transfer-encoding"), seen.header("content-length")), (Some("chunked"), None));
        assert_eq!((seen.body.as_slice(), seen.header("host")), (&b"abc"[..], Some("a.test")));
    }
    assert_eq!(node.requests(), 1);
    let head = format!("POST / HTTP/1.1\r\nHost: a.test\r\n{named}\r\nContent-Length: 3");
    let answer = proxy.say(format!("{head}\r\n\r\nabc").as_bytes()).await;
    assert!(answer.ends_with("\r\n\r\nabc"), "{answer}");
    let seen = &node.seen()[1];
    assert_eq!((seen.header("content-length"), seen.header("host")), (Some("3"), Some("a.test")));
}

#[tokio::test]
async fn te_trailers_reaches_http_2_nodes_and_no_other_te_does() {
    let node = node().await;
    let proxy = Proxy::http("http-te", &[node.address()], "http2 = \"only\"").await;
    let agent = Agent::builder().protocol(Protocol::Http2).build().unwrap();
    let request = Request::get(format!("http://{}/trailers", proxy.address)).header("te", "trailers");
    let response = timeout(PATIENCE, agent.request(request.body(Body::empty()).unwrap())).await.expect("a response");
    let whole = response.unwrap().into_body().collect().await.unwrap();
    assert_eq!(whole.trailers().map(|trailers| &trailers["x-sum"]).unwrap(), "4");
    for (te, connection) in [("trailers, gzip", "te"), ("trailers", "close"), ("gzip", "te")] {
        let head = format!("GET / HTTP/1.1\r\nHost: a.test\r\nTE: {te}\r\nConnection: close, {connection}\r\n\r\n");
        let answer = proxy.say(head.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    let seen = node.seen();
    let te: Vec<_> = seen.iter().map(|seen| seen.header("te")).collect();
    assert_eq!(te, [Some("trailers"), Some("trailers"), Some("trailers"), None]);
    assert!(seen.iter().all(|seen| seen.version == Version::HTTP_2 && seen.header("connection").is_none()));
}

#[tokio::test]
async fn checks_are_addressed_as_requests_are() {
    let node = node().await;
    let more = "host = \"api.test:8080\"\ncheck = \"/healthz\"\ncheck_interval = \"50ms\"";
    let _proxy = Proxy::http("http-check", &[node.address()], more).await;
    timeout(PATIENCE, node.until(|node| node.requests() > 0)).await.expect("it is checked");
    let seen = &node.seen()[0];
    assert_eq!((seen.target.as_str(), seen.header("host")), ("/healthz", Some("api.test:8080")));
}

#[tokio::test]
async fn who_asks_whether_to_go_on_is_told_once_a_backend_listens() {
    let node = node().await;
    let proxy = Proxy::http("http-expect", &[node.address()], "").await;
    let mut socket = proxy.connect().await;
    let head =
        b"POST / HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 5\r\n\r\n";
    socket.write_all(head).await.unwrap();
    let expected = "HTTP/1.1 100 Continue\r\n\r\n";
    let mut told = vec![0; expected.len()];
    timeout(PATIENCE, socket.read_exact(&mut told)).await.expect("it is told").unwrap();
    assert_eq!(String::from_utf8(told).unwrap(), expected);
    socket.write_all(b"hello").await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, socket.read_to_string(&mut answer)).await.expect("it ends").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("hello"), "{answer}");
}

#[tokio::test]
async fn who_speaks_http_1_0_is_answered_in_kind() {
    let node = node().await;
    let proxy = Proxy::http("http-old", &[node.address()], "").await;
    let answer = proxy.say(b"GET /chunked/5 HTTP/1.0\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n") || answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(!answer.contains("transfer-encoding"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nxxxxx"), "{answer}");
    let seen = &node.seen()[0];
    assert_eq!((seen.version, seen.header("via")), (Version::HTTP_11, Some("1.0 carom")));
}

#[tokio::test]
async fn requests_sent_ahead_are_answered_in_order() {
    let node = node().await;
    let proxy = Proxy::http("http-ahead", &[node.address()], "").await;
    let mut sent = String::new();
    for number in 0..20 {
        let close = if number == 19 { "Connection: close\r\n" } else { "" };
        sent += &format!("POST /{number} HTTP/1.1\r\nHost: a.test\r\n{close}Content-Length: 4\r\n\r\n<{number:02}>");
    }
    let answer = proxy.say(sent.as_bytes()).await;
    let mut from = 0;
    for number in 0..20 {
        let at = answer[from..].find(&format!("<{number:02}>")).unwrap_or_else(|| panic!("{number}: {answer}"));
        from += at;
    }
}

#[tokio::test]
async fn http_2_is_spoken_to_who_begins_with_it() {
    let node = node().await;
    let proxy = Proxy::http("http-two", &[node.address()], "maximum = 4").await;
    let agent = Agent::builder().protocol(Protocol::Http2).build().unwrap();
    let uri = format!("http://{}", proxy.address);
    let ask = |number: usize| {
        let request = Request::post(format!("{uri}/{number}"))
            .header("cookie", "a=1")
            .header("cookie", "b=2")
            .body(Body::from(format!("body {number}")))
            .unwrap();
        let agent = agent.clone();
        async move {
            let response = agent.request(request).await.unwrap();
            assert_eq!((response.version(), response.status().as_u16()), (Version::HTTP_2, 200));
            assert_eq!(response.headers()["via"], "1.1 carom");
            response.into_body().bytes(100).await.unwrap()
        }
    };
    let answers = timeout(PATIENCE, futures_util::future::join_all((0..32).map(ask))).await.expect("they come");
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(answer, &format!("body {number}"));
    }
    let seen = &node.seen()[0];
    assert_eq!((seen.header("via"), seen.header("cookie")), (Some("2 carom"), Some("a=1; b=2")));
    assert_eq!(seen.header("host"), Some(&*proxy.address.to_string()));
    assert!(node.accepted() <= 4, "many requests of one client share what connections there are");

    let request = Request::get(format!("{uri}/trailers")).header("te", "trailers").body(Body::empty()).unwrap();
    let response = agent.request(request).await.unwrap();
    let whole = response.into_body().collect().await.unwrap();
    assert_eq!(whole.trailers().map(|trailers| &trailers["x-sum"]).unwrap(), "4");
}
