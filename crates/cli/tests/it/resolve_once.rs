//! `carom resolve`, once: what is printed, in every format.

use crate::program::{carom, resolve};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use testkit::dns::{Answer, DnsServer, RecordType};

#[tokio::test]
async fn fixed_addresses_are_printed_as_given() {
    let ran = carom(["resolve", "-S", "127.0.0.1:2020"]).await;
    assert_eq!(ran.stdout, "127.0.0.1         2020 xBut/f1D52k1TpDN/miW82qXw6k=\n");
    assert_eq!((ran.code, &*ran.stderr), (Some(0), "using static IP resolver\n"));

    let ran = carom(["resolve", "--static", "10.0.0.2:65535", "10.0.0.1", "[1234:abcd::1]:111", "10.0.0.1:80"]).await;
    let addresses: Vec<_> = ran.stdout.lines().map(|line| line.rsplit_once(' ').unwrap().0).collect();
    assert_eq!(addresses, ["10.0.0.2         65535", "10.0.0.1            80", "1234:abcd::1       111"]);
    assert!(ran.stdout.ends_with(" aKcPr4Au1v+Bd21UjRMzph7SLXs=\n"), "{ran:?}");
}

#[tokio::test]
async fn the_port_of_fixed_addresses_without_one_can_be_given() {
    let ran = carom(["resolve", "-p", "81", "-S", "127.0.0.1", "127.0.0.1:80"]).await;
    assert_eq!(
        ran.stdout,
        "127.0.0.1           81 5YXJkSUtN1pQ5GfRFjfNH7PyKdg=\n127.0.0.1           80 /X6QST5n5GWD9FDBmwEUQZKcT+Y=\n"
    );
}

#[tokio::test]
async fn addresses_of_https_have_its_port() {
    for (args, port) in [
        (&["-s", "_https._tcp", "10.0.0.1"][..], 443),
        (&["-s", "_HTTPS._tcp", "-S", "10.0.0.1"], 443),
        (&["-s", "_https._tcp", "-p", "81", "10.0.0.1"], 81),
        (&["-s", "_https._tcp", "10.0.0.1:82"], 82),
        (&["-s", "_http._tcp", "-S", "10.0.0.1"], 80),
        (&["10.0.0.1"], 80),
    ] {
        let ran = carom(["resolve"].iter().chain(args)).await;
        assert!(ran.stdout.starts_with(&format!("10.0.0.1         {port:5} ")), "{args:?}: {ran:?}");
    }
}

#[tokio::test]
async fn an_address_for_a_name_is_not_looked_up() {
    let ran = carom(["resolve", "1.2.3.4:5", "-s", "_x._tcp", "-t", "5s"]).await;
    assert_eq!(ran.stdout, "1.2.3.4              5 0mK7Us1n3P98REq6bW0IeqocUFs=\n");
    assert_eq!(
        ran.stderr,
        "using static IP resolver\nnote: nothing is looked up, and --service, --timeout left unused\n"
    );
}

#[tokio::test]
async fn services_come_by_priority_name_port_and_address() {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    let services = [(1, 9, 8081, "b.api.test"), (0, 10, 8080, "c.api.test"), (0, 20, 8079, "c.api.test")];
    zone.srv("_http._tcp.api.test", 30, services);
    zone.a("b.api.test", 60, ["10.0.0.1"]);
    zone.a("c.api.test", 60, ["10.0.0.3", "10.0.0.2"]);
    let ran = resolve(&server, &["api.test"]).await;
    let places: Vec<_> = ran.stdout.lines().map(|line| line.rsplit_once(' ').unwrap().0).collect();
    assert_eq!(
        places,
        [
            "10.0.0.2          8079",
            "10.0.0.3          8079",
            "10.0.0.2          8080",
            "10.0.0.3          8080",
            "10.0.0.1          8081"
        ]
    );
    assert!(ran.stdout.lines().all(|line| line.len() == 16 + 1 + 5 + 1 + 28), "{}", ran.stdout);
    let expected = format!("domain: api.test\ntimeout: 5000 milliseconds\nresolvers: {}\n", server.address());
    assert_eq!((ran.code, ran.stderr), (Some(0), expected));
}

#[tokio::test]
async fn a_name_without_services_has_its_addresses_and_the_default_port() {
    let server = DnsServer::start().await.unwrap();
    server.zone().a("1.moray.emy-10.joyent.us", 60, ["172.27.10.218"]);
    let ran = resolve(&server, &["1.moray.emy-10.joyent.us"]).await;
    assert_eq!(ran.stdout, "172.27.10.218       80 lLbminikNKjfy+iwDobYBuod7Hs=\n");
    assert_eq!(server.count("_http._tcp.1.moray.emy-10.joyent.us", RecordType::SRV), 1);

    for (args, port) in [
        (&["1.moray.emy-10.joyent.us:8080"][..], " 8080 "),
        (&["-p", "81", "1.moray.emy-10.joyent.us"], "   81 "),
        (&["-p", "81", "1.moray.emy-10.joyent.us:8080"], " 8080 "),
        (&["-s", "_https._tcp", "1.moray.emy-10.joyent.us"], "  443 "),
        (&["_https._tcp.1.moray.emy-10.joyent.us"], "  443 "),
    ] {
        let ran = resolve(&server, args).await;
        assert!(ran.stdout.contains(port), "{args:?}: {ran:?}");
    }
}

