//! The plan: how many slots each backend shall have.
//!
//! A pool knows how many slots it wants in all, and which backends it prefers; something has to turn that into "one
//! more here, two fewer there". Doing it in one pure function, away from slots that connect, fail and drain, is what
//! makes the answer testable and keeps rebalancing calm: a plan depends only on the preference order, on priorities and
//! weights, on which backends are dead and on two numbers, so applying it and planning again changes nothing.
//!
//! # Equal backends
//!
//! Slots are dealt in turn, from the most to the least preferred backend, round after round. A dead backend that is
//! dealt a slot keeps exactly one, which watches for its return, and a replacement for every turn it had goes to
//! whoever is next, as far as the maximum allows.
//!
//! ```
//! use carom_core::plan::{Have, Spread, plan};
//!
//! // Three backends in preference order; the first is dead and still has two slots.
//! let have = [
//!     Have { slots: 2, dead: true, ..Have::default() },
//!     Have { slots: 1, ..Have::default() },
//!     Have::default(),
//! ];
//! let plan = plan(&have, 3, 10, Spread::Even);
//!
//! // One slot watches the dead backend, so the plan holds one more than the target.
//! assert_eq!(plan.want, [1, 2, 1]);
//! assert_eq!(plan.additions(&have).collect::<Vec<_>>(), [1, 2]);
//! assert_eq!(plan.removals(&have).collect::<Vec<_>>(), [(0, 1)]);
//! ```
//!
//! # Priorities
//!
//! The lowest priority number with a live backend serves, and is planned for as if the others did not exist. Higher
//! numbers get nothing. Lower ones are all dead then: each of their backends gets a slot that watches for its return,
//! as far as the maximum has room beside those that serve. If it has none, those that serve spare one slot, so that
//! somebody watches; with a maximum of 1 nobody does. When all backends are dead, priorities do not matter: whoever
//! comes back first is welcome.
//!
//! # Weights
//!
//! Inside a priority the target is shared in proportion to the weights; nobody is a whole slot away from its exact
//! share. What rounding leaves over goes to those whose next slot is due first, if a backend's slots fall due at a pace
//! set by its weight, and the first of them after a delay set by its place in the preference order. (Giving it to the
//! largest remainders would have every client that needs few connections make them to the same, heaviest backends. So
//! their choices differ as their preference orders do, and all clients together come close to the weights.)
//! Equal weights make this the dealing described above.
//!
//! - Turns of dead backends are replaced as above, by weight; a dead backend without a turn is not watched.
//! - Weight 0 beside others counts as a hundredth of weight 1: it gets a slot where very many are shared out, or when
//!   nobody else of its priority is alive.
//! - With [`Spread::Single`] weights say who comes first when there are fewer slots than backends.
//!
//! ```
//! use carom_core::plan::{Have, Spread, plan};
//!
//! let [heavy, light] = [3, 1].map(|weight| Have { weight, ..Have::default() });
//! let spare = Have { priority: 1, ..Have::default() };
//! assert_eq!(plan(&[spare, light, heavy], 8, 10, Spread::Even).want, [0, 2, 6]);
//!
//! let [heavy, light] = [heavy, light].map(|backend| Have { dead: true, ..backend });
//! assert_eq!(plan(&[spare, light, heavy], 8, 10, Spread::Even).want, [8, 1, 1]);
//! ```

mod equal;
mod weighted;

pub(crate) use weighted::share;

/// What one backend has. A list of these, most preferred backend first, is what is planned for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Have {
    /// Slots bound to the backend now. The plan does not depend on it; [`Plan::additions`] and [`Plan::removals`] do.
    pub slots: usize,
    /// Whether one slot is enough, which sees whether the backend can be connected to. (A pool does not plan for backends that
    /// are dead for certain: it probes them without a slot.)
    pub dead: bool,
    /// Backends with a lower number go first, as in SRV records.
    pub priority: u16,
    /// Its part among backends of the same priority, as in SRV records.
    pub weight: u16,
}

