//! How loaded backends are: how many of their connections are busy, how often they were picked lately, and how slow and how
//! unreliable their uses are.
//!
//! The load of a backend is the larger of its busy connections and its picks within the last use times. Picks fade out by a
//! common scale instead of one by one: later picks count more, and everything is divided by the scale when it is read. So the
//! warm path counts a pick without a clock.
//!
//! The use time is the longest of the backends' mean use times. With a shorter one, backends whose uses end at once, because
//! they fail, would look idle as soon as they are as many as the others, and would be preferred.

use crate::random::Random;
use std::time::{Duration, Instant};

/// The penalty for a failed use, in median uses. It does not depend on how long the use hung before it failed.
const FAILED_USE: f32 = 2.0;

/// A use is short when it took less than this part of the mean use time.
const SHORT: u64 = 4;

/// The most that slow and failed uses count against a backend, in median uses.
const MAX_EXCESS: f32 = 5.0;

/// Latencies are compared with the median, or with this if it is less, in nanoseconds (5 ms): where uses take less than a millisecond,
/// a delay of the scheduler is many medians long and says nothing about the backend.
const LEAST_MEDIAN: u64 = 5_000_000;

/// Factors within this of each other are taken to be equal: the load decides.
const ALIKE: f32 = 2.0;

/// So many failed uses in a row make a backend failing.
const FAILING: u32 = 5;

/// How often excess and penalty decay, and backends are looked for that were not picked for a second. This touches every
/// backend, so no claim should pay for it.
const TICK: Duration = Duration::from_millis(250);

/// How much of excess and penalty is left after a tick: half of it after 2 s.
const DECAY: f32 = 0.917_004_05;

/// Ticks between two computations of the median.
const MEDIAN_TICKS: u32 = 4;

/// A backend that was not picked for more than so many ticks was not picked for a second.
const UNPICKED_TICKS: u32 = 4;

/// For so many use times picks count. With one, the chance that more connections are busy than were picked lately would make a
/// backend look more loaded than one that fails at once.
const USE_TIMES: f32 = 2.0;

/// Uses that take no longer than this, in seconds, are waited for.
const SOON: f32 = 0.1;

/// Above this the scale of picks is brought back to 1.
const MAX_SCALE: f32 = 1e12;

/// Of more backends than this, some are drawn and the least loaded of them is taken.
const MOST_COMPARED: usize = 8;

/// The share of its weight with which a backend begins its slow start.
const FIRST_SHARE: f32 = 0.1;

/// The load of every backend, by its index.
#[derive(Debug)]
pub(crate) struct Loads {
    loads: Vec<Load>,
    /// Backends that were not picked for a second: they are picked next.
    due: Vec<u32>,
    /// How many backends are stalled.
    stalled: u32,
    /// Counts picks.
    turns: u64,
    /// Weights differ.
    uneven: bool,
    /// Uses failed lately.
    has_failures: bool,
    /// A backend is unreliable or starts slowly.
    is_changing: bool,
    /// Those that are known, while the median is computed.
    latencies: Vec<u64>,
    /// What a pick counts now.
    scale: f32,
    unscale: f32,
    /// For how long picks count, in seconds: some of the longest mean use time of a backend; 0 while none is known, and no pick
    /// counts.
    window: f32,
    /// Until when picks have faded.
    faded: Instant,
    /// The median latency over the backends; 0 while that of most is not known.
    median: u64,
    slow_start: Option<Duration>,
    tick: u32,
    next_tick: Instant,
    /// The tick at which the median was computed.
    compared: u32,
}

#[derive(Clone, Copy, Debug)]
struct Load {
    busy: u32,
    /// Picks within the last use times, times the scale.
    picks: f32,
    /// The tick of the last pick.
    picked: u32,
    /// The number of the last pick.
    turn: u64,
    /// Its share among the others: its weight, less while it starts slowly.
    share: f32,
    /// What a use of it costs, in median uses.
    factor: f32,
    /// How much slower than the median its uses are, in medians.
    excess: f32,
    /// What its failed uses count.
    penalty: f32,
    /// Uses that failed since one succeeded.
    failures: u32,
    /// Its tier is worse than the one that serves.
    is_worse: bool,
    /// It has stopped responding while others respond.
    is_stalled: bool,
    weight: f32,
    /// When its slow start began.
    started: Option<Instant>,
    latency: Option<Ewma>,
    /// How long its connections are lent.
    use_time: Option<Ewma>,
}

