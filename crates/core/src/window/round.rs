//! The round: one request on its way from node to node, until it has what it wants or cannot get it.
//!
//! It knows who was asked and what each has said; whoever holds it looks at its [`Standing`] after every change and does
//! what that says.

use super::ask::Goal;
use super::{Key, RequestId, SocketId, Timer};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A request's way through the nodes.
#[derive(Debug)]
pub(super) struct Round {
    goal: Goal,
    /// The best group of equal answers and those still waited for and not overdue are as many as this, while there are nodes
    /// left to ask.
    at_once: usize,
    /// Nodes, by their number in the window, in the order in which they are asked.
    order: Vec<usize>,
    /// What became of those that were asked, in the same order.
    asked: Vec<Asked>,
}

/// A node that was asked.
///
/// ```text
///   Waiting ----> Told        an answer, a failure, or its time is over
///    |   ^          ^
///    +---+          |         an acknowledgement, once: more time; none in time: another node is asked as well
///    v   |          |
///    Lost ----------+         its socket ended after the request was sent, and it is sent again on a new one
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// `sent` says that the request was sent on this socket or one before, `lost` how many sockets ended before this one.
    Waiting {
        socket: SocketId,
        since: Instant,
        deadline: Instant,
        ack: Ack,
        sent: bool,
        lost: u32,
    },
    /// A new socket is opened at `again`.
    Lost {
        since: Instant,
        deadline: Instant,
        ack: Ack,
        lost: u32,
        again: Instant,
    },
    Told {
        told: Told,
        sent: bool,
    },
}

/// Whether a node has acknowledged the request.
///
/// ```text
///   Awaited --hedge--> Overdue --> Received
///      |                              ^
///      +------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ack {
    /// Not yet; at `hedge`, if any, it is overdue.
    Awaited { hedge: Option<Instant> },
    /// Not by then: it is waited for, but does not count among those asked at once.
    Overdue,
    /// It has.
    Received,
}

/// What a node was waited for with: to be taken back.
pub(super) struct Held {
    pub(super) socket: Option<SocketId>,
    pub(super) deadline: Instant,
    pub(super) again: Option<Instant>,
    pub(super) hedge: Option<Instant>,
}

impl Held {
    /// The timers of the node at this place.
    pub(super) fn timers(&self, request: RequestId, place: usize) -> impl Iterator<Item = (Instant, Timer)> + use<> {
        let again = self.again.map(|again| (again, Timer::Again(request, place)));
        let hedge = self.hedge.map(|hedge| (hedge, Timer::Hedge(request, place)));
        [Some((self.deadline, Timer::Node(request, place))), again, hedge].into_iter().flatten()
    }
}

impl Ack {
    fn hedge(self) -> Option<Instant> {
        match self {
            Ack::Awaited { hedge } => hedge,
            Ack::Overdue | Ack::Received => None,
        }
    }
}

impl Asked {
    /// What it holds while it is waited for.
    pub(super) fn held(&self) -> Option<Held> {
        match *self {
            Asked::Waiting { socket, deadline, ack, .. } => {
                Some(Held { socket: Some(socket), deadline, again: None, hedge: ack.hedge() })
            }
            Asked::Lost { deadline, again, ack, .. } => {
                Some(Held { socket: None, deadline, again: Some(again), hedge: ack.hedge() })
            }
            Asked::Told { .. } => None,
        }
    }

    /// Whether it is waited for, and has not acknowledged the request in time.
    fn is_overdue(&self) -> bool {
        matches!(self, Asked::Waiting { ack: Ack::Overdue, .. } | Asked::Lost { ack: Ack::Overdue, .. })
    }

    /// Whether the request may have reached the node.
    fn sent(&self) -> bool {
        match *self {
            Asked::Waiting { sent, .. } | Asked::Told { sent, .. } => sent,
            Asked::Lost { .. } => true,
        }
    }
}

