//! Equal shares: slots are dealt in turn, and turns lost on dead backends are replaced. This is cueball's plan.

use super::{Have, Spread};

/// Plans for backends of one priority and weight. Takes time linear in their number, whatever the target.
pub(super) fn plan(have: &[Have], target: usize, maximum: usize, spread: Spread) -> Vec<usize> {
    let (mut want, lost) = deal(have, target, spread);
    replace(have, target, maximum, spread, &mut want, lost);
    want
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

/// Whether the backend can use every slot it is dealt, not just one.
fn takes_many(backend: &Have, spread: Spread) -> bool {
    match spread {
        Spread::Even => !backend.dead,
        Spread::Single => false,
    }
}
