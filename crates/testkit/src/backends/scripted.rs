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
//! script.closed(&connection).await;
//! drop(connection);
//! assert_eq!((script.open(address), script.opened_total()), (0, 1));
//!
//! script.set(address, OnConnect::Fail("password rejected"));
//! assert!(script.connect(&Backend::fixed(address)).await.is_err());
//! assert_eq!(script.connects_started(address), 2);
//! # });
//! ```

use carom::Backend;
use carom::Share;
use carom::connect::Connect;
use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// The connector, and the handle to its scripts: clones share everything, so keep one and give one to the pool.
#[derive(Clone, Debug)]
pub struct Scripted {
    shared: Arc<Shared>,
}

/// What a backend does from now on. Operations under way keep what they started with.
#[derive(Clone, Copy, Debug)]
pub enum Behaviour {
    /// How connecting goes.
    Connect(OnConnect),
    /// How checks of its connections go.
    Check(OnCheck),
    /// How closing its connections goes.
    Close(OnClose),
    /// What `is_open` says of its connections, killed ones aside. At first: true.
    Open(bool),
}

/// How connecting goes. At first: it succeeds.
#[derive(Clone, Copy, Debug)]
pub enum OnConnect {
    /// At once.
    Succeed,
    /// Fails at once, with this text.
    Fail(&'static str),
    /// Succeeds after this delay.
    Slow(Duration),
    /// Hangs until dropped.
    Never,
    /// Panics.
    Panic,
}

/// How a check goes. At first: it passes. Checks of killed connections that would pass fail.
#[derive(Clone, Copy, Debug)]
pub enum OnCheck {
    /// At once.
    Pass,
    /// Fails at once.
    Fail,
    /// Passes after this delay.
    Slow(Duration),
    /// Hangs until dropped.
    Never,
    /// Panics.
    Panic,
}

/// How closing goes. At first: quickly. The connection counts as open until the closing is done, dropped, or has panicked.
#[derive(Clone, Copy, Debug)]
pub enum OnClose {
    /// At once.
    Quick,
    /// After this delay.
    Slow(Duration),
    /// Hangs until dropped.
    Never,
    /// Panics.
    Panic,
}

impl From<OnConnect> for Behaviour {
    fn from(connect: OnConnect) -> Behaviour {
        Behaviour::Connect(connect)
    }
}

impl From<OnCheck> for Behaviour {
    fn from(check: OnCheck) -> Behaviour {
        Behaviour::Check(check)
    }
}

impl From<OnClose> for Behaviour {
    fn from(close: OnClose) -> Behaviour {
        Behaviour::Close(close)
    }
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

    /// Ends all connections to this address from the far side: `closed()` resolves, `is_open` says no. They count as open
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

    fn is_open(&self, connection: &mut Connection) -> bool {
        !connection.is_killed() && self.shared.lock().node(connection.backend.socket_addr()).open
    }

    async fn check(&self, connection: &mut Connection) -> Result<(), ScriptError> {
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
    }

    fn closed(&self, connection: &Connection) -> impl Future<Output = ()> + Send + 'static {
        let mut killed = connection.killed.clone();
        async move {
            // As with a socket, letting go of a connection is not an end that the far side made.
            if killed.wait_for(|killed| *killed).await.is_err() {
                pending().await
            }
        }
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

/// How connections have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Shut, and perhaps still held by somebody.
    pub shut: usize,
    /// Shut more than once: how often too many.
    pub shut_again: usize,
    /// Let go of after the far side had ended them, and not shut.
    pub killed: usize,
    /// Let go of although they were neither shut nor killed; a pool does that.
    pub dropped: usize,
}

/// A connection of [`Scripted`]. Its drop ends it.
pub struct Connection {
    id: u64,
    backend: Backend,
    killed: watch::Receiver<bool>,
    shared: Arc<Shared>,
}

impl Connection {
    /// Tells it from every other connection of the same script; counted from 1 in order of opening.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The backend it was opened to.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Ends it from the far side, as [`Scripted::kill_all`] does.
    pub fn kill(&self) {
        let killed = self.shared.lock().open[&self.id].killed.clone();
        killed.send_replace(true);
    }

