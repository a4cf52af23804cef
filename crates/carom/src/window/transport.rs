//! The transport: how requests travel, and what comes back.

use carom_core::window::Node;
use std::error::Error;
use std::fmt;

/// Opens sockets to nodes, sends requests on them, and tells what is heard.
///
/// None of these functions is called while a lock of the requester is held. A panic in one of them ends the socket it was
/// called for. What does run under the lock is what the types bring along: comparing and cloning tags, comparing nodes and
/// asking for their names, and cloning the wakers of those who wait. All of these have to be quick, and must neither panic nor
/// call the requester.
pub trait Transport: Send + Sync + 'static {
    /// Whom requests are sent to. Two nodes that are not equal are different ones: a node that has moved is another.
    type Node: Node + Send + Sync + 'static;
    /// What all sockets of one window have in common, and no other window has: a key pair, a session name. `()` if there is
    /// nothing of the kind.
    type Identity: Send + Sync + 'static;
    /// One socket to one node. Dropping it closes it, without waiting for anything.
    type Socket: Send + 'static;
    /// What is sent; one request may go to many nodes.
    type Request: Send + Sync + 'static;
    /// What comes back.
    type Answer: fmt::Debug + Send + 'static;
    /// What an answer is matched with its request by. While a node owes an answer, whether anybody still waits for it or not,
    /// its window takes no other request with that tag: it goes to another window, so that a protocol without numbers may do
    /// with a few constant tags. Only a node that answers twice can still be misunderstood: under a tag that comes again, its
    /// second answer is taken for one to the later request.
    type Tag: Ord + Clone + Send + 'static;
    /// Why opening or using a socket failed.
    type Error: Error + Send + Sync + 'static;

    /// A fresh identity, for a new window. Called when the window opens its first socket.
    fn identity(&self) -> Self::Identity;

    /// What answers to this request will be matched with it by.
    fn tag(&self, request: &Self::Request) -> Self::Tag;

    /// Opens a socket that is ready for use: handshake done. The deadlines of those who wait for it run meanwhile, and the
    /// future is dropped when nobody does any more.
    fn open(
        &self,
        node: &Self::Node,
        identity: &Self::Identity,
    ) -> impl Future<Output = Result<Self::Socket, Self::Error>> + Send;

    /// Takes a request to be sent; must not wait. It is [`receive`](Transport::receive), which is called next, that writes.
    ///
    /// # Errors
    /// An error ends the socket, for all who wait on it.
    fn send(&self, socket: &mut Self::Socket, request: &Self::Request) -> Result<(), Self::Error>;

    /// Writes what is to be sent, and waits for the next message: both at a time, so that neither side can hold up the other.
    /// Runs as long as the socket is open.
    ///
    /// Must be cancel safe: it is dropped and called again whenever there is a request to send, and must then neither have lost
    /// what it has read nor write again what it has written. An error ends the socket, for all who wait on it.
    fn receive(
        &self,
        socket: &mut Self::Socket,
    ) -> impl Future<Output = Result<Incoming<Self::Tag, Self::Answer>, Self::Error>> + Send;
}

/// What a node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming<G, A> {
    /// It has the request with this tag, and will answer: it has the `reply_timeout` to do so.
    Ack(G),
    /// It refuses the request with this tag.
    Nack(G, A),
    /// Its answer to the request with this tag.
    Reply(G, A),
    /// Something that belongs to no request; it is passed over.
    Other,
}

/// The kinds of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Reply,
    Nack,
}
