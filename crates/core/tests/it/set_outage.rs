//! Outages of a set: every known backend is dead. Leases of any backend wait, and attempts go on at least every second.

use crate::set_stage::{Stage, backend, eager, lazy, ms, policy, to, within};
use carom_core::set::{Options, Refusal, State, Want};
use std::sync::Arc;
use std::time::Duration;

const FAILED: Refusal = Refusal::Failed { dead: 1, known: 1 };

/// Delays that double from 100 ms up to 10 s, and attempts of up to 8 s.
fn slow() -> Options {
    let policy = policy(2).max_delay(ms(10_000)).max_timeout(ms(8_000));
    Options { recovery: policy.into(), ..lazy() }
}

/// A set whose backends are all dead since this moment.
fn dead(options: Options, numbers: &[u16]) -> Stage {
    let mut stage = Stage::knowing(options, numbers);
    let mut waiter = stage.wait(Want::any());
    loop {
        refuse_all(&mut stage);
        if stage.machine.state() == State::Failed {
            stage.cancel(waiter);
            return stage;
        }
        if !stage.waits(waiter) {
            waiter = stage.wait(Want::any());
        }
        stage.pass(ms(1));
    }
}

/// Every attempt fails at once.
fn refuse_for(stage: &mut Stage, time: Duration) {
    let until = stage.now + time;
    while stage.now < until {
        refuse_all(stage);
        stage.pass(ms(1));
    }
}

fn refuse_all(stage: &mut Stage) {
    while let Some(&(id, _)) = stage.dials.first() {
        stage.failed(id);
    }
}

/// How long until the next attempt begins.
fn until_next_attempt(stage: &mut Stage) -> Duration {
    let before = stage.now;
    while stage.dials.is_empty() {
        stage.pass(ms(1));
    }
    stage.now - before
}

#[test]
fn lease_waits_while_all_backends_are_dead_and_is_served_when_one_is_back() {
    let mut stage = dead(slow(), &[1, 2]);
    let waiter = stage.wait(Want::any());
    refuse_for(&mut stage, ms(3_000));
    assert!(stage.waits(waiter));
    while !stage.dialling().contains(&2) {
        stage.pass(ms(1));
    }
    let id = stage.accept(2);
    assert_eq!((stage.granted(waiter), stage.machine.state()), (Some(id), State::Running));
    assert_eq!(stage.dials.len(), 0, "no lease waits for the other one");
}

#[test]
fn every_backend_is_tried_at_least_once_a_second_in_an_outage_with_jitter() {
    for spread in [0.0, 0.2, 1.0] {
        let recovery = policy(2).max_delay(ms(10_000)).spread(spread);
        let hour = ms(3_600_000);
        let options = Options { recovery: recovery.into(), outage_wait: hour, lease_timeout: hour, ..lazy() };
        let mut stage = dead(options, &[1]);
        stage.wait(Want::any());
        for _ in 0..50 {
            let delay = until_next_attempt(&mut stage);
            assert!(delay <= ms(1_000), "{delay:?} with spread {spread}");
            stage.refuse(1);
        }
    }
}

#[test]
fn eager_set_tries_dead_backends_every_second_in_an_outage_though_no_lease_waits() {
    let recovery = policy(2).max_delay(ms(10_000));
    let mut stage = Stage::knowing(Options { recovery: recovery.into(), ..eager(2, 2) }, &[1, 2]);
    stage.kill(1);
    for _ in 0..15_000 {
        if stage.dialling().contains(&1) {
            stage.refuse(1);
        }
        stage.pass(ms(1));
    }
    assert!(!stage.dialling().contains(&1), "while another may serve it is tried every 10 s in the end");
    stage.kill(2);
    assert_eq!((stage.machine.state(), stage.dialling()), (State::Failed, vec![1]));
    for _ in 0..10 {
        assert!(until_next_attempt(&mut stage) <= ms(1_000));
        refuse_for(&mut stage, ms(1));
    }
}

