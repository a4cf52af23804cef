//! `carom up` reads its config again: what has changed changes, without anybody noticing who does not have to.

use crate::program::{PATIENCE, carom};
use crate::serving::folder;
use crate::up::{Backend, Client, Up, ask, closed, http, tcp};
use ::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const ANY: &str = "127.0.0.1:0";

#[tokio::test]
async fn a_service_that_is_as_it_was_keeps_its_connections() {
    let (mut a, mut b) = (Backend::start("a").await, Backend::start("b").await);
    // It may be written elsewhere, and otherwise.
    let before = format!("{}{}", tcp("a", ANY, &a, ""), tcp("b", ANY, &b, ""));
    let after = format!("# Changed\n{}{}", tcp("b", ANY, &b, "maximum = 8"), tcp("a", ANY, &a, "max_idle = \"1m\""));
    let folder = folder("reload-kept", &[("c.toml", &before)]);
    let mut up = Up::start(&folder).await;
    let mut client = Client::of(up.service("a")).await;
    // Two spares, beside the one that is the client's.
    a.connected(3).await;
    b.connected(2).await;
    let told = up.reload(&after).await;
    assert!(told.ends_with("changed b; 1 service is as it was"), "{told}");
    b.connected(4).await;
    assert_eq!(client.say("still").await, "a: still\n");
    assert_eq!(a.connects(), 3, "nobody was connected to again");
}

#[tokio::test]
async fn a_service_that_changes_keeps_its_port_and_turns_nobody_away() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let folder = folder("reload-changed", &[("c.toml", &tcp("s", ANY, &a, ""))]);
    let mut up = Up::start(&folder).await;
    let at = up.service("s");
    let mut early = Client::of(at).await;
    let (asked, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let asking = tokio::spawn({
        let (asked, enough) = (Arc::clone(&asked), Arc::clone(&enough));
        async move {
            let mut last = String::new();
            while !enough.load(Ordering::Relaxed) {
                last = Client::of(at).await.say("who").await;
                asked.fetch_add(1, Ordering::Relaxed);
            }
            last
        }
    });
    for round in 0..6 {
        let known = asked.load(Ordering::Relaxed);
        let backend = if round % 2 == 0 { &b } else { &a };
        // Another option than the backends makes it another service.
        let told = up.reload(&tcp("s", ANY, backend, &format!("max_clients = {}", 100 + round))).await;
        assert!(told.ends_with("was read again: changed s"), "{told}");
        // Some are served between one change and the next.
        served(&asked, known + 3).await;
    }
    assert_eq!(early.say("still here").await, "a: still here\n", "whoever was there stays where it was");
    up.reload(&tcp("s", ANY, &b, "")).await;
    enough.store(true, Ordering::Relaxed);
    asking.await.expect("nobody was turned away");
    assert_eq!(Client::of(at).await.say("who").await, "b: who\n", "nobody comes to the old one any more");
}