/// How slots are shared between live backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// As evenly as the target allows; what is left over goes to the most preferred. For pools, which lend.
    Even,
    /// At most one slot to a backend, even if that leaves the target unmet. For sets, which share.
    Single,
}

/// How many slots each backend shall have, as [`plan`] decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// `want[i]` is the number of slots for backend `i` of the list that was planned for.
    pub want: Vec<usize>,
}

impl Plan {
    /// The backends that lack slots, from most to least preferred, each repeated once per missing slot.
    ///
    /// `have` is the list that was planned for, or the same backends with newer slot counts.
    pub fn additions(&self, have: &[Have]) -> impl Iterator<Item = usize> {
        self.compare(have).flat_map(|(i, want, slots)| std::iter::repeat_n(i, want.saturating_sub(slots)))
    }

    /// The backends that have too many slots and how many to take away, from least to most preferred.
    ///
    /// `have` is the list that was planned for, or the same backends with newer slot counts.
    pub fn removals(&self, have: &[Have]) -> impl Iterator<Item = (usize, usize)> {
        self.compare(have).rev().filter(|&(_, want, slots)| slots > want).map(|(i, want, slots)| (i, slots - want))
    }

    /// (backend, slots wanted, slots there are) in preference order.
    fn compare(&self, have: &[Have]) -> impl DoubleEndedIterator<Item = (usize, usize, usize)> {
        self.want.iter().zip(have).enumerate().map(|(i, (&want, have))| (i, want, have.slots))
    }
}

/// Plans `target` slots, and replacements for those that only watch dead backends, within `maximum` in all.
///
/// - A target above the maximum is planned as the maximum; callers that want to know clamp it themselves.
/// - A dead backend gets one slot if its turn comes, otherwise none, even if it has one now.
/// - While the target is not 0 and a live backend exists, a live backend has a slot. When the preferred backends are
///   dead and the maximum leaves no room to replace their slots, the least preferred of those gives up its slot.
/// - The result does not depend on [`Have::slots`].
///
/// Takes time linear in the number of backends, whatever the target; where weights differ, they are also sorted.
pub fn plan(have: &[Have], target: usize, maximum: usize, spread: Spread) -> Plan {
    let target = target.min(maximum);
    let mut want = vec![0; have.len()];
    if have.is_empty() || target == 0 {
        return Plan { want };
    }
    let live = have.iter().filter(|backend| !backend.dead);
    let Some(serving) = live.map(|backend| backend.priority).min() else {
        return Plan { want: equal::plan(have, target, maximum, spread) };
    };
    let those = |is: fn(&u16, &u16) -> bool| -> Vec<usize> {
        (0..have.len()).filter(|&i| is(&have[i].priority, &serving)).collect()
    };
    let (serve, watched) = (those(u16::eq), those(u16::lt));

    let kept = usize::from(!watched.is_empty() && maximum > 1);
    let tier: Vec<Have> = serve.iter().map(|&i| have[i]).collect();
    let shares = plan_tier(&tier, target.min(maximum - kept), maximum - kept, spread);
    let room = maximum - shares.iter().sum::<usize>();
    for (i, share) in serve.into_iter().zip(shares) {
        want[i] = share;
    }
    for i in watched.into_iter().take(room) {
        want[i] = 1;
    }
    Plan { want }
}

/// Plans for backends of one priority, of which one is live.
fn plan_tier(have: &[Have], target: usize, maximum: usize, spread: Spread) -> Vec<usize> {
    let is_equal = have.iter().all(|backend| backend.weight == have[0].weight);
    let mut want = match spread {
        _ if is_equal => equal::plan(have, target, maximum, spread),
        Spread::Even => weighted::plan(have, target, maximum),
        Spread::Single => weighted::plan_single(have, target, maximum),
    };
    keep_one_live(have, &mut want);
    want
}

