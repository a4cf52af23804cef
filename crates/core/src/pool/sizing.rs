//! How many connections, and to whom: the target, the floor under it, and carrying out the plan.

use super::tiers::Tier;
use super::{Machine, State as PoolState};
use crate::backends::{Doubt, Rest};
use crate::filter::LowPass;
use crate::idle::{self, Idleness};
use crate::options::OptionsError;
use crate::plan::{Have, Spread, plan, share};
use crate::slot::{Phase, Slot, SlotRef, State, Then};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

impl Machine {
    /// Changes how many connections are kept and how many there may be. Idle ones above a new maximum are closed now, lent
    /// ones as they come back.
    ///
    /// # Errors
    /// When the sizes make no sense; nothing is changed then.
    pub fn resize(&mut self, now: Instant, spares: usize, maximum: usize) -> Result<(), OptionsError> {
        self.options.refuse_size(spares, maximum)?;
        self.options.spares = spares;
        self.options.maximum = maximum;
        self.plan_soon();
        if self.counts.total() > maximum {
            // Nothing above it may be lent, not even before the driver's next turn.
            self.replan(now);
        }
        self.note_load(now);
        Ok(())
    }

    /// How many slots the present load asks for.
    pub fn target(&self) -> usize {
        // Suspects count as idle, but no claim that waits can have them.
        let suspects = if self.waiters.len() > 0 { self.counts.suspects() } else { 0 };
        let load = self.counts.of(Phase::Busy) + self.waiters.len() + self.options.spares.max(suspects);
        // A failed pool without load would not try backends that have replaced dead ones.
        let least = usize::from(self.state == PoolState::Failed);
        load.max(least).min(self.options.maximum)
    }

    /// How many slots are wanted: the target, or what the recent load still argues for.
    pub fn wanted(&self) -> usize {
        self.target().max(self.filter.floor()).min(self.options.maximum)
    }

    /// The load may have changed: if it outgrew the plan there must be a new one, and it must be sampled again. Constant
    /// time, on the path of every claim.
    pub(super) fn note_load(&mut self, now: Instant) {
        if self.target() > self.planned && !self.stale_plan && !self.is_closed() {
            self.plan_soon();
        }
        if self.sample_at.is_none() && !self.is_closed() {
            let at = now + LowPass::INTERVAL;
            self.sample_at = Some(at);
            self.due(at);
        }
    }

    pub(super) fn take_sample(&mut self, now: Instant) {
        if self.sample_at.is_none_or(|at| at > now) {
            return;
        }
        self.filter.sample((self.counts.of(Phase::Busy) + self.options.spares) as u32);
        // Once the whole window is the present load, further samples would change nothing. Whoever waits may leave without
        // a word, and what was planned for it would stay.
        let may_change = !self.filter.is_settled() || self.waiters.len() > 0;
        self.sample_at = may_change.then_some(now + LowPass::INTERVAL);
        if self.wanted() != self.planned {
            self.stale_plan = true;
        }
    }

