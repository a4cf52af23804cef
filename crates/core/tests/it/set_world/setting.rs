//! What kind of world it is: everything that does not change while it runs.

use crate::limits::{Limits, ms, one_of};
use carom_core::ejection::Ejection;
use carom_core::random::Random;
use carom_core::recovery::Recovery;
use carom_core::set::Options;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) options: Options,
    pub(crate) limits: Limits,
    pub(crate) servers: usize,
    pub(crate) priorities: usize,
    /// How late the driver is, at most.
    pub(crate) late: Duration,
    /// Most time a healthy server takes to accept.
    pub(crate) dial: Duration,
    /// Most time a lease is held.
    pub(crate) hold: Duration,
    /// Leases may take at least and at most this long.
    pub(crate) patience: (Duration, Duration),
    /// How likely a caller names a backend, and how likely it then names a place.
    pub(crate) names: f64,
    pub(crate) places: f64,
    /// How likely a caller gives up while waiting.
    pub(crate) gives_up: f64,
    /// How likely a connection ends some time.
    pub(crate) mortal: f64,
    /// How likely a holder says of a connection that it takes no more.
    pub(crate) retires: f64,
    /// How likely a holder reports a failure.
    pub(crate) reports_failure: f64,
    /// How likely a holder without a failure reports the use.
    pub(crate) reports: f64,
    /// Servers close a connection when so many of its leases have ended.
    pub(crate) closes_after: Option<usize>,
    /// How likely a holder says how many a connection can serve at a time.
    pub(crate) limits_leases: f64,
    pub(crate) caller_every: Duration,
    pub(crate) weather_every: Option<Duration>,
    pub(crate) backends_every: Option<Duration>,
    pub(crate) jump_every: Option<Duration>,
    pub(crate) stray_every: Option<Duration>,
}

impl Setting {
    /// A world in which anything goes.
    pub(crate) fn wild(seed: u64) -> Setting {
        let mut random = Random::new(seed);
        let random = &mut random;
        let eager = random.chance(0.5);
        let servers = 1 + random.below(5);
        let maximum = random.chance(0.6).then(|| 1 + random.below(servers + 1));
        let target = random.chance(0.6).then(|| 1 + random.below(maximum.unwrap_or(servers)));
        let per_backend = random.below(4).max(usize::from(eager));
        let limits = Limits::any(random, &[ms(u64::from(eager)), ms(20), ms(200)]);
        let options = Options {
            eager,
            target: target.filter(|_| eager),
            maximum: maximum.filter(|_| eager),
            per_backend,
            max_idle: random.chance(0.8).then(|| one_of(random, &[ms(50), ms(400), ms(3_000)])),
            idle_interval: Some(one_of(random, &[ms(20), ms(150), ms(1_000)])),
            drain_timeout: one_of(random, &[ms(0), ms(200), ms(2_000)]),
            lease_timeout: ms(1_000),
            outage_wait: one_of(random, &[ms(0), ms(1_000), ms(5_000)]),
            recovery: limits.recovery(),
            health_check: None,
            slow_start: None,
            ejection: random.chance(0.5).then(|| {
                let ejection = Ejection::default().consecutive(1 + random.below(3) as u32);
                ejection.time(one_of(random, &[ms(20), ms(300)])).max_ejected(one_of(random, &[0.3, 0.5, 1.0]))
            }),
            decoherence: one_of(random, &[ms(100), ms(1_000), ms(10_000)]),
            connecting_per_backend: 1 + random.below(4),
        };
        Setting {
            options,
            servers,
            priorities: one_of(random, &[1, 1, 2, 3]),
            late: one_of(random, &[ms(0), ms(0), ms(5)]),
            dial: one_of(random, &[ms(0), ms(10), limits.timeout / 2]),
            limits,
            hold: one_of(random, &[ms(10), ms(300), ms(3_000)]),
            patience: (ms(0), one_of(random, &[ms(100), ms(1_000), ms(5_000)])),
            names: one_of(random, &[0.0, 0.5, 0.9]),
            places: one_of(random, &[0.0, 0.5]),
            gives_up: random.fraction() * 0.4,
            mortal: random.fraction() * 0.6,
            retires: one_of(random, &[0.0, 0.02, 0.3]),
            reports_failure: one_of(random, &[0.0, 0.1, 0.6]),
            reports: one_of(random, &[0.0, 0.5, 1.0]),
            closes_after: random.chance(0.3).then(|| 1 + random.below(4)),
            limits_leases: one_of(random, &[0.0, 0.1]),
            caller_every: one_of(random, &[ms(10), ms(60), ms(400)]),
            weather_every: Some(one_of(random, &[ms(200), ms(1_000), ms(4_000)])),
            backends_every: random.chance(0.6).then(|| one_of(random, &[ms(100), ms(1_000), ms(4_000)])),
            jump_every: random.chance(0.2).then(|| ms(2_000)),
            stray_every: random.chance(0.5).then(|| ms(200)),
        }
    }

