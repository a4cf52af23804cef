//! Patience: an operation tried again and again, until it works, cannot, or has taken too long.

use crate::error::Error;
use carom::Policy;
use carom_core::random::Random;
use carom_core::recovery::Tries;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// One operation's time, and the delays between its attempts.
pub(crate) struct Patience {
    what: &'static str,
    /// It has worked before.
    again: bool,
    allowed: Duration,
    deadline: Instant,
    policy: Policy,
    tries: Tries,
    random: Random,
    last: Option<Error>,
}

impl Patience {
    pub(crate) fn new(
        what: &'static str,
        again: bool,
        allowed: Duration,
        deadline: Instant,
        policy: &Policy,
    ) -> Patience {
        // Time is what runs out, not attempts: a topic may take any number of them to settle.
        let policy = policy.clone().attempts(u32::MAX);
        let tries = Tries::new(&policy);
        let random = Random::new(RandomState::new().build_hasher().finish());
        Patience { what, again, allowed, deadline, policy, tries, random, last: None }
    }

    /// One attempt, within the time there is: its outcome, or `None` when it is worth another, after its delay.
    pub(crate) async fn attempt<T>(
        &mut self,
        attempt: impl Future<Output = Result<T, Error>>,
    ) -> Result<Option<T>, Error> {
        let error = match timeout_at(self.deadline, attempt).await {
            Ok(Ok(done)) => return Ok(Some(done)),
            Ok(Err(error)) => error,
            Err(_) => return Err(self.over()),
        };
        if !error.is_passing(self.again) {
            return Err(error);
        }
        tracing::debug!(what = self.what, %error, "to be tried again");
        self.last = Some(error);
        let delay = self.tries.fail(&self.policy, &mut self.random).unwrap_or(self.allowed);
        let next = Instant::now() + delay;
        if next >= self.deadline {
            return Err(self.over());
        }
        sleep_until(next).await;
        Ok(None)
    }

    fn over(&mut self) -> Error {
        Error::TimedOut { what: self.what, after: self.allowed, source: self.last.take().map(Arc::new) }
    }
}

/// The delays between one life of a producer or consumer and the next: none, unless lives are short and come to nothing.
pub(crate) struct Pace {
    policy: Policy,
    tries: Tries,
    random: Random,
    since: Option<Instant>,
    short: bool,
}

/// A life shorter than this is as good as none.
const SHORT_LIFE: Duration = Duration::from_secs(1);

impl Pace {
    pub(crate) fn new(policy: &Policy) -> Pace {
        let policy = policy.clone().attempts(u32::MAX);
        let tries = Tries::new(&policy);
        let random = Random::new(RandomState::new().build_hasher().finish());
        Pace { policy, tries, random, since: None, short: false }
    }

    /// A life begins.
    pub(crate) fn begun(&mut self) {
        self.since = Some(Instant::now());
    }

    /// The life that is has come to something.
    pub(crate) fn succeeded(&mut self) {
        self.since = None;
    }

    /// How long to wait before the next. One short life may be chance.
    pub(crate) fn delay(&mut self) -> Duration {
        let short = self.since.take().is_some_and(|since| since.elapsed() < SHORT_LIFE);
        if !short {
            (self.short, self.tries) = (false, Tries::new(&self.policy));
            return Duration::ZERO;
        }
        if !std::mem::replace(&mut self.short, true) {
            return Duration::ZERO;
        }
        self.tries.fail(&self.policy, &mut self.random).unwrap_or(SHORT_LIFE)
    }
}

/// Resolves at this moment, or never.
pub(crate) async fn at(moment: Option<std::time::Instant>) {
    match moment {
        Some(moment) => sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
