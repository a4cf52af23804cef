//! Hold-off: a backend that closes an unused connection gets no spares for a while, unless it is gone.

use crate::stage::{Stage, ms, options, policy, recovery};
use carom_core::backend::BackendState;
use carom_core::pool::{BackendSnapshot, Ending, Options, Outcome};
use carom_core::slot::{Phase, SlotRef};
use std::time::Duration;

fn shown(stage: &Stage, number: u16) -> BackendSnapshot {
    let snapshot = stage.machine.snapshot();
    snapshot.backends.into_iter().find(|found| found.backend.port() == number).unwrap()
}

/// How long a backend is still held off, as the snapshot shows it.
fn held_off(stage: &Stage, number: u16) -> Option<Duration> {
    shown(stage, number).held_off_until.map(|until| until.saturating_duration_since(stage.now))
}

/// Two spares, and a hold-off of 10 s.
fn holding_off() -> Options {
    Options { replace_unused_after: Some(ms(10_000)), recovery: recovery(3), ..options(2, 8) }
}

#[test]
fn unused_connection_closed_by_its_backend_is_not_replaced_during_the_hold_off() {
    let mut stage = Stage::connected(holding_off(), &[1]);
    assert_eq!(held_off(&stage, 1), None);
    stage.end_idle(2);
    assert_eq!((stage.slots_of(1), stage.dialling(1)), (0, 0));
    assert_eq!(held_off(&stage, 1), Some(ms(9_999)), "the snapshot shows it");
    stage.pass(ms(9_900));
    assert_eq!((stage.slots_of(1), stage.dialling(1)), (0, 0));
    stage.pass(ms(200));
    assert_eq!(held_off(&stage, 1), Some(Duration::ZERO));
    stage.accept_all();
    assert_eq!(stage.slots_of(1), 2, "the spares are back after 10 s");
}

#[test]
fn closing_one_unused_connection_closes_the_others_of_its_backend_and_spares_the_used_ones() {
    let mut stage = Stage::connected(Options { spares: 3, ..holding_off() }, &[1]);
    let used = stage.take();
    stage.accept_all();
    let lent = stage.take();
    stage.accept_all();
    stage.release(used, Outcome::Open);
    stage.end_idle(0);
    let unused: Vec<SlotRef> = stage.watches.iter().copied().filter(|slot| stage.machine.is_current(*slot)).collect();
    let unused =
        unused.into_iter().find(|slot| stage.machine.life(*slot).is_some_and(|life| life.uses() == 0)).unwrap();
    stage.machine.handle_ended(stage.now, unused, Ending::Seen);
    stage.go();
    assert_eq!((stage.of(Phase::Idle), stage.of(Phase::Busy), stage.dialling(1)), (1, 1, 0));
    stage.release(lent, Outcome::Open);
    assert_eq!(stage.of(Phase::Idle), 2, "those that were used stay");
}

#[test]
fn hold_off_connects_for_waiting_claims_only() {
    // With as many spares as connections, and without: the claim must not wait for the hold-off in either case.
    for (spares, maximum) in [(2, 8), (2, 2)] {
        let mut stage = Stage::connected(Options { spares, maximum, ..holding_off() }, &[1]);
        stage.end_idle(2);
        let waiter = stage.wait(ms(5_000));
        assert_eq!(stage.dialling(1), 1, "one for the claim, none to spare");
        let another = stage.wait(ms(5_000));
        assert_eq!(stage.dialling(1), 2);
        stage.accept_all();
        let slot = stage.granted(waiter).expect("it is served");
        stage.release(slot, Outcome::Discarded);
        stage.release(stage.granted(another).expect("it is served"), Outcome::Discarded);
        stage.pass(ms(5_000));
        assert_eq!((stage.slots_of(1), stage.dialling(1)), (0, 0), "still no spares");
    }
}

