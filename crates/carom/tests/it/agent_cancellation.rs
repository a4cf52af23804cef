//! The cancellation grid: whatever the server does, a caller may give up at any await, of the request or of the body, and
//! afterwards every count is exact, nobody is blamed for it, and the next request works.

use crate::agent::*;
use bytes::Bytes;
use carom::agent::{Body, Origin};
use http::Request;
use http_body_util::BodyExt;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use testkit::http::{Script, Server};
use tokio::time::timeout;

/// How long nothing may happen before a caller gives up all the same.
const PATIENCE: Duration = Duration::from_millis(4);

/// This, unless it has not come about after having been polled so often, or nothing happens any more.
async fn polled<T>(times: usize, wanted: impl Future<Output = T>) -> Option<T> {
    let mut wanted = pin!(wanted);
    let mut polls = 0;
    let wanted = poll_fn(|cx| {
        if polls == times {
            return Poll::Ready(None);
        }
        polls += 1;
        match wanted.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if polls == times => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    timeout(PATIENCE, wanted).await.ok().flatten()
}

/// When a caller gives up: after so many polls of the request, and then after so many of each piece of the body.
#[derive(Clone, Copy, Debug)]
struct GiveUp {
    request: usize,
    pieces: usize,
    piece: usize,
}

async fn caller(origin: &Origin, request: Request<Body>, give_up: GiveUp) {
    let Some(Ok(mut response)) = polled(give_up.request, origin.request(request)).await else { return };
    for _ in 0..give_up.pieces {
        match polled(give_up.piece, response.body_mut().frame()).await {
            Some(Some(Ok(_))) => {}
            Some(Some(Err(_)) | None) | None => return,
        }
    }
}

/// What a server does, and whether it does it well: then nobody may be blamed.
struct Conduct {
    what: &'static str,
    script: Option<Script>,
    request: fn() -> Request<Body>,
    good: bool,
}

fn conducts() -> Vec<Conduct> {
    let good = |what, request| Conduct { what, script: None, request, good: true };
    let scripted = |what, script, good| Conduct { what, script: Some(script), request: || get("/"), good };
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n";
    vec![
        good("a short answer", || get("/")),
        good("none", || get("/status/204")),
        good("a long answer", || get("/bytes/300000")),
        good("a long answer in chunks", || get("/chunked/300000")),
        good("an answer that does not come", || get("/gate")),
        good("an upload", || post("/", vec![b'u'; 300_000])),
        good("an upload that is echoed as it comes", || post("/stream", vec![b'u'; 300_000])),
        good("an upload that goes on and on", || post("/stream", dripping())),
        scripted(
            "half a head",
            Script::new().request().say("HTTP/1.1 200 OK\r\nconte").gate().answer(200, "").again(),
            false,
        ),
        scripted("half a body", Script::new().request().say(head).say("half").gate().say("half").again(), true),
        scripted("half of the chunks", Script::new().request().say(chunked).gate().say("0\r\n\r\n").again(), true),
        scripted("the last answer", Script::new().request().say("HTTP/1.0 200 OK\r\n\r\nhello").close(), true),
        scripted("one answer too many", Script::new().request().say(head).say("ok, ok, HTTP/1.1 200").hold(), true),
        scripted("a closed door", Script::new().request().close(), false),
        scripted("a reset", Script::new().head().reset(), false),
        scripted("a reset at once", Script::new().reset(), false),
        scripted("garbage", Script::new().head().say("what?\r\n\r\n").hold(), false),
        scripted("silence", Script::new().hold(), true),
        scripted("used once", Script::serving(1).request().close(), true),
    ]
}

/// A body whose pieces come with pauses, until nobody takes them.
fn dripping() -> Body {
    let (sender, body) = fed();
    tokio::spawn(async move {
        while sender.send(Ok(Bytes::from_static(b"drip"))).await.is_ok() {
            tokio::task::yield_now().await;
        }
    });
    body
}

async fn row(conduct: Conduct) {
    let Conduct { what, script, request, good } = conduct;
    let server = server("node").await;
    if let Some(script) = script {
        server.script(script);
    }
    let agent = builder().maximum(2).build().unwrap();
    let origin = origin(&agent, [&server]);
    for at_request in [0, 1, 2, 3, 4, 6, 9, 1000] {
        for (pieces, piece) in [(0, 0), (1, 0), (1, 1), (2, 2), (1000, 1000)] {
            let give_up = GiveUp { request: at_request, pieces, piece };
            let other = GiveUp { request: at_request + 1, ..give_up };
            tokio::join!(
                caller(&origin, request(), give_up),
                caller(&origin, request(), other),
                caller(&origin, request(), give_up),
            );
            // An upload that went on behind an answer has a task of its own, which hears of it.
            if good && what.starts_with("an upload") {
                until("all have come back", || in_use(&origin) == (0, 0)).await;
            }
            assert_eq!(in_use(&origin), (0, 0), "{what}, {give_up:?}: {:#?}", origin.snapshot());
            let figures = figures(&origin);
            assert!(figures.counts.total() <= 2, "{what}, {give_up:?}: {figures:#?}");
            assert!(!good || figures.dead == 0, "{what}, {give_up:?}: {figures:#?}");
            if at_request == 0 {
                break;
            }
        }
    }
    recovers(what, &server, &origin).await;
}

/// With its faults gone the server serves, on no more connections than there may be.
async fn recovers(what: &str, server: &Server, origin: &Origin) {
    server.behave();
    server.open_gate();
    server.cut().await;
    assert_eq!(asked_at_last(origin, "/").await, (200, "hello from node".into()), "{what}");
    until("the rest is closed", || server.connections() <= 2).await;
    until(what, || figures(origin).counts.total() == server.connections()).await;
    assert_at_rest(origin);
}

#[tokio::test]
async fn a_caller_gives_up_at_any_await_and_nothing_is_left_behind() {
    for conduct in conducts() {
        row(conduct).await;
    }
}

/// As before, while nobody can be connected to.
#[tokio::test]
async fn a_caller_gives_up_while_nobody_is_there() {
    let server = server("node").await;
    server.kill().await;
    let agent = builder().maximum(2).build().unwrap();
    let origin = origin(&agent, [&server]);
    for polls in 0..6 {
        let give_up = GiveUp { request: polls, pieces: 0, piece: 0 };
        tokio::join!(caller(&origin, get("/"), give_up), caller(&origin, post("/", "x"), give_up));
        assert_at_rest(&origin);
    }
    server.revive().unwrap();
    recovers("nobody there", &server, &origin).await;
}

/// A caller in line gives up, and those behind it move up.
#[tokio::test]
async fn a_caller_in_line_gives_up_and_the_others_are_served() {
    let (agent, server) = (single(), server("node").await);
    let origin = origin(&agent, [&server]);
    let spawn = |path: &'static str| {
        let origin = origin.clone();
        tokio::spawn(async move { asked(&origin, get(path)).await })
    };
    let first = spawn("/gate");
    soon(server.until(|server| server.at_gate() == 1)).await;
    let impatient = spawn("/impatient");
    until("one waits", || in_use(&origin) == (1, 1)).await;
    let patient = spawn("/patient");
    until("both wait", || in_use(&origin) == (1, 2)).await;
    impatient.abort();
    assert!(soon(impatient).await.unwrap_err().is_cancelled());
    assert_eq!(in_use(&origin), (1, 1));
    server.open_gate();
    assert_eq!(soon(first).await.unwrap().0, 200);
    assert_eq!(soon(patient).await.unwrap().0, 200);
    assert_eq!(server.seen().iter().map(|seen| &*seen.target).collect::<Vec<_>>(), ["/gate", "/patient"]);
    assert_eq!(server.accepted(), 1);
}

/// A caller who gave up is not found answered by the next one: the connection has gone with it.
#[tokio::test]
async fn an_answer_nobody_waited_for_is_not_given_to_the_next() {
    let (agent, server) = (single(), server("node").await);
    server.scripts(|connection| match connection {
        0 => Script::new().request().gate().answer(200, "for the first").again(),
        _ => Script::new().request().answer(200, "for the second").again(),
    });
    let origin = origin(&agent, [&server]);
    let first = tokio::spawn({
        let origin = origin.clone();
        async move { ask(&origin, get("/first")).await }
    });
    soon(server.until(|server| server.at_gate() == 1)).await;
    first.abort();
    assert!(soon(first).await.unwrap_err().is_cancelled());
    assert_at_rest(&origin);
    server.open_gate();
    assert_eq!(asked(&origin, get("/second")).await, (200, "for the second".into()));
    assert_nobody_dead(&origin);
}
