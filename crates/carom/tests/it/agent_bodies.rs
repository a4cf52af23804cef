//! Bodies of every framing, both ways: what is read is what was sent, and whether the connection is used again is as HTTP says.

use crate::agent::*;
use bytes::Bytes;
use carom::agent::{Body, Origin, Step};
use http::{HeaderMap, Method, Request};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use std::io;
use testkit::http::{Script, Server};

/// An answer, what a client reads of it, and whether the connection can be used again.
struct Case {
    what: &'static str,
    method: Method,
    answer: &'static str,
    status: u16,
    body: &'static str,
    reused: bool,
}

const fn case(what: &'static str, answer: &'static str, body: &'static str, reused: bool) -> Case {
    Case { what, method: Method::GET, answer, status: 200, body, reused }
}

#[tokio::test]
async fn answers_are_read_as_they_are_framed_and_connections_used_again_where_that_is_right() {
    let cases = [
        case("a length", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", "hello", true),
        case("no body", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "", true),
        case(
            "chunks",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n",
            "hello",
            true,
        ),
        case("no chunks", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "", true),
        case(
            "chunks and trailers",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 5\r\n\r\n",
            "hello",
            true,
        ),
        case(
            "news before the answer",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n\
             HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
            "hello",
            true,
        ),
        case("1.0", "HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello", "hello", false),
        case("1.0 until the end", "HTTP/1.0 200 OK\r\n\r\nhello", "hello", false),
        case("until the end", "HTTP/1.1 200 OK\r\n\r\nhello", "hello", false),
        case("the last", "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello", "hello", false),
        case("the last and empty", "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", "", false),
        Case { method: Method::HEAD, ..case("HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n", "", true) },
        Case {
            method: Method::HEAD,
            ..case("HEAD in chunks", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "", true)
        },
        Case { status: 204, ..case("204", "HTTP/1.1 204 No Content\r\n\r\n", "", true) },
        Case { status: 304, ..case("304", "HTTP/1.1 304 Not Modified\r\ncontent-length: 1000\r\n\r\n", "", true) },
    ];
    for Case { what, method, answer, status, body, reused } in cases {
        let (agent, server) = (single(), server("node").await);
        // A server that means to end after its answer does so; the others wait for more.
        let once = Script::new().request().say(answer);
        server.script(if reused { once.again() } else { once.close() });
        let origin = origin(&agent, [&server]);
        for _ in 0..3 {
            let answered = asked(&origin, request(method.clone(), "/", Body::empty())).await;
            assert_eq!(answered, (status, body.to_owned()), "{what}");
            assert_at_rest(&origin);
        }
        assert_nobody_dead(&origin);
        let connections = server.seen().iter().map(|seen| seen.connection).collect::<Vec<_>>();
        assert_eq!(connections, if reused { [0, 0, 0] } else { [0, 1, 2] }, "{what}");
    }
}

#[tokio::test]
async fn an_answer_without_a_body_holds_no_connection() {
    let (agent, server) = (single(), server("node").await);
    let origin = origin(&agent, [&server]);
    let mut held = Vec::new();
    for request in
        [request(Method::HEAD, "/bytes/1000", Body::empty()), get("/status/204"), get("/status/304"), get("/bytes/0")]
    {
        held.push(soon(origin.request(request)).await.unwrap());
        assert_at_rest(&origin);
    }
    assert_eq!((held.len(), server.accepted()), (4, 1));
    for response in held {
        assert!(response.body().is_end_stream());
        assert_eq!(read(response).await.unwrap(), "");
    }
}

#[tokio::test]
async fn trailers_come_after_the_body() {
    let (agent, server) = (single(), server("node").await);
    let origin = origin(&agent, [&server]);
    let request = Request::get("/trailers").header("te", "trailers").body(Body::empty()).unwrap();
    let mut body = soon(origin.request(request)).await.unwrap().into_body();
    let (mut whole, mut trailers) = (Vec::new(), HeaderMap::new());
    while let Some(frame) = soon(body.frame()).await {
        match frame.unwrap().into_data() {
            Ok(bytes) => whole.extend(bytes),
            Err(frame) => trailers = frame.into_trailers().unwrap(),
        }
    }
    assert_eq!((&*whole, trailers["x-sum"].to_str().unwrap()), (&b"xxxx"[..], "4"));
    assert_at_rest(&origin);
    assert_eq!(asked(&origin, get("/")).await.0, 200);
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn big_answers_come_whole_however_they_are_framed() {
    let (agent, server) = (single(), server("node").await);
    let origin = origin(&agent, [&server]);
    for path in ["/bytes/5000000", "/chunked/5000000", "/bytes/1", "/chunked/1"] {
        let length: usize = path.rsplit('/').next().unwrap().parse().unwrap();
        let (status, body) = asked(&origin, get(path)).await;
        assert_eq!((status, body.len()), (200, length));
        assert!(body.bytes().all(|byte| byte == b'x'));
    }
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_body_dropped_early_costs_the_connection_and_nobody_is_blamed() {
    let (agent, server) = (single(), server("node").await);
    let origin = origin(&agent, [&server]);
    for round in 0..10 {
        let mut response = soon(origin.request(get("/chunked/5000000"))).await.unwrap();
        if round % 2 == 0 {
            assert!(soon(response.body_mut().frame()).await.unwrap().unwrap().is_data());
        }
        assert_eq!(in_use(&origin), (1, 0));
        drop(response);
        assert_at_rest(&origin);
        assert_nobody_dead(&origin);
    }
    assert_eq!(asked(&origin, get("/")).await.0, 200);
    soon(server.until(|server| server.connections() == 1)).await;
}

#[tokio::test]
async fn a_short_body_that_nobody_reads_does_not_cost_the_connection() {
    let (agent, server) = (single(), server("node").await);
    server.script(Script::new().times(20, &Script::new().request().answer(200, "b".repeat(5000))));
    let origin = origin(&agent, [&server]);
    for _ in 0..20 {
        drop(soon(origin.request(get("/"))).await.unwrap());
    }
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_body_longer_than_its_reader_allows_is_an_error() {
    let (agent, server) = (single(), server("node").await);
    let origin = origin(&agent, [&server]);
    for path in ["/bytes/1001", "/chunked/1001"] {
        let response = soon(origin.request(get(path))).await.unwrap();
        let error = soon(response.into_body().bytes(1000)).await.unwrap_err();
        assert_eq!(error.step(), Step::Receive, "{error:?}");
        assert!(error.to_string().contains("1000"), "{error}");
        assert_at_rest(&origin);
    }
    let response = soon(origin.request(get("/chunked/1000"))).await.unwrap();
    assert_eq!(soon(response.into_body().bytes(1000)).await.unwrap().len(), 1000);
}

#[tokio::test]
async fn request_bodies_arrive_whole_with_their_length_where_it_is_known() {
    let (agent, server) = (single(), server("node").await);
    let origin = origin(&agent, [&server]);
    let big = vec![b'y'; 8 << 20];
    let bodies: [(Body, usize); 6] = [
        (Body::empty(), 0),
        ("text".into(), 4),
        (String::from("string").into(), 6),
        (Bytes::from_static(b"bytes").into(), 5),
        (big.clone().into(), big.len()),
        (Body::new(http_body_util::Full::new(Bytes::from_static(b"foreign"))), 7),
    ];
    for (body, length) in bodies {
        assert_eq!(body.size_hint().exact(), Some(length as u64));
        asked(&origin, post("/", body)).await;
        let seen = server.seen().pop().unwrap();
        assert_eq!((seen.body.len(), seen.header("content-length")), (length, Some(&*length.to_string())));
        assert_eq!(seen.header("transfer-encoding"), None);
    }
    // A GET without a body says nothing of one.
    asked(&origin, get("/")).await;
    let seen = server.seen().pop().unwrap();
    assert_eq!((seen.header("content-length"), seen.header("transfer-encoding")), (None, None));
    assert_eq!(server.accepted(), 1);
}

/// Of a few methods hyper believes that they have no body, unless it is told.
#[tokio::test]
async fn a_body_of_unknown_length_is_sent_whatever_the_method() {
    let (agent, server) = (single(), server("node").await);
    let origin = origin(&agent, [&server]);
    for method in [Method::GET, Method::HEAD, Method::POST, Method::DELETE, Method::OPTIONS] {
        asked(&origin, request(method.clone(), "/_search", fed_with(3, 5))).await;
        let seen = server.seen().pop().unwrap();
        assert_eq!((seen.body.len(), seen.header("transfer-encoding")), (15, Some("chunked")), "{method}");
        assert_eq!(seen.header("content-length"), None, "{method}");
    }
    assert_eq!(server.accepted(), 1);
}

/// Much more than sockets hold, in one piece, and an answer that comes before anything of it is read and is left lying.
#[tokio::test]
async fn a_large_body_goes_out_though_nobody_reads_the_early_answer() {
    let (agent, server) = (single(), server("node").await);
    server.close_gate();
    let early = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nearly";
    server.script(Script::new().head().say(early).body().gate().hold());
    let origin = origin(&agent, [&server]);
    let response = soon(origin.request(post("/", vec![b'z'; 16 << 20]))).await.unwrap();
    soon(server.until(|server| server.at_gate() == 1)).await;
    assert_eq!(server.seen()[0].body.len(), 16 << 20);
    assert_eq!(read(response).await.unwrap(), "early");
    until("the connection came back", || in_use(&origin) == (0, 0)).await;
}

/// A connection that has carried a large body is used again.
#[tokio::test]
async fn large_bodies_do_not_cost_the_connection() {
    let (agent, server) = (single(), server("node").await);
    let origin = origin(&agent, [&server]);
    for path in ["/", "/status/204", "/", "/status/200"] {
        asked(&origin, post(path, vec![b'y'; 1 << 20])).await;
        until("the connection came back", || in_use(&origin) == (0, 0)).await;
    }
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn both_bodies_flow_at_the_same_time_piece_by_piece() {
    let (agent, server) = (single(), server("node").await);
    let origin = origin(&agent, [&server]);
    for _ in 0..3 {
        let (sender, body) = fed();
        let mut response = soon(origin.request(post("/stream", body))).await.unwrap();
        for piece in ["one", "two", "three"] {
            soon(sender.send(Ok(piece.into()))).await.unwrap();
            let frame = soon(response.body_mut().frame()).await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), piece);
        }
        drop(sender);
        assert!(soon(response.body_mut().frame()).await.is_none());
        until("the connection came back", || in_use(&origin) == (0, 0)).await;
    }
    assert_eq!(asked(&origin, get("/")).await.0, 200);
}

/// Far more than any buffer holds: the answer must wait in the sockets until somebody reads it, and the request still goes out.
#[tokio::test]
async fn an_upload_is_echoed_while_it_is_sent() {
    const PIECES: usize = 200;
    let (agent, server) = (single(), server("node").await);
    let origin = origin(&agent, [&server]);
    let (sender, body) = fed();
    let sending = tokio::spawn(async move {
        for _ in 0..PIECES {
            sender.send(Ok(vec![b'z'; 64 << 10].into())).await.unwrap();
        }
    });
    let response = soon(origin.request(post("/stream", body))).await.unwrap();
    assert_eq!(read(response).await.unwrap().len(), PIECES * (64 << 10));
    soon(sending).await.unwrap();
    until("the connection came back", || in_use(&origin) == (0, 0)).await;
}

/// The caller sends everything and only then looks at the answer, whose head came long before.
#[tokio::test]
async fn an_answer_is_read_only_after_everything_was_sent() {
    let (agent, server) = (single(), server("node").await);
    server.script(Script::new().head().say("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nearly").body().hold());
    let origin = origin(&agent, [&server]);
    let (sender, body) = fed();
    let response = soon(origin.request(post("/", body))).await.unwrap();
    for _ in 0..100 {
        soon(sender.send(Ok(vec![b'z'; 64 << 10].into()))).await.unwrap();
    }
    drop(sender);
    soon(server.until(|server| server.seen()[0].body.len() == 100 * (64 << 10))).await;
    assert_eq!(read(response).await.unwrap(), "early");
    until("the connection came back", || in_use(&origin) == (0, 0)).await;
}

#[tokio::test]
async fn an_early_refusal_is_heard_while_the_upload_goes_on() {
    const REFUSAL: &str = "HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: 4\r\n\r\nmuch";
    let (agent, server) = (single(), server("node").await);
    // One that takes the rest, and one that does not care for it.
    for refuse in [Script::new().head().say(REFUSAL).close(), Script::new().head().say(REFUSAL).finish().hold()] {
        server.cut().await;
        server.script(refuse);
        server.cut().await;
        let origin = agent.pool(API).unwrap_or_else(|| origin(&agent, [&server]));
        for body in [Body::from(vec![b'u'; 4 << 20]), fed_with(64, 64 << 10)] {
            assert_eq!(ask_unblamed(&origin, post("/", body)).await, (413, "much".into()));
            until("the connection came back", || in_use(&origin) == (0, 0)).await;
        }
    }
}

async fn ask_unblamed(origin: &Origin, request: Request<Body>) -> (u16, String) {
    let answer = asked(origin, request).await;
    assert_nobody_dead(origin);
    answer
}

/// A body of so many pieces of that length, which its receiver may stop taking.
fn fed_with(pieces: usize, length: usize) -> Body {
    let (sender, body) = fed();
    tokio::spawn(async move {
        for _ in 0..pieces {
            if sender.send(Ok(vec![b'z'; length].into())).await.is_err() {
                return;
            }
        }
    });
    body
}

#[tokio::test]
async fn a_server_is_asked_whether_to_go_on_and_says_so() {
    let (agent, server) = (single(), server("node").await);
    server.script(Script::new().head().say("HTTP/1.1 100 Continue\r\n\r\n").body().answer(200, "ok").again());
    let origin = origin(&agent, [&server]);
    for _ in 0..2 {
        let request = Request::post("/").header("expect", "100-continue").body(Body::from("body")).unwrap();
        assert_eq!(asked(&origin, request).await, (200, "ok".into()));
    }
    let seen = server.seen();
    assert!(seen.iter().all(|seen| seen.body == b"body" && seen.connection == 0), "{seen:?}");
}

#[tokio::test]
async fn a_request_body_that_fails_fails_the_request_and_nobody_is_blamed() {
    let (agent, server) = (single(), server("node").await);
    let origin = origin(&agent, [&server]);
    for sent in [0, 1, 5] {
        let (sender, body) = fed();
        tokio::spawn(async move {
            for _ in 0..sent {
                sender.send(Ok("piece".into())).await.unwrap();
            }
            sender.send(Err(io::Error::other("the disk is gone"))).await.unwrap();
        });
        let error = ask(&origin, post("/", body)).await.unwrap_err();
        assert_eq!(error.step(), Step::Send, "{error:?}");
        assert!(format!("{error:?}").contains("the disk is gone"), "{error:?}");
        assert_at_rest(&origin);
        assert_nobody_dead(&origin);
    }
    assert_eq!(asked(&origin, get("/")).await.0, 200);
}

#[tokio::test]
async fn many_at_once_share_few_connections_and_each_gets_its_own_answer() {
    let servers: [Server; 2] = servers().await;
    let agent = crate::agent::agent();
    let origin = origin(&agent, &servers);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..200 {
        let origin = origin.clone();
        tasks.spawn(async move {
            let text = format!("body {number}");
            assert_eq!(asked(&origin, post("/", text.clone())).await, (200, text));
        });
    }
    while let Some(done) = soon(tasks.join_next()).await {
        done.unwrap();
    }
    assert_at_rest(&origin);
    assert!(servers.iter().map(Server::connections).sum::<usize>() <= 4);
}
