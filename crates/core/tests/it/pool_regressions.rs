//! What the simulation found, each told again in the few steps that matter. Named for what must not happen again.

use crate::stage::{Stage, ms, options, policy, recovery};
use carom_core::backend::BackendState;
use carom_core::pool::{Claimed, Options, Outcome, Request, State};
use carom_core::recovery::Recovery;
use carom_core::slot::Phase;
use std::time::Duration;

/// The plan wanted a lent connection closed, then its backend was removed, then the next plan changed its mind about the
/// connection: it came back, and was lent again.
#[test]
fn a_removed_backend_is_not_lent_because_a_plan_changed_its_mind() {
    let mut stage = Stage::connected(options(0, 2), &[1]);
    let lent = [stage.take_connecting(), stage.take_connecting()];
    stage.backends(&[1, 2]);
    stage.backends(&[2]);
    stage.accept_all();
    let closed = stage.closed;
    lent.into_iter().for_each(|slot| stage.release(slot, Outcome::Open));
    assert_eq!((stage.closed - closed, stage.machine.snapshot().draining.total()), (2, 0));
    assert_eq!(stage.slots_of(1), 0);
}

/// The pool had stopped sampling; the waiter had been planned for, left without a word, and its connection stayed for ever.
#[test]
fn nothing_is_kept_for_a_waiter_who_has_left() {
    for gives_up in [true, false] {
        let mut stage = Stage::connected(Options { max_idle: Some(ms(1_000)), ..options(0, 4) }, &[1]);
        let slot = stage.take_connecting();
        stage.release(slot, Outcome::Dropped);
        stage.pass(Duration::from_secs(60));
        assert_eq!((stage.machine.state(), stage.counts().total()), (State::Running, 0));
        let waiter = stage.wait(ms(400));
        assert_eq!(stage.dialling(1), 1);
        stage.pass(ms(390));
        if gives_up {
            assert!(stage.machine.forget_waiter(waiter));
        }
        stage.pass(ms(100));
        stage.accept_all();
        stage.pass(Duration::from_secs(60));
        assert_eq!((stage.counts().total(), stage.machine.wanted()), (0, 0), "gives up: {gives_up}");
    }
}

/// A failed pool wants one slot whatever the load; when it was running again nobody looked at that.
#[test]
fn a_pool_that_came_back_lets_go_of_the_slot_it_tried_with() {
    let mut stage = Stage::new(Options { max_idle: Some(ms(1_000)), ..options(0, 1) });
    stage.backends(&[1]);
    stage.wait(ms(100));
    stage.refuse(1);
    assert_eq!(stage.machine.state(), State::Failed);
    stage.pass(ms(1_000));
    stage.accept(1);
    stage.pass(Duration::from_secs(60));
    assert_eq!((stage.machine.state(), stage.counts().total()), (State::Running, 0));
}

/// Only idle connections were looked at: one that was being checked just then was not released, and no look followed.
#[test]
fn a_surplus_connection_that_is_being_checked_is_released_all_the_same() {
    let options =
        Options { check_after: Some(ms(600)), check_timeout: ms(60_000), max_idle: Some(ms(4_000)), ..options(0, 1) };
    let mut stage = Stage::connected(options, &[1]);
    let slot = stage.take_connecting();
    stage.release(slot, Outcome::Open);
    stage.pass(ms(2_000));
    assert_eq!(stage.of(Phase::Checking), 1, "this check takes long");
    stage.pass(Duration::from_secs(30));
    assert_eq!((stage.counts().total(), stage.checks.len()), (0, 0));
}

/// At the maximum, a new backend waited for connections of the old one that were being checked.
#[test]
fn a_check_does_not_keep_a_new_backend_from_its_share() {
    let options = Options { check_after: Some(ms(600)), check_timeout: ms(60_000), ..options(2, 2) };
    let mut stage = Stage::connected(options, &[1]);
    stage.pass(ms(2_000));
    assert_eq!(stage.of(Phase::Checking), 2);
    stage.backends(&[1, 2]);
    assert_eq!((stage.slots_of(1), stage.dialling(2)), (1, 1));
}

