//! Pick: which idle connection a claim gets, in constant time.
//!
//! Idle slots are kept in order of use, for each backend or for the whole pool. [`Pick::LeastLoaded`] draws two backends and
//! takes the less loaded one, which is nearly as good as looking at all of them and keeps many clients from choosing the same
//! one. Where weights differ, drawing is linear in the backends that have an idle connection.

mod load;

pub(crate) use load::Loads;

use crate::list::{Chain, Link, NONE};
use crate::random::Random;
use std::time::{Duration, Instant};

/// Which idle connection a claim gets.
///
/// Whatever is chosen by, connections to backends of a worse priority than the one that serves come last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pick {
    /// Draws two backends with an idle connection, by weight, and takes the one with the lower load; inside it the most
    /// recently used connection.
    ///
    /// - The load is the number of busy connections, or of picks within the last use time if that is larger, by weight. So a
    ///   backend whose uses end at once because they fail is not preferred.
    /// - Latency is a penalty, never a reward. The load counts up to six times as much for a backend that is slower than the
    ///   median of all backends or that failed uses, where that makes a difference of more than a factor of two. The penalty
    ///   halves every two seconds. Where the median is less than 5 ms, latencies are compared with 5 ms.
    /// - A backend that failed more than one use lately is not picked while another comes back soon: uses take no more than 100 ms on
    ///   average, and fewer claims wait than other connections are in use.
    /// - A backend whose last 5 uses failed is left out until a use succeeds, while another can serve: waiting claims do not get
    ///   its connections either. Failures are those that are reported, and failed validations. Without them a pool with waiting
    ///   claims hands connections over in the order in which they come back, and uses that fail at once look fast: where half of
    ///   the backends or more do that, the others look slow.
    /// - A backend with an idle connection that was not picked for a second is picked next, whatever its load. So one that has
    ///   recovered is noticed, and gets its share again within five seconds.
    #[default]
    LeastLoaded,
    /// The least recently used over the whole pool: every connection takes its turn. Load, latency and failures do not matter.
    Fifo,
    /// The most recently used over the whole pool: few connections stay warm, the others can be released. Load, latency and
    /// failures do not matter, so without [ejection](crate::ejection) a backend whose uses fail at once gets most of the claims.
    Lifo,
}

/// Idle slots in order, and the load of the backends they belong to.
///
/// Slots that have just come to rest are unsettled: they may be lent again in a moment, so nothing is spent on them. They
/// are dated by generation, not by the clock: one that is still there when two generations have begun has idled for at
/// least one of them.
#[derive(Debug)]
pub(crate) struct Picker {
    pick: Pick,
    nodes: Vec<Node>,
    links: Vec<Link>,
    groups: Vec<Group>,
    /// Groups with an idle slot, in no order.
    ready: Vec<u32>,
    /// Those of them that are set aside.
    ready_aside: Vec<u32>,
    pub(crate) loads: Loads,
    generation: u32,
    unsettled: usize,
}

/// The generation of a slot that has settled.
const SETTLED: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    backend: u32,
    generation: u32,
}

/// Idle slots in one order, from the least to the most recently used: one group per backend, or one for the whole pool.
#[derive(Clone, Copy, Debug)]
struct Group {
    idle: Chain,
    /// The first slot that has not settled; none after it has.
    unsettled: u32,
    /// Where it stands in `ready`, or in `ready_aside`.
    standing: u32,
}

impl Picker {
    pub(crate) fn new(pick: Pick, slow_start: Option<Duration>, now: Instant) -> Picker {
        Picker {
            pick,
            nodes: Vec::new(),
            links: Vec::new(),
            groups: Vec::new(),
            ready: Vec::new(),
            ready_aside: Vec::new(),
            loads: Loads::new(slow_start, now),
            generation: 0,
            unsettled: 0,
        }
    }

    /// Makes room for a backend, forgetting the load of whoever had this index before.
    pub(crate) fn add_backend(&mut self, backend: u32) {
        self.loads.add(backend);
        let groups = self.group_of(backend) as usize + 1;
        if self.groups.len() < groups {
            self.groups.resize(groups, Group { idle: Chain::default(), unsettled: NONE, standing: NONE });
        }
    }

    /// Whether a backend's tier is worse than the one that serves: its idle slots are for when no other has one. Constant time.
    pub(crate) fn set_worse(&mut self, backend: u32, is_worse: bool) {
        self.change(backend, |loads| loads.set_worse(backend, is_worse));
    }

    /// A use of a backend failed. When too many have in a row, its idle slots are for when no other has one.
    pub(crate) fn fail(&mut self, now: Instant, backend: u32, is_penalised: bool) {
        self.change(backend, |loads| loads.fail(now, backend, is_penalised));
    }