/// What is known of a node's answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It has answered; the key tells equal answers from others.
    Answered(Key),
    /// It has answered, and it does not count: a refusal, or garbage.
    Invalid,
    /// It has not said a word.
    NoAck {
        /// For so long.
        after: Duration,
    },
    /// It has acknowledged the request, and not answered.
    NoReply {
        /// For so long.
        after: Duration,
    },
    /// The socket to it could not be opened, or has ended. One that [reconnects](super::Ask::reconnect) did not come back in time.
    Ended,
    /// It was still waited for when the request ended.
    Waiting,
    /// It was not asked.
    NotAsked,
}

/// Where a round stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// There are as many equal answers as wanted.
    Reached(Key),
    /// Every node has said what it had to say.
    Complete,
    /// There can not be as many equal answers any more.
    Impossible,
    /// The next node is to be asked.
    Ask { node: usize },
    /// Those who were asked are waited for.
    Waiting,
}

impl Round {
    pub(super) fn new(goal: Goal, at_once: usize, order: Vec<usize>) -> Round {
        Round { goal, at_once, asked: Vec::with_capacity(order.len()), order }
    }

    pub(super) fn standing(&self) -> Standing {
        let waiting = self.asked.iter().filter(|asked| asked.held().is_some()).count();
        let overdue = self.asked.iter().filter(|asked| asked.is_overdue()).count();
        let unasked = self.order.len() - self.asked.len();
        let (best, key) = self.best();
        match self.goal {
            Goal::Equal(wanted) if best >= wanted => Standing::Reached(key),
            Goal::Equal(wanted) if best + waiting + unasked < wanted => Standing::Impossible,
            Goal::Every if waiting + unasked == 0 => Standing::Complete,
            Goal::Equal(_) if unasked > 0 && best + waiting - overdue < self.at_once => self.ask_next(),
            Goal::Every if unasked > 0 => self.ask_next(),
            Goal::Equal(_) | Goal::Every => Standing::Waiting,
        }
    }

    fn ask_next(&self) -> Standing {
        Standing::Ask { node: self.order[self.asked.len()] }
    }

    /// The largest group of equal answers, the smallest key among several.
    fn best(&self) -> (usize, Key) {
        let mut groups: BTreeMap<Key, usize> = BTreeMap::new();
        for asked in &self.asked {
            if let Asked::Told { told: Told::Answered(key), .. } = asked {
                *groups.entry(*key).or_default() += 1;
            }
        }
        groups.into_iter().map(|(key, count)| (count, key)).rev().max_by_key(|(count, _)| *count).unwrap_or((0, Key(0)))
    }

    /// The next node has been asked; its place in the round, and when its acknowledgement is overdue, if it can be.
    pub(super) fn ask(
        &mut self,
        socket: SocketId,
        now: Instant,
        deadline: Instant,
        hedge_after: Option<Duration>,
    ) -> (usize, Option<Instant>) {
        let hedge = hedge_after.filter(|_| self.at_once < self.order.len()).map(|after| now + after);
        let ack = Ack::Awaited { hedge };
        self.asked.push(Asked::Waiting { socket, since: now, deadline, ack, sent: false, lost: 0 });
        (self.asked.len() - 1, hedge)
    }

    /// The acknowledgement of the node at this place is overdue.
    pub(super) fn hedge(&mut self, place: usize) {
        match self.asked.get_mut(place) {
            Some(Asked::Waiting { ack, .. } | Asked::Lost { ack, .. }) => *ack = Ack::Overdue,
            Some(Asked::Told { .. }) | None => {}
        }
    }

    /// The node at this place, by its number in the window.
    pub(super) fn node(&self, place: usize) -> usize {
        self.order[place]
    }

    pub(super) fn asked(&self) -> &[Asked] {
        &self.asked
    }

    /// The node at this place acknowledges the request, and has `timeout` in all from when it was asked. Its timers until now and
    /// its new deadline; `None` if it had acknowledged before.
    pub(super) fn acknowledge(&mut self, place: usize, timeout: Duration) -> Option<(Held, Instant)> {
        let asked = self.asked.get_mut(place)?;
        let before = asked.held()?;
        match asked {
            Asked::Waiting { since, deadline, ack, .. } if *ack != Ack::Received => {
                (*deadline, *ack) = (*since + timeout, Ack::Received);
                Some((before, *deadline))
            }
            Asked::Waiting { .. } | Asked::Lost { .. } | Asked::Told { .. } => None,
        }
    }

