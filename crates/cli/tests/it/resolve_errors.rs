//! `carom resolve`, when it cannot: what is said, what it exits with, and nothing on stdout.

use crate::program::{carom, command, resolve, run};
use std::process::Stdio;
use testkit::dns::{Answer, DnsServer, RecordType};

#[tokio::test]
async fn a_name_that_does_not_exist() {
    let server = DnsServer::start().await.unwrap();
    for follow_up in [&["nowhere.test"][..], &["--json", "nowhere.test"]] {
        let ran = resolve(&server, follow_up).await;
        let at = server.address();
        assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
        assert!(ran.stderr.contains("error: cannot resolve `nowhere.test`: "), "{ran:?}");
        assert!(ran.stderr.contains(&format!("SRV _http._tcp.nowhere.test: NXDOMAIN from {at}")), "{ran:?}");
        assert!(ran.stderr.contains(&format!("A nowhere.test: NXDOMAIN from {at}")), "{ran:?}");
    }
}

#[tokio::test]
async fn a_name_without_records() {
    let server = DnsServer::start().await.unwrap();
    server.zone().name("empty.test");
    let ran = resolve(&server, &["empty.test:99"]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.contains("error: cannot resolve `empty.test:99`: "), "{ran:?}");
    assert!(ran.stderr.contains(&format!("A empty.test: no A records from {}", server.address())), "{ran:?}");
}

#[tokio::test]
async fn a_nameserver_that_refuses_fails_or_is_silent() {
    let server = DnsServer::start().await.unwrap();
    let at = server.address();
    for (answer, text) in [
        (Answer::REFUSED, format!("A db.test: REFUSED from {at}")),
        (Answer::SERVFAIL, format!("A db.test: SERVFAIL from {at}")),
        (Answer::Silent, format!("A db.test: no answer from {at} within ")),
        (Answer::CutShort, format!("A db.test: unreadable answer from {at}: ")),
    ] {
        server.zone().answer_all(answer);
        server.clear();
        let ran = resolve(&server, &["-t", "200ms", "db.test"]).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
        assert!(ran.stderr.contains("error: cannot resolve `db.test`: SRV _http._tcp.db.test: "), "{ran:?}");
        assert!(ran.stderr.contains(&text), "{text}: {ran:?}");
        assert_eq!(server.count("db.test", RecordType::A), 1, "one attempt");
    }
}

#[tokio::test]
async fn control_characters_of_a_malformed_label_are_escaped() {
    let server = DnsServer::start().await.unwrap();
    // Decoded from Punycode this is `ESC ]0;pwned` and an umlaut.
    let label = b"xn--\x1b]0;pwned-y9a";
    server.zone().a("db.test", 60, ["10.0.0.1"]);
    server.zone().answer("db.test", RecordType::A, Answer::with_edns_name(label));
    let ran = resolve(&server, &["-t", "200ms", "db.test"]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.contains("unreadable answer"), "{ran:?}");
    assert!(ran.stderr.chars().all(|c| c == '\n' || !c.is_control()), "{ran:?}");

    // The same while some questions are answered, and in the log.
    server.zone().srv("_http._tcp.db.test", 60, [(0, 10, 80, "db.test"), (0, 10, 80, "up.test")]);
    server.zone().a("up.test", 60, ["10.0.0.2"]);
    let at = server.address().to_string();
    let mut logged = command(["resolve", "-r", &at, "-t", "200ms", "db.test"]);
    let ran = run(logged.env("CAROM_LOG", "trace").stdout(Stdio::piped()).stderr(Stdio::piped())).await;
    assert!(ran.stdout.starts_with("10.0.0.2 ") && ran.stderr.contains("warning: some questions failed"), "{ran:?}");
    assert!(ran.stderr.chars().all(|c| c == '\n' || !c.is_control()), "{ran:?}");
}

#[tokio::test]
async fn control_characters_in_the_target_of_a_service_are_escaped() {
    let server = DnsServer::start().await.unwrap();
    for label in [&b"\x1b]0;pwned\x07"[..], b"xn--\x1b]0;pwned-y9a"] {
        server.zone().srv("_http._tcp.db.test", 60, [(0, 10, 80, "up.test")]);
        server.zone().a("up.test", 60, ["10.0.0.2"]);
        server.zone().answer("_http._tcp.db.test", RecordType::SRV, Answer::with_srv_target(label));
        for args in [&["-t", "200ms", "db.test"][..], &["-t", "200ms", "--json", "db.test"]] {
            let ran = resolve(&server, args).await;
            let shown = format!("{}{}", ran.stdout, ran.stderr);
            assert!(shown.contains("]0;pwned"), "{ran:?}");
            assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{ran:?}");
        }
    }
}

#[tokio::test]
async fn a_nameserver_that_is_not_there() {
    let mut server = DnsServer::start().await.unwrap();
    server.stop().await;
    let ran = resolve(&server, &["db.test"]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.contains(&format!("A db.test: {}: ", server.address())), "{ran:?}");
}

