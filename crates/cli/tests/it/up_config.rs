//! The config of `carom up`: what is said of what makes no sense, with file, line, key and what is accepted.

use crate::serving::{folder, ran};
use crate::up::{Backend, Client, Up, tcp};

/// What is said of this config by whoever checks it.
async fn refused(name: &str, text: &str) -> String {
    let folder = folder(name, &[("c.toml", text), ("bad.pem", "nothing")]);
    let checked = ran(&folder, &["check", "-c", "c.toml"]).await;
    assert_eq!((checked.code, &*checked.stdout), (Some(2), ""), "{text}: {checked:?}");
    checked.stderr
}

/// A service with these further lines, the first of which is the sixth of the file.
fn service(protocol: &str, more: &str) -> String {
    let resolve = "resolve = [\"127.0.0.1:1\"]";
    format!("[[service]]\nname = \"a\"\nlisten = \"127.0.0.1:0\"\nprotocol = \"{protocol}\"\n{resolve}\n{more}\n")
}

#[tokio::test]
async fn mistakes_have_a_file_a_line_a_key_and_what_is_accepted() {
    let http = |more: &str| service("http", more);
    let tcp = |more: &str| service("tcp", more);
    let resolve = |value: &str| http("").replace("[\"127.0.0.1:1\"]", value);
    for (text, problem) in [
        ("[admin]\nlisen = \"x\"".to_owned(), "c.toml:2: admin.lisen: there is no such key; did you mean `listen`?"),
        ("[admin]\nlisten = 1".to_owned(), "c.toml:2: admin.listen: an integer is no text; accepted: an IP address"),
        ("[[servce]]".to_owned(), "c.toml:1: servce: there is no such key; did you mean `service`?"),
        ("[service]".to_owned(), "c.toml:1: service: a table is no list; accepted: tables, each under [[service]]"),
        ("[[service]]\nname = \"a b\"".to_owned(), "c.toml:2: service.name: `a b` is no such name; accepted: up to 63"),
        ("[[service]]\nname = \"..\"".to_owned(), "c.toml:2: service.name: `..` is no such name"),
        ("[[service]]\nname = \"-\"".to_owned(), "c.toml:2: service.name: `-` is no such name"),
        ("[[service]]\nname = \"a..b\"".to_owned(), "c.toml:2: service.name: `a..b` is no such name"),
        ("[[service]]\nname = \"a\"".to_owned(), "c.toml:1: service.listen: is missing; accepted: an IP address"),
        (
            http("").replace("\"http\"", "\"https\""),
            "c.toml:4: service.protocol: `https` is no protocol that is known; accepted: \"http\" or \"tcp\"",
        ),
        (
            http("claim_timout = \"1s\""),
            "c.toml:6: service.claim_timout: there is no such key; did you mean `claim_timeout`",
        ),
        (resolve("[]"), "c.toml:5: service.resolve: nobody is named; accepted: a name, such as"),
        (resolve("\"a..b\""), "c.toml:5: service.resolve: `a..b`: a label is empty"),
        (resolve("[\"a.example\"]"), "c.toml:5: service.resolve: `a.example` is no address, and a name stands alone"),
        (resolve("[\"10.0.0.1:70000\"]"), "c.toml:5: service.resolve: `10.0.0.1:70000`: the port 70000 is above 65535"),
        (
            tcp("").replace(":1\"", "\""),
            "c.toml:5: service.resolve: nobody says which port; accepted: with a port, as in \"10.0.0.1:5432\", or default",
        ),
        (resolve("\"_http._tcp.a.b\"\nsrv = false"), "c.toml:6: service.srv: resolve begins with a service; accepted:"),
        (http("srv = true"), "c.toml:6: service.srv: is for names, and addresses are not looked up"),
        (http("nameservers = [\"10.0.0.1\"]"), "c.toml:6: service.nameservers: is for names"),
        (
            resolve("\"a.b\"\nnameservers = [\"ns.a\"]"),
            "c.toml:6: service.nameservers: `ns.a` is no address, and a name",
        ),
        (http("default_port = 0"), "c.toml:6: service.default_port: 0 is no port; accepted: a port from 1 to 65535"),
        (
            http("spares = 9\nmaximum = 8"),
            "c.toml:6: service.spares: 9 are too many; accepted: a number from 0 to maximum",
        ),
        (http("maximum = 0"), "c.toml:6: service.maximum: 0 is too few; accepted: a number from 1 to 100000"),
        (
            http("claim_timeout = 5"),
            "c.toml:6: service.claim_timeout: an integer is no time with a unit; accepted: a time",
        ),
        (http("attempts = 101"), "c.toml:6: service.attempts: 101 are too many; accepted: a number from 1 to 100"),
        (
            http("delay = \"2s\"\nmax_delay = \"1s\""),
            "c.toml:7: service.max_delay: 1s is below delay; accepted: from 2s on",
        ),
        (
            http("http2 = \"only\"\ndelay = 0"),
            "c.toml:7: service.delay: 0 is too short for HTTP/2; accepted: from 1ms on, or with http2 = \"off\"",
        ),
        (
            http("tls = { server_name = \"a.example\" }\ndelay = 0"),
            "c.toml:7: service.delay: 0 is too short for HTTP/2; accepted: from 1ms on, or with http2 = \"off\"",
        ),
        (
            http("http2 = \"yes\""),
            "c.toml:6: service.http2: `yes` is none of them; accepted: \"negotiate\", \"only\" or",
        ),
        (http("host = \"a b\""), "c.toml:6: service.host: `a b` is no host; accepted: a host, with a port or without"),
        (http("host = \"me@a\""), "c.toml:6: service.host: `me@a` is no host"),
        (http("check = \"healthz\""), "c.toml:6: service.check: `healthz` is no path; accepted: a path, such as"),
        (http("check_send = \"x\""), "c.toml:6: service.check_send: is for tcp"),
        (tcp("check = \"/\""), "c.toml:6: service.check: `/` is no check; accepted: \"connect\""),
        (tcp("check_send = \"x\""), "c.toml:6: service.check_send: nothing is expected; accepted: with check_expect"),
        (http("check_interval = \"1s\""), "c.toml:6: service.check_interval: nothing is checked; accepted: with check"),
        (
            http("idle_timeout = 60"),
            "c.toml:6: service.idle_timeout: an integer is no time with a unit; accepted: a time up to a day",
        ),
        (tcp("host = \"a\""), "c.toml:6: service.host: is for http; accepted: with protocol = \"http\""),
        (tcp("request_timeout = \"1s\""), "c.toml:6: service.request_timeout: is for http"),
        (tcp("retry_stalled = false"), "c.toml:6: service.retry_stalled: is for http"),
        (
            tcp("slow_start = 30"),
            "c.toml:6: service.slow_start: an integer is no time with a unit; accepted: a time up to a day",
        ),
        (
            http("ejection = 5"),
            "c.toml:6: service.ejection: an integer is neither true nor false; accepted: true, false,",
        ),
        (http("ejection = { time = 0 }"), "c.toml:6: service.ejection.time: no time at all is out of bounds"),
        (http("ejection = { max_ejected = 1.5 }"), "c.toml:6: service.ejection.max_ejected: 1.5 is out of bounds"),
        (
            http("ejection = { consecutve = 1 }"),
            "c.toml:6: service.ejection.consecutve: there is no such key; did you mean",
        ),
        (http("tls = \"yes\""), "c.toml:6: service.tls: a text is neither true nor false; accepted: true, false, or a"),
        (
            http("tls = true"),
            "c.toml:6: service.tls: nobody says which name the certificates of these addresses have; accepted: a table with server_name",
        ),
        (http("tls = { ca = \"none.pem\" }"), "c.toml:6: service.tls.ca: `none.pem`: cannot be read: "),
        (http("tls = { ca = \"bad.pem\" }"), "c.toml:6: service.tls: "),
        (
            http("tls = { key = \"bad.pem\" }"),
            "c.toml:6: service.tls.key: certificate is missing; accepted: both or none",
        ),
        (
            http("[service.tls]\nserver_nme = \"a\""),
            "c.toml:7: service.tls.server_nme: there is no such key; did you mean",
        ),
        (http("max_clients = 0"), "c.toml:6: service.max_clients: 0 is too few"),
        (http("drain_timeout = 0"), "c.toml:6: service.drain_timeout: no time at all is out of bounds"),
        (http("") + &http(""), "c.toml:8: service.name: there is a service of this name at c.toml:3: service.listen"),
    ] {
        let said = refused("up-config", &text).await;
        assert!(said.starts_with(&format!("error: {problem}")), "{text}: {said}");
    }
}

