//! Readiness of a pool: it connects to as many backends as a caller waits for.

use crate::stage::{Stage, ms, options, recovery};
use carom_core::pool::{Claimed, Options, Outcome, Readiness};
use carom_core::random::Random;
use carom_core::slot::Phase;

/// Like one caller that waits until `n` backends are ready.
fn expect_ready(stage: &mut Stage, n: usize) {
    stage.machine.expect_ready(n);
    stage.go();
}

fn forget_ready(stage: &mut Stage, n: usize) {
    stage.machine.forget_ready(n);
    stage.go();
}

fn is_ready(stage: &Stage, n: usize) -> bool {
    stage.machine.readiness().is_enough(n)
}

#[test]
fn pool_connects_to_as_many_backends_as_a_caller_waits_for() {
    let mut stage = Stage::connected(options(1, 16), &[1, 2, 3, 4, 5]);
    assert_eq!(stage.machine.readiness(), Readiness { ready: 1, known: 5 });
    expect_ready(&mut stage, 4);
    assert_eq!(stage.dials.len(), 3, "as many as are missing, and no more");
    stage.accept_all();
    assert!(is_ready(&stage, 4));
    assert_eq!(stage.of(Phase::Idle), 4);
    forget_ready(&mut stage, 4);
    assert_eq!(stage.of(Phase::Idle), 4, "they idle out like any other surplus");
    stage.pass(ms(120_000));
    assert_eq!(stage.of(Phase::Idle), 1);
}

#[test]
fn pool_connects_to_another_backend_when_one_fails() {
    let mut stage = Stage::connected(Options { recovery: recovery(3), ..options(1, 16) }, &[1, 2, 3, 4]);
    expect_ready(&mut stage, 2);
    let (_, first) = stage.dials[0];
    assert_eq!(stage.dials.len(), 1);
    stage.refuse(first);
    let other = stage.dials.iter().find(|(_, number)| *number != first).expect("another is tried beside it").1;
    stage.accept(other);
    assert!(is_ready(&stage, 2));
}

#[test]
fn dead_backends_are_tried_for_as_long_as_a_caller_waits() {
    let mut stage = Stage::connected(options(1, 16), &[1, 2]);
    expect_ready(&mut stage, 2);
    let (_, dead) = stage.dials[0];
    for _ in 0..5 {
        stage.refuse(dead);
        stage.pass_until(|stage| stage.dialling(dead) > 0);
    }
    assert!(!is_ready(&stage, 2));
    stage.accept(dead);
    assert!(is_ready(&stage, 2));
}

#[test]
fn untried_backends_are_probed_beside_idle_connections() {
    for maximum in 1..4 {
        let mut stage = Stage::connected(options(maximum, maximum), &[1, 2, 3, 4, 5]);
        expect_ready(&mut stage, 5);
        while let Some(&(_, number)) = stage.dials.first() {
            assert_eq!(stage.of(Phase::Idle), maximum, "none is closed for them");
            stage.accept(number);
        }
        assert_eq!(stage.machine.readiness(), Readiness { ready: 5, known: 5 }, "with maximum {maximum}");
        forget_ready(&mut stage, 5);
        stage.accept_all();
        assert_eq!(stage.of(Phase::Idle), maximum);
    }
}

#[test]
fn untried_backends_are_probed_while_all_connections_are_in_use() {
    let mut stage = Stage::connected(options(1, 1), &[1, 2]);
    let held = stage.take();
    expect_ready(&mut stage, 2);
    stage.accept_all();
    assert!(is_ready(&stage, 2));
    assert_eq!((stage.of(Phase::Busy), stage.counts().total()), (1, 1));
    stage.release(held, Outcome::Open);
}

#[test]
fn the_number_of_backends_is_capped_by_the_known_ones() {
    let mut stage = Stage::new(options(0, 16));
    expect_ready(&mut stage, 9);
    assert!(!is_ready(&stage, 9), "the resolver has not answered");
    stage.backends(&[1, 2]);
    stage.accept_all();
    assert!(is_ready(&stage, 9));
    stage.backends(&[1, 2, 3]);
    assert!(!is_ready(&stage, 9));
    stage.accept_all();
    assert!(is_ready(&stage, 9));
}

#[test]
fn connects_that_no_caller_waits_for_any_more_are_given_up() {
    let mut stage = Stage::connected(options(1, 16), &[1, 2, 3]);
    expect_ready(&mut stage, 2);
    expect_ready(&mut stage, 3);
    assert_eq!(stage.dials.len(), 2);
    forget_ready(&mut stage, 3);
    assert_eq!(stage.dials.len(), 1);
    forget_ready(&mut stage, 2);
    assert!(stage.dials.is_empty());
}

/// Callers come and go while backends fail and return, and claims are held.
#[test]
fn maximum_holds_whatever_callers_wait_for_while_backends_fail_and_return() {
    for seed in 0..200 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let maximum = 1 + random.below(6);
        let options = Options { recovery: recovery(2), ..options(random.below(maximum + 1), maximum) };
        let mut stage = Stage::seeded(options, seed);
        let (mut waits, mut held) = (Vec::new(), Vec::new());
        for _ in 0..200 {
            let dial = stage.dials.get(random.below(8)).map(|(_, number)| *number);
            match (random.below(9), dial) {
                (0, _) => {
                    let numbers: Vec<u16> = (1..=5).filter(|_| random.below(4) > 0).collect();
                    stage.backends(&numbers);
                }
                (1, _) => {
                    waits.push(1 + random.below(6));
                    expect_ready(&mut stage, waits[waits.len() - 1]);
                }
                (2, _) if !waits.is_empty() => {
                    let n = waits.swap_remove(random.below(waits.len()));
                    forget_ready(&mut stage, n);
                }
                (3 | 4, Some(number)) => stage.accept(number),
                (5, Some(number)) => stage.refuse(number),
                (6, _) => {
                    if let Claimed::Granted { slot, .. } = stage.machine.try_claim(stage.now) {
                        held.push(slot);
                    }
                    stage.go();
                }
                (7, _) if !held.is_empty() => {
                    let slot = held.swap_remove(random.below(held.len()));
                    let outcomes = [Outcome::Open, Outcome::Failed, Outcome::Broken];
                    stage.release(slot, outcomes[random.below(3)]);
                }
                _ => stage.pass(ms(1 + random.below(1_500) as u64)),
            }
            assert!(stage.counts().total() <= maximum, "seed {seed}: {:?}", stage.counts());
        }
        waits.drain(..).for_each(|n| forget_ready(&mut stage, n));
        held.drain(..).for_each(|slot| stage.release(slot, Outcome::Open));
        stage.backends(&[1, 2, 3]);
        expect_ready(&mut stage, 3);
        for _ in 0..100 {
            stage.accept_all();
            stage.pass(ms(100));
        }
        // With less room, backends that failed are not tried while others serve.
        assert!(is_ready(&stage, 3) || maximum < 3, "seed {seed}: {:?}", stage.machine.unready());
    }
}
