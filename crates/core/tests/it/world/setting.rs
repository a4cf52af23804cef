//! What kind of world it is: everything that does not change while it runs.

use super::Event;
use carom_core::ejection::Ejection;
use carom_core::health_check::Schedule;
use carom_core::pick::Pick;
use carom_core::pool::Options;
use carom_core::random::Random;
use carom_core::recovery::{Policy, Recovery};
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) options: Options,
    pub(crate) policies: Vec<Limits>,
    pub(crate) servers: usize,
    /// Connections are cleaned after use.
    pub(crate) recycles: bool,
    /// The connector knows when a connection has ended.
    pub(crate) liveness: bool,
    /// The connector can check a connection.
    pub(crate) checks: bool,
    /// How likely a connection that ends from afar breaks.
    pub(crate) breaks: f64,
    /// Connections end only when their server restarts, which it does once.
    pub(crate) restarts: bool,
    /// How many priorities there are; 1 is none.
    pub(crate) priorities: usize,
    /// How many weights there are; 1 is none.
    pub(crate) weights: usize,
    /// Most time the driver, a task or a caller takes to be scheduled.
    pub(crate) latency: Duration,
    /// Most time a healthy server takes to accept.
    pub(crate) dial: Duration,
    /// Most time a connection is held.
    pub(crate) hold: Duration,
    /// How long a connection to a server that hangs is held, if that makes a difference.
    pub(crate) stuck: Option<Duration>,
    /// Claims may take at least and at most this long.
    pub(crate) patience: (Duration, Duration),
    /// How likely a caller avoids some backend.
    pub(crate) choosy: f64,
    /// How likely a caller gives up while waiting or right after.
    pub(crate) gives_up: f64,
    /// How likely a claim does not come back open.
    pub(crate) spoils: f64,
    /// How likely a use fails, beyond that.
    pub(crate) fails: f64,
    /// The share of backends that may be ejected.
    pub(crate) max_ejected: f64,
    /// How likely an accepted connection is closed by its server some time.
    pub(crate) mortal: f64,
    /// How likely a check or a close hangs.
    pub(crate) stalls: f64,
    pub(crate) caller_every: Duration,
    pub(crate) weather_every: Option<Duration>,
    pub(crate) backends_every: Option<Duration>,
    pub(crate) size_every: Option<Duration>,
}

/// What a policy allows at most: the world reckons bounds with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// What the first attempt may take.
    pub(crate) first: Duration,
    pub(crate) timeout: Duration,
    pub(crate) delay: Duration,
}

impl Setting {
    /// A world in which anything goes.
    pub(crate) fn wild(seed: u64) -> Setting {
        let mut random = Random::new(seed);
        let random = &mut random;
        let (most_slots, most_servers) = if random.chance(0.1) { (24, 12) } else { (8, 5) };
        let maximum = 1 + random.below(most_slots);
        let spares = random.below(maximum.min(5) + 1);
        let (policy, limits) = policy(random);
        let (mut recovery, mut policies) = (Recovery::from(policy), vec![limits]);
        if random.chance(0.3) {
            let (policy, limits) = self::policy(random);
            recovery = recovery.initial(policy);
            policies.push(limits);
        }
        let max_ejected = [0.1, 0.3, 0.5, 0.75, 1.0][Random::new(!seed).below(5)];
        // Drawn apart, so that a seed means what it meant before this option.
        let mut apart = Random::new(seed ^ 0x5eed);
        let options = Options {
            spares,
            maximum,
            replace_unused_after: apart.chance(0.2).then(|| millis(&mut apart, 100, 3_000)),
            max_waiters: random.chance(0.2).then(|| random.below(5).max(usize::from(spares == 0))),
            // Drawn apart, so that the other draws are as they were.
            outage_wait: [Duration::ZERO, Duration::from_millis(200), Duration::from_secs(2), Duration::from_secs(5)]
                [Random::new(seed ^ 0x0a7a9e).below(4)],
            recovery,
            max_idle: random.chance(0.8).then(|| millis(random, 300, 5_000)),
            max_lifetime: random.chance(0.4).then(|| millis(random, 500, 10_000)),
            max_uses: random.chance(0.3).then(|| 1 + random.below(8) as u64),
            validate_every: [None, Some(Duration::from_millis(500)), Some(Duration::from_millis(20))]
                [seed as usize % 3],
            check_after: random.chance(0.5).then(|| millis(random, 100, 2_000)),
            check_timeout: millis(random, 50, 1_000),
            pick: [Pick::LeastLoaded, Pick::Fifo, Pick::Lifo][random.below(3)],
            learn_latency: !seed.is_multiple_of(5),
            slow_start: seed.is_multiple_of(7).then(|| Duration::from_secs(2)),
            connecting_per_backend: 1 + random.below(4),
            decoherence: millis(random, 500, 20_000),
            target_delay: random.chance(0.2).then(|| millis(random, 20, 500)),
            ejection: random.chance(0.3).then(|| ejection(random, max_ejected)),
            health_check: health_check(seed),
            churn_per_second: random.chance(0.2).then(|| 2.0 + random.fraction() * 50.0),
            leak_after: random.chance(0.2).then(|| millis(random, 1, 500)),
        };
        let patient = policies.iter().map(|limits| limits.first).min().unwrap_or_default();
        let dial = millis(random, 1, 150).min(patient / 2);
        Setting {
            options,
            policies,
            recycles: apart.chance(0.3),
            liveness: apart.chance(0.8),
            checks: apart.chance(0.7),
            breaks: apart.fraction(),
            restarts: false,
            servers: 1 + random.below(most_servers),
            priorities: [1, 1, 2, 3][seed as usize % 4],
            weights: [1, 4][seed as usize / 4 % 2],
            latency: Duration::from_micros(random.below(5_000) as u64),
            dial,
            hold: millis(random, 1, 1_000),
            stuck: None,
            patience: (Duration::ZERO, millis(random, 50, 4_000)),
            choosy: 0.0,
            gives_up: random.fraction() * 0.4,
            spoils: random.fraction() * 0.5,
            fails: 0.0,
            max_ejected,
            mortal: random.fraction() * 0.6,
            stalls: random.fraction() * 0.4,
            caller_every: millis(random, 20, 400),
            weather_every: Some(millis(random, 200, 4_000)),
            backends_every: random.chance(0.6).then(|| millis(random, 300, 5_000)),
            size_every: random.chance(0.3).then(|| millis(random, 500, 5_000)),
        }
    }

