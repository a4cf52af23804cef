//! What every plan promises, over 100,000 random small cases.
//!
//! Each case has a seed of its own. A failure prints it; `CAROM_SEED=<seed> cargo test` runs that case alone.

use carom_core::plan::{Have, Plan, Spread, plan};

const CASES: u64 = 100_000;

#[derive(Debug)]
struct Case {
    have: Vec<Have>,
    target: usize,
    maximum: usize,
    spread: Spread,
}

impl Case {
    fn random(seed: u64) -> Self {
        let mut random = SplitMix(seed);
        // All live, all dead and mixtures: each of them has rules of its own.
        let dead_in_four = random.below(5);
        let backends = random.below(9);
        let have =
            (0..backends).map(|_| Have { slots: random.below(5), dead: random.below(4) < dead_in_four }).collect();
        let target = random.below(25);
        // Around the target, where the maximum matters, as often as far above it.
        let maximum = if random.below(2) == 0 { random.below(40) } else { target + random.below(3) };
        let spread = if random.below(2) == 0 { Spread::Even } else { Spread::Single };
        Self { have, target, maximum, spread }
    }

    fn plan(&self) -> Plan {
        plan(&self.have, self.target, self.maximum, self.spread)
    }

    fn live_exists(&self) -> bool {
        self.have.iter().any(|backend| !backend.dead)
    }
}

#[test]
fn within_the_maximum() {
    for_each_case(|case| assert!(case.plan().want.iter().sum::<usize>() <= case.maximum));
}

#[test]
fn a_dead_backend_is_watched_by_one_slot_at_most() {
    for_each_case(|case| {
        for (backend, want) in case.have.iter().zip(case.plan().want) {
            assert!(!backend.dead || want <= 1);
        }
    });
}

#[test]
fn single_means_one() {
    for_each_case(|case| {
        if case.spread == Spread::Single {
            assert!(case.plan().want.iter().all(|&want| want <= 1));
        }
    });
}

#[test]
fn a_live_backend_has_a_slot() {
    for_each_case(|case| {
        if case.target > 0 && case.maximum > 0 && case.live_exists() {
            let want = case.plan().want;
            assert!(case.have.iter().zip(want).any(|(backend, want)| !backend.dead && want > 0));
        }
    });
}

#[test]
fn without_dead_backends_the_target_is_shared_evenly() {
    for_each_case(|case| {
        if case.have.is_empty() || case.have.iter().any(|backend| backend.dead) {
            return;
        }
        let want = case.plan().want;
        let target = case.target.min(case.maximum);
        let expected = match case.spread {
            Spread::Even => target,
            Spread::Single => target.min(case.have.len()),
        };
        assert_eq!(want.iter().sum::<usize>(), expected);
        assert!(want.is_sorted_by(|earlier, later| earlier >= later));
        assert!(want[0] - want[want.len() - 1] <= 1);
    });
}

#[test]
fn present_slots_do_not_matter() {
    for_each_case(|case| {
        let bare: Vec<Have> = case.have.iter().map(|backend| Have { slots: 0, ..*backend }).collect();
        assert_eq!(plan(&bare, case.target, case.maximum, case.spread), case.plan());
    });
}

#[test]
fn applied_once_nothing_is_left_to_do() {
    for_each_case(|mut case| {
        let first = case.plan();
        let mut applied = case.have.clone();
        for i in first.additions(&case.have) {
            applied[i].slots += 1;
        }
        for (i, slots) in first.removals(&case.have) {
            applied[i].slots -= slots;
        }
        assert!(applied.iter().map(|backend| backend.slots).eq(first.want));

        case.have = applied;
        let second = case.plan();
        assert_eq!(second.additions(&case.have).count(), 0);
        assert_eq!(second.removals(&case.have).count(), 0);
    });
}

#[test]
fn changes_come_in_order_of_preference() {
    for_each_case(|case| {
        let plan = case.plan();
        assert!(plan.additions(&case.have).is_sorted());
        assert!(plan.removals(&case.have).map(|(i, _)| i).is_sorted_by(|a, b| a > b));
        assert!(plan.removals(&case.have).all(|(_, slots)| slots > 0));
    });
}

#[test]
fn equal_to_dealing_one_by_one() {
    for_each_case(|case| assert_eq!(case.plan().want, dealt_one_by_one(&case)));
}

/// The plan as the rules tell it, one turn after the other, looking at every backend whenever a question comes up.
/// Slow and plain, so that the quick one can be held against it.
fn dealt_one_by_one(case: &Case) -> Vec<usize> {
    let (have, single) = (&case.have, case.spread == Spread::Single);
    let target = case.target.min(case.maximum);
    let mut want = vec![0; have.len()];
    if have.is_empty() {
        return want;
    }
    let mut seen = vec![false; have.len()];
    let mut turns = (0..have.len()).cycle();

    let mut due = 0;
    for _ in 0..target {
        let i = turns.next().expect("endless");
        seen[i] = true;
        if have[i].dead {
            due += 1;
        }
        if want[i] == 0 || !(have[i].dead || single) {
            want[i] += 1;
        }
    }
    due = due.min(case.maximum - want.iter().sum::<usize>());

    while due > 0 {
        let i = turns.next().expect("endless");
        seen[i] = true;
        if !have[i].dead && (want[i] == 0 || !single) {
            want[i] += 1;
            due -= 1;
            continue;
        }
        let someone_can_use_it = (0..have.len()).any(|other| match case.spread {
            Spread::Even => !have[other].dead || !seen[other],
            Spread::Single => !have[other].dead && !seen[other],
        });
        let has_room = want.iter().sum::<usize>() + due < case.maximum;
        if has_room || !someone_can_use_it {
            want[i] = 1;
        }
        if !someone_can_use_it {
            due -= 1;
        }
    }

    let served = (0..have.len()).any(|i| !have[i].dead && want[i] > 0);
    if target > 0 && case.live_exists() && !served {
        let last = (0..have.len()).rfind(|&i| want[i] > 0).expect("a dead backend took the slot");
        let first = (0..have.len()).find(|&i| !have[i].dead).expect("a live backend exists");
        want[last] -= 1;
        want[first] += 1;
    }
    want
}

/// Runs the check on every case, or on the one that `CAROM_SEED` names.
fn for_each_case(check: impl Fn(Case)) {
    let seeds = match std::env::var("CAROM_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("CAROM_SEED is a number");
            seed..=seed
        }
        Err(_) => 1..=CASES,
    };
    for seed in seeds {
        let failing = PrintOnPanic(seed);
        check(Case::random(seed));
        drop(failing);
    }
}

/// Names the case if its check panics; a guard leaves the panic and its place as they are.
struct PrintOnPanic(u64);

impl Drop for PrintOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("rerun with CAROM_SEED={}: {:?}", self.0, Case::random(self.0));
        }
    }
}

/// SplitMix64: neighbouring seeds give unrelated cases.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `bound` - 1; the slight bias does not matter here.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}
