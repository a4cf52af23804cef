//! A relayed connection: a session with the owner, which has the real ones. Ticks come over the bus, and not through it.

use super::Role;
use super::hearing::Hearing;
use super::member::{Member, Unanswered};
use super::message::{Ask, Session, Stands, VERSION, Wanted, What};
use carom::feed::{Change, Refused, Withholding};
use futures_util::future::try_join_all;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// How often the owner hears that this member is there.
const BEAT: Duration = Duration::from_secs(1);

/// How long the owner may take to say that it is there.
const BEAT_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the owner may take to say what it accepts: its upstream has some seconds, and a feed waits for 10.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(8);

/// So many changes are asked for at a time. However long their names, they fit into what NATS takes as one message, 1 MiB.
const MOST_CHANGES: usize = 200;

/// How long a goodbye may take.
const BYE_TIMEOUT: Duration = Duration::from_secs(1);

/// The owner of an upstream, in one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) name: Arc<str>,
    pub(super) epoch: u64,
}

/// The half of a session that is written to.
#[derive(Debug)]
pub struct Writer {
    member: Member,
    owner: Owner,
    session: Session,
    hearing: Hearing,
}

/// The half that notices when it has ended.
#[derive(Debug)]
pub struct Reader {
    member: Member,
    owner: Owner,
    session: Session,
    hearing: Hearing,
    beats: Interval,
}

/// Why a session has ended, or did not begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// Somebody else owns the upstream, or this member does.
    #[error("`{owner}` does not own the upstream any more")]
    #[non_exhaustive]
    Moved {
        /// Who did.
        owner: Arc<str>,
    },
    /// The owner has what it is asked for no better.
    #[error("`{owner}`, which owns the upstream, says: {reason}")]
    #[non_exhaustive]
    Withheld {
        /// Who does.
        owner: Arc<str>,
        /// Why, in its words.
        reason: String,
    },
    /// The owner did not do as it was asked.
    #[error("`{owner}`, which owns the upstream, cannot be used")]
    #[non_exhaustive]
    Unanswered {
        /// Who does.
        owner: Arc<str>,
        /// What became of it.
        source: Unanswered,
    },
}

/// Whether the owner is there, and knows that it is the owner.
pub(super) async fn is_there(member: &Member, owner: &Owner) -> Result<(), RelayError> {
    let session = Session { member: member.name.to_string(), number: 0 };
    let ask = Ask { version: VERSION, epoch: owner.epoch, session, what: What::Hello };
    let asked = member.ask(&owner.name, &ask, BEAT_TIMEOUT).await;
    asked.map(drop).map_err(|source| owner.unanswered(source))
}

/// Begins a session with the owner.
pub(super) async fn open(member: &Member, owner: &Owner, number: u64) -> Result<(Writer, Reader), RelayError> {
    let session = Session { member: member.name.to_string(), number };
    let hearing = Hearing::default();
    let writer = Writer { member: member.clone(), owner: owner.clone(), session, hearing: hearing.clone() };
    writer.ask(What::Open, BEAT_TIMEOUT).await?;
    let mut beats = interval_at(Instant::now() + BEAT, BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (owner, session) = (owner.clone(), writer.session.clone());
    let reader = Reader { member: member.clone(), owner, session, hearing, beats };
    Ok((writer, reader))
}

impl Writer {
    /// Asks the owner for these; those that are not to be had.
    pub(super) async fn change(&self, changes: &[Change]) -> Result<Vec<Refused>, RelayError> {
        let (mut wanted, mut refused) = (Vec::with_capacity(changes.len()), Vec::new());
        for (position, change) in changes.iter().enumerate() {
            match Wanted::of(change) {
                Some(want) => wanted.push((position, want)),
                None => refused.push(Refused { position, reason: "nothing has such a name".into() }),
            }
        }
        self.hearing.await_word(changes);
        // Each is of another instrument, so it does not matter which comes first.
        for some in try_join_all(wanted.chunks(MOST_CHANGES).map(|some| self.change_some(some))).await? {
            refused.extend(some);
        }
        self.hearing.forget(changes, &refused);
        Ok(refused)
    }

    async fn change_some(&self, some: &[(usize, Wanted)]) -> Result<Vec<Refused>, RelayError> {
        let what = What::Change(some.iter().map(|(_, wanted)| wanted.clone()).collect());
        let mut stands = self.ask(what, CHANGE_TIMEOUT).await?;
        let refused = std::mem::take(&mut stands.refused).into_iter().map(|refused| {
            let Refused { position, reason } = refused.into();
            let (position, _) = some.get(position)?;
            Some(Refused { position: *position, reason })
        });
        self.hearing.hear(&self.owner.name, stands);
        refused.collect::<Option<_>>().ok_or_else(|| self.owner.unanswered(Unanswered::Garbled))
    }

    /// Lets the owner know that nothing is wanted any more. One that does not answer forgets it by itself.
    pub(super) async fn bye(self) {
        let _ = self.ask(What::Bye, BYE_TIMEOUT).await;
    }

    async fn ask(&self, what: What, allowed: Duration) -> Result<Stands, RelayError> {
        let ask = Ask { version: VERSION, epoch: self.owner.epoch, session: self.session.clone(), what };
        let asked = self.member.ask(&self.owner.name, &ask, allowed).await;
        asked.map_err(|source| self.owner.unanswered(source))
    }
}

impl Reader {
    /// What the owner says of what the session has.
    pub(super) fn withholding(&self) -> Withholding {
        self.hearing.withholding()
    }

    /// Waits for the owner's next sign of life; an error when it gives none, or is not the owner any more.
    pub(super) async fn life(&mut self) -> Result<(), RelayError> {
        let Reader { member, owner, session, hearing, beats } = self;
        let mut roles = member.roles.clone();
        let beat = async {
            beats.tick().await;
            let ask = Ask { version: VERSION, epoch: owner.epoch, session: session.clone(), what: What::Beat };
            member.ask(&owner.name, &ask, BEAT_TIMEOUT).await.map_err(|source| owner.unanswered(source))
        };
        tokio::select! {
            biased;
            // Without anybody who says who is the owner, there is none.
            _ = roles.wait_for(|role| owner.is_replaced_in(role)) => {
                Err(RelayError::Moved { owner: Arc::clone(&owner.name) })
            }
            beaten = beat => {
                let stands = beaten?;
                if stands.more {
                    beats.reset_immediately();
                }
                hearing.hear(&owner.name, stands);
                Ok(())
            }
        }
    }
}

impl Owner {
    /// The owner, if it is another member.
    pub(super) fn of(role: &Role) -> Option<Owner> {
        match role {
            Role::Follower { owner, epoch } => Some(Owner { name: Arc::clone(owner), epoch: *epoch }),
            Role::Owner { .. } | Role::Unknown => None,
        }
    }

    /// Whether this role says that somebody else is. One who does not know may well be served all the same.
    fn is_replaced_in(&self, role: &Role) -> bool {
        match role {
            Role::Unknown => false,
            Role::Owner { .. } => true,
            Role::Follower { owner, epoch } => (owner, *epoch) != (&self.name, self.epoch),
        }
    }

    fn unanswered(&self, source: Unanswered) -> RelayError {
        RelayError::Unanswered { owner: Arc::clone(&self.name), source }
    }
}
