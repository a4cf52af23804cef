//! A session: one end of a connection, as a machine. Bytes go in, bytes and events come out.

use super::handshake::{Client, Fresh, Server, ready};
use super::keys::{CurveKey, KeyPair};
use super::sealing::{counted, seal, unseal};
use crate::command::{PONG, expect, pinged, refused};
use crate::error::ZmtpError;
use crate::frame::{self, Frame};
use crate::greeting::{self, GREETING, Mechanism};
use bytes::{Buf, Bytes, BytesMut};
use crypto_box::{PublicKey, SalsaBox};
use std::fmt;
use std::mem;

const CURVE: Mechanism = Mechanism("CURVE");

const MESSAGE: &[u8] = b"\x07MESSAGE";

/// No command of a handshake is longer.
const LONGEST_COMMAND: usize = 4096;
/// What a message has around it: name, number, tag, and a byte of flags.
const AROUND: usize = MESSAGE.len() + 8 + 16 + 1;

const MORE: u8 = 0b01;
const COMMAND: u8 = 0b10;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is over; messages can be sent.
    Open {
        /// What the peer calls itself.
        identity: Bytes,
    },
    /// A message of one part. Those of more are skipped: neither a client nor a node of Indy sends any.
    Message(Bytes),
}

/// ```text
///            greeting        WELCOME       READY
/// client: Greeting ---> Welcoming ---> Readying ---.
///                                                   >---> Open ---> Over   (by an error, from everywhere)
/// server: Greeting ---> Helloing ---> Initiating --'
///            greeting        HELLO        INITIATE
/// ```
enum State {
    Greeting(Role),
    Welcoming(Client),
    Readying(SalsaBox),
    Helloing(Server),
    Initiating(Server, PublicKey),
    Open(Channel),
    Over,
}

enum Role {
    Client(Client),
    Server(Server),
}

struct Channel {
    secret: SalsaBox,
    /// The nonces of what we send, and of what the peer sends.
    ours: &'static [u8; 16],
    theirs: &'static [u8; 16],
    /// The last frame said that more of its message follows.
    within_parts: bool,
}

const OF_CLIENT: &[u8; 16] = b"CurveZMQMESSAGEC";
const OF_SERVER: &[u8; 16] = b"CurveZMQMESSAGES";

/// One end of a connection: a DEALER that calls, or a ROUTER's side of one connection.
///
/// After an error it takes and gives nothing any more.
pub struct Session {
    state: State,
    /// Messages may be so long.
    limit: usize,
    /// The numbers of the last commands, which only rise.
    sent: u64,
    heard: u64,
    output: BytesMut,
}

impl Session {
    /// Calls who has this key.
    ///
    /// # Panics
    /// With an identity of more than 255 bytes.
    pub fn client(server: CurveKey, keys: KeyPair, identity: Bytes, fresh: Fresh, limit: usize) -> Session {
        assert!(identity.len() <= 255, "an identity has 255 bytes at most");
        Session::new(Role::Client(Client::new(server, keys, identity, fresh)), limit)
    }

    /// Is called.
    pub fn server(keys: KeyPair, fresh: Fresh, limit: usize) -> Session {
        Session::new(Role::Server(Server { keys, fresh }), limit)
    }

    fn new(role: Role, limit: usize) -> Session {
        let output = BytesMut::from(&greeting::greeting(CURVE, matches!(role, Role::Server(_)))[..]);
        Session { state: State::Greeting(role), limit, sent: 0, heard: 0, output }
    }

    /// What is to be written.
    pub fn output(&mut self) -> &mut BytesMut {
        &mut self.output
    }