#[test]
fn hold_off_holds_for_connections_that_are_found_closed_when_claimed() {
    let mut stage = Stage::connected(holding_off(), &[1]);
    let slot = stage.take();
    stage.accept_all();
    stage.release(slot, Outcome::Ended);
    assert_eq!((stage.slots_of(1), stage.dialling(1)), (0, 0));
}

#[test]
fn unused_connection_on_which_its_backend_has_sent_bytes_is_replaced_without_a_hold_off() {
    let mut stage = Stage::connected(holding_off(), &[1]);
    stage.pass(ms(1_000));
    let unused = *stage.watches.last().unwrap();
    stage.machine.handle_unread(unused);
    stage.machine.handle_ended(stage.now, unused, Ending::Seen);
    stage.go();
    stage.pass(ms(1));
    assert_eq!((stage.of(Phase::Idle), stage.dialling(1)), (1, 1), "the other spare stays");
    stage.accept_all();
    let slot = stage.take();
    stage.machine.handle_unread(slot);
    stage.release(slot, Outcome::Ended);
    assert_eq!((stage.of(Phase::Idle), stage.dialling(1)), (1, 1), "found closed when claimed");
    stage.accept_all();
    stage.end_idle(2);
    assert_eq!((stage.slots_of(1), stage.dialling(1)), (0, 0), "nothing was sent on those that came after");
}

#[test]
fn hold_off_of_one_backend_leaves_the_others_alone() {
    let mut stage = Stage::connected(holding_off(), &[1, 2]);
    assert_eq!((stage.slots_of(1), stage.slots_of(2)), (1, 1));
    stage.pass(ms(600));
    let lent = stage.take();
    let number = stage.lent_from(lent);
    stage.release(lent, Outcome::Ended);
    let other = 3 - number;
    stage.accept_all();
    assert_eq!((stage.slots_of(number), stage.slots_of(other)), (0, 2));
    let lent = stage.take();
    assert_eq!(stage.lent_from(lent), other);
    assert!(stage.dialling(other) > 0, "it is replaced where it can be");
    assert_eq!(stage.dialling(number), 0);
}

/// Otherwise a backend that accepts and closes would never be called dead.
#[test]
fn failures_count_across_hold_offs_until_the_backend_is_dead() {
    let policy = policy(3).delay(ms(100));
    let mut stage = Stage::new(Options { spares: 1, recovery: policy.into(), ..holding_off() });
    stage.backends(&[1]);
    for attempt in 1..=3 {
        assert_ne!(shown(&stage, 1).state, BackendState::Dead, "before attempt {attempt}");
        stage.accept_all();
        stage.pass(ms(600));
        stage.end_watched(1, Ending::Found);
        if attempt < 3 {
            assert_eq!(stage.slots_of(1), 0, "held off");
            stage.pass(ms(10_000));
        }
    }
    assert_eq!(shown(&stage, 1).state, BackendState::Dead);
    stage.pass(ms(400));
    assert_eq!(stage.dialling(1), 1, "a dead backend is probed as ever");
}

/// Attempts with delays of 100 ms and 200 ms, and a claim that has met the first refusal.
fn refused_once() -> Stage {
    let recovery = policy(3).delay(ms(100)).into();
    let mut stage = Stage::connected(Options { recovery, ..holding_off() }, &[1]);
    stage.end_idle(2);
    let waiter = stage.wait(ms(5_000));
    stage.pass(ms(100));
    stage.refuse(1);
    assert!(stage.machine.forget_waiter(waiter), "its caller gives up");
    stage.go();
    stage
}

