//! What is asked of DNS and what it says, without a word of how that travels.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Which records are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Which targets offer a service.
    Srv,
    /// IPv6 addresses.
    Aaaa,
    /// IPv4 addresses.
    A,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Srv => "SRV",
            Kind::Aaaa => "AAAA",
            Kind::A => "A",
        })
    }
}

/// One question: the records of a kind that a name has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question {
    /// The name.
    pub name: Arc<str>,
    /// The kind.
    pub kind: Kind,
}

/// `SRV _http._tcp.example.com`
impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// Names a question under way, so that an answer nobody waits for any more is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub(super) u64);

/// A target of an SRV record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Lower ones are used first.
    pub priority: u16,
    /// The name that has the addresses; lower case, without a dot at its end.
    pub name: Arc<str>,
    /// The port.
    pub port: u16,
    /// The share among targets of one priority.
    pub weight: u16,
}

/// How a question ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// SRV records.
    Targets {
        /// The targets; never empty.
        targets: Vec<Target>,
        /// Addresses of targets that came along, by the target's name.
        additional: Vec<(Arc<str>, IpAddr)>,
        /// Whether all addresses there are had room to come along. Otherwise a target of which only one family came has to be
        /// asked for the other.
        whole: bool,
        /// How long all of it may be used.
        ttl: Duration,
    },
    /// An SRV record that says: this service is not offered here (its target is the root).
    NotOffered {
        /// How long that holds.
        ttl: Duration,
    },
    /// Addresses of the kind asked for.
    Addresses {
        /// The addresses; never empty.
        addresses: Vec<IpAddr>,
        /// How long they may be used.
        ttl: Duration,
    },
    /// There are no such records.
    Nothing {
        /// Whether the name exists, with records of other kinds (no data), or not at all (NXDOMAIN).
        exists: bool,
        /// How long that holds, if the answer says so.
        ttl: Option<Duration>,
    },
    /// The nameservers do not implement such questions.
    NotImplemented,
    /// The nameservers refuse; asking again at once is no use.
    Refused,
    /// A timeout, a server's failure, something unreadable: asking again may help.
    Trouble,
}
