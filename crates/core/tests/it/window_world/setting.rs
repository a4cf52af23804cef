//! What kind of world it is: everything that does not change while it runs.

pub(crate) use crate::time::ms;
use carom_core::random::Random;
use carom_core::window::Options;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) options: Options,
    pub(crate) servers: usize,
    /// How late the driver is, at most.
    pub(crate) late: Duration,
    /// Most time it takes to open a socket, and to answer.
    pub(crate) open: Duration,
    pub(crate) answer: Duration,
    /// Requests have one of so many tags; 0 gives each its own.
    pub(crate) tags: u64,
    /// How likely a caller names nodes, gives up, or has timeouts of its own.
    pub(crate) names: f64,
    pub(crate) gives_up: f64,
    pub(crate) own_times: f64,
    /// How likely a request reconnects.
    pub(crate) reconnects: f64,
    pub(crate) only_any: bool,
    /// How likely an answer comes twice, and how likely a socket ends some time.
    pub(crate) twice: f64,
    pub(crate) drops: f64,
    pub(crate) caller_every: Duration,
    pub(crate) weather_every: Option<Duration>,
    pub(crate) nodes_every: Option<Duration>,
    pub(crate) stray_every: Option<Duration>,
}

impl Setting {
    /// A world in which anything goes.
    pub(crate) fn wild(seed: u64) -> Setting {
        let mut random = Random::new(seed);
        let random = &mut random;
        let servers = 1 + random.below(6);
        let ack_timeout = one_of(random, &[ms(50), ms(300), ms(1_000)]);
        let preferred = (0..random.below(3)).map(|at| super::name((at * 2 + 1) % 7));
        let options = Options {
            health_check: None,
            active_for: one_of(random, &[ms(1), ms(200), ms(1_000), ms(5_000)]),
            request_limit: one_of(random, &[1, 2, 5, 50]),
            ack_timeout,
            reply_timeout: ack_timeout * one_of(random, &[1, 3, 10]),
            hedge_after: one_of(random, &[None, Some(ms(1)), Some(ms(40)), Some(ack_timeout / 3), Some(ack_timeout)]),
            read_nodes: 1 + random.below(3),
            preferred: preferred.map(Into::into).collect(),
            max_windows: random.chance(0.4).then(|| 1 + random.below(4)),
        };
        Setting {
            options,
            servers,
            late: one_of(random, &[ms(0), ms(0), ms(5), ms(100)]),
            open: one_of(random, &[ms(0), ms(10), ms(100)]),
            answer: one_of(random, &[ms(0), ms(20), ack_timeout, ack_timeout * 2]),
            tags: one_of(random, &[0, 0, 1, 3]),
            names: one_of(random, &[0.0, 0.3]),
            gives_up: random.fraction() * 0.4,
            own_times: one_of(random, &[0.0, 0.3]),
            reconnects: one_of(random, &[0.0, 0.5, 1.0]),
            only_any: false,
            twice: random.fraction() * 0.5,
            drops: random.fraction() * 0.3,
            caller_every: one_of(random, &[ms(20), ms(100), ms(1_000)]),
            weather_every: Some(one_of(random, &[ms(200), ms(1_000), ms(4_000)])),
            nodes_every: random.chance(0.5).then(|| one_of(random, &[ms(100), ms(1_000), ms(4_000)])),
            stray_every: random.chance(0.5).then(|| ms(100)),
        }
    }

    /// How long a request of so many nodes may take in all, waiting for a window included.
    pub(crate) fn longest(&self, nodes: usize) -> Duration {
        // Timeouts of their own are at most twice the usual ones.
        2 * self.options.reply_timeout * (nodes as u32 + 1)
    }
}

pub(crate) fn one_of<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len())]
}
