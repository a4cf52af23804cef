//! Pings: idle connections are asked for a path, and those that do not answer well are replaced before anybody needs them.

use crate::agent::*;
use carom::agent::Agent;
use testkit::http::{Script, Server};

fn pinging() -> Agent {
    builder().maximum(1).ping("/healthz?deep").ping_interval(ms(20)).check_timeout(ms(5000)).build().unwrap()
}

#[tokio::test]
async fn idle_connections_are_asked_again_and_again_and_stay() {
    let (agent, server) = (pinging(), server("node").await);
    let origin = origin(&agent, [&server]);
    soon(server.until(|server| server.requests() >= 5)).await;
    let seen = server.seen();
    for ping in &seen {
        assert_eq!(
            (ping.method.as_str(), &*ping.target, ping.header("host")),
            ("GET", "/healthz?deep", Some("api.test"))
        );
        assert_eq!(ping.connection, 0);
    }
    assert_eq!(asked(&origin, get("/orders")).await, (200, "hello from node".into()));
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn any_answer_below_500_is_health() {
    for status in [200, 204, 301, 404, 429, 499] {
        let (agent, server) = (pinging(), server("node").await);
        server.set_status(status);
        let origin = origin(&agent, [&server]);
        soon(server.until(|server| server.requests() >= 3)).await;
        assert_eq!(server.accepted(), 1, "{status}");
        assert_nobody_dead(&origin);
    }
}

#[tokio::test]
async fn long_answers_to_pings_are_read_to_their_end() {
    let (agent, server) = (pinging(), server("node").await);
    let body = "x".repeat(100_000);
    server.script(Script::new().request().answer(200, body).again());
    let origin = origin(&agent, [&server]);
    soon(server.until(|server| server.requests() >= 3)).await;
    assert_eq!((server.accepted(), asked(&origin, get("/")).await.1.len()), (1, 100_000));
}

#[tokio::test]
async fn connections_that_answer_badly_are_replaced() {
    let bad = [
        ("a server error", Script::new().request().answer(500, "no").again()),
        ("another", Script::new().request().answer(599, "no").again()),
        ("nothing", Script::new().request().close()),
        ("a reset", Script::new().request().reset()),
        ("garbage", Script::new().request().say("what?\r\n\r\n").hold()),
        ("half an answer", Script::new().request().say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").close()),
    ];
    for (what, script) in bad {
        let (agent, server) = (pinging(), server("node").await);
        server.scripts(move |connection| match connection {
            0 => script.clone(),
            _ => Script::serving(10_000),
        });
        let origin = origin(&agent, [&server]);
        soon(server.until(|server| server.accepted() >= 2)).await;
        assert_eq!(asked(&origin, get("/orders")).await, (200, "ok".into()), "{what}");
        let seen = server.seen();
        assert!(seen.iter().filter(|seen| seen.connection == 0).all(|seen| seen.target == "/healthz?deep"), "{what}");
    }
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_none() {
    let server = server("node").await;
    let agent = builder().maximum(1).ping("/healthz").ping_interval(ms(20)).check_timeout(ms(50)).build().unwrap();
    server.scripts(|connection| match connection {
        0 => Script::new().request().hold(),
        _ => Script::serving(10_000),
    });
    let origin = origin(&agent, [&server]);
    soon(server.until(|server| server.accepted() >= 2)).await;
    // On a busy machine a good answer may take that long, too.
    assert_eq!(asked(&origin, get("/orders")).await.0, 200);
}

#[tokio::test]
async fn without_being_told_nothing_is_asked() {
    let (agent, server) = (single(), server("node").await);
    let origin = origin(&agent, [&server]);
    asked(&origin, get("/")).await;
    soon(server.until(|server| server.accepted() == 1)).await;
    tokio::task::yield_now().await;
    asked(&origin, get("/")).await;
    assert_eq!(server.seen().iter().map(|seen| &*seen.target).collect::<Vec<_>>(), ["/", "/"]);
}

/// Requests go on while connections are pinged, and each gets its own answer.
#[tokio::test]
async fn pings_and_requests_do_not_mix() {
    let servers: [Server; 2] = servers().await;
    let agent = builder().spares(2).maximum(4).ping("/healthz").ping_interval(ms(2)).build().unwrap();
    let origin = origin(&agent, &servers);
    for number in 0..100 {
        let text = format!("number {number}");
        assert_eq!(asked(&origin, post("/", text.clone())).await, (200, text));
        if number % 10 == 0 {
            let pings = |server: &Server| server.seen().iter().filter(|seen| seen.target == "/healthz").count();
            let before: usize = servers.iter().map(pings).sum();
            until("somebody is pinged", || servers.iter().map(pings).sum::<usize>() > before).await;
        }
    }
    assert_eq!(in_use(&origin), (0, 0));
}
