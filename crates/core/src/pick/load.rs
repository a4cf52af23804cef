//! How loaded backends are: who is busy, how long uses take, and how long that is believed.

use crate::random::Random;
use std::time::{Duration, Instant};

/// A use that failed counts as one that took so many times as long as uses typically do,
const FAILED_TIMES: u32 = 16;

/// but as this long at most; and just so while it is not known how long they take.
pub const FAILED_USE: Duration = Duration::from_secs(1);

/// Backends whose uses take less than this many times as long as each other's are taken to be equally fast.
const ALIKE: u64 = 2;

/// A backend's load is believed half as much after so many ticks without a use, so that a slow one gets another chance.
const HALF_LIFE: u32 = 10;

/// How exactly that is timed. Coarsely: with a time for each claim and backend, telling the time would be most of the work.
const TICK: Duration = Duration::from_secs(1);

/// The load of every backend, by its index.
#[derive(Debug)]
pub(crate) struct Loads {
    loads: Vec<Load>,
    /// Mean use over all backends: what one that has not been used yet is assumed to take.
    typical: Ewma,
    /// Ticks since the beginning, and when the next one is due.
    tick: u32,
    next_tick: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Load {
    busy: u32,
    /// Its idle slots are for when nobody else has one.
    aside: bool,
    uses: Option<Ewma>,
    /// The tick of the last use that taught something.
    sampled: u32,
}

impl Loads {
    pub(crate) fn new(now: Instant) -> Loads {
        Loads { loads: Vec::new(), typical: Ewma::default(), tick: 0, next_tick: now + TICK }
    }

