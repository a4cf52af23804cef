//! Windows: requests to services of many equal nodes that cannot afford clients who hold connections they do not use.
//!
//! A [`Requester`] opens no socket until a request needs one. A *window* is a set of sockets with one identity; it takes
//! requests for `active_for` (5 s) from its creation, and `request_limit` (5) of them at most. Inside it, sockets are opened
//! to those nodes that are asked, and shared. A socket closes as soon as its window takes no more requests and nobody waits on
//! it, so that a requester that nobody uses has none.
//!
//! ```
//! use carom::Backend;
//! use carom::window::{Incoming, Requester, Transport};
//! use std::convert::Infallible;
//! use std::future::pending;
//!
//! /// Nodes that say everything twice. Real ones are at the other end of a socket.
//! struct Echo;
//!
//! impl Transport for Echo {
//!     type Node = Backend;
//!     type Identity = ();
//!     type Socket = Vec<(u32, String)>; // what is to be answered
//!     type Request = (u32, String); // a number that answers come back with, and what is asked
//!     type Answer = String;
//!     type Tag = u32;
//!     type Error = Infallible;
//!
//!     fn identity(&self) {}
//!     fn tag(&self, request: &(u32, String)) -> u32 { request.0 }
//!     async fn open(&self, _node: &Backend, _identity: &()) -> Result<Self::Socket, Infallible> { Ok(Vec::new()) }
//!     fn send(&self, socket: &mut Self::Socket, request: &(u32, String)) -> Result<(), Infallible> {
//!         Ok(socket.push(request.clone()))
//!     }
//!     async fn receive(&self, socket: &mut Self::Socket) -> Result<Incoming<u32, String>, Infallible> {
//!         match socket.pop() {
//!             Some((tag, text)) => Ok(Incoming::Reply(tag, text.repeat(2))),
//!             None => pending().await,
//!         }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let nodes = (1..=4).map(|n| Backend::new(format!("node-{n}"), ([10, 0, 0, n], 9701).into()));
//! let requester = Requester::builder(Echo).nodes(nodes).build()?;
//!
//! // One node is asked; another, if it does not give a valid answer.
//! let answered = requester.any((1, "po".into()), |answer| !answer.is_empty()).await?;
//! assert_eq!(answered.answer, "popo");
//!
//! // All are asked; two have to say the same.
//! let agreed = requester.quorum((2, "ta".into()), 2, |answer| Some(answer.clone())).await?;
//! assert_eq!((agreed.len(), &*agreed[0].answer), (2, "tata"));
//!
//! // All are asked, and each has its say.
//! assert_eq!(requester.all((3, "do".into())).await?.len(), 4);
//! # Ok(()) }
//! ```
//!
//! Nodes are asked in an order that is shuffled for every window, and each request that does not ask all of them begins one
//! further; those that are `preferred` come first, always in the order they were given. Every node has `ack_timeout` to say something and, once it has acknowledged a request,
//! `reply_timeout`; both count from when it is asked. A request that outlives its window keeps the sockets it waits on, and
//! asks further nodes with that window's identity.
//!
//! When a node has said nothing for `hedge_after` (1 s), [`any`](Requester::any) and [`quorum`](Requester::quorum) ask one more,
//! so they must be used for requests that may be sent to more than one node. A node that did not respond is asked last for a
//! minute, or until it responds, by all requests of the requester that do not ask all nodes at once.

mod asking;
mod builder;
mod driver;
mod error;
mod judge;
mod luck;
mod shared;
mod sight;
mod socket;
mod transport;

pub use asking::{Answered, Asking};
pub use builder::Builder;
pub use carom_core::window::{
    Counters, Node, NodesError, Snapshot, SocketId, SocketSnapshot, WindowId, WindowSnapshot,
};
pub use error::{Account, BuildError, RequestError, Told};
pub use transport::{Incoming, Transport};

use crate::clock;
use crate::monitor::Id;
use carom_core::window::Ask;
use shared::Shared;
use std::fmt;
use std::sync::Arc;

/// Sends requests to a service of many equal nodes. See the [module](self).
///
/// Cheap to clone; all clones are the same requester. Dropping the last one closes it.
pub struct Requester<T: Transport> {
    owner: Arc<Owner<T>>,
}

/// What all handles of a requester own together; the last one to go closes it.
struct Owner<T: Transport> {
    shared: Arc<Shared<T>>,
    id: Id,
}

impl<T: Transport> Requester<T> {
    /// Starts building a requester that sends with `transport`.
    pub fn builder(transport: T) -> Builder<T> {
        Builder::new(transport)
    }

    fn new(shared: Arc<Shared<T>>, id: Id) -> Requester<T> {
        Requester { owner: Arc::new(Owner { shared, id }) }
    }