    /// A world in which most backends fail their users, and some die as well.
    pub(crate) fn with_failing_uses(seed: u64) -> Setting {
        let wild = Setting::wild(seed);
        let mut random = Random::new(!seed);
        let random = &mut random;
        let maximum = 4 + random.below(12);
        // Where there is one attempt, what fails last is dead as well.
        let policy = Policy::default().attempts(1 + random.below(2) as u32).delay(millis(random, 0, 50));
        Setting {
            options: Options {
                maximum,
                spares: random.below(maximum + 1),
                max_waiters: None,
                recovery: Recovery::from(policy.max_delay(secs(1))),
                ejection: Some(ejection(random, wild.max_ejected)),
                ..wild.options.clone()
            },
            policies: vec![Limits { first: secs(2), timeout: secs(8), delay: secs(2) }],
            servers: 2 + random.below(4),
            fails: random.fraction(),
            caller_every: millis(random, 5, 100),
            size_every: None,
            ..wild
        }
    }

    /// The same world without faults, changes or callers who misbehave.
    pub(crate) fn calm(self) -> Setting {
        Setting {
            gives_up: 0.0,
            spoils: 0.0,
            fails: 0.0,
            mortal: 0.0,
            stalls: 0.0,
            weather_every: None,
            backends_every: None,
            size_every: None,
            ..self
        }
    }

    /// A calm world with ordinary policies, in which one server is going to hang. Some of those who are lent a connection
    /// to it are stuck with it then.
    pub(crate) fn with_one_that_hangs(seed: u64) -> Setting {
        let wild = Setting::wild(seed);
        let mut random = Random::new(!seed);
        let random = &mut random;
        let servers = 2 + random.below(3);
        let stuck = random.chance(0.5).then_some(Duration::from_secs(60));
        let maximum = if stuck.is_some() { 4 + random.below(4) } else { 1 + random.below(6) };
        let policy = Policy::default();
        let limits = Limits { first: secs(2), timeout: secs(8), delay: secs(11) };
        let is_slow = random.chance(0.3);
        Setting {
            options: Options {
                maximum,
                spares: random.below(maximum.min(3) + 1),
                max_waiters: None,
                recovery: Recovery::from(policy),
                max_lifetime: None,
                max_uses: None,
                check_timeout: Duration::from_millis(300),
                validate_every: None,
                target_delay: None,
                ejection: None,
                churn_per_second: None,
                decoherence: millis(random, 5_000, 60_000),
                ..wild.options.clone()
            },
            policies: vec![limits],
            servers,
            // Cleaning makes every use longer; here the load is what the others can just carry.
            recycles: false,
            liveness: true,
            // What is stuck works, as far as anyone can tell, and its tier with it; and all may be stuck with one that has
            // nearly all the weight.
            priorities: if stuck.is_some() { 1 } else { wild.priorities },
            weights: if stuck.is_some() { 1 } else { wild.weights },
            // Slower than a quarter of the timeout, even: one that is slow is not one that hangs.
            dial: if is_slow { millis(random, 500, 1_000) } else { millis(random, 1, 100) },
            hold: Duration::from_millis(40),
            stuck,
            // Less than an attempt may take: the hanging one must not be waited for.
            patience: if is_slow { (secs(6), secs(9)) } else { (Duration::from_millis(1_500), secs(4)) },
            caller_every: Duration::from_millis(100),
            ..wild.calm()
        }
    }

