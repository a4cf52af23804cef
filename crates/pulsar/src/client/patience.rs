//! Patience: an operation tried again and again, until it works, cannot, or has taken too long.

use super::trouble::Trouble;
use crate::error::Error;
use crate::wire::ServerError;
use carom::Policy;
use carom_core::random::Random;
use carom_core::recovery::{SHORTEST_DELAY, Tries};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

/// One operation's time, and the delays between its attempts. What has worked before is tried until it works again, however long
/// that takes; then the time is that of each attempt.
pub(crate) struct Patience {
    what: &'static str,
    /// It has worked before.
    again: bool,
    allowed: Duration,
    /// Of what has not worked before.
    deadline: Instant,
    policy: Policy,
    tries: Tries,
    random: Random,
    last: Option<Error>,
    /// Since when brokers say that there is no such topic.
    missing: Option<Instant>,
    trouble: Trouble,
    /// The cluster is reached at other addresses than before: another attempt is made at once.
    new_addresses: watch::Receiver<()>,
}

impl Patience {
    pub(crate) fn new(
        what: &'static str,
        again: bool,
        allowed: Duration,
        deadline: Instant,
        policy: &Policy,
        new_addresses: watch::Receiver<()>,
    ) -> Patience {
        // Time is what runs out, not attempts: a topic may take any number of them to settle.
        let policy = policy.clone().attempts(u32::MAX);
        let tries = Tries::new(&policy);
        let random = Random::new(RandomState::new().build_hasher().finish());
        let trouble = Trouble::default();
        let (last, missing) = (None, None);
        Patience { what, again, allowed, deadline, policy, tries, random, last, missing, trouble, new_addresses }
    }

    /// What goes wrong is told here, too.
    pub(crate) fn telling(self, trouble: Trouble) -> Patience {
        Patience { trouble, ..self }
    }

    /// One attempt, within the time there is: its outcome, or `None` when it is worth another, after its delay.
    pub(crate) async fn attempt<T>(
        &mut self,
        attempt: impl Future<Output = Result<T, Error>>,
    ) -> Result<Option<T>, Error> {
        self.attempt_held(attempt, &Notify::new()).await
    }

    /// The same, of an attempt that may take any time once it is `held`.
    pub(crate) async fn attempt_held<T>(
        &mut self,
        attempt: impl Future<Output = Result<T, Error>>,
        held: &Notify,
    ) -> Result<Option<T>, Error> {
        let deadline = if self.again { Instant::now() + self.allowed } else { self.deadline };
        tokio::pin!(attempt);
        let outcome = tokio::select! {
            biased;
            outcome = &mut attempt => Some(outcome),
            () = held.notified() => {
                let outcome = attempt.await;
                // What was waited for in line is not what it may take.
                self.deadline = Instant::now() + self.allowed;
                Some(outcome)
            }
            () = sleep_until(deadline) => None,
        };
        match outcome {
            Some(Ok(done)) => return Ok(Some(done)),
            Some(Err(error)) => self.failed(error).await?,
            None if self.again => {
                let error = self.over();
                self.failed(error).await?;
            }
            None => return Err(self.over()),
        }
        Ok(None)
    }

    /// Waits until it is time for another attempt, if there is to be one.
    async fn failed(&mut self, error: Error) -> Result<(), Error> {
        if !self.is_passing(&error) {
            return Err(error);
        }
        self.trouble.set(error.clone());
        let delay = self.tries.fail(&self.policy, &mut self.random).unwrap_or(self.allowed);
        match self.again {
            true => tracing::warn!(what = self.what, %error, ?delay, "without a broker, to be tried again"),
            false => tracing::debug!(what = self.what, %error, ?delay, "to be tried again"),
        }
        self.last = Some(error);
        let next = Instant::now() + delay;
        if !self.again && next >= self.deadline {
            return Err(self.over());
        }
        tokio::select! {
            () = sleep_until(next) => {}
            // The set may hear of them a moment later: the delays start from the first again.
            Ok(()) = self.new_addresses.changed() => self.tries = Tries::new(&self.policy),
        }
        Ok(())
    }

    /// Whether it may succeed yet. A topic that moves may seem to be missing, but not for long.
    fn is_passing(&mut self, error: &Error) -> bool {
        let missing = matches!(error, Error::Refused { error: ServerError::TopicNotFound, .. });
        self.missing = self.missing.or(Some(Instant::now())).filter(|_| missing);
        error.is_passing(self.again) && self.missing.is_none_or(|since| since.elapsed() < self.allowed)
    }

