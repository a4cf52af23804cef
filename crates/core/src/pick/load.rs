//! How loaded backends are: who is busy, how long uses take, and how long that is believed.

use crate::random::Random;
use std::time::{Duration, Instant};

/// The penalty for a failed use, in typical uses. It does not depend on how long the use hung before it failed.
const FAILED_USE: f32 = 2.0;

/// The most that slow and failed uses count against a backend, in typical uses.
const MAX_EXCESS: f32 = 5.0;

/// Factors that differ by less than this are taken to be equal: the busy connections decide.
const ALIKE: f32 = 2.0;

/// How much of the excess is left after a tick: half of it after two.
const DECAY: f32 = std::f32::consts::FRAC_1_SQRT_2;

/// How often the excess decays and the typical use is computed. Both touch every backend, so no claim should pay for them.
const TICK: Duration = Duration::from_secs(1);

/// The load of every backend, by its index.
#[derive(Debug)]
pub(crate) struct Loads {
    loads: Vec<Load>,
    /// The median over the backends that have been used; 0 while none has.
    typical: u64,
    next_tick: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Load {
    busy: u32,
    /// Its idle slots are for when nobody else has one.
    aside: bool,
    uses: Option<Ewma>,
    /// How much slower than typical its uses are, and the penalty for failed ones, in typical uses; at most [`MAX_EXCESS`].
    /// It decays, so that a backend is tried again.
    excess: f32,
}

impl Loads {
    pub(crate) fn new(now: Instant) -> Loads {
        Loads { loads: Vec::new(), typical: 0, next_tick: now + TICK }
    }

    /// Makes room for a backend, forgetting the load of whoever had this index before.
    pub(crate) fn add(&mut self, backend: u32) {
        let load = Load { busy: 0, aside: false, uses: None, excess: 0.0 };
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
        self.tick(now);
    }

    #[cold]
    fn tick(&mut self, now: Instant) {
        let ticks = u32::try_from(now.duration_since(self.next_tick).as_secs() + 1).unwrap_or(u32::MAX);
        self.next_tick += TICK * ticks;
        let left = DECAY.powf(ticks as f32);
        for load in &mut self.loads {
            load.excess *= left;
        }
        self.find_typical();
    }

