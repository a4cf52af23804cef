//! HTTP services: bodies as they come, clients that leave, and connections that go on to speak something else.

use crate::proxying::Proxy;
use futures_util::{SinkExt, StreamExt};
use testkit::backends::Nobody;
use testkit::http::{Script, Server};
use testkit::wait::soon;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::{Error, Message};

const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";

async fn node() -> Server {
    Server::start("node-1").await.unwrap()
}

/// Reads until these bytes have come.
async fn until(socket: &mut TcpStream, end: &str) -> String {
    let mut heard = Vec::new();
    while !heard.ends_with(end.as_bytes()) {
        let mut byte = [0];
        soon(socket.read_exact(&mut byte)).await.unwrap_or_else(|error| {
            panic!("{error} after {:?}", String::from_utf8_lossy(&heard));
        });
        heard.push(byte[0]);
    }
    String::from_utf8(heard).unwrap()
}

#[tokio::test]
async fn each_piece_goes_through_before_the_next_is_sent() {
    let node = node().await;
    let proxy = Proxy::http("http-stream", &[node.address()], "").await;
    let mut socket = proxy.connect().await;
    let head = b"POST /stream HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    socket.write_all(head).await.unwrap();
    until(&mut socket, "\r\n\r\n").await;
    for piece in ["one", "two", "six"] {
        socket.write_all(format!("3\r\n{piece}\r\n").as_bytes()).await.unwrap();
        assert_eq!(until(&mut socket, &format!("{piece}\r\n")).await, format!("3\r\n{piece}\r\n"));
    }
    socket.write_all(b"0\r\n\r\n").await.unwrap();
    assert_eq!(until(&mut socket, "0\r\n\r\n").await, "0\r\n\r\n");
    proxy.until("nothing is held", |service| service["busy"] == 0).await;
}

#[tokio::test]
async fn big_bodies_pass_whole_both_ways() {
    const LENGTH: usize = 16 << 20;
    let node = node().await;
    let proxy = Proxy::http("http-big", &[node.address()], "").await;
    let (mut reading, mut writing) = proxy.connect().await.into_split();
    let sent: Vec<u8> = (0..LENGTH).map(|at| (at >> 9) as u8).collect();
    let head = format!("POST / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nContent-Length: {LENGTH}\r\n\r\n");
    let mut answer = Vec::new();
    let write = async {
        writing.write_all(head.as_bytes()).await.unwrap();
        writing.write_all(&sent).await.unwrap();
    };
    soon(async { tokio::join!(write, reading.read_to_end(&mut answer)).1.unwrap() }).await;
    assert!(answer.ends_with(&sent), "byte for byte");
}

/// Whoever takes long to say the rest is told that the connection ends: here somebody is in time, soon.
const ATTEMPTS: usize = 10;

#[tokio::test]
async fn a_short_request_is_heard_to_its_end_though_its_answer_came_before() {
    let node = node().await;
    // It answers the head alone; the second request finds the rest of the first one gone.
    node.script(Script::new().head().answer(200, "early").body().request().answer(200, "next").again());
    let proxy = Proxy::http("http-early", &[node.address()], "spares = 1\nmaximum = 1").await;
    heard_to_the_end(&proxy, "", Some(&node), "early").await;
}

#[tokio::test]
async fn a_short_request_is_heard_to_its_end_though_its_backend_has_gone() {
    let node = node().await;
    node.script(Script::new().head().answer(200, "early").close());
    let proxy = Proxy::http("http-gone", &[node.address()], "spares = 1").await;
    heard_to_the_end(&proxy, "", Some(&node), "early").await;
}

#[tokio::test]
async fn one_that_is_refused_is_heard_to_its_end_too() {
    let node = node().await;
    let proxy = Proxy::http("http-heard", &[node.address()], "").await;
    heard_to_the_end(&proxy, "Host: b.test\r\n", None, "}\n").await;
}

/// Somebody whose answer, which ends like this, comes before it has said all says the rest, and goes on. If a node is to answer, it does
/// so first.
async fn heard_to_the_end(proxy: &Proxy, more: &str, node: Option<&Server>, end: &str) {
    for attempt in 1.. {
        let (mut socket, asked) = (proxy.connect().await, node.map(Server::requests));
        let head = format!("POST / HTTP/1.1\r\nHost: a.test\r\n{more}Content-Length: 3\r\n\r\n");
        socket.write_all(head.as_bytes()).await.unwrap();
        if let Some(node) = node {
            soon(node.until(|node| Some(node.requests()) > asked)).await;
        }
        socket.write_all(b"abc").await.unwrap();
        let answer = until(&mut socket, end).await;
        assert!(answer.starts_with(if node.is_some() { "HTTP/1.1 200 " } else { "HTTP/1.1 400 " }), "{answer}");
        if !answer.contains("connection: close") {
            socket.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").await.unwrap();
            let mut next = String::new();
            soon(socket.read_to_string(&mut next)).await.unwrap();
            assert!(next.starts_with("HTTP/1.1 200 "), "{next}");
            break;
        }
        assert!(attempt < ATTEMPTS, "{answer}");
    }
}

