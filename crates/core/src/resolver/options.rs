//! What a resolver is told: whom to look for, and how patiently.

use crate::options::{OptionsError, recurring};
use crate::recovery::{DAY, Recovery};
use std::sync::Arc;
use std::time::Duration;

/// What a resolver is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The name whose addresses are wanted, or below which the service is.
    pub domain: Arc<str>,
    /// The SRV service, as `_http._tcp`; without one the addresses of `domain` are the backends.
    pub service: Option<Arc<str>>,
    /// The port of backends that no SRV record names.
    pub default_port: u16,
    /// Most questions under way at a time.
    pub concurrency: usize,
    /// What a shorter TTL is taken for.
    pub min_ttl: Duration,
    /// What a longer TTL is taken for.
    pub max_ttl: Duration,
    /// Whether IPv6 addresses are of use here; if not, nobody asks for them.
    pub ipv6: bool,
    /// Attempts, timeouts and delays of questions: the policies `dns` and `dns_srv`.
    pub recovery: Recovery,
}

impl Options {
    /// For the addresses of a domain: no SRV service, port 80, 5 questions at a time, TTLs from 1 s to a day, with IPv6.
    pub fn new(domain: impl Into<Arc<str>>) -> Options {
        Options {
            domain: domain.into(),
            service: None,
            default_port: 80,
            concurrency: 5,
            min_ttl: Duration::from_secs(1),
            max_ttl: DAY,
            ipv6: true,
            recovery: Recovery::default(),
        }
    }

    /// Refuses what makes no sense, naming the option.
    ///
    /// # Errors
    /// The first option that is out of bounds.
    pub fn validate(&self) -> Result<(), OptionsError> {
        if self.domain.is_empty() {
            return Err(OptionsError::new("domain", "must not be empty"));
        }
        if self.concurrency == 0 {
            return Err(OptionsError::new("concurrency", "must be at least 1"));
        }
        // A TTL of 0 is asked for again after this.
        recurring("min_ttl", Some(self.min_ttl))?;
        if self.max_ttl < self.min_ttl {
            return Err(OptionsError::new("max_ttl", "must not be below min_ttl"));
        }
        if self.max_ttl > 365 * DAY {
            return Err(OptionsError::new("max_ttl", "must be at most a year"));
        }
        self.recovery.validate().map_err(|problem| OptionsError::new("recovery", problem.to_string()))
    }
}