    /// Of two backends the faster one is typical.
    fn find_typical(&mut self) {
        let mut uses: Vec<u64> = self.loads.iter().filter_map(|load| Some(load.uses?.nanos)).collect();
        if let Some(last) = uses.len().checked_sub(1) {
            self.typical = (*uses.select_nth_unstable(last / 2).1).max(1);
        }
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

    /// A successful use took this long.
    pub(crate) fn learn(&mut self, now: Instant, backend: u32, took: Duration) {
        self.pass(now);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let load = &mut self.loads[backend as usize];
        load.uses.get_or_insert(Ewma { nanos }).add(nanos);
        if self.typical == 0 {
            self.find_typical();
        }
        let slower = (nanos as f32 / self.typical as f32 - 1.0).max(0.0);
        let load = &mut self.loads[backend as usize];
        load.excess = (load.excess + (slower - load.excess) / 8.0).min(MAX_EXCESS);
    }

    /// A use failed.
    pub(crate) fn fail(&mut self, now: Instant, backend: u32) {
        self.pass(now);
        let load = &mut self.loads[backend as usize];
        load.excess = (load.excess + FAILED_USE).min(MAX_EXCESS);
    }

    /// What was learnt of a backend is forgotten: it is not what it was.
    pub(crate) fn begin_anew(&mut self, backend: u32) {
        let load = &mut self.loads[backend as usize];
        (load.uses, load.excess) = (None, 0.0);
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
        let (factor_of_one, factor_of_other) = (self.factor(one), self.factor(other));
        let busy = |backend: u32| self.loads[backend as usize].busy;
        // Of equals each gets its share: that one was a little faster lately is no reason to leave the other without any.
        let is_less = if factor_of_one <= ALIKE * factor_of_other && factor_of_other <= ALIKE * factor_of_one {
            busy(other) < busy(one)
        } else {
            self.score(other) < self.score(one)
        };
        if is_less { other } else { one }
    }

    #[inline]
    fn score(&self, backend: u32) -> f32 {
        self.factor(backend) * (self.loads[backend as usize].busy + 1) as f32
    }

    /// What a use of it costs, compared to a typical one.
    #[inline]
    fn factor(&self, backend: u32) -> f32 {
        1.0 + self.loads[backend as usize].excess
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

    fn chosen(loads: &Loads, several: &[u32]) -> [u32; 3] {
        let (mut random, mut chosen) = (Random::new(1), [0; 3]);
        for _ in 0..3_000 {
            chosen[loads.less_loaded(several, &mut random) as usize] += 1;
        }
        chosen
    }

    #[test]
    fn backends_that_are_about_as_fast_get_the_same_share() {
        let (mut loads, now) = loads(3);
        for _ in 0..100 {
            for (backend, micros) in [(0, 1_000), (1, 1_300), (2, 1_900)] {
                loads.learn(now, backend, Duration::from_micros(micros));
            }
        }
        let chosen = chosen(&loads, &[0, 1, 2]);
        assert!(chosen.iter().all(|count| (850..1_150).contains(count)), "{chosen:?}");
    }

    #[test]
    fn faster_backend_is_not_preferred_to_typical_ones() {
        let (mut loads, now) = loads(3);
        for _ in 0..100 {
            for (backend, micros) in [(0, 100), (1, 1_000), (2, 1_000)] {
                loads.learn(now, backend, Duration::from_micros(micros));
            }
            loads.pass(now + TICK);
        }
        assert_eq!((loads.typical, loads.loads[0].uses.unwrap().nanos), (1_000_000, 100_000));
        let chosen = chosen(&loads, &[0, 1, 2]);
        assert!(chosen.iter().all(|count| (850..1_150).contains(count)), "{chosen:?}");
    }

    #[test]
    fn failing_backend_is_avoided_for_a_few_seconds() {
        let (mut loads, now) = loads(2);
        for _ in 0..10 {
            loads.fail(now, 0);
            loads.learn(now, 1, Duration::from_millis(1));
        }
        assert_eq!(loads.factor(0), 1.0 + MAX_EXCESS);
        assert_eq!(chosen(&loads, &[0, 1]), [0, 3_000, 0]);
        loads.pass(now + Duration::from_secs(5));
        let again = chosen(&loads, &[0, 1]);
        assert!((1_350..1_650).contains(&again[0]), "{again:?}");
    }

    #[test]
    fn failed_use_is_a_penalty_and_not_a_latency_sample() {
        let (mut loads, now) = loads(2);
        let quick = Duration::from_micros(200);
        loads.learn(now, 0, quick);
        loads.learn(now, 1, quick);
        loads.fail(now, 0);
        assert_eq!((loads.typical_use(0), loads.factor(0)), (Some(quick), 1.0 + FAILED_USE));
        loads.fail(now, 0);
        loads.begin_anew(0);
        assert_eq!((loads.typical_use(0), loads.factor(0)), (None, 1.0), "as one that was never used");
    }

    #[test]
    fn new_sample_is_added_to_the_decayed_excess() {
        let (mut loads, now) = loads(2);
        let quick = Duration::from_millis(1);
        (0..100).for_each(|_| loads.learn(now, 1, quick));
        for _ in 0..100 {
            loads.learn(now, 0, quick * 1_000);
        }
        assert_eq!(loads.factor(0), 1.0 + MAX_EXCESS);
        loads.pass(now + TICK * 4);
        loads.learn(now + TICK * 4, 0, quick);
        let expected = MAX_EXCESS / 4.0 * 7.0 / 8.0;
        assert!((loads.loads[0].excess - expected).abs() < 0.001, "{} is not {expected}", loads.loads[0].excess);
    }

    #[test]
    fn excess_halves_every_two_seconds_at_any_polling_interval() {
        for step in [1, 250, 1_000, 60_000] {
            let (mut loads, start) = loads(1);
            let last = start + Duration::from_millis(7_700);
            (0..3).for_each(|_| loads.fail(last, 0));
            for passed in (0..=60_000).step_by(step) {
                loads.pass(last + Duration::from_millis(passed));
                let after = |millis: u64| MAX_EXCESS * 0.5_f32.powf(millis as f32 / 2_000.0);
                let (least, most) = (after(passed + 1_000) * 0.999, after(passed.saturating_sub(1_000)) * 1.001);
                let excess = loads.loads[0].excess;
                assert!((least..=most).contains(&excess), "{excess} after {passed} ms");
            }
            loads.pass(last + Duration::from_secs(100_000_000));
            assert_eq!(loads.factor(0), 1.0);
        }
    }

    #[test]
    fn of_two_backends_the_faster_one_is_typical() {
        let (mut loads, now) = loads(3);
        for _ in 0..100 {
            loads.learn(now, 1, Duration::from_millis(10));
            loads.learn(now, 2, Duration::from_millis(1));
            loads.pass(now + TICK);
        }
        assert_eq!(loads.typical, 1_000_000);
        assert!(loads.factor(1) > 1.0 + MAX_EXCESS * 0.9 && loads.factor(2) < 1.1);
    }
}
