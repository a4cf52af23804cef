//! Why a request failed, and who answered what.

use carom_core::options::OptionsError;
use carom_core::window::{Goal, NodesError, Refusal};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What one node said to a request.
#[derive(Clone, Debug)]
pub struct Account<A> {
    /// The name of the node.
    pub node: Arc<str>,
    /// What it said.
    pub told: Told<A>,
    /// Whether the request may have reached the node: it was handed to a connection to it. False means that it was not sent.
    pub sent: bool,
}

/// What a node said to a request, or why it said nothing.
#[derive(Clone, Debug)]
pub enum Told<A> {
    /// It answered.
    Reply(A),
    /// It refused.
    Nack(A),
    /// Its answer did not count.
    Invalid(A),
    /// It said nothing at all for so long.
    NoAck {
        /// The timeout.
        after: Duration,
    },
    /// It acknowledged the request, but did not answer for so long.
    NoReply {
        /// The timeout.
        after: Duration,
    },
    /// The socket to it could not be opened, or ended.
    Closed(Arc<dyn Error + Send + Sync>),
    /// It was still waited for when the request ended.
    Waiting,
    /// It was not asked.
    NotAsked,
}

/// Why a request failed. Whoever has asked nodes is told what each of them said; `source()` is the last error of a socket.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RequestError<A> {
    /// No node gave a valid answer.
    #[non_exhaustive]
    NoAnswer {
        /// The name of the requester.
        requester: Arc<str>,
        /// What every node said.
        accounts: Vec<Account<A>>,
    },
    /// There cannot be as many equal answers as wanted any more.
    #[non_exhaustive]
    NoQuorum {
        /// The name of the requester.
        requester: Arc<str>,
        /// How many equal answers were wanted.
        wanted: usize,
        /// What every node said.
        accounts: Vec<Account<A>>,
    },
    /// As many nodes as should have agreed have refused the request, for the same reason.
    #[non_exhaustive]
    Refused {
        /// The name of the requester.
        requester: Arc<str>,
        /// What those said who agree.
        refusals: Vec<Account<A>>,
    },
    /// There were as many windows as allowed for all the time that the request could wait.
    #[non_exhaustive]
    TimedOut {
        /// The name of the requester.
        requester: Arc<str>,
        /// How long it waited.
        waited: Duration,
    },
    /// The request was for nodes that are not there.
    #[non_exhaustive]
    UnknownNodes {
        /// The name of the requester.
        requester: Arc<str>,
        /// Those that are not there.
        names: Vec<Arc<str>>,
    },
    /// The request was for some nodes, but named none.
    #[non_exhaustive]
    NoNodes {
        /// The name of the requester.
        requester: Arc<str>,
    },
    /// There are not as many nodes as should agree, or none should.
    #[non_exhaustive]
    Unreachable {
        /// The name of the requester.
        requester: Arc<str>,
        /// How many equal answers were wanted.
        wanted: usize,
        /// How many nodes there are to give them.
        nodes: usize,
    },
    /// An option of the request makes no sense.
    #[non_exhaustive]
    Options {
        /// The name of the requester.
        requester: Arc<str>,
        /// Which, and why.
        error: OptionsError,
    },
    /// The requester is closed, or the runtime it lived on has ended.
    #[non_exhaustive]
    Closed {
        /// The name of the requester.
        requester: Arc<str>,
        /// Whether the request may have reached a node before.
        sent: bool,
    },
}

/// Why there is no requester.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// An option makes no sense.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// There are no nodes, or two of the same name.
    #[error(transparent)]
    Nodes(#[from] NodesError),
    /// There is no tokio runtime to live on.
    #[error("a requester needs a tokio runtime: build it inside one, or name one with `runtime`")]
    NoRuntime,
}

/// What a socket ends with whose transport has panicked.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the transport panicked")]
pub(super) struct Panicked;

/// Why a request failed that was refused.
pub(super) fn refused<A>(requester: &Arc<str>, refusal: Refusal) -> RequestError<A> {
    let requester = Arc::clone(requester);
    match refusal {
        Refusal::Closed => RequestError::Closed { requester, sent: false },
        Refusal::NoNodes => RequestError::NoNodes { requester },
        Refusal::UnknownNodes(names) => RequestError::UnknownNodes { requester, names },
        Refusal::Unreachable { wanted, nodes } => RequestError::Unreachable { requester, wanted, nodes },
        Refusal::Options(error) => RequestError::Options { requester, error },
    }
}