#[tokio::test]
async fn no_request_is_lost_while_its_service_changes() {
    let (a, b) = (web("a").await, web("b").await);
    let folder = folder("reload-requests", &[("c.toml", &http("s", ANY, a, ""))]);
    let mut up = Up::start(&folder).await;
    let at = up.service("s");
    let (asked, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let asking = tokio::spawn({
        let (asked, enough) = (Arc::clone(&asked), Arc::clone(&enough));
        async move {
            while !enough.load(Ordering::Relaxed) {
                let (status, body) = ask(at, "GET /").await;
                assert!(status == 200 && ["a", "b"].contains(&&*body), "{status} {body}");
                asked.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    for round in 0..6 {
        let known = asked.load(Ordering::Relaxed);
        let more = format!("max_clients = {}", 100 + round);
        up.reload(&http("s", ANY, if round % 2 == 0 { b } else { a }, &more)).await;
        served(&asked, known + 3).await;
    }
    up.reload(&http("s", ANY, b, "")).await;
    enough.store(true, Ordering::Relaxed);
    asking.await.expect("every request was answered");
    assert_eq!(ask(at, "GET /").await, (200, "b".to_owned()), "nobody comes to the old one any more");
}

/// Clients that stay are told to come again, with the answer to what they have asked.
#[tokio::test]
async fn no_request_of_those_who_stay_is_lost_either() {
    let (a, b) = (web("a").await, web("b").await);
    let folder = folder("reload-staying", &[("c.toml", &http("s", ANY, a, ""))]);
    let mut up = Up::start(&folder).await;
    let at = up.service("s");
    let (asked, visits) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let enough = Arc::new(AtomicBool::new(false));
    let asking = tokio::spawn({
        let (asked, visits, enough) = (Arc::clone(&asked), Arc::clone(&visits), Arc::clone(&enough));
        async move {
            while !enough.load(Ordering::Relaxed) {
                let mut client = BufReader::new(TcpStream::connect(at).await.expect("somebody listens"));
                visits.fetch_add(1, Ordering::Relaxed);
                while !enough.load(Ordering::Relaxed) {
                    let (body, stays) = ask_on(&mut client).await;
                    assert!(["a", "b"].contains(&&*body), "{body}");
                    asked.fetch_add(1, Ordering::Relaxed);
                    if !stays {
                        break;
                    }
                }
            }
        }
    });
    for round in 0..6 {
        served(&asked, asked.load(Ordering::Relaxed) + 3).await;
        let known = visits.load(Ordering::Relaxed);
        let more = format!("max_clients = {}", 100 + round);
        up.reload(&http("s", ANY, if round % 2 == 0 { b } else { a }, &more)).await;
        // It is told, and comes to the new one.
        served(&visits, known + 1).await;
    }
    enough.store(true, Ordering::Relaxed);
    asking.await.expect("every request was answered");
}

/// The body of the answer to a request on this connection, and whether there may be another one.
async fn ask_on(client: &mut BufReader<TcpStream>) -> (String, bool) {
    client.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("it listens");
    let (mut length, mut stays) = (0, true);
    for number in 0.. {
        let mut line = String::new();
        let count = timeout(PATIENCE, client.read_line(&mut line)).await.expect("an answer comes").unwrap();
        assert!(count > 0, "the connection ended without an answer");
        match line.trim_end().split_once(": ") {
            None if number == 0 => assert!(line.starts_with("HTTP/1.1 200 "), "{line}"),
            None => break,
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(("connection", value)) => stays = value != "close",
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    timeout(PATIENCE, client.read_exact(&mut body)).await.expect("all of it comes").unwrap();
    (String::from_utf8(body).unwrap(), stays)
}

/// A server that answers every request with its name.
async fn web(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind(ANY).await.unwrap();
    let at = listener.local_addr().unwrap();
    let answer = move |_: Request<Incoming>| async move { Ok::<_, Infallible>(Response::new(name.to_owned())) };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)));
        }
    });
    at
}

/// Waits until so many were served.
async fn served(asked: &AtomicUsize, count: usize) {
    let more = async {
        while asked.load(Ordering::Relaxed) < count {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, more).await.expect("they are served");
}

/// A service with these nodes, whose sessions would not outlast being drained.
fn with_nodes(protocol: &str, nodes: &[SocketAddr], more: &str) -> String {
    let nodes: Vec<String> = nodes.iter().map(SocketAddr::to_string).collect();
    let place = format!("listen = \"{ANY}\"\nprotocol = \"{protocol}\"\nresolve = {nodes:?}");
    let admin = format!("[admin]\nlisten = \"{ANY}\"\n");
    format!("{admin}[[service]]\nname = \"s\"\n{place}\nspares = 2\ndrain_timeout = \"100ms\"\n{more}\n")
}

/// Waits until the service, and no other that leaves, has so many clients and live nodes.
async fn serves(up: &Up, clients: u64, live: u64) {
    let mut last = serde_json::Value::Null;
    let waiting = async {
        loop {
            last = serde_json::from_str(&ask(up.admin(), "GET /healthz").await.1).unwrap();
            let service = &last["services"][0];
            if service["clients"] == clients && service["backends"]["live"] == live {
                break;
            }
        }
    };
    assert!(timeout(PATIENCE, waiting).await.is_ok(), "{last}");
    assert!(last.get("leaving").is_none(), "nothing is drained: {last}");
}

#[tokio::test]
async fn reload_that_changes_nodes_keeps_tcp_sessions() {
    let (mut a, mut b) = (Backend::start("a").await, Backend::start("b").await);
    let folder = folder("reload-nodes", &[("c.toml", &with_nodes("tcp", &[a.address], ""))]);
    let mut up = Up::start(&folder).await;
    let mut early = Client::of(up.service("s")).await;
    a.connected(3).await;
    let told = up.reload(&with_nodes("tcp", &[a.address, b.address], "")).await;
    assert!(told.ends_with("was read again: changed s"), "{told}");
    // The new node gets its share of the spares.
    b.connected(1).await;
    serves(&up, 1, 2).await;
    assert_eq!(early.say("added").await, "a: added\n");
    // As when DNS removes a node: its sessions go on, and new clients are served by the others.
    up.reload(&with_nodes("tcp", &[b.address], "")).await;
    serves(&up, 1, 1).await;
    assert_eq!(early.say("removed").await, "a: removed\n");
    assert_eq!(Client::of(up.service("s")).await.say("who").await, "b: who\n");
    // It can come back, and the session is not disturbed.
    up.reload(&with_nodes("tcp", &[b.address, a.address], "")).await;
    serves(&up, 1, 2).await;
    assert_eq!(early.say("back").await, "a: back\n");
}

#[tokio::test]
async fn reload_that_changes_nodes_keeps_upgraded_connections() {
    let node = upgrading().await;
    let folder = folder("reload-upgraded", &[("c.toml", &with_nodes("http", &[node], ""))]);
    let mut up = Up::start(&folder).await;
    let (mut client, mut line) = (upgraded(up.service("s")).await, String::new());
    let other = web("other").await;
    up.reload(&with_nodes("http", &[node, other], "")).await;
    serves(&up, 1, 2).await;
    client.write_all(b"still\n").await.unwrap();
    timeout(PATIENCE, client.read_line(&mut line)).await.expect("an answer comes").unwrap();
    assert_eq!(line, "still\n");
}

/// Whatever changes: nginx and HAProxy keep sessions across a reload until they end, too.
#[tokio::test]
async fn sessions_of_a_replaced_service_outlast_drain_timeout_until_the_program_stops() {
    let a = Backend::start("a").await;
    let other = tcp("other", ANY, &a, "drain_timeout = \"100ms\"");
    let folder = folder("reload-replaced", &[("c.toml", &(with_nodes("tcp", &[a.address], "") + &other))]);
    let mut up = Up::start(&folder).await;
    let (mut client, mut drained) = (Client::of(up.service("s")).await, Client::of(up.service("other")).await);
    up.reload(&with_nodes("tcp", &[a.address], "maximum = 8")).await;
    let health = ask(up.admin(), "GET /healthz").await.1;
    assert!(health.contains("\"leaving\""), "{health}");
    // The other service is gone with the same config, and its session has as long as this one would have.
    drained.cut().await;
    assert_eq!(client.say("still").await, "a: still\n");
    up.running.signal("-TERM").await;
    assert_eq!(timeout(PATIENCE, up.running.child.wait()).await.expect("it ends").unwrap().code(), Some(0));
}

/// Waits until the pool of the replaced service is closed: it keeps what is in use.
async fn pool_is_closed(up: &Up) {
    let is_closed = |object: &serde_json::Value| object["type"] == "pool" && object["state"] == "stopping";
    let looking = async {
        loop {
            let view: serde_json::Value = serde_json::from_str(&ask(up.admin(), "GET /api/snapshot").await.1).unwrap();
            if view["monitor"]["objects"].as_array().unwrap().iter().any(is_closed) {
                return view;
            }
        }
    };
    let view = timeout(PATIENCE, looking).await.expect("it is closed");
    let leaving = &view["leaving"][0];
    assert!(leaving["status"] == "draining" && leaving.get("trouble").is_none_or(|it| it.is_null()), "{leaving}");
}

/// Its nodes may be gone for good, and whatever it said of them would look like the live service's.
#[tokio::test]
async fn replaced_tcp_service_keeps_its_sessions_and_connects_to_no_node() {
    let (mut a, b, mut c) = (Backend::start("a").await, Backend::start("b").await, Backend::start("c").await);
    let often = "attempts = 1\ndelay = \"10ms\"\nmax_delay = \"50ms\"";
    let folder = folder("reload-quiet", &[("c.toml", &with_nodes("tcp", &[a.address, c.address], often))]);
    let mut up = Up::start(&folder).await;
    let mut client = Client::of(up.service("s")).await;
    let name = client.say("who").await;
    a.connected(1).await;
    c.connected(1).await;
    up.reload(&with_nodes("tcp", &[b.address], &format!("maximum = 8\n{often}"))).await;
    pool_is_closed(&up).await;
    // The node without the session goes away, and then the one of the live service, whose alarm is the only one.
    let (stays, goes) = if name == "a: who\n" { (a, c) } else { (c, a) };
    let (connects, gone) = (stays.connects(), goes.address.to_string());
    drop(goes);
    assert_eq!(Client::of(up.service("s")).await.say("who").await, "b: who\n");
    let live = b.address.to_string();
    drop(b);
    let refused = TcpStream::connect(up.service("s")).await.unwrap();
    let dead = up.running.told("backend is dead").await;
    assert!(dead.contains(&live), "{dead}");
    assert!(!up.running.heard.contains(&gone), "{}", up.running.heard);
    let (_, metrics) = ask(up.admin(), "GET /metrics").await;
    for name in ["carom_backend_known", "carom_backend_dead", "carom_pool_failed"] {
        let line = format!("{name}{{db_client_connection_pool_name=\"s\"}} 1");
        assert!(metrics.lines().any(|other| other == line), "{line}: {metrics}");
    }
    let line = "carom_resolver_backends{carom_resolver_name=\"s\"} 1";
    assert!(metrics.lines().any(|other| other == line), "{metrics}");
    drop(refused);
    assert_eq!(stays.connects(), connects);
    assert_eq!(client.say("who").await, name);
}

#[tokio::test]
async fn client_that_waits_for_a_connection_at_a_reload_is_served_by_the_replaced_service() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let one = "claim_timeout = \"10m\"\nmaximum";
    let config = |node: &Backend, maximum: usize| {
        with_nodes("tcp", &[node.address], &format!("{one} = {maximum}")).replace("spares = 2", "spares = 1")
    };
    let folder = folder("reload-waiting", &[("c.toml", &config(&a, 1))]);
    let mut up = Up::start(&folder).await;
    let first = Client::of(up.service("s")).await;
    let second = tokio::spawn(Client::of(up.service("s")));
    serves(&up, 2, 1).await;
    up.reload(&config(&b, 2)).await;
    drop(first);
    let mut second = timeout(PATIENCE, second).await.expect("it is served").unwrap();
    assert_eq!(second.say("who").await, "a: who\n");
    pool_is_closed(&up).await;
    assert_eq!(second.say("still").await, "a: still\n");
}

#[tokio::test]
async fn replaced_http_service_keeps_upgraded_connections_and_no_others() {
    let (node, other) = (upgrading().await, web("other").await);
    let folder = folder("reload-quiet-http", &[("c.toml", &with_nodes("http", &[node], ""))]);
    let mut up = Up::start(&folder).await;
    let mut client = upgraded(up.service("s")).await;
    up.reload(&with_nodes("http", &[other], "maximum = 8")).await;
    pool_is_closed(&up).await;
    assert_eq!(ask(up.service("s"), "GET /").await, (200, "other".to_owned()));
    client.write_all(b"still\n").await.unwrap();
    let mut line = String::new();
    timeout(PATIENCE, client.read_line(&mut line)).await.expect("an answer comes").unwrap();
    assert_eq!(line, "still\n");
}

/// A connection that was upgraded to echo.
async fn upgraded(at: SocketAddr) -> BufReader<TcpStream> {
    let mut client = BufReader::new(TcpStream::connect(at).await.expect("it listens"));
    let request = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    client.write_all(request).await.unwrap();
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        timeout(PATIENCE, client.read_line(&mut line)).await.expect("an answer comes").unwrap();
    }
    client
}

