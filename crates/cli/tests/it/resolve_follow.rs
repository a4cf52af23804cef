//! `carom resolve --follow`: every change is printed, trouble is told when it begins and when it is over.

use crate::admin::{ask, get};
use crate::program::Running;
use std::net::SocketAddr;
use testkit::dns::{Answer, DnsServer, RecordType};

fn follow(server: &DnsServer, args: &[&str]) -> Running {
    let address = server.address().to_string();
    Running::start(["resolve", "--follow", "--ipv6", "never", "-r", &address].iter().chain(args))
}

/// The line without its time, which is checked to be one.
#[track_caller]
fn timed(line: &str) -> &str {
    let (time, rest) = line.split_once(' ').expect(line);
    let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000Z", "{line}");
    rest
}

#[tokio::test]
async fn backends_come_and_go() {
    let server = DnsServer::start().await.unwrap();
    server.zone().a("a.ok", 1, ["1.2.3.4"]);
    let mut running = follow(&server, &["a.ok:111"]);
    assert_eq!(timed(&running.line().await), "added   1.2.3.4:111 (oTgm+LKy/rOflNkJsbMWDsgvlPc=)");
    server.zone().a("a.ok", 1, ["1.2.3.4", "1.2.3.5"]);
    assert!(timed(&running.line().await).starts_with("added   1.2.3.5:111 ("));
    server.zone().a("a.ok", 1, ["1.2.3.6"]);
    assert_eq!(timed(&running.line().await), "removed 1.2.3.4:111 (oTgm+LKy/rOflNkJsbMWDsgvlPc=)");
    assert!(timed(&running.line().await).starts_with("removed 1.2.3.5:111 ("));
    assert!(timed(&running.line().await).starts_with("added   1.2.3.6:111 ("));
    let ran = running.end("-TERM").await;
    assert_eq!((ran.code, &*ran.stdout), (Some(0), ""));
    assert!(ran.stderr.starts_with("domain: a.ok\n"), "{ran:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn it_ends_with_its_reader_even_if_nothing_changes() {
    let server = DnsServer::start().await.unwrap();
    server.zone().a("a.ok", 3600, ["1.2.3.4"]);
    let mut running = follow(&server, &["a.ok"]);
    running.line().await;
    assert_eq!(running.left().await, Some(0));
}

#[tokio::test]
async fn ipv6_addresses_stand_in_brackets() {
    let server = DnsServer::start().await.unwrap();
    server.zone().aaaa("aaaa.ok", 1, ["1234:abcd::1"]);
    let mut running = follow(&server, &["aaaa.ok:111"]);
    running.told("failed: cannot resolve `aaaa.ok:111`").await;
    assert_eq!(running.end("-INT").await.code, Some(0));

    let address = server.address().to_string();
    let mut running = Running::start(["resolve", "-f", "--ipv6=always", "-r", &address, "aaaa.ok:111"]);
    assert_eq!(timed(&running.line().await), "added   [1234:abcd::1]:111 (PqmR6xFFOMjrc3Y9DDz/X9vKNeI=)");
}

#[tokio::test]
async fn trouble_is_told_when_it_begins_and_when_it_is_over() {
    let server = DnsServer::start().await.unwrap();
    server.zone().a("db.test", 1, ["10.0.0.1"]);
    let mut running = follow(&server, &["db.test"]);
    running.line().await;
    server.zone().answer("db.test", RecordType::A, Answer::SERVFAIL);
    let told = running.told("stale").await;
    let expected = format!("stale: what was known is kept: A db.test: SERVFAIL from {}", server.address());
    assert_eq!(timed(&told), expected);
    // It is asked again and again, and said once.
    server.clear();
    server.until(|server| server.count("db.test", RecordType::A) > 6).await;
    server.zone().answer("db.test", RecordType::A, Answer::Records);
    assert_eq!(timed(&running.told("Z ").await), "recovered");
    let ran = running.end("-TERM").await;
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(0), "", ""));
}

#[tokio::test]
async fn a_name_that_fails_at_first_is_asked_again() {
    let server = DnsServer::start().await.unwrap();
    server.zone().soa("test", 1, 1);
    let mut running = follow(&server, &["db.test"]);
    let told = running.told("failed").await;
    let expected = format!("A db.test: NXDOMAIN from {}", server.address());
    assert!(timed(&told).starts_with("failed: cannot resolve `db.test`: SRV _http._tcp.db.test: "), "{told}");
    assert!(told.ends_with(&expected), "{told}");
    server.zone().a("db.test", 1, ["10.0.0.1"]);
    assert!(timed(&running.line().await).starts_with("added   10.0.0.1:80 ("));
    assert_eq!(timed(&running.told("Z ").await), "recovered");
    assert_eq!(running.end("-TERM").await.code, Some(0));
}