    /// A use of a backend succeeded. True if it was failing.
    pub(crate) fn succeed(&mut self, backend: u32) -> bool {
        let was_failing = self.is_failing(backend);
        if self.loads.has_failed(backend) {
            self.change(backend, |loads| loads.succeed(backend));
        }
        was_failing
    }

    /// Whether uses of a backend fail, so that it is only tried once a second while another can serve. Where idle slots are in
    /// one order for all backends, none is left out.
    #[inline]
    pub(crate) fn is_failing(&self, backend: u32) -> bool {
        self.pick == Pick::LeastLoaded && self.loads.is_failing(backend)
    }

    /// Whether more than one use of a backend failed lately: it is not picked while another is soon free.
    #[inline]
    pub(crate) fn is_unreliable(&self, backend: u32) -> bool {
        self.pick == Pick::LeastLoaded && self.loads.is_unreliable(backend)
    }

    /// Changes the load of a backend, and moves it if it is set aside now, or is not any more.
    fn change(&mut self, backend: u32, change: impl FnOnce(&mut Loads)) {
        let was_aside = self.loads.is_aside(backend);
        change(&mut self.loads);
        let group = self.group_of(backend);
        let standing = self.groups[group as usize].standing;
        if self.pick == Pick::LeastLoaded && standing != NONE && self.loads.is_aside(backend) != was_aside {
            self.stand_down(was_aside, standing);
            self.groups[group as usize].standing = NONE;
            self.stand_ready(group);
        }
    }

    /// A slot comes to rest after use.
    #[inline]
    pub(crate) fn rest(&mut self, slot: u32, backend: u32) {
        self.place(slot, Node { backend, generation: self.generation });
        let index = self.group_of(backend);
        let group = &mut self.groups[index as usize];
        group.idle.push_tail(&mut self.links, slot);
        if group.unsettled == NONE {
            group.unsettled = slot;
        }
        self.unsettled += 1;
        self.stand_ready(index);
    }

    /// A slot comes back that was not used: it rests behind all others, already settled, so that it can still idle out.
    pub(crate) fn rest_last(&mut self, slot: u32, backend: u32) {
        self.place(slot, Node { backend, generation: SETTLED });
        let index = self.group_of(backend);
        self.groups[index as usize].idle.push_head(&mut self.links, slot);
        self.stand_ready(index);
    }

    /// Takes an idle slot out.
    #[inline]
    pub(crate) fn remove(&mut self, slot: u32) {
        let Node { backend, generation } = self.nodes[slot as usize];
        let index = self.group_of(backend);
        let group = &mut self.groups[index as usize];
        if generation != SETTLED {
            self.unsettled -= 1;
            if group.unsettled == slot {
                group.unsettled = Chain::after(&self.links, slot).unwrap_or(NONE);
            }
        }
        group.idle.remove(&mut self.links, slot);
        if group.idle.head().is_none() {
            let standing = std::mem::replace(&mut group.standing, NONE);
            self.stand_down(self.is_aside(index), standing);
        }
    }

    /// Which idle slot the next claim gets; it is not taken out.
    pub(crate) fn choose(&mut self, random: &mut Random) -> Option<u32> {
        let group = match self.ready.as_slice() {
            _ if self.pick == Pick::LeastLoaded && self.loads.has_due() => self.choose_due(random)?,
            [] => self.choose_aside(random)?,
            [only] => *only,
            // Several are ready only where each is a backend's.
            several => self.loads.less_loaded(several, random),
        };
        self.first_of(group)
    }

    #[inline]
    fn first_of(&self, group: u32) -> Option<u32> {
        let idle = &self.groups[group as usize].idle;
        let first = match self.pick {
            Pick::LeastLoaded | Pick::Lifo => idle.tail(),
            Pick::Fifo => idle.head(),
        };
        match first {
            Some(slot) if self.pick != Pick::LeastLoaded && self.serves_last(slot) => {
                self.find_in_order(|slot| !self.serves_last(slot)).or(first)
            }
            Some(_) | None => first,
        }
    }

    /// A backend that was not picked for a second is next.
    #[cold]
    fn choose_due(&mut self, random: &mut Random) -> Option<u32> {
        let groups = &self.groups;
        let due = self.loads.take_due(|_, backend| groups[backend as usize].standing != NONE);
        due.or_else(|| self.less_loaded_of(&self.ready, random)).or_else(|| self.choose_aside(random))
    }

    /// Of those that are set aside, failing ones come last.
    #[cold]
    fn choose_aside(&self, random: &mut Random) -> Option<u32> {
        let sound: Vec<u32> = self.ready_aside.iter().copied().filter(|&backend| !self.is_failing(backend)).collect();
        self.less_loaded_of(&sound, random).or_else(|| self.less_loaded_of(&self.ready_aside, random))
    }

