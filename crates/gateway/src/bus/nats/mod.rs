//! Buses on NATS: one connection to its servers for ticks, and on it a bus for each user at a broker.
//!
//! What is published on the bus of a user is heard on the buses of the same user in other processes. Ticks have an epoch in their
//! [subject](subject), so that those of a gateway that does not own the upstream any more can be told from its successor's;
//! without an [election](crate::cluster) it is 0, and everybody's ticks count.
//!
//! Whoever may publish under the prefix is believed: let NATS' permissions keep everybody else out.

mod access;
mod client;
mod options;
pub(crate) mod post;
mod reports;
pub(crate) mod scope;
pub(crate) mod subject;

#[cfg(test)]
pub(crate) mod town;

pub use options::{NatsError, NatsOptions};
pub use post::PostError;

pub use scope::{NatsBus, NatsStatus};

use crate::bus::Bus;
use crate::cluster::{Lease, LeaseOptions, NatsRegister, Register, Share, ShareError};
use async_nats::Client;
use reports::Reports;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use subject::{Subjects, escape};
use tokio::time::timeout;

/// How long NATS may take to say who owns an upstream, when that is asked for the first time, and whether this gateway may.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// A gateway's place at NATS. Cheap to clone; all clones are the same.
///
/// It has two connections: one for ticks, and one for leases and what gateways ask of each other, which must not wait behind them.
///
/// What is published on the bus of a user at a broker is heard on the buses of the same user in other processes, at most once: what
/// is said while a gateway is cut off from NATS does not reach it later. Whoever may publish under the prefix is believed, so
/// let NATS' permissions keep everybody else out.
///
/// ```text
/// {prefix}.{broker}.{user}.tick.{epoch}.{TOPIC}      a tick, by whoever owns the upstream in this epoch; 0 without an election
/// {prefix}.{broker}.{user}.say.{TOPIC}               order updates and invalidated caches
/// {prefix}.{broker}.{user}.ask.{member}              what one gateway asks of another
/// ```
///
/// Of names, everything but letters, digits, `_` and `-` is written as `=` and two hexadecimal digits.
///
/// It does not hear what it says itself, so each gateway has one of its own, also when several are in one process.
#[derive(Clone)]
pub struct Nats {
    ticks: Client,
    asks: Client,
    prefix: Arc<str>,
    member: Arc<str>,
    replicas: usize,
    /// How many there have been.
    shares: Arc<AtomicU64>,
    reports: Arc<Reports>,
}

impl Nats {
    /// Connects, within 10 s. A connection that is lost later is made again, for as long as it takes.
    ///
    /// # Errors
    /// [`NatsError`] says why not.
    pub async fn connect(options: NatsOptions) -> Result<Nats, NatsError> {
        let member = member_of(options.shown_name())?;
        let reports = Arc::new(Reports::default());
        let (ticks, asks) =
            tokio::try_join!(options.connect("ticks", &reports), options.connect("requests", &reports))?;
        let (prefix, replicas) = (options.prefix.as_str().into(), options.replicas);
        Ok(Nats { ticks, asks, prefix, member, replicas, shares: Arc::default(), reports })
    }

    /// What this gateway is called by others: its name, and something that no other has, and that it does not have again when
    /// it is started anew. Each [share](Nats::share) has a number behind that.
    pub fn member(&self) -> &Arc<str> {
        &self.member
    }

    /// Whether NATS can be reached, as far as is known.
    pub fn is_connected(&self) -> bool {
        post::Post::is_connected(&self.ticks) && post::Post::is_connected(&self.asks)
    }

    /// How many messages of NATS were lost, as they came faster than they were read.
    pub fn lost(&self) -> u64 {
        self.reports.lost()
    }

    /// The bus of this user at this broker. There is to be one of it on a connection.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn scope(&self, broker: &str, user: &str) -> Bus {
        Bus::Nats(NatsBus::new(Arc::new(self.ticks.clone()), self.subjects(broker, user), None))
    }

    /// A share in the upstream of this user at this broker, among all gateways that ask for the same with the same prefix: one of
    /// them is elected to have the connections to it. Takes part from now on; see
    /// [`shared_feed`](crate::Builder::shared_feed). There is to be one of it on a connection, and no [`scope`](Nats::scope)
    /// beside it.
    ///
    /// The lease is kept in the bucket `carom_leases` of NATS' key-value store, which is made if it is not there. Whoever connects
    /// has to be allowed to publish to `$KV.carom_leases.>` and `$JS.API.{STREAM.CREATE.KV_carom_leases,DIRECT.GET.KV_carom_leases.>}`, to subscribe to
    /// `$KV.carom_leases.>` and `_INBOX.>`, and both to what begins with the prefix and to `_INBOX.>`.
    ///
    /// # Errors
    /// [`ShareError`], when NATS does not answer within 10 s, keeps no leases, or does not let this gateway write them.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn share(&self, broker: &str, user: &str) -> Result<Share, ShareError> {
        let register = NatsRegister::new(self.asks.clone()).replicas(self.replicas);
        let key = format!("{}.{}.{}", self.prefix, escape(broker), escape(user));
        let subject = register.subject(&key)?;
        // Whoever cannot take part is to hear of it now, and not to wait for ever.
        self.reports.take_complaint();
        let unanswered = |subject| {
            let said = self.reports.take_complaint().map_or("nothing".into(), |said| format!("{said:?}"));
            ShareError::Unanswered { subject, allowed: FIRST_ANSWER, said }
        };
        let reading = timeout(FIRST_ANSWER, register.read(&key)).await;
        reading.map_err(|_| unanswered(register.reads()))??;
        let writing = timeout(FIRST_ANSWER, register.may_write(&key)).await;
        writing.map_err(|_| unanswered(subject))??;
        // Two of the same name would take each other's lease for their own.
        let number = self.shares.fetch_add(1, Ordering::Relaxed) + 1;
        let name: Arc<str> = format!("{}-{number}", self.member).into();
        let lease = Lease::start(register, key, Arc::clone(&name), LeaseOptions::default())?;
        let posts = post::Posts { ticks: Arc::new(self.ticks.clone()), asks: Arc::new(self.asks.clone()) };
        Ok(Share::leased(name, posts, self.subjects(broker, user), lease, (broker, user)))
    }

    fn subjects(&self, broker: &str, user: &str) -> Subjects {
        Subjects::new(&self.prefix, broker, user)
    }
}

impl fmt::Debug for Nats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nats").field("prefix", &self.prefix).field("member", &self.member).finish_non_exhaustive()
    }
}

fn member_of(name: &str) -> Result<Arc<str>, NatsError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(NatsError::NoChance)?;
    Ok(format!("{name}-{:016x}", u64::from_le_bytes(bytes)).into())
}