    /// The first valid answer. `read_nodes` are asked at once, and the next one whenever one of them says nothing for
    /// [`hedge_after`](Builder::hedge_after), refuses, gives an answer that is not valid, or cannot be reached; each node once.
    ///
    /// `is_valid` runs in the requester's driver, with no lock held: while it does, nothing else happens, so it must be quick. If
    /// it panics, the answer does not count.
    ///
    /// Cancel safe: dropping the future forgets the request everywhere.
    ///
    /// # Errors
    /// When nobody gave a valid answer; [`RequestError`] says what each node said.
    pub fn any(
        &self,
        request: T::Request,
        is_valid: impl FnMut(&T::Answer) -> bool + Send + 'static,
    ) -> Asking<'_, T, Answered<T::Answer>> {
        Asking::new(&self.owner.shared, request, Ask::any(), judge::any(is_valid), asking::one)
    }

    /// The answers of `wanted` nodes that have the same key. All nodes are asked, or some of them first: see
    /// [`Asking::at_once`]. `None` is for an answer that makes no sense: it does not count. Refusals have keys as well, and
    /// count apart from replies.
    ///
    /// `key` runs in the requester's driver, with no lock held, and so do comparisons of keys: while they do, nothing else
    /// happens, so they must be quick. If one panics, the answer does not count.
    ///
    /// Cancel safe: dropping the future forgets the request everywhere.
    ///
    /// # Errors
    /// As soon as there cannot be as many equal answers any more, or when so many equal refusals are there;
    /// [`RequestError`] says what each node said.
    pub fn quorum<K: Eq + Send + 'static>(
        &self,
        request: T::Request,
        wanted: usize,
        key: impl FnMut(&T::Answer) -> Option<K> + Send + 'static,
    ) -> Asking<'_, T, Vec<Answered<T::Answer>>> {
        Asking::new(&self.owner.shared, request, Ask::quorum(wanted), judge::quorum(key), asking::agreed)
    }

    /// What every node says, or why it says nothing; see [`Asking::nodes`] to ask some of them only.
    ///
    /// Timeouts are for each node by itself: one that acknowledges the request and says no more is waited for until its
    /// `reply_timeout`, while one that says nothing is given up after the `ack_timeout`. So this takes as long as the slowest
    /// node, and up to `reply_timeout` if there is one that has acknowledged.
    ///
    /// Cancel safe: dropping the future forgets the request everywhere.
    ///
    /// # Errors
    /// When it is closed, or asks for nodes that are not there; never because of what nodes say.
    pub fn all(&self, request: T::Request) -> Asking<'_, T, Vec<Account<T::Answer>>> {
        Asking::new(&self.owner.shared, request, Ask::all(), judge::all(), asking::everybody)
    }

    /// Other nodes from here on: the next request opens a new window, and those under way end where they are. Whether this is
    /// news: the order of nodes does not matter. That a node was unresponsive is forgotten if it has changed.
    ///
    /// # Errors
    /// When there is no node, or two of the same name; everything stays as it is.
    pub fn set_nodes(&self, nodes: impl IntoIterator<Item = impl Into<T::Node>>) -> Result<bool, NodesError> {
        let nodes: Vec<T::Node> = nodes.into_iter().map(Into::into).collect();
        self.owner.shared.step(|table| table.machine.set_nodes(clock::now(), nodes))
    }

    /// The name shown in errors and logs.
    pub fn name(&self) -> &str {
        &self.owner.shared.name
    }

    /// What its [monitor](Builder::monitor) calls it.
    pub fn id(&self) -> Id {
        self.owner.id
    }

    /// A copy of the requester's state for people; all figures are of one moment.
    pub fn snapshot(&self) -> Snapshot<T::Node> {
        self.owner.shared.lock().machine.snapshot()
    }

    /// Whether it has been closed, or its runtime has ended.
    pub fn is_closed(&self) -> bool {
        self.owner.shared.lock().machine.is_closed()
    }

    /// Closes the requester: requests under way fail with [`RequestError::Closed`], so does every later one, and all sockets
    /// close. Does not wait.
    pub fn close(&self) {
        self.owner.close();
    }
}

impl<T: Transport> Owner<T> {
    fn close(&self) {
        self.shared.step(|table| table.machine.close(clock::now()));
    }
}

impl<T: Transport> Drop for Owner<T> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<T: Transport> Clone for Requester<T> {
    fn clone(&self) -> Requester<T> {
        Requester { owner: Arc::clone(&self.owner) }
    }
}

impl<T: Transport> fmt::Debug for Requester<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshot = self.snapshot();
        f.debug_struct("Requester")
            .field("name", &self.name())
            .field("nodes", &snapshot.nodes.len())
            .field("asking", &snapshot.asking)
            .field("in_line", &snapshot.in_line)
            .field("windows", &snapshot.windows.len())
            .finish()
    }
}