/// A server that switches protocols when asked to, and then says what it hears.
async fn upgrading() -> SocketAddr {
    let listener = TcpListener::bind(ANY).await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let (mut line, mut upgraded) = (String::new(), false);
                while stream.read_line(&mut line).await.is_ok_and(|count| count > 0) {
                    if upgraded {
                        stream.write_all(line.as_bytes()).await.unwrap();
                    } else if line == "\r\n" {
                        let head = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
                        stream.write_all(head.as_bytes()).await.unwrap();
                        upgraded = true;
                    }
                    line.clear();
                }
            });
        }
    });
    at
}

#[tokio::test]
async fn a_service_that_is_gone_finishes_what_it_has_begun() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let keep = tcp("a", ANY, &a, "");
    let folder = folder("reload-removed", &[("c.toml", &(keep.clone() + &tcp("b", ANY, &b, "")))]);
    let mut up = Up::start(&folder).await;
    let mut client = Client::of(up.service("b")).await;
    let told = up.reload(&keep).await;
    assert!(told.ends_with("removed b; 1 service is as it was"), "{told}");
    assert!(TcpStream::connect(up.service("b")).await.is_err(), "nobody listens any more");
    assert_eq!(client.say("last words").await, "b: last words\n");
    Client::of(up.service("a")).await;
}