impl Load {
    const NEW: Load = Load {
        busy: 0,
        picks: 0.0,
        picked: 0,
        turn: 0,
        share: 1.0,
        factor: 1.0,
        excess: 0.0,
        penalty: 0.0,
        failures: 0,
        is_worse: false,
        is_stalled: false,
        weight: 1.0,
        started: None,
        latency: None,
        use_time: None,
    };

    fn is_failing(&self) -> bool {
        self.failures >= FAILING
    }

    fn is_unreliable(&self) -> bool {
        self.penalty > FAILED_USE
    }

    /// Excess and penalty are capped together, so that they are gone in time.
    fn weigh(&mut self, excess: f32, penalty: f32) {
        self.penalty = penalty.min(MAX_EXCESS);
        self.excess = excess.min(MAX_EXCESS - self.penalty);
        self.factor = 1.0 + self.excess + self.penalty;
    }

    /// The part of its weight that it gets by now.
    fn grow(&mut self, now: Instant, slow_start: Option<Duration>) {
        let passed = self
            .started
            .zip(slow_start)
            .map(|(started, lasts)| now.saturating_duration_since(started).as_secs_f32() / lasts.as_secs_f32());
        match passed.filter(|passed| *passed < 1.0) {
            Some(passed) => self.share = self.weight * passed.max(FIRST_SHARE),
            None => (self.share, self.started) = (self.weight, None),
        }
    }
}

impl Loads {
    pub(crate) fn new(slow_start: Option<Duration>, now: Instant) -> Loads {
        Loads {
            loads: Vec::new(),
            due: Vec::new(),
            stalled: 0,
            turns: 0,
            latencies: Vec::new(),
            uneven: false,
            has_failures: false,
            is_changing: false,
            scale: 1.0,
            unscale: 0.0,
            window: 0.0,
            faded: now,
            median: 0,
            slow_start,
            tick: 0,
            next_tick: now + TICK,
            compared: 0,
        }
    }

    /// Makes room for a backend, forgetting the load of whoever had this index before.
    pub(crate) fn add(&mut self, backend: u32) {
        if self.loads.len() > backend as usize {
            self.set_stalled(backend, false);
        }
        let load = Load { picked: self.tick, ..Load::NEW };
        match self.loads.get_mut(backend as usize) {
            Some(place) => *place = load,
            None => self.loads.push(load),
        }
        // Later on nothing is allocated.
        self.due.reserve(self.loads.len() - self.due.len());
        self.latencies.reserve(self.loads.len() - self.latencies.len());
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.loads.len()
    }

    /// Whether idle slots of a backend are for when no other backend has one.
    #[inline]
    pub(crate) fn is_aside(&self, backend: u32) -> bool {
        let load = &self.loads[backend as usize];
        load.is_worse || load.is_failing()
    }

    /// Whether a backend's tier is worse than the one that serves.
    #[inline]
    pub(crate) fn is_worse(&self, backend: u32) -> bool {
        self.loads[backend as usize].is_worse
    }

    pub(crate) fn set_worse(&mut self, backend: u32, is_worse: bool) {
        self.loads[backend as usize].is_worse = is_worse;
        if is_worse {
            self.forget_due(backend);
        }
    }

    /// Whether its last uses failed, so many in a row that it is only tried once a second.
    #[inline]
    pub(crate) fn is_failing(&self, backend: u32) -> bool {
        self.loads[backend as usize].is_failing()
    }

    /// Whether more than one of its uses failed lately.
    #[inline]
    pub(crate) fn is_unreliable(&self, backend: u32) -> bool {
        self.loads[backend as usize].is_unreliable()
    }

    /// A backend has stopped responding while others respond, or responds again. False if that was known.
    pub(crate) fn set_stalled(&mut self, backend: u32, is_stalled: bool) -> bool {
        let before = std::mem::replace(&mut self.loads[backend as usize].is_stalled, is_stalled);
        self.stalled = self.stalled - u32::from(before) + u32::from(is_stalled);
        before != is_stalled
    }

