//! The scenarios that cueball's own tests pin, told by our rules. Attempts 1, timeout 500 ms, delay 0 unless noted.

use crate::stage::{Stage, ms, options, recovery};
use carom_core::backend::BackendState;
use carom_core::pool::{Claimed, Ending, Machine, Options, Outcome, Refusal, Request, State};
use carom_core::slot::{Counts, Phase};

#[test]
fn p01_without_backends_claims_fail_at_once_or_time_out() {
    let mut stage = Stage::new(options(2, 4));
    assert_eq!((stage.machine.state(), stage.counts().total()), (State::Starting, 0));
    let hasty = Request { error_on_empty: true, ..Request::within(ms(100)) };
    assert_eq!(stage.machine.claim(stage.now, hasty), Claimed::Refused(Refusal::NoBackends));
    let waiter = stage.wait(ms(100));
    stage.pass(ms(99));
    assert_eq!(stage.refused(waiter), None);
    stage.pass(ms(1));
    assert_eq!(stage.refused(waiter), Some(Refusal::TimedOut { ahead: 0 }));
}

#[test]
fn p02_one_backend_serves_as_many_as_the_maximum() {
    let mut stage = Stage::new(options(2, 2));
    stage.backends(&[1]);
    assert_eq!(stage.slots_of(1), 2);
    let early = stage.wait(ms(100));
    stage.pass(ms(100));
    assert!(stage.refused(early).is_some());
    stage.accept_all();
    assert_eq!(stage.of(Phase::Idle), 2);
    stage.take();
    stage.take();
    let third = stage.wait(ms(100));
    stage.pass(ms(100));
    assert_eq!(stage.refused(third), Some(Refusal::TimedOut { ahead: 0 }));
}

#[test]
fn p03_without_spares_the_pool_grows_on_demand_and_evenly() {
    let mut stage = Stage::new(options(0, 2));
    stage.backends(&[1, 2]);
    assert_eq!(stage.counts().total(), 0);
    let first = stage.wait(ms(1_000));
    assert_eq!(stage.dials.len(), 1);
    let second = stage.wait(ms(1_000));
    assert_eq!((stage.dialling(1), stage.dialling(2)), (1, 1));
    stage.accept_all();
    assert!(stage.granted(first).is_some() && stage.granted(second).is_some());
    let third = stage.wait(ms(100));
    stage.pass(ms(100));
    assert!(stage.refused(third).is_some());
    assert_eq!(stage.counts().total(), 2);
}

#[test]
fn p04_new_backends_get_their_share() {
    let mut stage = Stage::connected(options(4, 4), &[1, 2]);
    assert_eq!((stage.slots_of(1), stage.slots_of(2)), (2, 2));
    stage.backends(&[1, 2, 3, 4]);
    stage.accept_all();
    assert_eq!([1, 2, 3, 4].map(|number| stage.slots_of(number)), [1; 4]);
    assert_eq!((stage.of(Phase::Idle), stage.closed), (4, 2));
}

#[test]
fn p05_a_connection_that_broke_while_lent_is_replaced() {
    let mut stage = Stage::connected(options(1, 1), &[1]);
    let slot = stage.take();
    stage.pass(ms(300));
    stage.release(slot, Outcome::Dropped);
    assert_eq!((stage.counts().total(), stage.dialling(1)), (1, 1));
    stage.accept(1);
    assert_eq!(stage.of(Phase::Idle), 1);
}

#[test]
fn p06_close_while_idle_reconnects_at_once() {
    let mut stage = Stage::connected(options(1, 1), &[1]);
    stage.end_idle(1);
    assert_eq!((stage.closed, stage.dialling(1), stage.of(Phase::Backoff)), (1, 1, 0));
    stage.accept(1);
    assert_eq!((stage.of(Phase::Idle), stage.machine.state()), (1, State::Running));
}

#[test]
fn p07_a_dead_backend_is_watched_and_its_removal_ends_that_at_once() {
    let mut stage = Stage::new(options(2, 3));
    stage.backends(&[1, 2]);
    stage.refuse(2);
    stage.accept_all_of(1);
    assert_eq!(stage.machine.dead_of_known(), (1, 2));
    assert_eq!((stage.slots_of(1), stage.slots_of(2)), (2, 0));
    stage.pass(ms(1_000));
    assert_eq!(stage.dialling(2), 1, "it is tried at max_delay");
    stage.backends(&[1]);
    assert_eq!((stage.slots_of(1), stage.slots_of(2), stage.dialling(2)), (2, 0, 0));
    assert_eq!(stage.machine.dead_of_known(), (0, 1));
    stage.machine.close(stage.now);
    stage.go();
    assert_eq!(stage.machine.state(), State::Stopped);
}

#[test]
fn p08_a_pool_fails_when_attempts_run_out_and_one_connection_ends_that() {
    let options = Options { recovery: recovery(2), outage_wait: ms(0), ..options(2, 2) };
    let mut stage = Stage::connected(options, &[1]);
    stage.end_idle(2);
    stage.refuse(1);
    stage.refuse(1);
    stage.pass(ms(1));
    assert_eq!((stage.machine.state(), stage.dialling(1)), (State::Running, 1), "a probe makes the next attempt");
    stage.accept(1);
    stage.refuse(1);
    assert_eq!(stage.machine.state(), State::Running);
    stage.pass(ms(1_000));
    stage.accept_all();
    stage.end_idle(2);
    let waiter = stage.wait(ms(1_000));
    for _ in 0..3 {
        assert_eq!(stage.machine.state(), State::Running);
        stage.pass(ms(1));
        stage.refuse(1);
    }
    assert_eq!(stage.machine.state(), State::Failed);
    assert_eq!(stage.refused(waiter), Some(Refusal::Failed { dead: 1, known: 1 }));
    assert_eq!(stage.machine.try_claim(stage.now), Claimed::Refused(Refusal::Failed { dead: 1, known: 1 }));
    stage.pass_until(|stage| stage.dialling(1) > 0);
    assert_eq!((stage.counts().total(), stage.dialling(1)), (0, 1), "it is probed");
    stage.accept(1);
    assert_eq!(stage.machine.state(), State::Running);
    stage.accept_all();
    assert_eq!(stage.of(Phase::Idle), 2);
}

