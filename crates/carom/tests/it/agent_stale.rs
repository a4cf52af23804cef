//! Servers that close connections whenever they like. No safe request fails while they live, and none that is not safe is
//! sent twice.
//!
//! `CAROM_SEED=n` reruns a failure, `CAROM_SCHEDULES=n` runs more.

use crate::agent::*;
use carom::agent::Step;
use carom::pool::Phase;
use carom_core::random::Random;
use http::Method;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::cases::cases;
use testkit::clock::advance;
use testkit::http::{Script, Server};
use tokio::runtime::Builder;

/// How a server ends a connection that has served.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Right behind the answer.
    AtOnce,
    /// A moment later.
    Idle,
    /// When the first bytes of the next request are there, unread: a reset.
    AtABite,
    /// When the next request has been read: it is not known whether it was served.
    Unanswered,
    /// As before, by a reset.
    Reset,
    /// It says that it has waited long enough, as some do, and closes.
    TimedOut,
}

/// All but the last, which is an answer of a kind.
const ENDS: [End; 5] = [End::AtOnce, End::Idle, End::AtABite, End::Unanswered, End::Reset];

/// So many requests are answered, then it ends.
fn script(served: usize, end: End, delay: Duration) -> Script {
    let script = Script::serving(served);
    match end {
        End::AtOnce => script.close(),
        End::Idle => script.wait(delay).close(),
        End::AtABite => script.byte().vanish(),
        End::Unanswered => script.request().close(),
        End::Reset => script.request().reset(),
        End::TimedOut => script
            .wait(delay)
            .say("HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            .close(),
    }
}

/// Every connection of these serves some requests and ends in any of the ways.
fn unsteady(server: &Server, seed: u64) {
    let mut random = Random::new(seed);
    server.scripts(move |_| {
        let (served, end) = (1 + random.below(4), ENDS[random.below(ENDS.len())]);
        script(served, end, Duration::from_micros(random.below(3000) as u64))
    });
}

#[tokio::test]
async fn each_way_of_closing_is_survived() {
    survived(&ENDS).await;
}

/// What crosses the request on its way is no answer to it either: such a server has not looked at it.
#[tokio::test]
async fn a_server_that_says_that_it_has_waited_long_enough_is_survived() {
    survived(&[End::TimedOut]).await;
}

async fn survived(ends: &[End]) {
    for end in ends {
        for served in 1..3 {
            let (agent, server) = (single(), server("node").await);
            let script = script(served, *end, Duration::ZERO);
            server.script(script);
            let origin = origin(&agent, [&server]);
            for _ in 0..20 {
                assert_eq!(asked(&origin, get("/")).await, (200, "ok".into()), "{end:?} after {served}");
            }
            assert_at_rest(&origin);
            assert_nobody_dead(&origin);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_safe_request_fails_whenever_servers_close() {
    for (case, _) in cases(6) {
        let seed = case.seed();
        let servers: [Server; 3] = servers().await;
        for (number, server) in servers.iter().enumerate() {
            unsteady(server, seed * 10 + number as u64);
        }
        let agent = builder().spares(3).maximum(6).build().unwrap();
        let origin = origin(&agent, &servers);
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..8 {
            let origin = origin.clone();
            tasks.spawn(async move {
                let mut random = Random::new(seed * 100 + task);
                for number in 0..60 {
                    let method = [Method::GET, Method::HEAD, Method::OPTIONS][random.below(3)].clone();
                    let path = format!("/{task}/{number}");
                    let asked = ask(&origin, request(method.clone(), &path, "")).await;
                    let (status, _) = asked.unwrap_or_else(|error| panic!("{method} {path}: {error:?}"));
                    assert_eq!(status, 200, "{method} {path}");
                    if random.chance(0.2) {
                        tokio::time::sleep(Duration::from_micros(random.below(2000) as u64)).await;
                    }
                }
            });
        }
        while let Some(done) = soon(tasks.join_next()).await {
            done.unwrap();
        }
        assert_at_rest(&origin);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_safe_is_never_sent_twice() {
    for (case, _) in cases(6) {
        let seed = case.seed();
        let servers: [Server; 2] = servers().await;
        for (number, server) in servers.iter().enumerate() {
            unsteady(server, seed * 10 + number as u64);
        }
        let agent = builder().spares(2).maximum(4).build().unwrap();
        let origin = origin(&agent, &servers);
        let (worked, failed) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..6 {
            let (origin, worked, failed) = (origin.clone(), Arc::clone(&worked), Arc::clone(&failed));
            tasks.spawn(async move {
                let mut random = Random::new(seed * 100 + task);
                for number in 0..60 {
                    let method = [Method::POST, Method::PUT, Method::DELETE, Method::PATCH][random.below(4)].clone();
                    let path = format!("/{task}/{number}");
                    let body = if random.chance(0.5) { "body" } else { "" };
                    match ask(&origin, request(method, &path, body)).await {
                        Ok((status, _)) => {
                            assert_eq!(status, 200, "{path}");
                            worked.lock().unwrap().push(path);
                        }
                        Err(error) => {
                            assert!(matches!(error.step(), Step::Receive | Step::Send), "{path}: {error:?}");
                            failed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        while let Some(done) = soon(tasks.join_next()).await {
            done.unwrap();
        }
        let mut seen = BTreeMap::new();
        for request in servers.iter().flat_map(Server::seen) {
            *seen.entry(request.target).or_insert(0) += 1;
        }
        let twice = seen.iter().filter(|(_, count)| **count > 1).collect::<Vec<_>>();
        assert!(twice.is_empty(), "seed {seed}: sent more than once: {twice:?}");
        for path in &*worked.lock().unwrap() {
            assert_eq!(seen.get(path), Some(&1), "seed {seed}: answered, but never seen");
        }
        // Whoever closes without reading lets the rest be sent elsewhere: most get through.
        assert!(failed.load(Ordering::Relaxed) < 360, "seed {seed}");
        assert_at_rest(&origin);
    }
}

/// An answer to nothing is not taken for the answer to the next request, however soon that comes.
#[cfg(target_os = "linux")]
#[test]
fn a_server_that_has_waited_long_enough_is_not_taken_at_its_word() {
    const LATE: &str = "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let elsewhere = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let here = Builder::new_current_thread().enable_all().build().unwrap();
    for method in [Method::GET, Method::POST] {
        let server = elsewhere.block_on(server("node"));
        server.script(Script::serving(1).gate().say(LATE).close());
        here.block_on(async {
            let agent = single();
            let origin = origin(&agent, [&server]);
            assert_eq!(asked(&origin, get("/1")).await, (200, "ok".into()));
            soon(server.until(|server| server.at_gate() == 1)).await;
            server.behave();
            server.open_gate();
            // Nothing here runs in the meantime, so that nobody but the next request can find out.
            while !has_heard_the_end(server.address()) {
                std::thread::yield_now();
            }
            assert_eq!(asked(&origin, request(method, "/2", "body")).await, (200, "body".into()));
            assert_nobody_dead(&origin);
        });
        let _inside = elsewhere.enter();
        drop(server);
    }
}

/// Whether the system has received the end of a connection to this address, and nobody has closed it here.
#[cfg(target_os = "linux")]
fn has_heard_the_end(address: std::net::SocketAddr) -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let (far, close_wait) = (format!(":{:04X}", address.port()), "08");
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(2);
        fields.next().is_some_and(|remote| remote.ends_with(&far)) && fields.next() == Some(close_wait)
    })
}

/// The last of three tries is on a connection that nobody has used.
#[tokio::test]
async fn two_stale_connections_are_survived_and_a_third_is_not_met() {
    let (server, agent) = (server("node").await, builder().spares(4).maximum(4).build().unwrap());
    server.close_gate();
    // Four connections that have served once and will leave the next request unanswered.
    server.scripts(|connection| match connection {
        0..4 => Script::new().request().gate().answer(200, "ok").request().close(),
        _ => Script::serving(1000),
    });
    let origin = origin(&agent, [&server]);
    let mut first = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let origin = origin.clone();
        first.spawn(async move { asked(&origin, get("/first")).await });
    }
    soon(server.until(|server| server.at_gate() == 4)).await;
    server.open_gate();
    while let Some(done) = soon(first.join_next()).await {
        assert_eq!(done.unwrap().0, 200);
    }
    let response = soon(origin.request(get("/second"))).await.unwrap();
    assert_eq!((served(&response).attempts, served(&response).reused), (3, false));
    assert_eq!(read(response).await.unwrap(), "ok");
    assert_eq!(server.seen().iter().filter(|seen| seen.target == "/second").count(), 3);
    assert_nobody_dead(&origin);

    // What is not safe is tried once where it was read.
    let error = ask(&origin, post("/third", "body")).await;
    let tries = server.seen().iter().filter(|seen| seen.target == "/third").count();
    assert!(tries == 1, "{tries} {error:?}");
}

/// It was never used, but lay idle: that it is closed as it is used for the first time is nobody's fault either.
#[tokio::test]
async fn a_spare_that_has_rested_may_be_closed_without_blame() {
    let server = server("node").await;
    server.scripts(|connection| match connection {
        0 => Script::new().request().close(),
        _ => Script::serving(1000),
    });
    let agent = builder().maximum(1).recovery(policy().attempts(1)).build().unwrap();
    let origin = origin(&agent, [&server]);
    until("the spare rests", || figures(&origin).counts.of(Phase::Idle) == 1).await;
    advance(Duration::from_secs(1)).await;
    let response = soon(origin.request(get("/"))).await.unwrap();
    assert_eq!(served(&response).attempts, 2);
    read(response).await.unwrap();
    assert_nobody_dead(&origin);
}

/// A body that can be read only once is not sent twice either, whatever the method.
#[tokio::test]
async fn a_safe_request_whose_body_was_touched_is_not_repeated() {
    let (agent, server) = (single(), server("node").await);
    server.script(Script::serving(1).request().close());
    let origin = origin(&agent, [&server]);
    assert_eq!(asked(&origin, get("/")).await.0, 200);
    let (sender, body) = fed();
    sender.try_send(Ok("piece".into())).unwrap();
    drop(sender);
    let error = ask(&origin, request(Method::GET, "/once", body)).await.unwrap_err();
    assert_eq!(error.step(), Step::Receive, "{error:?}");
    assert_eq!(server.seen().iter().filter(|seen| seen.target == "/once").count(), 1);
    assert_at_rest(&origin);
    assert_nobody_dead(&origin);
}
