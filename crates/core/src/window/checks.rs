//! Active health checks of the nodes: an unhealthy node is asked last.

use super::nodes::Node;
use super::{Action, Machine, Timer};
use crate::backends::Checks;
use std::sync::Arc;
use std::time::Instant;

/// Names the health checks of a node; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckId(u64);

/// The nodes that are checked.
#[derive(Debug)]
pub(super) struct Checked<N> {
    nodes: Vec<CheckedNode<N>>,
    next: u64,
}

#[derive(Debug)]
struct CheckedNode<N> {
    id: CheckId,
    node: Arc<N>,
    checks: Checks,
    /// When the next check is due; `None` while one runs.
    due: Option<Instant>,
}

impl<N: Node> Checked<N> {
    pub(super) fn new() -> Checked<N> {
        Checked { nodes: Vec::new(), next: 0 }
    }

    pub(super) fn is_unhealthy(&self, node: &Arc<N>) -> bool {
        self.nodes.iter().any(|checked| checked.node == *node && checked.checks.is_unhealthy())
    }

    /// By name.
    pub(super) fn unhealthy(&self) -> Vec<Arc<N>> {
        let unhealthy = self.nodes.iter().filter(|checked| checked.checks.is_unhealthy());
        let mut list: Vec<Arc<N>> = unhealthy.map(|checked| Arc::clone(&checked.node)).collect();
        list.sort_by(|one, other| one.name().cmp(other.name()));
        list
    }

    /// The timers that are set: for simulations.
    pub(super) fn timers(&self) -> impl Iterator<Item = (Instant, Timer)> {
        self.nodes.iter().filter_map(|checked| Some((checked.due?, Timer::Check(checked.id))))
    }
}

impl<N: Node, G: Ord + Clone> Machine<N, G> {
    /// Schedules the first check of nodes that are new, and none of those that are gone.
    pub(super) fn schedule_checks(&mut self, now: Instant) {
        let Some(schedule) = &self.options.health_check else { return };
        let Machine { checked, timers, random, nodes, .. } = self;
        checked.nodes.retain(|checked| {
            let stays = nodes.contains(&checked.node);
            if let (false, Some(due)) = (stays, checked.due) {
                timers.remove(&(due, Timer::Check(checked.id)));
            }
            stays
        });
        for node in nodes.iter() {
            if checked.nodes.iter().any(|checked| checked.node == *node) {
                continue;
            }
            let (id, due) = (CheckId(checked.next), now + schedule.first_delay(random));
            checked.next += 1;
            timers.insert((due, Timer::Check(id)));
            checked.nodes.push(CheckedNode { id, node: Arc::clone(node), checks: Checks::default(), due: Some(due) });
        }
    }

    /// No node is checked any more.
    pub(super) fn stop_checks(&mut self) {
        for timer in self.checked.timers() {
            self.timers.remove(&timer);
        }
        self.checked.nodes.clear();
    }

    pub(super) fn start_check(&mut self, check: CheckId) {
        let Some(checked) = self.checked.nodes.iter_mut().find(|checked| checked.id == check) else { return };
        checked.due = None;
        self.actions.push_back(Action::HealthCheck { check, node: Arc::clone(&checked.node) });
    }

    /// A health check has passed, or has failed: by its result or its timeout.
    pub fn handle_health_checked(&mut self, now: Instant, check: CheckId, passed: bool) {
        self.catch_up(now);
        let Some(schedule) = &self.options.health_check else { return };
        let Machine { checked, timers, random, actions, .. } = self;
        let running = |checked: &&mut CheckedNode<N>| checked.id == check && checked.due.is_none();
        let Some(CheckedNode { node, checks, due, .. }) = checked.nodes.iter_mut().find(running) else { return };
        let next = now + schedule.next_delay(random);
        *due = Some(next);
        timers.insert((next, Timer::Check(check)));
        if checks.record(passed, schedule.threshold(passed)) && checks.set_unhealthy(!passed) == passed {
            let node = Arc::clone(node);
            actions.push_back(if passed { Action::Healthy(node) } else { Action::Unhealthy(node) });
        }
    }
}