#[tokio::test]
async fn who_has_much_more_to_say_is_told_that_the_connection_ends_and_hears_it() {
    const LENGTH: usize = 16 << 20;
    let nobody = Nobody::new().unwrap();
    let proxy = Proxy::http(
        "http-much",
        &[nobody.address()],
        "attempts = 1\ndelay = \"10ms\"\nmax_delay = \"20ms\"\noutage_wait = 0",
    )
    .await;
    let mut socket = proxy.connect().await;
    let head = format!("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {LENGTH}\r\n\r\n");
    socket.write_all(head.as_bytes()).await.unwrap();
    // It says some of it before it listens, as many do.
    for _ in 0..8 {
        // It is not heard for ever.
        let _ = socket.write_all(&[b'x'; 8 << 10]).await;
    }
    let mut answer = Vec::new();
    let _ = soon(socket.read_to_end(&mut answer)).await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("\r\nconnection: close\r\n"), "{answer}");
    proxy.until("nobody is there", |service| service["clients"] == 0).await;
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_request_along() {
    let node = node().await;
    node.script(Script::new().request().hold());
    let proxy = Proxy::http("http-leaves", &[node.address()], "spares = 1\nmaximum = 4").await;
    let mut socket = proxy.connect().await;
    socket.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await.unwrap();
    soon(node.until(|node| node.requests() == 1)).await;
    proxy.until("it is under way", |service| service["busy"] == 1).await;
    // One that just ends its side may still want its answer; one that resets does not.
    socket.set_zero_linger().unwrap();
    drop(socket);
    proxy.until("nothing is held", |service| service["busy"] == 0 && service["clients"] == 0).await;

    // The same in the middle of an answer.
    node.script(Script::new().request().say("HTTP/1.1 200 OK\r\n\r\n").endless(vec![b'x'; 4096]));
    soon(node.cut()).await;
    let mut socket = proxy.connect().await;
    socket.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await.unwrap();
    until(&mut socket, "\r\n\r\n").await;
    drop(socket);
    proxy.until("nothing is held", |service| service["busy"] == 0 && service["clients"] == 0).await;
    assert_eq!(proxy.health().await["failed"], 0, "nobody failed");
}