#[tokio::test]
async fn what_is_looked_up_is_said() {
    let server = DnsServer::start().await.unwrap();
    server.zone().a("db.test", 60, ["10.0.0.1"]);
    let ran = resolve(&server, &["-t", "1m", "-s", "_pg._tcp", "-r", "127.0.0.99", "DB.test.:5432"]).await;
    let expected = format!(
        "domain: db.test\ntimeout: 60000 milliseconds\nservice: _pg._tcp\nport: 5432\nresolvers: {}, 127.0.0.99\n",
        server.address()
    );
    assert_eq!((ran.code, ran.stderr), (Some(0), expected));
    server.wait_for_question("_pg._tcp.db.test", RecordType::SRV).await;

    let ran = resolve(&server, &["_pg._tcp.db.test", "-t", "5000"]).await;
    assert!(ran.stderr.starts_with("domain: db.test\ntimeout: 5000 milliseconds\nservice: _pg._tcp\n"), "{ran:?}");
    let ran = carom(["resolve", "-r", "127.0.0.1:1", "-t", "1", "db.test"]).await;
    assert!(ran.stderr.starts_with("domain: db.test\ntimeout: 1 millisecond\n"), "{ran:?}");
}

#[tokio::test]
async fn ipv6_addresses_are_asked_for_when_wanted() {
    let server = DnsServer::start().await.unwrap();
    server.zone().aaaa("aaaa.ok", 60, ["1234:abcd::1", "2001:db8:0:1:1:1:1:1"]);
    server.zone().a("aaaa.ok", 60, ["10.0.0.1"]);
    let ran = resolve(&server, &["--ipv6", "always", "aaaa.ok:111"]).await;
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(lines[0], "1234:abcd::1       111 PqmR6xFFOMjrc3Y9DDz/X9vKNeI=");
    assert!(lines[1].starts_with("2001:db8:0:1:1:1:1:1   111 "), "{lines:?}");
    assert!(lines[2].starts_with("10.0.0.1           111 "), "{lines:?}");

    server.clear();
    let ran = resolve(&server, &["--ipv6", "never", "aaaa.ok:111"]).await;
    assert_eq!(ran.stdout.lines().count(), 1, "{ran:?}");
    assert_eq!(server.count("aaaa.ok", RecordType::AAAA), 0);
}

#[tokio::test]
async fn json_says_everything() {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.srv("_http._tcp.a.ok", 30, [(1, 9, 111, "a.ok")]);
    zone.a("a.ok", 60, ["1.2.3.4"]);
    let ran = resolve(&server, &["--json", "a.ok"]).await;
    assert_eq!(
        ran.stdout,
        "{\"name\":\"a.ok\",\"address\":\"1.2.3.4\",\"port\":111,\"key\":\"oTgm+LKy/rOflNkJsbMWDsgvlPc=\",\
         \"priority\":1,\"weight\":9,\"ttl\":60,\"source\":\"srv\"}\n"
    );

    zone.additionals(true);
    let ran = resolve(&server, &["--json", "a.ok"]).await;
    assert!(ran.stdout.ends_with("\"ttl\":30,\"source\":\"additional\"}\n"), "{ran:?}");

    let ran = resolve(&server, &["--json", "-s", "_x._tcp", "a.ok:111"]).await;
    assert_eq!(
        ran.stdout,
        "{\"name\":\"a.ok\",\"address\":\"1.2.3.4\",\"port\":111,\"key\":\"oTgm+LKy/rOflNkJsbMWDsgvlPc=\",\
         \"priority\":0,\"weight\":0,\"ttl\":60,\"source\":\"domain\"}\n"
    );

    let ran = carom(["resolve", "--json", "-S", "1.2.3.4:5"]).await;
    assert_eq!(
        ran.stdout,
        "{\"name\":\"1.2.3.4:5\",\"address\":\"1.2.3.4\",\"port\":5,\"key\":\"0mK7Us1n3P98REq6bW0IeqocUFs=\",\
         \"priority\":0,\"weight\":0,\"ttl\":null,\"source\":\"static\"}\n"
    );
}

#[tokio::test]
async fn what_is_known_is_printed_with_a_warning_when_some_questions_fail() {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.srv("_http._tcp.api.test", 30, [(0, 0, 80, "a.api.test"), (0, 0, 80, "b.api.test")]);
    zone.a("a.api.test", 60, ["10.0.0.1"]);
    zone.answer("b.api.test", RecordType::ANY, Answer::SERVFAIL);
    let ran = resolve(&server, &["--ipv6", "never", "api.test"]).await;
    assert!(ran.stdout.starts_with("10.0.0.1            80 ") && ran.stdout.lines().count() == 1, "{ran:?}");
    let expected = format!("warning: some questions failed: A b.api.test: SERVFAIL from {}", server.address());
    assert_eq!((ran.code, ran.stderr.lines().last()), (Some(0), Some(&*expected)));
    assert_eq!(server.count("b.api.test", RecordType::A), 1, "one attempt");
}