/// A slot whose attempt had just timed out was not seen by the plan, went on trying, and the slot it was to make room for
/// never came.
#[test]
fn a_slot_that_is_about_to_try_again_can_be_taken_away() {
    for hanging in [1, 2] {
        let recovery = Recovery::from(policy(3).timeout(ms(2_000)).max_timeout(ms(8_000)).delay(ms(100)));
        let mut stage = Stage::new(Options { recovery, ..options(1, 1) });
        stage.backends(&[hanging]);
        stage.pass(ms(1_900));
        stage.backends(&[1, 2]);
        stage.pass(ms(200));
        let other = 3 - hanging;
        assert_eq!((stage.dialling(other), stage.slots_of(hanging)), (1, 0), "the one that fails gives way");
    }
}

/// Both were slower than a quarter of the timeout; the one that could have served was given up for the one that hangs.
#[test]
fn a_slow_backend_is_not_given_up_for_one_that_hangs() {
    let recovery = Recovery::from(policy(3).timeout(ms(2_000)).max_timeout(ms(8_000)).delay(ms(100)));
    for seed in 0..10 {
        let mut stage = Stage::seeded(Options { recovery: recovery.clone(), ..options(0, 1) }, seed);
        stage.backends(&[1, 2]);
        let waiter = stage.wait(ms(5_000));
        let mut dialled_since = None;
        while stage.granted(waiter).is_none() && stage.refused(waiter).is_none() {
            stage.pass(ms(10));
            // 1 hangs, 2 takes 700 ms.
            dialled_since = if stage.dialling(2) == 0 { None } else { dialled_since.or(Some(stage.now)) };
            if dialled_since.is_some_and(|since| stage.now - since >= ms(700)) {
                stage.accept(2);
            }
        }
        assert!(stage.granted(waiter).is_some(), "seed {seed}");
        assert!(stage.elapsed() <= ms(3_500), "seed {seed}: after {:?}", stage.elapsed());
    }
}

/// Its lent connections made it a working backend, so nobody doubted it: its connects hung, and with them half of the pool.
#[test]
fn a_backend_that_hangs_while_lent_from_does_not_keep_slots_others_could_use() {
    let recovery = Recovery::from(policy(3).timeout(ms(2_000)).max_timeout(ms(8_000)).delay(ms(100)));
    let mut stage = Stage::connected(Options { recovery, ..options(0, 6) }, &[1, 2]);
    for _ in 0..2 {
        stage.take_connecting();
    }
    let waiters: Vec<_> = (0..3).map(|_| stage.wait(ms(5_000))).collect();
    for _ in 0..200 {
        stage.pass(ms(10));
        stage.accept_all_of(2);
    }
    assert!(waiters.iter().all(|waiter| stage.granted(*waiter).is_some()));
    assert_eq!((stage.counts_of(1).working(), stage.slots_of(1)), (1, 2), "one goes on trying");
    let state = stage.machine.snapshot().backends.iter().find(|found| found.backend.port() == 1).unwrap().state;
    assert_eq!(state, BackendState::Healthy, "it has something working");
}

/// It was doubted while one of it worked; when that one failed nobody planned, and two slots went on trying.
#[test]
fn losing_the_last_connection_of_a_doubted_backend_is_planned_for() {
    let recovery = Recovery::from(policy(3).delay(ms(100)));
    let mut stage = Stage::connected(Options { recovery, ..options(0, 8) }, &[1, 2]);
    let lent = [stage.take_connecting(), stage.take_connecting()];
    let waiters: Vec<_> = (0..4).map(|_| stage.wait(ms(5_000))).collect();
    stage.accept_all_of(2);
    stage.refuse(1);
    assert_eq!((stage.counts_of(1).working(), stage.slots_of(1)), (1, 2), "one tries");
    let of_1 = stage.machine.lent().find(|lent| lent.backend.port() == 1).expect("one is lent").slot;
    assert!(lent.contains(&of_1));
    stage.release(of_1, Outcome::Failed);
    assert_eq!((stage.counts_of(1).working(), stage.slots_of(1)), (0, 0), "a probe finds out whether it is back");
    stage.accept_all_of(2);
    assert!(waiters.iter().all(|waiter| stage.granted(*waiter).is_some()));
}

