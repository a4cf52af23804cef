//! The elected adapter: real connections for the owner of an upstream, relayed ones for everybody else.
//!
//! So each member has an ordinary feed, for ever. When the upstream changes hands every connection of every member ends, and the
//! feeds open others at once and subscribe to everything again, as they do whenever a connection is lost; no client notices.

use super::member::Member;
use super::relay::{self, Owner, RelayError};
use super::{Fence, Fenced};
use carom::feed::{Adapter, Change, Pacing, Refused, Tick, Withholding};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// An owner that does not answer is asked again after this.
const AGAIN: Duration = Duration::from_millis(100);

/// How long the upstream may take to say goodbye.
const FAREWELL: Duration = Duration::from_secs(1);

/// Speaks to the upstream by way of `A` when this member owns it, and to the owner otherwise; made by
/// [`Share::elected`](super::Share::elected).
#[derive(Debug)]
pub struct Elected<A> {
    adapter: A,
    member: Member,
    sessions: AtomicU64,
}

/// Why a connection ended, or was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ElectedError<E: std::error::Error + 'static> {
    /// The upstream's own adapter says so.
    #[error(transparent)]
    Upstream(E),
    /// This member owns the upstream no longer.
    #[error(transparent)]
    Fenced(#[from] Fenced),
    /// The owner cannot be used, or is another one.
    #[error(transparent)]
    Relay(#[from] RelayError),
    /// Nothing is heard of the others, or of who owns the upstream.
    #[error("NATS cannot be reached, and without it nobody owns the upstream")]
    CutOff(#[source] CutOff),
    /// This member takes no part in elections any more.
    #[error("this member has left")]
    Left,
}

/// What ended a connection when NATS could not be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CutOff {
    /// This member was the owner.
    #[error(transparent)]
    Fenced(#[from] Fenced),
    /// Another was.
    #[error(transparent)]
    Relay(#[from] RelayError),
}

/// The half that is written to.
#[derive(Debug)]
pub enum Writer<W> {
    /// Of a connection to the upstream.
    Own(Fence, W),
    /// Of a session with the owner.
    Relayed(relay::Writer),
}

/// The half that is read from.
#[derive(Debug)]
pub enum Reader<R> {
    /// Of a connection to the upstream.
    Own(Fence, R),
    /// Of a session with the owner.
    Relayed(relay::Reader),
}

impl<A: Adapter> Elected<A> {
    pub(super) fn new(adapter: A, member: Member) -> Elected<A> {
        Elected { adapter, member, sessions: AtomicU64::new(0) }
    }

    async fn own(&self, fence: Fence) -> Result<Halves<A>, Error<A>> {
        let (writer, reader) = self.guard(&fence, self.adapter.open()).await?;
        Ok((Writer::Own(fence.clone(), writer), Reader::Own(fence, reader)))
    }

    /// What the adapter says, for as long as this member is the owner.
    async fn guard<T>(
        &self,
        fence: &Fence,
        speaking: impl Future<Output = Result<T, A::Error>>,
    ) -> Result<T, Error<A>> {
        fence.guard(speaking).await.map_err(|fenced| self.ended(fenced))?.map_err(ElectedError::Upstream)
    }

    /// Why a connection ended: because there is no NATS, if there is none.
    fn ended<E: Into<CutOff> + Into<Error<A>>>(&self, error: E) -> Error<A> {
        match self.member.post.is_connected() {
            true => error.into(),
            false => ElectedError::CutOff(error.into()),
        }
    }

    async fn relayed(&self, owner: &Owner) -> Result<Halves<A>, RelayError> {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        let (writer, reader) = relay::open(&self.member, owner, number).await?;
        Ok((Writer::Relayed(writer), Reader::Relayed(reader)))
    }
}

type Error<A> = ElectedError<<A as Adapter>::Error>;
type Halves<A> = (Writer<<A as Adapter>::Writer>, Reader<<A as Adapter>::Reader>);

impl<A: Adapter> Adapter for Elected<A> {
    type Writer = Writer<A::Writer>;
    type Reader = Reader<A::Reader>;
    type Error = Error<A>;

    /// Waits until this member owns the upstream, or whoever does answers: a feed whose attempts fail while nobody does would wait
    /// longer and longer for the next.
    async fn ready(&self) {
        let mut roles = self.member.roles.clone();
        loop {
            let role = roles.borrow_and_update().clone();
            match Owner::of(&role) {
                Some(owner) => tokio::select! {
                    biased;
                    changed = roles.changed() => match changed {
                        Ok(()) => continue,
                        Err(_) => return,
                    },
                    there = relay::is_there(&self.member, &owner) => match there {
                        Ok(()) => return,
                        Err(error) => tracing::debug!(%error, "the owner is asked again"),
                    },
                },
                None => {
                    if let Ok(fence) = Fence::around(&roles)
                        && fence.guard(self.adapter.ready()).await.is_ok()
                    {
                        return;
                    }
                }
            }
            // Nothing new is no reason not to try again. Who takes no part any more is told so when it opens a connection.
            if let Ok(Err(_)) = timeout(AGAIN, roles.changed()).await {
                return;
            }
        }
    }

    /// Asks whoever owns the upstream by then until that is known, and it answers.
    async fn open(&self) -> Result<Halves<A>, Error<A>> {
        let mut roles = self.member.roles.clone();
        loop {
            let role = roles.borrow_and_update().clone();
            match Owner::of(&role) {
                Some(owner) => tokio::select! {
                    biased;
                    changed = roles.changed() => {
                        changed.map_err(|_| ElectedError::Left)?;
                        continue;
                    }
                    relayed = self.relayed(&owner) => match relayed {
                        Ok(halves) => return Ok(halves),
                        Err(error) => tracing::debug!(%error, "the owner is asked again"),
                    },
                },
                None => {
                    if let Ok(fence) = Fence::around(&roles) {
                        return self.own(fence).await;
                    }
                }
            }
            // Nothing new is no reason not to try again.
            if let Ok(Err(_)) = timeout(AGAIN, roles.changed()).await {
                return Err(ElectedError::Left);
            }
        }
    }

    async fn write(&self, writer: &mut Self::Writer, changes: &[Change]) -> Result<Vec<Refused>, Error<A>> {
        match writer {
            Writer::Own(fence, writer) => self.guard(fence, self.adapter.write(writer, changes)).await,
            Writer::Relayed(session) => session.change(changes).await.map_err(|error| self.ended(error)),
        }
    }

    async fn read(&self, reader: &mut Self::Reader, ticks: &mut Vec<Tick>) -> Result<(), Error<A>> {
        match reader {
            Reader::Own(fence, reader) => self.guard(fence, self.adapter.read(reader, ticks)).await,
            Reader::Relayed(session) => session.life().await.map_err(|error| self.ended(error)),
        }
    }

    /// Sessions show life as they are read from, also to upstreams that do not want to see any.
    async fn heartbeat(&self, writer: &mut Self::Writer) -> Result<(), Error<A>> {
        match writer {
            Writer::Own(fence, writer) => self.guard(fence, self.adapter.heartbeat(writer)).await,
            Writer::Relayed(_) => Ok(()),
        }
    }

    async fn close(&self, writer: Self::Writer, reader: Self::Reader) {
        match (writer, reader) {
            (Writer::Own(fence, writer), Reader::Own(_, reader)) => {
                // Nobody has the upstream until it is over. One that outlasts the hold is cut short, too.
                let _ = fence.guard(timeout(FAREWELL, self.adapter.close(writer, reader))).await;
            }
            (Writer::Relayed(session), _) => session.bye().await,
            (Writer::Own(..), Reader::Relayed(_)) => {}
        }
    }

    fn withholding(&self, reader: &Self::Reader) -> Option<Withholding> {
        match reader {
            Reader::Own(_, reader) => self.adapter.withholding(reader),
            Reader::Relayed(session) => Some(session.withholding()),
        }
    }

    fn pacing(&self) -> Pacing {
        self.adapter.pacing()
    }

    fn passed_over(&self) -> Vec<(&'static str, u64)> {
        self.adapter.passed_over()
    }

    fn has_upstream(&self) -> bool {
        self.adapter.has_upstream()
    }

    fn refuses_credential(&self, error: &Error<A>) -> bool {
        match error {
            ElectedError::Upstream(error) => self.adapter.refuses_credential(error),
            ElectedError::Fenced(_) | ElectedError::Relay(_) | ElectedError::CutOff(_) | ElectedError::Left => false,
        }
    }

    fn lacks_credential(&self, error: &Error<A>) -> bool {
        match error {
            ElectedError::Upstream(error) => self.adapter.lacks_credential(error),
            ElectedError::Fenced(_) | ElectedError::Relay(_) | ElectedError::CutOff(_) | ElectedError::Left => false,
        }
    }
}
