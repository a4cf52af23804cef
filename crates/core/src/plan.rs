//! The plan: how many slots each backend shall have.
//!
//! A pool knows how many slots it wants in all, and which backends it prefers; something has to turn that into "one
//! more here, two fewer there". Doing it in one pure function, away from slots that connect, fail and drain, is what
//! makes the answer testable and keeps rebalancing calm: a plan depends only on the preference order, on weights and on
//! two numbers, so applying it and planning again changes nothing. It covers the backends that can be connected to; the
//! others are probed without a slot.
//!
//! # Equal backends
//!
//! Slots are dealt in turn, from the most to the least preferred backend, round after round.
//!
//! ```
//! use carom_core::plan::{Have, Spread, plan};
//!
//! // Three backends in preference order; the first has four slots, and the others none.
//! let have = [Have { slots: 4, ..Have::default() }, Have::default(), Have::default()];
//! let plan = plan(&have, 5, 10, Spread::Even);
//!
//! assert_eq!(plan.want, [2, 2, 1]);
//! assert_eq!(plan.additions(&have).collect::<Vec<_>>(), [1, 1, 2]);
//! assert_eq!(plan.removals(&have).collect::<Vec<_>>(), [(0, 2)]);
//! ```
//!
//! # Weights
//!
//! The target is shared in proportion to the weights; no backend is a whole slot away from its exact share. What rounding leaves
//! over goes to the backends whose next slot is due first, if a backend's slots fall due at a pace set by its weight, and the first
//! of them after a delay set by its place in the preference order. (Giving it to the largest remainders would have every client that
//! needs few connections make them to the same, heaviest backends. So their choices differ as their preference orders do, and all
//! clients together come close to the weights.) Equal weights make this the dealing described above.
//!
//! - Weight 0 beside others counts as a hundredth of weight 1: it gets a slot where very many are shared out.
//! - With [`Spread::Single`] weights say which backends come first when there are fewer slots than backends.
//!
//! ```
//! use carom_core::plan::{Have, Spread, plan};
//!
//! let [heavy, light] = [3, 1].map(|weight| Have { weight, ..Have::default() });
//! assert_eq!(plan(&[light, heavy], 8, 10, Spread::Even).want, [2, 6]);
//! ```

/// What one backend has. A list of these, most preferred backend first, is what is planned for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Have {
    /// Slots bound to the backend now. The plan does not depend on it; [`Plan::additions`] and [`Plan::removals`] do.
    pub slots: usize,
    /// Its part of the target, as in SRV records.
    pub weight: u16,
}

/// How slots are shared between backends.
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

/// Plans `target` slots in all, at most `maximum`. A target above the maximum is planned as the maximum; callers that want to know
/// clamp it themselves. The result does not depend on [`Have::slots`].
///
/// Takes time linear in the number of backends, whatever the target; for [`Spread::Single`] they are also sorted.
pub fn plan(have: &[Have], target: usize, maximum: usize, spread: Spread) -> Plan {
    let (weights, target) = (have.iter().map(|backend| backend.weight), target.min(maximum));
    let want = match spread {
        Spread::Even => share(weights, target),
        Spread::Single => {
            let mut want = vec![0; have.len()];
            let mut order: Vec<Due> = dues(weights).collect();
            order.sort_unstable();
            for due in order.into_iter().take(target) {
                want[due.place] = 1;
            }
            want
        }
    };
    Plan { want }
}

/// A weight of 1, where weight 0 counts as 1.
const UNIT: u64 = 100;

/// Shares out so many slots by weight, the most preferred first: to each its exact share, rounded down or up. With equal
/// weights that is an even share, and what is left over goes to the first.
pub(crate) fn share(weights: impl ExactSizeIterator<Item = u16> + Clone, slots: usize) -> Vec<usize> {
    let total: u128 = weights.clone().map(|weight| u128::from(counted(weight))).sum();
    let mut shares = Vec::with_capacity(weights.len());
    let mut due = Vec::new();
    for next in dues(weights) {
        let exact = slots as u128 * u128::from(next.weight);
        let whole = exact / total;
        shares.push(whole as usize);
        if !exact.is_multiple_of(total) {
            due.push(Due { before: whole, ..next });
        }
    }
    let left = (slots - shares.iter().sum::<usize>()).min(due.len());
    if left > 0 && left < due.len() {
        due.select_nth_unstable(left);
    }
    for due in &due[..left] {
        shares[due.place] += 1;
    }
    shares
}

