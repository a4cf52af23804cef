//! Outages: every known backend is dead. Attempts go on at least every second, and claims wait for them.

use crate::stage::{Stage, ms, options};
use carom_core::pool::{Claimed, Options, Refusal, State};
use carom_core::recovery::Policy;
use std::collections::BTreeSet;
use std::time::Duration;

const FAILED: Refusal = Refusal::Failed { dead: 1, known: 1 };

/// The default policy without jitter: dead after three attempts, 300 ms after the first failure.
fn exact() -> Policy {
    Policy::default().spread(0.0)
}

/// One backend, dead since this moment.
fn dead(options: Options) -> Stage {
    let mut stage = Stage::new(options);
    stage.backends(&[1]);
    refuse_until_dead(&mut stage, 1);
    assert_eq!(stage.machine.state(), State::Failed);
    stage
}

fn refuse_until_dead(stage: &mut Stage, number: u16) {
    let dead = stage.machine.dead_of_known().0;
    while stage.machine.dead_of_known().0 == dead {
        stage.pass_until(|stage| stage.dialling(number) > 0);
        stage.refuse(number);
    }
}

/// How long until the next attempt begins.
fn until_next_attempt(stage: &mut Stage) -> Duration {
    let before = stage.now;
    stage.pass_until(|stage| !stage.dials.is_empty());
    stage.now - before
}

#[test]
fn claim_waits_while_all_backends_are_dead_and_is_served_when_one_is_back() {
    let mut stage = dead(Options { recovery: exact().into(), ..options(1, 4) });
    let waiter = stage.wait(ms(30_000));
    for _ in 0..3 {
        stage.pass_until(|stage| stage.dialling(1) > 0);
        stage.refuse(1);
    }
    assert_eq!((stage.refused(waiter), stage.machine.waiting()), (None, 1));
    stage.pass_until(|stage| stage.dialling(1) > 0);
    stage.accept(1);
    assert!(stage.granted(waiter).is_some());
    assert_eq!(stage.machine.state(), State::Running);
}

#[test]
fn attempts_in_an_outage_are_at_most_a_second_apart_with_jitter() {
    for spread in [0.0, 0.2, 1.0] {
        let mut stage = dead(Options { recovery: exact().spread(spread).into(), ..options(1, 4) });
        for _ in 0..50 {
            let delay = until_next_attempt(&mut stage);
            assert!(delay <= ms(1_000) && delay >= ms(200), "{delay:?} with spread {spread}");
            stage.refuse(1);
        }
    }
}

#[test]
fn backends_that_died_earlier_are_tried_at_once_when_the_last_one_dies() {
    let mut stage = Stage::connected(Options { recovery: exact().into(), ..options(2, 4) }, &[1, 2]);
    stage.end_idle(2);
    refuse_until_dead(&mut stage, 1);
    for _ in 0..4 {
        stage.pass_until(|stage| stage.dialling(1) > 0);
        stage.refuse(1);
    }
    stage.pass(ms(1_500));
    assert_eq!(stage.dialling(1), 0, "while another may serve it is tried every 3 s in the end");
    refuse_until_dead(&mut stage, 2);
    assert_eq!((stage.machine.state(), stage.dialling(1)), (State::Failed, 1));
}

#[test]
fn claim_triggers_an_attempt_unless_one_failed_within_delay() {
    let mut stage = dead(Options { recovery: exact().into(), ..options(1, 4) });
    stage.wait(ms(30_000));
    assert_eq!(until_next_attempt(&mut stage), ms(100), "`delay` after the last attempt failed");
    stage.wait(ms(30_000));
    assert_eq!(stage.dialling(1), 1, "one is running");
    stage.refuse(1);
    stage.pass(ms(500));
    assert_eq!(stage.dialling(1), 0);
    stage.wait(ms(30_000));
    assert_eq!(stage.dialling(1), 1, "at once");
}

#[test]
fn try_claim_fails_at_once_and_triggers_an_attempt() {
    let mut stage = dead(Options { recovery: exact().into(), ..options(1, 4) });
    stage.pass(ms(300));
    assert_eq!(stage.dialling(1), 0);
    assert_eq!(stage.machine.try_claim(stage.now), Claimed::Refused(FAILED));
    stage.go();
    assert_eq!(stage.dialling(1), 1);
}

#[test]
fn claim_fails_after_outage_wait_or_at_its_own_deadline() {
    let mut stage = dead(Options { recovery: exact().into(), ..options(1, 4) });
    let (patient, hasty) = (stage.wait(ms(30_000)), stage.wait(ms(700)));
    let refuse_for = |stage: &mut Stage, time: Duration| {
        let until = stage.now + time;
        while stage.now < until {
            if stage.dialling(1) > 0 {
                stage.refuse(1);
            }
            stage.pass(ms(10));
        }
    };
    refuse_for(&mut stage, ms(690));
    assert_eq!(stage.refused(hasty), None);
    refuse_for(&mut stage, ms(10));
    assert_eq!(stage.refused(hasty), Some(FAILED));
    refuse_for(&mut stage, ms(4_290));
    assert_eq!(stage.refused(patient), None);
    refuse_for(&mut stage, ms(10));
    assert_eq!((stage.refused(patient), stage.machine.waiting()), (Some(FAILED), 0));
}