#[test]
fn p09_a_success_while_another_attempt_fails_keeps_the_pool_running() {
    let mut stage = Stage::connected(Options { recovery: recovery(2), ..options(2, 2) }, &[1]);
    stage.end_idle(2);
    let [one, other] = [stage.dials[0].0, stage.dials[1].0];
    stage.dials.clear();
    stage.machine.handle_connect_failed(stage.now, one);
    stage.machine.handle_connected(stage.now, other, false);
    stage.go();
    stage.pass_until(|stage| stage.dialling(1) > 0);
    stage.accept_all();
    assert_eq!((stage.machine.state(), stage.of(Phase::Idle)), (State::Running, 2));
}

#[test]
fn p10_only_idle_connections_are_checked() {
    let options = Options { check_after: Some(ms(100)), ..options(2, 2) };
    let mut stage = Stage::connected(options, &[1]);
    let lent = stage.take();
    for _ in 0..5 {
        stage.pass(ms(200));
        for check in std::mem::take(&mut stage.checks) {
            assert_ne!(check.index(), lent.index());
            stage.machine.handle_checked(stage.now, check, true);
            stage.go();
        }
    }
    stage.release(lent, Outcome::Open);
    assert_eq!(stage.of(Phase::Idle), 2);
}

#[test]
fn p11_checks_do_not_make_the_pool_grow() {
    let options = Options { check_after: Some(ms(100)), ..options(2, 10) };
    let mut stage = Stage::connected(options, &[1]);
    stage.pass(ms(300));
    assert_eq!((stage.checks.len(), stage.of(Phase::Checking)), (2, 2));
    assert_eq!((stage.counts().total(), stage.dials.len()), (2, 0));
    for check in std::mem::take(&mut stage.checks) {
        stage.machine.handle_checked(stage.now, check, true);
    }
    stage.go();
    assert_eq!((stage.counts().total(), stage.of(Phase::Idle)), (2, 2));
}

#[test]
fn p12_a_cancelled_claim_is_never_heard_of_again() {
    let mut stage = Stage::new(options(1, 1));
    stage.backends(&[1]);
    let waiter = stage.wait(ms(100));
    assert!(stage.machine.forget_waiter(waiter));
    stage.accept_all();
    stage.pass(ms(150));
    assert_eq!((stage.deliveries.len(), stage.machine.waiting()), (0, 0));
    stage.machine.close(stage.now);
    stage.go();
    assert_eq!(stage.machine.state(), State::Stopped);
}

#[test]
fn p13_p14_a_release_and_an_end_at_the_same_moment_do_no_harm() {
    for outcome in [Outcome::Discarded, Outcome::Failed, Outcome::Ended, Outcome::Dropped, Outcome::Open] {
        let options = Options { recovery: recovery(3), ..options(1, 1) };
        let mut stage = Stage::connected(options, &[1]);
        stage.pass(ms(600));
        let watched = stage.watches[0];
        let slot = stage.take();
        stage.machine.release(stage.now, slot, outcome);
        stage.machine.handle_ended(stage.now, watched, Ending::Seen);
        stage.machine.handle_ended(stage.now, slot, Ending::Found);
        stage.machine.release(stage.now, slot, outcome);
        stage.go();
        stage.pass(ms(1));
        stage.accept_all();
        assert_eq!((stage.counts().total(), stage.of(Phase::Idle)), (1, 1), "{outcome:?}");
    }
}

#[test]
fn p15_counts_are_zero_at_first_and_then_what_there_is() {
    let mut stage = Stage::new(options(2, 2));
    assert_eq!((stage.counts(), stage.machine.waiting()), (Counts::default(), 0));
    stage.backends(&[1]);
    assert_eq!(stage.counts().pending(), 2);
    stage.accept_all();
    let counts = stage.counts();
    assert_eq!((counts.total(), counts.of(Phase::Idle), counts.pending(), stage.machine.waiting()), (2, 2, 0, 0));
}

#[test]
fn p16_failing_while_another_backend_is_removed_leaves_only_the_dead_one() {
    let mut stage = Stage::connected(Options { recovery: recovery(2), ..options(2, 2) }, &[1, 2]);
    stage.end_idle(2);
    stage.refuse(1);
    stage.refuse(2);
    stage.pass(ms(100));
    let dials = std::mem::take(&mut stage.dials);
    stage.machine.handle_backends(stage.now, &[crate::stage::backend(1)]);
    for (slot, _) in dials {
        stage.machine.handle_connect_failed(stage.now, slot);
    }
    stage.go();
    while stage.machine.state() == State::Running {
        stage.refuse(1);
    }
    let snapshot = stage.machine.snapshot();
    assert_eq!((snapshot.state, snapshot.dead, snapshot.known), (State::Failed, 1, 1));
    let backends: Vec<_> = snapshot.backends.iter().map(|found| (found.backend.port(), found.state)).collect();
    assert_eq!(backends, [(1, BackendState::Dead)]);
}

/// An unused machine is made and thrown away without a driver.
#[test]
fn a_machine_that_never_knew_anybody_stops_at_once() {
    let stage = Stage::new(options(2, 2));
    let (mut machine, now): (Machine, _) = (stage.machine, stage.now);
    machine.close(now);
    assert_eq!(machine.state(), State::Stopped);
}
