//! Memory of nodes that did not respond: for a while they are asked last.

use super::nodes::{Node, Nodes};
use super::{Action, Machine, WindowId};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a node is asked last after it did not respond.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The nodes of a requester that did not respond lately, each with the time until which it is asked last.
#[derive(Debug)]
pub(super) struct Memory<N> {
    unresponsive: Vec<(Arc<N>, Instant)>,
}

impl<N: Node> Memory<N> {
    pub(super) fn new() -> Memory<N> {
        Memory { unresponsive: Vec::new() }
    }

    pub(super) fn is_unresponsive(&self, now: Instant, node: &Arc<N>) -> bool {
        self.unresponsive.iter().any(|(known, until)| known == node && now < *until)
    }

    /// Forgets nodes that changed or went.
    pub(super) fn keep(&mut self, nodes: &Nodes<N>) {
        self.unresponsive.retain(|(node, _)| nodes.contains(node));
    }

    /// Forgets a node. Whether it was unresponsive.
    fn forget(&mut self, now: Instant, node: &Arc<N>) -> bool {
        let was = self.is_unresponsive(now, node);
        self.unresponsive.retain(|(known, _)| known != node);
        was
    }

    /// By name.
    pub(super) fn list(&self) -> Vec<(Arc<N>, Instant)> {
        let mut list = self.unresponsive.clone();
        list.sort_by(|(one, _), (other, _)| one.name().cmp(other.name()));
        list
    }
}

impl<N: Node, G: Ord + Clone> Machine<N, G> {
    /// A node of a window does not respond.
    pub(super) fn note_silence(&mut self, now: Instant, window: WindowId, node: usize) {
        let Some(node) = self.windows.get(&window).map(|window| Arc::clone(&window.nodes[node])) else { return };
        // A window may outlive its nodes.
        if self.nodes.contains(&node) {
            if !self.memory.forget(now, &node) {
                self.actions.push_back(Action::Unresponsive(Arc::clone(&node)));
            }
            self.memory.unresponsive.push((node, now + REMEMBERED));
        }
    }

    /// A node of a window responds.
    pub(super) fn note_response(&mut self, now: Instant, window: WindowId, node: usize) {
        let Some(node) = self.windows.get(&window).map(|window| Arc::clone(&window.nodes[node])) else { return };
        if self.memory.forget(now, &node) {
            self.actions.push_back(Action::Responsive(node));
        }
    }
}
