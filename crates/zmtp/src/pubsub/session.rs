//! A session: one end of a connection between a PUB and a SUB, as a machine. Bytes go in, bytes and events come out.

use super::reading::{Read, Reading};
use crate::command::{PONG, READY, SOCKET_TYPE, expect, metadata, peer, pinged, refused};
use crate::error::ZmtpError;
use crate::frame;
use crate::greeting::{self, GREETING, Mechanism};
use bytes::{Buf, Bytes, BytesMut};

const NULL: Mechanism = Mechanism("NULL");
const SUBSCRIBE: &[u8] = b"\x09SUBSCRIBE";
const CANCEL: &[u8] = b"\x06CANCEL";

/// So many answers to pings are in line at a time: who does not read them needs no more.
const PONGS: usize = 16;

/// No command is longer, subscriptions aside.
const LONGEST_COMMAND: usize = 4096;

/// Which end of a connection we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A PUB: it sends messages to who has subscribed to them.
    Publisher,
    /// A SUB: it subscribes, and receives.
    Subscriber,
}

/// How much a peer may say at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of a message, all of its parts together; of a subscription, too. What is larger is skipped as it comes.
    pub message: usize,
    /// Most parts of a message.
    pub parts: usize,
}

/// A mebibyte, in 16 parts at most.
impl Default for Limits {
    fn default() -> Limits {
        Limits { message: 1 << 20, parts: 16 }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is over.
    Open,
    /// A message, by its parts.
    Message(Vec<Bytes>),
    /// A message was larger than allowed, or had more parts, and was skipped.
    Skipped(Skipped),
    /// The peer wants what begins like this. Of a [`Role::Publisher`] alone.
    Subscribed(Bytes),
    /// The peer does not want what begins like this any more. Of a [`Role::Publisher`] alone.
    Unsubscribed(Bytes),
}

/// What is known of a message that was skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Its first part; empty if that is too large by itself.
    pub first: Bytes,
    /// How many parts it had.
    pub parts: usize,
    /// How many bytes it had, all of its parts together.
    pub bytes: u64,
}

/// A message as it is written, made once for however many peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded(Bytes);

impl Encoded {
    /// A message of these parts.
    pub fn new(parts: &[&[u8]]) -> Encoded {
        let mut bytes = BytesMut::new();
        frame::encode_parts(parts, &mut bytes);
        Encoded(bytes.freeze())
    }

    /// How many bytes are written.
    pub fn size(&self) -> usize {
        self.0.len()
    }
}

/// ```text
///          greeting            READY
/// Greeting ---------> Readying ------> Open ---> Over   (by an error, from everywhere)
/// ```
#[derive(Debug)]
enum State {
    Greeting,
    Readying { modern: bool },
    Open { modern: bool, reading: Reading },
    Over,
}

/// One end of a connection. After an error it takes and gives nothing any more.
#[derive(Debug)]
pub struct Session {
    role: Role,
    limits: Limits,
    state: State,
    output: BytesMut,
    /// How many bytes were put into the output, ever.
    said: u64,
    /// Answers to pings since none was in line, and what was said when the last of them was.
    pongs: usize,
    ponged: u64,
}

impl Session {
    /// One that has not heard of its peer yet.
    pub fn new(role: Role, limits: Limits) -> Session {
        let output = BytesMut::from(&greeting::greeting(NULL, false)[..]);
        let said = output.len() as u64;
        Session { role, limits, state: State::Greeting, output, said, pongs: 0, ponged: 0 }
    }

    /// What is to be written.
    pub fn output(&mut self) -> &mut BytesMut {
        &mut self.output
    }

