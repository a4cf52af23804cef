//! What kind of world it is, drawn from the seed.

use crate::time::ms;
use carom_core::random::Random;
use carom_core::recovery::{DAY, Policy, Recovery};
use carom_core::resolver::Options;
use std::time::Duration;

/// The domain; its service is `_s._tcp.d`.
pub(crate) const DOMAIN: &str = "d";

#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) options: Options,
    /// Of both policies.
    pub(crate) spread: f64,
    /// How many names there are for targets, the domain among them.
    pub(crate) names: usize,
    /// How much of its timeout a question takes at most.
    pub(crate) slowness: f64,
    /// How often an answer gets lost.
    pub(crate) loses: f64,
    /// How much of the weather is bad.
    pub(crate) bad_weather: f64,
    /// How late the driver is.
    pub(crate) late: Duration,
    /// The longest TTL in the zone, in seconds.
    pub(crate) longest_ttl: u64,
    pub(crate) zone_every: Option<Duration>,
    pub(crate) weather_every: Option<Duration>,
    pub(crate) ipv6_every: Option<Duration>,
    pub(crate) back_every: Option<Duration>,
}

impl Setting {
    /// Anything may happen.
    pub(crate) fn wild(seed: u64) -> Setting {
        let mut random = Random::new(seed);
        let random = &mut random;
        let min_ttl = *one_of(random, &[ms(200), ms(1_000), ms(5_000)]);
        let spread = *one_of(random, &[0.0, 0.2, 1.0]);
        let options = Options {
            service: random.chance(0.8).then(|| "_s._tcp".into()),
            concurrency: *one_of(random, &[1, 2, 5, 20]),
            min_ttl,
            max_ttl: *one_of(random, &[min_ttl, min_ttl * 3, ms(60_000), ms(300_000), DAY]),
            ipv6: random.chance(0.7),
            recovery: Recovery::default().dns(policy(random, spread)).dns_srv(policy(random, spread)),
            ..Options::new(DOMAIN)
        };
        Setting {
            options,
            spread,
            names: 1 + random.below(6),
            slowness: *one_of(random, &[0.0, 0.01, 0.3, 1.0]),
            loses: *one_of(random, &[0.0, 0.0, 0.1, 0.5]),
            bad_weather: *one_of(random, &[0.0, 0.3, 0.8]),
            late: *one_of(random, &[ms(0), ms(0), ms(3)]),
            longest_ttl: *one_of(random, &[1, 5, 30, 200, 5_000]),
            zone_every: *one_of(random, &[Some(ms(300)), Some(ms(3_000)), Some(ms(20_000)), None]),
            weather_every: *one_of(random, &[Some(ms(500)), Some(ms(5_000)), Some(ms(30_000))]),
            ipv6_every: *one_of(random, &[None, None, Some(ms(1_000)), Some(ms(20_000))]),
            back_every: *one_of(random, &[None, None, Some(ms(2_000)), Some(ms(30_000))]),
        }
    }
}

fn policy(random: &mut Random, spread: f64) -> Policy {
    let delay = *one_of(random, &[ms(1), ms(50), ms(2_000)]);
    Policy::default()
        .attempts(1 + random.below(3) as u32)
        .timeout(*one_of(random, &[ms(100), ms(1_000)]))
        .max_timeout(ms(3_000))
        .delay(delay)
        .max_delay(*one_of(random, &[Some(ms(2_000)), Some(ms(10_000)), None]))
        .spread(spread)
}

pub(crate) fn one_of<'a, T>(random: &mut Random, of: &'a [T]) -> &'a T {
    &of[random.below(of.len())]
}
