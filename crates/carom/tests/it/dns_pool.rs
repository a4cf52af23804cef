//! A pool for a service by its name, while DNS changes, fails and comes back.

use carom::Cause;
use carom::dns::{Dns, DnsError, DnsOptions, Ipv6};
use carom::pool::State;
use carom::tcp::Tcp;
use carom::{BuildError, Claim, ClaimError, Policy, Pool};
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;
use testkit::backends::EchoServer;
use testkit::dns::{Answer, DnsServer, RecordType, Zone};
use testkit::wait::{ms, soon};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const SRV: &str = "_echo._tcp.api.test";

fn policy() -> Policy {
    Policy::default().attempts(2).timeout(ms(300)).max_timeout(ms(300)).delay(ms(10)).max_delay(ms(100))
}

fn dns(service: &str, server: &DnsServer) -> Dns {
    let options = DnsOptions::default().nameservers([server.address()]).recovery(policy()).min_ttl(ms(50));
    Dns::new(service, options.ipv6(Ipv6::Never).hosts("/nonexistent/hosts")).unwrap()
}

fn pool(service: &str, server: &DnsServer) -> Pool<Tcp> {
    let pool = Pool::builder(Tcp::default()).resolver(dns(service, server)).name("echo");
    pool.spares(2).maximum(4).build().unwrap()
}

async fn server() -> (DnsServer, Zone) {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.soa("test", 0, 0);
    (server, zone)
}

/// The service is at these, by one target each.
fn point(zone: &Zone, servers: &[&EchoServer]) {
    zone.srv(SRV, 0, servers.iter().map(|server| (0, 0, server.addr().port(), "node.api.test")));
    zone.a("node.api.test", 0, ["127.0.0.1"]);
}

/// A claim that is used: what is sent comes back. Who it was.
async fn talk(pool: &Pool<Tcp>) -> SocketAddr {
    let mut claim: Claim<Tcp> = pool.claim().await.unwrap_or_else(|error| panic!("{error}"));
    claim.write_all(b"hello\n").await.unwrap();
    let mut reply = [0; 6];
    claim.read_exact(&mut reply).await.unwrap();
    claim.backend().socket_addr()
}

#[tokio::test]
async fn names_that_make_no_sense_are_refused_when_building() {
    for (bad, problem) in [
        ("a..b", "a label is empty"),
        ("", "the name is missing"),
        ("api.test:70000", "the port 70000 is above 65535"),
        ("api test", "' ' cannot be part of a name"),
        ("_http._tcp", "there is a service, but no domain"),
        ("300.1.1.1", "looks like an IPv4 address"),
    ] {
        let error = Pool::builder(Tcp::default()).service(bad).build().unwrap_err();
        assert!(matches!(error, BuildError::Service(_)));
        assert!(error.to_string().starts_with(&format!("service `{bad}`: ")), "{error}");
        assert!(error.to_string().contains(problem), "{error}");
    }
    let long = format!("{}.test", vec!["a".repeat(60); 4].join("."));
    let options = DnsOptions::default().srv("_http._tcp");
    assert!(Dns::new(&long, DnsOptions::default()).is_ok());
    let error = Dns::new(&long, options).unwrap_err().to_string();
    assert!(error.ends_with("with its service it has 259 characters, a name at most 253"), "{error}");
    let error = Dns::new("127.0.0.1", DnsOptions::default()).unwrap_err().to_string();
    assert!(error.starts_with("`127.0.0.1`: is an address"), "{error}");
    for (options, option) in [
        (DnsOptions::default().concurrency(0), "concurrency"),
        (DnsOptions::default().min_ttl(Duration::ZERO), "min_ttl"),
        (DnsOptions::default().max_ttl(ms(1)), "max_ttl"),
        (DnsOptions::default().recovery(Policy::default().attempts(0)), "recovery"),
        (DnsOptions::default().srv("http"), "`http`"),
    ] {
        let error = Dns::new("api.test", options).unwrap_err().to_string();
        assert!(error.contains(option), "{error}");
    }
}

#[tokio::test]
async fn an_address_is_a_service_too() {
    let echo = EchoServer::start().await.unwrap();
    let pool = Pool::builder(Tcp::default()).service(echo.addr().to_string()).build().unwrap();
    assert_eq!(soon(talk(&pool)).await, echo.addr());
    assert_eq!(pool.name(), echo.addr().to_string());
}

/// Sends back whatever comes, at an address of its own.
async fn echo_at(address: SocketAddr) {
    let listener = TcpListener::bind(address).await.unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
            });
        }
    });
}

#[tokio::test]
async fn a_name_with_a_new_address_moves_a_running_pool_and_no_claim_fails() {
    let (server, zone) = server().await;
    let mut old = EchoServer::start().await.unwrap();
    let new = SocketAddr::from(([127, 0, 0, 2], old.addr().port()));
    echo_at(new).await;
    zone.a("api.test", 1, ["127.0.0.1"]);
    let pool = pool(&format!("api.test:{}", old.addr().port()), &server);
    assert_eq!(soon(talk(&pool)).await, old.addr());
    zone.a("api.test", 1, ["127.0.0.2"]);
    let moved = async { while talk(&pool).await != new {} };
    soon(moved).await;
    // The connections to the old one are let go, and it is not missed.
    soon(old.until(|old| old.connections() == 0)).await;
    old.stop().await;
    for _ in 0..50 {
        assert_eq!(soon(talk(&pool)).await, new);
    }
}

