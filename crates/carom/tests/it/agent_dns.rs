//! Origins by name: who serves is what DNS says, from one answer to the next, and `Host` stays the origin's.

use crate::agent::*;
use carom::agent::{Agent, Builder, Origin, OriginOptions, Step};
use carom::dns::{DnsOptions, Ipv6};
use std::collections::BTreeSet;
use testkit::dns::{DnsServer, RecordType, Zone};
use testkit::http::Server;

const SRV: &str = "_http._tcp.api.test";

async fn dns() -> (DnsServer, Zone) {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.soa("test", 0, 0);
    zone.a("node.test", 0, ["127.0.0.1"]);
    (server, zone)
}

fn asking(dns: &DnsServer) -> Builder {
    let options = DnsOptions::default().nameservers([dns.address()]).recovery(policy()).min_ttl(ms(20));
    builder().spares(3).maximum(6).dns(options.ipv6(Ipv6::Never).hosts("/nonexistent/hosts"))
}

/// The service is at these.
fn point(zone: &Zone, servers: &[&Server]) {
    zone.srv(SRV, 0, servers.iter().map(|server| (0, 0, server.address().port(), "node.test")));
}

async fn made(agent: &Agent) -> Origin {
    agent.create_pool(API, OriginOptions::default()).unwrap()
}

/// Asks until everybody who should has answered, and nobody else does.
async fn until_served_by(origin: &Origin, wanted: &[&str]) {
    let wanted: BTreeSet<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
    soon(async {
        let mut of_late = BTreeSet::new();
        while of_late != wanted {
            of_late.clear();
            for _ in 0..wanted.len() * 20 {
                let response = origin.request(get("/")).await.unwrap_or_else(|error| panic!("{error:?}"));
                of_late.insert(node(&response).to_owned());
                read(response).await.unwrap();
            }
            tokio::time::sleep(ms(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn requests_spread_over_whom_srv_names_and_host_stays_the_origins() {
    let (dns, zone) = dns().await;
    let [one, two, three]: [Server; 3] = servers().await;
    point(&zone, &[&one, &two, &three]);
    let agent = asking(&dns).build().unwrap();
    let response = soon(agent.get("http://api.test/orders")).await.unwrap();
    assert!(served(&response).timings.resolve.is_some());
    read(response).await.unwrap();
    let origin = agent.pool(API).unwrap();
    until("there are connections to all", || [&one, &two, &three].iter().all(|server| server.connections() > 0)).await;
    // As many at once as there are connections: each node has a part in it.
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let origin = origin.clone();
        all.spawn(async move { asked(&origin, get("/gate")).await });
    }
    soon(async {
        for server in [&one, &two, &three] {
            server.until(|server| server.at_gate() > 0).await;
        }
    })
    .await;
    for server in [&one, &two, &three] {
        server.open_gate();
        assert!(server.seen().iter().all(|seen| seen.header("host") == Some("api.test")));
    }
    while let Some(done) = soon(all.join_next()).await {
        assert_eq!(done.unwrap().0, 200);
    }
    assert!(dns.count(SRV, RecordType::SRV) > 0);
    assert_eq!(origin.snapshot().backends.len(), 3);
}

#[tokio::test]
async fn changes_are_followed_and_no_request_fails() {
    let (dns, zone) = dns().await;
    let [one, two, three]: [Server; 3] = servers().await;
    point(&zone, &[&one]);
    let agent = asking(&dns).build().unwrap();
    let origin = made(&agent).await;
    until_served_by(&origin, &["node-1"]).await;
    point(&zone, &[&two]);
    until_served_by(&origin, &["node-2"]).await;
    soon(one.until(|one| one.connections() == 0)).await;
    point(&zone, &[&three]);
    until_served_by(&origin, &["node-3"]).await;
    soon(two.until(|two| two.connections() == 0)).await;
    for server in [&one, &two, &three] {
        assert!(server.seen().iter().all(|seen| seen.header("host") == Some("api.test")));
    }
    assert_at_rest(&origin);
}

#[tokio::test]
async fn without_srv_it_is_the_port_of_the_uri_at_the_addresses_of_the_name() {
    let server = server("node").await;
    let port = server.address().port();
    for (srv, questions) in [(true, true), (false, false)] {
        let (dns, zone) = dns().await;
        zone.a("api.test", 0, ["127.0.0.1"]);
        let agent = asking(&dns).srv(srv).build().unwrap();
        let response = soon(agent.get(format!("http://api.test:{port}/"))).await.unwrap();
        read(response).await.unwrap();
        assert_eq!(server.seen().pop().unwrap().header("host"), Some(&*format!("api.test:{port}")));
        assert_eq!(dns.count(SRV, RecordType::SRV) > 0, questions);
        assert!(dns.count("api.test", RecordType::A) > 0);
    }
}

#[tokio::test]
async fn https_is_another_service() {
    let (dns, zone) = dns().await;
    zone.srv("_https._tcp.api.test", 0, [(0, 0, 1, "node.test")]);
    let agent = asking(&dns).build().unwrap();
    let origin = agent.create_pool("https://api.test", OriginOptions::default()).unwrap();
    until("it is known who serves", || !origin.snapshot().backends.is_empty()).await;
    assert_eq!(origin.snapshot().backends[0].port(), 1);
    assert_eq!(dns.count(SRV, RecordType::SRV), 0);
}

#[tokio::test]
async fn a_name_that_comes_to_exist_is_found() {
    let (dns, zone) = dns().await;
    let server = server("node").await;
    let agent = asking(&dns).build().unwrap();
    let error = soon(agent.get(API)).await.unwrap_err();
    assert_eq!(error.step(), Step::Resolve, "{error:?}");
    assert!(dns.count("api.test", RecordType::A) > 0);
    point(&zone, &[&server]);
    let origin = agent.pool(API).unwrap();
    assert_eq!(asked_at_last(&origin, "/").await, (200, "hello from node".into()));
}

#[tokio::test]
async fn nameservers_are_those_it_is_given() {
    let (dns, zone) = dns().await;
    let server = server("node").await;
    zone.srv("_http._tcp.xn--nameservers.test", 0, [(0, 0, server.address().port(), "node.test")]);
    let agent = builder().nameservers([dns.address()]).build().unwrap();
    read(soon(agent.get("http://xn--nameservers.test")).await.unwrap()).await.unwrap();
    assert_eq!(server.requests(), 1);
}
