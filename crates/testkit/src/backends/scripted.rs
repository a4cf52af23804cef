//! A connector without sockets: each backend behaves as its script says, and every connection is accounted for.
//!
//! ```
//! use carom::Backend;
//! use carom::connect::Connect;
//! use std::net::SocketAddr;
//! use testkit::backends::{OnConnect, Scripted};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
//! let script = Scripted::new();
//! let address = SocketAddr::from(([10, 0, 0, 1], 80));
//! let connection = script.connect(&Backend::fixed(address)).await.unwrap();
//! assert_eq!((script.open(address), script.open_total()), (1, 1));
//!
//! script.kill_all(address);
//! script.closed(&connection).expect("it can be watched").await;
//! drop(connection);
//! assert_eq!((script.open(address), script.opened_total()), (0, 1));
//!
//! script.set(address, OnConnect::Fail("password rejected"));
//! assert!(script.connect(&Backend::fixed(address)).await.is_err());
//! assert_eq!(script.connects_started(address), 2);
//! # });
//! ```

mod behaviour;
mod books;
mod connection;

pub use behaviour::{Behaviour, OnCheck, OnClose, OnConnect};
pub use books::Ends;
pub use connection::Connection;

use books::{Shared, State};
use carom::Backend;
use carom::Share;
use carom::connect::{Connect, Liveness};
use std::fmt;
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;
use tokio::time::sleep;

/// The connector, and the handle to its scripts: clones share everything, so keep one and give one to the pool.
#[derive(Clone, Debug)]
pub struct Scripted {
    shared: Arc<Shared>,
}

impl Scripted {
    /// A connector whose backends all do as they should.
    #[expect(clippy::new_without_default, reason = "tests say `new`")]
    pub fn new() -> Scripted {
        Scripted { shared: Arc::new(Shared { state: Mutex::default(), changes: watch::Sender::new(()) }) }
    }

    /// Changes one side of how the backend at this address behaves; the others stay.
    pub fn set(&self, address: SocketAddr, behaviour: impl Into<Behaviour>) {
        let mut state = self.shared.lock();
        let node = state.node(address);
        match behaviour.into() {
            Behaviour::Connect(connect) => node.connect = connect,
            Behaviour::Check(check) => node.check = check,
            Behaviour::Close(close) => node.close = close,
            Behaviour::Open(open) => node.open = open,
        }
    }

    /// How many connections to this address are open now.
    pub fn open(&self, address: SocketAddr) -> usize {
        self.shared.lock().open.values().filter(|entry| entry.address == address).count()
    }

    /// How many connections are open now.
    pub fn open_total(&self) -> usize {
        self.shared.lock().open.len()
    }

    /// How many connections were ever opened.
    pub fn opened_total(&self) -> usize {
        self.shared.lock().opened
    }

    /// The most connections that were open at one time.
    pub fn peak(&self) -> usize {
        self.shared.lock().peak
    }

    /// How many connects to this address were ever started, whatever became of them.
    pub fn connects_started(&self, address: SocketAddr) -> usize {
        self.shared.lock().node(address).connects_started
    }

    /// How many checks of connections to this address were ever started.
    pub fn checks_started(&self, address: SocketAddr) -> usize {
        self.shared.lock().node(address).checks_started
    }

    /// How many orderly closes of connections to this address were ever started; a plain drop is none.
    pub fn closes_started(&self, address: SocketAddr) -> usize {
        self.shared.lock().node(address).closes_started
    }

    /// How the connections that are not open any more have ended, as somebody who shares them must see to.
    pub fn ends(&self) -> Ends {
        self.shared.lock().ends
    }

    /// Ends all connections to this address from the far side: `closed()` resolves, `liveness` is closed. They count as open
    /// until this side lets go of them.
    pub fn kill_all(&self, address: SocketAddr) {
        let killed: Vec<_> = {
            let state = self.shared.lock();
            state.open.values().filter(|entry| entry.address == address).map(|entry| entry.killed.clone()).collect()
        };
        for killed in killed {
            killed.send_replace(true);
        }
    }

    /// Waits until the condition holds, asking again after every connect, check, close or end.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn until(&self, condition: impl Fn(&Scripted) -> bool) {
        let mut changes = self.shared.changes.subscribe();
        while !condition(self) {
            changes.changed().await.expect("the sender lives as long as this handle");
        }
    }
}

impl Connect for Scripted {
    type Connection = Connection;
    type Error = ScriptError;

    async fn connect(&self, backend: &Backend) -> Result<Connection, ScriptError> {
        let connect = self.shared.start(backend, |node| {
            node.connects_started += 1;
            node.connect
        });
        match connect {
            OnConnect::Succeed => {}
            OnConnect::Fail(text) => return Err(ScriptError(text)),
            OnConnect::Slow(delay) => sleep(delay).await,
            OnConnect::Never => pending().await,
            OnConnect::Panic => panic!("scripted: connecting to {backend} panics"),
        }
        Ok(Connection::open(&self.shared, backend))
    }

    fn liveness(&self, connection: &mut Connection) -> Liveness {
        let is_open = !connection.is_killed() && self.shared.lock().node(connection.backend.socket_addr()).open;
        if is_open { Liveness::Open } else { Liveness::Closed }
    }

    fn check(&self, connection: &mut Connection) -> Option<impl Future<Output = Result<(), ScriptError>> + Send> {
        Some(async move {
            let check = self.shared.start(&connection.backend, |node| {
                node.checks_started += 1;
                node.check
            });
            match check {
                OnCheck::Pass => {}
                OnCheck::Fail => return Err(ScriptError("scripted check failed")),
                OnCheck::Slow(delay) => sleep(delay).await,
                OnCheck::Never => pending().await,
                OnCheck::Panic => panic!("scripted: checking {connection:?} panics"),
            }
            if connection.is_killed() { Err(ScriptError("the connection was killed")) } else { Ok(()) }
        })
    }

    fn closed(&self, connection: &Connection) -> Option<impl Future<Output = Liveness> + Send + 'static> {
        let mut killed = connection.killed.clone();
        Some(async move {
            // As with a socket, letting go of a connection is not an end that the far side made.
            if killed.wait_for(|killed| *killed).await.is_err() {
                pending::<()>().await;
            }
            Liveness::Closed
        })
    }

    async fn close(&self, connection: Connection) {
        let close = self.shared.start(&connection.backend, |node| {
            node.closes_started += 1;
            node.close
        });
        match close {
            OnClose::Quick => {}
            OnClose::Slow(delay) => sleep(delay).await,
            OnClose::Never => pending().await,
            OnClose::Panic => panic!("scripted: closing {connection:?} panics"),
        }
    }
}

impl Share for Scripted {
    fn shut(&self, connection: &Connection) {
        let first = {
            let mut state = self.shared.lock();
            let State { open, ends, .. } = &mut *state;
            let first = open.get_mut(&connection.id).is_some_and(|entry| !std::mem::replace(&mut entry.shut, true));
            ends.shut += usize::from(first);
            ends.shut_again += usize::from(!first);
            first
        };
        if first {
            self.shared.changes.send_replace(());
        }
    }
}

/// Why a scripted connect or check failed: the text of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptError(pub &'static str);

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for ScriptError {}

#[cfg(test)]
mod tests;