    /// The request is about to be sent on this socket.
    pub(super) fn send_on(&mut self, on: SocketId) {
        for asked in &mut self.asked {
            match asked {
                Asked::Waiting { socket, sent, .. } if *socket == on => *sent = true,
                Asked::Waiting { .. } | Asked::Lost { .. } | Asked::Told { .. } => {}
            }
        }
    }

    /// How many sockets to the node at this place have ended, if the request was sent to it and is waited for.
    pub(super) fn losses(&self, place: usize) -> Option<u32> {
        match self.asked.get(place)? {
            Asked::Waiting { sent: true, lost, .. } => Some(*lost),
            Asked::Waiting { sent: false, .. } | Asked::Lost { .. } | Asked::Told { .. } => None,
        }
    }

    /// The socket to the node at this place has ended; there is to be another one at `again`.
    pub(super) fn lose(&mut self, place: usize, again: Instant) {
        if let Some(asked) = self.asked.get_mut(place)
            && let Asked::Waiting { since, deadline, ack, lost, .. } = *asked
        {
            *asked = Asked::Lost { since, deadline, ack, lost: lost.saturating_add(1), again };
        }
    }

    /// The node at this place, if its socket has ended and its time is not over.
    pub(super) fn lost(&self, place: usize, now: Instant) -> Option<usize> {
        match self.asked.get(place)? {
            Asked::Lost { deadline, .. } if *deadline >= now => self.order.get(place).copied(),
            Asked::Lost { .. } | Asked::Waiting { .. } | Asked::Told { .. } => None,
        }
    }

    /// There is another socket to the node at this place.
    pub(super) fn reconnect(&mut self, place: usize, socket: SocketId) {
        if let Some(asked) = self.asked.get_mut(place)
            && let Asked::Lost { since, deadline, ack, lost, .. } = *asked
        {
            *asked = Asked::Waiting { socket, since, deadline, ack, sent: true, lost };
        }
    }

    /// The node at this place has said this, or never will; what it was waited for with.
    pub(super) fn tell(&mut self, place: usize, told: Told) -> Option<Held> {
        let asked = self.asked.get_mut(place)?;
        let held = asked.held()?;
        *asked = Asked::Told { told, sent: asked.sent() };
        Some(held)
    }

    /// What a node has not said by its deadline.
    pub(super) fn missed(&self, place: usize) -> Told {
        match self.asked.get(place) {
            Some(Asked::Waiting { since, deadline, ack: Ack::Received, .. }) => {
                Told::NoReply { after: *deadline - *since }
            }
            Some(Asked::Waiting { since, deadline, ack: Ack::Awaited { .. } | Ack::Overdue, .. }) => {
                Told::NoAck { after: *deadline - *since }
            }
            Some(Asked::Lost { .. }) => Told::Ended,
            Some(Asked::Told { told, .. }) => *told,
            None => Told::NotAsked,
        }
    }

    /// The place of the node that is waited for on this socket.
    pub(super) fn place_on(&self, wanted: SocketId) -> Option<usize> {
        self.asked.iter().position(|asked| matches!(asked, Asked::Waiting { socket, .. } if *socket == wanted))
    }

    /// Every node of the round with what is known of its answer and whether the request may have reached it, those that were asked
    /// first, in order.
    pub(super) fn accounts(&self) -> impl Iterator<Item = (usize, Told, bool)> + '_ {
        self.order.iter().enumerate().map(|(place, &node)| match self.asked.get(place) {
            Some(Asked::Told { told, sent }) => (node, *told, *sent),
            Some(asked @ (Asked::Waiting { .. } | Asked::Lost { .. })) => (node, Told::Waiting, asked.sent()),
            None => (node, Told::NotAsked, false),
        })
    }
}