    /// A calm world with ordinary policies and callers who wait long enough for an outage to end.
    pub(crate) fn with_an_outage(seed: u64) -> Setting {
        let quick = Setting::with_one_that_hangs(seed);
        let mut random = Random::new(seed ^ 0x0a7a9e);
        let outage_wait = [Duration::ZERO, secs(2), secs(5)][random.below(3)];
        Setting {
            options: Options { outage_wait, ..quick.options.clone() },
            servers: 1 + random.below(4),
            stuck: None,
            dial: millis(&mut random, 1, 100),
            // No claim ends by its own deadline.
            patience: (secs(600), secs(900)),
            ..quick
        }
    }

    /// A calm world in which every server restarts once, and callers see their connections break. Nothing tells that an idle one has.
    pub(crate) fn with_a_restart(seed: u64) -> Setting {
        let quick = Setting::with_one_that_hangs(seed);
        let mut random = Random::new(seed ^ 0x4e57);
        let maximum = 1 + random.below(16);
        Setting {
            options: Options {
                maximum,
                spares: random.below(maximum + 1),
                check_after: None,
                validate_every: random.chance(0.5).then(|| Duration::from_millis(1)),
                ..quick.options.clone()
            },
            servers: 1 + random.below(3),
            stuck: None,
            liveness: false,
            checks: random.chance(0.7),
            breaks: 1.0,
            restarts: true,
            dial: millis(&mut random, 1, 50),
            hold: millis(&mut random, 1, 100),
            caller_every: millis(&mut random, 2, 50),
            patience: (secs(20), secs(30)),
            ..quick
        }
    }

    /// The longest an attempt may take, with the delay that follows it.
    pub(crate) fn longest_attempt(&self) -> Duration {
        let timeout = self.policies.iter().map(|limits| limits.timeout).max().unwrap_or_default();
        let delay = self.policies.iter().map(|limits| limits.delay).max().unwrap_or_default();
        timeout + delay
    }

    /// What happens again and again, and how often on average.
    pub(super) fn rhythm(&self) -> impl Iterator<Item = (Duration, Event)> + use<> {
        let recurring = [
            (Some(self.caller_every), Event::CallerComes),
            (self.weather_every, Event::WeatherTurns),
            (self.backends_every, Event::BackendsChange),
            (self.size_every, Event::SizeChanges),
        ];
        recurring.into_iter().filter_map(|(every, event)| Some((every?, event)))
    }
}

fn ejection(random: &mut Random, max_ejected: f64) -> Ejection {
    let consecutive = 1 + random.below(4) as u32;
    Ejection::default().consecutive(consecutive).time(millis(random, 100, 3_000)).max_ejected(max_ejected)
}

fn policy(random: &mut Random) -> (Policy, Limits) {
    let timeout = millis(random, 100, 1_500);
    let max_timeout = timeout + millis(random, 0, 3_000);
    let delay = if random.chance(0.2) { Duration::ZERO } else { millis(random, 5, 300) };
    let max_delay = delay + millis(random, 20, 3_000);
    let spread = if random.chance(0.3) { 0.0 } else { random.fraction() };
    let policy = Policy::default()
        .attempts(1 + random.below(4) as u32)
        .timeout(timeout)
        .max_timeout(max_timeout)
        .delay(delay)
        .max_delay(max_delay)
        .spread(spread);
    (policy, Limits { first: timeout, timeout: max_timeout, delay: max_delay.mul_f64(1.0 + spread / 2.0) })
}

fn millis(random: &mut Random, least: u64, most: u64) -> Duration {
    Duration::from_micros(1_000 * least + random.below(1_000 * (most - least) as usize + 1) as u64)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Drawn apart, so that the other draws are as they were.
fn health_check(seed: u64) -> Option<Schedule> {
    let random = &mut Random::new(seed ^ 0xc4ec);
    let schedule = Schedule::default().interval(millis(random, 10, 300)).timeout(millis(random, 5, 200));
    let thresholds = (1 + random.below(3) as u32, 1 + random.below(3) as u32);
    random.chance(0.25).then(|| schedule.unhealthy_threshold(thresholds.0).healthy_threshold(thresholds.1))
}