/// That one use failed does not say that the backend cannot be connected to.
#[test]
fn a_failed_use_does_not_take_slots_from_a_backend_of_which_others_work() {
    let recovery = Recovery::from(policy(3).delay(ms(100)));
    let mut stage = Stage::connected(Options { recovery, ..options(6, 6) }, &[1, 2]);
    stage.pass(ms(1_000));
    for _ in 0..6 {
        stage.take();
    }
    let of_1: Vec<_> = stage.machine.lent().filter(|lent| lent.backend.port() == 1).map(|lent| lent.slot).collect();
    assert_eq!(of_1.len(), 3);
    of_1.into_iter().take(2).for_each(|slot| stage.release(slot, Outcome::Failed));
    assert_eq!((stage.counts_of(1).working(), stage.slots_of(1)), (1, 3));
    stage.pass(ms(100));
    assert_eq!(stage.dialling(1), 2);
}

#[test]
fn connection_that_is_not_wanted_any_more_is_closed_when_it_is_released() {
    for removed in [false, true] {
        let mut stage = Stage::connected(options(4, 4), &[1]);
        let lent: Vec<_> = (0..4).map(|_| stage.take()).collect();
        if removed {
            // The plan wants some closed, then forgets about it: they are not its own any more.
            stage.backends(&[1, 2]);
            stage.backends(&[2]);
        } else {
            stage.machine.resize(stage.now, 0, 1).unwrap();
        }
        stage.go();
        let closed = stage.closed;
        lent.into_iter().for_each(|slot| stage.release(slot, Outcome::Open));
        assert_eq!(stage.closed - closed, if removed { 4 } else { 3 }, "removed: {removed}");
    }
}

/// What drains is not load, but the pool went on keeping connections for it until the next claim.
#[test]
fn lent_connections_of_a_removed_backend_do_not_keep_the_pool_large() {
    let mut stage = Stage::connected(Options { max_idle: Some(ms(1_000)), ..options(1, 8) }, &[1]);
    for _ in 0..5 {
        stage.take_connecting();
    }
    stage.pass(Duration::from_secs(60));
    stage.backends(&[2]);
    stage.accept_all();
    stage.pass(Duration::from_secs(60));
    assert_eq!((stage.machine.wanted(), stage.counts().total()), (1, 1));
    assert_eq!(stage.machine.snapshot().draining.of(Phase::Busy), 5);
}

/// Held slots kept the attempts they were planned with: one failed watch was all that a revived backend's others had.
#[test]
fn slots_held_back_by_a_dead_backend_start_afresh_when_it_is_back() {
    let mut stage = Stage::new(Options { recovery: recovery(3), ..options(2, 2) });
    stage.backends(&[1]);
    let refuse = |stage: &mut Stage| {
        stage.refuse(1);
        stage.pass(ms(4));
    };
    (0..3).for_each(|_| refuse(&mut stage));
    assert_eq!(stage.machine.state(), State::Failed);
    stage.pass(ms(1_000));
    stage.accept(1);
    assert_eq!(stage.dialling(1), 1);
    (0..2).for_each(|_| refuse(&mut stage));
    assert_eq!(stage.dialling(1), 1, "the third attempt");
}