#[test]
fn backend_that_refuses_a_connect_during_its_hold_off_is_tried_with_the_normal_delays_until_it_is_dead() {
    let mut stage = refused_once();
    assert_eq!((held_off(&stage, 1), shown(&stage, 1).state), (None, BackendState::Healthy));
    assert_eq!(shown(&stage, 1).next_attempt, Some(stage.now + ms(100)));
    for delay in [100, 200] {
        stage.pass(ms(delay - 1));
        assert_eq!((stage.dialling(1), shown(&stage, 1).state), (0, BackendState::Healthy), "before {delay} ms");
        stage.pass(ms(1));
        while stage.dialling(1) > 0 {
            stage.refuse(1);
        }
    }
    assert_eq!((held_off(&stage, 1), shown(&stage, 1).state), (None, BackendState::Dead));
    stage.go();
    let next = shown(&stage, 1).next_attempt.expect("it is probed");
    assert!(next <= stage.now + ms(1_000), "in an outage within a second");
    stage.pass(next - stage.now);
    assert_eq!(stage.dialling(1), 1);
}

#[test]
fn backend_that_accepts_connections_again_after_a_refusal_has_its_spares_before_the_hold_off_would_have_ended() {
    let mut stage = refused_once();
    stage.pass(ms(100));
    stage.accept_all();
    stage.pass(ms(100));
    stage.accept_all();
    assert_eq!((stage.of(Phase::Idle), held_off(&stage, 1)), (2, None));
}

#[test]
fn connect_that_times_out_ends_the_hold_off() {
    let mut stage = Stage::connected(holding_off(), &[1]);
    stage.end_idle(2);
    stage.wait(ms(5_000));
    stage.pass(ms(500));
    assert_eq!(held_off(&stage, 1), None);
}

#[test]
fn connect_that_succeeds_for_a_waiting_claim_leaves_the_hold_off() {
    let mut stage = Stage::connected(holding_off(), &[1]);
    stage.end_idle(2);
    let waiter = stage.wait(ms(5_000));
    stage.accept_all();
    assert!(stage.granted(waiter).is_some());
    stage.pass(ms(5_000));
    assert!(held_off(&stage, 1).is_some());
    assert_eq!((stage.of(Phase::Idle), stage.dialling(1)), (0, 0));
}

/// An unused connection that is idle is reset.
fn reset_unused(stage: &mut Stage) {
    let is_unused = |slot: &&SlotRef| stage.machine.life(**slot).is_some_and(|life| life.uses() == 0);
    let unused = *stage.watches.iter().find(is_unused).expect("an unused connection is watched");
    stage.machine.handle_broken(stage.now, unused);
    stage.machine.handle_ended(stage.now, unused, Ending::Seen);
    stage.go();
}

#[test]
fn unused_connection_that_is_reset_is_replaced_without_a_hold_off() {
    let recovery = policy(3).delay(ms(100)).into();
    let mut stage = Stage::connected(Options { spares: 1, recovery, ..holding_off() }, &[1]);
    stage.pass(ms(1_000));
    reset_unused(&mut stage);
    assert_eq!((held_off(&stage, 1), stage.dialling(1)), (None, 0));
    stage.pass(ms(100));
    assert_eq!(stage.dialling(1), 1, "after the normal delay");
}

#[test]
fn reset_of_an_unused_connection_ends_the_hold_off_and_reset_of_a_used_one_does_not() {
    let mut stage = Stage::connected(holding_off(), &[1]);
    stage.end_idle(2);
    let (first, second) = (stage.wait(ms(5_000)), stage.wait(ms(5_000)));
    stage.accept(1);
    assert!(stage.machine.forget_waiter(second), "its connection will be unused");
    stage.accept_all();
    let used = stage.granted(first).unwrap();
    stage.machine.handle_broken(stage.now, used);
    stage.release(used, Outcome::Broken);
    assert!(held_off(&stage, 1).is_some());
    // It is suspect since the other one broke, until its check has passed.
    let check = stage.checks.pop().expect("it is checked");
    stage.machine.handle_checked(stage.now, check, true);
    stage.go();
    stage.pass(ms(1_000));
    assert!(held_off(&stage, 1).is_some());
    reset_unused(&mut stage);
    assert_eq!(held_off(&stage, 1), None);
}
