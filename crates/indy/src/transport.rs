//! The transport: how a requester reaches nodes, and what it makes of what they say.

use crate::catch_up::Wanted;
use crate::ledger::merkle::Head;
use crate::message::{LONGEST_REPLY, Message, MessageError, Transactions, catch_up_request, status_request};
use crate::node::{Address, Node};
use crate::zmtp::{KeyPair, Socket, SocketError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use carom::window::{self, Incoming};
use std::collections::BTreeSet;
use std::io;
use tokio::net::lookup_host;

/// ZeroMQ with CURVE, a JSON text a message.
#[derive(Debug)]
pub(crate) struct Wire;

/// What is sent, and what its answers are recognised by.
#[derive(Debug)]
pub(crate) struct Outgoing {
    asked: Asked,
    text: String,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    Request(u64),
    Status,
    CatchUp(Wanted),
}

/// What answers are recognised by: most have the number of their request, and what is said of ledgers has what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tag {
    Request(u64),
    Status,
    /// Transactions from this one on.
    CatchUp(u64),
}

impl Outgoing {
    /// A request with a number.
    pub(crate) fn request(req_id: u64, text: String) -> Outgoing {
        Outgoing { asked: Asked::Request(req_id), text }
    }

    /// How far is your ledger, given how far ours is?
    pub(crate) fn status(ours: &Head) -> Outgoing {
        Outgoing { asked: Asked::Status, text: status_request(ours) }
    }

    /// These transactions, please.
    pub(crate) fn catch_up(wanted: Wanted) -> Outgoing {
        let text = catch_up_request(wanted.start, wanted.end, wanted.till);
        Outgoing { asked: Asked::CatchUp(wanted), text }
    }

    fn tag(&self) -> Tag {
        match self.asked {
            Asked::Request(req_id) => Tag::Request(req_id),
            Asked::Status => Tag::Status,
            Asked::CatchUp(wanted) => Tag::CatchUp(wanted.start),
        }
    }
}

/// Who a window is to nodes: a pair of keys, and the public one as a text, which is what they tell clients apart by.
pub(crate) type Identity = Result<(KeyPair, Bytes), io::Error>;

/// A socket, and what the node owes on it.
#[derive(Debug)]
pub(crate) struct Line {
    socket: Socket,
    owed: Owed,
}

/// What was asked on a socket: answers do not always say what they are answers to.
#[derive(Debug, Default)]
struct Owed {
    /// What was not answered yet.
    tags: BTreeSet<Tag>,
    /// All transactions that were asked for: their parts may come long after the first of them was taken.
    wanted: Vec<Wanted>,
}

