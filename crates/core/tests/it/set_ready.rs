//! Readiness of a set: it dials as many backends as a caller waits for.

use crate::set_stage::{Stage, eager, lazy, ms};
use carom_core::random::Random;
use carom_core::set::{Options, Readiness};

fn expect_ready(stage: &mut Stage, n: usize) {
    stage.machine.expect_ready(stage.now, n);
    stage.go();
}

fn forget_ready(stage: &mut Stage, n: usize) {
    stage.machine.forget_ready(stage.now, n);
    stage.go();
}

/// Accepts every dial, under way or following.
fn accept_all(stage: &mut Stage) {
    while let Some(&(_, number)) = stage.dials.first() {
        stage.accept(number);
    }
}

fn connected(stage: &Stage) -> usize {
    stage.machine.figures().connected
}

#[test]
fn lazy_set_dials_as_many_backends_as_a_caller_waits_for() {
    let mut stage = Stage::knowing(lazy(), &[1, 2, 3, 4]);
    expect_ready(&mut stage, 3);
    assert_eq!(stage.dials.len(), 3, "as many as are missing, and no more");
    accept_all(&mut stage);
    assert!(stage.machine.readiness().is_enough(3));
    forget_ready(&mut stage, 3);
    assert_eq!(connected(&stage), 3);
    stage.pass(ms(20_000));
    assert_eq!(connected(&stage), 0, "they are released like any other connection without leases");
}

#[test]
fn another_backend_is_dialled_when_one_fails_and_the_failed_one_is_retried() {
    let mut stage = Stage::knowing(lazy(), &[1, 2]);
    expect_ready(&mut stage, 1);
    let (_, first) = stage.dials[0];
    assert_eq!(stage.dials.len(), 1);
    stage.refuse(first);
    let (_, other) = stage.dials[0];
    assert_ne!(other, first);
    stage.refuse(other);
    stage.pass(ms(100));
    assert_eq!(stage.dials.len(), 2);
    stage.refuse(first);
    stage.refuse(other);
    assert_eq!(stage.machine.figures().dead, 2);
    stage.pass(ms(1_000));
    assert_eq!(stage.dials.len(), 2, "dead backends are tried for as long as a caller waits");
    stage.accept(first);
    assert!(stage.machine.readiness().is_enough(1));
    assert!(stage.dials.is_empty(), "the other is not needed any more");
    stage.pass(ms(1_000));
    assert_eq!(stage.machine.readiness(), Readiness { ready: 1, known: 2 });
}

#[test]
fn set_with_a_connection_for_each_lease_keeps_none_of_those_it_dials() {
    let mut stage = Stage::knowing(Options { per_backend: 0, ..lazy() }, &[1, 2]);
    expect_ready(&mut stage, 2);
    assert_eq!(stage.dials.len(), 2);
    accept_all(&mut stage);
    assert_eq!(stage.machine.readiness(), Readiness { ready: 2, known: 2 });
    assert_eq!(connected(&stage), 0);
}

#[test]
fn eager_set_is_not_connected_to_more_backends_than_its_maximum() {
    let mut stage = Stage::knowing(eager(2, 2), &[1, 2, 3, 4]);
    accept_all(&mut stage);
    assert_eq!(connected(&stage), 2);
    expect_ready(&mut stage, 4);
    accept_all(&mut stage);
    assert_eq!(stage.machine.readiness(), Readiness { ready: 4, known: 4 });
    assert_eq!(connected(&stage), 2);
}

#[test]
fn dials_that_no_caller_waits_for_any_more_are_given_up() {
    let mut stage = Stage::knowing(lazy(), &[1, 2, 3]);
    expect_ready(&mut stage, 2);
    expect_ready(&mut stage, 3);
    assert_eq!(stage.dials.len(), 3);
    forget_ready(&mut stage, 3);
    assert_eq!(stage.dials.len(), 2);
    forget_ready(&mut stage, 2);
    assert!(stage.dials.is_empty());
}

#[test]
fn a_backend_that_is_removed_is_not_waited_for() {
    let mut stage = Stage::knowing(lazy(), &[1, 2]);
    expect_ready(&mut stage, 2);
    stage.accept(1);
    assert!(!stage.machine.readiness().is_enough(2));
    stage.backends(&[1]);
    assert!(stage.machine.readiness().is_enough(2));
    assert!(stage.dials.is_empty());
}

/// Callers come and go while backends fail and return. `check` of the stage holds after every step.
#[test]
fn books_agree_whatever_callers_wait_for_while_backends_fail_and_return() {
    for seed in 0..200 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let options = match seed % 4 {
            0 => lazy(),
            1 => Options { per_backend: 0, ..lazy() },
            2 => Options { per_backend: 2, connecting_per_backend: 1, ..lazy() },
            _ => eager(2, 3),
        };
        let mut stage = Stage::seeded(options, seed);
        let mut waits: Vec<usize> = Vec::new();
        for _ in 0..200 {
            let dial = stage.dials.get(random.below(8)).map(|(_, number)| *number);
            match (random.below(8), dial) {
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
                (3 | 4, Some(number)) => drop(stage.accept(number)),
                (5, Some(number)) => stage.refuse(number),
                (6, _) => {
                    let up: Vec<_> = stage.machine.snapshot().connections;
                    if let Some(glance) = up.get(random.below(8)) {
                        stage.ended(glance.connection);
                    }
                }
                _ => stage.pass(ms(1 + random.below(1_500) as u64)),
            }
        }
        waits.drain(..).for_each(|n| forget_ready(&mut stage, n));
        stage.backends(&[1, 2, 3]);
        expect_ready(&mut stage, 3);
        for _ in 0..100 {
            accept_all(&mut stage);
            stage.pass(ms(100));
        }
        assert!(stage.machine.readiness().is_enough(3), "seed {seed}");
    }
}
