//! What the machine, its driver and its callers tell each other.

use crate::backend::Backend;
use crate::backends::{BackendId, CheckId};
use crate::slot::SlotRef;
use crate::waiters::{Place, WaiterId};
use std::sync::Arc;
use std::time::Duration;

/// What the driver is to do.
#[derive(Clone, Debug)]
pub enum Action {
    /// Connect to the backend, then tell [`Machine::handle_connected`](super::Machine::handle_connected) or [`Machine::handle_connect_failed`](super::Machine::handle_connect_failed).
    Connect {
        /// The slot that the connection is for.
        slot: SlotRef,
        /// Where to connect to.
        backend: Arc<Backend>,
    },
    /// Check the slot's connection, then tell [`Machine::handle_checked`](super::Machine::handle_checked).
    ///
    /// A suspect fails if its liveness is closed or broken, and passes if it is open and there is no check. If nothing is known of it,
    /// tell [`Machine::handle_unchecked`](super::Machine::handle_unchecked).
    Check {
        /// The slot whose connection it is.
        slot: SlotRef,
        /// Another connection of the backend broke.
        suspect: bool,
    },
    /// The slot's connection is suspect: it stays where it is, and is not watched any more.
    Suspect {
        /// The slot whose connection it is.
        slot: SlotRef,
    },
    /// Clean the slot's connection after use, then tell [`Machine::handle_checked`](super::Machine::handle_checked).
    Recycle {
        /// The slot whose connection it is.
        slot: SlotRef,
    },
    /// Check the health of the backend, then tell [`Machine::handle_health_checked`](super::Machine::handle_health_checked).
    HealthCheck {
        /// Names the check.
        check: CheckId,
        /// The backend to check.
        backend: Arc<Backend>,
    },
    /// Say that the slot's connection has been lent for longer than `leak_after`.
    Overdue {
        /// The slot whose connection it is.
        slot: SlotRef,
    },
    /// Tell [`Machine::handle_ended`](super::Machine::handle_ended) when the slot's idle connection ends by itself, or has already.
    Watch {
        /// The slot whose connection it is.
        slot: SlotRef,
    },
    /// Close the slot's connection, then tell [`Machine::handle_closed`](super::Machine::handle_closed).
    Close {
        /// The slot whose connection it is.
        slot: SlotRef,
        /// Whether the far side is still there to be said goodbye to; otherwise just drop it.
        goodbye: bool,
    },
    /// Cut short the connect, check or close under way; when it has really ended tell [`Machine::handle_closed`](super::Machine::handle_closed).
    Abandon {
        /// The slot as it was named when the task was asked for.
        task: SlotRef,
        /// The slot as it is to be named to [`Machine::handle_closed`](super::Machine::handle_closed).
        slot: SlotRef,
        /// The timeout that passed, if that is why.
        timed_out: Option<Duration>,
    },
}

/// What a waiting caller is to be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The slot's connection is its to use.
    Grant {
        /// Who gets it.
        waiter: WaiterId,
        /// What it gets.
        slot: SlotRef,
    },
    /// It waited in vain.
    Refuse {
        /// Who is refused.
        waiter: WaiterId,
        /// Why.
        refusal: Refusal,
    },
}

/// Why a claim was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its deadline passed.
    TimedOut {
        /// How many were ahead of it in line at that time.
        ahead: usize,
    },
    /// No backend is known, and the claim asked not to wait for one.
    NoBackends,
    /// Every known backend is dead.
    Failed {
        /// How many are dead.
        dead: usize,
        /// How many are known.
        known: usize,
    },
    /// It had waited longer than the controlled delay allows when its turn came.
    Shed,
    /// The line is as long as it may be.
    Full,
    /// Nothing is idle, and the claim asked not to wait.
    Busy,
    /// The pool is closed.
    Closed,
}

/// What a claim wants.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// How long the claim may take in all.
    pub timeout: Duration,
    /// Fail at once while no backend is known.
    pub error_on_empty: bool,
    /// A backend not to be given while another can serve, for half of `timeout` or the target delay at most; see
    /// [`Machine::find`](super::Machine::find).
    pub avoid: Option<BackendId>,
}

impl Request {
    /// A claim that may take this long and is otherwise ordinary.
    pub fn within(timeout: Duration) -> Request {
        Request { timeout, error_on_empty: false, avoid: None }
    }
}

/// What the end of a connection counts as against its backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Nothing.
    None,
    /// A failed attempt to connect: it ended young and unused.
    FailedAttempt,
    /// A failed use.
    FailedUse,
}

/// How a claim begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// An idle connection is its to use.
    Granted {
        /// The slot whose connection it is.
        slot: SlotRef,
        /// The caller's place, should the connection turn out closed; see [`Machine::claim_again`](super::Machine::claim_again).
        place: Place,
    },
    /// It stands in line.
    Waiting(WaiterId),
    /// It ends here.
    Refused(Refusal),
}

/// How a claim ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The connection comes back and may be used again.
    Open,
    /// It turned out closed when it was granted, and has been dropped: nobody has used it.
    Ended,
    /// Its user reports a failed use of the backend; it has been dropped. If this was its first use, and it was younger than a
    /// second, an attempt to connect has failed.
    Failed,
    /// It comes back to be closed, without blame.
    Discarded,
    /// It had broken when it came back, and has been dropped: the use failed, as above.
    Broken,
    /// It had been closed when it came back, and has been dropped. Nobody is blamed: that a connection was used up does
    /// not say that others cannot be made, and each of them is paid for by a use. Where connections are validated or recycled after
    /// use, they cannot tell whether they broke: then the use failed if it was much shorter than usual.
    Closed,
    /// It cannot be used again, and has been dropped. Nobody is blamed.
    Dropped,
    /// Its user keeps it.
    Detached,
}

/// How the end of an idle connection was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As it happened.
    Seen,
    /// It had ended already when it began to be watched: nobody knows when, but not before it came to rest.
    Found,
}
