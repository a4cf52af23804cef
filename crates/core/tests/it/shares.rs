//! H1: which share of the uses a backend gets that has recovered, for pools and sets alike.

use carom_core::random::Random;
use std::time::Duration;

/// How a server treats its users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Every use fails at once.
    FailsFast,
    /// A use takes ten times as long.
    Slow,
    /// A use fails at its timeout; connects hang.
    Hangs,
    /// Its connections break, and it refuses others.
    Down,
    /// It fails fast and serves in turns.
    Flaps,
}

/// After so long a use of a server that hangs fails.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);

/// Servers, callers and a driver around a machine.
pub(crate) trait Traffic {
    fn servers(&self) -> usize;

    /// Time since the beginning.
    fn clock(&self) -> Duration;

    fn run_for(&mut self, time: Duration);

    /// Callers come from now on, so many a second.
    fn begin(&mut self, rate: f64);

    /// How long a use of a healthy server takes on average.
    fn takes(&self) -> Duration;

    /// This is how a server treats its users from now on.
    fn treat(&mut self, server: usize, fault: Fault);

    /// How often each server was picked or its connection handed over.
    fn picks(&self) -> Vec<usize>;

    /// Each server's share by weight among those that are connected to, or are to be.
    fn fair_shares(&self) -> Vec<f64>;

    /// Whether the machine knows that a server serves: it has a connection, the last connect succeeded, and it is not ejected.
    fn is_known_to_serve(&self, server: usize) -> bool;

    /// Each server's share of the picks and hand-offs during this time.
    fn shares(&mut self, time: Duration) -> Vec<f64> {
        let before = self.picks();
        self.run_for(time);
        let picks: Vec<usize> = self.picks().iter().zip(before).map(|(after, before)| after - before).collect();
        let all: usize = picks.iter().sum();
        picks.iter().map(|&picks| picks as f64 / all as f64).collect()
    }
}

/// Between 200 and 1,000 uses a second, that keep fewer than three of each server busy.
pub(crate) fn let_callers_come(traffic: &mut impl Traffic, random: &mut Random) {
    let most = 2.5 * traffic.servers() as f64 / traffic.takes().as_secs_f64();
    traffic.begin((200.0 + 800.0 * random.fraction()).min(most));
}

/// H1: a server has faults for a while. From the moment the machine can know that it serves, it has half of its fair share within 5 s,
/// and nine tenths within 15 s.
pub(crate) fn has_its_share_again(traffic: &mut impl Traffic, random: &mut Random) {
    traffic.run_for(Duration::from_secs(random.below(4) as u64));
    let faulty = random.below(traffic.servers());
    let faults = [Fault::FailsFast, Fault::Slow, Fault::Hangs, Fault::Down, Fault::Flaps];
    for _ in 0..1 + random.below(3) {
        traffic.treat(faulty, faults[random.below(5)]);
        traffic.run_for(Duration::from_millis(200 + random.below(6_000) as u64));
    }
    traffic.treat(faulty, Fault::None);
    let ended = traffic.clock();
    let mut known = ended;
    while traffic.clock() < known + Duration::from_secs(5) {
        traffic.run_for(Duration::from_millis(20));
        // What failed before it recovered may be found out later.
        known = if traffic.is_known_to_serve(faulty) { known } else { traffic.clock() };
        assert!(known < ended + Duration::from_secs(90), "H1: it is never known to serve");
    }
    for (wait, part) in [(0, 0.5), (6, 0.9)] {
        traffic.run_for(Duration::from_secs(wait));
        let fair = traffic.fair_shares()[faulty];
        let shares = traffic.shares(Duration::from_secs(4));
        assert!(shares[faulty] >= part * fair, "H1: {} of {shares:?}, not {part} of {fair}", shares[faulty]);
    }
}