/// Moves the last watching slot to the most preferred live backend if no live one has a slot.
///
/// This can only be when the maximum was used up on dead backends: had there been room for one replacement, a live
/// backend would have got it. So a slot has to move, none can be added. Without this rule the pool would wait for the
/// dead while others could serve.
fn keep_one_live(have: &[Have], want: &mut [usize]) {
    let served = have.iter().zip(&*want).any(|(backend, &want)| !backend.dead && want > 0);
    let Some(live) = have.iter().position(|backend| !backend.dead).filter(|_| !served) else {
        return;
    };
    if let Some(dead) = want.iter().rposition(|&want| want > 0) {
        want[dead] = 0;
    }
    want[live] = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Backends without slots from a string: `d` is dead, anything else is live.
    fn backends(text: &str) -> Vec<Have> {
        text.chars().map(|c| Have { dead: c == 'd', ..Have::default() }).collect()
    }

    fn even(text: &str, target: usize, maximum: usize) -> Vec<usize> {
        plan(&backends(text), target, maximum, Spread::Even).want
    }

    fn single(text: &str, target: usize, maximum: usize) -> Vec<usize> {
        plan(&backends(text), target, maximum, Spread::Single).want
    }

    #[test]
    fn nothing_to_plan_for() {
        assert_eq!(even("", 3, 5), []);
        assert_eq!(even("l", 0, 5), [0]);
        assert_eq!(even("dl", 3, 0), [0, 0]);
    }

    #[test]
    fn a_target_above_the_maximum_is_the_maximum() {
        assert_eq!(even("ll", 9, 3), even("ll", 3, 3));
        assert_eq!(single("dll", 9, 2), single("dll", 2, 2));
    }

    #[test]
    fn single_gives_no_second_slot() {
        assert_eq!(single("lll", 9, 9), [1, 1, 1]);
        assert_eq!(single("dlll", 2, 9), [1, 1, 1, 0]);
    }

    #[test]
    fn live_backends_are_not_starved_by_preferred_dead_ones() {
        assert_eq!(even("ddl", 2, 2), [1, 0, 1]);
        assert_eq!(even("dl", 1, 1), [0, 1]);
        assert_eq!(even("ddll", 2, 2), [1, 0, 1, 0]);
        assert_eq!(single("ddll", 2, 2), [1, 0, 1, 0]);
        // With room for a replacement nothing needs to move.
        assert_eq!(even("ddl", 2, 3), [1, 1, 1]);
        assert_eq!(single("ddl", 2, 3), [1, 1, 1]);
    }

    #[test]
    fn only_dead_backends_are_all_watched_as_far_as_the_maximum_goes() {
        assert_eq!(even("dddd", 3, 4), [1, 1, 1, 1]);
        assert_eq!(even("dddd", 2, 2), [1, 1, 0, 0]);
    }

    #[test]
    fn the_work_does_not_grow_with_the_target() {
        // Dealt one by one, neither of these would end in our time.
        assert_eq!(even("ldl", usize::MAX, usize::MAX).iter().sum::<usize>(), usize::MAX);
        let mut text = "d".repeat(9_999);
        text.push('l');
        let want = even(&text, 10_000, usize::MAX);
        assert_eq!(want.iter().sum::<usize>(), 19_999);
        assert_eq!(want[9_999], 10_000);
    }

    /// Live backends of one priority with these weights.
    fn weighted(weights: &[u16], target: usize) -> Vec<usize> {
        let have: Vec<Have> = weights.iter().map(|&weight| Have { weight, ..Have::default() }).collect();
        plan(&have, target, usize::MAX, Spread::Even).want
    }

    #[test]
    fn slots_are_shared_by_weight() {
        assert_eq!(weighted(&[1, 3], 8), [2, 6]);
        assert_eq!(weighted(&[10, 60, 30], 10), [1, 6, 3]);
        assert_eq!(weighted(&[1, 1, 2], 6), [2, 1, 3], "the preferred of two equals");
        assert_eq!(weighted(&[1, 3], usize::MAX).iter().sum::<usize>(), usize::MAX);
    }

    #[test]
    fn weight_0_beside_others_is_next_to_nothing() {
        assert_eq!(weighted(&[0, 1], 20), [0, 20]);
        assert_eq!(weighted(&[0, 1], 303), [3, 300]);
        assert_eq!(weighted(&[0, 0], 4), [2, 2]);
        let alone = [(0, false), (5, true)].map(|(weight, dead)| Have { weight, dead, ..Have::default() });
        assert_eq!(plan(&alone, 4, 9, Spread::Even).want, [4, 1], "unless nobody else is alive");
    }

    #[test]
    fn the_turns_of_dead_backends_are_replaced_by_weight() {
        let have = [(1, false), (3, false), (4, true)].map(|(weight, dead)| Have { weight, dead, ..Have::default() });
        assert_eq!(plan(&have, 8, 20, Spread::Even).want, [2, 6, 1]);
        assert_eq!(plan(&have, 8, 8, Spread::Even).want, [2, 5, 1]);
        assert_eq!(plan(&have, 1, 1, Spread::Even).want.iter().sum::<usize>(), 1);
    }

    #[test]
    fn weights_order_singles() {
        let have = [1, 1, 50, 50].map(|weight| Have { weight, ..Have::default() });
        assert_eq!(plan(&have, 2, 9, Spread::Single).want, [0, 0, 1, 1]);
        assert_eq!(plan(&have, 9, 9, Spread::Single).want, [1, 1, 1, 1]);
    }

    /// From priorities: a digit is live, a letter dead (`a` has priority 0).
    fn tiers(text: &str, target: usize, maximum: usize) -> Vec<usize> {
        let tier = |c: char| match c {
            'a'..='z' => Have { dead: true, priority: c as u16 - 'a' as u16, ..Have::default() },
            digit => Have { priority: digit as u16 - '0' as u16, ..Have::default() },
        };
        plan(&text.chars().map(tier).collect::<Vec<_>>(), target, maximum, Spread::Even).want
    }

    #[test]
    fn the_lowest_priority_with_a_live_backend_serves() {
        assert_eq!(tiers("10210", 4, 9), [0, 2, 0, 0, 2]);
        assert_eq!(tiers("1a21a", 4, 9), [2, 1, 0, 2, 1], "the dead are watched");
        assert_eq!(tiers("1a210", 4, 9), [0, 1, 0, 0, 4], "the others wait until all are");
        assert_eq!(tiers("ab2d", 2, 9), [1, 1, 2, 0], "a spare that is dead is nobody's concern");
    }

    #[test]
    fn watching_lower_priorities_starves_nobody() {
        assert_eq!(tiers("aaa1", 2, 4), [1, 1, 0, 2]);
        assert_eq!(tiers("aaa1", 4, 4), [1, 0, 0, 3], "one watches even then");
        assert_eq!(tiers("aaa1", 1, 1), [0, 0, 0, 1]);
        assert_eq!(tiers("aabb1b", 3, 7), [1, 0, 1, 1, 3, 1], "nor those who watch beside them");
    }

    #[test]
    fn when_all_are_dead_priorities_do_not_matter() {
        assert_eq!(tiers("cab", 2, 2), [1, 1, 0]);
        assert_eq!(tiers("cab", 1, 9), even("ddd", 1, 9));
    }

    #[test]
    fn changes_are_listed_in_order_of_preference() {
        let have = [(3, false), (0, false), (0, false), (2, true)].map(|(slots, dead)| Have {
            slots,
            dead,
            ..Have::default()
        });
        let plan = plan(&have, 5, 9, Spread::Even);
        assert_eq!(plan.want, [2, 2, 1, 1]);
        assert_eq!(plan.additions(&have).collect::<Vec<_>>(), [1, 1, 2]);
        assert_eq!(plan.removals(&have).collect::<Vec<_>>(), [(3, 1), (0, 1)]);
    }
}