#[tokio::test]
async fn trouble_with_dns_is_no_trouble_for_claims() {
    let (mut server, zone) = server().await;
    let (one, two) = (EchoServer::start().await.unwrap(), EchoServer::start().await.unwrap());
    point(&zone, &[&one]);
    let pool = pool(SRV, &server);
    assert_eq!(soon(talk(&pool)).await, one.addr());
    for answer in [Answer::SERVFAIL, Answer::NXDOMAIN, Answer::NoData, Answer::REFUSED, Answer::Silent, Answer::WrongId]
    {
        // NXDOMAIN of the service leads to the addresses of the domain, of which there are none.
        zone.answer_all(answer);
        server.clear();
        // Claims go on for as long as it takes the resolver to ask a few times more.
        let asked = server.until(|server| server.questions().len() >= 6);
        let claims = async {
            loop {
                assert_eq!(talk(&pool).await, one.addr());
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = soon(asked) => {}
            () = claims => {}
        }
        assert_eq!((pool.state(), pool.snapshot().pool.backends.len()), (State::Running, 1));
    }
    server.stop().await;
    assert_eq!(soon(talk(&pool)).await, one.addr());
    point(&zone, &[&two]);
    zone.answer_all(Answer::Records);
    server.restart().await.unwrap();
    soon(async { while talk(&pool).await != two.addr() {} }).await;
}

#[tokio::test]
async fn the_backends_of_a_service_have_ports_and_priorities() {
    let (server, zone) = server().await;
    let (one, two) = (EchoServer::start().await.unwrap(), EchoServer::start().await.unwrap());
    zone.srv(SRV, 0, [(10, 0, one.addr().port(), "a.api.test"), (20, 5, two.addr().port(), "b.api.test")]);
    zone.a("a.api.test", 0, ["127.0.0.1"]);
    zone.a("b.api.test", 0, ["127.0.0.1"]);
    let pool = pool(SRV, &server);
    assert!([one.addr(), two.addr()].contains(&soon(talk(&pool)).await));
    let claim = pool.claim().await.unwrap();
    let (backend, expected) = (claim.backend(), if claim.backend().port() == one.addr().port() { 10 } else { 20 });
    assert_eq!(backend.priority(), expected);
    assert!(["a.api.test", "b.api.test"].contains(&backend.name()));
    assert_eq!(pool.snapshot().pool.backends.len(), 2);
}

#[tokio::test]
async fn a_pool_whose_name_cannot_be_resolved_has_failed_and_says_why_until_it_can() {
    let (server, zone) = server().await;
    let echo = EchoServer::start().await.unwrap();
    zone.answer_all(Answer::SERVFAIL);
    let pool = pool(&format!("api.test:{}", echo.addr().port()), &server);
    let error = soon(pool.claim()).await.unwrap_err();
    assert!(matches!(error, ClaimError::Failed { known: 0, .. }), "{error}");
    let expected = format!(
        "; no backends are known; last resolver error: cannot resolve `api.test`: A api.test: SERVFAIL from {}",
        server.address()
    );
    let text = error.to_string();
    assert!(text.starts_with("`echo` has failed: ") && text.ends_with(&expected), "{text}");
    let source = error.source().unwrap().downcast_ref::<DnsError>().unwrap();
    assert_eq!(source.causes()[0].reasons()[0].server(), Some(server.address()));
    assert_eq!(pool.state(), State::Failed);
    zone.a("api.test", 0, ["127.0.0.1"]);
    zone.answer_all(Answer::Records);
    soon(pool.states().wait_for(|state| *state == State::Running)).await.unwrap();
    assert_eq!(soon(talk(&pool)).await, echo.addr());
    assert!(!matches!(pool.snapshot().cause, Some(Cause::Resolve { .. })));
}

#[tokio::test]
async fn a_pool_that_is_closed_asks_no_more() {
    let (server, zone) = server().await;
    let echo = EchoServer::start().await.unwrap();
    point(&zone, &[&echo]);
    let pool = pool(SRV, &server);
    soon(talk(&pool)).await;
    pool.close();
    soon(pool.states().wait_for(|state| *state == State::Stopped)).await.unwrap();
    // Another that is still asked as often shows that time has passed.
    zone.a("clock.test", 0, ["10.0.0.9"]);
    let _clock = carom::resolver::Resolver::start(dns("clock.test", &server)).unwrap();
    soon(server.until(|server| server.count("clock.test", RecordType::A) >= 2)).await;
    let before = server.count(SRV, RecordType::SRV);
    soon(server.until(|server| server.count("clock.test", RecordType::A) >= 6)).await;
    assert_eq!(server.count(SRV, RecordType::SRV), before);
}