    /// What is due from the peer, for a text; `None` when the handshake is over.
    pub fn due(&self) -> Option<&'static str> {
        match self.state {
            State::Greeting => Some("its greeting"),
            State::Readying { .. } => Some("READY"),
            State::Open { .. } | State::Over => None,
        }
    }

    /// Puts a message into the output.
    ///
    /// # Errors
    /// While the handshake is not over. Nothing has changed then.
    pub fn push(&mut self, message: &Encoded) -> Result<(), ZmtpError> {
        self.modern()?;
        self.say(|output| output.extend_from_slice(&message.0));
        Ok(())
    }

    /// From now on messages are wanted whose first part begins like this.
    ///
    /// # Errors
    /// While the handshake is not over. Nothing has changed then.
    pub fn subscribe(&mut self, prefix: &[u8]) -> Result<(), ZmtpError> {
        self.want(SUBSCRIBE, 1, prefix)
    }

    /// Takes back that messages are wanted whose first part begins like this.
    ///
    /// # Errors
    /// While the handshake is not over. Nothing has changed then.
    pub fn unsubscribe(&mut self, prefix: &[u8]) -> Result<(), ZmtpError> {
        self.want(CANCEL, 0, prefix)
    }

    /// Takes what it can use of the bytes that came; to be called until it says `None`.
    ///
    /// # Errors
    /// When the peer is not what it should be. The session is over then.
    pub fn handle(&mut self, bytes: &mut BytesMut) -> Result<Option<Event>, ZmtpError> {
        let event = self.advance(bytes);
        if event.is_err() {
            self.state = State::Over;
        }
        event
    }

    fn advance(&mut self, bytes: &mut BytesMut) -> Result<Option<Event>, ZmtpError> {
        loop {
            match &mut self.state {
                State::Greeting => {
                    let Some(theirs) = bytes.first_chunk::<GREETING>() else { return Ok(None) };
                    self.state = State::Readying { modern: greeting::check(theirs, NULL)? };
                    bytes.advance(GREETING);
                    let properties = metadata(&[(SOCKET_TYPE, self.role.names()[0].as_bytes())]);
                    self.say(|output| frame::encode(true, &[READY, &properties], output));
                }
                State::Readying { modern } => {
                    let Some(frame) = frame::decode(bytes, LONGEST_COMMAND)? else { return Ok(None) };
                    if !frame.command {
                        return Err(ZmtpError::NoCommand { due: "READY" });
                    }
                    let properties = expect(frame.body, READY, "READY", 0)?;
                    peer(properties, "READY", self.role.other().names())?;
                    self.state = State::Open { modern: *modern, reading: Reading::default() };
                    return Ok(Some(Event::Open));
                }
                State::Open { reading, .. } => {
                    let longest = LONGEST_COMMAND.max(self.limits.message.saturating_add(SUBSCRIBE.len()));
                    let event = match reading.next(bytes, self.limits, longest)? {
                        None => return Ok(None),
                        Some(Read::Message(parts)) => Some(self.received(parts)),
                        Some(Read::Skipped(skipped)) => Some(Event::Skipped(skipped)),
                        Some(Read::Command(command)) => self.told(command)?,
                    };
                    if event.is_some() {
                        return Ok(event);
                    }
                }
                State::Over => return Ok(None),
            }
        }
    }

    /// Peers that do not know ZMTP 3.1 subscribe by messages.
    fn received(&self, parts: Vec<Bytes>) -> Event {
        match (self.role, parts.as_slice()) {
            (Role::Publisher, [wish]) if wish.first() == Some(&1) => Event::Subscribed(wish.slice(1..)),
            (Role::Publisher, [wish]) if wish.first() == Some(&0) => Event::Unsubscribed(wish.slice(1..)),
            _ => Event::Message(parts),
        }
    }

    /// Commands that nobody knows are ignored, as they may be of a later version.
    fn told(&mut self, command: Bytes) -> Result<Option<Event>, ZmtpError> {
        if let Some(context) = pinged(&command)? {
            self.pong(context);
            return Ok(None);
        }
        refused(&command)?;
        if self.role == Role::Subscriber {
            return Ok(None);
        }
        let behind = |name: &[u8]| command.starts_with(name).then(|| command.slice(name.len()..));
        let event = behind(SUBSCRIBE).map(Event::Subscribed);
        let event = event.or_else(|| behind(CANCEL).map(Event::Unsubscribed));
        Ok(match event {
            Some(Event::Subscribed(prefix)) if prefix.len() > self.limits.message => {
                Some(Event::Skipped(Skipped { first: Bytes::new(), parts: 1, bytes: prefix.len() as u64 }))
            }
            event => event,
        })
    }

    fn want(&mut self, name: &[u8], sign: u8, prefix: &[u8]) -> Result<(), ZmtpError> {
        match self.modern()? {
            true => self.say(|output| frame::encode(true, &[name, prefix], output)),
            false => self.say(|output| frame::encode(false, &[&[sign], prefix], output)),
        }
        Ok(())
    }

    /// Answers a ping, however much else is in line, unless the answers themselves become too many.
    fn pong(&mut self, context: &[u8]) {
        let written = self.said - self.output.len() as u64;
        if written >= self.ponged {
            self.pongs = 0;
        }
        if self.pongs < PONGS {
            self.say(|output| frame::encode(true, &[PONG, context], output));
            (self.pongs, self.ponged) = (self.pongs + 1, self.said);
        }
    }

    /// Puts something into the output.
    fn say(&mut self, put: impl FnOnce(&mut BytesMut)) {
        let before = self.output.len();
        put(&mut self.output);
        self.said += (self.output.len() - before) as u64;
    }

    /// Whether the peer knows what came with ZMTP 3.1.
    fn modern(&self) -> Result<bool, ZmtpError> {
        match self.state {
            State::Open { modern, .. } => Ok(modern),
            State::Greeting | State::Readying { .. } | State::Over => Err(ZmtpError::NotOpen),
        }
    }
}

impl Role {
    fn other(self) -> Role {
        match self {
            Role::Publisher => Role::Subscriber,
            Role::Subscriber => Role::Publisher,
        }
    }

    /// The types of sockets that have it; ours first.
    fn names(self) -> &'static [&'static str] {
        match self {
            Role::Publisher => &["PUB", "XPUB"],
            Role::Subscriber => &["SUB", "XSUB"],
        }
    }
}