    /// Makes the plan and carries it out. Linear in backends and the slots that change.
    pub(super) fn replan(&mut self, now: Instant) {
        self.stale_plan = false;
        if self.is_closed() {
            return;
        }
        self.counters.plans += 1;
        self.planned_at = Some(now);
        self.note_outage(now);
        self.planned = self.wanted();
        self.look_at = None;
        for slot in std::mem::take(&mut self.unwanted) {
            self.set_unwanted(slot, false);
        }
        self.rotate(now);
        let is_in = |index: &u32| !self.is_out(*index);
        let order: Vec<u32> = self.backends.order().iter().copied().filter(is_in).collect();
        self.doubt_hanging(now, &order);
        let serving = self.find_serving(&order);
        self.arrange_tiers(&order, serving);
        let is_planned = |&index: &u32| serving.is_some_and(|tier| self.is_planned(index, tier));
        let (mut order, others): (Vec<u32>, Vec<u32>) = order.into_iter().partition(is_planned);
        let have: Vec<Have> = order.iter().map(|&index| self.have(index)).collect();
        let (stalled, others): (Vec<u32>, Vec<u32>) =
            others.into_iter().partition(|&index| serving.is_some_and(|tier| self.is_kept_while_stalled(index, tier)));
        // Each stalled backend keeps a connection; what the others still have is surplus.
        let kept = stalled.len().min(self.options.maximum - 1);
        let maximum = self.options.maximum - kept;
        let mut plan = plan(&have, self.planned, maximum, Spread::Even);
        self.spare_the_strained(now, maximum, &order, &have, &mut plan.want);
        order.extend(stalled);
        plan.want.resize(have.len() + kept, 1);
        order.extend(others);
        plan.want.resize(order.len(), 0);
        let probed = self.probed(&order, &plan.want, serving);
        self.arrange_probes(now, &probed);
        let have: Vec<Have> = order.iter().map(|&index| self.have(index)).collect();
        let mut removals: Vec<(usize, usize)> = plan.removals(&have).collect();
        // A worse tier makes room first.
        removals.sort_by_key(|&(place, _)| Reverse(self.backends.get(order[place]).backend.priority()));
        let additions: Vec<u32> = plan.additions(&have).map(|place| order[place]).collect();

        let mut surplus = Surplus::default();
        for (place, many) in removals {
            self.shed(now, order[place], many, &mut surplus);
        }
        let slots = self.counts.total();
        let room = self.options.maximum.saturating_sub(slots);
        let leaving: usize = self.backends.order().iter().map(|&index| self.leaving(index)).sum();
        let short = (slots + additions.len()).saturating_sub(self.options.maximum + leaving);
        let above = slots.saturating_sub(self.options.maximum + leaving);
        let displaced = serving.map_or(usize::MAX, |tier| tier.may_displace(room + leaving));
        let short = short.min(above.saturating_add(displaced));
        self.make_room(now, above, short, surplus);
        self.make_room_for_waiters(now);
        let mut left = room;
        for backend in additions {
            if left == 0 {
                break;
            }
            if self.is_held_off(now, backend) {
                continue;
            }
            left -= 1;
            if self.may_change(now, backend) && !self.turn_probe_into_slot(backend) {
                self.add_slot(now, backend, false);
            }
        }
        let probed: BTreeSet<u32> = probed.into_iter().collect();
        for index in order.into_iter().filter(|index| !probed.contains(index)) {
            self.stop_probes(now, index);
        }
        self.give_probes_turns(now);
        self.follow_suspects(now);
        // What was closed here asks for a plan of its own when it has ended.
        self.stale_plan = false;
        // A worse tier whose deaths were forgiven counts as healthy from now on.
        if self.backends.panic_is_stale(self.options.ejection.as_ref()) {
            self.replan(now);
        }
    }

    /// Whether the plan covers a backend in rotation while this tier serves.
    fn is_planned(&self, index: u32, serving: Tier) -> bool {
        let is_in_tier = self.backends.get(index).backend.priority() == serving.priority;
        is_in_tier && !self.is_probed(index, Some(serving)) && !self.is_set_aside_as_stalled(index)
    }

    /// Whether a backend that the plan does not cover, since it is stalled, has a connection, of which one is kept.
    fn is_kept_while_stalled(&self, index: u32, serving: Tier) -> bool {
        let record = self.backends.get(index);
        let is_in_tier = record.backend.priority() == serving.priority;
        is_in_tier && record.counts.working() > 0 && self.is_set_aside_as_stalled(index)
    }

    fn have(&self, index: u32) -> Have {
        let record = self.backends.get(index);
        Have { slots: record.counts.total() - self.leaving(index), weight: record.backend.weight() }
    }

    /// Slots of a backend that are ending for good.
    fn leaving(&self, index: u32) -> usize {
        let record = self.backends.get(index);
        if record.counts.of(Phase::Closing) == 0 {
            return 0;
        }
        let leaves = |&&slot: &&u32| {
            let Slot { probe, state, .. } = &self.slots[slot as usize];
            !probe && matches!(state, State::Closing { then: Then::Gone, .. })
        };
        record.slots.iter().filter(leaves).count()
    }

