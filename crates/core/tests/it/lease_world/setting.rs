//! What kind of world it is: everything that does not change while it runs.

pub(crate) use crate::time::ms;
use carom_core::feed::lease::Options;
use carom_core::random::Random;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) options: Options,
    pub(crate) members: usize,
    /// By how much clocks run too fast or too slow, at most.
    pub(crate) rate: f64,
    /// Most time a message takes when all is well.
    pub(crate) takes: Duration,
    /// How likely a message is lost, and how likely it takes up to `slow_for`: many others overtake it.
    pub(crate) loses: f64,
    pub(crate) slow: f64,
    pub(crate) slow_for: Duration,
    /// A message is lost this often, and no other.
    pub(crate) loses_one_every: Option<Duration>,
    /// How often something happens to a member or to the register.
    pub(crate) trouble_every: Option<Duration>,
    /// How long a member is stopped, at most.
    pub(crate) stops_for: Duration,
    /// Whether the register sometimes forgets everything.
    pub(crate) forgets: bool,
    /// Whether the register compares revisions, as one should.
    pub(crate) compares: bool,
}

impl Setting {
    /// A world in which anything goes that the lease is made for.
    pub(crate) fn wild(seed: u64) -> Setting {
        let mut random = Random::new(seed);
        let random = &mut random;
        let renew = one_of(random, &[ms(50), ms(500)]);
        let hold = renew * one_of(random, &[3, 4, 10]);
        let options = Options { renew, hold, ttl: hold.mul_f64(one_of(random, &[1.25, 1.5, 3.0])) };
        Setting {
            options,
            members: 2 + random.below(4),
            rate: 0.01,
            takes: one_of(random, &[ms(1), ms(20), ms(200)]),
            loses: one_of(random, &[0.0, 0.02, 0.2]),
            slow: one_of(random, &[0.0, 0.1, 0.3]),
            // Answers that are just not too late, and messages that nobody expects any more.
            slow_for: one_of(random, &[options.renew, options.ttl * 4]),
            loses_one_every: None,
            trouble_every: Some(one_of(random, &[ms(300), ms(2_000)])),
            stops_for: options.grace(),
            forgets: random.chance(0.5),
            compares: true,
        }
    }

    /// One in which nothing goes wrong unless the test does it.
    pub(crate) fn calm(seed: u64) -> Setting {
        Setting {
            options: Options::default(),
            takes: one_of(&mut Random::new(seed), &[ms(1), ms(50)]),
            loses: 0.0,
            slow: 0.0,
            trouble_every: None,
            forgets: false,
            ..Setting::wild(seed)
        }
    }

    /// So much time by anybody's clock.
    pub(crate) fn by_any_clock(&self, time: Duration) -> Duration {
        time.div_f64(1.0 - self.rate)
    }

    /// Until a holder has a successor that did not give the lease back, when nothing goes wrong: the others see what it wrote last,
    /// wait, read once more and write.
    pub(crate) fn succession_bound(&self) -> Duration {
        let Options { renew, ttl, .. } = self.options;
        self.by_any_clock(renew + ttl + renew / 5) + self.takes * 7
    }
}

pub(crate) fn one_of<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[random.below(choices.len())]
}
