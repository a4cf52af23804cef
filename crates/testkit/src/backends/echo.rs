//! A real TCP server that sends every line back, and can be told to stop, hang, or reset.
//!
//! ```
//! use testkit::backends::EchoServer;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use tokio::net::TcpStream;
//!
//! # fn main() -> std::io::Result<()> {
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let mut server = EchoServer::start().await?;
//! let mut client = TcpStream::connect(server.addr()).await?;
//! client.write_all(b"hello\n").await?;
//! let mut reply = [0; 6];
//! client.read_exact(&mut reply).await?;
//! assert_eq!(&reply, b"hello\n");
//!
//! server.stop().await;
//! assert!(TcpStream::connect(server.addr()).await.is_err());
//! server.restart().await?;
//! TcpStream::connect(server.addr()).await?;
//! # Ok(()) }) }
//! ```

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::select;
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

/// A server on a loopback port that the system chose. Its drop stops it.
#[derive(Debug)]
pub struct EchoServer {
    address: SocketAddr,
    /// Bound and never listening: keeps the port from everybody else while the server is stopped.
    _reserved: Option<TcpSocket>,
    shared: Arc<Shared>,
    running: Option<Running>,
}

/// What the server does with those who come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Sends every line back.
    Echo,
    /// Accepts, reads and never answers, those already connected included. What it read meanwhile stays unanswered.
    Hang,
    /// Accepts and resets at once; those already connected are served. (Stopped, it refuses before accepting.)
    Refuse,
}

impl EchoServer {
    /// Starts a server on a port of its own, in [`Mode::Echo`]. It listens when this returns.
    pub async fn start() -> io::Result<EchoServer> {
        let reserved = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = reserved.local_addr()?;
        let (reserved, listener) = match listen(address) {
            Ok(listener) => (Some(reserved), listener),
            // Not every system lets a reserved port be listened on by another socket: then it is not reserved.
            Err(_) => {
                drop(reserved);
                (None, listen(address)?)
            }
        };
        let shared = Arc::new(Shared { mode: Mutex::new(Mode::Echo), counts: watch::Sender::new(Counts::default()) });
        let running = Some(Running::start(listener, &shared));
        Ok(EchoServer { address, _reserved: reserved, shared, running })
    }

    /// Where it listens; the same after every restart.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// How many connections are open now.
    pub fn connections(&self) -> usize {
        self.shared.counts.borrow().open
    }

    /// How many connections were ever accepted, those reset at once included.
    pub fn accepted(&self) -> usize {
        self.shared.counts.borrow().accepted
    }

    /// Changes what it does from now on.
    pub fn set_mode(&self, mode: Mode) {
        *self.shared.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
    }

    /// Stops listening and ends all connections: both have happened when this returns. Stopped again, it does nothing.
    pub async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            drop(running.stop);
            running.task.await.expect("the server failed");
        }
    }

    /// Stops it if it runs, and listens on the same port again. The mode stays.
    pub async fn restart(&mut self) -> io::Result<()> {
        self.stop().await;
        self.running = Some(Running::start(listen(self.address)?, &self.shared));
        Ok(())
    }

    /// Waits until the condition holds, asking again whenever a connection comes or goes.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn until(&self, condition: impl Fn(&EchoServer) -> bool) {
        let mut counts = self.shared.counts.subscribe();
        while !condition(self) {
            counts.changed().await.expect("the sender lives as long as this server");
        }
    }
}

#[derive(Debug)]
struct Shared {
    mode: Mutex<Mode>,
    counts: watch::Sender<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    open: usize,
    accepted: usize,
}