/// Why a node cannot be reached, or not any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    #[error("cannot resolve {host}")]
    Resolve {
        host: String,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Socket(#[from] SocketError),
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
    type Error = WireError;

    fn identity(&self) -> Identity {
        // Nodes drop what comes from an identity that is no text.
        KeyPair::random().map(|keys| (keys.clone(), STANDARD.encode(keys.public()).into()))
    }

    fn tag(&self, request: &Outgoing) -> Tag {
        request.tag()
    }

    async fn open(&self, node: &Node, identity: &Identity) -> Result<Line, WireError> {
        let (keys, name) =
            identity.as_ref().map_err(|error| SocketError::Keys(io::Error::new(error.kind(), error.to_string())))?;
        let connect = |at| Socket::connect(at, node.curve_key, keys, name.clone(), LONGEST_REPLY);
        let socket = match &node.address {
            Address::Ip(address) => connect(*address).await?,
            Address::Name { host, port } => {
                let failed = |source| WireError::Resolve { host: host.clone(), source };
                let mut last = failed(io::Error::new(io::ErrorKind::NotFound, "the name has no addresses"));
                let mut found = None;
                // One after the other. The deadlines of the requests that wait for this socket bound the attempts.
                for address in lookup_host((host.as_str(), *port)).await.map_err(failed)? {
                    match connect(address).await {
                        Ok(socket) => {
                            found = Some(socket);
                            break;
                        }
                        Err(error) => last = error.into(),
                    }
                }
                found.ok_or(last)?
            }
        };
        Ok(Line { socket, owed: Owed::default() })
    }

    fn send(&self, line: &mut Line, request: &Outgoing) -> Result<(), WireError> {
        line.owed.ask(request);
        Ok(line.socket.push(request.text.as_bytes()).map_err(SocketError::from)?)
    }

    async fn receive(&self, line: &mut Line) -> Result<Incoming<Tag, Message>, WireError> {
        let text = line.socket.next().await?;
        Ok(line.owed.hear(Message::parse(&text)))
    }
}

impl Owed {
    fn ask(&mut self, request: &Outgoing) {
        self.tags.insert(request.tag());
        if let Asked::CatchUp(wanted) = request.asked {
            self.wanted.push(wanted);
        }
    }

    /// What a message is an answer to.
    fn hear(&mut self, message: Result<Message, MessageError>) -> Incoming<Tag, Message> {
        let incoming = match message {
            Ok(Message::Ack { req_id }) => Incoming::Ack(Tag::Request(req_id)),
            Ok(message @ Message::Refusal { req_id, .. }) => Incoming::Nack(Tag::Request(req_id), message),
            Ok(message @ Message::Reply { req_id, .. }) => Incoming::Reply(Tag::Request(req_id), message),
            Ok(message @ (Message::Status(_) | Message::Proof(_))) => Incoming::Reply(Tag::Status, message),
            Ok(Message::Transactions(some)) => self.transactions(some),
            Ok(Message::Other) => Incoming::Other,
            Err(error) => {
                tracing::debug!(%error, "a node says something that makes no sense");
                self.bad(&error)
            }
        };
        if let Incoming::Nack(tag, _) | Incoming::Reply(tag, _) = &incoming {
            self.tags.remove(tag);
        }
        incoming
    }

    /// Transactions answer the request that begins where they do. A node splits what is too long for one message: the other
    /// parts are asked for again when it is their turn, and if they come on their own by then, so much the better.
    fn transactions(&self, some: Transactions) -> Incoming<Tag, Message> {
        let first = some.transactions.first().map(|(number, _)| *number);
        match first {
            Some(first) if self.tags.contains(&Tag::CatchUp(first)) => {
                Incoming::Reply(Tag::CatchUp(first), Message::Transactions(some))
            }
            Some(first) if self.wanted.iter().any(|wanted| (wanted.start..=wanted.end).contains(&first)) => {
                Incoming::Other
            }
            Some(_) | None => self.bad_transactions(),
        }
    }

    /// A bad message is a bad answer to the one request that it can be an answer to. While a node owes more than one, also to
    /// those who do not wait any more, nobody knows which it was: then it is passed over, and the timeouts decide.
    fn bad(&self, error: &MessageError) -> Incoming<Tag, Message> {
        match error {
            MessageError::NotJson(_) | MessageError::NoMessage => only(self.tags.iter()),
            MessageError::Field { op, .. } | MessageError::Ledger { op, .. } => match op.as_str() {
                "LEDGER_STATUS" | "CONSISTENCY_PROOF" => Incoming::Reply(Tag::Status, Message::Other),
                "CATCHUP_REP" => self.bad_transactions(),
                _ => only(self.tags.iter().filter(|tag| matches!(tag, Tag::Request(_)))),
            },
        }
    }

    fn bad_transactions(&self) -> Incoming<Tag, Message> {
        only(self.tags.iter().filter(|tag| matches!(tag, Tag::CatchUp(_))))
    }
}

/// A bad answer to the only one of these, if it is the only one.
fn only<'tags>(mut owed: impl Iterator<Item = &'tags Tag>) -> Incoming<Tag, Message> {
    match (owed.next(), owed.next()) {
        (Some(tag), None) => Incoming::Reply(*tag, Message::Other),
        (Some(_), Some(_)) | (None, _) => Incoming::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked(ranges: &[(u64, u64)]) -> Owed {
        let mut owed = Owed::default();
        for &(start, end) in ranges {
            owed.ask(&Outgoing::catch_up(Wanted { start, end, till: 100 }));
        }
        owed
    }

    fn part(numbers: std::ops::RangeInclusive<u64>) -> Result<Message, MessageError> {
        let transactions = numbers.map(|number| (number, json!({}))).collect();
        Ok(Message::Transactions(Transactions { transactions, proof: Vec::new() }))
    }

    fn answers(incoming: &Incoming<Tag, Message>) -> Option<u64> {
        match incoming {
            Incoming::Reply(Tag::CatchUp(start), Message::Transactions(_)) => Some(*start),
            _ => None,
        }
    }

    #[test]
    fn parts_answer_the_request_that_begins_where_they_do() {
        let mut owed = asked(&[(5, 54)]);
        assert_eq!(owed.hear(part(30..=54)), Incoming::Other, "the second part first");
        assert_eq!(answers(&owed.hear(part(5..=29))), Some(5));
        owed.ask(&Outgoing::catch_up(Wanted { start: 30, end: 79, till: 100 }));
        assert_eq!(owed.hear(part(5..=29)), Incoming::Other, "again");
        assert_eq!(owed.hear(part(55..=79)), Incoming::Other);
        assert_eq!(answers(&owed.hear(part(30..=54))), Some(30));
        assert_eq!(owed.hear(part(30..=54)), Incoming::Other, "the same as an answer to the second");
    }

    #[test]
    fn transactions_that_nobody_asked_for_are_a_bad_answer_if_it_is_known_to_what() {
        let none = || Ok(Message::Transactions(Transactions { transactions: Vec::new(), proof: Vec::new() }));
        let bad = Incoming::Reply(Tag::CatchUp(5), Message::Other);
        assert_eq!(asked(&[(5, 54)]).hear(part(90..=95)), bad);
        assert_eq!(asked(&[(5, 54)]).hear(none()), bad);
        assert_eq!(asked(&[(5, 54), (60, 70)]).hear(none()), Incoming::Other);
        assert_eq!(asked(&[]).hear(part(1..=2)), Incoming::Other);
    }

    #[test]
    fn garbage_is_a_bad_answer_to_the_one_request_that_waits() {
        let (mut owed, heard) = (Owed::default(), |text: &str| Message::parse(text.as_bytes()));
        assert_eq!(owed.hear(heard("garbage")), Incoming::Other, "nobody waits");
        for garbage in ["garbage", "[]", r#"{"op": "REPLY"}"#] {
            owed.ask(&Outgoing::request(7, String::new()));
            assert_eq!(owed.hear(heard("po")), Incoming::Other);
            assert_eq!(owed.hear(heard(r#"{"op": "REQACK", "reqId": 7}"#)), Incoming::Ack(Tag::Request(7)));
            assert_eq!(owed.hear(heard(garbage)), Incoming::Reply(Tag::Request(7), Message::Other), "{garbage}");
            assert_eq!(owed.hear(heard(garbage)), Incoming::Other, "it has been answered");
        }
        owed.ask(&Outgoing::request(8, String::new()));
        owed.ask(&Outgoing::request(9, String::new()));
        assert_eq!(owed.hear(heard("garbage")), Incoming::Other, "one of two");
    }
}
