//! Pick: which idle connection a claim gets, in constant time.
//!
//! Idle slots are kept in two orders at once, over the whole pool and inside their backend, both from the least to the
//! most recently used. [`Pick::LeastLoaded`] looks at two random backends and takes the less loaded one, which is nearly
//! as good as looking at all of them and keeps many clients from choosing the same one.

use crate::list::{Chain, Link, NONE};
use crate::random::Random;
use std::time::{Duration, Instant};

/// Which idle connection a claim gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// Of two random backends the one with the lower load (busy connections weighted by how long uses take, failed uses
    /// counting as slow); inside it the most recently used connection.
    #[default]
    LeastLoaded,
    /// The least recently used over the whole pool: every connection takes its turn.
    Fifo,
    /// The most recently used over the whole pool: few connections stay warm, the others can be released.
    Lifo,
}

/// A use that failed counts as one that took at least this long.
pub const FAILED_USE: Duration = Duration::from_secs(1);

/// A backend's load is believed half as much after each such period without a use, so that a slow one gets another chance.
const HALF_LIFE_SECONDS: u64 = 10;

/// Idle slots in order, and the load of the backends they belong to.
#[derive(Debug)]
pub(crate) struct Picker {
    pick: Pick,
    everywhere: Chain,
    everywhere_links: Vec<Link>,
    backend_links: Vec<Link>,
    owners: Vec<u32>,
    backends: Vec<Load>,
    /// Backends with an idle slot, in no order.
    ready: Vec<u32>,
    /// The least recently used of the slots that have not settled yet; all after it have not either.
    unsettled: u32,
    /// Mean use over all backends: what one that has not been used yet is assumed to take.
    typical: Ewma,
}

#[derive(Clone, Debug)]
struct Load {
    idle: Chain,
    /// Where it stands in `ready`.
    standing: u32,
    busy: u32,
    uses: Option<Ewma>,
    sampled: Instant,
}

impl Picker {
    pub(crate) fn new(pick: Pick) -> Picker {
        Picker {
            pick,
            everywhere: Chain::default(),
            everywhere_links: Vec::new(),
            backend_links: Vec::new(),
            owners: Vec::new(),
            backends: Vec::new(),
            ready: Vec::new(),
            unsettled: NONE,
            typical: Ewma::default(),
        }
    }

    /// Makes room for a backend's load, forgetting whoever had this index before.
    pub(crate) fn add_backend(&mut self, backend: u32, now: Instant) {
        let load = Load { idle: Chain::default(), standing: NONE, busy: 0, uses: None, sampled: now };
        match self.backends.get_mut(backend as usize) {
            Some(place) => *place = load,
            None => self.backends.push(load),
        }
    }

    /// A slot comes to rest after use.
    pub(crate) fn rest(&mut self, slot: u32, backend: u32) {
        self.make_room(slot, backend);
        self.everywhere.push_tail(&mut self.everywhere_links, slot);
        if self.unsettled == NONE {
            self.unsettled = slot;
        }
        let load = &mut self.backends[backend as usize];
        load.idle.push_tail(&mut self.backend_links, slot);
        self.stand_ready(backend);
    }

    /// A slot comes back that was not used: it rests behind all others, already settled, so that it can still idle out.
    pub(crate) fn rest_last(&mut self, slot: u32, backend: u32) {
        self.make_room(slot, backend);
        self.everywhere.push_head(&mut self.everywhere_links, slot);
        let load = &mut self.backends[backend as usize];
        load.idle.push_head(&mut self.backend_links, slot);
        self.stand_ready(backend);
    }

    /// Takes an idle slot out.
    pub(crate) fn remove(&mut self, slot: u32) {
        if self.unsettled == slot {
            self.unsettled = Chain::after(&self.everywhere_links, slot).unwrap_or(NONE);
        }
        self.everywhere.remove(&mut self.everywhere_links, slot);
        let backend = self.owners[slot as usize];
        let load = &mut self.backends[backend as usize];
        load.idle.remove(&mut self.backend_links, slot);
        if load.idle.head().is_none() {
            let standing = std::mem::replace(&mut load.standing, NONE);
            self.ready.swap_remove(standing as usize);
            if let Some(&moved) = self.ready.get(standing as usize) {
                self.backends[moved as usize].standing = standing;
            }
        }
    }

    /// Which idle slot the next claim gets; it is not taken out.
    pub(crate) fn choose(&self, now: Instant, random: &mut Random) -> Option<u32> {
        match self.pick {
            Pick::Fifo => self.everywhere.head(),
            Pick::Lifo => self.everywhere.tail(),
            Pick::LeastLoaded => {
                let backend = match self.ready.as_slice() {
                    [] => return None,
                    [only] => *only,
                    several => {
                        let first = random.below(several.len());
                        let second = random.below(several.len() - 1);
                        let (one, other) = (several[first], several[second + usize::from(second >= first)]);
                        if self.score(other, now) < self.score(one, now) { other } else { one }
                    }
                };
                self.backends[backend as usize].idle.tail()
            }
        }
    }

    /// A connection of the backend is in use from now on.
    pub(crate) fn begin_use(&mut self, backend: u32) {
        self.backends[backend as usize].busy += 1;
    }

    /// A use ended; `failed` ones count as slow.
    pub(crate) fn end_use(&mut self, now: Instant, backend: u32, took: Duration, failed: bool) {
        let took = if failed { took.max(FAILED_USE) } else { took };
        let nanos = took.as_nanos() as u64;
        self.typical.add(nanos);
        let load = &mut self.backends[backend as usize];
        load.busy -= 1;
        load.sampled = now;
        load.uses.get_or_insert(self.typical).add(nanos);
    }