    /// Whether it was shut.
    pub fn is_shut(&self) -> bool {
        self.shared.lock().open.get(&self.id).is_some_and(|entry| entry.shut)
    }

    fn is_killed(&self) -> bool {
        *self.killed.borrow()
    }

    fn open(shared: &Arc<Shared>, backend: &Backend) -> Connection {
        let (killed, receiver) = watch::channel(false);
        let id = {
            let mut state = shared.lock();
            state.opened += 1;
            let id = state.opened as u64;
            state.open.insert(id, Entry { address: backend.socket_addr(), killed, shut: false });
            state.peak = state.peak.max(state.open.len());
            id
        };
        shared.changes.send_replace(());
        Connection { id, backend: backend.clone(), killed: receiver, shared: Arc::clone(shared) }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let entry = self.shared.let_go(self.id);
        self.shared.changes.send_replace(());
        // A second panic while the first unwinds would abort the test before it can say what went wrong.
        if entry.is_none() && !std::thread::panicking() {
            panic!("{self:?} was closed twice");
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({} to {})", self.id, self.backend)
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

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changes: watch::Sender<()>,
}

impl Shared {
    /// Connectors are told to panic: a poisoned lock says nothing about the counts.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn let_go(&self, id: u64) -> Option<Entry> {
        let mut state = self.lock();
        let entry = state.open.remove(&id)?;
        match (entry.shut, *entry.killed.borrow()) {
            (true, _) => {}
            (false, true) => state.ends.killed += 1,
            (false, false) => state.ends.dropped += 1,
        }
        Some(entry)
    }

    /// Counts the start of an operation and returns how it is to go.
    fn start<B>(&self, backend: &Backend, count: impl FnOnce(&mut Node) -> B) -> B {
        let behaviour = count(self.lock().node(backend.socket_addr()));
        self.changes.send_replace(());
        behaviour
    }
}

#[derive(Debug, Default)]
struct State {
    nodes: BTreeMap<SocketAddr, Node>,
    open: BTreeMap<u64, Entry>,
    opened: usize,
    peak: usize,
    ends: Ends,
}

impl State {
    fn node(&mut self, address: SocketAddr) -> &mut Node {
        self.nodes.entry(address).or_default()
    }
}

#[derive(Debug)]
struct Entry {
    address: SocketAddr,
    killed: watch::Sender<bool>,
    shut: bool,
}

#[derive(Debug)]
struct Node {
    connect: OnConnect,
    check: OnCheck,
    close: OnClose,
    open: bool,
    connects_started: usize,
    checks_started: usize,
    closes_started: usize,
}

impl Default for Node {
    fn default() -> Node {
        Node {
            connect: OnConnect::Succeed,
            check: OnCheck::Pass,
            close: OnClose::Quick,
            open: true,
            connects_started: 0,
            checks_started: 0,
            closes_started: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, timeout};

    const LONG: Duration = Duration::from_secs(3600);

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 80))
    }

