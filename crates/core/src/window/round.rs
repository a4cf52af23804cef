//! The round: one request on its way from node to node, until it has what it wants or cannot get it.
//!
//! It knows who was asked and what each has said; whoever holds it looks at its [`Standing`] after every change and does
//! what that says.

use super::ask::Goal;
use super::{Key, SocketId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A request's way through the nodes.
#[derive(Debug)]
pub(super) struct Round {
    goal: Goal,
    /// The best group of equal answers and those still waited for are as many as this, while there are nodes left to ask.
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
///    |   ^
///    +---+  an acknowledgement, once: more time
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Waiting { socket: SocketId, since: Instant, deadline: Instant, acked: bool },
    Told(Told),
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
    /// The socket to it could not be opened, or has ended.
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
        let waiting = self.asked.iter().filter(|asked| matches!(asked, Asked::Waiting { .. })).count();
        let unasked = self.order.len() - self.asked.len();
        let (best, key) = self.best();
        match self.goal {
            Goal::Equal(wanted) if best >= wanted => Standing::Reached(key),
            Goal::Equal(wanted) if best + waiting + unasked < wanted => Standing::Impossible,
            Goal::Every if waiting + unasked == 0 => Standing::Complete,
            Goal::Equal(_) if unasked > 0 && best + waiting < self.at_once => self.ask_next(),
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
            if let Asked::Told(Told::Answered(key)) = asked {
                *groups.entry(*key).or_default() += 1;
            }
        }
        groups.into_iter().map(|(key, count)| (count, key)).rev().max_by_key(|(count, _)| *count).unwrap_or((0, Key(0)))
    }

    /// The next node has been asked; its place in the round.
    pub(super) fn ask(&mut self, socket: SocketId, now: Instant, deadline: Instant) -> usize {
        self.asked.push(Asked::Waiting { socket, since: now, deadline, acked: false });
        self.asked.len() - 1
    }

    pub(super) fn asked(&self) -> &[Asked] {
        &self.asked
    }

    /// The node at this place acknowledges: it has `timeout` in all from when it was asked. The deadlines before and after,
    /// unless this was known.
    pub(super) fn acknowledge(&mut self, place: usize, timeout: Duration) -> Option<(Instant, Instant)> {
        match self.asked.get_mut(place)? {
            Asked::Waiting { since, deadline, acked, .. } if !*acked => {
                let before = *deadline;
                (*deadline, *acked) = (*since + timeout, true);
                Some((before, *deadline))
            }
            Asked::Waiting { .. } | Asked::Told(_) => None,
        }
    }

    /// The node at this place has said this, or never will; the socket it was waited for on, and the deadline it had.
    pub(super) fn tell(&mut self, place: usize, told: Told) -> Option<(SocketId, Instant)> {
        let asked = self.asked.get_mut(place)?;
        match *asked {
            Asked::Waiting { socket, deadline, .. } => {
                *asked = Asked::Told(told);
                Some((socket, deadline))
            }
            Asked::Told(_) => None,
        }
    }

    /// What a node has not said by its deadline.
    pub(super) fn missed(&self, place: usize) -> Told {
        match self.asked.get(place) {
            Some(Asked::Waiting { since, deadline, acked: true, .. }) => Told::NoReply { after: *deadline - *since },
            Some(Asked::Waiting { since, deadline, acked: false, .. }) => Told::NoAck { after: *deadline - *since },
            Some(Asked::Told(told)) => *told,
            None => Told::NotAsked,
        }
    }

    /// The place of the node that is waited for on this socket.
    pub(super) fn place_on(&self, wanted: SocketId) -> Option<usize> {
        self.asked.iter().position(|asked| matches!(asked, Asked::Waiting { socket, .. } if *socket == wanted))
    }

    /// Every node of the round with what is known of its answer, those that were asked first, in order.
    pub(super) fn accounts(&self) -> impl Iterator<Item = (usize, Told)> + '_ {
        self.order.iter().enumerate().map(|(place, &node)| match self.asked.get(place) {
            Some(Asked::Told(told)) => (node, *told),
            Some(Asked::Waiting { .. }) => (node, Told::Waiting),
            None => (node, Told::NotAsked),
        })
    }
}
