//! Clients that keep us waiting and clients that do not, on real connections.

mod both_ways;

use super::super::HALF_CLOSE_TIMEOUT;
use super::*;
use carom::agent::{Agent, Body, OriginOptions, Protocol};
use carom::pool::Phase;
use carom::resolver::Fixed;
use http_body_util::BodyExt;
use std::net::SocketAddr;
use std::time::Instant;
use testkit::clock::advance;
use testkit::http::{Script, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_millis(100);
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("it comes")
}

/// Clients are served there, before a node.
struct House {
    node: Server,
    requests: Arc<Requests>,
    listener: TcpListener,
    door: watch::Sender<Option<Instant>>,
}

impl House {
    /// Where clients may be silent for so long, or for ever.
    async fn with(idle_timeout: Option<Duration>) -> House {
        House::with_timeouts(idle_timeout, HALF_CLOSE_TIMEOUT).await
    }

    /// Where backends may also be silent for so long to clients that have ended their side.
    async fn with_timeouts(idle_timeout: Option<Duration>, half_close_timeout: Duration) -> House {
        House::of(Agent::builder().build().unwrap(), idle_timeout, half_close_timeout).await
    }

    /// Where this agent asks the node.
    async fn of(agent: Agent, idle_timeout: Option<Duration>, half_close_timeout: Duration) -> House {
        let node = Server::start("node-1").await.unwrap();
        let options = OriginOptions::default().resolver(Fixed::new([node.address()]));
        let origin = agent.create_pool("http://it", options).unwrap();
        let requests = Requests {
            name: "it".into(),
            agent,
            origin,
            host: None,
            idle_timeout,
            upgraded_timeout: idle_timeout,
            half_close_timeout,
            tally: Arc::default(),
            failures: Mutex::default(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        House { node, requests: Arc::new(requests), listener, door: watch::channel(None).0 }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// Serves the next client.
    fn serve_next(self: &Arc<House>) -> JoinHandle<()> {
        let house = Arc::clone(self);
        tokio::spawn(async move {
            let (client, _) = house.listener.accept().await.unwrap();
            serve(Arc::clone(&house.requests), client, Closed::new(house.door.subscribe())).await;
        })
    }

    async fn client(&self) -> TcpStream {
        TcpStream::connect(self.address()).await.unwrap()
    }

    /// Until no connection to the node is in use.
    async fn at_rest(&self) {
        soon(async {
            while self.is_busy() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    fn is_busy(&self) -> bool {
        self.requests.origin.snapshot().pool.is_some_and(|pool| pool.pool.counts.of(Phase::Busy) > 0)
    }
}

/// What a client hears that has said this and waits, from a node with this script, when it may be silent for a moment.
async fn heard(said: &[u8], script: Script) -> Vec<u8> {
    let house = Arc::new(House::with(Some(MOMENT)).await);
    house.node.script(script);
    let served = house.serve_next();
    let mut client = house.client().await;
    client.write_all(said).await.unwrap();
    soon(served).await.expect("it is not kept");
    let mut heard = Vec::new();
    // One that has not said all may be cut off.
    let _ = soon(client.read_to_end(&mut heard)).await;
    heard
}

/// An agent that knows that HTTP/2 is spoken there, with one connection.
fn http2() -> Agent {
    Agent::builder().protocol(Protocol::Http2).spares(0).maximum(1).build().unwrap()
}

#[tokio::test]
async fn a_client_that_does_not_come_to_the_point_is_left() {
    for said in ["", "G", "PRI", "PRI * HTTP/2.0\r\n", "GET / HTTP/1.1\r\nHost: a"] {
        // In HTTP/2 a server says how it wants to be spoken to before it has heard anything.
        let heard = heard(said.as_bytes(), Script::serving(1)).await;
        assert!(heard.is_empty() || (said.starts_with("PRI") && !heard.ends_with(b"ok")), "{said}: {heard:?}");
    }
    let answered = heard(GET, Script::serving(1)).await;
    assert!(answered.ends_with(b"ok"), "one that has been answered, and asks nothing more");
}

#[tokio::test]
async fn a_client_that_does_not_send_the_rest_is_left() {
    let said = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc";
    assert!(heard(said, Script::new().head().hold()).await.is_empty());
}

#[tokio::test]
async fn a_client_that_does_not_take_its_answer_is_left() {
    let endless = Script::new().head().say("HTTP/1.1 200 OK\r\n\r\n").endless(vec![b'x'; 64 << 10]);
    assert!(!heard(GET, endless).await.is_empty());
}

#[tokio::test]
async fn a_client_that_waits_for_a_backend_is_not() {
    let pause = 4 * MOMENT;
    let slow =
        Script::new().head().wait(pause).say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n").wait(pause).say("ok");
    assert!(heard(GET, slow).await.ends_with(b"ok"));
}

#[tokio::test]
async fn a_client_that_listens_while_it_could_speak_is_not() {
    let said = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
    let mut script = Script::new().head().say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    script = script.times(40, &Script::new().wait(MOMENT / 4).say("4\r\ntick\r\n"));
    let heard = heard(said, script.say("4\r\nlast\r\n0\r\n\r\n")).await;
    let heard = String::from_utf8_lossy(&heard);
    assert!(heard.contains("last"), "{heard}");
}

#[tokio::test]
async fn a_stream_that_is_not_taken_is_reset_and_others_go_on() {
    let house = Arc::new(House::with(Some(MOMENT)).await);
    let served = house.serve_next();
    let agent = http2();
    let uri = format!("http://{}", house.address());
    // More than any client has room for that takes nothing.
    let mut stuck = soon(agent.get(format!("{uri}/chunked/{}", 64 << 20))).await.unwrap();
    let waiting = async {
        loop {
            // The connection is used all the time.
            assert_eq!(soon(agent.get(&*uri)).await.unwrap().status(), 200);
            if !house.is_busy() {
                return;
            }
        }
    };
    soon(waiting).await;
    let broken = async { while let Some(Ok(_)) = stuck.body_mut().frame().await {} };
    soon(broken).await;
    assert_eq!(soon(agent.get(&*uri)).await.unwrap().status(), 200);
    assert!(!served.is_finished(), "on the same connection");
    assert_eq!(house.node.requests(), house.requests.tally.read().1 as usize);
}

#[tokio::test]
async fn a_stream_that_is_taken_slowly_is_whole() {
    const LENGTH: usize = 4 << 20;
    let house = Arc::new(House::with(Some(PATIENCE)).await);
    house.serve_next();
    let agent = http2();
    let mut answer = soon(agent.get(format!("http://{}/chunked/{LENGTH}", house.address()))).await.unwrap();
    let (mut length, mut frames) = (0, 0);
    while let Some(frame) = soon(answer.body_mut().frame()).await {
        length += frame.unwrap().data_ref().map_or(0, |data| data.len());
        frames += 1;
        if frames % 32 == 0 {
            // It takes twice as long in all as it may be silent.
            advance(PATIENCE / 4).await;
        }
    }
    assert_eq!(length, LENGTH);
}

#[tokio::test]
async fn a_body_that_takes_longer_than_the_request_timeout_is_answered_as_long_as_it_flows() {
    let timeout = 2 * PATIENCE;
    let agent = Agent::builder().timeout(timeout).build().unwrap();
    let house = Arc::new(House::of(agent, None, HALF_CLOSE_TIMEOUT).await);
    house.node.script(Script::new().request().answer(200, "ok"));
    house.serve_next();
    let mut client = house.client().await;
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 6\r\n\r\n";
    client.write_all(head).await.unwrap();
    for sent in 1..=6 {
        client.write_all(b"x").await.unwrap();
        let came = |node: &Server| node.seen().first().is_some_and(|seen| seen.body.len() == sent);
        soon(house.node.until(came)).await;
        if sent < 6 {
            advance(timeout / 2).await;
        }
    }
    let mut answer = String::new();
    soon(client.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("ok"), "{answer}");
}

#[tokio::test]
async fn a_client_of_http_2_is_told_before_it_is_left() {
    let hello = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    let heard = heard(&hello, Script::serving(1)).await;
    let (mut rest, mut kinds) = (&heard[..], Vec::new());
    while let [a, b, c, kind, _, _, _, _, _, after @ ..] = rest {
        kinds.push(*kind);
        rest = &after[u32::from_be_bytes([0, *a, *b, *c]) as usize..];
    }
    const GOAWAY: u8 = 7;
    assert!(kinds.contains(&GOAWAY), "{kinds:?}");
}

#[tokio::test]
async fn who_asks_when_the_door_is_closed_is_told_to_come_again_elsewhere() {
    let house = Arc::new(House::with(None).await);
    let served = house.serve_next();
    let mut client = house.client().await;
    client.write_all(GET).await.unwrap();
    let mut answer = vec![0; 1024];
    let count = soon(client.read(&mut answer)).await.unwrap();
    assert!(!String::from_utf8_lossy(&answer[..count]).contains("connection: close"));
    house.door.send_replace(Some(Instant::now() + PATIENCE));
    client.write_all(GET).await.unwrap();
    let mut answer = String::new();
    soon(client.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.contains("\r\nconnection: close\r\n") && answer.ends_with("hello from node-1"), "{answer}");
    soon(served).await.unwrap();
}

#[tokio::test]
async fn a_client_that_is_gone_leaves_nothing_behind() {
    for begun in ["", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun"] {
        let house = Arc::new(House::with(None).await);
        house.node.script(Script::new().request().say(begun).gate());
        let served = house.serve_next();
        let mut client = house.client().await;
        client.write_all(GET).await.unwrap();
        soon(house.node.until(|node| node.at_gate() == 1)).await;
        let mut heard = vec![0; begun.len()];
        soon(client.read_exact(&mut heard)).await.unwrap();
        client.set_zero_linger().unwrap();
        drop(client);
        soon(served).await.unwrap();
        house.at_rest().await;
    }
}

#[tokio::test]
async fn a_request_whose_client_ended_its_side_is_cancelled_while_the_backend_is_silent() {
    let requests = [
        // Through the fast path, with the next request behind it, and through hyper.
        GET.to_vec(),
        GET.repeat(2),
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_vec(),
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc".to_vec(),
    ];
    for request in requests {
        for begun in ["", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun"] {
            let house = Arc::new(House::with_timeouts(None, MOMENT).await);
            house.node.script(Script::new().request().say(begun).gate());
            let served = house.serve_next();
            let mut client = house.client().await;
            client.write_all(&request).await.unwrap();
            soon(house.node.until(|node| node.at_gate() == 1)).await;
            client.shutdown().await.unwrap();
            soon(served).await.unwrap();
            house.at_rest().await;
            let (_, served, failed) = house.requests.tally.read();
            assert_eq!((served, failed), (u64::from(!begun.is_empty()), 0), "{begun}");
        }
    }
}

#[tokio::test]
async fn a_client_that_ended_its_side_gets_a_response_that_takes_longer_than_the_timeout() {
    let house = Arc::new(House::with_timeouts(None, 4 * MOMENT).await);
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let pieces = Script::new().wait(MOMENT / 2).say("4\r\ntick\r\n");
    house.node.script(Script::new().request().say(head).times(30, &pieces).say("4\r\nlast\r\n0\r\n\r\n"));
    house.serve_next();
    let mut client = house.client().await;
    client.write_all(GET).await.unwrap();
    client.shutdown().await.unwrap();
    let mut heard = String::new();
    soon(client.read_to_string(&mut heard)).await.unwrap();
    assert!(heard.ends_with("4\r\nlast\r\n0\r\n\r\n"), "{heard}");
}

#[tokio::test]
async fn a_stream_that_is_under_way_is_finished_when_the_door_is_closed() {
    let house = Arc::new(House::with(None).await);
    let served = house.serve_next();
    let agent = http2();
    let uri = format!("http://{}/gate", house.address());
    let asking = tokio::spawn(async move { agent.get(uri).await });
    soon(house.node.until(|node| node.at_gate() == 1)).await;
    house.door.send_replace(Some(Instant::now() + PATIENCE));
    house.node.open_gate();
    let answer = soon(asking).await.unwrap().unwrap();
    assert_eq!(soon(answer.into_body().bytes(100)).await.unwrap(), "hello from node-1");
    soon(served).await.unwrap();
}

#[tokio::test]
async fn an_upgraded_connection_on_which_nothing_is_said_is_ended() {
    let said = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nword";
    let switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    let house = Arc::new(House::with(Some(MOMENT)).await);
    house.node.script(Script::new().head().say(switching).echo().hold());
    let served = house.serve_next();
    let mut client = house.client().await;
    client.write_all(said).await.unwrap();
    soon(served).await.unwrap();
    let mut heard = String::new();
    let _ = soon(client.read_to_string(&mut heard)).await;
    assert!(heard.starts_with("HTTP/1.1 101 ") && heard.ends_with("word"), "{heard}");
    house.at_rest().await;
}

#[tokio::test]
async fn a_stream_of_which_the_rest_does_not_come_is_reset() {
    let house = Arc::new(House::with(Some(MOMENT)).await);
    let served = house.serve_next();
    let agent = http2();
    let uri = format!("http://{}", house.address());
    let body = Body::new(http_body_util::StreamBody::new(futures_util::stream::pending::<
        Result<http_body::Frame<bytes::Bytes>, std::io::Error>,
    >()));
    let request = http::Request::post(&*uri).body(body).unwrap();
    let stuck = tokio::spawn({
        let agent = agent.clone();
        async move { agent.request(request).await.map(drop) }
    });
    while !stuck.is_finished() {
        assert_eq!(soon(agent.get(&*uri)).await.unwrap().status(), 200);
    }
    assert!(stuck.await.unwrap().is_err());
    assert!(!served.is_finished(), "on the same connection");
    house.at_rest().await;
}