    /// Backends that work, but at which further connects hang or fail, get no more slots than they can use. The others take
    /// over what the plan had for them, and make up for the slots that only try as far as the maximum allows.
    fn spare_the_strained(&mut self, now: Instant, maximum: usize, order: &[u32], have: &[Have], want: &mut [usize]) {
        let is_undoubted = |&index: &u32| self.backends.get(index).health.doubt() == Some(Doubt::None);
        let one_is_undoubted = order.iter().any(is_undoubted);
        let strains: Vec<Strain> = order.iter().map(|&index| self.strain(now, index, one_is_undoubted)).collect();
        let takers: Vec<usize> = (0..order.len()).filter(|&place| strains[place] == Strain::None).collect();
        let planned: usize = want.iter().sum();
        let (mut excess, mut trying) = (0, 0);
        for (place, strain) in strains.iter().enumerate() {
            let most = match *strain {
                Strain::Rests(Rest { until, most }) if want[place] > most => {
                    self.look_again(until);
                    most
                }
                // Nobody could use the room: what is under way may go on.
                Strain::Tries { holds, under_way, .. } if want[place] > holds && takers.is_empty() => {
                    holds + under_way.min(want[place] - holds)
                }
                Strain::Tries { holds, under_way, fails } if want[place] > holds => {
                    let all = if fails { 1 } else { under_way.min(want[place] - holds) };
                    let tries = if planned + trying + all <= maximum { all } else { 1 };
                    trying += tries;
                    holds + tries
                }
                Strain::None | Strain::Rests(_) | Strain::Tries { .. } => continue,
            };
            excess += want[place] - most;
            want[place] = most;
        }
        if takers.is_empty() {
            return;
        }
        excess += trying.min(maximum.saturating_sub(planned));
        let shares = share(takers.iter().map(|&place| have[place].weight), excess);
        for (place, share) in takers.into_iter().zip(shares) {
            want[place] += share;
        }
    }

    fn strain(&self, now: Instant, index: u32, one_is_undoubted: bool) -> Strain {
        let record = self.backends.get(index);
        let working = record.counts.working();
        if working == 0 {
            return Strain::None;
        }
        let under_way = record.counts.of(Phase::Connecting).max(1);
        match (record.health.rest(), record.health.doubt()) {
            (Some(rest), _) if rest.until > now => Strain::Rests(Rest { most: working.max(rest.most), ..rest }),
            // It has rested: one sees whether there is room for more.
            (Some(rest), _) => Strain::Tries { holds: working.max(rest.most), under_way: 1, fails: true },
            (None, Some(Doubt::Failing)) => Strain::Tries { holds: working, under_way, fails: true },
            // What it is slow with may well succeed; that matters only where another is not slow.
            (None, Some(Doubt::Slow)) if one_is_undoubted => Strain::Tries { holds: working, under_way, fails: false },
            (None, Some(Doubt::Slow | Doubt::None) | None) => Strain::None,
        }
    }

    /// Takes slots from a backend. What is not connected stops at once; idle connections have their time to idle out, and
    /// what is lent is left alone, unless the room is needed.
    fn shed(&mut self, now: Instant, backend: u32, mut many: usize, surplus: &mut Surplus) {
        for phase in [Phase::Held, Phase::Backoff, Phase::Closing, Phase::Connecting] {
            if many == 0 || self.backends.get(backend).counts.of(phase) == 0 {
                continue;
            }
            for index in self.backends.get(backend).slots.clone() {
                let Slot { probe, ref state, .. } = self.slots[index as usize];
                let leaves_anyway = probe || matches!(state, State::Closing { then: Then::Gone, .. });
                if many > 0 && state.phase() == Some(phase) && !leaves_anyway {
                    self.stop(now, index);
                    many -= 1;
                }
            }
        }
        let unused = self.unused_of(backend, many);
        many -= unused.len();
        for index in unused {
            if self.is_before_release(now, index) && self.may_change(now, backend) {
                self.stop(now, index);
            } else {
                surplus.unused.push(index);
            }
        }
        if many > 0 {
            let slots = self.backends.get(backend).slots.iter();
            let busy = slots.filter(|&&index| matches!(self.slots[index as usize].state, State::Busy { .. }));
            surplus.busy.extend(busy.take(many).map(|&index| self.slot_ref(index)));
        }
    }