    /// Nothing fails, but servers close connections after use.
    pub(crate) fn closing_after_use(seed: u64) -> Setting {
        let mut setting = Setting::wild(seed);
        setting.options.per_backend = 1;
        setting.options.ejection = None;
        // It gives up connections that nothing is wrong with.
        setting.options.decoherence = ms(3_600_000);
        setting.patience = (ms(60_000), ms(60_000));
        (setting.gives_up, setting.mortal, setting.retires) = (0.0, 0.0, 0.0);
        (setting.weather_every, setting.backends_every, setting.jump_every) = (None, None, None);
        setting.caller_every = setting.caller_every.min(ms(60));
        setting.closes_after = Some(setting.closes_after.unwrap_or(1));
        setting
    }

    /// Connections last, and uses fail only when they are told to. Leases are of any backend.
    pub(crate) fn with_failing_uses(seed: u64) -> Setting {
        let mut setting = Setting::with_an_outage(seed);
        setting.options.eager = true;
        (setting.options.target, setting.options.maximum) = (None, None);
        setting.options.per_backend = 1;
        let ejection = Ejection::default().consecutive(1 + seed as u32 % 5).time(ms(300));
        setting.options.ejection = Some(ejection.max_ejected([0.3, 0.5, 1.0][seed as usize % 3]));
        setting.options.recovery = Recovery::default();
        setting.servers = 2 + seed as usize % 4;
        (setting.priorities, setting.mortal, setting.retires, setting.limits_leases) = (1, 0.0, 0.0, 0.0);
        (setting.reports_failure, setting.closes_after) = (0.0, None);
        (setting.hold, setting.caller_every) = (ms(10), ms(3));
        setting
    }

    /// Leases of any backend, which are not given up. Servers do as they are told.
    pub(crate) fn with_an_outage(seed: u64) -> Setting {
        let mut setting = Setting::wild(seed);
        (setting.names, setting.gives_up) = (0.0, 0.0);
        (setting.weather_every, setting.backends_every, setting.jump_every) = (None, None, None);
        setting.options.ejection = None;
        // No lease ends by its own deadline, and a server that hangs can be tried again each second.
        setting.patience = (ms(60_000), ms(60_000));
        setting.options.connecting_per_backend += 3;
        setting.options.outage_wait = ms([0, 2_000, 5_000][seed as usize % 3]);
        setting
    }

    /// Leases of any backend, of which one serves; the others hang or refuse. Time enough to come to the one that serves.
    pub(crate) fn with_one_that_serves(seed: u64) -> Setting {
        let mut setting = Setting::wild(seed);
        setting.servers = setting.servers.max(2);
        setting.names = 0.0;
        setting.gives_up = 0.0;
        (setting.backends_every, setting.jump_every) = (None, None);
        // No failure of the one is reported.
        setting.options.ejection = None;
        // One by one, each in doubt after a quarter of its attempt; alone for one lease, after all of it.
        let each = setting.limits.max_timeout + setting.limits.longest_delay();
        let enough = each * (setting.servers as u32 + 1) + setting.dial * 2 + ms(100);
        setting.patience = (enough, enough);
        setting.options.connecting_per_backend = 1_000;
        setting
    }
}