#[tokio::test]
async fn slow_answers_are_waited_for_within_the_timeout() {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.srv("_http._tcp.api.test", 30, [(0, 0, 80, "a.api.test"), (0, 0, 80, "b.api.test")]);
    zone.a("a.api.test", 60, ["10.0.0.1"]);
    zone.a("b.api.test", 60, ["10.0.0.2"]);
    zone.answer("_http._tcp.api.test", RecordType::SRV, Answer::Records.after(Duration::from_millis(400)));
    zone.answer("b.api.test", RecordType::A, Answer::Records.after(Duration::from_millis(800)));
    let ran = resolve(&server, &["-t", "30s", "api.test"]).await;
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 2), "{ran:?}");

    zone.answer("b.api.test", RecordType::A, Answer::Silent);
    let ran = resolve(&server, &["-t", "600", "--ipv6", "never", "api.test"]).await;
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 1), "{ran:?}");
    assert!(ran.stderr.contains("A b.api.test: no answer from "), "{ran:?}");
}

#[tokio::test]
async fn nameservers_are_asked_in_turn() {
    let (dead, server) = (unused().await, DnsServer::start().await.unwrap());
    server.zone().a("db.test", 60, ["10.0.0.1"]);
    let both = format!("{dead},,{}", server.address());
    let ran = carom(["resolve", "-r", &both, "db.test"]).await;
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 1), "{ran:?}");
    assert!(ran.stderr.ends_with(&format!("resolvers: {dead}, {}\n", server.address())), "{ran:?}");
}

#[tokio::test]
async fn nameservers_known_by_name_are_found_through_the_system() {
    let (system, found) = (DnsServer::start().await.unwrap(), DnsServer::start().await.unwrap());
    system.zone().srv("_dns._udp.binder.test", 60, [(0, 0, found.address().port(), "ns.binder.test")]);
    system.zone().a("ns.binder.test", 60, ["127.0.0.1"]);
    found.zone().a("db.test", 60, ["10.0.0.1"]);
    let (resolv_conf, port) = (file("dynamic", "nameserver 127.0.0.1\n"), system.address().port().to_string());
    let args = ["resolve", "--resolv-conf", resolv_conf.to_str().unwrap(), "--nameserver-port", &port, "-r"];

    let ran = carom(args.iter().chain(&["binder.test", "db.test"])).await;
    assert_eq!((ran.code, &ran.stdout[..23]), (Some(0), "10.0.0.1            80 "), "{ran:?}");
    assert!(ran.stderr.ends_with("resolvers: binder.test\n"), "{ran:?}");

    let ran = carom(args.iter().chain(&["other.test", "db.test"])).await;
    let expected = format!(
        "error: cannot resolve `db.test`: the nameservers at `other.test` cannot be found: \
         cannot resolve `_dns._udp.other.test`: SRV _dns._udp.other.test: NXDOMAIN from {}",
        system.address()
    );
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""));
    assert!(ran.stderr.contains(&expected), "{ran:?}");
}

#[tokio::test]
async fn the_systems_nameservers_search_list_and_hosts_are_used() {
    let system = DnsServer::start().await.unwrap();
    system.zone().a("db.inside.test", 60, ["10.0.0.1"]);
    let resolv_conf = file("search", "nameserver 127.0.0.1\nsearch inside.test\n");
    let (hosts, port) = (file("hosts", "10.9.9.9 kept.test\n"), system.address().port().to_string());
    let args = ["resolve", "--resolv-conf", resolv_conf.to_str().unwrap(), "--nameserver-port", &port];
    let args: Vec<_> = args.into_iter().chain(["--hosts", hosts.to_str().unwrap()]).collect();
    let ran = carom(args.iter().chain(&["db"])).await;
    assert_eq!((ran.code, &ran.stdout[..23]), (Some(0), "10.0.0.1            80 "), "{ran:?}");
    let ran = carom(args.iter().chain(&["kept.test"])).await;
    assert_eq!((ran.code, &ran.stdout[..23]), (Some(0), "10.9.9.9            80 "), "{ran:?}");
}

#[tokio::test]
async fn warnings_of_the_library_are_seen() {
    let args = ["resolve", "--resolv-conf", "/nonexistent/resolv.conf", "--nameserver-port", "1", "db.test"];
    let ran = carom(args).await;
    assert!(ran.stderr.contains(" WARN ") && ran.stderr.contains("/nonexistent/resolv.conf"), "{ran:?}");
    let mut quiet = crate::program::command(args);
    quiet.env("CAROM_LOG", "off").stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let ran = crate::program::run(&mut quiet).await;
    assert!(!ran.stderr.contains("WARN"), "{ran:?}");
    assert!(ran.stderr.contains("error: cannot resolve `db.test`: SRV _http._tcp.db.test: 127.0.0.1:1: "), "{ran:?}");
}

/// A port of loopback that nobody answers on: a server's that is gone.
async fn unused() -> SocketAddr {
    let mut server = DnsServer::start().await.unwrap();
    server.stop().await;
    server.address()
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}
