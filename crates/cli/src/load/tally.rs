//! What came of requests, counted: in bounded memory, however many there are.

use super::histogram::Histogram;
use crate::target::Trouble;
use carom::Backend;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// So many backends are told apart; a service whose nodes come and go may have had more.
const MOST_BACKENDS: usize = 1000;

/// The count.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Of those that were answered.
    pub(super) latencies: Histogram,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) protocols: BTreeMap<&'static str, u64>,
    /// Of those that took more than one attempt.
    pub(super) retried: u64,
    pub(super) body_bytes: u64,
    pub(super) backends: HashMap<Backend, u64>,
    /// Of backends that are not told apart any more.
    pub(super) other_backends: u64,
    /// By the step that failed.
    pub(super) failures: BTreeMap<String, Failures>,
}

/// What failed at one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failures {
    pub(super) count: u64,
    /// What was said of the first.
    pub(super) example: String,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    pub(super) latency: Duration,
    pub(super) status: u16,
    pub(super) body_bytes: u64,
    /// Who gave it, when that is known.
    pub(super) backend: Option<&'a Backend>,
    pub(super) protocol: &'static str,
    pub(super) retried: bool,
}

impl Tally {
    pub(super) fn answered(&mut self, answer: &Answer<'_>) {
        self.latencies.record(answer.latency);
        *self.statuses.entry(answer.status).or_default() += 1;
        *self.protocols.entry(answer.protocol).or_default() += 1;
        self.retried += u64::from(answer.retried);
        self.body_bytes += answer.body_bytes;
        if let Some(backend) = answer.backend {
            self.served(backend, 1);
        }
    }

    pub(super) fn failed(&mut self, trouble: Trouble) {
        let Trouble { step, message } = trouble;
        self.failures.entry(step).or_insert_with(|| Failures { count: 0, example: message }).count += 1;
    }

    /// As if all that was counted there had been counted here.
    pub(super) fn merge(&mut self, other: &Tally) {
        self.latencies.merge(&other.latencies);
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for (protocol, count) in &other.protocols {
            *self.protocols.entry(protocol).or_default() += count;
        }
        self.retried += other.retried;
        self.body_bytes += other.body_bytes;
        for (backend, count) in &other.backends {
            self.served(backend, *count);
        }
        self.other_backends += other.other_backends;
        for (step, failures) in &other.failures {
            let Failures { count, example } = failures;
            let known = self.failures.entry(step.clone());
            known.or_insert_with(|| Failures { count: 0, example: example.clone() }).count += count;
        }
    }

    pub(super) fn answers(&self) -> u64 {
        self.latencies.count()
    }

    pub(super) fn failure_count(&self) -> u64 {
        self.failures.values().map(|failures| failures.count).sum()
    }

    fn served(&mut self, backend: &Backend, count: u64) {
        if let Some(known) = self.backends.get_mut(backend) {
            *known += count;
        } else if self.backends.len() < MOST_BACKENDS {
            self.backends.insert(backend.clone(), count);
        } else {
            self.other_backends += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(number: usize) -> Backend {
        Backend::fixed((std::net::Ipv4Addr::from(number as u32), 80).into())
    }

    fn answer(backend: &Backend, status: u16) -> Answer<'_> {
        let latency = Duration::from_millis(u64::from(status));
        Answer { latency, status, body_bytes: 3, backend: Some(backend), protocol: "HTTP/1.1", retried: status == 503 }
    }

    fn trouble(step: &str, message: &str) -> Trouble {
        Trouble { step: step.to_owned(), message: message.to_owned() }
    }

    #[test]
    fn merged_they_are_as_one() {
        let (mut one, mut other, mut all) = (Tally::default(), Tally::default(), Tally::default());
        for (at, status) in [200, 503, 200, 404, 200].into_iter().enumerate() {
            let backend = backend(at % 2);
            let answer = answer(&backend, status);
            all.answered(&answer);
            if at < 2 { &mut one } else { &mut other }.answered(&answer);
        }
        for (step, part) in [("connect", true), ("send", false), ("connect", false)] {
            all.failed(trouble(step, "the first"));
            if part { &mut one } else { &mut other }.failed(trouble(step, "the first"));
        }
        one.merge(&other);
        assert_eq!(format!("{:?}", one.latencies), format!("{:?}", all.latencies));
        assert_eq!((&one.statuses, &one.protocols, &one.failures), (&all.statuses, &all.protocols, &all.failures));
        assert_eq!((one.retried, one.body_bytes, &one.backends), (1, 15, &all.backends));
        assert_eq!((one.answers(), one.failure_count()), (5, 3));
    }

    #[test]
    fn backends_without_end_take_no_memory_without_end() {
        let mut tally = Tally::default();
        for number in 0..3 * MOST_BACKENDS {
            tally.answered(&answer(&backend(number), 200));
        }
        assert_eq!((tally.backends.len(), tally.other_backends), (MOST_BACKENDS, 2 * MOST_BACKENDS as u64));
    }

    #[test]
    fn of_a_failure_the_first_is_remembered() {
        let mut tally = Tally::default();
        tally.failed(trouble("connect", "one"));
        tally.failed(trouble("connect", "two"));
        assert_eq!(tally.failures["connect"], Failures { count: 2, example: "one".to_owned() });
    }
}