impl Shared {
    fn mode(&self) -> Mode {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Running {
    /// Its drop is the signal, so that dropping the server stops it too.
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    fn start(listener: TcpListener, shared: &Arc<Shared>) -> Running {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(serve(listener, Arc::clone(shared), stopped));
        Running { stop, task }
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>, mut stopped: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        select! {
            _ = &mut stopped => break,
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => {
                    let counted = Counted::open(&shared);
                    if shared.mode() == Mode::Refuse {
                        // It may have gone by itself already.
                        let _ = socket.set_zero_linger();
                    } else {
                        connections.spawn(async move { echo(socket, &counted.shared).await });
                    }
                }
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => panic!("accepting failed: {error}"),
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    connections.shutdown().await;
}

/// An error is the client's way of going.
async fn echo(socket: TcpStream, shared: &Shared) {
    let _ = socket.set_nodelay(true);
    let mut socket = BufReader::new(socket);
    let mut line = Vec::new();
    while socket.read_until(b'\n', &mut line).await.is_ok_and(|count| count > 0) {
        if shared.mode() != Mode::Hang && socket.write_all(&line).await.is_err() {
            return;
        }
        line.clear();
    }
}

/// One in the count of open connections, however its task ends.
struct Counted {
    shared: Arc<Shared>,
}

impl Counted {
    fn open(shared: &Arc<Shared>) -> Counted {
        shared.counts.send_modify(|counts| {
            counts.accepted += 1;
            counts.open += 1;
        });
        Counted { shared: Arc::clone(shared) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.shared.counts.send_modify(|counts| counts.open -= 1);
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    bind(address)?.listen(1024)
}

/// With `SO_REUSEADDR`: connections of an earlier run that linger in the system do not block the port.
fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    async fn ask(client: &mut TcpStream, line: &[u8]) -> io::Result<Vec<u8>> {
        client.write_all(line).await?;
        let mut reply = vec![0; line.len()];
        client.read_exact(&mut reply).await?;
        Ok(reply)
    }

    #[tokio::test]
    async fn lines_come_back_and_connections_are_counted() {
        let server = EchoServer::start().await.unwrap();
        let mut one = TcpStream::connect(server.addr()).await.unwrap();
        let mut two = TcpStream::connect(server.addr()).await.unwrap();
        assert_eq!(ask(&mut one, b"a line\n").await.unwrap(), b"a line\n");
        assert_eq!(ask(&mut two, b"two\nlines\n").await.unwrap(), b"two\nlines\n");
        assert_eq!((server.connections(), server.accepted()), (2, 2));
        drop(one);
        server.until(|server| server.connections() == 1).await;
        assert_eq!(server.accepted(), 2);
    }

    #[tokio::test]
    async fn stopping_ends_everything_and_restarting_takes_the_same_port() {
        let mut server = EchoServer::start().await.unwrap();
        for _ in 0..3 {
            let mut client = TcpStream::connect(server.addr()).await.unwrap();
            assert_eq!(ask(&mut client, b"x\n").await.unwrap(), b"x\n");
            server.stop().await;
            assert_eq!(server.connections(), 0);
            assert!(matches!(client.read(&mut [0]).await, Ok(0) | Err(_)));
            let refused = TcpStream::connect(server.addr()).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            server.restart().await.unwrap();
        }
        assert_eq!(server.accepted(), 3);
    }

    #[tokio::test]
    async fn dropping_the_server_stops_it() {
        let server = EchoServer::start().await.unwrap();
        let mut client = TcpStream::connect(server.addr()).await.unwrap();
        assert_eq!(ask(&mut client, b"x\n").await.unwrap(), b"x\n");
        drop(server);
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn hanging_it_reads_and_stays_silent() {
        let server = EchoServer::start().await.unwrap();
        let mut client = TcpStream::connect(server.addr()).await.unwrap();
        assert_eq!(ask(&mut client, b"before\n").await.unwrap(), b"before\n");
        server.set_mode(Mode::Hang);
        client.write_all(b"unheard\n").await.unwrap();
        // The client goes, the server notices, and has not answered: nothing but the end is left to read.
        client.shutdown().await.unwrap();
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        server.until(|server| server.connections() == 0).await;
    }

    #[tokio::test]
    async fn refusing_it_resets_newcomers_and_serves_the_others() {
        let server = EchoServer::start().await.unwrap();
        let mut early = TcpStream::connect(server.addr()).await.unwrap();
        assert_eq!(ask(&mut early, b"x\n").await.unwrap(), b"x\n");
        server.set_mode(Mode::Refuse);
        let mut late = TcpStream::connect(server.addr()).await.unwrap();
        assert_eq!(late.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(ask(&mut early, b"y\n").await.unwrap(), b"y\n");
        assert_eq!((server.connections(), server.accepted()), (1, 2));
    }
}