    /// What is due from the peer, for a text; `None` when the handshake is over.
    pub fn due(&self) -> Option<&'static str> {
        match self.state {
            State::Greeting(_) => Some("its greeting"),
            State::Welcoming(_) => Some("WELCOME"),
            State::Readying(_) => Some("READY"),
            State::Helloing(_) => Some("HELLO"),
            State::Initiating(..) => Some("INITIATE"),
            State::Open(_) | State::Over => None,
        }
    }

    /// Puts a message into the output.
    ///
    /// # Errors
    /// When it is too long, and while there is no channel. Nothing has changed then.
    pub fn send(&mut self, message: &[u8]) -> Result<(), ZmtpError> {
        if message.len() > self.limit {
            return Err(ZmtpError::TooLarge { size: message.len() as u64, limit: self.limit });
        }
        self.send_flagged(0, &[message])
    }

    /// Takes what it can use of the bytes that came; to be called until it says `None`.
    ///
    /// # Errors
    /// When the peer is not who or what it should be. The session is over then.
    pub fn handle(&mut self, bytes: &mut BytesMut) -> Result<Option<Event>, ZmtpError> {
        let event = self.advance(bytes);
        if event.is_err() {
            self.state = State::Over;
        }
        event
    }

    fn advance(&mut self, bytes: &mut BytesMut) -> Result<Option<Event>, ZmtpError> {
        loop {
            let limit = match &self.state {
                State::Greeting(_) => {
                    let Some(theirs) = bytes.first_chunk::<GREETING>() else { return Ok(None) };
                    self.greeted(theirs)?;
                    bytes.advance(GREETING);
                    continue;
                }
                State::Open(_) => self.limit.saturating_add(AROUND),
                State::Welcoming(_) | State::Readying(_) | State::Helloing(_) | State::Initiating(..) => {
                    LONGEST_COMMAND
                }
                State::Over => return Ok(None),
            };
            let frame = frame::decode(bytes, limit).map_err(|error| match (error, &self.state) {
                // Of the message, which is what the limit was given for.
                (ZmtpError::TooLarge { size, .. }, State::Open(_)) => {
                    ZmtpError::TooLarge { size: size.saturating_sub(AROUND as u64), limit: self.limit }
                }
                (error, _) => error,
            });
            let Some(frame) = frame? else { return Ok(None) };
            if let Some(event) = self.heard(frame)? {
                return Ok(Some(event));
            }
        }
    }

    fn greeted(&mut self, theirs: &[u8; GREETING]) -> Result<(), ZmtpError> {
        let State::Greeting(role) = mem::replace(&mut self.state, State::Over) else { return Ok(()) };
        greeting::check(theirs, CURVE)?;
        self.state = match role {
            Role::Client(client) => {
                let hello = client.hello(self.count());
                self.command(&hello);
                State::Welcoming(client)
            }
            Role::Server(server) => State::Helloing(server),
        };
        Ok(())
    }

    fn heard(&mut self, frame: Frame) -> Result<Option<Event>, ZmtpError> {
        if let (Some(due), false) = (self.due(), frame.command) {
            return Err(ZmtpError::NoCommand { due });
        }
        match mem::replace(&mut self.state, State::Over) {
            State::Welcoming(client) => {
                let counter = self.count();
                let (channel, initiate) = client.initiate(frame.body, counter)?;
                self.command(&initiate);
                self.state = State::Readying(channel);
                Ok(None)
            }
            State::Readying(secret) => {
                let (number, identity) = ready(frame.body, &secret)?;
                self.rise(number)?;
                let channel = Channel { secret, ours: OF_CLIENT, theirs: OF_SERVER, within_parts: false };
                self.state = State::Open(channel);
                Ok(Some(Event::Open { identity }))
            }
            State::Helloing(server) => {
                let (number, client, welcome) = server.welcome(frame.body)?;
                self.rise(number)?;
                self.command(&welcome);
                self.state = State::Initiating(server, client);
                Ok(None)
            }
            State::Initiating(server, client) => {
                let counter = self.count();
                let (number, secret, identity, ready) = server.ready(frame.body, &client, counter)?;
                self.rise(number)?;
                self.command(&ready);
                let channel = Channel { secret, ours: OF_SERVER, theirs: OF_CLIENT, within_parts: false };
                self.state = State::Open(channel);
                Ok(Some(Event::Open { identity }))
            }
            State::Open(channel) => self.received(channel, frame.body),
            // Neither takes frames.
            State::Greeting(_) | State::Over => Ok(None),
        }
    }

    fn received(&mut self, mut channel: Channel, body: Bytes) -> Result<Option<Event>, ZmtpError> {
        let mut sealed = expect(body, MESSAGE, "MESSAGE", 8)?;
        let number = sealed.get_u64();
        let mut plain = unseal(&channel.secret, counted(channel.theirs, number), &sealed, "MESSAGE")?;
        self.rise(number)?;
        if plain.is_empty() {
            return Err(ZmtpError::Malformed { command: "MESSAGE" });
        }
        let flags = plain.get_u8();
        if flags & COMMAND != 0 {
            self.state = State::Open(channel);
            return self.told(&plain).map(|()| None);
        }
        let whole = flags & MORE == 0 && !channel.within_parts;
        channel.within_parts = flags & MORE != 0;
        self.state = State::Open(channel);
        Ok(whole.then_some(Event::Message(plain)))
    }

    /// Commands within the channel: of these a peer may send pings, and wants them answered.
    fn told(&mut self, command: &[u8]) -> Result<(), ZmtpError> {
        let Some(context) = pinged(command)? else { return refused(command) };
        // Who does not read what we say needs no more of it.
        if self.output.len() > self.limit {
            return Ok(());
        }
        self.send_flagged(COMMAND, &[PONG, context])
    }

    fn send_flagged(&mut self, flags: u8, pieces: &[&[u8]]) -> Result<(), ZmtpError> {
        let State::Open(channel) = &self.state else { return Err(ZmtpError::NotOpen) };
        self.sent += 1;
        let plain = [&[flags], pieces.concat().as_slice()].concat();
        let sealed = seal(&channel.secret, counted(channel.ours, self.sent), &plain);
        // A frame of a message although it is called a command: so does libzmq.
        frame::encode(false, &[MESSAGE, &self.sent.to_be_bytes(), &sealed], &mut self.output);
        Ok(())
    }

    fn command(&mut self, body: &[u8]) {
        frame::encode(true, &[body], &mut self.output);
    }

    fn count(&mut self) -> u64 {
        self.sent += 1;
        self.sent
    }

    fn rise(&mut self, number: u64) -> Result<(), ZmtpError> {
        if number <= self.heard {
            return Err(ZmtpError::Replayed { number, last: self.heard });
        }
        self.heard = number;
        Ok(())
    }
}

