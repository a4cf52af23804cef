//! Shares by weight, for backends of one priority whose weights differ.

use super::{Have, Spread, equal};

/// A weight of 1, where weight 0 counts as 1.
const UNIT: u64 = 100;

/// Shares the target by weight, dead backends included, and then what those cannot use between the live ones.
pub(super) fn plan(have: &[Have], target: usize, maximum: usize) -> Vec<usize> {
    let mut want = share(have.iter().map(|backend| backend.weight), target);
    let mut lost = 0;
    for (want, _) in want.iter_mut().zip(have).filter(|(_, backend)| backend.dead) {
        lost += *want;
        *want = (*want).min(1);
    }
    if lost == 0 {
        return want;
    }
    let watching: usize = want.iter().zip(have).filter(|(_, backend)| backend.dead).map(|(want, _)| want).sum();
    let serving = (target - lost) + lost.min(maximum - (target - lost) - watching);
    let live: Vec<usize> = (0..have.len()).filter(|&i| !have[i].dead).collect();
    for (&i, share) in live.iter().zip(share(live.iter().map(|&i| have[i].weight), serving)) {
        want[i] = share;
    }
    want
}

/// One slot each, in the order in which weights and preference make them due.
pub(super) fn plan_single(have: &[Have], target: usize, maximum: usize) -> Vec<usize> {
    let mut order: Vec<Due> = dues(have.iter().map(|backend| backend.weight)).collect();
    order.sort_unstable();
    let reordered: Vec<Have> = order.iter().map(|due| have[due.place]).collect();
    let mut want = vec![0; have.len()];
    for (due, share) in order.iter().zip(equal::plan(&reordered, target, maximum, Spread::Single)) {
        want[due.place] = share;
    }
    want
}

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
    let left = slots - shares.iter().sum::<usize>();
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
