//! Listening: peers are let in, and each has a task of its own until it leaves or the bus is closed.

use super::shared::Shared;
use super::{receiving, sending};
use crate::accepting::Accepting;
use carom_zmtp::SocketError;
use carom_zmtp::pubsub::{Limits, Role, Socket};
use socket2::{SockRef, TcpKeepalive};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// Most connections at a time.
const PEERS: usize = 1_000;

/// How long a peer may take to say what it speaks.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// After so much silence a peer's machine is asked whether it is there.
const SILENCE: Duration = Duration::from_secs(60);

/// Which of the two binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Sub,
    Pub,
}

/// Whether the bus is closed, and until when it lingers.
pub(super) type Stop = watch::Receiver<Option<Instant>>;

/// Lets peers in until the bus is closed, then waits until they have what is theirs. `_ends` is dropped with the last.
pub(super) async fn run(
    shared: Arc<Shared>,
    listener: TcpListener,
    side: Side,
    mut stop: Stop,
    _ends: watch::Sender<()>,
) {
    let mut accepting = Accepting::new(listener, "peers of a ZeroMQ bus");
    let mut peers = JoinSet::new();
    loop {
        let (stream, from) = tokio::select! {
            biased;
            _ = stop.wait_for(Option::is_some) => break,
            Some(_) = peers.join_next() => continue,
            accepted = accepting.next() => accepted,
        };
        if peers.len() < PEERS {
            peers.spawn(serve(Arc::clone(&shared), stream, from, side, stop.clone()));
        } else {
            shared.refused();
            tracing::debug!(%from, "a peer of a ZeroMQ bus is turned away: {PEERS} are there");
        }
    }
    drop(accepting);
    while peers.join_next().await.is_some() {}
}

async fn serve(shared: Arc<Shared>, stream: TcpStream, from: SocketAddr, side: Side, mut stop: Stop) {
    let (role, limits) = match side {
        Side::Sub => (Role::Subscriber, receiving::LIMITS),
        Side::Pub => (Role::Publisher, sending::LIMITS),
    };
    let opened = tokio::select! {
        biased;
        _ = stop.wait_for(Option::is_some) => return,
        opened = open(stream, role, limits) => opened,
    };
    let socket = match opened {
        Ok(socket) => socket,
        Err(why) => {
            shared.refused();
            tracing::debug!(%from, why, "a peer of a ZeroMQ bus is turned away");
            return;
        }
    };
    let _present = shared.present();
    tracing::debug!(%from, "a peer of a ZeroMQ bus has come");
    let left = match side {
        Side::Sub => receiving::run(&shared, socket, stop).await,
        Side::Pub => sending::run(&shared, socket, stop).await,
    };
    match left {
        Ok(()) => tracing::debug!(%from, "a peer of a ZeroMQ bus is left"),
        Err(SocketError::Protocol(error)) => tracing::warn!(%from, %error, "a peer of a ZeroMQ bus makes no sense"),
        Err(error) => tracing::debug!(%from, %error, "a peer of a ZeroMQ bus has left"),
    }
}

async fn open(stream: TcpStream, role: Role, limits: Limits) -> Result<Socket, String> {
    // A peer whose machine has gone says nothing any more, and would be kept for ever.
    let keepalive = TcpKeepalive::new().with_time(SILENCE);
    if let Err(error) = SockRef::from(&stream).set_tcp_keepalive(&keepalive) {
        tracing::debug!(%error, "a connection cannot be watched");
    }
    match timeout(HANDSHAKE, Socket::open(stream, role, limits)).await {
        Ok(opened) => opened.map_err(|error| error.to_string()),
        Err(_) => Err("it says nothing".to_owned()),
    }
}
