//! The publisher: where a resolver puts what it knows.

use super::record::Notes;
use super::telling::tell;
use super::{Resolution, ResolverState};
use crate::{Backend, clock};
use carom_core::backend::are_the_same;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

/// Where a resolver puts what it knows.
#[derive(Debug)]
pub struct Publisher {
    sender: watch::Sender<Resolution>,
    notes: Arc<Notes>,
    /// Whether what it publishes is logged: not when another does that.
    tells: bool,
}

impl Publisher {
    pub(super) fn over(sender: watch::Sender<Resolution>, notes: &Arc<Notes>) -> Publisher {
        Publisher { sender, notes: Arc::clone(notes), tells: true }
    }

    /// As it is, but nothing is logged: it passes on what others say.
    pub(super) fn quiet(self) -> Publisher {
        Publisher { tells: false, ..self }
    }

    /// One for a resolver within the one that this belongs to: what it publishes is seen here first, what it notes is seen as
    /// the outer one's.
    pub(super) fn within(&self) -> (Publisher, watch::Receiver<Resolution>) {
        let (sender, receiver) = watch::channel(Resolution::unknown());
        (Publisher::over(sender, &self.notes).quiet(), receiver)
    }

    /// What the resolver is called where it is [seen](crate::monitor). Default: the name of its type.
    pub fn name(&self, name: &str) {
        self.notes.name(name);
    }

    #[allow(dead_code, reason = "for DNS alone")]
    pub(crate) fn notes(&self) -> &Notes {
        &self.notes
    }

    /// The whole current set. It may be empty: then nobody serves, which is an answer too. Saying the same again wakes nobody.
    pub fn publish(&self, backends: impl IntoIterator<Item = Backend>) {
        let backends: Arc<[Backend]> = backends.into_iter().collect();
        self.relay(Resolution { state: ResolverState::Running, backends, complete: true, ..Resolution::unknown() });
    }

    /// A set that was true once, and has not been confirmed since the given moment.
    pub fn publish_stale(&self, backends: impl IntoIterator<Item = Backend>, since: Instant) {
        let backends: Arc<[Backend]> = backends.into_iter().collect();
        let (state, stale_since) = (ResolverState::Running, Some(since));
        self.relay(Resolution { state, backends, stale_since, complete: true, ..Resolution::unknown() });
    }

    /// Finding out failed. What was known stays, as stale; a resolver that never knew anything has failed.
    pub fn fail(&self, error: impl Into<Box<dyn Error + Send + Sync>>) {
        let error: Arc<dyn Error + Send + Sync> = error.into().into();
        let mut resolution = self.sender.borrow().clone();
        resolution.last_error = Some(error);
        match resolution.state {
            ResolverState::Starting => resolution.state = ResolverState::Failed,
            ResolverState::Running => {
                resolution.stale_since.get_or_insert_with(clock::now);
            }
            ResolverState::Failed | ResolverState::Stopping | ResolverState::Stopped => {}
        }
        self.relay(resolution);
    }

    /// Resolves when nobody follows any more.
    pub async fn abandoned(&self) {
        self.sender.closed().await;
    }

    /// Publishes it as it is, if it says anything new; a resolver that was stopped says nothing more.
    pub(crate) fn relay(&self, new: Resolution) {
        let mut news = None;
        self.sender.send_if_modified(|old| {
            if matches!(old.state, ResolverState::Stopping | ResolverState::Stopped) {
                return false;
            }
            let mut new = new;
            if (old.state, new.state) == (ResolverState::Failed, ResolverState::Starting) {
                // It has begun anew, by itself: until that succeeds it has failed, and for the same reason.
                new.state = ResolverState::Failed;
                new.last_error = new.last_error.or_else(|| old.last_error.clone());
            }
            if old.state == ResolverState::Running {
                match new.state {
                    // One that replaces another has not answered yet: what is known stays.
                    ResolverState::Starting | ResolverState::Failed => {
                        let stale_since = old.stale_since.or_else(|| new.last_error.is_some().then(clock::now));
                        let last_error = new.last_error.or_else(|| old.last_error.clone());
                        new = Resolution { last_error, stale_since, ..old.clone() };
                    }
                    ResolverState::Running | ResolverState::Stopping | ResolverState::Stopped => {}
                }
            }
            let nothing_new = old.state == new.state
                && old.last_error.is_none()
                && new.last_error.is_none()
                && old.stale_since == new.stale_since
                && old.complete == new.complete
                && are_the_same(&old.backends, &new.backends);
            if self.tells && !nothing_new {
                news = Some((old.clone(), new.clone()));
            }
            *old = new;
            !nothing_new
        });
        if let Some((before, after)) = news {
            tell(&self.notes.title(), &before, &after);
        }
    }
}
