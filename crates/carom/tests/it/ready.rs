//! Waiting until backends are ready.

use crate::agent::{agent, server};
use carom::agent::OriginOptions;
use carom::{Backend, Pool, ReadyError, Set, Unready};
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;
use testkit::backends::{Nobody, OnConnect, ScriptError, Scripted, Told};
use testkit::http::{Authority, Server};
use testkit::wait::ms;

const LONG: Duration = Duration::from_secs(60);

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 5432))
}

fn backend(last: u8) -> Backend {
    Backend::fixed(address(last))
}

#[tokio::test(start_paused = true)]
async fn pool_is_ready_when_as_many_backends_are_connected_as_wanted() {
    let script = Scripted::new();
    let pool = Pool::builder(script.clone()).backends((1..6).map(address)).spares(1).build().unwrap();
    pool.ready(3, LONG).await.unwrap();
    assert_eq!(script.opened_total(), 3, "more than the spares, and no more than wanted");
    pool.ready(99, LONG).await.unwrap();
    assert_eq!(script.opened_total(), 5, "capped by the backends that are known");
}

#[tokio::test(start_paused = true)]
async fn error_says_how_many_backends_were_ready_and_why_the_others_were_not() {
    let script = Scripted::new();
    script.set(address(2), OnConnect::Fail("password rejected"));
    script.set(address(3), OnConnect::Never);
    let pool = Pool::builder(script).name("orders").backends((1..4).map(address)).build().unwrap();
    let error = pool.ready(3, ms(100)).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("timed out after 100ms: 1 of 3 backends of `orders` ready; "), "{text}");
    assert!(text.contains("last connect error: 10.0.0.2:5432: password rejected"), "{text}");
    assert!(text.contains("10.0.0.3:5432 is unknown"), "{text}");
    assert_eq!(error.source().unwrap().downcast_ref::<ScriptError>(), Some(&ScriptError("password rejected")));
    let ReadyError::TimedOut { ready, wanted, unready, .. } = error else { panic!("{error}") };
    assert_eq!((ready, wanted), (1, 3));
    let mut unready: Vec<_> = unready.iter().map(|Unready { backend, .. }| backend.socket_addr()).collect();
    unready.sort();
    assert_eq!(unready, [address(2), address(3)]);
}

#[tokio::test(start_paused = true)]
async fn error_counts_the_known_backends_and_names_causes_of_a_kind_together() {
    let script = Scripted::new();
    (1..=2).for_each(|last| script.set(address(last), OnConnect::Fail("refused")));
    script.set(address(3), OnConnect::Never);
    let pool = Pool::builder(script.clone()).name("cache").backends((1..=2).map(address)).build().unwrap();
    let text = pool.ready(1, ms(500)).await.unwrap_err().to_string();
    let refused = |one, other| format!("10.0.0.{one}:5432: refused; 10.0.0.{other}:5432: refused");
    let head = "timed out after 500ms: 0 of 2 backends of `cache` ready, 1 wanted; last connect errors: ";
    let tail = text.strip_prefix(head).unwrap_or_else(|| panic!("{text}"));
    assert!(tail == refused(1, 2) || tail == refused(2, 1), "{text}");

    let set = Set::builder(script).name("lines").backends((1..=3).map(address)).build().unwrap();
    let error = set.ready(2, ms(500)).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("timed out after 500ms: 0 of 3 backends of `lines` ready, 2 wanted; "), "{text}");
    assert!(text.ends_with("; 10.0.0.3:5432 is unknown"), "{text}");
    let ReadyError::TimedOut { ready, wanted, unready, .. } = error else { panic!("{text}") };
    assert_eq!((ready, wanted, unready.len()), (0, 2, 3));
}

#[tokio::test(start_paused = true)]
async fn pool_is_not_ready_before_the_resolver_has_answered() {
    let (said, told) = Told::new([]);
    let pool = Pool::builder(Scripted::new()).resolver(told).name("orders").build().unwrap();
    let error = pool.ready(1, ms(50)).await.unwrap_err();
    assert_eq!(error.to_string(), "timed out after 50ms: no backends of `orders` are known, 1 wanted");
    let ready = pool.ready(2, LONG);
    tokio::pin!(ready);
    tokio::select! {
        biased;
        result = &mut ready => panic!("{result:?}"),
        () = tokio::task::yield_now() => {}
    }
    said.send_replace(vec![backend(1), backend(2)]);
    ready.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dropped_future_gives_up_the_connects_that_only_it_waits_for() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Never);
    let pool = Pool::builder(script.clone()).backends([address(1)]).spares(0).build().unwrap();
    let ready = pool.ready(1, LONG);
    tokio::select! {
        biased;
        result = ready => panic!("{result:?}"),
        () = script.until(|script| script.connects_started(address(1)) == 1) => {}
    }
    while pool.snapshot().pool.counts.total() > 0 {
        tokio::task::yield_now().await;
    }
    let set = Set::builder(script.clone()).backends([address(1)]).build().unwrap();
    tokio::select! {
        biased;
        result = set.ready(1, LONG) => panic!("{result:?}"),
        () = script.until(|script| script.connects_started(address(1)) == 2) => {}
    }
    assert_eq!(set.snapshot().dialling, 0);
}