#[test]
fn claim_that_waits_when_the_last_backend_dies_has_outage_wait_from_then_on() {
    let mut stage = Stage::new(Options { recovery: exact().into(), ..options(1, 4) });
    stage.backends(&[1]);
    let (patient, hasty) = (stage.wait(ms(30_000)), stage.wait(ms(4_000)));
    stage.pass(ms(1_900));
    refuse_until_dead(&mut stage, 1);
    let began = stage.now;
    stage.pass_until(|stage| stage.refused(hasty).is_some());
    assert_eq!((stage.elapsed(), stage.refused(patient)), (ms(4_000), None));
    stage.pass_until(|stage| stage.refused(patient).is_some());
    assert_eq!(stage.now - began, ms(5_000));
}

#[test]
fn claim_keeps_its_deadline_when_the_outage_ends_without_a_connection() {
    let mut stage = dead(Options { recovery: exact().into(), ..options(1, 4) });
    let waiter = stage.wait(ms(20_000));
    stage.backends(&[]);
    stage.pass(ms(19_990));
    assert_eq!(stage.refused(waiter), None, "no backend is dead any more");
    stage.pass(ms(10));
    assert_eq!(stage.refused(waiter), Some(Refusal::TimedOut { ahead: 0 }));
}

#[test]
fn claim_without_outage_wait_fails_when_an_attempt_that_began_later_failed_at_every_backend() {
    let mut stage = Stage::new(Options { recovery: exact().into(), outage_wait: Duration::ZERO, ..options(2, 4) });
    stage.backends(&[1, 2]);
    refuse_until_dead(&mut stage, 1);
    refuse_until_dead(&mut stage, 2);
    stage.pass_until(|stage| stage.dialling(1) > 0);
    stage.pass(ms(10));
    let waiter = stage.wait(ms(30_000));
    stage.refuse(1);
    assert_eq!(stage.refused(waiter), None, "this attempt began before the claim");
    stage.pass_until(|stage| stage.dialling(2) > 0);
    stage.refuse(2);
    assert_eq!(stage.refused(waiter), None, "one backend has not been tried yet");
    stage.pass_until(|stage| stage.dialling(1) > 0);
    stage.refuse(1);
    assert_eq!(stage.refused(waiter), Some(Refusal::Failed { dead: 2, known: 2 }));
}

#[test]
fn claims_beyond_max_waiters_are_refused_in_an_outage() {
    let mut stage = dead(Options { max_waiters: Some(1), ..options(1, 4) });
    stage.wait(ms(30_000));
    assert_eq!(stage.claim(ms(30_000)), Claimed::Refused(Refusal::Full));
}

#[test]
fn claims_that_waited_for_an_outage_to_end_are_not_shed_as_overload() {
    let options = Options { recovery: exact().into(), target_delay: Some(ms(50)), ..options(1, 4) };
    let mut stage = dead(options);
    let waiters = [stage.wait(ms(30_000)), stage.wait(ms(30_000))];
    stage.pass(ms(90));
    stage.pass_until(|stage| stage.dialling(1) > 0);
    stage.pass(ms(900));
    stage.accept_all();
    assert!(waiters.iter().all(|&waiter| stage.granted(waiter).is_some()), "{:?}", stage.deliveries);
}

#[test]
fn more_dead_backends_than_the_maximum_take_turns_every_second() {
    let mut stage = Stage::new(Options { recovery: exact().into(), ..options(2, 2) });
    let all: Vec<u16> = (1..=5).collect();
    stage.backends(&all);
    while stage.machine.state() != State::Failed {
        while let Some(&(_, number)) = stage.dials.first() {
            stage.refuse(number);
        }
        stage.pass(ms(10));
    }
    let mut tried = BTreeSet::new();
    let (mut last, until) = (stage.now, stage.now + ms(5_000));
    while stage.now < until {
        while let Some(&(_, number)) = stage.dials.first() {
            tried.insert(number);
            last = stage.now;
            stage.refuse(number);
        }
        assert!(stage.now - last <= ms(1_000), "no attempt for {:?}", stage.now - last);
        stage.pass(ms(10));
    }
    assert_eq!(tried.len(), 5);
}

#[test]
fn hanging_attempts_in_an_outage_get_company_every_second() {
    let mut stage = dead(Options { recovery: exact().into(), connecting_per_backend: 3, ..options(1, 4) });
    let waiter = stage.wait(ms(30_000));
    stage.pass_until(|stage| stage.dialling(1) == 1);
    stage.pass(ms(990));
    assert_eq!(stage.dialling(1), 1);
    stage.pass(ms(10));
    assert_eq!(stage.dialling(1), 2, "the first one is a second old");
    stage.pass(ms(3_000));
    assert_eq!(stage.dialling(1), 3, "no more than connecting_per_backend");
    let (latest, _) = stage.dials.pop().unwrap();
    stage.machine.handle_connected(stage.now, latest, false);
    stage.go();
    assert!(stage.granted(waiter).is_some());
    assert_eq!(stage.dialling(1), 1, "attempts that hung are replaced by one that may succeed");
    stage.accept(1);
}

#[test]
fn hanging_attempt_that_fails_in_an_outage_does_not_delay_the_next() {
    let mut stage = dead(Options { recovery: exact().into(), ..options(1, 4) });
    stage.wait(ms(30_000));
    stage.pass_until(|stage| stage.dialling(1) == 1);
    stage.pass(ms(1_500));
    assert_eq!(stage.dialling(1), 2);
    let (first, _) = stage.dials.remove(0);
    stage.machine.handle_connect_failed(stage.now, first);
    stage.go();
    stage.pass(ms(490));
    assert_eq!(stage.dialling(1), 1, "the second one is not a second old");
    stage.pass(ms(10));
    assert_eq!(stage.dialling(1), 2);
}