/// The deadline of a waiter long gone was named as the next timeout.
#[test]
fn a_waiter_who_was_served_leaves_no_deadline_behind() {
    let mut stage = Stage::connected(Options { max_idle: None, ..options(1, 1) }, &[1]);
    let slot = stage.take();
    let waiter = stage.wait(ms(300));
    stage.release(slot, Outcome::Open);
    stage.machine.forget_waiter(waiter);
    let again = stage.machine.claim(stage.now, Request::within(ms(100_000)));
    assert!(matches!(again, Claimed::Waiting(_)));
    stage.pass(Duration::from_secs(60));
    assert!(stage.machine.next_timeout().is_some_and(|next| next > stage.now), "it is in the future");
}

/// The load went up and down, the plan took away the slot that was backing off and later added a fresh one, which dialled at
/// once: a server that accepts and closes was hammered, and never declared dead.
#[test]
fn a_new_slot_goes_on_where_the_last_one_failed() {
    let policy = policy(3).delay(ms(100)).max_delay(ms(1_000));
    let mut stage = Stage::new(Options { recovery: policy.into(), ..options(0, 4) });
    stage.backends(&[1]);
    let mut dials = 0;
    while stage.elapsed() < ms(10_000) {
        // Whoever claims blames the backend at once; nobody else waits meanwhile.
        let claimed = stage.machine.claim(stage.now, Request::within(ms(50)));
        stage.go();
        if let Claimed::Waiting(waiter) = claimed {
            if stage.dialling(1) > 0 {
                dials += 1;
                stage.accept(1);
            }
            if let Some(slot) = stage.granted(waiter) {
                stage.machine.release(stage.now, slot, Outcome::Failed);
            }
            stage.pass(ms(60));
            stage.machine.forget_waiter(waiter);
        } else {
            stage.pass(ms(60));
        }
        stage.deliveries.clear();
    }
    // While it is dead every claim triggers an attempt, but not within `delay` of the last.
    assert!(dials <= 100, "{dials} connections in ten seconds");
}

/// All of many backends were dead, and only as many as the maximum were ever tried again.
#[test]
fn where_not_all_dead_backends_can_be_watched_they_take_turns() {
    let policy = policy(1).delay(ms(10)).max_delay(ms(1_000));
    let mut stage = Stage::new(Options { recovery: policy.into(), decoherence: ms(3_600_000), ..options(2, 2) });
    let all: Vec<u16> = (1..=10).collect();
    stage.backends(&all);
    let mut tried = std::collections::BTreeSet::new();
    let mut refuse_all = |stage: &mut Stage| {
        while let Some(&(_, number)) = stage.dials.first() {
            tried.insert((stage.machine.state() == State::Failed, number));
            stage.refuse(number);
        }
    };
    for _ in 0..1_200 {
        refuse_all(&mut stage);
        stage.pass(ms(10));
    }
    assert_eq!(stage.machine.state(), State::Failed);
    let watched = tried.iter().filter(|(failed, _)| *failed).count();
    assert_eq!(watched, 10, "within a few times max_delay every one has had a turn");
}

/// Three were dead when the pool was built, two came back, and two were all that was wanted: nobody ever looked at the third again,
/// and it was called dead for as long as the load did not grow.
#[test]
fn a_dead_backend_is_watched_though_others_have_all_the_slots_that_are_wanted() {
    let policy = policy(1).delay(ms(10)).max_delay(ms(1_000));
    let mut stage = Stage::new(Options { recovery: policy.into(), ..options(2, 4) });
    stage.backends(&[1, 2, 3]);
    let mut turns = 0;
    while stage.machine.state() != State::Failed {
        while let Some(&(_, number)) = stage.dials.first() {
            stage.refuse(number);
        }
        stage.pass(ms(10));
        turns += 1;
        assert!(turns < 1_000, "all are refused");
    }
    for _ in 0..500 {
        stage.accept_all();
        stage.pass(ms(10));
    }
    assert_eq!((stage.machine.state(), stage.machine.dead_of_known()), (State::Running, (0, 3)));
}