#[test]
fn lease_triggers_an_attempt_unless_one_failed_within_delay() {
    let mut stage = dead(slow(), &[1]);
    stage.wait(Want::any());
    assert_eq!(until_next_attempt(&mut stage), ms(100), "`delay` after the last attempt failed");
    stage.wait(Want::any());
    assert_eq!(stage.dialling(), [1], "one is running");
    stage.refuse(1);
    stage.pass(ms(200));
    stage.wait(Want::any());
    assert_eq!(stage.dialling(), [1], "at once");
}

#[test]
fn lease_fails_after_outage_wait_or_at_its_own_deadline() {
    let mut stage = dead(slow(), &[1]);
    let (patient, hasty) = (stage.wait(Want::any()), stage.wait(within(Want::any(), ms(700))));
    refuse_for(&mut stage, ms(699));
    assert!(stage.waits(hasty));
    refuse_for(&mut stage, ms(1));
    assert_eq!(stage.refused(hasty), Some(FAILED));
    refuse_for(&mut stage, ms(4_299));
    assert!(stage.waits(patient));
    refuse_for(&mut stage, ms(1));
    assert_eq!((stage.refused(patient), stage.dials.len()), (Some(FAILED), 0));
}

#[test]
fn lease_that_waits_when_the_last_backend_dies_has_outage_wait_from_then_on() {
    let mut stage = Stage::knowing(slow(), &[1]);
    let (patient, hasty) = (stage.wait(Want::any()), stage.wait(within(Want::any(), ms(4_000))));
    stage.pass(ms(900));
    stage.kill(1);
    let began = stage.now;
    while stage.waits(hasty) {
        refuse_for(&mut stage, ms(1));
    }
    assert_eq!((stage.now - stage.start, stage.waits(patient)), (ms(4_000), true));
    while stage.waits(patient) {
        refuse_for(&mut stage, ms(1));
    }
    assert_eq!(stage.now - began, ms(5_000));
}

#[test]
fn lease_keeps_its_deadline_when_the_outage_ends_without_a_connection() {
    let mut stage = dead(slow(), &[1]);
    let waiter = stage.wait(within(Want::any(), ms(20_000)));
    stage.backends(&[]);
    stage.pass(ms(19_999));
    assert!(stage.waits(waiter), "no backend is dead any more");
    stage.pass(ms(1));
    assert_eq!(stage.refused(waiter), Some(Refusal::TimedOut { after: ms(20_000) }));
}

#[test]
fn lease_without_outage_wait_fails_when_an_attempt_that_began_later_failed_at_every_backend() {
    let mut stage = dead(Options { outage_wait: Duration::ZERO, ..slow() }, &[1, 2]);
    stage.wait(Want::any());
    until_next_attempt(&mut stage);
    stage.pass(ms(10));
    let waiter = stage.wait(Want::any());
    while let Some(&(_, number)) = stage.dials.first() {
        stage.refuse(number);
        assert!(stage.waits(waiter), "this attempt began before the lease");
    }
    until_next_attempt(&mut stage);
    let first = stage.dialling()[0];
    stage.refuse(first);
    assert!(stage.waits(waiter), "one backend has not been tried yet");
    until_next_attempt(&mut stage);
    let second = stage.dialling()[0];
    assert_ne!(first, second);
    stage.refuse(second);
    assert_eq!(stage.refused(waiter), Some(Refusal::Failed { dead: 2, known: 2 }));
}

#[test]
fn lease_of_a_named_backend_fails_with_its_attempts_in_an_outage() {
    let mut stage = dead(slow(), &[1]);
    let (named, any) = (stage.wait(to(1)), stage.wait(Want::any()));
    until_next_attempt(&mut stage);
    stage.refuse(1);
    assert_eq!(stage.refused(named), Some(Refusal::Unreachable(Arc::new(backend(1)))));
    assert!(stage.waits(any));
}