/// What a config says may be in another file.
#[tokio::test]
async fn a_certificate_that_is_another_is_a_change() {
    let a = Backend::start("a").await;
    let authority = || rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap().cert.pem();
    let config = tcp("s", ANY, &a, "tls = { ca = \"ca.pem\" }");
    let folder = folder("reload-certificate", &[("c.toml", &config), ("ca.pem", &authority())]);
    let mut up = Up::start(&folder).await;
    assert!(up.reload(&config).await.ends_with(": 1 service is as it was"));
    std::fs::write(folder.join("ca.pem"), authority()).unwrap();
    assert!(up.reload(&config).await.ends_with(": changed s"));
    std::fs::write(folder.join("ca.pem"), "none").unwrap();
    assert!(up.reload(&config).await.contains("everything stays as it was: c.toml:7: service.tls: "));
}

#[tokio::test]
async fn a_service_that_is_new_is_served() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let keep = tcp("a", ANY, &a, "");
    let folder = folder("reload-added", &[("c.toml", &keep)]);
    let mut up = Up::start(&folder).await;
    let free = testkit::free_address();
    let told = up.reload(&(keep + &tcp("b", &free.to_string(), &b, ""))).await;
    assert!(told.ends_with("added b; 1 service is as it was"), "{told}");
    assert_eq!(Client::of(free).await.say("hello").await, "b: hello\n");
}