    fn over(&mut self) -> Error {
        let source = match self.last.take() {
            // An attempt like this one: what went wrong before it says more.
            Some(Error::TimedOut { what, source, .. }) if what == self.what => source,
            last => last.map(Arc::new),
        };
        Error::TimedOut { what: self.what, after: self.allowed, source }
    }
}

/// The delays between one life of a producer or consumer and the next: the shortest, unless lives are short and come to nothing.
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

    /// How long to wait before the next, at least [`SHORTEST_DELAY`]. One short life may be chance.
    pub(crate) fn delay(&mut self) -> Duration {
        let short = self.since.take().is_some_and(|since| since.elapsed() < SHORT_LIFE);
        if !short {
            (self.short, self.tries) = (false, Tries::new(&self.policy));
            return SHORTEST_DELAY;
        }
        if !std::mem::replace(&mut self.short, true) {
            return SHORTEST_DELAY;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;

    /// Fails every attempt for this long; when each of them was made.
    async fn fail_for(patience: &mut Patience, time: Duration) -> Vec<Instant> {
        let (end, mut attempts) = (Instant::now() + time, Vec::new());
        while Instant::now() < end {
            attempts.push(Instant::now());
            let missing = Error::Unresolved { host: "broker".into(), source: None };
            let attempt = patience.attempt(std::future::ready(Err::<(), Error>(missing)));
            if let Ok(outcome) = tokio::time::timeout_at(end, attempt).await {
                assert!(matches!(outcome, Ok(None)), "{outcome:?}");
            }
        }
        attempts
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_worked_before_is_tried_at_least_every_five_seconds() {
        let client = Client::builder("pulsar://127.0.0.1:1").build().unwrap();
        let mut patience = client.shared().patience("the producer", true);
        let attempts = fail_for(&mut patience, Duration::from_secs(300)).await;
        let longest = attempts.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(longest <= Some(Duration::from_secs(5)), "{longest:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn new_addresses_are_tried_at_once() {
        let client = Client::builder("pulsar://127.0.0.1:1").build().unwrap();
        let shared = client.shared();
        let mut patience = shared.patience("the producer", true);
        fail_for(&mut patience, Duration::from_secs(60)).await;
        let start = Instant::now();
        shared.new_addresses.send_replace(());
        let missing = Error::Unresolved { host: "broker".into(), source: None };
        let outcome = patience.attempt(std::future::ready(Err::<(), Error>(missing))).await;
        assert!(matches!(outcome, Ok(None)), "{outcome:?}");
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Delays of 1 ms, as often as not brought down to half of that by the spread.
    fn hasty() -> Policy {
        Policy::default().delay(MILLISECOND).max_delay(MILLISECOND).spread(1.0)
    }

    #[tokio::test(start_paused = true)]
    async fn retries_are_at_least_1_ms_apart_whatever_the_spread() {
        let client = Client::builder("pulsar://127.0.0.1:1").recovery(hasty()).build().unwrap();
        // The first addresses are new, too: an attempt would be made at once.
        client.shared().new_addresses.subscribe().changed().await.unwrap();
        for again in [false, true] {
            let mut patience = client.shared().patience("the producer", again);
            let attempts = fail_for(&mut patience, Duration::from_secs(1)).await;
            let shortest = attempts.windows(2).map(|pair| pair[1] - pair[0]).min();
            assert!(shortest >= Some(MILLISECOND), "{shortest:?}");
            assert!(attempts.len() > 100, "{}", attempts.len());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lives_are_at_least_1_ms_apart_whether_they_came_to_something_or_not() {
        let mut pace = Pace::new(&hasty());
        for life in 0..1_000 {
            pace.begun();
            if life % 3 == 0 {
                pace.succeeded();
            }
            if life % 7 == 0 {
                tokio::time::advance(2 * SHORT_LIFE).await;
            }
            let delay = pace.delay();
            assert!(delay >= MILLISECOND, "{delay:?} after life {life}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lives_that_are_short_and_come_to_nothing_are_ever_further_apart() {
        let policy = Policy::default().delay(MILLISECOND * 10).max_delay(MILLISECOND * 40).spread(0.0);
        let mut pace = Pace::new(&policy);
        let mut delays = |lives: usize| {
            let short = |_| {
                pace.begun();
                pace.delay().as_millis()
            };
            (0..lives).map(short).collect::<Vec<_>>()
        };
        assert_eq!(delays(5), [1, 10, 20, 40, 40], "one short life may be chance");
    }
}
