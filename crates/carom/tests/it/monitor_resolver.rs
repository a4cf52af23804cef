//! Resolvers, as a monitor sees them: what DNS was asked and said, trouble, and their end.

use carom::dns::{Dns, DnsOptions, Ipv6};
use carom::monitor::{DnsKind, DnsQuestion, DnsState, Id, Object, Resolver as Seen, State};
use carom::resolver::{Fixed, Publisher, Remembered, Resolve, Resolver, ResolverState};
use carom::{Backend, Monitor, Policy};
use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;
use testkit::dns::{Answer, DnsServer, RecordType, Zone};
use testkit::wait::ms;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

/// Everything here happens soon, even on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(300);

/// Looks at all resolvers until they are as wanted.
async fn until(monitor: &Monitor, wanted: impl Fn(&[(String, Seen)]) -> bool) -> Vec<(String, Seen)> {
    let look = async {
        loop {
            let seen = resolvers(monitor);
            if wanted(&seen) {
                return seen;
            }
            sleep(ms(5)).await;
        }
    };
    match timeout(PATIENCE, look).await {
        Ok(seen) => seen,
        Err(_) => panic!("it has not come to that: {:#?}", resolvers(monitor)),
    }
}

fn resolvers(monitor: &Monitor) -> Vec<(String, Seen)> {
    let objects = monitor.snapshot().objects.into_iter();
    let resolvers = objects.filter_map(|seen| match seen.object {
        Object::Resolver(resolver) => Some((seen.name, resolver)),
        _ => None,
    });
    resolvers.collect()
}

fn of(monitor: &Monitor, id: Id) -> Option<Seen> {
    match monitor.object(id)?.object {
        Object::Resolver(resolver) => Some(resolver),
        other => panic!("{other:?}"),
    }
}

async fn server() -> (DnsServer, Zone) {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.soa("test", 0, 300);
    (server, zone)
}

fn dns(name: &str, server: SocketAddr) -> Dns {
    let policy = Policy::default().attempts(1).timeout(ms(5000)).delay(ms(10)).max_delay(ms(50)).spread(0.0);
    let options = DnsOptions::default().nameservers([server]).recovery(policy).min_ttl(ms(50)).ipv6(Ipv6::Always);
    Dns::new(name, options.hosts("/nonexistent/hosts").default_port(8080)).unwrap()
}

fn start(monitor: &Monitor, resolve: impl Resolve) -> Resolver {
    Resolver::start_in(&Handle::current(), monitor, resolve)
}

fn question(resolver: &Seen, kind: DnsKind) -> &DnsQuestion {
    let dns = resolver.dns.as_ref().expect("it asks DNS");
    dns.questions.iter().find(|question| question.kind == kind).expect("it is asked")
}

#[tokio::test]
async fn answers_are_seen_with_the_time_they_are_good_for() {
    let (server, zone) = server().await;
    zone.srv("_http._tcp.api.test", 120, [(10, 5, 80, "a.test"), (20, 0, 81, "b.test")]);
    zone.a("a.test", 60, ["10.0.0.1", "10.0.0.2"]);
    zone.aaaa("b.test", 60, ["2001:db8::1"]);
    zone.name("a.test");
    zone.name("b.test");
    zone.additionals(false);
    let monitor = Monitor::new();
    let resolver = start(&monitor, dns("_http._tcp.api.test", server.address()));
    let seen = until(&monitor, |seen| matches!(seen, [(_, resolver)] if resolver.backends.len() == 3)).await;
    assert_eq!(of(&monitor, resolver.id()).unwrap().backends, seen[0].1.backends);

    let (name, seen) = &seen[0];
    assert_eq!((&**name, seen.state, seen.stale_ms, &seen.error), ("_http._tcp.api.test", State::Running, None, &None));
    let first = &seen.backends[0];
    assert_eq!((&*first.name, &*first.address, first.port), ("a.test", "10.0.0.1", 80));
    assert_eq!((first.priority, first.weight, first.key.len()), (10, 5, 28));
    let dns = seen.dns.as_ref().unwrap();
    assert_eq!((&*dns.domain, dns.service.as_deref(), dns.default_port), ("api.test", Some("_http._tcp"), 8080));
    assert_eq!(dns.nameservers, [server.address().to_string()]);
    let asked: Vec<_> = dns.questions.iter().map(|one| (&*one.name, one.kind, one.state, one.records)).collect();
    let expected = [
        ("_http._tcp.api.test", DnsKind::Srv, DnsState::Answered, 2),
        ("a.test", DnsKind::Aaaa, DnsState::Nothing, 0),
        ("a.test", DnsKind::A, DnsState::Answered, 2),
        ("b.test", DnsKind::Aaaa, DnsState::Answered, 1),
        ("b.test", DnsKind::A, DnsState::Nothing, 0),
    ];
    assert_eq!(asked, expected);
    let next = question(seen, DnsKind::Srv).next_ms.unwrap();
    assert!((60_000..=120_000).contains(&next), "{next} of the 120 s are left");
    let c = dns.counters;
    assert_eq!((c.asked, c.answered, c.failed, c.published), (5, 5, 0, 1));

    // It counts down.
    let left = |seen: &[(String, Seen)]| question(&seen[0].1, DnsKind::Srv).next_ms.unwrap();
    until(&monitor, |seen| left(seen) < next).await;
}

