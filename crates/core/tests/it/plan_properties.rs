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
        let backends = random.below(9);
        let have = (0..backends).map(|_| Have { slots: random.below(5), ..Have::default() }).collect();
        let target = random.below(25);
        // Around the target, where the maximum matters, as often as far above it.
        let maximum = if random.below(2) == 0 { random.below(40) } else { target + random.below(3) };
        let spread = if random.below(2) == 0 { Spread::Even } else { Spread::Single };
        Self { have, target, maximum, spread }
    }

    /// The same with weights, of which some are equal.
    fn with_weights(mut self, seed: u64) -> Self {
        let mut random = SplitMix(!seed);
        let most = [1, 3, 100, 65_536][random.below(4)];
        for backend in &mut self.have {
            backend.weight = if random.below(4) == 0 { 0 } else { random.below(most) as u16 };
        }
        self
    }

    fn plan(&self) -> Plan {
        plan(&self.have, self.target, self.maximum, self.spread)
    }
}

#[test]
fn within_the_maximum() {
    for_every_case(|case| assert!(case.plan().want.iter().sum::<usize>() <= case.maximum));
}

#[test]
fn single_means_one() {
    for_every_case(|case| {
        if case.spread == Spread::Single {
            assert!(case.plan().want.iter().all(|&want| want <= 1));
        }
    });
}

#[test]
fn target_is_shared_evenly_between_equal_backends() {
    for_each_case(|case| {
        if case.have.is_empty() {
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
    for_every_case(|case| {
        let bare: Vec<Have> = case.have.iter().map(|backend| Have { slots: 0, ..*backend }).collect();
        assert_eq!(plan(&bare, case.target, case.maximum, case.spread), case.plan());
    });
}

#[test]
fn applied_once_nothing_is_left_to_do() {
    for_every_case(|mut case| {
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
    for_every_case(|case| {
        let plan = case.plan();
        assert!(plan.additions(&case.have).is_sorted());
        assert!(plan.removals(&case.have).map(|(i, _)| i).is_sorted_by(|a, b| a > b));
        assert!(plan.removals(&case.have).all(|(_, slots)| slots > 0));
    });
}

#[test]
fn whole_target_is_planned() {
    for_every_case(|case| {
        let most = match case.spread {
            _ if case.have.is_empty() => 0,
            Spread::Even => case.maximum,
            Spread::Single => case.have.len().min(case.maximum),
        };
        assert_eq!(case.plan().want.iter().sum::<usize>(), case.target.min(most));
    });
}

#[test]
fn backends_share_by_weight_to_within_one_slot() {
    for_every_case(|case| {
        if case.spread == Spread::Single {
            return;
        }
        let want = case.plan().want;
        let slots: usize = want.iter().sum();
        let counted = |backend: &Have| f64::from(backend.weight).max(0.01);
        let total: f64 = case.have.iter().map(counted).sum();
        for (backend, want) in case.have.iter().zip(want) {
            let exact = slots as f64 * counted(backend) / total;
            assert!((want as f64 - exact).abs() < 1.0 + 1e-9, "{want} of {slots}, exactly {exact}");
        }
    });
}

#[test]
fn equal_weights_are_no_weights() {
    for_each_case(|case| {
        for weight in [1, 7, 65_535] {
            let have: Vec<Have> = case.have.iter().map(|backend| Have { weight, ..*backend }).collect();
            assert_eq!(plan(&have, case.target, case.maximum, case.spread), case.plan());
        }
    });
}

/// However few connections a client needs: each has its own preference order, and together they keep to the weights.
#[test]
fn many_clients_together_share_by_weight() {
    let mut random = SplitMix(1);
    for (weights, target, slots_of_first) in [
        (&[11, 10, 10, 10, 10, 10, 10, 10, 10, 10][..], 2, 0.15..0.3),
        (&[40, 10, 10, 10, 10, 10, 10][..], 2, 0.7..0.95),
        (&[0, 10, 10, 10, 10][..], 2, 0.0..0.01),
        (&[1, 99][..], 2, 0.0..0.05),
    ] {
        for spread in [Spread::Even, Spread::Single] {
            let clients = 20_000;
            let mut first = 0;
            for _ in 0..clients {
                let mut order: Vec<usize> = (0..weights.len()).collect();
                for place in (1..order.len()).rev() {
                    order.swap(place, random.below(place + 1));
                }
                let have: Vec<Have> = order.iter().map(|&i| Have { weight: weights[i], ..Have::default() }).collect();
                let want = plan(&have, target, 10, spread).want;
                first += order.iter().zip(want).find(|(i, _)| **i == 0).map_or(0, |(_, want)| want);
            }
            let slots = f64::from(first as u32) / f64::from(clients);
            let is_full = spread == Spread::Single && weights.len() <= target;
            assert!(is_full || slots_of_first.contains(&slots), "{weights:?} {spread:?}: {slots} slots");
        }
    }
}

#[test]
fn equal_to_dealing_one_by_one() {
    for_each_case(|case| assert_eq!(case.plan().want, dealt_one_by_one(&case)));
}

/// The plan as the rules tell it, one turn after the other. Slow and plain, so that the quick one can be held against it.
fn dealt_one_by_one(case: &Case) -> Vec<usize> {
    let mut want = vec![0; case.have.len()];
    let turns = (0..case.have.len()).cycle().take(case.target.min(case.maximum));
    for i in turns {
        if want[i] == 0 || case.spread == Spread::Even {
            want[i] += 1;
        }
    }
    want
}

/// Runs the check on every case, with and without weights.
fn for_every_case(check: impl Fn(Case)) {
    for_each_seed(|seed| check(Case::random(seed)));
    for_each_seed(|seed| check(Case::random(seed).with_weights(seed)));
}

/// Runs the check on every case of equal backends.
fn for_each_case(check: impl Fn(Case)) {
    for_each_seed(|seed| check(Case::random(seed)));
}

/// All seeds, or the one that `CAROM_SEED` names.
fn for_each_seed(check: impl Fn(u64)) {
    let seeds = match std::env::var("CAROM_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("CAROM_SEED is a number");
            seed..=seed
        }
        Err(_) => 1..=CASES,
    };
    for seed in seeds {
        let failing = PrintOnPanic(seed);
        check(seed);
        drop(failing);
    }
}

/// Names the case if its check panics; a guard leaves the panic and its place as they are.
struct PrintOnPanic(u64);

impl Drop for PrintOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let case = Case::random(self.0).with_weights(self.0);
            eprintln!("rerun with CAROM_SEED={}: {case:?}, or without weights", self.0);
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
