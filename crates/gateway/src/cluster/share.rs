//! A share in an upstream: one gateway's part among those that serve the same user at the same broker.

use super::elected::Elected;
use super::member::Member;
use super::service::Service;
use super::standing_aside;
use super::{Lease, Role};
use crate::bus::nats::post::Posts;
use crate::bus::nats::subject::Subjects;
use crate::bus::nats::{NatsBus, NatsStatus};
use crate::source::Source;
use carom::feed::Adapter;
use carom_core::options::OptionsError;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout_at;

/// A share in the upstream of one user at a broker; made by [`Nats::share`](crate::bus::Nats::share).
///
/// It takes part in the election from then on. Dropped, it does so no longer, and the others find out by themselves.
pub struct Share {
    member: Member,
    bus: NatsBus,
    pub(crate) broker: Arc<str>,
    pub(crate) user: Arc<str>,
    /// Until it is left, if there is one: who owns the upstream can be said by somebody else.
    lease: Mutex<Option<Lease>>,
    service: Option<Service>,
    tasks: JoinSet<()>,
}

/// Why there is no share.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// Leases cannot be kept in NATS, for which it has to have JetStream.
    #[error("NATS keeps no leases; it needs JetStream for that (`nats-server -js`)")]
    Register(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The client is connecting. Trying again may help.
    #[error("there is no connection to NATS")]
    NotConnected,
    /// NATS does not answer.
    #[error(
        "NATS did not answer what was asked of {subject} within {allowed:?}, and said {said}: it needs JetStream, and whoever \
         connects has to be allowed to publish to {subject} and to subscribe to _INBOX.>"
    )]
    #[non_exhaustive]
    Unanswered {
        /// By which subject it was asked.
        subject: String,
        /// How long it had.
        allowed: Duration,
        /// What it complained of meanwhile.
        said: String,
    },
    /// The lease makes no sense.
    #[error(transparent)]
    Option(#[from] OptionsError),
}

/// A share at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShareSnapshot {
    /// What this gateway is called by the others.
    pub member: Arc<str>,
    /// Whether it has the connections to the upstream.
    pub owns: bool,
    /// Who has them; `None` while nobody is known to.
    pub owner: Option<Arc<str>>,
    /// Rises with every change of hands; `None` while nobody is known to have them.
    pub epoch: Option<u64>,
    /// Connections of other gateways that are served from here.
    pub sessions: usize,
    /// The bus that ticks come over.
    pub bus: NatsStatus,
}

impl Share {
    /// A share of whoever holds this lease.
    pub(crate) fn leased(
        name: Arc<str>,
        posts: impl Into<Posts>,
        subjects: Subjects,
        lease: Lease,
        scope: (&str, &str),
    ) -> Share {
        let share = Share::new(name, posts, subjects, lease.roles(), scope);
        *share.lock() = Some(lease);
        share
    }

    pub(crate) fn new(
        name: Arc<str>,
        posts: impl Into<Posts>,
        subjects: Subjects,
        roles: watch::Receiver<Role>,
        (broker, user): (&str, &str),
    ) -> Share {
        let Posts { ticks, asks } = posts.into();
        let bus = NatsBus::new(ticks, subjects.clone(), Some(roles.clone()));
        let member = Member { name, post: asks, subjects, roles };
        Share {
            member,
            bus,
            broker: broker.into(),
            user: user.into(),
            lease: Mutex::new(None),
            service: None,
            tasks: JoinSet::new(),
        }
    }

    /// An adapter that speaks to the upstream with this one while this gateway is the owner, and to the owner otherwise. It is for
    /// the one feed that the gateway is [given](crate::Builder::shared_feed) along with this share.
    pub fn elected<A: Adapter>(&self, adapter: A) -> Elected<A> {
        Elected::new(adapter, self.member.clone())
    }

    /// What this gateway is called by the others.
    pub fn member(&self) -> &Arc<str> {
        &self.member.name
    }

    /// What this gateway is, and what it becomes.
    pub fn roles(&self) -> watch::Receiver<Role> {
        self.member.roles.clone()
    }

    /// Where ticks of this user are heard, whoever owns the upstream.
    pub fn bus(&self) -> &NatsBus {
        &self.bus
    }

    /// Begins to serve the other members from this feed.
    pub(crate) fn serve(&mut self, source: Arc<dyn Source>) {
        let candidacy = self.lock().as_ref().map(Lease::candidacy);
        self.tasks.spawn(standing_aside::follow(Arc::clone(&source), self.member.roles.clone(), candidacy));
        let service = Service::new(self.member.clone(), source);
        self.tasks.spawn(service.clone().run());
        self.service = Some(service);
    }

    /// A copy of its state for people.
    pub fn snapshot(&self) -> ShareSnapshot {
        let role = self.member.roles.borrow().clone();
        let (owner, epoch) = match &role {
            Role::Unknown => (None, None),
            Role::Follower { owner, epoch } => (Some(Arc::clone(owner)), Some(*epoch)),
            Role::Owner { epoch, .. } => (Some(Arc::clone(&self.member.name)), Some(*epoch)),
        };
        ShareSnapshot {
            member: Arc::clone(&self.member.name),
            owns: role.owns(tokio::time::Instant::now()).is_some(),
            owner,
            epoch,
            sessions: self.service.as_ref().map_or(0, Service::sessions),
            bus: self.bus.status(),
        }
    }

    /// Says what was published here, and lets somebody else be the owner. The feed was closed before.
    pub(crate) async fn leave(&self, deadline: Instant) {
        // Whatever is said too late is not said at all, but others must not have to wait for the end of the hold.
        let half = Instant::now() + deadline.saturating_duration_since(Instant::now()) / 2;
        let _ = timeout_at(half.into(), self.bus.flush()).await;
        let lease = self.lock().take();
        if let Some(lease) = lease {
            lease.release(deadline.into()).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Lease>> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Share { member, broker, user, .. } = self;
        f.debug_struct("Share")
            .field("member", member)
            .field("broker", broker)
            .field("user", user)
            .finish_non_exhaustive()
    }
}