#[tokio::test]
async fn services_can_change_places() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let [one, two] = [(); 2].map(|()| testkit::free_address().to_string());
    let folder = folder("reload-places", &[("c.toml", &(tcp("a", &one, &a, "") + &tcp("b", &two, &b, "")))]);
    let mut up = Up::start(&folder).await;
    let told = up.reload(&(tcp("a", &two, &a, "") + &tcp("b", &one, &b, ""))).await;
    assert!(told.ends_with("changed a, b"), "{told}");
    for (at, answer) in [(one, "b: who\n"), (two, "a: who\n")] {
        assert_eq!(Client::of(at.parse().unwrap()).await.say("who").await, answer);
    }
}

/// Only services hand their sockets over, and only to each other.
#[tokio::test]
async fn an_address_that_is_not_handed_over_is_named_with_who_has_it() {
    let a = Backend::start("a").await;
    let folder =
        folder("reload-held", &[("c.toml", &format!("[admin]\nlisten = \"{ANY}\"\n{}", tcp("a", ANY, &a, "")))]);
    let mut up = Up::start(&folder).await;
    let (admin, service) = (up.admin(), up.service("a"));
    for (config, held) in [
        (tcp("a", &admin.to_string(), &a, ""), format!("; admin has {admin} until ")),
        (tcp("a", &format!("0.0.0.0:{}", service.port()), &a, ""), format!("; service a has {service} until ")),
    ] {
        let told = up.reload(&config).await;
        assert!(told.contains("everything stays as it was: cannot listen on ") && told.contains(&held), "{told}");
        assert!(told.ends_with("restart, or change it in two steps"), "{told}");
        assert_eq!(Client::of(service).await.say("still").await, "a: still\n");
    }
    // In two steps.
    up.reload(&tcp("a", ANY, &a, "")).await;
    let told = up.reload(&tcp("a", &admin.to_string(), &a, "")).await;
    assert!(told.ends_with("changed a"), "{told}");
    Client::of(admin).await;
}

