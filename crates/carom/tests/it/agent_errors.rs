//! What failed requests say: at which step, where, after how many attempts, and what the real cause was.

use crate::agent::*;
use carom::agent::{Agent, Body, Error, OriginError, OriginOptions, Step};
use carom::dns::{DnsOptions, Ipv6};
use carom::pool::Phase;
use carom::resolver::{Publisher, Resolve};
use carom::tls;
use http::Request;
use std::error::Error as StdError;
use std::io::{self, ErrorKind};
use std::task::Poll;
use std::time::Duration;
use testkit::clock::advance;
use testkit::dns::{Answer, DnsServer};
use testkit::http::{Script, Seen};

/// The causes of an error, one below the other.
fn causes(error: &Error) -> Vec<String> {
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    causes
}

/// Whether the system said this, somewhere below.
fn is_system_error(error: &Error, kind: ErrorKind) -> bool {
    let mut next = error.source();
    while let Some(cause) = next {
        if cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == kind) {
            return true;
        }
        next = cause.source();
    }
    false
}

#[tokio::test]
async fn request() {
    let (agent, server) = (crate::agent::agent(), server("node").await);
    for (uri, says) in [
        ("not a uri", "no URI"),
        ("/orders", "scheme and a host"),
        ("ftp://api.test/", "neither http nor https"),
        ("http://user:secret@api.test/", "user name"),
    ] {
        let error = soon(agent.get(uri)).await.unwrap_err();
        assert_eq!((error.step(), error.attempts()), (Step::Request, 0), "{uri}: {error:?}");
        assert!(error.to_string().contains(says), "{uri}: {error}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
    let error = agent.create_pool("http://a@api.test", OriginOptions::default()).unwrap_err();
    assert!(matches!(error, OriginError::Uri(_)), "{error:?}");
    assert_eq!(server.accepted(), 0);
}

fn asking(server: &DnsServer) -> DnsOptions {
    DnsOptions::default()
        .nameservers([server.address()])
        .recovery(policy())
        .ipv6(Ipv6::Never)
        .hosts("/nonexistent/hosts")
}

#[tokio::test]
async fn resolve() {
    let dns = DnsServer::start().await.unwrap();
    dns.zone().soa("test", 60, 60);
    let agent = builder().dns(asking(&dns)).error_on_empty(true).build().unwrap();
    let error = soon(agent.get("http://nobody.test/")).await.unwrap_err();
    assert_eq!((error.step(), error.attempts(), error.backend()), (Step::Resolve, 0, None), "{error:?}");
    assert_eq!(error.origin(), Some("http://nobody.test"));
    assert!(error.to_string().starts_with("http://nobody.test: "), "{error}");
    assert!(causes(&error).concat().contains("nobody.test"), "{:?}", causes(&error));

    dns.zone().answer_all(Answer::SERVFAIL);
    let error = soon(agent.get("http://troubled.test/")).await.unwrap_err();
    assert_eq!(error.step(), Step::Resolve, "{error:?}");

    // Without that they wait for as long as a connection may take.
    let agent = builder().dns(asking(&dns)).claim_timeout(ms(50)).build().unwrap();
    let error = soon(agent.get("http://nobody.test/")).await.unwrap_err();
    assert_eq!(error.step(), Step::Resolve, "{error:?}");
}

#[tokio::test]
async fn claim() {
    let server = server("node").await;
    let agent = builder().maximum(2).claim_timeout(ms(50)).build().unwrap();
    let origin = origin(&agent, [&server]);
    let held = [held(&origin).await, held(&origin).await];
    let error = ask(&origin, get("/")).await.unwrap_err();
    assert_eq!((error.step(), error.attempts()), (Step::Claim, 0), "{error:?}");
    assert!(error.to_string().contains("2 busy of 2"), "{error}");
    drop(held);

    let agent = builder().maximum(1).max_waiters(0).build().unwrap();
    let origin = crate::agent::origin(&agent, [&server]);
    until("one is free", || figures(&origin).counts.of(Phase::Idle) == 1).await;
    let _held = crate::agent::soon(origin.request(get("/chunked/5000000"))).await.unwrap();
    let error = ask(&origin, get("/")).await.unwrap_err();
    assert_eq!(error.step(), Step::Claim, "{error:?}");
}

/// A response whose body nobody reads, and that keeps its connection.
async fn held(origin: &carom::agent::Origin) -> http::Response<Body> {
    // There may be none yet, and the machine may be slow: this is not what is tested.
    soon(async {
        loop {
            if let Ok(response) = origin.request(get("/chunked/5000000")).await {
                break response;
            }
        }
    })
    .await
}

#[tokio::test]
async fn connect() {
    let server = server("node").await;
    server.kill().await;
    let agent = builder().outage_wait(Duration::ZERO).build().unwrap();
    let error = soon(agent.get(server.url("/"))).await.unwrap_err();
    assert_eq!((error.step(), error.attempts()), (Step::Connect, 0), "{error:?}");
    assert_eq!(error.backend().map(|backend| backend.socket_addr()), Some(server.address()));
    assert!(is_system_error(&error, ErrorKind::ConnectionRefused), "{:?}", causes(&error));
    assert!(error.to_string().contains(&server.address().to_string()), "{error}");
}

#[tokio::test]
async fn tls() {
    let server = server("node").await;
    let agent = builder().tls(tls::Tls::builder().roots_pem(some_root())).build().unwrap();
    let error = soon(agent.get(format!("https://{}/", server.address()))).await.unwrap_err();
    assert_eq!((error.step(), error.attempts()), (Step::Tls, 0), "{error:?}");
    assert_eq!(error.backend().map(|backend| backend.socket_addr()), Some(server.address()));
    assert!(!causes(&error).is_empty());
}

fn some_root() -> String {
    rcgen::generate_simple_self_signed(["root.test".to_owned()]).unwrap().cert.pem()
}

#[tokio::test]
async fn send() {
    let (agent, server) = (single(), server("node").await);
    let origin = origin(&agent, [&server]);
    let (sender, body) = fed();
    sender.try_send(Err(io::Error::other("the disk is gone"))).unwrap();
    let error = ask(&origin, post("/", body)).await.unwrap_err();
    assert_eq!((error.step(), error.attempts()), (Step::Send, 1), "{error:?}");
    assert!(causes(&error).contains(&"the disk is gone".to_owned()), "{:?}", causes(&error));
}

#[tokio::test]
async fn receive() {
    let (agent, server) = (single(), server("node").await);
    server.script(Script::new().request().say("nonsense\r\n\r\n").close());
    let origin = origin(&agent, [&server]);
    let error = ask(&origin, post("/", "")).await.unwrap_err();
    assert_eq!((error.step(), error.attempts()), (Step::Receive, 1), "{error:?}");
    assert_eq!(error.backend().map(|backend| backend.socket_addr()), Some(server.address()));
    assert_eq!(error.origin(), Some(API));
    assert!(!causes(&error).is_empty());
    assert!(error.to_string().contains(&server.address().to_string()), "{error}");
}

#[tokio::test]
async fn timeout() {
    const HOUR: Duration = Duration::from_secs(3600);
    let server = server("node").await;
    let agent = builder().timeout(ms(50)).build().unwrap();
    let origin = origin(&agent, [&server]);
    let error = ask(&origin, get("/gate")).await.unwrap_err();
    assert_eq!(error.step(), Step::Timeout, "{error:?}");
    assert!(error.to_string().contains("50ms"), "{error}");
    assert_at_rest(&origin);

    // A body that takes longer to be sent is waited for, as long as it flows.
    let (agent, slow) = (builder().timeout(HOUR).build().unwrap(), crate::agent::server("slow").await);
    slow.script(Script::new().request().answer(200, "ok"));
    let origin = crate::agent::origin(&agent, [&slow]);
    let (sender, body) = fed();
    let asking = tokio::spawn(async move { origin.request(post("/", body)).await });
    for pieces in 1..=6 {
        soon(sender.send(Ok("piece".into()))).await.unwrap();
        let length = |seen: &[Seen]| seen.first().map_or(0, |seen| seen.body.len());
        soon(slow.until(|slow| length(&slow.seen()) == 5 * pieces)).await;
        advance(HOUR / 2).await;
    }
    drop(sender);
    assert_eq!(soon(asking).await.unwrap().unwrap().status(), 200);

    // The head came in time; the body may take longer.
    slow.script(Script::new().request().say("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n").gate().say("late"));
    let agent = builder().timeout(HOUR).build().unwrap();
    let origin = crate::agent::origin(&agent, [&slow]);
    let response = soon(origin.request(get("/"))).await.unwrap();
    advance(2 * HOUR).await;
    slow.open_gate();
    assert_eq!(read(response).await.unwrap(), "late");
}

/// It waits for somebody to say who serves, which nobody does.
#[tokio::test]
async fn closed_while_nobody_is_known() {
    let agent = crate::agent::agent();
    let origin = agent.create_pool(API, OriginOptions::default().resolver(Silent)).unwrap();
    let mut waits = Box::pin(origin.request(get("/")));
    assert!(std::future::poll_fn(|cx| Poll::Ready(waits.as_mut().poll(cx))).await.is_pending());
    agent.close();
    assert_eq!(soon(waits).await.unwrap_err().step(), Step::Closed);
}

/// The time for a connection is one time, with what the resolver takes of it.
#[tokio::test(start_paused = true)]
async fn claim_timeout_is_waited_for_once() {
    let agent = builder().claim_timeout(Duration::from_secs(30)).build().unwrap();
    let origin = agent.create_pool(API, OriginOptions::default().resolver(Silent)).unwrap();
    let begun = tokio::time::Instant::now();
    let error = origin.request(get("/")).await.unwrap_err();
    assert_eq!(error.step(), Step::Resolve, "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(45), "{:?}", begun.elapsed());
}

/// Never says who serves.
struct Silent;

impl Resolve for Silent {
    async fn run(self, publisher: Publisher) {
        std::future::pending::<()>().await;
        drop(publisher);
    }
}

#[tokio::test]
async fn closed() {
    let (agent, server) = (single(), server("node").await);
    let origin = origin(&agent, [&server]);
    let waits_at_the_gate = tokio::spawn({
        let origin = origin.clone();
        async move { ask(&origin, get("/gate")).await }
    });
    soon(server.until(|server| server.at_gate() == 1)).await;
    let waits_in_line = tokio::spawn({
        let origin = origin.clone();
        async move { ask(&origin, get("/")).await }
    });
    until("one waits", || in_use(&origin) == (1, 1)).await;
    agent.close();
    let error = soon(waits_in_line).await.unwrap().unwrap_err();
    assert_eq!((error.step(), error.attempts()), (Step::Closed, 0), "{error:?}");
    for error in [ask(&origin, get("/")).await.unwrap_err(), soon(agent.get(API)).await.unwrap_err()] {
        assert_eq!(error.step(), Step::Closed, "{error:?}");
        assert!(error.to_string().contains("closed"), "{error}");
    }
    // Whoever has a connection keeps it to the end.
    server.open_gate();
    assert_eq!(soon(waits_at_the_gate).await.unwrap().unwrap().0, 200);
}

#[tokio::test]
async fn steps_have_names() {
    let names = [
        (Step::Request, "request"),
        (Step::Resolve, "resolve"),
        (Step::Claim, "claim"),
        (Step::Connect, "connect"),
        (Step::Tls, "tls"),
        (Step::Send, "send"),
        (Step::Receive, "receive"),
        (Step::Timeout, "timeout"),
        (Step::Closed, "closed"),
    ];
    for (step, name) in names {
        assert_eq!(step.to_string(), name);
    }
}

#[tokio::test]
async fn options_that_make_no_sense_are_refused_by_name() {
    let refused = [
        (Agent::builder().maximum(0), "maximum"),
        (Agent::builder().spares(5).maximum(4), "spares"),
        (Agent::builder().claim_timeout(ms(0)), "claim_timeout"),
        (Agent::builder().timeout(ms(0)), "timeout"),
        (Agent::builder().ping("healthz"), "ping"),
        (Agent::builder().ping("/healthz").ping_interval(ms(0)), "ping_interval"),
        (Agent::builder().ping("/healthz").ping_interval(Duration::MAX), "ping_interval"),
        (Agent::builder().claim_timeout(Duration::MAX), "claim_timeout"),
        (Agent::builder().max_idle(ms(0)), "max_idle"),
    ];
    for (builder, option) in refused {
        let error = builder.build().unwrap_err();
        assert!(error.to_string().contains(option), "{option}: {error}");
    }
    let agent = crate::agent::agent();
    let options = OriginOptions::default().maximum(0);
    let error = agent.create_pool(API, options).unwrap_err();
    assert!(error.to_string().contains("maximum"), "{error}");
    assert!(agent.pool(API).is_none());
}

#[tokio::test]
async fn a_request_of_any_body_is_taken() {
    let (agent, server) = (single(), server("node").await);
    let request = Request::post(server.url("/")).body(http_body_util::Full::new(bytes::Bytes::from("x"))).unwrap();
    assert_eq!(read(soon(agent.request(request)).await.unwrap()).await.unwrap(), "x");
    let request = Request::get(server.url("/")).body(String::from("y")).unwrap();
    assert_eq!(read(soon(agent.request(request)).await.unwrap()).await.unwrap(), "y");
}
