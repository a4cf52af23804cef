//! What kind of world it is: everything that does not change while it runs.

use crate::limits::{Limits, ms, one_of};
use carom_core::feed::Options;
use carom_core::random::Random;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) options: Options,
    pub(crate) limits: Limits,
    /// How many instruments there are.
    pub(crate) instruments: usize,
    /// How late the driver is, at most.
    pub(crate) late: Duration,
    /// Most time a healthy upstream takes to accept a connection, a write, or to end one.
    pub(crate) takes: Duration,
    /// How long after it was accepted a topic begins to tick, at most: some upstreams accept without a word.
    pub(crate) begins: Duration,
    /// How likely a change is refused that is not a drop.
    pub(crate) refuses: f64,
    /// How likely a connection ends some time, and how likely it falls silent.
    pub(crate) mortal: f64,
    pub(crate) silent: f64,
    /// How likely a subscriber gives up while waiting.
    pub(crate) gives_up: f64,
    /// How likely somebody leaves rather than comes.
    pub(crate) leaves: f64,
    pub(crate) caller_every: Duration,
    pub(crate) weather_every: Option<Duration>,
    pub(crate) tick_every: Duration,
    pub(crate) jump_every: Option<Duration>,
    pub(crate) stray_every: Option<Duration>,
}

impl Limits {
    /// How many delays that double can pass in this time, at most.
    pub(crate) fn delays_in(&self, time: Duration) -> usize {
        let (mut delay, mut waited, mut most) = (self.delay, Duration::ZERO, 0);
        while waited <= time {
            waited += delay.mul_f64(1.0 - self.spread / 2.0);
            delay = (delay * 2).min(self.max_delay);
            most += 1;
        }
        most
    }
}

impl Setting {
    /// A world in which anything goes.
    pub(crate) fn wild(seed: u64) -> Setting {
        let mut random = Random::new(seed);
        let random = &mut random;
        let limits = Limits::any(random, &[ms(1), ms(20), ms(200)]);
        let options = Options {
            max_topics_per_connection: 1 + random.below(6),
            max_connections: 1 + random.below(4),
            linger: one_of(random, &[ms(0), ms(50), ms(1_000)]),
            pending_after: one_of(random, &[ms(100), ms(500)]),
            max_idle: random.chance(0.8).then(|| one_of(random, &[ms(1_000), ms(3_000)])),
            compact_after: random.chance(0.8).then(|| one_of(random, &[ms(20), ms(500), ms(2_000)])),
            overlap: one_of(random, &[ms(0), ms(30), ms(300)]),
            stall_after: random.chance(0.7).then(|| one_of(random, &[ms(300), ms(2_000)])),
            write_timeout: one_of(random, &[ms(200), ms(1_000)]),
            batch: 1 + random.below(5),
            pace: one_of(random, &[ms(0), ms(10), ms(60)]),
            recovery: limits.recovery(),
        };
        let (capacity, overlap) = (options.capacity(), options.overlap);
        Setting {
            options,
            limits,
            instruments: 1 + random.below(capacity + 3),
            late: one_of(random, &[ms(0), ms(0), ms(5)]),
            takes: one_of(random, &[ms(0), ms(10), limits.timeout / 2]).min(ms(100)),
            begins: overlap,
            refuses: one_of(random, &[0.0, 0.0, 0.1, 0.5]),
            mortal: random.fraction() * 0.6,
            silent: random.fraction() * 0.2,
            gives_up: random.fraction() * 0.5,
            leaves: 0.3 + random.fraction() * 0.4,
            caller_every: one_of(random, &[ms(3), ms(20), ms(150)]),
            weather_every: Some(one_of(random, &[ms(200), ms(1_000), ms(4_000)])),
            tick_every: ms(50),
            jump_every: random.chance(0.2).then(|| ms(2_000)),
            stray_every: random.chance(0.5).then(|| ms(200)),
        }
    }

    /// With the delays that a feed has unless somebody says otherwise.
    pub(crate) fn with_default_recovery(mut self) -> Setting {
        self.limits = Limits {
            attempts: 8,
            timeout: ms(2_000),
            max_timeout: ms(8_000),
            delay: ms(100),
            max_delay: ms(10_000),
            spread: 0.2,
        };
        self.options.recovery = Options::default().recovery;
        self
    }

    /// How long until everything is carried again after an outage in which attempts failed at once. Each delay is as long as all
    /// before it together and one more, so the last one under way takes no longer than the outage did; chance makes some of
    /// them longer, and others shorter.
    pub(crate) fn silence_after(&self, outage: Duration) -> Duration {
        let chance = (1.0 + self.limits.spread / 2.0) / (1.0 - self.limits.spread / 2.0);
        let delay = (outage.mul_f64(chance) + self.limits.delay * 2).min(self.limits.longest_delay());
        delay + self.takes * 3 + self.writing() + self.late * 8 + ms(100)
    }

    /// How long until everything that is wanted is carried when faults stop: what is under way is over, one more attempt is
    /// made, and all is written in batches; what was refused is asked for again.
    pub(crate) fn recovery_bound(&self) -> Duration {
        let options = &self.options;
        let attempt = self.limits.max_timeout.max(options.write_timeout) + self.limits.longest_delay() + self.takes * 2;
        let stall = options.stall_after.unwrap_or_default();
        attempt * 3 + self.writing() + stall + options.linger + self.late * 8 + ms(100)
    }

    /// How long until what has been refused since the beginning is asked for again: each delay is as long as all before it
    /// together and one more, but for chance.
    pub(crate) fn retrying(&self, since_the_beginning: Duration) -> Duration {
        if self.refuses == 0.0 {
            return Duration::ZERO;
        }
        let chance = (1.0 + self.limits.spread / 2.0) / (1.0 - self.limits.spread / 2.0);
        (since_the_beginning.mul_f64(chance) + self.limits.delay.max(ms(1)) * 2).min(ms(450_000))
    }

    /// How long everything takes to be written, some of it more than once.
    fn writing(&self) -> Duration {
        let write = self.takes + self.options.pace.max(ms(1)) + self.late;
        write * (4 * self.instruments as u32 + 4)
    }
}
