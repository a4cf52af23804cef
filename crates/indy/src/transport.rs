//! The transport: how a requester reaches nodes, and what it makes of what they say.

use crate::message::{LONGEST_MESSAGE, Message, MessageError};
use crate::node::Node;
use crate::zmtp::{KeyPair, Socket, SocketError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use carom::window::{self, Incoming};
use std::io;

/// ZeroMQ with CURVE, a JSON text a message.
#[derive(Debug)]
pub(crate) struct Wire;

/// What is sent, and what its answers are recognised by.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) tag: Tag,
    pub(crate) text: String,
}

/// What answers are recognised by: most have the number of their request, and what is said of ledgers has what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tag {
    Request(u64),
    Status,
    /// Transactions from this one on.
    CatchUp(u64),
}

/// Who a window is to nodes: a pair of keys, and the public one as a text, which is what they tell clients apart by.
pub(crate) type Identity = Result<(KeyPair, Bytes), io::Error>;

/// A socket, and the transactions that were asked for last on it: an answer does not say what it is an answer to.
#[derive(Debug)]
pub(crate) struct Line {
    socket: Socket,
    wanted: Option<u64>,
}

impl window::Node for Node {
    fn name(&self) -> &str {
        &self.alias
    }
}

impl window::Transport for Wire {
    type Node = Node;
    type Identity = Identity;
    type Socket = Line;
    type Request = Outgoing;
    type Answer = Message;
    type Tag = Tag;
    type Error = SocketError;

    fn identity(&self) -> Identity {
        // Nodes drop what comes from an identity that is no text.
        KeyPair::random().map(|keys| (keys.clone(), STANDARD.encode(keys.public()).into()))
    }

    fn tag(&self, request: &Outgoing) -> Tag {
        request.tag
    }

    async fn open(&self, node: &Node, identity: &Identity) -> Result<Line, SocketError> {
        let (keys, name) =
            identity.as_ref().map_err(|error| SocketError::Keys(io::Error::new(error.kind(), error.to_string())))?;
        let socket = Socket::connect(node.address, node.curve_key, keys, name.clone(), LONGEST_MESSAGE).await?;
        Ok(Line { socket, wanted: None })
    }

    fn send(&self, line: &mut Line, request: &Outgoing) -> Result<(), SocketError> {
        if let Tag::CatchUp(start) = request.tag {
            line.wanted = Some(start);
        }
        Ok(line.socket.push(request.text.as_bytes())?)
    }

    async fn receive(&self, line: &mut Line) -> Result<Incoming<Tag, Message>, SocketError> {
        let text = line.socket.next().await?;
        Ok(told(Message::parse(&text), line.wanted))
    }
}

/// What a message is an answer to. A bad one is a bad answer, if it is known to what.
fn told(message: Result<Message, MessageError>, wanted: Option<u64>) -> Incoming<Tag, Message> {
    let catch_up = |message| wanted.map_or(Incoming::Other, |start| Incoming::Reply(Tag::CatchUp(start), message));
    match message {
        Ok(Message::Ack { req_id }) => Incoming::Ack(Tag::Request(req_id)),
        Ok(message @ Message::Refusal { req_id, .. }) => Incoming::Nack(Tag::Request(req_id), message),
        Ok(message @ Message::Reply { req_id, .. }) => Incoming::Reply(Tag::Request(req_id), message),
        Ok(message @ (Message::Status(_) | Message::Proof(_))) => Incoming::Reply(Tag::Status, message),
        Ok(message @ Message::Transactions(_)) => catch_up(message),
        Ok(Message::Other) => Incoming::Other,
        Err(error) => {
            tracing::debug!(%error, "a node says something that makes no sense");
            match error {
                MessageError::NotJson(_) => Incoming::Other,
                MessageError::Field { op, .. } | MessageError::Ledger { op, .. } => match op.as_str() {
                    "LEDGER_STATUS" | "CONSISTENCY_PROOF" => Incoming::Reply(Tag::Status, Message::Other),
                    "CATCHUP_REP" => catch_up(Message::Other),
                    _ => Incoming::Other,
                },
            }
        }
    }
}