#[tokio::test]
async fn a_config_of_no_use_changes_nothing() {
    let (mut a, b) = (Backend::start("a").await, Backend::start("b").await);
    let good = tcp("a", ANY, &a, "");
    let folder = folder("reload-broken", &[("c.toml", &good)]);
    let mut up = Up::start(&folder).await;
    let mut client = Client::of(up.service("a")).await;
    a.connected(3).await;
    let taken = b.address.to_string();
    for (config, problem) in [
        (good.clone() + "[[servce]]\n", "c.toml:8: servce: there is no such key; did you mean `service`?".to_owned()),
        (good.replace("\"tcp\"", "\"udp\""), "c.toml:4: service.protocol: `udp` is no protocol".to_owned()),
        ("[admin]\n".to_owned(), "c.toml: lists nothing to run".to_owned()),
        (
            tcp("b", ANY, &b, "") + &tcp("c", &taken, &b, ""),
            format!("cannot listen on {taken} (c.toml:10: service.listen): "),
        ),
    ] {
        let told = up.reload(&config).await;
        assert!(told.starts_with(&format!("warning: everything stays as it was: {problem}")), "{told}");
        assert_eq!(client.say("still").await, "a: still\n");
    }
    assert_eq!(Client::of(up.service("a")).await.say("new").await, "a: new\n");
    let told = up.reload(&good).await;
    assert!(told.ends_with("1 service is as it was"), "{told}");
}

#[tokio::test]
async fn the_admin_listener_moves() {
    let a = Backend::start("a").await;
    let service = tcp("a", ANY, &a, "");
    let config = |listen: &str| format!("[admin]\nlisten = \"{listen}\"\n{service}");
    let folder = folder("reload-admin", &[("c.toml", &config(ANY))]);
    let mut up = Up::start(&folder).await;
    assert_eq!(ask(up.admin(), "GET /healthz").await.0, 200);
    let free = testkit::free_address();
    up.reload(&config(&free.to_string())).await;
    assert_eq!(ask(free, "GET /healthz").await.0, 200);
    closed(up.admin()).await;
    up.reload(&service).await;
    closed(free).await;
}

#[tokio::test]
async fn keys_are_read_again_and_the_gateway_is_otherwise_as_it_was() {
    let gateway = "[gateway]\nlisten = \"127.0.0.1:0\"\nkeys = \"keys.toml\"\n";
    let folder = folder("reload-keys", &[("c.toml", gateway), ("keys.toml", "")]);
    let mut up = Up::start(&folder).await;
    let url = up.banner.lines().find_map(|line| line.strip_prefix("gateway: ")).unwrap().split(' ').next().unwrap();
    let made = carom(["key", "new", "--user", "demo", "--file", folder.join("keys.toml").to_str().unwrap()]).await;
    let watch = ["watch", "--url", url, "--key", made.stdout.trim(), "--count", "1", "NSE:SBIN"];
    assert_eq!(carom(watch).await.code, Some(1), "it is not known yet");
    up.running.signal("-HUP").await;
    up.running.told("keys were read again: there are 1").await;
    up.running.told("c.toml was read again: 0 services are as they were").await;
    assert_eq!(carom(watch).await.code, Some(0));
    let snapshot = format!("{gateway}snapshot = false\n");
    std::fs::write(folder.join("c.toml"), snapshot).unwrap();
    up.running.signal("-HUP").await;
    up.running.told("note: the gateway and its feeds are as before").await;
}
