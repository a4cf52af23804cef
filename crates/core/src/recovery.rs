//! Recovery: how often, how patiently and how far apart something is tried again.
//!
//! A [`Policy`] is the rule for one kind of operation, a [`Recovery`] holds one per operation, and [`Tries`] is one
//! walk through a policy. Timeout and delay double after each failure up to their caps; failure is declared right after
//! the last attempt, without a closing delay.
//!
//! ```
//! use carom_core::random::Random;
//! use carom_core::recovery::{Policy, Tries};
//! use std::time::Duration;
//!
//! let policy = Policy::default().attempts(2).delay(Duration::from_millis(50)).spread(0.0);
//! let mut tries = Tries::new(&policy);
//! assert_eq!(tries.fail(&policy, &mut Random::new(1)), Some(Duration::from_millis(50)));
//! assert_eq!(tries.fail(&policy, &mut Random::new(1)), None); // attempts ran out
//! ```

use crate::random::Random;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Where doubling stops when no cap is given, and the longest time a policy may name.
pub const DAY: Duration = Duration::from_secs(86_400);

/// The least time between two attempts, whatever a policy says.
pub const SHORTEST_DELAY: Duration = Duration::from_millis(1);

/// A connection that ends unused before it is this old counts as a failed attempt to connect.
pub const YOUNG: Duration = Duration::from_secs(1);

/// The longest delay between attempts while every backend is dead.
const OUTAGE_DELAY: Duration = Duration::from_secs(1);

/// How one kind of operation is tried again.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    attempts: u32,
    timeout: Duration,
    max_timeout: Option<Duration>,
    delay: Duration,
    max_delay: Option<Duration>,
    spread: f64,
}

/// 3 attempts, timeout 2 s up to 8 s, delay 100 ms up to 3 s, spread 0.2.
impl Default for Policy {
    fn default() -> Policy {
        Policy {
            attempts: 3,
            timeout: Duration::from_secs(2),
            max_timeout: Some(Duration::from_secs(8)),
            delay: Duration::from_millis(100),
            max_delay: Some(Duration::from_secs(3)),
            spread: 0.2,
        }
    }
}