    #[inline]
    pub(crate) fn is_stalled(&self, backend: u32) -> bool {
        self.loads[backend as usize].is_stalled
    }

    /// Whether any backend is stalled.
    #[inline]
    pub(crate) fn has_stalled(&self) -> bool {
        self.stalled > 0
    }

    /// When an unreliable backend, or one that starts slowly, is looked at again. It needs no use to be neither.
    pub(crate) fn next_change(&self) -> Option<Instant> {
        self.is_changing.then_some(self.next_tick)
    }

    /// Whether connections come back soon, as far as is known.
    pub(crate) fn uses_end_soon(&self) -> bool {
        self.window > 0.0 && self.window <= USE_TIMES * SOON
    }

    /// Whether uses of any backend failed lately.
    #[inline]
    pub(crate) fn has_failures(&self) -> bool {
        self.has_failures
    }

    /// Whether its last use failed.
    #[inline]
    pub(crate) fn has_failed(&self, backend: u32) -> bool {
        self.loads[backend as usize].failures > 0
    }

    /// A backend's weight; 0 counts as a hundredth of 1.
    pub(crate) fn set_weight(&mut self, now: Instant, backend: u32, weight: u16) {
        let load = &mut self.loads[backend as usize];
        load.weight = if weight == 0 { 0.01 } else { f32::from(weight) };
        load.grow(now, self.slow_start);
    }

    /// Backends have come, gone, or changed their weight.
    pub(crate) fn compare(&mut self) {
        self.uneven = self.loads.iter().any(|load| load.share != self.loads[0].share);
        self.find_median();
    }

