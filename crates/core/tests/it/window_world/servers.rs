//! The nodes: what they make of sockets and requests.

use super::{Event, Tag, World, ms};
use carom_core::backend::Backend;
use carom_core::window::{Key, SocketId, Verdict};
use std::net::SocketAddr;

/// How a node treats requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Answers,
    /// Acknowledges and answers.
    Acknowledges,
    AckOnly,
    Mute,
    /// Gives an answer of its own.
    Lies,
    Nacks,
    /// Accepts no sockets.
    Refuses,
    /// Ends the socket when it is asked.
    Drops,
}

pub(super) const BEHAVIOURS: [Behaviour; 8] = [
    Behaviour::Answers,
    Behaviour::Acknowledges,
    Behaviour::AckOnly,
    Behaviour::Mute,
    Behaviour::Lies,
    Behaviour::Nacks,
    Behaviour::Refuses,
    Behaviour::Drops,
];

impl World {
    /// A node has been sent a request: what comes of it.
    pub(super) fn node_answers(&mut self, socket: SocketId, server: usize, tag: Tag) {
        let takes = self.setting.answer.mul_f64(self.random.fraction());
        let (at, ack) = (self.clock + takes, self.clock + takes.mul_f64(self.random.fraction()));
        let good = Event::Answer(socket, tag, Verdict::Counts(Key(0)));
        let (acks, then) = match self.behaviour[server] {
            Behaviour::Answers => (false, Some(good)),
            Behaviour::Acknowledges => (true, Some(good)),
            Behaviour::AckOnly => (true, None),
            Behaviour::Mute | Behaviour::Refuses => (false, None),
            Behaviour::Lies => (true, Some(Event::Answer(socket, tag, Verdict::Counts(Key(1 + server as u32))))),
            Behaviour::Nacks => (false, Some(Event::Answer(socket, tag, Verdict::Invalid))),
            Behaviour::Drops => (false, Some(Event::Ends(socket))),
        };
        if acks {
            self.at(ack, Event::Ack(socket, tag));
        }
        let Some(then) = then else { return };
        self.at(at, then);
        if self.random.chance(self.setting.twice) {
            self.at(at + ms(3), then);
            self.at(at + ms(5), Event::Ack(socket, tag));
        }
    }
}

pub(super) fn backend(server: usize, address: u8) -> Backend {
    Backend::new(name(server), ([10, 0, address, 1], server as u16 + 1).into())
}

pub(super) fn name(server: usize) -> String {
    format!("node-{server}")
}

pub(super) fn number(backend: &Backend) -> usize {
    server_at(backend.socket_addr())
}

pub(super) fn server_at(address: SocketAddr) -> usize {
    usize::from(address.port()) - 1
}
