//! What a gateway allows and how patient it is.

use carom_core::feed::outbox;
use carom_core::options::OptionsError;
use std::time::{Duration, Instant};

/// Least that a message may be: a key, and what is said with it, must fit in.
const LEAST_MESSAGE: usize = 1 << 10;

/// How much clients may ask for. Whoever asks for more is told which limit that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Largest message, in bytes, that a client may send; a larger one closes it with 1009. At least 1 KiB.
    /// Default: 1 MiB.
    pub message_size: usize,
    /// Most subscriptions of one client: each mode of each instrument is one. Default: 5,000.
    pub topics_per_client: usize,
    /// Most clients from one address, of IPv6 from one network of 64 bits; one more is answered 429 before it is upgraded.
    /// Default: 1,000.
    pub clients_per_address: usize,
    /// Most clients in all; one more is answered 503 before it is upgraded. Default: 10,000.
    pub clients: usize,
    /// Most clients that have not authenticated, of all; one more is answered 503 before it is upgraded. Default: 2,500.
    pub strangers: usize,
    /// Most clients from one address that have not authenticated; one more is answered 429 before it is upgraded. Default: 250.
    pub strangers_per_address: usize,
    /// How many topics a client may subscribe to per second: each entry of a request is one, whatever becomes of it. So is an
    /// entry of an unsubscribe beyond as many as the client has, and sixteen entries that it is told by `get_subscriptions`.
    /// Default: 1,000.
    pub subscribe_rate: u32,
    /// How many topics a client may subscribe to at once, before `subscribe_rate` counts: a request with more is always
    /// refused. Default: 10,000.
    pub subscribe_burst: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            message_size: 1 << 20,
            topics_per_client: 5_000,
            clients_per_address: 1_000,
            clients: 10_000,
            strangers: 2_500,
            strangers_per_address: 250,
            subscribe_rate: 1_000,
            subscribe_burst: 10_000,
        }
    }
}

impl Limits {
    /// Refuses what makes no sense, naming the limit.
    ///
    /// # Errors
    /// The first limit that is out of bounds.
    pub fn validate(&self) -> Result<(), OptionsError> {
        let counts = [
            ("topics_per_client", self.topics_per_client),
            ("clients_per_address", self.clients_per_address),
            ("clients", self.clients),
            ("strangers", self.strangers),
            ("strangers_per_address", self.strangers_per_address),
            ("subscribe_rate", self.subscribe_rate as usize),
            ("subscribe_burst", self.subscribe_burst as usize),
        ];
        match counts.into_iter().find(|(_, count)| *count == 0) {
            Some((limit, _)) => Err(OptionsError::new(limit, "must be at least 1")),
            None if self.message_size < LEAST_MESSAGE => {
                Err(OptionsError::new("message_size", "must be at least 1 KiB (1024)"))
            }
            None => Ok(()),
        }
    }
}

/// Everything a gateway was told but whom it serves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) limits: Limits,
    pub(crate) outbox: outbox::Options,
    pub(crate) auth_grace: Duration,
    pub(crate) ping_interval: Duration,
    pub(crate) ping_timeout: Duration,
    pub(crate) snapshot: bool,
    pub(crate) ltp_throttle: Option<Duration>,
}

impl Default for Options {
    fn default() -> Options {
        let limits = Limits::default();
        Options {
            limits,
            outbox: outbox::Options { max_ticks: limits.topics_per_client, ..outbox::Options::default() },
            auth_grace: Duration::from_secs(15),
            ping_interval: Duration::from_secs(20),
            ping_timeout: Duration::from_secs(20),
            snapshot: true,
            ltp_throttle: None,
        }
    }
}

impl Options {
    pub(crate) fn validate(&self) -> Result<(), OptionsError> {
        self.limits.validate()?;
        self.outbox.validate()?;
        let times = [
            ("auth_grace", Some(self.auth_grace)),
            ("ping_interval", Some(self.ping_interval)),
            ("ping_timeout", Some(self.ping_timeout)),
            ("ltp_throttle", self.ltp_throttle),
        ];
        for (option, time) in times {
            let (least, most) = (Duration::from_millis(1), Duration::from_secs(365 * 86_400));
            if let Some(time) = time.filter(|time| !(least..=most).contains(time)) {
                return Err(OptionsError::new(option, format!("must be from 1ms to a year, not {time:?}")));
            }
        }
        Ok(())
    }
}

/// What a client may still subscribe to: it fills up at a rate, to a brim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    left: f64,
    since: Instant,
}

impl Allowance {
    /// As much as there can be.
    pub(crate) fn full(now: Instant, limits: &Limits) -> Allowance {
        Allowance { left: f64::from(limits.subscribe_burst), since: now }
    }

    /// Takes so many although there may be fewer: that is owed then.
    pub(crate) fn owe(&mut self, count: usize) {
        self.left -= count as f64;
    }

    /// Takes so many, or none if there are not that many.
    pub(crate) fn take(&mut self, now: Instant, limits: &Limits, count: usize) -> bool {
        let filled = now.saturating_duration_since(self.since).as_secs_f64() * f64::from(limits.subscribe_rate);
        *self = Allowance { left: (self.left + filled).min(f64::from(limits.subscribe_burst)), since: now };
        let enough = count as f64 <= self.left;
        if enough {
            self.left -= count as f64;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_fills_up_to_its_brim() {
        let limits = Limits { subscribe_rate: 10, subscribe_burst: 20, ..Limits::default() };
        let start = Instant::now();
        let mut allowance = Allowance::full(start, &limits);
        assert!(allowance.take(start, &limits, 20));
        assert!(!allowance.take(start, &limits, 1), "nothing is left");
        let later = start + Duration::from_secs(1);
        assert!(!allowance.take(later, &limits, 11), "and nothing is taken then");
        assert!(allowance.take(later, &limits, 10));
        assert!(!allowance.take(later + Duration::from_secs(3600), &limits, 21), "it holds no more than the burst");
        assert!(allowance.take(later + Duration::from_secs(3600), &limits, 20));
    }

    #[test]
    fn what_is_owed_comes_first() {
        let limits = Limits { subscribe_rate: 10, subscribe_burst: 20, ..Limits::default() };
        let start = Instant::now();
        let mut allowance = Allowance::full(start, &limits);
        allowance.owe(30);
        assert!(!allowance.take(start + Duration::from_millis(999), &limits, 0));
        assert!(allowance.take(start + Duration::from_secs(2), &limits, 9));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let limits = Limits { clients: 0, ..Limits::default() };
        assert_eq!(Options { limits, ..Options::default() }.validate().unwrap_err().option(), "clients");
        let options = Options { ping_interval: Duration::ZERO, ..Options::default() };
        assert_eq!(options.validate().unwrap_err().option(), "ping_interval");
        let options = Options { ltp_throttle: Some(Duration::MAX), ..Options::default() };
        assert_eq!(options.validate().unwrap_err().option(), "ltp_throttle");
        assert!(Options::default().validate().is_ok());
    }
}
