//! What happens between two requests, and before the first, is no part of either.

use super::*;
use crate::agent::dial::{Dialled, broke_tls};
use crate::tls::Tls;
use std::pin::pin;
use testkit::http::{Authority, Script, Server};
use testkit::wait::soon;
use tokio::sync::oneshot;
use tokio::task::coop;

fn begin(dialled: Dialled, fully: u8) -> Connection {
    let mut connection = Connection::begin(dialled, &Arc::from("http://a.test"));
    connection.fully = fully;
    connection
}

async fn dial_tls(authority: &Authority, server: &Server) -> Dialled {
    let tls = Tls::builder().roots_pem(authority.pem()).server_name("localhost").build().unwrap();
    Dialer::tls(tls).dial(&Backend::fixed(server.address())).await.unwrap()
}

#[tokio::test]
async fn what_is_not_written_yet_is_not_forgotten() {
    // More than the system takes at once.
    const LONG: usize = 32 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let backend = Backend::fixed(listener.local_addr().unwrap());
    let (go, goes) = oneshot::channel();
    let server = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut heard = vec![0; 10];
        client.read_exact(&mut heard).await.unwrap();
        // It has heard enough.
        client.write_all(b"HTTP/1.1 431 Long\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
        goes.await.unwrap();
        let _ = client.read_to_end(&mut heard).await;
        heard
    });
    let mut connection = begin(Dialer::plain(Tcp::default()).dial(&backend).await.unwrap(), 0);
    let mut long = get();
    long.headers_mut().insert("x-long", "a".repeat(LONG).parse().unwrap());
    assert_eq!(told(&mut connection, long).await, b"ok");
    go.send(()).unwrap();
    let next = timeout(Duration::from_secs(30), connection.send(get())).await.map(lost);
    drop(connection);
    let heard = server.await.unwrap();
    assert_eq!(heard.windows(4).filter(|piece| piece == b"GET ").count(), 1, "one head in the midst of another");
    assert!(matches!(&next, Ok(Err(lost)) if lost.starts_with("unsent")), "{next:?}");
}

#[tokio::test]
async fn why_a_connection_had_ended_is_told_either_way() {
    for kind in ["reset", "spoke", "ended"] {
        let mut all = Vec::new();
        for fully in [0, u8::MAX] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let backend = Backend::fixed(listener.local_addr().unwrap());
            let dialled = Dialer::plain(Tcp::default()).dial(&backend).await.unwrap();
            let (mut server, _) = listener.accept().await.unwrap();
            match kind {
                "reset" => server.set_zero_linger().unwrap(),
                "spoke" => server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap(),
                _ => {}
            }
            let kept = (kind == "spoke").then_some(server);
            let mut connection = begin(dialled, fully);
            timeout(Duration::from_secs(30), connection.watch.closed()).await.expect("it is noticed");
            all.push(lost(connection.send(get()).await).map(|response| response.status()));
            drop(kept);
        }
        assert!(all[0].as_ref().is_err_and(|lost| lost.starts_with("unsent")), "{kind}: {all:?}");
        assert_eq!(all[0], all[1], "{kind}");
    }
}

#[tokio::test]
async fn what_tls_says_before_a_request_is_told_either_way() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let config = authority.issue(["localhost"]).serving_those_of(&clients, ["http/1.1"]);
    let server = Server::start_tls("node-1", config).await.unwrap();
    for fully in [0, u8::MAX] {
        // It has no certificate, which the server says after the handshake.
        let mut connection = begin(dial_tls(&authority, &server).await, fully);
        timeout(Duration::from_secs(30), connection.watch.closed()).await.expect("it is noticed");
        match connection.send(get()).await {
            Exchanged::Unsent(_, error) => assert!(broke_tls(&error), "{}", Chain(&error)),
            other => panic!("{:?}", lost(other)),
        }
    }
}

#[tokio::test]
async fn what_came_before_is_no_answer_though_the_task_has_had_its_share() {
    let authority = Authority::new();
    let server = Server::start_tls("node-1", authority.issue(["localhost"]).serving(["http/1.1"])).await.unwrap();
    server.script(Script::new().say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstale").gate());
    for fully in [0, u8::MAX] {
        for has_share in [true, false] {
            let mut attempts = 0;
            let lost = loop {
                let dialled = dial_tls(&authority, &server).await;
                // Every server has said it. That it has come cannot be told from outside: with TLS, bytes that wait may be none
                // of anybody's business.
                soon(server.until(|server| server.at_gate() == server.connections())).await;
                let mut connection = begin(dialled, fully);
                let mut sending = pin!(connection.send(get()));
                let mut is_first = true;
                let exchanged = poll_fn(|cx| {
                    while mem::take(&mut is_first) && !has_share && coop::has_budget_remaining() {
                        is_first = pin!(coop::consume_budget()).poll(cx).is_ready();
                    }
                    sending.as_mut().poll(cx)
                });
                attempts += 1;
                match timeout(Duration::from_secs(30), exchanged).await.expect("it ends") {
                    // It had not come yet.
                    Exchanged::Answered(_) if attempts < 5 => {}
                    exchanged => break lost(exchanged).map(|response| response.status()),
                }
            };
            assert!(lost.as_ref().is_err_and(|lost| lost.starts_with("unsent")), "{fully}, {has_share}: {lost:?}");
        }
    }
}

#[tokio::test]
async fn what_came_behind_a_head_heard_anew_is_all_there() {
    let behind: Vec<u8> = (0..3500_u32).map(|at| at as u8).collect();
    let head = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n".to_vec();
    for pieces in [
        vec![[head.clone(), behind.clone()].concat()],
        vec![head[..20].to_vec(), head[20..30].to_vec(), [head[30..].to_vec(), behind.clone()].concat()],
    ] {
        let (mut connection, _server) = connected(vec![Answer { pieces, closes: true }]).await;
        let response = lost(connection.send(get()).await).unwrap();
        assert_eq!(response.status(), 101);
        let (mut stream, rest) = connection.take_upgraded().await.unwrap().unwrap();
        let mut all = rest.to_vec();
        stream.read_to_end(&mut all).await.unwrap();
        assert!(all == behind, "{} of {}", all.len(), behind.len());
    }
}