impl Policy {
    /// Attempts in all, the first included; at least 1. Default 3.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Policy {
        self.attempts = attempts;
        self
    }

    /// How long the first attempt may take; doubles with each failure. Default 2 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Policy {
        self.timeout = timeout;
        self
    }

    /// Where the doubling of `timeout` stops; `None` stops at a day. Default 8 s.
    #[must_use]
    pub fn max_timeout(mut self, max_timeout: impl Into<Option<Duration>>) -> Policy {
        self.max_timeout = max_timeout.into();
        self
    }

    /// How long to wait after the first failure; doubles with each further one. Below 1 ms it stands for 1 ms, needs a
    /// `max_delay`, and is refused where connections are made before they are asked for (eager sets). Default 100 ms.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Policy {
        self.delay = delay;
        self
    }

    /// Where the doubling of `delay` stops. It goes on while a backend is dead, so this is how far apart a dead backend is tried
    /// in the end. `None` stops the doubling of a dead backend's delay when `attempts` have doubled it, and else at a day. While
    /// every backend of a pool or a set is dead, its attempts are at most a second apart. Default 3 s.
    #[must_use]
    pub fn max_delay(mut self, max_delay: impl Into<Option<Duration>>) -> Policy {
        self.max_delay = max_delay.into();
        self
    }

    /// The share of each delay that is left to chance, 0 to 1: 0.2 means 90 % to 110 %, 0 means exactly. Default 0.2.
    #[must_use]
    pub fn spread(mut self, spread: f64) -> Policy {
        self.spread = spread;
        self
    }

    /// Limits `delay` and `max_delay` to `cap`. Shorter ones stay.
    #[must_use]
    pub fn cap_delays(mut self, cap: Duration) -> Policy {
        self.delay = self.delay.min(cap);
        self.max_delay = Some(self.max_delay.map_or(cap, |max_delay| max_delay.min(cap)));
        self
    }

    /// Refuses what makes no sense, naming the field.
    ///
    /// # Errors
    /// The first field that is out of bounds.
    pub fn validate(&self) -> Result<(), PolicyError> {
        let refuse = |field, problem: &str| Err(PolicyError { field, problem: problem.to_owned() });
        if self.attempts == 0 {
            return refuse("attempts", "must be at least 1");
        }
        if self.timeout.is_zero() {
            return refuse("timeout", "must be above zero");
        }
        if self.timeout > DAY {
            return refuse("timeout", "must be at most a day");
        }
        if self.delay > DAY {
            return refuse("delay", "must be at most a day");
        }
        if self.max_timeout.is_some_and(|cap| cap > DAY) {
            return refuse("max_timeout", "must be at most a day");
        }
        if self.max_delay.is_some_and(|cap| cap > DAY) {
            return refuse("max_delay", "must be at most a day");
        }
        if let Some(cap) = self.max_delay.filter(|cap| *cap < SHORTEST_DELAY) {
            return Err(PolicyError { field: "max_delay", problem: format!("must be at least 1ms, not {cap:?}") });
        }
        if self.delay < SHORTEST_DELAY && self.max_delay.is_none() {
            let problem = format!("must be at least 1ms without a max_delay, not {:?}", self.delay);
            return Err(PolicyError { field: "delay", problem });
        }
        if self.max_timeout.is_some_and(|cap| cap < self.timeout) {
            return refuse("max_timeout", "must not be below timeout");
        }
        if self.max_delay.is_some_and(|cap| cap < self.delay) {
            return refuse("max_delay", "must not be below delay");
        }
        if !(0.0..=1.0).contains(&self.spread) {
            return refuse("spread", "must be between 0 and 1");
        }
        Ok(())
    }

    /// Refuses a `delay` below 1 ms, for what is tried again although no caller waits for it.
    ///
    /// # Errors
    /// When it is, with its value.
    pub fn require_delay(&self) -> Result<(), PolicyError> {
        if self.delay < SHORTEST_DELAY {
            return Err(PolicyError { field: "delay", problem: format!("must be at least 1ms, not {:?}", self.delay) });
        }
        Ok(())
    }

    /// The timeout of an attempt on something already given up, which is tried for as long as it is wanted.
    pub fn watch_timeout(&self) -> Duration {
        self.max_timeout.unwrap_or_else(|| self.doubled_out(self.timeout))
    }

    /// The delay between attempts on something already given up, left to chance by `spread`.
    pub fn watch_delay(&self, random: &mut Random) -> Duration {
        self.jittered(self.longest_delay(), random)
    }

    /// The delay after the first failure. Doubling 0 would stay 0.
    pub fn first_delay(&self) -> Duration {
        self.delay.max(SHORTEST_DELAY)
    }

    fn jittered(&self, delay: Duration, random: &mut Random) -> Duration {
        random.around(delay, self.spread).max(SHORTEST_DELAY)
    }

    /// The delay between attempts while every backend is dead: as [`Policy::watch_delay`], but at most a second, jitter
    /// included.
    pub(crate) fn outage_delay(&self, random: &mut Random) -> Duration {
        self.jittered(self.longest_delay().min(OUTAGE_DELAY.div_f64(1.0 + self.spread / 2.0)), random)
    }

    /// How soon after a failed attempt a claim may trigger another while every backend is dead.
    pub(crate) fn outage_gap(&self) -> Duration {
        self.delay.clamp(SHORTEST_DELAY, OUTAGE_DELAY)
    }

    /// `base` spread forward, over `base ..= base * (1 + spread)`: for what must not happen too early.
    pub(crate) fn spread_forward(&self, base: Duration, random: &mut Random) -> Duration {
        base.mul_f64(1.0 + random.fraction() * self.spread)
    }

    /// The delay after so many failures in a row, left to chance by `spread`.
    pub(crate) fn delay_after(&self, failures: u32, random: &mut Random) -> Duration {
        let factor = 1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        let doubled = self.first_delay().saturating_mul(factor);
        self.jittered(doubled.min(self.longest_delay()), random)
    }

    /// Whether no attempt is left after so many failures in a row.
    pub(crate) fn is_used_up_by(&self, failures: u32) -> bool {
        failures >= self.attempts
    }

    /// How long the attempt after so many failures in a row may take.
    pub(crate) fn timeout_after(&self, failures: u32) -> Duration {
        if self.is_used_up_by(failures) { self.watch_timeout() } else { Tries::resumed(self, failures).timeout() }
    }

    /// The longest delay between attempts.
    pub(crate) fn longest_delay(&self) -> Duration {
        self.max_delay.unwrap_or_else(|| self.doubled_out(self.first_delay()))
    }

    fn doubled_out(&self, base: Duration) -> Duration {
        base.saturating_mul(1u32.checked_shl(self.attempts).unwrap_or(u32::MAX)).min(DAY)
    }
}