    fn less_loaded_of(&self, backends: &[u32], random: &mut Random) -> Option<u32> {
        match backends {
            [] => None,
            [only] => Some(*only),
            several => Some(self.loads.less_loaded(several, random)),
        }
    }

    /// The same, but none of these backends'. Where idle slots are in one order, those of the backends are walked over.
    pub(crate) fn choose_avoiding(&self, avoids: impl Fn(u32) -> bool, random: &mut Random) -> Option<u32> {
        let is_other = |slot: u32| !avoids(self.nodes[slot as usize].backend);
        match self.pick {
            Pick::LeastLoaded => {
                let of =
                    |ready: &[u32]| -> Vec<u32> { ready.iter().copied().filter(|&backend| !avoids(backend)).collect() };
                let ready = self.less_loaded_of(&of(&self.ready), random);
                let group = ready.or_else(|| self.less_loaded_of(&of(&self.ready_aside), random))?;
                self.groups[group as usize].idle.tail()
            }
            Pick::Fifo | Pick::Lifo => {
                let preferred = self.find_in_order(|slot| is_other(slot) && !self.serves_last(slot));
                preferred.or_else(|| self.find_in_order(is_other))
            }
        }
    }

    /// Whether a slot is idle that is not set aside, and no use failed lately.
    #[inline]
    pub(crate) fn has_sound(&self) -> bool {
        !self.ready.is_empty() && !self.loads.has_failures()
    }

    pub(crate) fn has_idle(&self) -> bool {
        !self.ready.is_empty() || !self.ready_aside.is_empty()
    }