    /// Makes room for a backend, forgetting the load of whoever had this index before.
    pub(crate) fn add(&mut self, backend: u32) {
        let load = Load { busy: 0, aside: false, uses: None, sampled: self.tick };
        match self.loads.get_mut(backend as usize) {
            Some(place) => *place = load,
            None => self.loads.push(load),
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.loads.len()
    }

    /// Whether idle slots of a backend are for when nobody else has one.
    #[inline]
    pub(crate) fn is_aside(&self, backend: u32) -> bool {
        self.loads[backend as usize].aside
    }

    /// Sets that, and returns what it was.
    pub(crate) fn set_aside(&mut self, backend: u32, aside: bool) -> bool {
        std::mem::replace(&mut self.loads[backend as usize].aside, aside)
    }

    /// Time passes. Told now and then; in between it stands still here.
    #[inline]
    pub(crate) fn pass(&mut self, now: Instant) {
        if now < self.next_tick {
            return;
        }
        let ticks = now.duration_since(self.next_tick).as_secs() as u32 + 1;
        self.tick += ticks;
        self.next_tick += TICK * ticks;
    }

    /// A connection of the backend is in use from now on.
    #[inline]
    pub(crate) fn begin_use(&mut self, backend: u32) {
        self.loads[backend as usize].busy += 1;
    }

    /// A use ended about which nothing is learnt.
    #[inline]
    pub(crate) fn end_use(&mut self, backend: u32) {
        self.loads[backend as usize].busy -= 1;
    }

    /// What a use has taught; `failed` ones count as slow, and say nothing about others.
    pub(crate) fn learn(&mut self, now: Instant, backend: u32, took: Duration, failed: bool) {
        let took = if failed { took.max(self.failed_use()) } else { took };
        let nanos = took.as_nanos() as u64;
        if !failed {
            self.typical.add(nanos);
        }
        self.pass(now);
        let load = &mut self.loads[backend as usize];
        load.sampled = self.tick;
        load.uses.get_or_insert(self.typical).add(nanos);
    }

    /// What was learnt of a backend is forgotten: it is not what it was.
    pub(crate) fn begin_anew(&mut self, backend: u32) {
        self.loads[backend as usize].uses = None;
    }

    /// How long uses of this backend have taken lately.
    pub(crate) fn typical_use(&self, backend: u32) -> Option<Duration> {
        self.loads[backend as usize].uses.map(|uses| Duration::from_nanos(uses.nanos))
    }

    /// The less loaded of two random ones of several backends.
    #[inline]
    pub(crate) fn less_loaded(&self, several: &[u32], random: &mut Random) -> u32 {
        let (first, second) = random.two_below(several.len());
        let (one, other) = (several[first], several[second]);
        let (use_of_one, use_of_other) = (self.believed(one), self.believed(other));
        let busy = |backend: u32| u64::from(self.loads[backend as usize].busy);
        // Of equals each gets its share: that one was a little faster lately is no reason to leave the other without any.
        let is_less = if use_of_one / ALIKE <= use_of_other && use_of_other / ALIKE <= use_of_one {
            busy(other) < busy(one)
        } else {
            self.score(other) < self.score(one)
        };
        if is_less { other } else { one }
    }

    #[inline]
    fn score(&self, backend: u32) -> u64 {
        self.believed(backend).saturating_mul(u64::from(self.loads[backend as usize].busy) + 1)
    }

    /// How long a use of it takes, as far as anybody remembers.
    #[inline]
    fn believed(&self, backend: u32) -> u64 {
        let load = &self.loads[backend as usize];
        let believed = match load.uses {
            Some(uses) => uses.nanos.checked_shr((self.tick - load.sampled) / HALF_LIFE).unwrap_or(0),
            None => self.typical.nanos,
        };
        believed.max(1)
    }

    /// Relative to the others: who answers in a moment would else shun, for minutes, one that has failed once.
    fn failed_use(&self) -> Duration {
        match self.typical.nanos {
            0 => FAILED_USE,
            nanos => (Duration::from_nanos(nanos) * FAILED_TIMES).min(FAILED_USE),
        }
    }
}

/// A moving mean that gives the latest use an eighth.
#[derive(Clone, Copy, Debug, Default)]
struct Ewma {
    nanos: u64,
}

impl Ewma {
    fn add(&mut self, nanos: u64) {
        self.nanos = self.nanos - self.nanos / 8 + nanos / 8;
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    fn loads(backends: u32) -> (Loads, Instant) {
        let now = Instant::now();
        let mut loads = Loads::new(now);
        (0..backends).for_each(|backend| loads.add(backend));
        (loads, now)
    }

    #[test]
    fn backends_that_are_about_as_fast_get_the_same_share() {
        let mut random = Random::new(1);
        let (mut loads, now) = loads(3);
        for (backend, micros) in [(0, 1_000), (1, 1_300), (2, 1_900)] {
            (0..100).for_each(|_| loads.learn(now, backend, Duration::from_micros(micros), false));
        }
        let mut chosen = [0; 3];
        for _ in 0..3_000 {
            chosen[loads.less_loaded(&[0, 1, 2], &mut random) as usize] += 1;
        }
        assert!(chosen.iter().all(|count| (850..1_150).contains(count)), "{chosen:?}");
    }

    #[test]
    fn a_failing_backend_looks_slow_not_fast_and_is_forgiven_with_time() {
        let mut random = Random::new(1);
        let (mut loads, now) = loads(2);
        for (backend, failed) in [(0, true), (1, false)] {
            for _ in 0..10 {
                loads.begin_use(backend);
                loads.end_use(backend);
                loads.learn(now, backend, Duration::from_millis(1), failed);
            }
        }
        assert!((0..50).all(|_| loads.less_loaded(&[0, 1], &mut random) == 1));
        loads.pass(now + Duration::from_secs(1000));
        let chosen: Vec<_> = (0..50).map(|_| loads.less_loaded(&[0, 1], &mut random)).collect();
        assert!(chosen.contains(&0) && chosen.contains(&1));
    }

    #[test]
    fn a_use_that_failed_counts_relative_to_what_is_typical() {
        let (mut loads, now) = loads(2);
        let quick = Duration::from_micros(200);
        for _ in 0..100 {
            loads.learn(now, 0, quick, false);
            loads.learn(now, 1, quick, false);
        }
        let typical = loads.typical.nanos;
        loads.learn(now, 0, Duration::from_micros(10), true);
        assert_eq!(loads.typical.nanos, typical, "it says nothing about others");
        assert!(loads.score(0) > 2 * loads.score(1), "it looks slow");
        loads.pass(now + Duration::from_secs(20));
        loads.learn(now, 1, quick, false);
        assert!(loads.score(0) <= loads.score(1), "but not for minutes");

        loads.learn(now, 0, Duration::from_secs(5), true);
        loads.begin_anew(0);
        assert_eq!(loads.score(0), loads.typical.nanos, "as one that was never used");
    }

    #[test]
    fn belief_halves_every_ten_seconds_however_seldom_the_time_is_told() {
        for step in [1, 250, 1_000, 60_000] {
            let (mut loads, start) = loads(1);
            let last = start + Duration::from_millis(7_700);
            let uses = 1 << 20;
            (0..200).for_each(|_| loads.learn(last, 0, Duration::from_nanos(uses), false));
            let learnt = loads.score(0);
            assert!(learnt > uses / 2 && learnt <= uses);
            for passed in (0..=60_000).step_by(step) {
                loads.pass(last + Duration::from_millis(passed));
                let (least, most) = ((passed.saturating_sub(1_000)) / 10_000, (passed + 1_000) / 10_000);
                let score = loads.score(0);
                assert!((learnt >> most..=learnt >> least).contains(&score), "{score} of {learnt} after {passed} ms");
            }
            loads.pass(last + Duration::from_secs(100_000_000));
            assert_eq!(loads.score(0), 1);
        }
    }
}