/// A policy field that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    field: &'static str,
    problem: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.problem)
    }
}

impl Error for PolicyError {}

/// Policies by operation. Whatever is not given follows `default`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recovery {
    default: Policy,
    connect: Option<Policy>,
    initial: Option<Policy>,
    dns: Option<Policy>,
    dns_srv: Option<Policy>,
}

/// Every operation follows the one policy.
impl From<Policy> for Recovery {
    fn from(default: Policy) -> Recovery {
        Recovery { default, ..Recovery::default() }
    }
}

impl Recovery {
    /// For every operation without a policy of its own.
    #[must_use]
    pub fn default_policy(mut self, policy: Policy) -> Recovery {
        self.default = policy;
        self
    }

    /// For connecting to a backend that has worked before.
    #[must_use]
    pub fn connect(mut self, policy: Policy) -> Recovery {
        self.connect = Some(policy);
        self
    }

    /// For connecting to a backend that has not worked yet; follows `connect` when not given.
    #[must_use]
    pub fn initial(mut self, policy: Policy) -> Recovery {
        self.initial = Some(policy);
        self
    }

    /// For DNS questions.
    #[must_use]
    pub fn dns(mut self, policy: Policy) -> Recovery {
        self.dns = Some(policy);
        self
    }

    /// For DNS questions for SRV records; follows `dns` when not given.
    #[must_use]
    pub fn dns_srv(mut self, policy: Policy) -> Recovery {
        self.dns_srv = Some(policy);
        self
    }

    /// The policy for connecting to a backend, which has `worked` before or not.
    pub fn for_connect(&self, worked: bool) -> &Policy {
        let later = self.connect.as_ref().unwrap_or(&self.default);
        if worked { later } else { self.initial.as_ref().unwrap_or(later) }
    }

    /// The policy for DNS questions, for SRV records or others.
    pub fn for_dns(&self, srv: bool) -> &Policy {
        let plain = self.dns.as_ref().unwrap_or(&self.default);
        if srv { self.dns_srv.as_ref().unwrap_or(plain) } else { plain }
    }

    /// Refuses what makes no sense, naming operation and field.
    ///
    /// # Errors
    /// The first policy that is out of bounds.
    pub fn validate(&self) -> Result<(), RecoveryError> {
        let given = [
            ("default", Some(&self.default)),
            ("connect", self.connect.as_ref()),
            ("initial", self.initial.as_ref()),
            ("dns", self.dns.as_ref()),
            ("dns_srv", self.dns_srv.as_ref()),
        ];
        for (operation, policy) in given {
            if let Some(Err(problem)) = policy.map(Policy::validate) {
                return Err(RecoveryError { operation, problem });
            }
        }
        Ok(())
    }

    /// Refuses a `delay` below 1 ms between connects, for what connects although no caller waits for it.
    ///
    /// # Errors
    /// The first policy of connecting with such a delay.
    pub fn require_connect_delay(&self) -> Result<(), RecoveryError> {
        let later = self.connect.as_ref().map_or(("default", &self.default), |policy| ("connect", policy));
        let first = self.initial.as_ref().map_or(later, |policy| ("initial", policy));
        for (operation, policy) in [first, later] {
            policy.require_delay().map_err(|problem| RecoveryError { operation, problem })?;
        }
        Ok(())
    }
}

/// An operation whose policy makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryError {
    operation: &'static str,
    problem: PolicyError,
}

