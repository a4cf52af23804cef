//! Hold-off: a backend that closes an unused connection gets no spares for a while.

use crate::stage::{Stage, ms, options, policy, recovery};
use carom_core::backend::BackendState;
use carom_core::pool::{BackendSnapshot, Ending, Options, Outcome};
use carom_core::slot::{Phase, SlotRef};

fn shown(stage: &Stage, number: u16) -> BackendSnapshot {
    let snapshot = stage.machine.snapshot();
    snapshot.backends.into_iter().find(|found| found.backend.port() == number).unwrap()
}

/// Two spares, and a hold-off of 10 s.
fn holding_off() -> Options {
    Options { replace_unused_after: Some(ms(10_000)), recovery: recovery(3), ..options(2, 8) }
}

#[test]
fn unused_connection_closed_by_its_backend_is_not_replaced_during_the_hold_off() {
    let mut stage = Stage::connected(holding_off(), &[1]);
    stage.end_idle(2);
    assert_eq!((stage.slots_of(1), stage.dialling(1)), (0, 0));
    stage.pass(ms(9_900));
    assert_eq!((stage.slots_of(1), stage.dialling(1)), (0, 0));
    stage.pass(ms(200));
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