    /// So many connections of a backend that nobody uses, the least recently used first, then those that are being checked.
    fn unused_of(&self, backend: u32, many: usize) -> Vec<u32> {
        if many == 0 {
            return Vec::new();
        }
        let slots = &self.backends.get(backend).slots;
        let is_checked = |&&index: &&u32| matches!(self.slots[index as usize].state, State::Checking { .. });
        let checked = slots.iter().filter(is_checked).copied();
        match self.picker.idle_of(backend) {
            Some(idle) => idle.chain(checked).take(many).collect(),
            // Idle slots are in one order for all backends, which may be long: its own are sorted instead.
            None => {
                let last_use = |&index: &u32| match self.slots[index as usize].state {
                    State::Idle { last_used, .. } => Some((last_used, index)),
                    State::Gone
                    | State::Held { .. }
                    | State::Connecting { .. }
                    | State::Backoff { .. }
                    | State::Busy { .. }
                    | State::Checking { .. }
                    | State::Closing { .. } => None,
                };
                let mut idle: Vec<(Instant, u32)> = slots.iter().filter_map(last_use).collect();
                idle.sort_unstable();
                idle.into_iter().map(|(_, index)| index).chain(checked).take(many).collect()
            }
        }
    }

    /// The detector's look at a surplus connection: whether its time has come.
    fn is_before_release(&mut self, now: Instant, index: u32) -> bool {
        let Some(max_idle) = self.options.max_idle else { return false };
        match &mut self.slots[index as usize].state {
            State::Idle { last_used, idleness, .. } => {
                // Marked and due may fall into one look: it has been idle since its last use, not since the mark.
                idleness.look(now, Some(*last_used), max_idle);
                idleness.look(now, Some(*last_used), max_idle);
                matches!(idleness, Idleness::BeforeRelease { .. })
            }
            State::Checking { last_used, .. } => now.saturating_duration_since(*last_used) >= max_idle,
            State::Gone
            | State::Held { .. }
            | State::Connecting { .. }
            | State::Backoff { .. }
            | State::Busy { .. }
            | State::Closing { .. } => false,
        }
    }

    /// Closes surplus connections that are above the maximum, or for which something better is waiting; lent ones when they
    /// come back.
    fn make_room(&mut self, now: Instant, above: usize, short: usize, surplus: Surplus) {
        let now_closed = surplus.unused.len().min(short);
        for (count, &index) in surplus.unused[..now_closed].iter().enumerate() {
            // The maximum is a bound; only what changes below it can take its time.
            if count < above || self.may_change(now, self.slots[index as usize].backend) {
                self.stop(now, index);
            }
        }
        for &slot in surplus.busy.iter().take(short - now_closed) {
            self.set_unwanted(slot, true);
            self.unwanted.push(slot);
        }
        if surplus.unused.len() > now_closed
            && let Some(max_idle) = self.options.max_idle
        {
            self.look_again(now + idle::interval(max_idle));
        }
    }

    /// Whether a connection may be added to a backend, or taken from it, now; if not, the plan is made again when it may.
    pub(super) fn may_change(&mut self, now: Instant, backend: u32) -> bool {
        let Some(churn) = self.options.churn_per_second else { return true };
        let record = self.backends.get_mut(backend);
        let next = record.changed_at.map(|at| at + Duration::from_secs_f64(1.0 / churn));
        match next {
            Some(next) if next > now => {
                self.look_again(next);
                false
            }
            Some(_) | None => {
                record.changed_at = Some(now);
                true
            }
        }
    }

    pub(super) fn look_again(&mut self, at: Instant) {
        let at = self.look_at.map_or(at, |earlier| earlier.min(at));
        self.look_at = Some(at);
        self.due(at);
    }

    fn set_unwanted(&mut self, slot: SlotRef, value: bool) {
        if self.is_current(slot)
            && let State::Busy { unwanted, .. } = &mut self.slots[slot.index()].state
        {
            *unwanted = value;
        }
    }
}

/// What keeps a backend that works from having more connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strain {
    None,
    /// It refused more of them; until then it keeps what it has.
    Rests(Rest),
    /// An attempt hangs or has failed, or it has rested: it gets what it can hold, and one slot to try, or those that try
    /// already if others can make up for them or there are no others.
    Tries {
        holds: usize,
        under_way: usize,
        fails: bool,
    },
}

/// Connections beyond the plan, those of the worst tier and in it of the least preferred backends first.
#[derive(Default)]
struct Surplus {
    unused: Vec<u32>,
    busy: Vec<SlotRef>,
}