#[test]
fn hanging_dials_in_an_outage_get_company_every_second() {
    let mut stage = dead(Options { connecting_per_backend: 3, outage_wait: ms(60_000), ..slow() }, &[1]);
    let waiter = stage.wait(Want::any());
    until_next_attempt(&mut stage);
    stage.pass(ms(999));
    assert_eq!(stage.dialling(), [1]);
    stage.pass(ms(1));
    assert_eq!(stage.dialling(), [1, 1], "the first one is a second old");
    stage.pass(ms(3_000));
    assert_eq!(stage.dialling(), [1, 1, 1], "no more than connecting_per_backend");
    stage.refuse(1);
    stage.pass(ms(1_000));
    assert_eq!(stage.dialling(), [1, 1, 1], "the first one timed out");
    let (middle, _) = stage.dials[1];
    stage.connected(middle);
    assert_eq!((stage.granted(waiter), stage.dials.len()), (Some(middle), 0), "one of them is enough");
}

#[test]
fn hanging_dial_that_fails_in_an_outage_does_not_delay_the_next() {
    let mut stage = dead(Options { outage_wait: ms(60_000), ..slow() }, &[1]);
    stage.wait(Want::any());
    until_next_attempt(&mut stage);
    stage.pass(ms(1_500));
    let (first, _) = stage.dials[0];
    stage.failed(first);
    assert_eq!(stage.dialling(), [1], "the second one is half a second old");
    stage.pass(ms(499));
    assert_eq!(stage.dialling(), [1]);
    stage.pass(ms(1));
    assert_eq!(stage.dialling(), [1, 1]);
}

#[test]
fn dial_that_hung_before_its_successor_failed_still_serves() {
    let mut stage = dead(Options { outage_wait: ms(60_000), ..slow() }, &[1]);
    let waiter = stage.wait(Want::any());
    until_next_attempt(&mut stage);
    let (slow, _) = stage.dials[0];
    stage.pass(ms(1_000));
    let (quick, _) = stage.dials[1];
    stage.failed(quick);
    assert_eq!(stage.dials, [(slow, 1)]);
    stage.connected(slow);
    assert_eq!(stage.granted(waiter), Some(slow));
}

#[test]
fn dials_of_a_lease_that_gives_up_in_an_outage_end() {
    let mut stage = dead(slow(), &[1, 2]);
    let waiter = stage.wait(Want::any());
    until_next_attempt(&mut stage);
    stage.pass(ms(1_500));
    assert_eq!(stage.dials.len(), 4);
    stage.cancel(waiter);
    assert_eq!(stage.dials.len(), 0);
}

#[test]
fn many_dead_backends_are_tried_sixteen_at_a_time() {
    let all: Vec<u16> = (1..=40).collect();
    let mut stage = dead(slow(), &all);
    stage.pass(ms(1_000));
    stage.wait(Want::any());
    assert_eq!(stage.dials.len(), 16);
    stage.refuse(stage.dialling()[0]);
    assert_eq!(stage.dials.len(), 16);
    refuse_for(&mut stage, ms(1));
    let dialled = stage.dialled;
    refuse_for(&mut stage, ms(1_000));
    assert!(stage.dialled - dialled >= 40, "{} attempts in a second", stage.dialled - dialled);
}

#[test]
fn with_no_places_leases_that_wait_in_an_outage_all_get_a_connection_when_it_ends() {
    let mut stage = dead(Options { per_backend: 0, ..slow() }, &[1, 2]);
    let waiters = [0; 5].map(|_| stage.wait(Want::any()));
    refuse_for(&mut stage, ms(2_000));
    assert!(waiters.iter().all(|waiter| stage.waits(*waiter)));
    while !stage.dialling().contains(&2) {
        stage.pass(ms(1));
    }
    while stage.dialling().contains(&2) {
        stage.accept(2);
    }
    let mut granted: Vec<_> = waiters.iter().filter_map(|waiter| stage.granted(*waiter)).collect();
    granted.dedup();
    assert_eq!((granted.len(), stage.dials.len(), stage.up()), (5, 0, 5), "one for each lease, and no dial is left");
}