#[tokio::test(start_paused = true)]
async fn closed_pool_is_an_error_of_its_own() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Never);
    let pool = Pool::builder(script.clone()).name("orders").backends([address(1)]).build().unwrap();
    let set = Set::builder(script).name("lines").backends([address(1)]).build().unwrap();
    let (pool_result, set_result, ()) = tokio::join!(pool.ready(1, LONG), set.ready(1, LONG), async {
        tokio::task::yield_now().await;
        pool.close();
        set.close();
    });
    assert!(matches!(pool_result, Err(ReadyError::Closed { .. })), "{pool_result:?}");
    assert_eq!(set_result.unwrap_err().to_string(), "`lines` is closed");
    assert!(matches!(pool.ready(1, LONG).await, Err(ReadyError::Closed { .. })));
    pool.ready(0, Duration::ZERO).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn lazy_set_connects_to_the_backends_that_are_waited_for() {
    let script = Scripted::new();
    script.set(address(3), OnConnect::Fail("refused"));
    let set = Set::builder(script.clone()).name("lines").backends((1..4).map(address)).build().unwrap();
    set.ready(2, LONG).await.unwrap();
    assert_eq!((script.open(address(1)), script.open(address(2))), (1, 1));
    let error = set.ready(3, ms(500)).await.unwrap_err();
    let expected =
        "timed out after 500ms: 2 of 3 backends of `lines` ready; last connect error: 10.0.0.3:5432: refused";
    assert_eq!(error.to_string(), expected);
    script.set(address(3), OnConnect::Succeed);
    set.ready(3, LONG).await.unwrap();
}

#[tokio::test]
async fn agent_is_ready_when_the_origin_has_working_connections() {
    let agent = agent();
    let (one, other, nobody) = (server("one").await, server("other").await, Nobody::new().unwrap());
    let nodes = [one.address(), other.address(), nobody.address()];
    agent.create_pool("http://api.test", OriginOptions::default().backends(nodes).spares(0)).unwrap();
    agent.ready("http://api.test", 2, LONG).await.unwrap();
    assert_eq!((one.accepted(), other.accepted()), (1, 1));
    let error = agent.ready("http://api.test", 3, ms(200)).await.unwrap_err();
    let ReadyError::TimedOut { ready, wanted, unready, .. } = &error else { panic!("{error}") };
    assert_eq!((*ready, *wanted, unready[0].backend.socket_addr()), (2, 3, nobody.address()));
    assert!(error.to_string().contains("refused"), "{error}");

    let error = agent.ready("no origin", 1, LONG).await.unwrap_err();
    assert!(matches!(error, ReadyError::Origin { .. }), "{error:?}");
    agent.close();
    let error = agent.ready("http://api.test", 1, LONG).await.unwrap_err();
    assert!(matches!(error, ReadyError::Closed { .. }), "{error:?}");
}

#[tokio::test]
async fn agent_finds_out_which_http_is_spoken_before_it_is_ready() {
    for protocol in ["http/1.1", "h2"] {
        let authority = Authority::new();
        let tls = || carom::tls::Tls::builder().roots_pem(authority.pem());
        let serve = || Server::start_tls("node", authority.issue(["api.test"]).serving([protocol]));
        let (one, other) = (serve().await.unwrap(), serve().await.unwrap());
        let agent = agent();
        let options = OriginOptions::default().backends([one.address(), other.address()]).spares(0).tls(tls());
        agent.create_pool("https://api.test", options).unwrap();
        agent.ready("https://api.test", 2, LONG).await.unwrap();
        assert!(one.connections() > 0 && other.connections() > 0, "{protocol}");

        let nobody = Nobody::new().unwrap();
        let options = OriginOptions::default().backends([nobody.address()]).spares(0).tls(tls());
        agent.create_pool("https://dead.test", options).unwrap();
        let error = agent.ready("https://dead.test", 1, ms(300)).await.unwrap_err();
        assert!(error.to_string().contains("refused"), "{error}");
    }
}
