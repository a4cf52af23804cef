//! A member: one gateway among those that share an upstream, and how it asks the others.

use super::Role;
use super::message::{Answer, Ask, Stands};
use crate::bus::nats::post::{Post, PostError};
use crate::bus::nats::subject::Subjects;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// See the [module](self).
#[derive(Clone)]
pub(crate) struct Member {
    pub(super) name: Arc<str>,
    pub(super) post: Arc<dyn Post>,
    pub(super) subjects: Subjects,
    pub(super) roles: watch::Receiver<Role>,
}

/// Why another member did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unanswered {
    /// It cannot be asked.
    #[error(transparent)]
    Post(#[from] PostError),
    /// It said nothing for too long.
    #[error("no answer came within {0:?}")]
    TimedOut(Duration),
    /// It is not the owner, or does not know this member any more.
    #[error("it is not the owner, or has forgotten who asked")]
    NotHere,
    /// What it said makes no sense.
    #[error("the answer makes no sense")]
    Garbled,
}

impl Member {
    /// Asks another member. What it does not want of it, and how things stand there, if it says so.
    pub(super) async fn ask(&self, other: &str, ask: &Ask, allowed: Duration) -> Result<Stands, Unanswered> {
        let text = serde_json::to_vec(ask).map_err(|_| Unanswered::Garbled)?;
        let asking = self.post.ask(self.subjects.ask(other), text.into());
        let said = timeout(allowed, asking).await.map_err(|_| Unanswered::TimedOut(allowed))??;
        match serde_json::from_slice(&said) {
            Ok(Answer::Done(refused)) => Ok(Stands { refused, ..Stands::default() }),
            Ok(Answer::Stands(stands)) => Ok(stands),
            Ok(Answer::NotHere) => Err(Unanswered::NotHere),
            Err(_) => Err(Unanswered::Garbled),
        }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("name", &self.name).field("role", &*self.roles.borrow()).finish_non_exhaustive()
    }
}
