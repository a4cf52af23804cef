//! Nodes that answer, and answer badly: left out for a while where that was asked for, without costing connections.

use crate::agent::*;
use carom::Ejection;
use carom::agent::{Agent, Origin};
use carom::pool::BackendState;
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::http::{Script, Server};

/// For so long that nobody comes back during a test.
const LONG: Duration = Duration::from_secs(3600);

fn ejecting(time: Duration) -> Agent {
    builder().spares(3).maximum(6).ejection(Ejection::default().consecutive(3).time(time)).build().unwrap()
}

fn ejected(origin: &Origin) -> Vec<u16> {
    let backends = figures(origin).backends.into_iter();
    backends.filter(|found| found.ejected_until.is_some()).map(|found| found.backend.port()).collect()
}

/// Whose answers these are.
async fn answers(origin: &Origin, count: usize) -> BTreeMap<String, usize> {
    let mut answers = BTreeMap::new();
    for _ in 0..count {
        let response = soon(origin.request(get("/"))).await.unwrap();
        *answers.entry(node(&response).to_owned()).or_default() += 1;
        read(response).await.unwrap();
    }
    answers
}

async fn until_ejected(origin: &Origin, server: &Server) {
    soon(async {
        while ejected(origin) != [server.address().port()] {
            many(origin).await;
        }
    })
    .await;
}

/// So many requests at once that every node has a part in them.
async fn many(origin: &Origin) {
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..12 {
        let origin = origin.clone();
        all.spawn(async move { drop(ask(&origin, get("/")).await) });
    }
    all.join_all().await;
}

#[tokio::test]
async fn a_node_that_answers_with_server_errors_is_left_out() {
    let servers: [Server; 3] = servers().await;
    servers[1].set_status(503);
    let agent = ejecting(LONG);
    let origin = origin(&agent, &servers);
    until_ejected(&origin, &servers[1]).await;
    let before = servers[1].requests();
    let answers = answers(&origin, 60).await;
    assert_eq!(answers.get("node-2"), None, "{answers:?}");
    assert_eq!(servers[1].requests(), before);
    assert_nobody_dead(&origin);
    assert_at_rest(&origin);
}

#[tokio::test]
async fn a_server_error_does_not_cost_the_connection() {
    let server = server("node").await;
    server.set_status(500);
    let agent = builder().maximum(1).ejection(Ejection::default().consecutive(3).time(LONG)).build().unwrap();
    let origin = origin(&agent, [&server]);
    for _ in 0..20 {
        assert_eq!(asked(&origin, get("/")).await.0, 500);
        assert_eq!(asked(&origin, get("/status/503")).await.0, 503);
    }
    // The only one is ejected, and used all the same.
    assert_eq!((server.accepted(), ejected(&origin)), (1, vec![server.address().port()]));
    assert_nobody_dead(&origin);
}

#[tokio::test]
async fn answers_below_500_are_no_reason() {
    let servers: [Server; 3] = servers().await;
    for server in &servers {
        server.set_status(404);
    }
    let agent = ejecting(LONG);
    let origin = origin(&agent, &servers);
    answers(&origin, 100).await;
    assert!(ejected(&origin).is_empty());
}

#[tokio::test]
async fn errors_that_do_not_come_in_a_row_are_no_reason() {
    let server = [server("node").await, crate::agent::server("other").await];
    server[0].script(
        Script::new()
            .times(2, &Script::new().request().answer(500, ""))
            .times(1, &Script::new().request().answer(200, ""))
            .again(),
    );
    let agent = builder().spares(2).maximum(2).ejection(Ejection::default().consecutive(3).time(LONG)).build().unwrap();
    let origin = origin(&agent, &server);
    answers(&origin, 200).await;
    assert!(ejected(&origin).is_empty());
}

#[tokio::test]
async fn backend_that_answers_503_is_ejected_with_default_options() {
    let servers: [Server; 3] = servers().await;
    servers[1].set_status(503);
    let agent = builder().spares(3).maximum(6).build().unwrap();
    let origin = origin(&agent, &servers);
    until_ejected(&origin, &servers[1]).await;
}

#[tokio::test]
async fn nothing_is_ejected_without_ejection() {
    let servers: [Server; 3] = servers().await;
    servers[0].set_status(503);
    let agent = builder().spares(3).maximum(6).ejection(None).build().unwrap();
    let origin = origin(&agent, &servers);
    answers(&origin, 100).await;
    assert!(ejected(&origin).is_empty());
}

#[tokio::test]
async fn server_errors_other_than_502_503_and_504_are_neutral() {
    // Between two failures in a row, neither a failure nor a success.
    let failure = || Script::new().request().answer(502, "");
    let neutral = || Script::new().request().answer(500, "");
    let server = [server("node").await, crate::agent::server("other").await];
    server[0].script(Script::new().times(3, &neutral()).times(1, &failure()).again());
    let ejection = Ejection::default().consecutive(3).time(LONG);
    let agent = builder().spares(2).maximum(2).ejection(ejection).build().unwrap();
    let origin = origin(&agent, &server);
    until_ejected(&origin, &server[0]).await;

    let server = [crate::agent::server("node").await, crate::agent::server("other").await];
    server[0].set_status(500);
    let agent = ejecting(LONG);
    let origin = crate::agent::origin(&agent, &server);
    answers(&origin, 100).await;
    assert!(ejected(&origin).is_empty());
}

