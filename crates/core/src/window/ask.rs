//! What a request wants: how many answers, from whom, and how soon.

use super::nodes::{Node, Nodes};
use super::options::{Options, count, timeouts};
use crate::options::OptionsError;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// When a request has what it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// So many nodes have given answers with the same key. One is enough for whoever takes any valid answer.
    Equal(usize),
    /// Every node has answered, or is known not to.
    Every,
}

/// What a request wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// When it is done.
    pub goal: Goal,
    /// How many nodes are asked at first; more as some fail, disagree or do not acknowledge, so that the best group of equal
    /// answers and those still waited for, without the overdue ones, are together as many. At least 1; as many as the goal
    /// needs, if that is more. `None` is `read_nodes`.
    pub at_once: Option<usize>,
    /// Only these nodes, by name; one named twice is asked once. `None` is all.
    pub nodes: Option<Vec<Arc<str>>>,
    /// Instead of the requester's.
    pub ack_timeout: Option<Duration>,
    /// Instead of the requester's. Not below the other one, wherever that comes from.
    pub reply_timeout: Option<Duration>,
    /// Whether it is sent again, on a new socket of the same window, to a node whose socket ended after it was sent, until that
    /// node's deadline. Only for requests that nodes recognise when they come twice.
    pub reconnect: bool,
}

/// Why a request was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The requester is closed.
    Closed,
    /// It names nodes, but none.
    NoNodes,
    /// It names nodes that are not there.
    UnknownNodes(Vec<Arc<str>>),
    /// It wants more equal answers than there are nodes to give them, or none at all.
    Unreachable {
        /// How many equal answers it wants.
        wanted: usize,
        /// How many nodes it asks.
        nodes: usize,
    },
    /// One of its options makes no sense.
    Options(OptionsError),
}

impl Ask {
    /// One valid answer.
    pub fn any() -> Ask {
        Ask::for_goal(Goal::Equal(1))
    }

    /// So many answers with the same key, of all nodes at once.
    pub fn quorum(wanted: usize) -> Ask {
        Ask { at_once: Some(usize::MAX), ..Ask::for_goal(Goal::Equal(wanted)) }
    }

    /// Whatever every node says.
    pub fn all() -> Ask {
        Ask::for_goal(Goal::Every)
    }

    fn for_goal(goal: Goal) -> Ask {
        Ask { goal, at_once: None, nodes: None, ack_timeout: None, reply_timeout: None, reconnect: false }
    }

    /// How long a node has to acknowledge, and how long to answer when it has; both from when it is asked.
    pub(super) fn timeouts(&self, options: &Options) -> (Duration, Duration) {
        (self.ack_timeout.unwrap_or(options.ack_timeout), self.reply_timeout.unwrap_or(options.reply_timeout))
    }

    /// How long a node that was asked may take to acknowledge until one more is, if ever.
    pub(super) fn hedge_after(&self, options: &Options) -> Option<Duration> {
        options.hedge_after.filter(|after| *after < self.timeouts(options).0)
    }

    /// How many of `nodes` are asked at first.
    pub(super) fn first(&self, options: &Options, nodes: usize) -> usize {
        match self.goal {
            Goal::Equal(wanted) => self.at_once.unwrap_or(options.read_nodes).max(wanted).min(nodes),
            Goal::Every => nodes,
        }
    }

    /// Refuses options that make no sense, as [`Options::validate`] does.
    pub(super) fn validate(&self, options: &Options) -> Result<(), Refusal> {
        let (ack, reply) = self.timeouts(options);
        timeouts(ack, reply).and(count("at_once", self.at_once.unwrap_or(1))).map_err(Refusal::Options)
    }

    /// Whether these nodes can give what it wants.
    pub(super) fn suits<N: Node>(&self, nodes: &Nodes<N>) -> Result<(), Refusal> {
        let asked = match &self.nodes {
            None => nodes.len(),
            Some(names) => {
                let unknown = |name: &&Arc<str>| !nodes.iter().any(|node| node.name() == &***name);
                let unknown: Vec<Arc<str>> = names.iter().filter(unknown).cloned().collect();
                if !unknown.is_empty() {
                    return Err(Refusal::UnknownNodes(unknown));
                }
                names.iter().collect::<BTreeSet<_>>().len()
            }
        };
        match self.goal {
            Goal::Equal(_) | Goal::Every if asked == 0 => Err(Refusal::NoNodes),
            Goal::Equal(wanted) if wanted == 0 || wanted > asked => Err(Refusal::Unreachable { wanted, nodes: asked }),
            Goal::Equal(_) | Goal::Every => Ok(()),
        }
    }
}