/// Why a request failed that cannot have what it was for any more.
pub(super) fn impossible<A>(requester: &Arc<str>, goal: Goal, accounts: Vec<Account<A>>) -> RequestError<A> {
    let requester = Arc::clone(requester);
    match goal {
        Goal::Equal(wanted) if wanted > 1 => RequestError::NoQuorum { requester, wanted, accounts },
        Goal::Equal(_) | Goal::Every => RequestError::NoAnswer { requester, accounts },
    }
}

/// So many nodes are named in an error's text.
const SHOWN: usize = 8;

impl<A> RequestError<A> {
    /// What the nodes said, as far as they were asked.
    pub fn accounts(&self) -> &[Account<A>] {
        match self {
            RequestError::NoAnswer { accounts, .. } | RequestError::NoQuorum { accounts, .. } => accounts,
            RequestError::Refused { refusals, .. } => refusals,
            RequestError::TimedOut { .. }
            | RequestError::UnknownNodes { .. }
            | RequestError::NoNodes { .. }
            | RequestError::Unreachable { .. }
            | RequestError::Options { .. }
            | RequestError::Closed { .. } => &[],
        }
    }
}

impl<A> Account<A> {
    /// The same without what was answered.
    pub(super) fn bare(&self) -> Account<()> {
        let told = match &self.told {
            Told::Reply(_) => Told::Reply(()),
            Told::Nack(_) => Told::Nack(()),
            Told::Invalid(_) => Told::Invalid(()),
            Told::NoAck { after } => Told::NoAck { after: *after },
            Told::NoReply { after } => Told::NoReply { after: *after },
            Told::Closed(error) => Told::Closed(Arc::clone(error)),
            Told::Waiting => Told::Waiting,
            Told::NotAsked => Told::NotAsked,
        };
        Account { node: Arc::clone(&self.node), told, sent: self.sent }
    }
}

impl<A> fmt::Display for Told<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Told::Reply(_) => write!(f, "answered"),
            Told::Nack(_) => write!(f, "refused"),
            Told::Invalid(_) => write!(f, "invalid answer"),
            Told::NoAck { after } => write!(f, "silent for {after:?}"),
            Told::NoReply { after } => write!(f, "acknowledged, no answer for {after:?}"),
            Told::Closed(error) => error.fmt(f),
            Told::Waiting => write!(f, "no answer yet"),
            Told::NotAsked => write!(f, "not asked"),
        }
    }
}

impl<A> fmt::Display for RequestError<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::NoAnswer { requester, .. } => write!(f, "`{requester}`: no valid answer")?,
            RequestError::NoQuorum { requester, wanted, .. } => {
                write!(f, "`{requester}`: no {wanted} nodes agree")?;
            }
            RequestError::Refused { requester, refusals } => {
                write!(f, "`{requester}`: {} nodes refuse the request", refusals.len())?;
            }
            RequestError::TimedOut { requester, waited } => {
                let waited = Duration::from_millis(waited.as_millis() as u64);
                write!(f, "timed out after {waited:?} waiting for a window of `{requester}`")?;
            }
            RequestError::UnknownNodes { requester, names } => {
                write!(f, "`{requester}` has no nodes named {}", names.join(", "))?;
            }
            RequestError::NoNodes { requester } => write!(f, "the request to `{requester}` names no nodes")?,
            RequestError::Unreachable { wanted: 0, .. } => write!(f, "a quorum must be at least 1")?,
            RequestError::Unreachable { requester, wanted, nodes } => {
                write!(f, "a quorum of {wanted} is out of reach: `{requester}` asks {nodes} nodes")?;
            }
            RequestError::Options { error, .. } => write!(f, "{error}")?,
            RequestError::Closed { requester, .. } => write!(f, "`{requester}` is closed")?,
        }
        let accounts = self.accounts();
        for (at, Account { node, told, .. }) in accounts.iter().take(SHOWN).enumerate() {
            write!(f, "{} {node}: {told}", if at == 0 { ";" } else { "," })?;
        }
        match accounts.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}

impl<A: fmt::Debug> Error for RequestError<A> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.accounts().iter().rev().find_map(|account| match &account.told {
            Told::Closed(error) => Some(&**error as &(dyn Error + 'static)),
            Told::Reply(_)
            | Told::Nack(_)
            | Told::Invalid(_)
            | Told::NoAck { .. }
            | Told::NoReply { .. }
            | Told::Waiting
            | Told::NotAsked => None,
        })
    }
}