#[tokio::test]
async fn a_part_that_fails_is_told() {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.srv("_http._tcp.api.test", 1, [(0, 0, 80, "a.api.test"), (0, 0, 80, "b.api.test")]);
    zone.a("a.api.test", 1, ["10.0.0.1"]);
    zone.answer("b.api.test", RecordType::A, Answer::REFUSED);
    let mut running = follow(&server, &["api.test"]);
    assert!(timed(&running.line().await).starts_with("added   10.0.0.1:80 ("));
    let expected = format!("partial: some questions failed: A b.api.test: REFUSED from {}", server.address());
    assert_eq!(timed(&running.told("Z ").await), expected);
}

#[tokio::test]
async fn json_has_the_event_and_the_time() {
    let server = DnsServer::start().await.unwrap();
    server.zone().srv("_http._tcp.a.ok", 1, [(1, 9, 111, "a.ok")]);
    server.zone().a("a.ok", 1, ["1.2.3.4"]);
    let mut running = follow(&server, &["--json", "a.ok"]);
    let rest = |priority, weight| {
        format!(
            "\"name\":\"a.ok\",\"address\":\"1.2.3.4\",\"port\":111,\"key\":\"oTgm+LKy/rOflNkJsbMWDsgvlPc=\",\
             \"priority\":{priority},\"weight\":{weight},\"ttl\":1,\"source\":\"srv\"}}"
        )
    };
    let line = running.line().await;
    let line = line.strip_prefix("{\"time\":\"").expect(&line);
    let (time, line) = line.split_once("\",").unwrap();
    timed(&format!("{time} "));
    assert_eq!(line, format!("\"event\":\"added\",{}", rest(1, 9)));

    server.zone().srv("_http._tcp.a.ok", 1, [(2, 8, 111, "a.ok")]);
    let line = running.line().await;
    assert!(line.ends_with(&format!("\"event\":\"changed\",{}", rest(2, 8))), "{line}");

    server.zone().srv("_http._tcp.a.ok", 1, [(2, 8, 112, "a.ok")]);
    let line = running.line().await;
    assert!(line.ends_with(&format!("\"event\":\"removed\",{}", rest(2, 8))), "{line}");
    let line = running.line().await;
    assert!(line.contains("\"event\":\"added\"") && line.contains("\"port\":112"), "{line}");
}

#[tokio::test]
async fn a_nameserver_that_comes_back_is_found_again() {
    let mut server = DnsServer::start().await.unwrap();
    server.zone().a("db.test", 1, ["10.0.0.1"]);
    let mut running = follow(&server, &["db.test"]);
    running.line().await;
    server.stop().await;
    running.told("stale: ").await;
    server.zone().a("db.test", 1, ["10.0.0.2"]);
    server.restart().await.unwrap();
    assert!(timed(&running.line().await).starts_with("removed 10.0.0.1:80 ("));
    assert!(timed(&running.line().await).starts_with("added   10.0.0.2:80 ("));
    assert_eq!(timed(&running.told("Z ").await), "recovered");
}

#[tokio::test]
async fn kang_sees_the_resolver_meanwhile() {
    let server = DnsServer::start().await.unwrap();
    server.zone().a("a.ok", 60, ["1.2.3.4"]);
    let mut running = follow(&server, &["--kang-port", "0", "a.ok:111"]);
    let told = running.told("kang: ").await;
    let at = told.strip_prefix("kang: http://").and_then(|at| at.strip_suffix("/kang/snapshot")).expect(&told);
    let at: SocketAddr = at.parse().unwrap();
    assert!(at.ip().is_loopback(), "{at}");
    running.line().await;
    let seen = get(at, "/kang/snapshot", &[]).await.json();
    assert_eq!(seen["service"]["name"], "carom resolve");
    let resolvers = seen["dns_res"].as_object().unwrap();
    assert_eq!(resolvers.len(), 1, "{seen}");
    assert!(resolvers.values().next().unwrap().to_string().contains("1.2.3.4"), "{seen}");
    // There is nothing else, and nobody else's page may read it.
    for (path, host, status) in
        [("/", "localhost", 404), ("/api/snapshot", "localhost", 404), ("/kang/types", "x", 421)]
    {
        let answer = ask(at, &format!("GET {path} HTTP/1.1"), &[&format!("host: {host}")]).await;
        assert_eq!(answer.status, status, "{path}");
    }
    assert_eq!(running.end("-TERM").await.code, Some(0));
    let alone = crate::program::carom(["resolve", "--kang-port", "0", "a.ok"]).await;
    assert_eq!(alone.code, Some(2), "there would be nothing to see: {alone:?}");
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap();
    let ran = follow(&server, &["--kang-port", &taken.port().to_string(), "a.ok"]).ended().await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains(&format!("cannot listen on {taken} (--kang-port): ")), "{ran:?}");
    drop(held);
}