    /// The backends with an idle slot, if all of them may be failing.
    pub(crate) fn only_failing(&self) -> Option<impl Iterator<Item = u32> + '_> {
        self.ready.is_empty().then(|| self.ready_aside.iter().copied())
    }

    /// Whether it matters how long uses take.
    #[inline]
    pub(crate) fn is_curious(&self) -> bool {
        self.pick == Pick::LeastLoaded && self.loads.len() > 1
    }

    pub(crate) fn has_unsettled(&self) -> bool {
        self.unsettled > 0
    }

    /// Begins the next generation. The slots that rested before the present one have settled.
    pub(crate) fn begin_generation(&mut self) -> Vec<u32> {
        let mut settled = Vec::new();
        for &index in self.ready.iter().chain(&self.ready_aside) {
            let group = &mut self.groups[index as usize];
            while group.unsettled != NONE {
                let slot = group.unsettled;
                let node = &mut self.nodes[slot as usize];
                if node.generation == self.generation {
                    break;
                }
                node.generation = SETTLED;
                group.unsettled = Chain::after(&self.links, slot).unwrap_or(NONE);
                settled.push(slot);
            }
        }
        self.unsettled -= settled.len();
        self.generation = if self.generation + 1 == SETTLED { 0 } else { self.generation + 1 };
        settled
    }

    /// The idle slots of a backend, least recently used first, where each backend has an order of its own.
    pub(crate) fn idle_of(&self, backend: u32) -> Option<impl Iterator<Item = u32> + '_> {
        match self.pick {
            Pick::LeastLoaded => Some(self.groups[backend as usize].idle.iter(&self.links)),
            Pick::Fifo | Pick::Lifo => None,
        }
    }

    #[inline]
    fn group_of(&self, backend: u32) -> u32 {
        match self.pick {
            Pick::LeastLoaded => backend,
            Pick::Fifo | Pick::Lifo => 0,
        }
    }

    /// Whether a slot's backend is of a worse tier.
    #[inline]
    fn serves_last(&self, slot: u32) -> bool {
        self.loads.is_worse(self.nodes[slot as usize].backend)
    }

    /// Where idle slots are in one order, those that are not wanted are walked over.
    fn find_in_order(&self, is_wanted: impl Fn(u32) -> bool) -> Option<u32> {
        let mut wanted = self.groups.first()?.idle.iter(&self.links).filter(|&slot| is_wanted(slot));
        match self.pick {
            Pick::Fifo => wanted.next(),
            Pick::LeastLoaded | Pick::Lifo => wanted.last(),
        }
    }

    #[inline]
    fn place(&mut self, slot: u32, node: Node) {
        if let Some(place) = self.nodes.get_mut(slot as usize) {
            *place = node;
        } else {
            self.nodes.resize(slot as usize + 1, node);
            self.links.resize(slot as usize + 1, Link::default());
        }
    }

    #[inline]
    fn stand_ready(&mut self, index: u32) {
        if self.groups[index as usize].standing == NONE {
            let list = if self.is_aside(index) { &mut self.ready_aside } else { &mut self.ready };
            self.groups[index as usize].standing = list.len() as u32;
            list.push(index);
        }
    }

    #[inline]
    fn stand_down(&mut self, aside: bool, standing: u32) {
        let list = if aside { &mut self.ready_aside } else { &mut self.ready };
        list.swap_remove(standing as usize);
        if let Some(&moved) = list.get(standing as usize) {
            self.groups[moved as usize].standing = standing;
        }
    }

    /// Whether a group is a backend's that is set aside.
    #[inline]
    fn is_aside(&self, group: u32) -> bool {
        self.pick == Pick::LeastLoaded && self.loads.is_aside(group)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    fn picker(pick: Pick, slots: &[(u32, u32)]) -> (Picker, Instant) {
        let now = Instant::now();
        let mut picker = Picker::new(pick, None, now);
        for backend in 0..=slots.iter().map(|(_, backend)| *backend).max().unwrap_or(0) {
            picker.add_backend(backend);
        }
        for &(slot, backend) in slots {
            picker.rest(slot, backend);
        }
        (picker, now)
    }

    #[test]
    fn fifo_takes_turns_and_lifo_stays_warm() {
        let mut random = Random::new(1);
        let (mut fifo, _) = picker(Pick::Fifo, &[(0, 0), (1, 1), (2, 0)]);
        let mut order = Vec::new();
        for _ in 0..6 {
            let slot = fifo.choose(&mut random).unwrap();
            let backend = fifo.nodes[slot as usize].backend;
            fifo.remove(slot);
            fifo.rest(slot, backend);
            order.push(slot);
        }
        assert_eq!(order, [0, 1, 2, 0, 1, 2]);
        let (mut lifo, _) = picker(Pick::Lifo, &[(0, 0), (1, 1), (2, 0)]);
        assert_eq!(lifo.choose(&mut random), Some(2));
    }

    #[test]
    fn the_less_loaded_backend_is_chosen_and_inside_it_the_warmest_slot() {
        let mut random = Random::new(1);
        let (mut picker, _) = picker(Pick::LeastLoaded, &[(0, 0), (1, 0), (2, 1), (3, 1)]);
        picker.loads.begin_use(0);
        for _ in 0..20 {
            assert_eq!(picker.choose(&mut random), Some(3));
        }
    }

    #[test]
    fn backends_without_idle_slots_are_never_chosen() {
        let mut random = Random::new(1);
        let (mut picker, _) = picker(Pick::LeastLoaded, &[(0, 0), (1, 1), (2, 2)]);
        picker.remove(0);
        picker.remove(2);
        assert!((0..20).all(|_| picker.choose(&mut random) == Some(1)));
        picker.remove(1);
        assert_eq!(picker.choose(&mut random), None);
    }

    #[test]
    fn what_is_set_aside_comes_last() {
        let mut random = Random::new(1);
        for pick in [Pick::LeastLoaded, Pick::Fifo, Pick::Lifo] {
            let (mut picker, _) = picker(pick, &[(0, 0), (1, 1), (2, 0), (3, 2), (4, 0)]);
            let mut choose =
                |picker: &mut Picker| -> Vec<Option<u32>> { (0..20).map(|_| picker.choose(&mut random)).collect() };
            picker.set_worse(0, true);
            picker.set_worse(2, true);
            assert!(choose(&mut picker).iter().all(|&slot| slot == Some(1)), "{pick:?}");
            assert!(picker.choose_avoiding(|backend| backend == 1, &mut Random::new(1)).is_some(), "{pick:?}");
            picker.remove(1);
            assert!(choose(&mut picker).iter().all(|&slot| slot.is_some() && slot != Some(1)), "{pick:?}");
            picker.set_worse(2, false);
            assert!(choose(&mut picker).iter().all(|&slot| slot == Some(3)), "{pick:?}");
            (0..5).filter(|&slot| slot != 1).for_each(|slot| picker.remove(slot));
            assert!(!picker.has_idle(), "{pick:?}");
        }
    }

    #[test]
    fn settling_takes_more_than_one_generation_and_skips_what_was_taken() {
        for pick in [Pick::Fifo, Pick::LeastLoaded] {
            let (mut picker, _) = picker(pick, &[(0, 0), (1, 0), (2, 1)]);
            assert_eq!(picker.begin_generation(), [] as [u32; 0]);
            picker.remove(0);
            picker.rest(0, 0);
            assert_eq!(picker.begin_generation(), [1, 2]);
            assert_eq!([0, 1].map(|slot| picker.nodes[slot].generation == SETTLED), [false, true]);
            picker.remove(1);
            picker.rest_last(1, 0);
            assert_eq!(picker.begin_generation(), [0]);
            assert!(!picker.has_unsettled());
            let order: Vec<u32> = picker.groups[0].idle.iter(&picker.links).filter(|&slot| slot != 2).collect();
            assert_eq!(order, [1, 0]);
        }
    }
}