impl fmt::Display for RecoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} policy: {}", self.operation, self.problem)
    }
}

impl Error for RecoveryError {}

/// One walk through a policy: what is left of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tries {
    left: u32,
    timeout: Duration,
    delay: Duration,
}

impl Tries {
    /// All attempts still to be made.
    pub fn new(policy: &Policy) -> Tries {
        Tries { left: policy.attempts, timeout: policy.timeout, delay: policy.first_delay() }
    }

    /// The rest of a walk in which so many attempts have failed; one is always left.
    pub(crate) fn resumed(policy: &Policy, failures: u32) -> Tries {
        let mut tries = Tries::new(policy);
        for _ in 0..failures.min(policy.attempts.saturating_sub(1)) {
            tries.advance(policy);
        }
        tries
    }

    /// For something given up: one attempt at a time, with the longest timeout.
    pub fn watching(policy: &Policy) -> Tries {
        Tries { left: 1, timeout: policy.watch_timeout(), delay: policy.first_delay() }
    }

    /// How long the attempt under way may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How many attempts have failed so far.
    pub(crate) fn failures(&self, policy: &Policy) -> u32 {
        policy.attempts.saturating_sub(self.left)
    }

    /// An attempt failed: how long to wait before the next, or `None` when none is left.
    pub fn fail(&mut self, policy: &Policy, random: &mut Random) -> Option<Duration> {
        let delay = self.delay;
        self.advance(policy);
        (self.left > 0).then(|| policy.jittered(delay, random))
    }

