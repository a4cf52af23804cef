//! Suspect connections: after a restart of the only node, only uses fail that began before the first failure was seen.

use carom::tcp::Tcp;
use carom::{Backend, Claim, Connect, Liveness, Pool, connect_fn, managers};
use deadpool::managed::{Metrics, RecycleResult};
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::wait::{ms, soon};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

const CONNECTIONS: usize = 8;

/// A node that can be restarted. A connection works until then, and nothing tells that it does not but a round trip.
#[derive(Clone, Default)]
struct Node {
    restarts: Arc<AtomicUsize>,
    checks: Arc<AtomicUsize>,
}

struct Wire {
    node: Node,
    restarts: usize,
}

impl Node {
    fn connect(&self) -> Wire {
        Wire { node: self.clone(), restarts: self.restarts.load(Ordering::Relaxed) }
    }

    fn restart(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    fn checks(&self) -> usize {
        self.checks.load(Ordering::Relaxed)
    }
}

impl Wire {
    fn round_trip(&self) -> io::Result<()> {
        let works = self.restarts == self.node.restarts.load(Ordering::Relaxed);
        if works { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    fn check(&self) -> io::Result<()> {
        self.node.checks.fetch_add(1, Ordering::Relaxed);
        self.round_trip()
    }
}

/// Checks its connections.
struct Checked(Node);

impl Connect for Checked {
    type Connection = Wire;
    type Error = io::Error;

    async fn connect(&self, _: &Backend) -> io::Result<Wire> {
        Ok(self.0.connect())
    }

    fn check(&self, wire: &mut Wire) -> Option<impl Future<Output = io::Result<()>> + Send> {
        Some(async { wire.check() })
    }
}

struct Manager(Node);

impl bb8::ManageConnection for Manager {
    type Connection = Wire;
    type Error = io::Error;

    async fn connect(&self) -> io::Result<Wire> {
        Ok(self.0.connect())
    }

    async fn is_valid(&self, wire: &mut Wire) -> io::Result<()> {
        wire.check()
    }

    fn has_broken(&self, _: &mut Wire) -> bool {
        false
    }
}

impl deadpool::managed::Manager for Manager {
    type Type = Wire;
    type Error = io::Error;

    async fn create(&self) -> io::Result<Wire> {
        Ok(self.0.connect())
    }

    async fn recycle(&self, wire: &mut Wire, _: &Metrics) -> RecycleResult<io::Error> {
        Ok(wire.check()?)
    }
}

/// A pool with all its connections idle.
async fn idle<C: Connect>(connector: C) -> Pool<C> {
    let node: std::net::SocketAddr = ([10, 0, 0, 1], 5432).into();
    let pool = Pool::builder(connector).backends([node]).spares(CONNECTIONS).maximum(CONNECTIONS).build().unwrap();
    let mut claims = Vec::new();
    for _ in 0..CONNECTIONS {
        claims.push(pool.claim().await.unwrap());
    }
    drop(claims);
    sleep(ms(2_000)).await;
    pool
}

/// The node restarts, a use fails, and ends as `end` has it. From then on every claim is of use.
async fn one_use_fails<C: Connect>(
    node: &Node,
    pool: Pool<C>,
    round_trip: fn(&C::Connection) -> io::Result<()>,
    end: impl Fn(Claim<C>, io::Error),
) {
    node.restart();
    let claim = pool.claim().await.unwrap();
    let error = round_trip(&claim).unwrap_err();
    end(claim, error);
    // A check after use takes no time, but the driver has to come to it.
    sleep(ms(1)).await;
    for _ in 0..3 {
        let mut claims = Vec::new();
        for _ in 0..CONNECTIONS {
            let claim = pool.claim().await.unwrap();
            round_trip(&claim).expect("it was opened after the restart");
            claims.push(claim);
        }
    }
    assert!(pool.snapshot().pool.counts.suspects() == 0);
}

#[tokio::test(start_paused = true)]
async fn restart_with_a_check_fails_one_use() {
    let node = Node::default();
    let pool = idle(Checked(node.clone())).await;
    one_use_fails(&node, pool, Wire::round_trip, |claim, error| claim.fail(error)).await;
    assert!(node.checks() > 0, "suspects are checked");
}

#[tokio::test(start_paused = true)]
async fn restart_without_liveness_and_check_fails_one_use() {
    let node = Node::default();
    let to = node.clone();
    let connector = connect_fn(move |_| {
        let wire = to.connect();
        async { Ok::<_, io::Error>(wire) }
    });
    let pool = idle(connector).await;
    one_use_fails(&node, pool, Wire::round_trip, |claim, error| claim.fail(error)).await;
}

#[tokio::test(start_paused = true)]
async fn restart_fails_one_use_of_a_bb8_manager_without_any_report() {
    let node = Node::default();
    let to = node.clone();
    let pool = idle(managers::bb8::from_managers(move |_| Manager(to.clone()))).await;
    one_use_fails(&node, pool, |managed| managed.round_trip(), |claim, _| drop(claim)).await;
}

#[tokio::test(start_paused = true)]
async fn restart_fails_one_use_of_a_deadpool_manager_without_any_report() {
    let node = Node::default();
    let to = node.clone();
    let pool = idle(managers::deadpool::from_managers(move |_| Manager(to.clone()))).await;
    one_use_fails(&node, pool, |managed| managed.round_trip(), |claim, _| drop(claim)).await;
}

/// One connection breaks, the node does not.
#[tokio::test(start_paused = true)]
async fn suspects_that_pass_their_check_stay_connected() {
    let node = Node::default();
    let pool = idle(Checked(node.clone())).await;
    pool.claim().await.unwrap().fail("statement timed out");
    sleep(ms(1)).await;
    assert_eq!(node.checks(), CONNECTIONS - 1);
    let snapshot = pool.snapshot();
    assert_eq!((snapshot.pool.counts.of(carom::pool::Phase::Idle), snapshot.pool.counts.suspects()), (CONNECTIONS, 0));
    assert_eq!(pool.claim().await.unwrap().uses(), 1, "the new one was used last, when it was connected");
}

/// The TCP connector sees every reset, so that no use after the first fails.
#[tokio::test]
async fn restart_of_a_tcp_node_fails_the_use_under_way_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = listener.local_addr().unwrap();
    let pool = Pool::builder(Tcp::default()).backends([node]).spares(4).maximum(4).build().unwrap();
    let mut far = Vec::new();
    for _ in 0..4 {
        far.push(soon(listener.accept()).await.unwrap().0);
    }
    let mut claims = Vec::new();
    for _ in 0..4 {
        claims.push(soon(pool.claim()).await.unwrap());
    }
    let mut used = claims.pop().unwrap();
    drop(claims);
    for socket in far {
        socket.set_zero_linger().unwrap();
    }
    assert!(soon(used.read(&mut [0])).await.is_err());
    drop(used);

    let serving = tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::spawn(async move { echo(&mut socket).await });
        }
    });
    let mut claims = Vec::new();
    for _ in 0..4 {
        let mut claim = soon(pool.claim()).await.unwrap();
        claim.write_all(b"!").await.unwrap();
        assert_eq!(soon(claim.read_u8()).await.unwrap(), b'!');
        claims.push(claim);
    }
    assert!(matches!(Tcp::default().liveness(&mut claims[0]), Liveness::Open));
    serving.abort();
}

async fn echo(socket: &mut TcpStream) -> io::Result<()> {
    let (mut read, mut write) = socket.split();
    tokio::io::copy(&mut read, &mut write).await.map(drop)
}
