//! The plan: how many slots each backend shall have.
//!
//! A pool knows how many slots it wants in all, and which backends it prefers; something has to turn that into "one
//! more here, two fewer there". Doing it in one pure function, away from slots that connect, fail and drain, is what
//! makes the answer testable and keeps rebalancing calm: a plan depends only on the preference order, on which backends
//! are dead and on two numbers, so applying it and planning again changes nothing.
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
//!     Have { slots: 2, dead: true },
//!     Have { slots: 1, dead: false },
//!     Have { slots: 0, dead: false },
//! ];
//! let plan = plan(&have, 3, 10, Spread::Even);
//!
//! // One slot watches the dead backend, so the plan holds one more than the target.
//! assert_eq!(plan.want, [1, 2, 1]);
//! assert_eq!(plan.additions(&have).collect::<Vec<_>>(), [1, 2]);
//! assert_eq!(plan.removals(&have).collect::<Vec<_>>(), [(0, 1)]);
//! ```

/// What one backend has. A list of these, most preferred backend first, is what is planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Have {
    /// Slots bound to the backend now. The plan does not depend on it; [`Plan::additions`] and [`Plan::removals`] do.
    pub slots: usize,
    /// Whether the backend is dead: its attempts ran out, and one slot is enough to watch it.
    pub dead: bool,
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
/// Takes time linear in the number of backends, whatever the target.
pub fn plan(have: &[Have], target: usize, maximum: usize, spread: Spread) -> Plan {
    let target = target.min(maximum);
    if have.is_empty() || target == 0 {
        return Plan { want: vec![0; have.len()] };
    }
    let (mut want, lost) = deal(have, target, spread);
    replace(have, target, maximum, spread, &mut want, lost);
    keep_one_live(have, &mut want);
    Plan { want }
}

/// Deals `target` slots in turn. Returns the slots per backend and how many turns were lost on dead backends.
fn deal(have: &[Have], target: usize, spread: Spread) -> (Vec<usize>, usize) {
    let (rounds, rest) = (target / have.len(), target % have.len());
    let mut lost = 0;
    let want = have
        .iter()
        .enumerate()
        .map(|(i, backend)| {
            let turns = rounds + usize::from(i < rest);
            if backend.dead {
                lost += turns;
            }
            // A turn that a backend with its one slot cannot use is gone: only dead ones are replaced.
            if takes_many(backend, spread) { turns } else { turns.min(1) }
        })
        .collect();
    (want, lost)
}

/// Goes on dealing where [`deal`] stopped, to replace the turns `lost` on dead backends.
///
/// Dead backends passed on the way get a watching slot of their own if the maximum has room for it on top of the
/// replacements. Once nobody is left who could use a replacement, what is due goes to watching slots as well.
fn replace(have: &[Have], target: usize, maximum: usize, spread: Spread, want: &mut [usize], lost: usize) {
    let dealt: usize = want.iter().sum();
    let mut due = lost.min(maximum - dealt);
    let mut room = maximum - dealt - due;

    let live = have.iter().filter(|backend| !backend.dead).count();
    // Backends that have had no turn yet. They are counted down rather than looked for at every step.
    let mut unseen = have.len().saturating_sub(target);
    let mut unseen_live = have.iter().skip(target).filter(|backend| !backend.dead).count();

    // One round settles everyone who takes but one slot. While replacements are usable, a dead backend passed over for
    // lack of room would not find any later. Once they are not, each turn spends one, and no more are due than there
    // were turns before; if those went all the way round, nobody is without a slot.
    let start = target % have.len();
    let round = (start..have.len()).chain(0..start);
    for i in round.clone() {
        if due == 0 {
            return;
        }
        if unseen > 0 {
            unseen -= 1;
            unseen_live -= usize::from(!have[i].dead);
        }
        let usable = match spread {
            Spread::Even => live > 0 || unseen > 0,
            Spread::Single => unseen_live > 0,
        };
        if takes_many(&have[i], spread) || (!have[i].dead && want[i] == 0) {
            want[i] += 1;
            due -= 1;
        } else if !usable {
            want[i] = 1;
            due -= 1;
        } else if want[i] == 0 && room > 0 {
            want[i] = 1;
            room -= 1;
        }
    }

    // Every further round would give each live backend one slot: share out what is left at once.
    if spread == Spread::Even && live > 0 {
        let (each, rest) = (due / live, due % live);
        for (turn, i) in round.filter(|&i| !have[i].dead).enumerate() {
            want[i] += each + usize::from(turn < rest);
        }
    }
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

/// Whether the backend can use every slot it is dealt, not just one.
fn takes_many(backend: &Have, spread: Spread) -> bool {
    match spread {
        Spread::Even => !backend.dead,
        Spread::Single => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Backends without slots from a string: `d` is dead, anything else is live.
    fn backends(text: &str) -> Vec<Have> {
        text.chars().map(|c| Have { slots: 0, dead: c == 'd' }).collect()
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

    #[test]
    fn changes_are_listed_in_order_of_preference() {
        let have = [(3, false), (0, false), (0, false), (2, true)].map(|(slots, dead)| Have { slots, dead });
        let plan = plan(&have, 5, 9, Spread::Even);
        assert_eq!(plan.want, [2, 2, 1, 1]);
        assert_eq!(plan.additions(&have).collect::<Vec<_>>(), [1, 1, 2]);
        assert_eq!(plan.removals(&have).collect::<Vec<_>>(), [(3, 1), (0, 1)]);
    }
}
