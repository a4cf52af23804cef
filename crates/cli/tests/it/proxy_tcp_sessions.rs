//! TCP services: each client has a connection of its own, that was open before it came.

use crate::proxying::Proxy;
use std::io::ErrorKind;
use std::net::SocketAddr;
use testkit::backends::Nobody;
use testkit::wait::soon;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

async fn backend() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn accept(listener: &TcpListener) -> TcpStream {
    soon(listener.accept()).await.unwrap().0
}

async fn read(socket: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    soon(socket.read_exact(&mut bytes)).await.unwrap();
    bytes
}

async fn rest(socket: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    soon(socket.read_to_end(&mut bytes)).await.unwrap();
    bytes
}

/// It was not ended, but cut.
async fn reset(socket: &mut TcpStream) {
    let error = soon(socket.read(&mut [0; 8])).await.expect_err("it was not all");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

/// A session that the node ends at once; the name of the node.
async fn short_session(proxy: &Proxy) -> u8 {
    let mut client = proxy.connect().await;
    client.write_all(b"end").await.unwrap();
    rest(&mut client).await[0]
}

/// Says its name to everybody who speaks. Ends the session of those who say so.
async fn named_node(name: u8) -> SocketAddr {
    let (listener, address) = backend().await;
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut word = [0; 3];
                while socket.read_exact(&mut word).await.is_ok() {
                    let _ = socket.write_all(&[name]).await;
                    if &word == b"end" {
                        break;
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn long_sessions_that_end_do_not_starve_their_node() {
    let nodes = [named_node(0).await, named_node(1).await];
    let proxy = Proxy::tcp("tcp-long-sessions", &nodes, "spares = 8\nmaximum = 64").await;
    let (mut long, mut others) = (Vec::new(), Vec::new());
    for _ in 0..12 {
        let mut client = proxy.connect().await;
        client.write_all(b"say").await.unwrap();
        match read(&mut client, 1).await[0] {
            0 => long.push(client),
            _ => others.push(client),
        }
    }
    assert!(long.len() >= 3, "{}", long.len());
    drop(others);
    for _ in 0..200 {
        short_session(&proxy).await;
    }
    // They were open for many times as long as the others.
    for mut client in long {
        client.write_all(b"end").await.unwrap();
        rest(&mut client).await;
    }
    proxy.until("all sessions have ended", |health| health["clients"] == 0).await;
    let mut got = [0; 2];
    for _ in 0..60 {
        got[usize::from(short_session(&proxy).await)] += 1;
    }
    assert!(got[0] >= 15, "{got:?}");
}

#[tokio::test]
async fn the_backend_is_connected_to_before_anybody_comes() {
    let (listener, address) = backend().await;
    let proxy = Proxy::tcp("tcp-spare", &[address], "spares = 1\nmaximum = 4").await;
    let mut spare = accept(&listener).await;
    assert_eq!(proxy.health().await["clients"], 0);

    let mut client = proxy.connect().await;
    client.write_all(b"question").await.unwrap();
    assert_eq!(read(&mut spare, 8).await, b"question", "it comes on the connection that was there");
    spare.write_all(b"answer").await.unwrap();
    assert_eq!(read(&mut client, 6).await, b"answer");
    // Another takes its place, for whoever comes next.
    accept(&listener).await;
}

/// A server that shuts down, such as PostgreSQL, would wait for a spare that is connected meanwhile.
#[tokio::test]
async fn spare_closed_by_the_node_is_not_replaced_before_a_client_connects() {
    let (listener, address) = backend().await;
    let proxy = Proxy::tcp("tcp-closed-spare", &[address], "spares = 2").await;
    let (first, mut second) = (accept(&listener).await, accept(&listener).await);
    drop(first);
    assert_eq!(rest(&mut second).await, b"", "the other spare is closed too");
    let mut client = proxy.connect().await;
    client.write_all(b"question").await.unwrap();
    // The next connection is the client's own, and there is none to spare.
    assert_eq!(read(&mut accept(&listener).await, 8).await, b"question");
    let health = proxy.health().await;
    assert_eq!((&health["busy"], &health["idle"]), (&1.into(), &0.into()), "{health}");
}

#[tokio::test]
async fn a_backend_that_speaks_first_is_heard() {
    let (listener, address) = backend().await;
    let proxy = Proxy::tcp("tcp-greeting", &[address], "spares = 1").await;
    let mut spare = accept(&listener).await;
    spare.write_all(b"220 ready\r\n").await.unwrap();
    let mut client = proxy.connect().await;
    assert_eq!(read(&mut client, 11).await, b"220 ready\r\n");
}

#[tokio::test]
async fn each_side_can_end_before_the_other() {
    let (listener, address) = backend().await;
    // One connection at a time, so that it is known which one a client gets.
    let proxy = Proxy::tcp("tcp-half", &[address], "spares = 1\nmaximum = 1").await;

    let mut spare = accept(&listener).await;
    let mut client = proxy.connect().await;
    client.write_all(b"all I have").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(rest(&mut spare).await, b"all I have");
    spare.write_all(b"thank you").await.unwrap();
    drop(spare);
    assert_eq!(rest(&mut client).await, b"thank you");

    let mut spare = accept(&listener).await;
    let mut client = proxy.connect().await;
    // It has a backend when it has been heard.
    client.write_all(b"!").await.unwrap();
    read(&mut spare, 1).await;
    spare.shutdown().await.unwrap();
    assert_eq!(rest(&mut client).await, b"");
    client.write_all(b"and yet").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(rest(&mut spare).await, b"and yet");
    drop((spare, client));
    proxy.until("nobody", |service| service["clients"] == 0 && service["busy"] == 0).await;
    assert_eq!(proxy.health().await["served"], 2);
}

#[tokio::test]
async fn much_goes_both_ways_at_once() {
    const LENGTH: usize = 32 << 20;
    let (listener, address) = backend().await;
    let proxy = Proxy::tcp("tcp-much", &[address], "spares = 1").await;
    let bytes = |seed: usize| (0..LENGTH).map(|at| (at.wrapping_mul(seed) >> 7) as u8).collect::<Vec<u8>>();
    let (there, here) = (accept(&listener).await, proxy.connect().await);
    let exchange = |socket: TcpStream, own: Vec<u8>| async move {
        let (mut reading, mut writing) = socket.into_split();
        let writing = async {
            writing.write_all(&own).await.unwrap();
            writing.shutdown().await.unwrap();
        };
        let mut heard = Vec::new();
        let (_, read) = tokio::join!(writing, reading.read_to_end(&mut heard));
        read.unwrap();
        heard
    };
    let (up, down) = (bytes(31), bytes(57));
    let (heard_there, heard_here) =
        soon(async { tokio::join!(exchange(there, down.clone()), exchange(here, up.clone())) }).await;
    assert!(heard_there == up && heard_here == down, "byte for byte");
}

#[tokio::test]
async fn so_many_have_a_backend_and_others_wait_for_their_turn() {
    let (listener, address) = backend().await;
    let proxy = Proxy::tcp("tcp-maximum", &[address], "spares = 0\nmaximum = 2\nclaim_timeout = \"60s\"").await;
    let mut clients = Vec::new();
    let mut backends = Vec::new();
    for _ in 0..2 {
        clients.push(proxy.connect().await);
        backends.push(accept(&listener).await);
    }
    let mut third = proxy.connect().await;
    third.write_all(b"third").await.unwrap();
    proxy.until("a client in line", |service| service["waiting"] == 1).await;
    assert_eq!(proxy.health().await["busy"], 2);

    // One that leaves while it waits gives its place up.
    let fourth = proxy.connect().await;
    proxy.until("another in line", |service| service["waiting"] == 2).await;
    drop(fourth);
    proxy.until("it has left", |service| service["waiting"] == 1 && service["clients"] == 3).await;

    drop(clients.pop());
    drop(backends.pop());
    let mut next = accept(&listener).await;
    assert_eq!(read(&mut next, 5).await, b"third");
    assert_eq!(proxy.health().await["busy"], 2);
}

#[tokio::test]
async fn without_a_backend_clients_are_closed_and_it_is_told_once() {
    let nobody = Nobody::new().unwrap();
    let more = "spares = 1\nmaximum = 1\nattempts = 1\ndelay = \"10ms\"\nmax_delay = \"20ms\"\noutage_wait = 0";
    let mut proxy = Proxy::tcp("tcp-nobody", &[nobody.address()], more).await;
    proxy.until("the backend is dead", |service| service["backends"]["dead"] == 1).await;
    for _ in 0..3 {
        assert_eq!(rest(&mut proxy.connect().await).await, b"");
    }
    let health = proxy.health().await;
    assert_eq!((&health["failed"], &health["served"]), (&3.into(), &0.into()));

    let listener = nobody.listen().unwrap();
    proxy.until("it is back", |service| service["backends"]["live"] == 1 && service["idle"] == 1).await;
    let mut spare = accept(&listener).await;
    let mut client = proxy.connect().await;
    client.write_all(b"x").await.unwrap();
    read(&mut spare, 1).await;
    proxy.running.told("served again").await;
    let told = proxy.running.heard.matches("clients are closed until").count();
    assert_eq!(told, 1, "{}", proxy.running.heard);
}

#[tokio::test]
async fn a_session_in_which_nothing_is_said_is_ended() {
    let (listener, address) = backend().await;
    let proxy = Proxy::tcp("tcp-idle", &[address], "spares = 1\nidle_timeout = \"200ms\"").await;
    let mut spare = accept(&listener).await;
    let mut client = proxy.connect().await;
    client.write_all(b"hello").await.unwrap();
    read(&mut spare, 5).await;
    // Neither is to believe that it has heard everything.
    reset(&mut client).await;
    reset(&mut spare).await;
    proxy.until("nobody", |service| service["clients"] == 0 && service["busy"] == 0).await;
}

#[tokio::test]
async fn session_ends_after_the_client_left_while_the_node_ignores_the_end() {
    let (listener, address) = backend().await;
    let proxy = Proxy::tcp("tcp-half-closed", &[address], "spares = 1\nhalf_close_timeout = \"200ms\"").await;
    let mut spare = accept(&listener).await;
    let mut client = proxy.connect().await;
    client.write_all(b"bye").await.unwrap();
    read(&mut spare, 3).await;
    drop(client);
    // The node sees the end, does not close, and is cut off.
    assert_eq!(soon(spare.read(&mut [0; 8])).await.unwrap(), 0);
    proxy.until("the session has ended", |service| service["clients"] == 0 && service["busy"] == 0).await;
    let error = soon(async {
        loop {
            if let Err(error) = spare.write_all(b"still here").await {
                break error;
            }
        }
    });
    assert!(matches!(error.await.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe));
}

#[tokio::test]
async fn session_ends_after_the_node_left_while_the_client_ignores_the_end() {
    let (listener, address) = backend().await;
    let proxy = Proxy::tcp("tcp-half-closed-node", &[address], "spares = 1\nhalf_close_timeout = \"200ms\"").await;
    let mut spare = accept(&listener).await;
    let mut client = proxy.connect().await;
    client.write_all(b"hello").await.unwrap();
    read(&mut spare, 5).await;
    drop(spare);
    assert_eq!(soon(client.read(&mut [0; 8])).await.unwrap(), 0);
    proxy.until("the session has ended", |service| service["clients"] == 0 && service["busy"] == 0).await;
}

#[tokio::test]
async fn a_broken_backend_is_no_clean_end() {
    let (listener, address) = backend().await;
    let proxy = Proxy::tcp("tcp-broken", &[address], "spares = 1").await;
    let mut spare = accept(&listener).await;
    let mut client = proxy.connect().await;
    client.write_all(b"x").await.unwrap();
    read(&mut spare, 1).await;
    spare.set_zero_linger().unwrap();
    drop(spare);
    reset(&mut client).await;
}

#[tokio::test]
async fn a_broken_client_is_no_clean_end() {
    let (listener, address) = backend().await;
    let proxy = Proxy::tcp("tcp-broken-client", &[address], "spares = 1").await;
    let mut spare = accept(&listener).await;
    let mut client = proxy.connect().await;
    client.write_all(b"half of").await.unwrap();
    read(&mut spare, 7).await;
    client.set_zero_linger().unwrap();
    drop(client);
    reset(&mut spare).await;
}

#[tokio::test]
async fn what_takes_too_long_is_cut_when_the_service_ends() {
    let (listener, address) = backend().await;
    let proxy = Proxy::tcp("tcp-cut", &[address], "spares = 1\ndrain_timeout = \"100ms\"").await;
    let mut spare = accept(&listener).await;
    let mut client = proxy.connect().await;
    client.write_all(b"x").await.unwrap();
    read(&mut spare, 1).await;
    let mut running = proxy.running;
    running.signal("-TERM").await;
    reset(&mut client).await;
    reset(&mut spare).await;
    assert_eq!(soon(running.child.wait()).await.unwrap().code(), Some(0));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_system_asks_whether_backends_are_still_there() {
    let (listener, address) = backend().await;
    let _proxy = Proxy::tcp("tcp-keepalive", &[address], "spares = 1").await;
    let spare = accept(&listener).await;
    // It is connected before it is told to ask.
    soon(async {
        while !crate::proxying::is_kept_alive(spare.peer_addr().unwrap()) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
    assert!(!crate::proxying::is_kept_alive(address), "nobody has asked this side to");
}

#[tokio::test]
async fn beyond_so_many_clients_are_turned_away() {
    let (listener, address) = backend().await;
    let proxy = Proxy::tcp("tcp-clients", &[address], "spares = 1\nmaximum = 1\nmax_clients = 1").await;
    let mut spare = accept(&listener).await;
    let mut first = proxy.connect().await;
    first.write_all(b"x").await.unwrap();
    read(&mut spare, 1).await;
    assert_eq!(rest(&mut proxy.connect().await).await, b"");
    drop((first, spare));
    proxy.until("it has left", |service| service["clients"] == 0).await;
    let mut spare = accept(&listener).await;
    let mut second = proxy.connect().await;
    second.write_all(b"y").await.unwrap();
    assert_eq!(read(&mut spare, 1).await, b"y");
}

#[tokio::test]
async fn a_session_goes_on_while_the_service_ends() {
    let (listener, address) = backend().await;
    let proxy = Proxy::tcp("tcp-drain", &[address], "spares = 1\ndrain_timeout = \"60s\"").await;
    let mut spare = accept(&listener).await;
    let mut client = proxy.connect().await;
    client.write_all(b"x").await.unwrap();
    read(&mut spare, 1).await;
    let at = proxy.address;
    let mut running = proxy.running;
    running.signal("-TERM").await;
    running.told("stopping").await;
    assert!(TcpStream::connect(at).await.is_err(), "nobody is let in any more");
    client.write_all(b"still here").await.unwrap();
    assert_eq!(read(&mut spare, 10).await, b"still here");
    drop((client, spare));
    assert_eq!(soon(running.child.wait()).await.unwrap().code(), Some(0));
}
