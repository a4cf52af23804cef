//! Servers by what goes through their sockets.

use super::*;
use http::Version;
use std::io::ErrorKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address()).await.unwrap()
}

/// Everything that the server says until it ends.
async fn say(server: &Server, request: &str) -> String {
    let mut client = connect(server).await;
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    answer
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: api.test\r\nte: trailers\r\nconnection: close\r\n\r\n")
}

#[tokio::test]
async fn by_default_it_behaves_and_notes_what_it_saw() {
    let server = Server::start("node-1").await.unwrap();
    let answer = say(&server, &get("/orders?x=1")).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\r\nx-node: node-1\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nhello from node-1"), "{answer}");
    let answer = say(&server, "POST / HTTP/1.0\r\ncontent-length: 4\r\n\r\nbody").await;
    assert!(answer.ends_with("\r\n\r\nbody"), "{answer}");
    let seen = server.seen();
    assert_eq!(
        (seen[0].target.as_str(), seen[0].header("host"), seen[0].connection),
        ("/orders?x=1", Some("api.test"), 0)
    );
    assert_eq!((&*seen[1].body, seen[1].version, seen[1].connection), (&b"body"[..], Version::HTTP_10, 1));
    server.until(|server| server.connections() == 0).await;
    assert_eq!((server.accepted(), server.requests()), (2, 2));
}

#[tokio::test]
async fn it_answers_by_path() {
    let server = Server::start("node").await.unwrap();
    assert!(say(&server, &get("/status/503")).await.starts_with("HTTP/1.1 503 "));
    let answer = say(&server, &get("/bytes/100000")).await;
    assert!(answer.contains("content-length: 100000\r\n") && answer.ends_with(&"x".repeat(100_000)));
    let answer = say(&server, &get("/chunked/20000")).await;
    assert!(answer.contains("transfer-encoding: chunked\r\n") && answer.ends_with("\r\n0\r\n\r\n"));
    assert_eq!(answer.matches('x').count(), 20_000 + "x-node".matches('x').count());
    assert!(say(&server, &get("/trailers")).await.ends_with("4\r\nxxxx\r\n0\r\nx-sum: 4\r\n\r\n"));
    server.set_status(404);
    assert!(say(&server, &get("/")).await.starts_with("HTTP/1.1 404 "));
    let mut waiting = connect(&server).await;
    waiting.write_all(get("/gate").as_bytes()).await.unwrap();
    server.until(|server| server.at_gate() == 1).await;
    server.open_gate();
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("hello from node"), "{answer}");
}

#[tokio::test]
async fn a_script_reads_bodies_of_both_kinds_and_starts_over() {
    let server = Server::start("node").await.unwrap();
    server.script(Script::new().request().answer(200, "ok").again());
    let mut client = connect(&server).await;
    let requests = [
        "POST /1 HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc",
        "POST /2 HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nde\r\n1;x=y\r\nf\r\n0\r\nx-sum: 3\r\n\r\n",
        "GET /3 HTTP/1.1\r\n\r\n",
    ];
    client.write_all(requests.concat().as_bytes()).await.unwrap();
    server.until(|server| server.requests() == 3).await;
    let seen = server.seen().into_iter().map(|seen| (seen.target, seen.body)).collect::<Vec<_>>();
    assert_eq!(seen, [("/1".into(), b"abc".to_vec()), ("/2".into(), b"def".to_vec()), ("/3".into(), vec![])]);
    client.shutdown().await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "HTTP/1.1 200 As Told\r\nx-node: node\r\ncontent-length: 2\r\n\r\nok".repeat(3));
}

#[tokio::test]
async fn scripts_end_as_they_say() {
    let server = Server::start("node").await.unwrap();
    let once = || Script::new().byte();
    server.scripts(move |connection| match connection {
        0 => once().head().close(),
        1 => once().reset(),
        2 => once().vanish(),
        3 => Script::new().say("HTTP").finish().hold(),
        _ => Script::new().gate().say("through").echo(),
    });
    for (expected, said) in
        [(None, ""), (Some(ErrorKind::ConnectionReset), ""), (Some(ErrorKind::ConnectionReset), ""), (None, "HTTP")]
    {
        let mut client = connect(&server).await;
        client.write_all(get("/").as_bytes()).await.unwrap();
        let mut answer = String::new();
        let result = client.read_to_string(&mut answer).await;
        assert_eq!((result.err().map(|error| error.kind()), &*answer), (expected, said));
    }
    let mut client = connect(&server).await;
    server.until(|server| server.at_gate() == 1).await;
    server.open_gate();
    client.write_all(b" and back").await.unwrap();
    client.shutdown().await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "through and back");
}

#[tokio::test]
async fn connections_are_ended_by_the_test_and_the_port_stays() {
    let server = Server::start("node").await.unwrap();
    server.script(Script::new().hold());
    let mut byte = [0];
    let mut client = connect(&server).await;
    server.until(|server| server.connections() == 1).await;
    server.cut().await;
    assert_eq!(client.read(&mut byte).await.unwrap(), 0);
    let mut client = connect(&server).await;
    server.until(|server| server.connections() == 1).await;
    server.reset().await;
    assert_eq!(client.read(&mut byte).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    for _ in 0..3 {
        let mut client = connect(&server).await;
        server.kill().await;
        assert_eq!(client.read(&mut byte).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        let refused = TcpStream::connect(server.address()).await.unwrap_err();
        assert_eq!((refused.kind(), server.connections()), (ErrorKind::ConnectionRefused, 0));
        server.revive().unwrap();
    }
    server.behave();
    assert!(say(&server, &get("/")).await.ends_with("hello from node"));
}
