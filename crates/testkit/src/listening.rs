//! Ports that a test has for itself, and listeners on them that come and go.

use socket2::{Domain, Protocol, Socket, Type};
use std::future::pending;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

/// A port, and whoever listens on it or not.
#[derive(Debug)]
pub(crate) struct Listening {
    port: Port,
    ears: watch::Sender<Option<Arc<Ears>>>,
    closed: Mutex<Option<oneshot::Receiver<()>>>,
}

impl Listening {
    /// Listens on this port. What is received says on which listener to accept, and ends with this.
    pub(crate) fn start(port: Port) -> io::Result<(Listening, watch::Receiver<Option<Arc<Ears>>>)> {
        let (opened, closed) = port.open()?;
        let (ears, changes) = watch::channel(Some(opened));
        Ok((Listening { port, ears, closed: Mutex::new(Some(closed)) }, changes))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// The system refuses new connections when this returns.
    pub(crate) async fn refuse(&self) {
        self.ears.send_replace(None);
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(closed) = closed {
            let _ = closed.await;
        }
    }

    /// Listens again, if it does not.
    pub(crate) fn restart(&self) -> io::Result<()> {
        if self.ears.borrow().is_none() {
            let (opened, until) = self.port.open()?;
            self.ears.send_replace(Some(opened));
            *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
        }
        Ok(())
    }
}

/// An address of our own, whether the broker listens or not.
#[derive(Debug)]
pub(crate) struct Port {
    address: SocketAddr,
    /// Bound and deaf: it keeps the port from everybody else.
    _reserved: Socket,
}

impl Port {
    pub(crate) fn reserve() -> io::Result<Port> {
        let reserved = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = reserved.local_addr()?.as_socket().ok_or(ErrorKind::AddrNotAvailable)?;
        Ok(Port { address, _reserved: reserved })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens, until all have let go of the ears; the other end learns when that is so.
    fn open(&self) -> io::Result<(Arc<Ears>, oneshot::Receiver<()>)> {
        let socket = bind(self.address)?;
        socket.listen(1024)?;
        let (open, closed) = oneshot::channel();
        Ok((Arc::new(Ears { listener: TcpListener::from_std(socket.into())?, _open: open }), closed))
    }
}

/// The listener goes first, then who waits for that is told.
#[derive(Debug)]
pub(crate) struct Ears {
    listener: TcpListener,
    _open: oneshot::Sender<()>,
}

/// With `SO_REUSEADDR`: beside the socket that reserves the port, and whatever lingers of earlier connections.
fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Accepts while somebody listens, and has every connection looked after by a task of its own; ends when nobody can listen any
/// more, and all tasks with it.
pub(crate) async fn serve<F: Future<Output = ()> + Send + 'static>(
    mut listeners: watch::Receiver<Option<Arc<Ears>>>,
    mut welcome: impl FnMut(TcpStream, SocketAddr) -> F,
) {
    let mut tasks = JoinSet::new();
    loop {
        let ears = listeners.borrow_and_update().clone();
        select! {
            changed = listeners.changed() => if changed.is_err() {
                break;
            },
            accepted = accept(ears.as_deref()) => match accepted {
                Ok((stream, peer)) => drop(tasks.spawn(welcome(stream, peer))),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => panic!("accepting failed: {error}"),
            },
            Some(_) = tasks.join_next() => {}
        }
    }
    tasks.shutdown().await;
}

/// Never, if nobody listens.
async fn accept(ears: Option<&Ears>) -> io::Result<(TcpStream, SocketAddr)> {
    match ears {
        Some(ears) => ears.listener.accept().await,
        None => pending().await,
    }
}