    /// Time passes. Told now and then; in between it stands still here.
    #[inline]
    pub(crate) fn pass(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.faded).as_secs_f32();
        if passed * 8.0 > self.window {
            self.fade(now, passed);
        }
        if now >= self.next_tick {
            self.tick(now);
        }
    }

    /// Picks of the time before count less. They were made over all of that time, as far as is known: so a part of them fades that
    /// leaves those of the last window where the time was longer.
    fn fade(&mut self, now: Instant, passed: f32) {
        self.faded = now;
        if self.window > 0.0 {
            let windows = (passed / self.window).min(1e9);
            self.scale *= windows / (1.0 - (-windows).exp());
        }
        if self.scale > MAX_SCALE {
            for load in &mut self.loads {
                load.picks /= self.scale;
            }
            self.scale = 1.0;
        }
        if self.window > 0.0 {
            self.unscale = 1.0 / self.scale;
        }
    }

    #[cold]
    fn tick(&mut self, now: Instant) {
        let late = now.duration_since(self.next_tick).as_millis() / TICK.as_millis();
        let ticks = u32::try_from(late + 1).unwrap_or(u32::MAX);
        self.next_tick += TICK * ticks;
        self.tick = self.tick.wrapping_add(ticks);
        let left = DECAY.powf(ticks as f32);
        for load in &mut self.loads {
            load.weigh(load.excess * left, load.penalty * left);
            load.grow(now, self.slow_start);
        }
        self.has_failures = self.loads.iter().any(|load| load.failures > 0 || load.is_unreliable());
        self.is_changing = self.loads.iter().any(|load| load.started.is_some() || load.is_unreliable());
        self.due.clear();
        for (backend, load) in self.loads.iter().enumerate() {
            if !load.is_worse && !self.is_picked(load) {
                self.due.push(backend as u32);
            }
        }
        if self.tick.wrapping_sub(self.compared) >= MEDIAN_TICKS {
            self.compared = self.tick;
            self.compare();
        }
    }

    /// Of two backends the faster one is the median. A backend whose latency is not known yet counts as a slow one: so a few that
    /// fail fast make none look slow.
    fn find_median(&mut self) {
        let mut latencies = std::mem::take(&mut self.latencies);
        latencies.extend(self.loads.iter().filter_map(|load| Some(load.latency?.nanos)));
        let unknown = self.loads.iter().filter(|load| load.latency.is_none() && self.is_picked(load)).count();
        let middle = (latencies.len() + unknown).saturating_sub(1) / 2;
        let is_known = middle < latencies.len();
        self.median = if is_known { (*latencies.select_nth_unstable(middle).1).max(1) } else { 0 };
        latencies.clear();
        self.latencies = latencies;
        let longest = self.loads.iter().filter_map(|load| Some(load.use_time?.nanos)).max();
        let Some(nanos) = longest else { return };
        if self.window == 0.0 {
            // How long ago earlier picks were is not known.
            self.loads.iter_mut().for_each(|load| load.picks = load.busy as f32 * self.scale);
            self.unscale = 1.0 / self.scale;
        }
        self.window = USE_TIMES * nanos as f32 / 1e9;
    }

    /// A connection of the backend is in use from now on.
    #[inline]
    pub(crate) fn begin_use(&mut self, backend: u32) {
        let load = &mut self.loads[backend as usize];
        self.turns += 1;
        load.busy += 1;
        load.picks += self.scale;
        load.picked = self.tick;
        load.turn = self.turns;
        if !self.due.is_empty() {
            self.forget_due(backend);
        }
    }

    #[cold]
    fn forget_due(&mut self, backend: u32) {
        self.due.retain(|&due| due != backend);
    }

    /// A use ended about which nothing is learnt.
    #[inline]
    pub(crate) fn end_use(&mut self, backend: u32) {
        self.end_uses(backend, 1);
    }

    /// So many uses ended about which nothing is learnt.
    #[inline]
    pub(crate) fn end_uses(&mut self, backend: u32, uses: usize) {
        self.loads[backend as usize].busy -= uses as u32;
    }

    /// A connection of the backend was lent for this long.
    pub(crate) fn note_use_time(&mut self, backend: u32, took: Duration) {
        Ewma::learn(&mut self.loads[backend as usize].use_time, took);
        if self.window == 0.0 {
            self.find_median();
        }
    }

    /// A successful use had this latency.
    pub(crate) fn learn(&mut self, now: Instant, backend: u32, took: Duration) {
        self.pass(now);
        let nanos = Ewma::learn(&mut self.loads[backend as usize].latency, took);
        if self.median == 0 {
            self.find_median();
        }
        let slower = match self.median {
            0 => 0.0,
            median => nanos.saturating_sub(median) as f32 / median.max(LEAST_MEDIAN) as f32,
        };
        let load = &mut self.loads[backend as usize];
        load.weigh(load.excess + (slower - load.excess) / 8.0, load.penalty);
    }

    /// A use failed: one more in a row, and perhaps a penalty.
    pub(crate) fn fail(&mut self, now: Instant, backend: u32, is_penalised: bool) {
        self.pass(now);
        (self.has_failures, self.is_changing) = (true, true);
        let load = &mut self.loads[backend as usize];
        load.failures = load.failures.saturating_add(1);
        load.weigh(load.excess, load.penalty + if is_penalised { FAILED_USE } else { 0.0 });
    }

    /// Whether a use of the backend was much shorter than most: it may have failed at once.
    pub(crate) fn is_short(&self, backend: u32, took: Duration) -> bool {
        self.loads[backend as usize].use_time.is_some_and(|usual| took < Duration::from_nanos(usual.nanos / SHORT))
    }

    /// A use succeeded.
    pub(crate) fn succeed(&mut self, backend: u32) {
        self.loads[backend as usize].failures = 0;
    }

    /// Forgets latency and penalty of a backend that has come back. Failed uses in a row are only ended by a successful use.
    pub(crate) fn begin_anew(&mut self, backend: u32) {
        // The backend gets its share from now on, without the picks that it has missed.
        let (picks, shares) = self
            .loads
            .iter()
            .filter(|load| self.is_picked(load))
            .fold((0.0, 0.0), |(picks, shares), load| (picks + load.picks, shares + load.share));
        let load = &mut self.loads[backend as usize];
        let was_used = load.latency.take().is_some() | load.use_time.take().is_some();
        load.weigh(0.0, 0.0);
        load.picked = self.tick;
        load.picks = if shares > 0.0 { load.share * picks / shares } else { 0.0 };
        if was_used {
            self.compare();
        }
    }

    /// A failing backend works again, as far as connects show: one use at once shows whether it still fails.
    pub(crate) fn try_at_once(&mut self, backend: u32) {
        if self.is_failing(backend) && !self.due.contains(&backend) {
            self.loads[backend as usize].picked = self.tick.wrapping_sub(UNPICKED_TICKS + 1);
            self.due.push(backend);
        }
    }

    /// A backend is new, or is back after a time in which it did not work.
    pub(crate) fn come_back(&mut self, now: Instant, backend: u32) {
        self.begin_anew(backend);
        self.try_at_once(backend);
        self.start_slowly(now, backend);
    }

    /// A backend is new, or is back: its share grows from now on, where that is asked for.
    pub(crate) fn start_slowly(&mut self, now: Instant, backend: u32) {
        if self.slow_start.is_some() {
            let load = &mut self.loads[backend as usize];
            load.started = Some(now);
            load.grow(now, self.slow_start);
            self.is_changing = true;
            self.compare();
        }
    }

    /// Whether the share of a backend still grows.
    pub(crate) fn starts_slowly(&self, backend: u32) -> bool {
        self.loads[backend as usize].started.is_some()
    }

    /// Whether backends were not picked for a second.
    #[inline]
    pub(crate) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The one of them that is to be picked next, of those that can be.
    pub(crate) fn take_due(&mut self, can_be: impl Fn(&Loads, u32) -> bool) -> Option<u32> {
        loop {
            let due = *self.due.last()?;
            if can_be(self, due) {
                return Some(due);
            }
            self.due.pop();
        }
    }

    pub(crate) fn is_due(&self, backend: u32) -> bool {
        self.due.contains(&backend)
    }

    /// Whether something is held against a backend, so that it is picked less often than its load says.
    pub(crate) fn is_penalised(&self, backend: u32) -> bool {
        let load = &self.loads[backend as usize];
        load.is_failing() || load.factor > ALIKE
    }

    /// The latency of this backend.
    pub(crate) fn typical_use(&self, backend: u32) -> Option<Duration> {
        self.loads[backend as usize].latency.map(|latency| Duration::from_nanos(latency.nanos))
    }

    /// The less loaded of two of several backends, drawn by weight.
    #[inline]
    pub(crate) fn less_loaded(&self, several: &[u32], random: &mut Random) -> u32 {
        let (first, second) =
            if self.uneven { self.two_by_weight(several, random) } else { random.two_below(several.len()) };
        let (one, other) = (&self.loads[several[first] as usize], &self.loads[several[second] as usize]);
        let (mut load_of_one, mut load_of_other) = (self.load(one), self.load(other));
        // Of equals each gets its share: that one was a little faster lately is no reason to leave the other without any.
        if one.factor > ALIKE * other.factor || other.factor > ALIKE * one.factor {
            load_of_one = (load_of_one + 1.0) * one.factor;
            load_of_other = (load_of_other + 1.0) * other.factor;
        }
        let is_less = load_of_other * one.share < load_of_one * other.share;
        several[if is_less { second } else { first }]
    }

    /// The least loaded of several backends without the one to avoid, unreliable ones last; of equals the one that was picked longest
    /// ago. Of very many it is the least loaded of some, drawn at random. Where weights differ, chance follows them: a backend without
    /// load is picked in proportion to its weight.
    pub(crate) fn least_loaded(
        &self,
        several: &[(impl Copy, u32)],
        avoid: Option<u32>,
        random: &mut Random,
    ) -> Option<u32> {
        if let [(_, only)] = several {
            return (Some(*only) != avoid).then_some(*only);
        }
        let share = |&(_, backend): &(_, u32)| self.loads[backend as usize].share;
        let first = share(several.first()?);
        let uneven = self.uneven && several.iter().any(|one| share(one) != first);
        let compared = if uneven { several.len() } else { several.len().min(MOST_COMPARED) };
        let start = if compared < several.len() { random.below(several.len()) } else { 0 };
        let (behind, ahead) = several.split_at(start);
        let compared = || ahead.iter().chain(behind).map(|one| one.1).filter(|one| Some(*one) != avoid).take(compared);
        let least = compared().map(|backend| self.loads[backend as usize].factor).fold(f32::INFINITY, f32::min);
        let mut best: Option<(Rank, u32)> = None;
        for backend in compared() {
            let load = &self.loads[backend as usize];
            let factor = if load.factor > ALIKE * least { load.factor } else { least };
            // The least of such numbers, each divided by a weight, belongs to a backend as often as its weight says.
            let spread = if uneven { -(1.0 - random.fraction()).ln() as f32 } else { 1.0 };
            let score = (self.load(load) + spread) * factor / load.share;
            let rank = (load.is_unreliable(), score, load.turn);
            if best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, backend));
            }
        }
        best.map(|(_, backend)| backend)
    }

    /// Two different places of `several`, drawn by weight.
    #[cold]
    fn two_by_weight(&self, several: &[u32], random: &mut Random) -> (usize, usize) {
        let share = |place: usize| self.loads[several[place] as usize].share;
        let mut draw = |without: Option<usize>| {
            let places = || (0..several.len()).filter(|&place| Some(place) != without);
            let mut left = random.fraction() as f32 * places().map(share).sum::<f32>();
            let drawn = places().find(|&place| {
                left -= share(place);
                left < 0.0
            });
            drawn.or_else(|| places().next_back()).unwrap_or(0)
        };
        let first = draw(None);
        (first, draw(Some(first)))
    }

    /// Whether it was picked within a second.
    fn is_picked(&self, load: &Load) -> bool {
        self.tick.wrapping_sub(load.picked) <= UNPICKED_TICKS
    }

    #[inline]
    fn load(&self, load: &Load) -> f32 {
        (load.picks * self.unscale).max(load.busy as f32)
    }
}