#[tokio::test]
async fn trouble_is_told_in_words_and_what_was_known_grows_stale() {
    let (server, zone) = server().await;
    zone.a("api.test", 0, ["10.0.0.1"]);
    zone.aaaa("api.test", 0, ["2001:db8::1"]);
    let monitor = Monitor::new();
    let _resolver = start(&monitor, dns("api.test", server.address()));
    until(&monitor, |seen| seen[0].1.backends.len() == 2).await;

    zone.answer("api.test", RecordType::A, Answer::SERVFAIL);
    let seen = until(&monitor, |seen| seen[0].1.stale_ms.is_some_and(|stale| stale > 50)).await;
    let seen = &seen[0].1;
    assert_eq!((seen.state, seen.backends.len()), (State::Running, 2), "they stay");
    let error = seen.error.as_deref().unwrap();
    assert!(error.starts_with("cannot resolve `api.test`: A api.test: SERVFAIL from 127.0.0.1"), "{error}");
    let failed = |seen: &[(String, Seen)]| {
        let a = question(&seen[0].1, DnsKind::A);
        (a.state, a.records, a.next_ms.is_some()) == (DnsState::Failed, 1, true)
    };
    let seen = until(&monitor, failed).await;
    let (a, aaaa) = (question(&seen[0].1, DnsKind::A), question(&seen[0].1, DnsKind::Aaaa));
    assert!(a.trouble.as_deref().unwrap().contains("SERVFAIL"), "{a:?}");
    assert_eq!(aaaa.trouble, None);
    let c = seen[0].1.dns.as_ref().unwrap().counters;
    assert!(c.failed > 0 && c.answered > 2 && c.asked >= c.failed + c.answered, "{c:?}");

    zone.a("api.test", 0, ["10.0.0.2"]);
    zone.answer("api.test", RecordType::A, Answer::Records);
    until(&monitor, |seen| seen[0].1.stale_ms.is_none() && seen[0].1.error.is_none()).await;
}

#[tokio::test]
async fn one_that_never_knew_anything_has_failed() {
    let (server, _zone) = server().await;
    let monitor = Monitor::new();
    let _resolver = start(&monitor, dns("nobody.test", server.address()));
    // It is asked again and again, and now and then is just being asked.
    let nothing = |seen: &Seen| seen.state == State::Failed && question(seen, DnsKind::A).state == DnsState::Nothing;
    let seen = until(&monitor, |seen| nothing(&seen[0].1)).await;
    assert!(seen[0].1.error.as_deref().unwrap().contains("NXDOMAIN"), "{seen:?}");
}

#[tokio::test]
async fn one_that_was_stopped_is_gone() {
    let (server, zone) = server().await;
    zone.a("api.test", 60, ["10.0.0.1"]);
    let monitor = Monitor::new();
    let (one, other) = (start(&monitor, dns("api.test", server.address())), start(&monitor, Fixed::new([node(1)])));
    assert_ne!(one.id(), other.id());
    until(&monitor, |seen| seen.len() == 2 && seen.iter().all(|(_, seen)| seen.state == State::Running)).await;
    one.stop();
    one.wait_for(ResolverState::Stopped).await.unwrap();
    assert_eq!((monitor.object(one.id()), resolvers(&monitor).len()), (None, 1), "although somebody holds it");
    drop(other);
    until(&monitor, <[_]>::is_empty).await;
    assert!(!format!("{monitor:?}").contains("objects: 1"));
}

/// Says one thing and no more.
struct Silent;

impl Resolve for Silent {
    async fn run(self, _publisher: Publisher) {}
}

struct Named;

impl Resolve for Named {
    async fn run(self, publisher: Publisher) {
        publisher.name("a registry of ours");
        publisher.publish([Backend::fixed(node(1))]);
        pending().await
    }
}

fn node(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 80))
}

#[tokio::test]
async fn one_is_called_what_it_says_or_after_its_type() {
    let monitor = Monitor::new();
    let started = (
        start(&monitor, Silent),
        start(&monitor, Named),
        start(&monitor, Fixed::new([node(1)])),
        start(&monitor, Fixed::new([node(1), node(2), node(3)])),
    );
    let settled = |seen: &[(String, Seen)]| seen.iter().all(|(_, seen)| seen.state != State::Starting);
    let seen = until(&monitor, settled).await;
    let names: Vec<_> = seen.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["Silent", "a registry of ours", "10.0.0.1:80", "10.0.0.1:80 and 2 more"]);
    assert_eq!(seen[0].1.state, State::Failed);
    assert_eq!(seen[0].1.error.as_deref(), Some("the resolver ended without an answer"));
    drop(started);
}

#[tokio::test]
async fn one_that_is_wrapped_or_followed_is_seen_once() {
    let (server, zone) = server().await;
    zone.a("api.test", 60, ["10.0.0.1"]);
    let monitor = Monitor::new();
    let file = std::env::temp_dir().join(format!("carom-monitor-{}", std::process::id()));
    // A run that failed may have left one of the same name.
    let _ = std::fs::remove_file(&file);
    let remembered = start(&monitor, Remembered::new(dns("api.test", server.address()), &file));
    let following = start(&monitor, remembered.clone());
    assert_eq!(following.id(), remembered.id());
    let seen = until(&monitor, |seen| seen.iter().any(|(_, seen)| seen.state == State::Running)).await;
    assert_eq!((seen.len(), &*seen[0].0), (1, "api.test"));
    assert!(seen[0].1.dns.is_some(), "what is within is seen through what wraps it");
    let _ = std::fs::remove_file(file);

    let another = Monitor::new();
    let elsewhere = start(&another, remembered.clone());
    assert!(elsewhere.id() != remembered.id() && resolvers(&another).len() == 1, "each monitor has a name for it");
    assert_eq!(start(&another, remembered.clone()).id(), elsewhere.id());
}
