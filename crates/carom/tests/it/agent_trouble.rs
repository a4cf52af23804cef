//! Servers that answer with anything but an answer, and servers that die: what fails says so, and nothing fails that need not.

use crate::agent::*;
use crate::raw_http2::origin_of;
use carom::agent::Step;
use carom::pool::State;
use http::Method;
use std::error::Error as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::http::{Script, Server};
use tokio::task::JoinSet;

#[tokio::test]
async fn what_is_no_answer_is_an_error_and_costs_the_connection() {
    let cases = [
        ("garbage", Script::new().request().say("\x16\x03\x01 what?\r\n\r\n").close()),
        ("text", Script::new().request().say("220 mail.test ESMTP\r\n").close()),
        ("nothing", Script::new().request().close()),
        ("nothing and a reset", Script::new().request().reset()),
        ("half a status line", Script::new().request().say("HTTP/1.").close()),
        ("half a head", Script::new().request().say("HTTP/1.1 200 OK\r\ncontent-le").close()),
        ("a status that is none", Script::new().request().say("HTTP/1.1 2x0 OK\r\ncontent-length: 0\r\n\r\n").close()),
        ("a version that is none", Script::new().request().say("HTTP/9.1 200 OK\r\ncontent-length: 0\r\n\r\n").close()),
        ("a header that is none", Script::new().request().say("HTTP/1.1 200 OK\r\nno colon\r\n\r\n").close()),
        (
            "two lengths",
            Script::new().request().say("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx").hold(),
        ),
        (
            "a length that is none",
            Script::new().request().say("HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n").hold(),
        ),
        (
            "an endless head",
            Script::new().request().say("HTTP/1.1 200 OK\r\n").endless("x-more: and more and more\r\n"),
        ),
        ("an endless header", Script::new().request().say("HTTP/1.1 200 OK\r\nx-long: ").endless("more and more ")),
    ];
    for (what, script) in cases {
        for method in [Method::GET, Method::POST] {
            let (agent, server) = (single(), server("node").await);
            server.script(script.clone());
            let origin = origin(&agent, [&server]);
            let error = ask(&origin, request(method, "/", "")).await.expect_err(what);
            assert_eq!(error.step(), Step::Receive, "{what}: {error:?}");
            assert_eq!(error.backend().map(|backend| backend.socket_addr()), Some(server.address()), "{what}");
            assert!(std::error::Error::source(&error).is_some(), "{what}: {error:?}");
            assert_at_rest(&origin);
            server.behave();
            server.cut().await;
            assert_eq!(asked_at_last(&origin, "/").await.0, 200, "{what}");
        }
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_an_error_of_its_reader() {
    let cases = [
        ("a length not reached", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"),
        ("chunks without an end", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"),
        ("half a chunk", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n10\r\nhalf"),
        ("a chunk that is none", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nwhat?\r\nhalf\r\n0\r\n\r\n"),
    ];
    for (what, answer) in cases {
        for reset in [false, true] {
            let (agent, server) = (single(), server("node").await);
            let script = Script::new().request().say(answer);
            server.script(if reset { script.gate().reset() } else { script.close() });
            let origin = origin(&agent, [&server]);
            let response = soon(origin.request(get("/"))).await.unwrap();
            assert_eq!(response.status().as_u16(), 200, "{what}");
            server.open_gate();
            let error = read(response).await.expect_err(what);
            assert_eq!(error.step(), Step::Receive, "{what}: {error:?}");
            let source = error.source().expect("a cause");
            assert!(source.is::<hyper::Error>() || source.is::<std::io::Error>(), "{what}: {source:?} has a name");
            assert_at_rest(&origin);
        }
    }
}

#[tokio::test]
async fn what_comes_behind_an_answer_is_not_taken_for_the_next_one() {
    let (agent, server) = (single(), server("node").await);
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfirst";
    let unasked = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecond";
    server.script(Script::new().request().say(format!("{answer}{unasked}")).hold());
    let origin = origin(&agent, [&server]);
    for number in 0..5 {
        assert_eq!(asked(&origin, get("/")).await, (200, "first".into()));
        assert_at_rest(&origin);
        assert_eq!(server.seen()[number].connection, number);
    }
    assert_nobody_dead(&origin);
}

#[tokio::test]
async fn an_answer_before_any_request_is_not_taken_for_one() {
    let (agent, server) = (single(), server("node").await);
    server.scripts(|connection| match connection {
        0 => Script::new().say("HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nunasked").hold(),
        _ => Script::serving(100),
    });
    let origin = origin(&agent, [&server]);
    soon(server.until(|server| server.accepted() >= 2)).await;
    assert_eq!(asked(&origin, get("/")).await, (200, "ok".into()));
}

/// A lone server that breaks off an answer now and then is not dead for it.
#[tokio::test]
async fn good_answers_make_up_for_those_that_break_off() {
    let (server, good) = (server("node").await, "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood");
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf";
    server.script(Script::new().request().say(good).request().say(half).close());
    let recovery = policy().delay(ms(100)).max_delay(ms(200));
    let agent = builder().maximum(1).recovery(recovery).build().unwrap();
    let origin = origin(&agent, [&server]);
    for _ in 0..5 {
        assert_eq!(asked(&origin, get("/")).await, (200, "good".into()));
        assert_eq!(ask(&origin, get("/")).await.unwrap_err().step(), Step::Receive);
        assert_nobody_dead(&origin);
    }
}

#[tokio::test]
async fn nonsense_fails_requests_by_the_name_of_the_backend_which_is_not_dead() {
    let (agent, server) = (single(), server("node").await);
    server.script(Script::new().request().say("nonsense\r\n\r\n").close());
    let origin = origin(&agent, [&server]);
    for _ in 0..10 {
        let error = ask(&origin, get("/")).await.unwrap_err();
        assert_eq!(error.step(), Step::Receive, "{error:?}");
        assert_eq!(error.backend().map(carom::Backend::socket_addr), Some(server.address()), "{error:?}");
    }
    assert_nobody_dead(&origin);
}

#[tokio::test]
async fn servers_that_say_nothing_are_left_after_the_timeout() {
    let (agent, server) = (builder().maximum(1).timeout(ms(30)).build().unwrap(), server("node").await);
    server.script(Script::new().request().hold());
    let origin = origin(&agent, [&server]);
    for request in [get("/"), post("/", "body"), get("/")] {
        let error = ask(&origin, request).await.unwrap_err();
        assert_eq!(error.step(), Step::Timeout, "{error:?}");
        assert_at_rest(&origin);
    }
    server.behave();
    server.cut().await;
    // On a busy machine a good answer may take that long, too.
    assert_eq!(asked_at_last(&origin, "/").await.0, 200);
}

#[tokio::test]
async fn a_refused_node_is_not_the_callers_problem() {
    let servers: [Server; 3] = servers().await;
    servers[0].kill().await;
    servers[2].kill().await;
    let agent = builder().spares(3).maximum(6).build().unwrap();
    let origin = origin(&agent, &servers);
    for _ in 0..50 {
        let response = soon(origin.request(get("/"))).await.unwrap();
        assert_eq!(node(&response), "node-2");
        read(response).await.unwrap();
    }
    assert_at_rest(&origin);
}

/// Fresh connections that die without a byte are a dead node's, too.
#[tokio::test]
async fn a_node_that_accepts_and_drops_is_not_the_callers_problem_while_another_lives() {
    for drops in [
        Script::new().head().reset(),
        Script::new().reset(),
        Script::new().byte().vanish(),
        Script::new().head().close(),
    ] {
        let servers: [Server; 2] = servers().await;
        servers[0].script(drops);
        let agent = builder().spares(2).maximum(4).build().unwrap();
        let origin = origin(&agent, &servers);
        for _ in 0..30 {
            let response = soon(origin.request(get("/"))).await.unwrap_or_else(|error| panic!("{error:?}"));
            assert_eq!(node(&response), "node-2");
            read(response).await.unwrap();
        }
        assert_at_rest(&origin);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_killed_and_come_back_without_one_failed_get() {
    let servers: [Server; 3] = servers().await;
    let agent = builder().spares(6).maximum(12).build().unwrap();
    let origin = origin(&agent, &servers);
    let course = Arc::new(Course::default());
    let mut clients = JoinSet::new();
    for _ in 0..6 {
        let (origin, course) = (origin.clone(), Arc::clone(&course));
        clients.spawn(async move {
            while !course.over.load(Ordering::Relaxed) {
                match ask(&origin, get("/")).await {
                    Ok((200, text)) if text.starts_with("hello from node-") => {}
                    other => course.failed.lock().unwrap().push(format!("{other:?}")),
                }
                course.made.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    course.some_more(100).await;
    for round in 0..6 {
        let server = &servers[round % 3];
        server.kill().await;
        course.some_more(200).await;
        server.revive().unwrap();
        let before = server.requests();
        until("it serves again", || server.requests() > before).await;
    }
    course.over.store(true, Ordering::Relaxed);
    while let Some(done) = soon(clients.join_next()).await {
        done.unwrap();
    }
    let failed = course.failed.lock().unwrap().clone();
    assert!(failed.is_empty(), "{} of {:?} failed: {failed:#?}", failed.len(), course.made);
    assert_at_rest(&origin);
    assert!(servers.iter().all(|server| server.requests() > 0));
    until("all are back", || origin.state() == State::Running && figures(&origin).dead == 0).await;
}

/// What clients have come to.
#[derive(Default)]
struct Course {
    over: AtomicBool,
    made: AtomicUsize,
    failed: Mutex<Vec<String>>,
}

impl Course {
    async fn some_more(&self, count: usize) {
        let goal = self.made.load(Ordering::Relaxed) + count;
        until("requests are made", || self.made.load(Ordering::Relaxed) >= goal).await;
    }
}

#[tokio::test]
async fn all_die_and_come_back() {
    let servers: [Server; 3] = servers().await;
    let agent = builder().spares(3).maximum(6).outage_wait(Duration::ZERO).build().unwrap();
    let origin = origin(&agent, &servers);
    asked(&origin, get("/")).await;
    for server in &servers {
        server.kill().await;
    }
    until("the origin is Failed", || origin.state() == State::Failed).await;
    let error = ask(&origin, get("/")).await.unwrap_err();
    assert_eq!(error.step(), Step::Connect, "{error:?}");
    for server in &servers {
        server.revive().unwrap();
    }
    until("the origin is Running", || origin.state() == State::Running).await;
    assert_eq!(asked(&origin, get("/")).await.0, 200);
}

#[tokio::test]
async fn requests_wait_while_all_nodes_are_restarted() {
    let servers: [Server; 2] = servers().await;
    let agent = builder().build().unwrap();
    let origin = origin(&agent, &servers);
    asked(&origin, get("/")).await;
    for server in &servers {
        server.kill().await;
    }
    until("the origin is Failed", || origin.state() == State::Failed).await;
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let origin = origin.clone();
        tasks.spawn(async move { asked(&origin, get("/")).await.0 });
    }
    until("they wait", || origin.snapshot().pool.is_some_and(|pool| pool.pool.waiting == 8)).await;
    servers[1].revive().unwrap();
    while let Some(done) = soon(tasks.join_next()).await {
        assert_eq!(done.unwrap(), 200);
    }
}

#[tokio::test]
async fn requests_over_http2_wait_while_all_nodes_are_restarted() {
    let servers: [Server; 2] = servers().await;
    let origin = origin_of(builder(), servers.each_ref().map(Server::address));
    asked(&origin, get("/")).await;
    for server in &servers {
        server.kill().await;
    }
    until("the origin is Failed", || origin.state() == State::Failed).await;
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let origin = origin.clone();
        tasks.spawn(async move { asked(&origin, get("/")).await.0 });
    }
    until("they wait", || origin.snapshot().set.is_some_and(|set| set.waiting == 8)).await;
    servers[1].revive().unwrap();
    while let Some(done) = soon(tasks.join_next()).await {
        assert_eq!(done.unwrap(), 200);
    }
}

#[tokio::test]
async fn a_slow_answer_is_waited_for_and_holds_nobody_else_up() {
    let servers: [Server; 2] = servers().await;
    servers[0].set_delay(Duration::from_millis(300));
    let agent = builder().spares(2).maximum(8).build().unwrap();
    let origin = origin(&agent, &servers);
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let origin = origin.clone();
        tasks.spawn(async move { asked(&origin, get("/")).await.0 });
    }
    while let Some(done) = soon(tasks.join_next()).await {
        assert_eq!(done.unwrap(), 200);
    }
    assert_at_rest(&origin);
}