#[tokio::test]
async fn two_cannot_listen_at_one_place() {
    let at =
        |at: &str, name: &str| service("tcp", "").replace("127.0.0.1:0", at).replace("\"a\"", &format!("\"{name}\""));
    let admin = "[admin]\nlisten = \"127.0.0.1:7\"\n";
    for (text, problem) in [
        (
            at("127.0.0.1:7", "a") + &at("127.0.0.1:7", "b"),
            "c.toml:9: service.listen: 127.0.0.1:7 is taken, at c.toml:3: ",
        ),
        (admin.to_owned() + &at("0.0.0.0:7", "a"), "c.toml:5: service.listen: 0.0.0.0:7 is taken, at c.toml:2: admin."),
        (
            admin.to_owned() + "[gateway]\nlisten = \"127.0.0.1:7\"",
            "c.toml:4: gateway.listen: 127.0.0.1:7 is taken, at",
        ),
    ] {
        let said = refused("up-config-places", &text).await;
        assert!(said.starts_with(&format!("error: {problem}")), "{text}: {said}");
    }
}

#[tokio::test]
async fn whoever_runs_it_is_told_the_same() {
    let text = service("http", "spare = 1");
    let folder = folder("up-config-run", &[("c.toml", &text)]);
    let ran = ran(&folder, &["up", "-c", "c.toml"]).await;
    assert_eq!((ran.code, &*ran.stdout, ran.stderr), (Some(2), "", refused("up-config-checked", &text).await));
}