/// The first slot of each.
fn dues(weights: impl ExactSizeIterator<Item = u16>) -> impl Iterator<Item = Due> {
    let places = weights.len();
    weights.enumerate().map(move |(place, weight)| Due { before: 0, place, places, weight: counted(weight) })
}

fn counted(weight: u16) -> u64 {
    if weight == 0 { 1 } else { UNIT * u64::from(weight) }
}

/// When a backend's next slot is due: at (slots before + place) / weight, where places run from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    before: u128,
    place: usize,
    places: usize,
    weight: u64,
}

impl Due {
    /// In halves of a place, so that a place is the middle of its part.
    fn progress(&self) -> u128 {
        self.before * 2 * self.places as u128 + 2 * self.place as u128 + 1
    }
}

impl Ord for Due {
    /// Of two that are due together the heavier comes first, then the preferred.
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        let (mine, others) = (self.progress() * u128::from(other.weight), other.progress() * u128::from(self.weight));
        mine.cmp(&others).then(other.weight.cmp(&self.weight)).then(self.place.cmp(&other.place))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weighted(weights: &[u16], target: usize, spread: Spread) -> Vec<usize> {
        let have: Vec<Have> = weights.iter().map(|&weight| Have { weight, ..Have::default() }).collect();
        plan(&have, target, usize::MAX, spread).want
    }

    fn even(weights: &[u16], target: usize) -> Vec<usize> {
        weighted(weights, target, Spread::Even)
    }

    fn single(weights: &[u16], target: usize) -> Vec<usize> {
        weighted(weights, target, Spread::Single)
    }

    #[test]
    fn plan_is_empty_without_backends_target_or_maximum() {
        for spread in [Spread::Even, Spread::Single] {
            assert_eq!(weighted(&[], 3, spread), []);
            assert_eq!(weighted(&[1, 1], 0, spread), [0, 0]);
            assert_eq!(plan(&[Have::default(); 2], 3, 0, spread).want, [0, 0]);
        }
    }

    #[test]
    fn target_above_the_maximum_is_the_maximum() {
        for spread in [Spread::Even, Spread::Single] {
            let have = [Have::default(); 3];
            assert_eq!(plan(&have, 9, 2, spread), plan(&have, 2, 2, spread));
        }
    }

    #[test]
    fn single_gives_no_second_slot() {
        assert_eq!(single(&[1, 1, 1], 9), [1, 1, 1]);
        assert_eq!(single(&[1, 1, 1], 2), [1, 1, 0]);
    }

    #[test]
    fn work_does_not_grow_with_the_target() {
        // Dealt one by one, neither of these would end in our time.
        assert_eq!(even(&[1, 1, 1], usize::MAX).iter().sum::<usize>(), usize::MAX);
        assert_eq!(even(&[1, 3], usize::MAX).iter().sum::<usize>(), usize::MAX);
    }

    #[test]
    fn slots_are_shared_by_weight() {
        assert_eq!(even(&[1, 3], 8), [2, 6]);
        assert_eq!(even(&[10, 60, 30], 10), [1, 6, 3]);
        assert_eq!(even(&[1, 1, 2], 6), [2, 1, 3], "the preferred of two equals");
    }

    #[test]
    fn weight_0_beside_others_is_next_to_nothing() {
        assert_eq!(even(&[0, 1], 20), [0, 20]);
        assert_eq!(even(&[0, 1], 303), [3, 300]);
        assert_eq!(even(&[0, 0], 4), [2, 2]);
    }

    #[test]
    fn weights_order_singles() {
        assert_eq!(single(&[1, 1, 50, 50], 2), [0, 0, 1, 1]);
        assert_eq!(single(&[1, 1, 50, 50], 9), [1, 1, 1, 1]);
    }

    #[test]
    fn changes_are_listed_in_order_of_preference() {
        let have = [3, 0, 0, 2].map(|slots| Have { slots, ..Have::default() });
        let plan = plan(&have, 5, 9, Spread::Even);
        assert_eq!(plan.want, [2, 1, 1, 1]);
        assert_eq!(plan.additions(&have).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(plan.removals(&have).collect::<Vec<_>>(), [(3, 1), (0, 1)]);
    }
}
