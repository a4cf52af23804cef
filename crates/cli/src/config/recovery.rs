//! How connections come back: the keys of a `[[feed]]` or a `[[service]]` for attempts to open them.

use super::values::{time, time_or_none};
use carom::Policy;
use carom_gateway::tables::{Table, TableError};
use std::time::Duration;

/// How patiently and how far apart connections are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recovery {
    attempts: u32,
    attempt_timeout: Duration,
    max_attempt_timeout: Duration,
    delay: Duration,
    max_delay: Duration,
}

impl Recovery {
    /// As it is when nothing is said but how often.
    pub(super) fn new(attempts: u32) -> Recovery {
        Recovery {
            attempts,
            attempt_timeout: Duration::from_secs(2),
            max_attempt_timeout: Duration::from_secs(8),
            delay: Duration::from_millis(100),
            max_delay: Duration::from_secs(10),
        }
    }

    /// No longer between attempts than this.
    pub(super) fn max_delay(self, max_delay: Duration) -> Recovery {
        Recovery { max_delay, ..self }
    }

    /// What a table says, and these where it says nothing.
    pub(super) fn take(table: &mut Table, mut recovery: Recovery) -> Result<Recovery, TableError> {
        let accepted = "a time from 1ms to a day, such as \"2s\"";
        if let Some(delay) =
            table.read("delay", "a time up to a day, such as \"100ms\", or 0 for none", time_or_none)?
        {
            recovery.delay = delay.unwrap_or_default();
        }
        let timeout = table.read("attempt_timeout", accepted, time)?;
        recovery.attempt_timeout = timeout.unwrap_or(recovery.attempt_timeout);
        for (key, least_key, least, most) in [
            ("max_attempt_timeout", "attempt_timeout", recovery.attempt_timeout, &mut recovery.max_attempt_timeout),
            ("max_delay", "delay", recovery.delay, &mut recovery.max_delay),
        ] {
            match table.read(key, accepted, time)? {
                Some(given) if given < least => {
                    return Err(
                        table.wrong(key, format_args!("{given:?} is below {least_key}; accepted: from {least:?} on"))
                    );
                }
                Some(given) => *most = given,
                // Whoever names one long time alone does not want it cut short.
                None => *most = least.max(*most),
            }
        }
        Ok(recovery)
    }

    /// Whether there is a delay after the first failure.
    pub(super) fn has_delay(&self) -> bool {
        !self.delay.is_zero()
    }

    pub(crate) fn policy(&self) -> Policy {
        Policy::default()
            .attempts(self.attempts)
            .timeout(self.attempt_timeout)
            .max_timeout(self.max_attempt_timeout)
            .delay(self.delay)
            .max_delay(self.max_delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTEMPTS: u32 = 8;

    fn policy(text: &str) -> Policy {
        let mut table = Table::parse("c.toml", text).unwrap();
        let recovery = Recovery::take(&mut table, Recovery::new(ATTEMPTS)).unwrap();
        table.finish().unwrap();
        recovery.policy()
    }

    #[test]
    fn what_is_not_said_is_as_feeds_have_it() {
        let default = Policy::default().attempts(ATTEMPTS).max_delay(Duration::from_secs(10));
        assert_eq!(policy(""), default);
        let (short, long) = (Duration::from_millis(5), Duration::from_secs(60));
        assert_eq!(policy("delay = \"5ms\"\nmax_delay = \"60s\""), default.clone().delay(short).max_delay(long));
        assert_eq!(policy("delay = 0"), default.clone().delay(Duration::ZERO));
        let patient = default.timeout(long).max_timeout(long);
        assert_eq!(policy("attempt_timeout = \"60s\""), patient, "the cap goes along");
    }
}
