//! Why a question or a whole service could not be resolved.

use super::message::display_code;
use carom_core::resolver::Question;
use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A service that could not be resolved, or not in full. Every question that ended badly is among the causes.
#[derive(Clone, Debug)]
pub struct DnsError {
    service: Arc<str>,
    causes: Vec<Arc<LookupError>>,
}

impl DnsError {
    pub(super) fn new(service: Arc<str>, causes: Vec<Arc<LookupError>>) -> DnsError {
        DnsError { service, causes }
    }

    /// The questions that ended badly.
    pub fn causes(&self) -> &[Arc<LookupError>] {
        &self.causes
    }
}

/// ``cannot resolve `db.example.com`: A db.example.com: NXDOMAIN from 10.0.0.53:53``
impl fmt::Display for DnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A service of a thousand targets may have two thousand causes; a few tell the story.
        const SHOWN: usize = 4;
        write!(f, "cannot resolve `{}`", self.service)?;
        for (i, cause) in self.causes.iter().take(SHOWN).enumerate() {
            write!(f, "{}{cause}", if i == 0 { ": " } else { "; " })?;
        }
        match self.causes.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

// The causes are in the text already: a chain that printed them again would say everything twice.
impl Error for DnsError {}

/// A question that ended badly: what was asked, of whom, and what each of them said.
#[derive(Debug)]
pub struct LookupError {
    question: Question,
    reasons: Vec<Reason>,
}

impl LookupError {
    pub(super) fn new(question: Question, reasons: Vec<Reason>) -> LookupError {
        LookupError { question, reasons }
    }

    /// The question, with the name that was really asked for: one of the search list, maybe.
    pub fn question(&self) -> &Question {
        &self.question
    }

    /// What each nameserver said, in the order in which they ended.
    pub fn reasons(&self) -> &[Reason] {
        &self.reasons
    }
}

/// `A db.example.com: SERVFAIL from 10.0.0.53:53, no answer from 10.0.1.53:53 within 2s`
impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.question)?;
        for (i, reason) in self.reasons.iter().enumerate() {
            write!(f, "{}{reason}", if i == 0 { ": " } else { ", " })?;
        }
        Ok(())
    }
}

impl Error for LookupError {}

/// Why a nameserver gave no answer that is of use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// It answered with an error code.
    #[error("{} from {server}", code_name(*code))]
    Code {
        /// Who.
        server: SocketAddr,
        /// The code, as DNS numbers them: 2 is SERVFAIL, 3 NXDOMAIN, 5 REFUSED.
        code: u16,
    },
    /// The name exists, but has no records of the kind.
    #[error("no {kind} records from {server}")]
    NoRecords {
        /// Who.
        server: SocketAddr,
        /// The kind of record.
        kind: carom_core::resolver::Kind,
    },
    /// The SRV records say that the service is not offered: every target is the root, or has port 0.
    #[error("not offered, as {server} says (the target is the root, or the port 0)")]
    NotOffered {
        /// Who.
        server: SocketAddr,
    },
    /// The hosts file has the name, but no address of the kind; no nameserver was asked.
    #[error("no {kind} address in {}", path.display())]
    Hosts {
        /// The file.
        path: PathBuf,
        /// The kind of record.
        kind: carom_core::resolver::Kind,
    },
    /// It did not answer in time.
    #[error("no answer from {server} within {within:?}")]
    TimedOut {
        /// Who.
        server: SocketAddr,
        /// How long it had.
        within: Duration,
    },
    /// It cannot be reached.
    #[error("{server}: {error}")]
    Unreachable {
        /// Who.
        server: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// What it sent is no answer.
    #[error("unreadable answer from {server}: {problem}")]
    Unreadable {
        /// Who.
        server: SocketAddr,
        /// What is wrong with it.
        problem: String,
    },
    /// The name has aliases without end.
    #[error("more than {followed} aliases in a row, the last one {last}, from {server}")]
    Aliases {
        /// Who told of the last.
        server: SocketAddr,
        /// How many were followed.
        followed: usize,
        /// The one at which following ended.
        last: Arc<str>,
    },
    /// The name is an alias that leads back to itself.
    #[error("a loop of aliases at {alias}, from {server}")]
    AliasLoop {
        /// Who.
        server: SocketAddr,
        /// Where the loop closes.
        alias: Arc<str>,
    },
    /// The name cannot be asked for.
    #[error("not a name for DNS: {0}")]
    Name(String),
    /// There is nobody to ask.
    #[error("no nameserver is known")]
    NoNameservers,
    /// Asking panicked: a mistake in carom or in the DNS library.
    #[error("asking panicked")]
    Panicked,
}

impl Reason {
    /// The nameserver that it is about.
    pub fn server(&self) -> Option<SocketAddr> {
        match self {
            Reason::Code { server, .. }
            | Reason::NoRecords { server, .. }
            | Reason::NotOffered { server }
            | Reason::TimedOut { server, .. }
            | Reason::Unreachable { server, .. }
            | Reason::Unreadable { server, .. }
            | Reason::Aliases { server, .. }
            | Reason::AliasLoop { server, .. } => Some(*server),
            Reason::Name(_) | Reason::Hosts { .. } | Reason::NoNameservers | Reason::Panicked => None,
        }
    }
}

/// The nameservers of a resolver are named, and cannot be found.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the nameservers at `{name}` cannot be found")]
pub struct BootstrapError {
    pub(super) name: Arc<str>,
    #[source]
    pub(super) cause: Option<Arc<dyn Error + Send + Sync>>,
}

fn code_name(code: u16) -> String {
    match code {
        1 => "FORMERR".to_owned(),
        2 => "SERVFAIL".to_owned(),
        3 => "NXDOMAIN".to_owned(),
        4 => "NOTIMP".to_owned(),
        5 => "REFUSED".to_owned(),
        other => display_code(other),
    }
}