/// Without its secrets.
impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Session")
            .field("due", &self.due())
            .field("sent", &self.sent)
            .field("heard", &self.heard)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::PING;

    /// Gives one what the other has to say.
    fn carry(from: &mut Session, to: &mut Session) -> Vec<Event> {
        let mut bytes = from.output.split();
        std::iter::from_fn(|| to.handle(&mut bytes).unwrap()).collect()
    }

    fn opened() -> (Session, Session) {
        let (keys, fresh) = (KeyPair::random().unwrap(), || Fresh::random().unwrap());
        let mut client = Session::client(keys.public(), KeyPair::random().unwrap(), Bytes::new(), fresh(), 1000);
        let mut server = Session::server(keys, fresh(), 1000);
        for _ in 0..3 {
            carry(&mut client, &mut server);
            carry(&mut server, &mut client);
        }
        (client, server)
    }

    #[test]
    fn pings_are_answered_with_their_context_until_nobody_reads() {
        let (mut client, mut server) = opened();
        server.send_flagged(COMMAND, &[PING, &[0, 10], b"context"]).unwrap();
        assert!(carry(&mut server, &mut client).is_empty());
        let mut answer = client.output.split();
        assert!(!answer.is_empty());
        assert_eq!(server.handle(&mut answer), Ok(None), "a command, not a message");
        for _ in 0..1000 {
            server.send_flagged(COMMAND, &[PING, &[0, 10]]).unwrap();
        }
        carry(&mut server, &mut client);
        assert!(client.output.len() < 1100, "{}", client.output.len());
        server.send_flagged(COMMAND, &[PING, &[0; 19]]).unwrap();
        let malformed = client.handle(&mut server.output.split());
        assert_eq!(malformed, Err(ZmtpError::Malformed { command: "PING" }));
    }

    #[test]
    fn messages_of_many_parts_are_skipped_whole() {
        let (mut client, mut server) = opened();
        for (flags, text) in [(MORE, "a"), (MORE, "b"), (0, "c"), (0, "whole")] {
            server.send_flagged(flags, &[text.as_bytes()]).unwrap();
        }
        assert_eq!(carry(&mut server, &mut client), [Event::Message("whole".into())]);
    }

    #[test]
    fn a_peer_that_refuses_says_why() {
        let (mut client, mut server) = opened();
        server.send_flagged(COMMAND, &[b"\x05ERROR\x03400"]).unwrap();
        let refused = client.handle(&mut server.output.split());
        assert_eq!(refused, Err(ZmtpError::Refused { reason: "400".into() }));
    }

    #[test]
    fn what_is_too_long_is_not_sent() {
        let (mut client, _) = opened();
        assert_eq!(client.send(&[0; 1001]), Err(ZmtpError::TooLarge { size: 1001, limit: 1000 }));
        assert!(client.output.is_empty());
    }

    #[test]
    fn the_handshake_takes_commands_only_in_frames_of_commands() {
        for (flags, taken) in [(0b100, true), (0b000, false), (0b001, false), (0b101, false)] {
            let keys = KeyPair::random().unwrap();
            let (own, fresh) = (KeyPair::random().unwrap(), || Fresh::random().unwrap());
            let mut client = Session::client(keys.public(), own, Bytes::new(), fresh(), 1000);
            let mut server = Session::server(keys, fresh(), 1000);
            carry(&mut client, &mut server);
            carry(&mut server, &mut client);
            let mut hello = client.output.split();
            hello[0] = flags;
            let wanted = if taken { Ok(None) } else { Err(ZmtpError::NoCommand { due: "HELLO" }) };
            assert_eq!(server.handle(&mut hello), wanted, "flags {flags:#05b}");
        }
    }

    #[test]
    fn what_is_too_long_is_told_by_the_size_of_the_message() {
        let (mut client, mut server) = opened();
        server.limit = 2000;
        server.send(&[0; 1000]).unwrap();
        assert_eq!(carry(&mut server, &mut client), [Event::Message(vec![0; 1000].into())]);
        server.send(&[0; 1001]).unwrap();
        let refused = client.handle(&mut server.output.split());
        assert_eq!(refused, Err(ZmtpError::TooLarge { size: 1001, limit: 1000 }));
    }
}