#[tokio::test]
async fn response_503_with_retry_after_is_no_failure() {
    const LATER: &str = "HTTP/1.1 503 Busy\r\nx-node: node-2\r\nretry-after: 1\r\ncontent-length: 4\r\n\r\nbusy";
    let servers: [Server; 3] = servers().await;
    servers[1].script(Script::new().request().say(LATER).again());
    let agent = ejecting(LONG);
    let origin = origin(&agent, &servers);
    answers(&origin, 100).await;
    assert!(ejected(&origin).is_empty());
}

/// Its connections are not kept, or nobody reads what it says: it answered badly all the same.
#[tokio::test]
async fn server_errors_count_whatever_becomes_of_the_connection() {
    const CLOSES: &str = "HTTP/1.1 503 Busy\r\nconnection: close\r\ncontent-length: 4\r\n\r\nbusy";
    const OLD: &str = "HTTP/1.0 503 Busy\r\n\r\nbusy";
    for (answer, reads) in [(CLOSES, true), (OLD, true), (CLOSES, false)] {
        let servers: [Server; 3] = servers().await;
        servers[1].script(Script::new().request().say(answer).close());
        let agent = ejecting(LONG);
        let origin = origin(&agent, &servers);
        let ask = async || {
            let response = origin.request(get("/")).await.unwrap();
            if reads {
                read(response).await.unwrap();
            }
        };
        soon(async {
            while ejected(&origin) != [servers[1].address().port()] {
                // As many as there are connections: one that has failed is asked by those alone who have no choice.
                tokio::join!(ask(), ask(), ask(), ask(), ask(), ask());
            }
        })
        .await;
        assert_nobody_dead(&origin);
    }
}

#[tokio::test]
async fn good_answers_count_though_connections_are_not_kept() {
    const GOOD: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\ngood";
    const BAD: &str = "HTTP/1.1 500 Error\r\nconnection: close\r\ncontent-length: 3\r\n\r\nbad";
    let servers: [Server; 2] = servers().await;
    servers[0].scripts(|connection| Script::new().request().say(if connection % 2 == 0 { BAD } else { GOOD }).close());
    let ejection = Ejection::default().consecutive(3).time(LONG);
    let agent = builder().spares(1).maximum(2).ejection(ejection).build().unwrap();
    let origin = origin(&agent, &servers);
    soon(async {
        while servers[0].requests() < 20 {
            many(&origin).await;
            assert!(ejected(&origin).is_empty());
        }
    })
    .await;
}

#[tokio::test]
async fn a_node_that_never_answers_is_left_out() {
    let servers: [Server; 3] = servers().await;
    servers[0].script(Script::new().request().hold());
    let ejection = Ejection::default().consecutive(3).time(LONG);
    let agent = builder().spares(3).maximum(6).ejection(ejection).timeout(ms(300)).build().unwrap();
    let origin = origin(&agent, &servers);
    until_ejected(&origin, &servers[0]).await;
    let before = servers[0].requests();
    answers(&origin, 30).await;
    assert_eq!(servers[0].requests(), before);
    assert_nobody_dead(&origin);
}

/// Each connection serves a few requests before one is reset.
#[tokio::test]
async fn node_that_resets_requests_on_connections_that_served_is_ejected() {
    let servers: [Server; 3] = servers().await;
    let served = Script::new().request().answer(200, "");
    servers[0].script(Script::new().times(1, &served).times(1, &Script::new().request().reset()));
    let ejection = Ejection::default().consecutive(1).time(LONG);
    let agent = builder().spares(3).maximum(6).ejection(ejection).build().unwrap();
    let origin = origin(&agent, &servers);
    until_ejected(&origin, &servers[0]).await;
    assert_nobody_dead(&origin);
}

#[tokio::test]
async fn node_that_closes_connections_in_an_orderly_way_after_use_is_not_ejected() {
    let servers: [Server; 3] = servers().await;
    servers[0].script(Script::new().request().answer(200, "").close());
    let ejection = Ejection::default().consecutive(1).time(LONG);
    let agent = builder().spares(3).maximum(6).ejection(ejection).build().unwrap();
    let origin = origin(&agent, &servers);
    answers(&origin, 100).await;
    assert!(ejected(&origin).is_empty());
}

#[tokio::test]
async fn a_node_that_breaks_its_answers_off_is_left_out_too() {
    let servers: [Server; 3] = servers().await;
    servers[2].script(Script::new().request().say("HTTP/1.1 nonsense\r\n\r\n").close());
    let agent = ejecting(LONG);
    let origin = origin(&agent, &servers);
    until_ejected(&origin, &servers[2]).await;
    assert_at_rest(&origin);
}

#[tokio::test]
async fn it_is_used_again_when_its_time_is_over() {
    let servers: [Server; 2] = servers().await;
    servers[0].set_status(503);
    let agent = ejecting(ms(100));
    let origin = origin(&agent, &servers);
    until_ejected(&origin, &servers[0]).await;
    servers[0].set_status(200);
    let before = servers[0].requests();
    soon(async {
        while servers[0].requests() == before {
            many(&origin).await;
        }
    })
    .await;
    until("nobody is left out", || ejected(&origin).is_empty()).await;
    let states = figures(&origin).backends.iter().map(|found| found.state).collect::<Vec<_>>();
    assert!(!states.contains(&BackendState::Dead), "{states:?}");
}
