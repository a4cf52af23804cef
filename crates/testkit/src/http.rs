//! HTTP servers that do what a test tells them to, over real sockets, and remember what they saw.
//!
//! A [`Server`] behaves well (HTTP/1.1 and HTTP/2, as clients come) until it is given a [`Script`]: then it says what stands
//! there, byte by byte, to every connection that it accepts from then on.
//!
//! ```
//! use testkit::http::{Script, Server};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use tokio::net::TcpStream;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let server = Server::start("node-1").await?;
//! server.script(Script::new().request().say("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").close());
//!
//! let mut client = TcpStream::connect(server.address()).await?;
//! client.write_all(b"GET /orders HTTP/1.1\r\nhost: api.test\r\n\r\n").await?;
//! let mut answer = String::new();
//! client.read_to_string(&mut answer).await?;
//! assert!(answer.ends_with("half"));
//! assert_eq!(server.seen()[0].target, "/orders");
//! # Ok(()) }) }
//! ```
//!
//! A server that behaves well names itself in the header `x-node` and answers by path:
//!
//! | path | answer |
//! |---|---|
//! | `/status/503` | that status, without a body |
//! | `/bytes/1000` | so many bytes, their number said in advance |
//! | `/chunked/1000` | so many bytes, their number not said |
//! | `/trailers` | four bytes, then the trailer `x-sum: 4` (on HTTP/1, for those who say `te: trailers`) |
//! | `/stream` | the head at once, then the body of the request, piece by piece as it comes |
//! | `/gate` | as any other, when the test has [opened](Server::open_gate) it |
//! | any other | the body of the request, or `hello from` the node if there is none |

mod certificates;
mod conversation;
mod good;
mod request;
mod script;
mod socket;
mod world;

pub use certificates::{Authority, Certificate};
pub use request::Seen;
pub use script::Script;

use crate::listening::{self, Listening, Port};
use crate::shared::Shared;
use socket::Ending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use world::{Conduct, World};

/// A server on a port of 127.0.0.1. Its drop stops it.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared<World>>,
    listening: Listening,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Starts one that speaks plain HTTP and goes by this name. It listens when this returns.
    pub async fn start(name: &str) -> io::Result<Server> {
        Server::started(name, None)
    }

    /// Starts one that speaks TLS, as told by this: its certificates, and what it offers by ALPN.
    pub async fn start_tls(name: &str, config: Arc<ServerConfig>) -> io::Result<Server> {
        Server::started(name, Some(TlsAcceptor::from(config)))
    }

    fn started(name: &str, tls: Option<TlsAcceptor>) -> io::Result<Server> {
        let (listening, listeners) = Listening::start(Port::reserve()?)?;
        let shared = Arc::new(Shared::new(World::new(name)));
        let mut tasks = JoinSet::new();
        let world = Arc::clone(&shared);
        tasks.spawn(listening::serve(listeners, move |stream, _| socket::welcome(&world, stream, tls.clone())));
        Ok(Server { shared, listening, _tasks: tasks })
    }

    /// Where it listens; the same after every revival.
    pub fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// What it calls itself.
    pub fn name(&self) -> Arc<str> {
        Arc::clone(&self.shared.lock().name)
    }

    /// A URL with this path at this server: `http`, by its address.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address())
    }

    /// Connections from now on are spoken to as this says.
    pub fn script(&self, script: Script) {
        self.scripts(move |_| script.clone());
    }

    /// Connections from now on are spoken to as this chooses for each: it is told the connection's number.
    pub fn scripts(&self, choose: impl FnMut(usize) -> Script + Send + 'static) {
        self.shared.change(|world| world.conduct = Conduct::Scripted(Box::new(choose)));
    }

    /// Connections from now on are served well.
    pub fn behave(&self) {
        self.shared.change(|world| world.conduct = Conduct::Good);
    }

    /// While it behaves well, this is the status of every answer that has none by its path.
    pub fn set_status(&self, status: u16) {
        self.shared.change(|world| world.status = status);
    }

    /// While it behaves well, it takes that long for every answer.
    pub fn set_delay(&self, delay: Duration) {
        self.shared.change(|world| world.delay = delay);
    }

    /// Whoever waits at the gate goes on, and nobody waits there from now on.
    pub fn open_gate(&self) {
        self.shared.change(|world| world.gate_open = true);
    }

    /// Whoever comes to the gate from now on waits there.
    pub fn close_gate(&self) {
        self.shared.change(|world| world.gate_open = false);
    }

    /// How many are waiting at the gate.
    pub fn at_gate(&self) -> usize {
        self.shared.lock().at_gate
    }

    /// Ends every connection in the orderly way; all have ended when this returns, and it still listens.
    pub async fn cut(&self) {
        self.end_all(Ending::Orderly).await;
    }

    /// Resets every connection; all have ended when this returns, and it still listens.
    pub async fn reset(&self) {
        self.end_all(Ending::Reset).await;
    }

    /// Resets every connection and stops listening: connections are refused when this returns.
    pub async fn kill(&self) {
        self.listening.refuse().await;
        self.end_all(Ending::Reset).await;
    }

    /// Listens again on the same port.
    pub fn revive(&self) -> io::Result<()> {
        self.listening.restart()
    }

    async fn end_all(&self, ending: Ending) {
        let last = self.shared.change(|world| world.end_all(ending));
        self.until(|server| server.shared.lock().all_ended_before(last)).await;
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.shared.lock().open.len()
    }

    /// How many connections there have been.
    pub fn accepted(&self) -> usize {
        self.shared.lock().accepted
    }

    /// The requests, in the order in which their heads came, with what was read of their bodies.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.lock().seen.clone()
    }

    /// How many requests there have been.
    pub fn requests(&self) -> usize {
        self.shared.lock().seen.len()
    }

    /// Waits until this holds; it is asked whenever something has changed here.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn until(&self, condition: impl Fn(&Server) -> bool) {
        let mut changes = self.shared.changes();
        while !condition(self) {
            changes.changed().await.expect("the sender lives as long as this server");
        }
    }
}

#[cfg(test)]
mod tests;