    async fn connect(script: &Scripted, last: u8) -> Connection {
        script.connect(&Backend::fixed(address(last))).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn connections_are_counted_per_address_and_in_all() {
        let script = Scripted::new();
        let one = connect(&script, 1).await;
        let two = connect(&script, 2).await;
        let three = connect(&script, 2).await;
        assert_eq!((one.id(), two.id(), three.id()), (1, 2, 3));
        assert_eq!(three.backend().socket_addr(), address(2));
        assert_eq!((script.open(address(1)), script.open(address(2)), script.open_total()), (1, 2, 3));

        script.close(two).await;
        drop(three);
        assert_eq!((script.open(address(1)), script.open(address(2)), script.open_total()), (1, 0, 1));
        assert_eq!((script.opened_total(), script.peak()), (3, 3));
        assert_eq!((script.connects_started(address(2)), script.closes_started(address(2))), (2, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn connecting_follows_the_script_of_its_address() {
        let script = Scripted::new();
        let backend = Backend::fixed(address(1));
        script.set(address(1), OnConnect::Fail("no"));
        assert_eq!(script.connect(&backend).await.unwrap_err(), ScriptError("no"));
        connect(&script, 2).await;

        script.set(address(1), OnConnect::Never);
        assert!(timeout(LONG, script.connect(&backend)).await.is_err());

        script.set(address(1), OnConnect::Slow(Duration::from_secs(3)));
        let started = Instant::now();
        connect(&script, 1).await;
        assert_eq!(started.elapsed(), Duration::from_secs(3));

        script.set(address(1), OnConnect::Panic);
        let connecting = tokio::spawn({
            let script = script.clone();
            async move { script.connect(&Backend::fixed(address(1))).await.map(drop) }
        });
        assert!(connecting.await.unwrap_err().is_panic());
        assert_eq!((script.connects_started(address(1)), script.open_total()), (4, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn checks_follow_the_script_and_fail_once_killed() {
        let script = Scripted::new();
        let mut connection = connect(&script, 1).await;
        assert!(script.check(&mut connection).await.is_ok());
        script.set(address(1), OnCheck::Fail);
        assert!(script.check(&mut connection).await.is_err());
        script.set(address(1), OnCheck::Never);
        assert!(timeout(LONG, script.check(&mut connection)).await.is_err());
        script.set(address(1), OnCheck::Slow(Duration::from_secs(2)));
        assert!(script.check(&mut connection).await.is_ok());
        connection.kill();
        assert!(script.check(&mut connection).await.is_err());
        assert_eq!(script.checks_started(address(1)), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_counts_as_open_until_its_closing_is_over() {
        let script = Scripted::new();
        script.set(address(1), OnClose::Slow(Duration::from_secs(1)));
        let connection = connect(&script, 1).await;
        let closing = tokio::spawn({
            let script = script.clone();
            async move { script.close(connection).await }
        });
        script.until(|script| script.closes_started(address(1)) == 1).await;
        assert_eq!(script.open_total(), 1);
        closing.await.unwrap();
        assert_eq!(script.open_total(), 0);

        script.set(address(1), OnClose::Never);
        let connection = connect(&script, 1).await;
        assert!(timeout(LONG, script.close(connection)).await.is_err());
        assert_eq!(script.open_total(), 0);

        script.set(address(1), OnClose::Panic);
        let connection = connect(&script, 1).await;
        let closing = tokio::spawn({
            let script = script.clone();
            async move { script.close(connection).await }
        });
        assert!(closing.await.unwrap_err().is_panic());
        assert_eq!(script.open_total(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_known_how_connections_have_ended() {
        let script = Scripted::new();
        let (one, two, three) = (connect(&script, 1).await, connect(&script, 2).await, connect(&script, 3).await);
        script.shut(&one);
        assert!(one.is_shut() && !two.is_shut());
        assert_eq!(script.ends(), Ends { shut: 1, ..Ends::default() });
        two.kill();
        script.shut(&one);
        drop((one, two, three));
        assert_eq!(script.ends(), Ends { shut: 1, shut_again: 1, killed: 1, dropped: 1 });
    }

    #[tokio::test(start_paused = true)]
    async fn the_killed_are_closed_and_the_others_are_not() {
        let script = Scripted::new();
        let mut killed = connect(&script, 1).await;
        let mut alive = connect(&script, 2).await;
        let watcher = tokio::spawn(script.closed(&killed));
        script.kill_all(address(1));
        watcher.await.unwrap();
        assert!(!script.is_open(&mut killed));
        assert!(script.is_open(&mut alive));
        assert_eq!(script.open_total(), 2);

        script.set(address(2), Behaviour::Open(false));
        assert!(!script.is_open(&mut alive));
        let watcher = script.closed(&alive);
        drop(alive);
        assert!(timeout(LONG, watcher).await.is_err(), "its own drop is not an end");
    }
}