/// By what backends are compared: whether it is unreliable, its load, and the number of its last pick.
type Rank = (bool, f32, u64);

/// A moving mean that gives the latest value an eighth.
#[derive(Clone, Copy, Debug)]
struct Ewma {
    nanos: u64,
}

impl Ewma {
    /// Adds a value, and returns it in nanoseconds.
    fn learn(mean: &mut Option<Ewma>, took: Duration) -> u64 {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let mean = mean.get_or_insert(Ewma { nanos });
        mean.nanos = mean.nanos - mean.nanos / 8 + nanos / 8;
        nanos
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn loads(backends: u32) -> (Loads, Instant) {
        let now = Instant::now();
        let mut loads = Loads::new(None, now);
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
            for (backend, millis) in [(0, 10), (1, 13), (2, 19)] {
                loads.learn(now, backend, Duration::from_millis(millis));
            }
        }
        let chosen = chosen(&loads, &[0, 1, 2]);
        assert!(chosen.iter().all(|count| (850..1_150).contains(count)), "{chosen:?}");
    }

    #[test]
    fn delays_of_milliseconds_are_no_penalty_where_uses_take_less_than_one() {
        let (mut loads, now) = loads(3);
        for _ in 0..100 {
            for (backend, micros) in [(0, 80), (1, 80), (2, 4_000)] {
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
            for (backend, millis) in [(0, 1), (1, 10), (2, 10)] {
                loads.learn(now, backend, Duration::from_millis(millis));
            }
            loads.pass(now + SECOND);
        }
        assert_eq!((loads.median, loads.loads[0].latency.unwrap().nanos), (10_000_000, 1_000_000));
        let chosen = chosen(&loads, &[0, 1, 2]);
        assert!(chosen.iter().all(|count| (850..1_150).contains(count)), "{chosen:?}");
    }

    #[test]
    fn failing_backend_is_avoided_for_a_few_seconds() {
        let (mut loads, now) = loads(2);
        for _ in 0..10 {
            loads.fail(now, 0, true);
            loads.learn(now, 1, Duration::from_millis(1));
        }
        assert_eq!(loads.loads[0].factor, 1.0 + MAX_EXCESS);
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
        loads.fail(now, 0, true);
        assert_eq!((loads.typical_use(0), loads.loads[0].factor), (Some(quick), 1.0 + FAILED_USE));
        loads.fail(now, 0, true);
        loads.begin_anew(0);
        assert_eq!((loads.typical_use(0), loads.loads[0].factor), (None, 1.0), "as one that was never used");
    }

    #[test]
    fn new_sample_is_added_to_the_decayed_excess() {
        let (mut loads, now) = loads(2);
        let quick = Duration::from_millis(1);
        (0..100).for_each(|_| loads.learn(now, 1, quick));
        for _ in 0..100 {
            loads.learn(now, 0, quick * 1_000);
        }
        assert_eq!(loads.loads[0].factor, 1.0 + MAX_EXCESS);
        loads.pass(now + SECOND * 4);
        loads.learn(now + SECOND * 4, 0, quick);
        let expected = MAX_EXCESS / 4.0 * 7.0 / 8.0;
        assert!((loads.loads[0].excess - expected).abs() < 0.001, "{} is not {expected}", loads.loads[0].excess);
    }

    #[test]
    fn excess_halves_every_two_seconds_at_any_polling_interval() {
        for step in [1, 250, 1_000, 60_000] {
            let (mut loads, start) = loads(1);
            let last = start + Duration::from_millis(7_700);
            (0..3).for_each(|_| loads.fail(last, 0, true));
            for passed in (0..=60_000).step_by(step) {
                loads.pass(last + Duration::from_millis(passed));
                let after = |millis: u64| MAX_EXCESS * 0.5_f32.powf(millis as f32 / 2_000.0);
                let (least, most) = (after(passed + 1_000) * 0.999, after(passed.saturating_sub(1_000)) * 1.001);
                let excess = loads.loads[0].excess + loads.loads[0].penalty;
                assert!((least..=most).contains(&excess), "{excess} after {passed} ms");
            }
            loads.pass(last + Duration::from_secs(100_000_000));
            assert_eq!(loads.loads[0].factor, 1.0);
        }
    }

    #[test]
    fn of_two_backends_the_faster_one_is_the_median() {
        // One of three is not used at all.
        let (mut loads, now) = loads(3);
        for _ in 0..100 {
            loads.learn(now, 1, Duration::from_millis(100));
            loads.learn(now, 2, Duration::from_millis(10));
            loads.pass(now + SECOND * 2);
        }
        assert_eq!(loads.median, 10_000_000);
        assert!(loads.loads[1].factor > 1.0 + MAX_EXCESS * 0.9 && loads.loads[2].factor < 1.1);
    }

    /// How often each backend is picked when claims come this often and uses take so long.
    fn picked(loads: &mut Loads, start: Instant, every: Duration, takes: &[Duration], claims: u32) -> Vec<u32> {
        let several: Vec<u32> = (0..takes.len() as u32).collect();
        let (mut random, mut counts, mut lent) = (Random::new(1), vec![0; takes.len()], Vec::<(Instant, u32)>::new());
        for claim in 0..claims {
            let now = start + every * claim;
            // One use in five is timed, all others end without a look at the clock.
            lent.retain(|&(ends, backend)| {
                if ends <= now {
                    loads.end_use(backend);
                    if random.chance(0.2) {
                        loads.note_use_time(backend, takes[backend as usize]);
                    }
                }
                ends > now
            });
            if claim % 16 == 0 {
                loads.pass(now);
            }
            let backend = loads.less_loaded(&several, &mut random);
            loads.begin_use(backend);
            lent.push((now + takes[backend as usize], backend));
            counts[backend as usize] += 1;
        }
        counts
    }

    #[test]
    fn backends_whose_uses_end_at_once_are_not_preferred() {
        for at_once in 1..4 {
            for every in [100, 1_000, 5_000, 50_000].map(Duration::from_micros) {
                let (mut loads, now) = loads(4);
                let mut takes = [Duration::from_millis(10); 4];
                takes[..at_once].fill(Duration::ZERO);
                let counts = picked(&mut loads, now, every, &takes, 8_000);
                assert!(
                    counts.iter().all(|count| (1_800..2_200).contains(count)),
                    "{counts:?}, a claim every {every:?}"
                );
            }
        }
    }

    #[test]
    fn picks_are_shared_by_weight() {
        for every in [100, 5_000, 50_000].map(Duration::from_micros) {
            let (mut loads, now) = loads(3);
            for (backend, weight) in [(0, 1), (1, 3), (2, 6)] {
                loads.set_weight(now, backend, weight);
            }
            loads.compare();
            let counts = picked(&mut loads, now, every, &[Duration::from_millis(10); 3], 10_000);
            for (count, weight) in counts.iter().zip([1, 3, 6]) {
                assert!((900 * weight..1_150 * weight).contains(count), "{counts:?}, a claim every {every:?}");
            }
        }
    }

    #[test]
    fn backend_that_was_not_picked_for_a_second_is_due_until_it_is_picked() {
        let (mut loads, now) = loads(3);
        loads.set_worse(2, true);
        for passed in (0..=1_000).step_by(10) {
            loads.pass(now + Duration::from_millis(passed));
            loads.begin_use(1);
            assert!(!loads.has_due(), "after {passed} ms");
        }
        loads.pass(now + Duration::from_millis(1_250));
        assert!(loads.is_due(0) && !loads.is_due(1) && !loads.is_due(2));
        assert_eq!(loads.take_due(|_, backend| backend != 0), None, "it has no idle connection");
        loads.pass(now + Duration::from_millis(1_500));
        assert_eq!(loads.take_due(|_, _| true), Some(0));
        loads.begin_use(0);
        assert!(!loads.has_due());
    }

    fn least_loaded(loads: &Loads, several: &[(u8, u32)], avoid: Option<u32>) -> [u32; 3] {
        let (mut random, mut chosen) = (Random::new(1), [0; 3]);
        for _ in 0..3_000 {
            chosen[loads.least_loaded(several, avoid, &mut random).unwrap() as usize] += 1;
        }
        chosen
    }

    #[test]
    fn of_equally_loaded_backends_the_one_that_was_picked_longest_ago_is_next() {
        let (mut loads, mut random) = (loads(3).0, Random::new(1));
        let several = [0, 1, 2].map(|backend| ((), backend));
        let mut next = |loads: &mut Loads| {
            let backend = loads.least_loaded(&several, None, &mut random).unwrap();
            loads.begin_use(backend);
            loads.end_use(backend);
            backend
        };
        let picked: Vec<u32> = (0..6).map(|_| next(&mut loads)).collect();
        assert_eq!(picked, [0, 1, 2, 0, 1, 2]);
        loads.begin_use(0);
        assert_eq!([next(&mut loads), next(&mut loads), next(&mut loads)], [1, 2, 1], "a use is a load");
    }

    #[test]
    fn backends_without_load_are_chosen_by_weight_and_unreliable_ones_last() {
        let (mut loads, now) = loads(3);
        (0..3).for_each(|backend| loads.set_weight(now, backend, [1, 2, 3][backend as usize]));
        loads.compare();
        let several = [0, 1, 2].map(|backend| (0, backend));
        let chosen = least_loaded(&loads, &several, None);
        assert!(chosen.iter().zip([500, 1_000, 1_500]).all(|(count, share)| count.abs_diff(share) < 100), "{chosen:?}");
        assert_eq!(least_loaded(&loads, &several[..2], Some(1)), [3_000, 0, 0]);
        (0..2).for_each(|_| loads.fail(now, 2, true));
        assert_eq!(least_loaded(&loads, &several, None)[2], 0);
        assert_eq!(least_loaded(&loads, &several[2..], None)[2], 3_000);
    }

    #[test]
    fn share_of_a_new_backend_grows_over_the_slow_start() {
        let now = Instant::now();
        let mut loads = Loads::new(Some(SECOND * 10), now);
        (0..2).for_each(|backend| loads.add(backend));
        loads.start_slowly(now, 1);
        for (passed, expected) in [(0, 0.1), (5, 0.5), (9, 0.9), (11, 1.0)] {
            loads.pass(now + SECOND * passed);
            let share = loads.loads[1].share;
            assert!((share - expected).abs() < 0.05, "{share} after {passed} s");
        }
        loads.pass(now + SECOND * 12);
        assert!(!loads.uneven && loads.loads[1].started.is_none());
    }

    #[test]
    fn five_failed_uses_in_a_row_make_a_backend_failing_until_a_use_succeeds() {
        let (mut loads, now) = loads(1);
        for _ in 0..3 {
            (0..4).for_each(|_| loads.fail(now, 0, true));
            assert!(!loads.is_failing(0));
            loads.succeed(0);
        }
        (0..5).for_each(|_| loads.fail(now, 0, true));
        loads.begin_anew(0);
        assert!(loads.is_failing(0) && loads.is_aside(0), "a new connection proves nothing");
        assert!(!loads.is_due(0));
        loads.try_at_once(0);
        assert!(loads.is_due(0), "but it is worth a use");
        loads.succeed(0);
        assert!(!loads.is_aside(0));
    }
}