#[tokio::test]
async fn a_client_that_has_ended_its_side_gets_its_answer() {
    let node = node().await;
    let proxy = Proxy::http("http-half-closed", &[node.address()], "").await;
    for request in [
        "GET /quick HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET /quick HTTP/1.0\r\n\r\n",
        "POST /quick HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nabc",
    ] {
        let mut socket = proxy.connect().await;
        socket.write_all(request.as_bytes()).await.unwrap();
        socket.shutdown().await.unwrap();
        let mut answer = String::new();
        soon(socket.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.contains(" 200 OK\r\n"), "{request}: {answer}");
    }
    // Also one that takes its time; and the connection ends with it.
    node.script(Script::new().request().gate().say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate"));
    soon(node.cut()).await;
    let mut socket = proxy.connect().await;
    socket.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await.unwrap();
    socket.shutdown().await.unwrap();
    proxy.until("it is under way", |service| service["busy"] == 1).await;
    node.open_gate();
    let mut answer = String::new();
    soon(socket.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.ends_with("late"), "{answer}");
    proxy.until("nothing is held", |service| service["busy"] == 0 && service["clients"] == 0).await;
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_taken_for_whole() {
    let node = node().await;
    let half = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
    node.script(Script::new().request().say(half).gate().close());
    let proxy = Proxy::http("http-breaks", &[node.address()], "").await;
    let mut socket = proxy.connect().await;
    socket.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await.unwrap();
    until(&mut socket, "abc\r\n").await;
    node.open_gate();
    let mut rest = Vec::new();
    // However it ends, it is not the end of an answer.
    let _ = soon(socket.read_to_end(&mut rest)).await;
    assert_eq!(String::from_utf8(rest).unwrap(), "");
    proxy.until("it is known", |service| service["failed"] == 1 && service["busy"] == 0).await;
    assert_eq!(proxy.health().await["served"], 0, "one or the other");
}

#[tokio::test]
async fn what_came_of_an_answer_that_breaks_off_at_once_is_passed_on() {
    for answer in ["Content-Length: 10\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"] {
        let node = node().await;
        node.script(Script::new().request().say(format!("HTTP/1.1 200 OK\r\n{answer}")).close());
        let proxy = Proxy::http("http-cut", &[node.address()], "").await;
        for method in ["GET", "POST"].repeat(5) {
            let request = format!("{method} / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\n\r\nx");
            let request = if method == "GET" { request.replace("Content-Length: 1\r\n\r\nx", "\r\n") } else { request };
            let (mut socket, mut heard) = (proxy.connect().await, Vec::new());
            socket.write_all(request.as_bytes()).await.unwrap();
            // That it is not whole may be told by a reset.
            let _ = soon(socket.read_to_end(&mut heard)).await;
            let heard = String::from_utf8(heard).unwrap();
            assert!(heard.starts_with("HTTP/1.1 200 "), "{method}, {answer}: {heard:?}");
            assert!(!heard.ends_with("0\r\n\r\n"), "{method}, {answer}: {heard:?}");
        }
    }
}

#[tokio::test]
async fn a_websocket_goes_through() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let Ok(mut socket) = tokio_tungstenite::accept_async(socket).await else { return };
                // As it is written: the server speaks first, then says back what it hears.
                let _ = socket.send(Message::text("welcome")).await;
                while let Some(Ok(message)) = socket.next().await {
                    if (message.is_text() || message.is_binary()) && socket.send(message).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    let proxy = Proxy::http("http-websocket", &[address], "spares = 1\nmaximum = 2").await;
    let url = format!("ws://{}/feed", proxy.address);
    let (mut socket, response) =
        soon(tokio_tungstenite::client_async(url, proxy.connect().await)).await.expect("it is upgraded");
    assert_eq!(response.status(), 101);
    assert_eq!(soon(socket.next()).await.unwrap().unwrap(), Message::text("welcome"));
    for size in [1, 100, 70_000] {
        let message = Message::binary(vec![7_u8; size]);
        socket.send(message.clone()).await.unwrap();
        assert_eq!(soon(socket.next()).await.unwrap().unwrap(), message);
    }
    proxy.until("it holds a connection", |service| service["busy"] == 1 && service["clients"] == 1).await;
    socket.close(None).await.unwrap();
    while let Some(Ok(_)) = soon(socket.next()).await {}
    drop(socket);
    proxy.until("nothing is held", |service| service["busy"] == 0 && service["clients"] == 0).await;
}

#[tokio::test]
async fn a_backend_may_decline_an_upgrade() {
    let node = node().await;
    let proxy = Proxy::http("http-declines", &[node.address()], "").await;
    let url = format!("ws://{}/status/403", proxy.address);
    let error = soon(tokio_tungstenite::client_async(url, proxy.connect().await)).await.expect_err("it is declined");
    let Error::Http(response) = error else { panic!("{error}") };
    assert_eq!(response.status(), 403);
    assert_eq!(node.seen()[0].header("upgrade"), Some("websocket"));
    proxy.until("nothing is held", |service| service["busy"] == 0).await;
}

#[tokio::test]
async fn each_side_of_an_upgraded_connection_can_end_before_the_other() {
    let switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nfirst words";
    let node = node().await;
    node.script(Script::new().head().say(switching).echo().say("last words").close());
    let proxy = Proxy::http("http-half", &[node.address()], "").await;
    let mut socket = proxy.connect().await;
    socket.write_all(UPGRADE).await.unwrap();
    let head = until(&mut socket, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("upgrade: echo\r\n"), "{head}");
    until(&mut socket, "first words").await;
    socket.write_all(b"hello").await.unwrap();
    assert_eq!(until(&mut socket, "hello").await, "hello");
    socket.shutdown().await.unwrap();
    let mut rest = String::new();
    soon(socket.read_to_string(&mut rest)).await.unwrap();
    assert_eq!(rest, "last words");
    proxy.until("nothing is held", |service| service["busy"] == 0 && service["clients"] == 0).await;
}

#[tokio::test]
async fn nobody_is_switched_who_did_not_ask() {
    let node = node().await;
    node.script(
        Script::new()
            .head()
            .say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
            .echo(),
    );
    let proxy = Proxy::http("http-unasked", &[node.address()], "").await;
    let answer = proxy.say(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    proxy.until("nothing is held", |service| service["busy"] == 0).await;
}