#[tokio::test]
async fn a_port_that_is_taken_is_named_with_who_wanted_it() {
    let taken = Backend::start("a").await;
    let at = taken.address;
    for (text, place) in [
        (service("tcp", "").replace("127.0.0.1:0", &at.to_string()), "c.toml:3: service.listen"),
        (format!("[admin]\nlisten = \"{at}\"\n{}", service("tcp", "")), "c.toml:2: admin.listen"),
        (format!("{}[gateway]\nlisten = \"{at}\"\n", service("tcp", "")), "c.toml:8: gateway.listen"),
    ] {
        let folder = folder("up-config-taken", &[("c.toml", &text)]);
        let ran = ran(&folder, &["up", "-c", "c.toml"]).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
        assert!(ran.stderr.contains(&format!("error: cannot listen on {at} ({place}): ")), "{ran:?}");
    }
}

/// `carom gateway` and `carom up` can share a file.
#[tokio::test]
async fn a_delay_of_0_is_accepted_where_backends_are_not_spoken_to_by_http2() {
    let tls = "tls = { server_name = \"a.example\" }\n";
    let services = [
        service("http", "delay = 0"),
        service("http", &format!("http2 = \"off\"\ndelay = 0\n{tls}")),
        service("tcp", &format!("delay = 0\n{tls}")),
    ];
    for text in services {
        let folder = folder("config-delay", &[("c.toml", &text)]);
        let checked = ran(&folder, &["check", "-c", "c.toml"]).await;
        assert_eq!(checked.code, Some(0), "{text}: {checked:?}");
    }
}

#[tokio::test]
async fn the_gateway_alone_runs_from_the_same_config() {
    let a = Backend::start("a").await;
    let config = tcp("a", "127.0.0.1:0", &a, "") + "[gateway]\nlisten = \"127.0.0.1:0\"\n";
    let folder = folder("up-config-shared", &[("c.toml", &config)]);
    let up = Up::start(&folder).await;
    assert!(up.banner.contains("\nfeed: demo at simulated from an exchange started here"), "{}", up.banner);
    Client::of(up.service("a")).await;
    let gateway = crate::serving::Serving::gateway(&folder, &["-c", "c.toml"]).await;
    assert!(gateway.banner.contains("feed: demo at simulated"), "{}", gateway.banner);
}

/// Requests are for a name, and addresses have none.
#[tokio::test]
async fn certificates_of_addresses_have_a_name_from_somewhere() {
    for more in [
        "tls = { server_name = \"a.example\" }",
        "tls = true\nhost = \"a.example:8443\"",
        "tls = true\nhost = \"[::1]:8443\"",
        "tls = { insecure = true }",
    ] {
        let folder = folder("up-config-names", &[("c.toml", &service("http", more))]);
        let checked = ran(&folder, &["check", "-c", "c.toml"]).await;
        assert_eq!((checked.code, &*checked.stderr), (Some(0), ""), "{more}: {checked:?}");
        let up = Up::start(&folder).await;
        assert!(up.banner.contains("service a: http on "), "{}", up.banner);
    }
    // Sessions are for nobody in particular: each address is looked for in the certificate.
    let folder = folder("up-config-names-tcp", &[("c.toml", &service("tcp", "tls = true"))]);
    assert_eq!(ran(&folder, &["check", "-c", "c.toml"]).await.code, Some(0));
}
