//! A DNS server that says what a test tells it to, over real sockets, and remembers what it was asked.
//!
//! ```
//! use hickory_proto::op::{Message, Query};
//! use testkit::dns::{Answer, DnsServer, Name, RecordType};
//! use tokio::net::UdpSocket;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let server = DnsServer::start().await?;
//! let zone = server.zone();
//! zone.srv("_http._tcp.api.test", 30, [(0, 10, 8080, "a.api.test"), (0, 10, 8080, "b.api.test")]);
//! zone.a("a.api.test", 60, ["10.0.0.1", "10.0.0.2"]);
//! zone.soa("test", 900, 5);
//! zone.answer("b.api.test", RecordType::A, Answer::SERVFAIL.times(2, Answer::Records));
//!
//! let mut request = Message::query();
//! request.add_query(Query::query(Name::from_ascii("a.api.test.")?, RecordType::A));
//! let client = UdpSocket::bind("127.0.0.1:0").await?;
//! client.send_to(&request.to_vec()?, server.address()).await?;
//! let mut reply = [0; 512];
//! let length = client.recv(&mut reply).await?;
//! assert_eq!(Message::from_vec(&reply[..length])?.answers.len(), 2);
//! assert_eq!(server.asked(), ["a.api.test A"]);
//! # Ok(()) }) }
//! ```
//!
//! A name that nobody gave records has NXDOMAIN for an answer; a name that has others, or that has names with records below
//! it, has none of the kind (NODATA). Both carry the SOA of the closest zone above that has one. CNAMEs are followed as far as
//! the records go. What does not fit into the size that the client named (512 without EDNS0) is cut over UDP and whole over
//! TCP. Spelling does not matter; the question comes back as it was spelled.

mod answer;
mod reply;
mod sockets;
mod zone;

pub use answer::{Answer, Edit};
pub use hickory_proto::op::{Message, ResponseCode};
pub use hickory_proto::rr::{Name, RecordType};
pub use zone::Zone;

use reply::Step;
use sockets::{Port, Sockets};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use zone::Script;

/// A server on a loopback port, the same for UDP and TCP. Its drop stops it.
#[derive(Debug)]
pub struct DnsServer {
    port: Port,
    shared: Arc<Shared>,
    running: Option<Running>,
}

/// One question that the server heard, answered or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// In lower case, without the dot at the end.
    pub name: String,
    /// What was asked for.
    pub kind: RecordType,
    /// How it came.
    pub over: Over,
    /// The UDP size that the client named, if it sent EDNS0.
    pub edns: Option<u16>,
    /// When it came.
    pub at: Instant,
}

/// How a question came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// In a datagram.
    Udp,
    /// On a connection.
    Tcp,
}

impl DnsServer {
    /// Starts a server without records on 127.0.0.1, on a port of its own. It hears questions when this returns.
    pub async fn start() -> io::Result<DnsServer> {
        DnsServer::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await
    }

    /// Starts a server at this address, such as `[::1]:0` or the port of another server on `127.0.0.2`: on port 0, the
    /// system chooses.
    pub async fn start_at(address: SocketAddr) -> io::Result<DnsServer> {
        let (port, sockets) = Port::reserve(address)?;
        let shared = Arc::new(Shared { state: Mutex::default(), changes: watch::Sender::new(()) });
        let running = Some(Running::start(sockets, &shared));
        Ok(DnsServer { port, shared, running })
    }

    /// Where it listens, over UDP and TCP; the same after every restart.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// What it answers: keep it and change it at any time.
    pub fn zone(&self) -> Zone {
        Zone { shared: Arc::clone(&self.shared) }
    }

    /// What it was asked, in order, since it was started or last told to [`clear`](Self::clear). What no DNS library could
    /// read is not among it.
    pub fn questions(&self) -> Vec<Question> {
        self.shared.lock().questions.clone()
    }

    /// What it was asked, in order, as text: `api.test AAAA`.
    pub fn asked(&self) -> Vec<String> {
        self.shared.lock().questions.iter().map(Question::to_string).collect()
    }

    /// How often it was asked for this. A client that comes again over TCP asks twice.
    ///
    /// # Panics
    ///
    /// If the name is none.
    #[track_caller]
    pub fn count(&self, name: &str, kind: RecordType) -> usize {
        let name = spelled(&zone::parse(name));
        self.shared.lock().questions.iter().filter(|asked| asked.name == name && asked.kind == kind).count()
    }

    /// Forgets what it was asked.
    pub fn clear(&self) {
        self.shared.lock().questions.clear();
    }

    /// Waits until it has been asked for this; returns at once if it was asked already.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn wait_for_question(&self, name: &str, kind: RecordType) {
        self.until(|server| server.count(name, kind) > 0).await;
    }

    /// Waits until the condition holds, asking again after every question.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn until(&self, condition: impl Fn(&DnsServer) -> bool) {
        let mut changes = self.shared.changes.subscribe();
        while !condition(self) {
            changes.changed().await.expect("the sender lives as long as this server");
        }
    }

    /// Goes dark: sockets and connections are closed when this returns, delayed answers are dropped, and whoever asks is
    /// refused by the system. Records and questions stay. Stopped again, it does nothing.
    pub async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            drop(running.stop);
            running.task.await.expect("the server failed");
        }
    }

    /// Stops it if it runs, and listens on the same port again.
    pub async fn restart(&mut self) -> io::Result<()> {
        self.stop().await;
        self.running = Some(Running::start(self.port.open()?, &self.shared));
        Ok(())
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.kind)
    }
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    script: Script,
    questions: Vec<Question>,
}

impl Shared {
    /// The scripts run code of the test's: a poisoned lock says nothing about the records.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes down what was asked and returns what to do about it.
    fn hear(&self, bytes: &[u8], over: Over) -> Vec<Step> {
        let steps = {
            let State { script, questions } = &mut *self.lock();
            let heard = reply::hear(bytes);
            if let Some((name, kind, edns)) = heard.asked() {
                questions.push(Question { name: spelled(name), kind, over, edns, at: Instant::now() });
            }
            heard.reply(over, script)
        };
        self.changes.send_replace(());
        steps
    }
}

fn spelled(name: &Name) -> String {
    let mut name = name.to_lowercase();
    name.set_fqdn(false);
    name.to_ascii()
}

#[derive(Debug)]
struct Running {
    /// Its drop is the signal, so that dropping the server stops it too.
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    fn start(sockets: Sockets, shared: &Arc<Shared>) -> Running {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(sockets::serve(sockets, Arc::clone(shared), stopped));
        Running { stop, task }
    }
}