#[tokio::test]
async fn a_name_that_the_hosts_file_has_without_such_an_address() {
    let server = DnsServer::start().await.unwrap();
    let hosts = format!("{}/hosts-of-errors-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    std::fs::write(&hosts, "::7 six.test\n").unwrap();
    let ran = resolve(&server, &["--hosts", &hosts, "--ipv6", "never", "six.test"]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.ends_with(&format!("A six.test: no A address in {hosts}\n")), "{ran:?}");
}

#[tokio::test]
async fn a_service_that_is_not_offered() {
    let server = DnsServer::start().await.unwrap();
    server.zone().srv("_http._tcp.api.test", 60, [(0, 0, 0, ".")]);
    server.zone().a("api.test", 60, ["10.0.0.1"]);
    let ran = resolve(&server, &["api.test"]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    let expected = format!("SRV _http._tcp.api.test: not offered, as {} says", server.address());
    assert!(ran.stderr.contains(&expected), "{ran:?}");
}

#[tokio::test]
async fn command_lines_that_make_no_sense() {
    let (name, label) = ("a".repeat(300), format!("{}.test", "a".repeat(64)));
    for (args, problem) in [
        (&["db.test:70000"][..], "`db.test:70000`: the port 70000 is above 65535"),
        (&["db.test:0"], "`db.test:0`: the port 0 cannot be connected to"),
        (&["db.test:"], "`db.test:`: the port is missing after the colon"),
        (&["[::1"], "`[::1`: the bracket is not closed"),
        (&["db..test"], "`db..test`: a label is empty"),
        (&[".db.test"], "`.db.test`: a label is empty"),
        (&[""], "``: the name is missing"),
        (&["two words"], "`two words`: ' ' cannot be part of a name"),
        (&["a\u{1b}[2J"], "`a\\u{1b}[2J`"),
        (&[&name], &format!("`{name}`: a name has at most 253 characters, this one has 300")),
        (&[&label], "a label has at most 63 characters"),
        (&["256.1.1.1"], "`256.1.1.1`: this looks like an IPv4 address, but is none"),
        (&["_http._tcp"], "`_http._tcp`: there is a service, but no domain that offers it"),
        (&["-S", "10.0.0.1:80", "10.0.0.2:70000"], "`10.0.0.2:70000`: the port 70000 is above 65535"),
        (&["-S", "db.test"], "`db.test`: is not an IP address"),
        (&["-S", "[::1"], "`[::1`: the bracket is not closed"),
        (&["-S", "-f", "10.0.0.1:80"], "--follow is for names"),
        (&["-f", "10.0.0.1:80"], "--follow is for names"),
        (&["one.test", "two.test"], "`two.test` is one name too many"),
        (&[], "<NAME>..."),
        (&["-S"], "<NAME>..."),
        (&["-p", "70000", "db.test"], "'70000'"),
        (&["-p", "0", "db.test"], "'0'"),
        (&["-p", "http", "db.test"], "'http'"),
        (&["-t", "0", "db.test"], "'0'"),
        (&["-t", "5h", "db.test"], "'5h'"),
        (&["-t", "1441m", "db.test"], "longer than a day"),
        (&["-t", "", "db.test"], "--timeout"),
        (&["-s", "http", "db.test"], "`http`: every label of a service begins with an underscore"),
        (&["-s", "_a._tcp", "_b._tcp.db.test"], "--service says _a._tcp"),
        (&["-r", "10.0.0.1,ns.test", "db.test"], "`ns.test` in --resolvers"),
        (&["-r", "10.0.0.1", "-r", "ns.test", "db.test"], "`ns.test` in --resolvers"),
        (&["-r", "ns.test,ms.test", "db.test"], "`ns.test` in --resolvers"),
        (&["-r", "10.0.0.1:70000", "db.test"], "`10.0.0.1:70000`: the port 70000 is above 65535"),
        (&["-r", "ns..test", "db.test"], "`ns..test`: a label is empty"),
        (
            &["-r", "_dns._udp.ns.test", "db.test"],
            "`_dns._udp.ns.test`: the name of nameservers comes without a service",
        ),
        (&["-r", ",", "db.test"], "--resolvers names nobody"),
        (&["--ipv6", "maybe", "db.test"], "'maybe'"),
        (&["--wat", "db.test"], "'--wat'"),
    ] {
        let ran = carom(["resolve"].iter().chain(args)).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{args:?}: {ran:?}");
        assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains(problem), "{args:?}: {ran:?}");
        assert!(!ran.stderr.contains("domain:"), "{args:?}: {ran:?}");
    }
}

#[tokio::test]
async fn a_reader_that_is_gone_is_no_failure() {
    let server = DnsServer::start().await.unwrap();
    server.zone().a("db.test", 1, ["10.0.0.1"]);
    let at = server.address().to_string();
    for args in [
        &["resolve", "-S", "127.0.0.1:2020"][..],
        &["resolve", "-r", &at, "db.test"],
        &["resolve", "-f", "-r", &at, "db.test"],
        &["completions", "bash"],
        &["man", "resolve"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = run(command(args).stdout(writer).stderr(Stdio::piped())).await;
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        assert!(!ran.stderr.contains("error") && !ran.stderr.contains("panicked"), "{args:?}: {ran:?}");
    }
}

#[tokio::test]
async fn a_stderr_that_is_gone_changes_nothing() {
    for (args, code) in [(&["resolve", "-S", "127.0.0.1:2020"][..], 0), (&["resolve", "a..b"], 2), (&["--wat"], 2)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = run(command(args).stdout(Stdio::piped()).stderr(writer)).await;
        assert_eq!((ran.code, ran.stdout.is_empty()), (Some(code), code != 0), "{args:?}: {ran:?}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn output_that_cannot_be_written_is_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ran = run(command(["resolve", "-S", "127.0.0.1:2020"]).stdout(full).stderr(Stdio::piped())).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("error: the output cannot be written: "), "{ran:?}");
}