    /// A use ended that says nothing about how long uses take.
    pub(crate) fn forget_use(&mut self, backend: u32) {
        self.backends[backend as usize].busy -= 1;
    }

    /// The slot that has rested longest without having settled.
    pub(crate) fn first_unsettled(&self) -> Option<u32> {
        (self.unsettled != NONE).then_some(self.unsettled)
    }

    /// That slot has settled.
    pub(crate) fn settle_first(&mut self) {
        if self.unsettled != NONE {
            self.unsettled = Chain::after(&self.everywhere_links, self.unsettled).unwrap_or(NONE);
        }
    }

    /// The idle slots of a backend, least recently used first.
    pub(crate) fn idle_of(&self, backend: u32) -> impl Iterator<Item = u32> + '_ {
        self.backends[backend as usize].idle.iter(&self.backend_links)
    }

    /// How long uses of this backend have taken lately.
    pub(crate) fn typical_use(&self, backend: u32) -> Option<Duration> {
        self.backends[backend as usize].uses.map(|uses| Duration::from_nanos(uses.nanos))
    }

    fn score(&self, backend: u32, now: Instant) -> u64 {
        let load = &self.backends[backend as usize];
        let believed = match load.uses {
            Some(uses) => {
                let halvings = now.saturating_duration_since(load.sampled).as_secs() / HALF_LIFE_SECONDS;
                uses.nanos.checked_shr(halvings as u32).unwrap_or(0)
            }
            None => self.typical.nanos,
        };
        believed.max(1).saturating_mul(u64::from(load.busy) + 1)
    }

    fn make_room(&mut self, slot: u32, backend: u32) {
        let needed = slot as usize + 1;
        if self.owners.len() < needed {
            self.owners.resize(needed, NONE);
            self.everywhere_links.resize(needed, Link::default());
            self.backend_links.resize(needed, Link::default());
        }
        self.owners[slot as usize] = backend;
    }

    fn stand_ready(&mut self, backend: u32) {
        let load = &mut self.backends[backend as usize];
        if load.standing == NONE {
            load.standing = self.ready.len() as u32;
            self.ready.push(backend);
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

    fn picker(pick: Pick, slots: &[(u32, u32)]) -> (Picker, Instant) {
        let (mut picker, now) = (Picker::new(pick), Instant::now());
        for backend in 0..=slots.iter().map(|(_, backend)| *backend).max().unwrap_or(0) {
            picker.add_backend(backend, now);
        }
        for &(slot, backend) in slots {
            picker.rest(slot, backend);
        }
        (picker, now)
    }

    #[test]
    fn fifo_takes_turns_and_lifo_stays_warm() {
        let mut random = Random::new(1);
        let (mut fifo, now) = picker(Pick::Fifo, &[(0, 0), (1, 1), (2, 0)]);
        let mut order = Vec::new();
        for _ in 0..6 {
            let slot = fifo.choose(now, &mut random).unwrap();
            let backend = fifo.owners[slot as usize];
            fifo.remove(slot);
            fifo.rest(slot, backend);
            order.push(slot);
        }
        assert_eq!(order, [0, 1, 2, 0, 1, 2]);
        let (lifo, now) = picker(Pick::Lifo, &[(0, 0), (1, 1), (2, 0)]);
        assert_eq!(lifo.choose(now, &mut random), Some(2));
    }

    #[test]
    fn the_less_loaded_backend_is_chosen_and_inside_it_the_warmest_slot() {
        let mut random = Random::new(1);
        let (mut picker, now) = picker(Pick::LeastLoaded, &[(0, 0), (1, 0), (2, 1), (3, 1)]);
        picker.begin_use(0);
        for _ in 0..20 {
            assert_eq!(picker.choose(now, &mut random), Some(3));
        }
    }

    #[test]
    fn a_failing_backend_looks_slow_not_fast_and_is_forgiven_with_time() {
        let mut random = Random::new(1);
        let (mut picker, now) = picker(Pick::LeastLoaded, &[(0, 0), (1, 1)]);
        for (backend, failed) in [(0, true), (1, false)] {
            for _ in 0..10 {
                picker.begin_use(backend);
                picker.end_use(now, backend, Duration::from_millis(1), failed);
            }
        }
        assert!((0..50).all(|_| picker.choose(now, &mut random) == Some(1)));
        let much_later = now + Duration::from_secs(1000);
        let chosen: Vec<_> = (0..50).map(|_| picker.choose(much_later, &mut random)).collect();
        assert!(chosen.contains(&Some(0)) && chosen.contains(&Some(1)));
    }

    #[test]
    fn backends_without_idle_slots_are_never_chosen() {
        let mut random = Random::new(1);
        let (mut picker, now) = picker(Pick::LeastLoaded, &[(0, 0), (1, 1), (2, 2)]);
        picker.remove(0);
        picker.remove(2);
        assert!((0..20).all(|_| picker.choose(now, &mut random) == Some(1)));
        picker.remove(1);
        assert_eq!(picker.choose(now, &mut random), None);
    }

    #[test]
    fn settling_goes_by_age_and_skips_what_was_taken() {
        let (mut picker, _) = picker(Pick::Fifo, &[(0, 0), (1, 0), (2, 0)]);
        picker.remove(0);
        assert_eq!(picker.first_unsettled(), Some(1));
        picker.settle_first();
        assert_eq!(picker.first_unsettled(), Some(2));
        picker.rest_last(0, 0);
        picker.settle_first();
        assert_eq!(picker.first_unsettled(), None);
        assert_eq!(picker.idle_of(0).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