    fn advance(&mut self, policy: &Policy) {
        self.left = self.left.saturating_sub(1);
        self.timeout = self.timeout.saturating_mul(2).min(policy.max_timeout.unwrap_or(DAY));
        self.delay = self.delay.saturating_mul(2).min(policy.max_delay.unwrap_or(DAY));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn attempts_follow_the_documented_example() {
        // 3 attempts, timeout 1000, delay 100, all timing out: at 0, 1100, 3300; declared failed at 7300.
        let policy = Policy::default().timeout(ms(1000)).max_timeout(None).delay(ms(100)).max_delay(None).spread(0.0);
        let (mut tries, mut random) = (Tries::new(&policy), Random::new(0));
        let (mut at, mut starts) = (Duration::ZERO, Vec::new());
        loop {
            starts.push(at);
            at += tries.timeout();
            match tries.fail(&policy, &mut random) {
                Some(delay) => at += delay,
                None => break,
            }
        }
        assert_eq!(starts, [ms(0), ms(1100), ms(3300)]);
        assert_eq!(at, ms(7300));
    }

    #[test]
    fn doubling_stops_at_the_caps() {
        let policy = Policy::default().attempts(10).max_timeout(ms(5000)).max_delay(ms(300)).spread(0.0);
        let (mut tries, mut random) = (Tries::new(&policy), Random::new(0));
        let delays: Vec<_> = std::iter::from_fn(|| tries.fail(&policy, &mut random)).take(4).collect();
        assert_eq!(delays, [ms(100), ms(200), ms(300), ms(300)]);
        assert_eq!(tries.timeout(), ms(5000));
    }

    #[test]
    fn capped_delays_stay_below_the_cap() {
        let policy = Policy::default().attempts(10).delay(ms(100)).max_delay(None).spread(0.0).cap_delays(ms(300));
        let (mut tries, mut random) = (Tries::new(&policy), Random::new(0));
        let delays: Vec<_> = std::iter::from_fn(|| tries.fail(&policy, &mut random)).take(4).collect();
        assert_eq!(delays, [ms(100), ms(200), ms(300), ms(300)]);
        let long = Policy::default().delay(ms(9000)).max_delay(ms(9000)).cap_delays(ms(300));
        assert_eq!((long.validate(), long.delay, long.max_delay), (Ok(()), ms(300), Some(ms(300))));
        let short = Policy::default().max_delay(ms(200));
        assert_eq!(short.clone().cap_delays(ms(300)), short);
    }

    #[test]
    fn without_caps_a_day_caps() {
        let policy = Policy::default().attempts(60).max_timeout(None).max_delay(None).spread(0.0);
        let (mut tries, mut random) = (Tries::new(&policy), Random::new(0));
        let longest = std::iter::from_fn(|| tries.fail(&policy, &mut random)).max();
        assert_eq!(longest, Some(DAY));
        assert_eq!(policy.watch_timeout(), DAY);
    }

    #[test]
    fn nonsense_is_named() {
        let said = |policy: Policy| Recovery::default().initial(policy).validate().unwrap_err().to_string();
        assert_eq!(said(Policy::default().attempts(0)), "initial policy: attempts must be at least 1");
        assert_eq!(said(Policy::default().timeout(Duration::ZERO)), "initial policy: timeout must be above zero");
        assert_eq!(said(Policy::default().max_timeout(ms(1))), "initial policy: max_timeout must not be below timeout");
        assert_eq!(said(Policy::default().max_delay(ms(1))), "initial policy: max_delay must not be below delay");
        assert_eq!(said(Policy::default().spread(f64::NAN)), "initial policy: spread must be between 0 and 1");
        assert_eq!(said(Policy::default().max_delay(Duration::MAX)), "initial policy: max_delay must be at most a day");
        assert_eq!(
            said(Policy::default().max_timeout(Duration::MAX)),
            "initial policy: max_timeout must be at most a day"
        );
        assert_eq!(said(Policy::default().delay(DAY * 2)), "initial policy: delay must be at most a day");
    }

    #[test]
    fn delays_that_would_be_a_busy_loop_are_refused_with_value_and_limit() {
        let said = |policy: Policy| policy.validate().unwrap_err().to_string();
        let nano = Duration::from_nanos(1);
        assert_eq!(
            said(Policy::default().delay(ms(0)).max_delay(None)),
            "delay must be at least 1ms without a max_delay, not 0ns"
        );
        assert_eq!(said(Policy::default().delay(ms(0)).max_delay(nano)), "max_delay must be at least 1ms, not 1ns");
        assert_eq!(said(Policy::default().delay(ms(0)).max_delay(ms(0))), "max_delay must be at least 1ms, not 0ns");
        assert_eq!(Policy::default().delay(ms(0)).validate(), Ok(()));
    }

    #[test]
    fn no_delay_is_below_1_ms_and_zero_doubles_from_there() {
        let mut random = Random::new(1);
        let exact = Policy::default().attempts(9).delay(ms(0)).max_delay(ms(5)).spread(0.0);
        assert_eq!([1, 2, 3, 4].map(|failures| exact.delay_after(failures, &mut random)), [1, 2, 4, 5].map(ms));
        let jittered = Policy::default().attempts(u32::MAX).delay(ms(0)).max_delay(ms(1)).spread(1.0);
        for _ in 0..1_000 {
            assert!(jittered.delay_after(1, &mut random) >= ms(1));
            assert!(jittered.watch_delay(&mut random) >= ms(1));
        }
    }

    #[test]
    fn a_walk_is_taken_up_where_it_was_left() {
        let policy = Policy::default().attempts(4).spread(0.0);
        let (mut tries, mut random) = (Tries::new(&policy), Random::new(0));
        for failures in 0..4 {
            assert_eq!(tries.failures(&policy), failures);
            assert_eq!(Tries::resumed(&policy, failures), tries);
            tries.fail(&policy, &mut random);
        }
        assert_eq!(Tries::resumed(&policy, 9), Tries::resumed(&policy, 3), "one attempt is always left");
        assert_eq!(Tries::watching(&policy).failures(&policy), 3);
    }

    #[test]
    fn operations_fall_back_in_order() {
        let (initial, connect) = (Policy::default().attempts(7), Policy::default().attempts(8));
        let both = Recovery::default().initial(initial.clone()).connect(connect.clone());
        assert_eq!((both.for_connect(false), both.for_connect(true)), (&initial, &connect));
        let one = Recovery::default().connect(connect.clone());
        assert_eq!(one.for_connect(false), &connect);
        let dns = Recovery::default().dns(initial.clone());
        assert_eq!((dns.for_dns(true), dns.for_dns(false)), (&initial, &initial));
    }
}
