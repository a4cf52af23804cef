//! What a requester is told: how long a window lasts, and how long nodes may take.

use crate::health_check::Schedule;
use crate::options::OptionsError;
use crate::recovery::DAY;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// What a requester is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// How long a window takes new requests, from its creation.
    pub active_for: Duration,
    /// How many requests are started on a window at most. Asking further nodes for the same request does not count.
    pub request_limit: usize,
    /// How long a node may take to say anything about a request, from when it is asked.
    pub ack_timeout: Duration,
    /// How long a node that has acknowledged a request may take to answer it, also from when it was asked. A request waits no
    /// longer than this for a window.
    pub reply_timeout: Duration,
    /// How long after a node was asked a request that does not ask all nodes at once asks one more if that node has not
    /// acknowledged it. `None` is never, and so is a time that is not below the request's `ack_timeout`.
    pub hedge_after: Option<Duration>,
    /// How many nodes are asked at once when one answer is enough.
    pub read_nodes: usize,
    /// Names of nodes that are asked before others, always the first first: they do not take turns. Names that no node has are passed over.
    pub preferred: Vec<Arc<str>>,
    /// How many windows there may be at a time; over it, requests wait in order. `None` is as many as are needed.
    pub max_windows: Option<usize>,
    /// Active health checks of every node: [`Action::HealthCheck`](super::Action::HealthCheck). Default off.
    pub health_check: Option<Schedule>,
}

/// 5 s or 5 requests; 10 s to acknowledge, 100 s to answer, one more node after 1 s; one node at a time, no preference, as many windows as needed.
impl Default for Options {
    fn default() -> Options {
        Options {
            active_for: Duration::from_secs(5),
            request_limit: 5,
            ack_timeout: Duration::from_secs(10),
            reply_timeout: Duration::from_secs(100),
            hedge_after: Some(Duration::from_secs(1)),
            read_nodes: 1,
            preferred: Vec::new(),
            max_windows: None,
            health_check: None,
        }
    }
}

impl Options {
    /// Refuses what makes no sense, naming the option.
    ///
    /// # Errors
    /// The first option that is out of bounds.
    pub fn validate(&self) -> Result<(), OptionsError> {
        time("active_for", self.active_for)?;
        timeouts(self.ack_timeout, self.reply_timeout)?;
        self.hedge_after.map_or(Ok(()), |after| time("hedge_after", after))?;
        count("request_limit", self.request_limit)?;
        count("read_nodes", self.read_nodes)?;
        count("max_windows", self.max_windows.unwrap_or(1))?;
        if let Some(Err(problem)) = self.health_check.as_ref().map(Schedule::validate) {
            return Err(OptionsError::new("health_check", problem.to_string()));
        }
        if self.preferred.iter().collect::<BTreeSet<_>>().len() < self.preferred.len() {
            return Err(OptionsError::new("preferred", "must not name a node twice"));
        }
        Ok(())
    }
}

/// Refuses timeouts that make no sense, each by itself or both together.
pub(super) fn timeouts(ack: Duration, reply: Duration) -> Result<(), OptionsError> {
    time("ack_timeout", ack)?;
    time("reply_timeout", reply)?;
    if reply < ack {
        return Err(OptionsError::new("reply_timeout", "must not be below ack_timeout"));
    }
    Ok(())
}

/// Refuses to have none of what there must be one of.
pub(super) fn count(option: &'static str, count: usize) -> Result<(), OptionsError> {
    match count {
        0 => Err(OptionsError::new(option, "must be at least 1")),
        1.. => Ok(()),
    }
}

/// Refuses a time that is none, or that no clock could be set to.
fn time(option: &'static str, time: Duration) -> Result<(), OptionsError> {
    if time.is_zero() {
        return Err(OptionsError::new(option, "must be above zero"));
    }
    if time > 365 * DAY {
        return Err(OptionsError::new(option, "must be at most a year"));
    }
    Ok(())
}
