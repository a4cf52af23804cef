//! Suspect connections: what follows for the idle connections of a backend when another one breaks.

use crate::stage::{Stage, ms, options, policy};
use carom_core::ejection::Ejection;
use carom_core::pool::{Ending, Options, Outcome, State};
use carom_core::recovery::Recovery;
use carom_core::slot::{Phase, SlotRef};

/// A pool whose connections are all idle but the first, which is lent. Its backends are known to work.
fn with_idle(options: Options, backends: &[u16]) -> (Stage, SlotRef) {
    let mut stage = Stage::connected(options, backends);
    stage.pass(ms(2_000));
    let lent = stage.take();
    stage.accept_all();
    stage.pass(ms(1));
    (stage, lent)
}

fn end_check(stage: &mut Stage, passed: bool) {
    let check = stage.checks.remove(0);
    stage.machine.handle_checked(stage.now, check, passed);
    stage.go();
}

#[test]
fn idle_connections_are_suspect_once_another_of_the_backend_broke() {
    let (mut stage, lent) = with_idle(options(4, 4), &[1, 2]);
    let number = stage.lent_from(lent);
    let idle = stage.counts_of(number).of(Phase::Idle);
    stage.release(lent, Outcome::Broken);
    let counts = stage.counts_of(number);
    assert_eq!((counts.suspects(), counts.of(Phase::Checking), counts.of(Phase::Idle)), (idle, idle, 0));
    assert_eq!(stage.counts_of(3 - number).suspects(), 0, "the other backend is not concerned");
    let other = stage.take();
    assert_eq!(stage.lent_from(other), 3 - number);
}

#[test]
fn suspects_are_checked_a_few_at_a_time_and_are_lent_when_they_pass() {
    let (mut stage, lent) = with_idle(Options { connecting_per_backend: 2, ..options(4, 5) }, &[1]);
    stage.release(lent, Outcome::Broken);
    assert_eq!((stage.machine.counts().suspects(), stage.checks.len()), (4, 2));
    end_check(&mut stage, true);
    assert_eq!((stage.machine.counts().suspects(), stage.checks.len(), stage.of(Phase::Idle)), (3, 2, 1));
    stage.take();
    (0..3).for_each(|_| end_check(&mut stage, true));
    assert_eq!((stage.machine.counts().suspects(), stage.of(Phase::Idle)), (0, 3));
}

#[test]
fn first_check_that_fails_closes_all_suspects() {
    for times_out in [false, true] {
        let (mut stage, lent) = with_idle(Options { connecting_per_backend: 2, ..options(4, 5) }, &[1]);
        stage.release(lent, Outcome::Broken);
        if times_out {
            stage.pass(ms(3_000));
        } else {
            end_check(&mut stage, false);
        }
        assert_eq!(
            (stage.machine.counts().suspects(), stage.checks.len(), stage.machine.counts().working()),
            (0, 0, 0)
        );
        assert_eq!(stage.machine.state(), State::Running);
        stage.accept_all();
        stage.pass(ms(1));
        stage.accept_all();
        assert_eq!(stage.machine.counts().working(), 4);
    }
}

#[test]
fn connection_that_was_lent_when_another_broke_is_checked_when_it_comes_back() {
    let (mut stage, lent) = with_idle(options(1, 2), &[1]);
    let other = stage.take();
    stage.release(lent, Outcome::Broken);
    stage.accept_all();
    stage.release(other, Outcome::Open);
    assert_eq!((stage.checks.len(), stage.of(Phase::Checking)), (1, 1));
    end_check(&mut stage, true);
    let index = other.index();
    let lent = stage.take();
    stage.release(lent, Outcome::Open);
    assert_eq!(stage.checks.len(), 0, "it has passed: {index}");
}

#[test]
fn suspects_of_which_nothing_is_known_are_replaced_when_a_connect_succeeds() {
    let (mut stage, lent) = with_idle(options(4, 5), &[1]);
    stage.release(lent, Outcome::Broken);
    stage.go();
    assert_eq!(
        (stage.dialling(1), stage.machine.counts().suspects()),
        (0, 4),
        "there are enough without the one that broke"
    );
    let unknown = |stage: &mut Stage| {
        for check in std::mem::take(&mut stage.checks) {
            stage.machine.handle_unchecked(stage.now, check);
            stage.go();
        }
    };
    unknown(&mut stage);
    assert_eq!(
        (stage.dialling(1), stage.machine.counts().suspects()),
        (1, 3),
        "one makes room for the connect that tells"
    );
    stage.accept(1);
    assert_eq!(stage.machine.counts().suspects(), 0);
    stage.accept_all();
    assert_eq!((stage.of(Phase::Idle), stage.machine.counts().total()), (4, 4));
}

#[test]
fn suspects_close_when_their_backend_is_dead() {
    let recovery = Recovery::from(policy(1));
    let (mut stage, lent) = with_idle(Options { recovery, ..options(4, 5) }, &[1]);
    stage.release(lent, Outcome::Broken);
    let check = stage.checks[0];
    stage.machine.handle_unchecked(stage.now, check);
    stage.go();
    stage.refuse(1);
    assert_eq!((stage.machine.state(), stage.machine.counts().suspects()), (State::Failed, 0));
}

#[test]
fn claim_that_waits_closes_a_suspect_where_there_is_no_room() {
    let (mut stage, lent) = with_idle(options(4, 4), &[1]);
    stage.release(lent, Outcome::Broken);
    stage.accept_all();
    let granted = stage.take();
    assert_eq!((stage.machine.counts().suspects(), stage.machine.counts().total()), (3, 4));
    let waiter = stage.wait(ms(1_000));
    assert_eq!((stage.machine.counts().suspects(), stage.dialling(1)), (2, 1));
    stage.accept(1);
    assert!(stage.granted(waiter).is_some());
    stage.release(granted, Outcome::Open);
}

#[test]
fn use_of_a_broken_connection_has_failed_and_an_idle_one_that_broke_blames_nothing() {
    let ejection = Some(Ejection::default().consecutive(1));
    let ejected = |stage: &Stage| stage.machine.snapshot().backends.iter().any(|found| found.ejected_until.is_some());
    let (mut stage, lent) = with_idle(Options { ejection: ejection.clone(), ..options(4, 4) }, &[1, 2]);
    stage.release(lent, Outcome::Broken);
    assert!(ejected(&stage));

    let (mut stage, lent) = with_idle(Options { ejection, ..options(4, 4) }, &[1, 2]);
    stage.release(lent, Outcome::Open);
    stage.pass(ms(600));
    let watched = *stage.watches.iter().rev().find(|slot| stage.machine.is_current(**slot)).unwrap();
    stage.machine.handle_broken(stage.now, watched);
    stage.machine.handle_ended(stage.now, watched, Ending::Seen);
    stage.go();
    assert!(!ejected(&stage));
    assert!(stage.machine.counts().suspects() > 0);
}

#[test]
fn old_connection_that_breaks_later_says_nothing_about_new_ones() {
    let (mut stage, lent) = with_idle(options(2, 4), &[1]);
    let old = stage.take();
    stage.release(lent, Outcome::Broken);
    (0..stage.checks.len()).for_each(|_| end_check(&mut stage, false));
    stage.pass(ms(10));
    stage.accept_all();
    stage.pass(ms(10));
    let idle = stage.of(Phase::Idle);
    assert!(idle > 0);
    stage.release(old, Outcome::Broken);
    assert_eq!((stage.of(Phase::Idle), stage.machine.counts().suspects()), (idle, 0));
}
