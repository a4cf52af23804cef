//! What limits a pool: churn, ejection, controlled delay, overdue claims; as plain steps on the machine.

mod stage;

use carom_core::ejection::Ejection;
use carom_core::pool::{BackendState, Claimed, Delivery, Options, Outcome, Refusal, Request};
use stage::{Stage, backend, ms, options};

fn state_of(stage: &Stage, number: u16) -> BackendState {
    let snapshot = stage.machine.snapshot();
    snapshot.backends.iter().find(|found| *found.backend == backend(number)).unwrap().state
}

/// Lets time pass in small steps, with every dial accepted at once.
fn pass(stage: &mut Stage, millis: u64) {
    for _ in 0..millis / 10 {
        stage.pass(ms(10));
        stage.accept_all();
    }
}

#[test]
fn p17_churn_is_limited_per_backend_for_new_and_for_closed_connections() {
    let mut stage = Stage::new(Options { churn_per_second: Some(4.0), ..options(4, 4) });
    stage.backends(&[1]);
    stage.accept_all();
    assert_eq!(stage.slots_of(1), 1, "the first is free");
    for (expected, until_then) in [(2, 240), (3, 230), (4, 230)] {
        pass(&mut stage, until_then);
        assert_eq!(stage.slots_of(1), expected - 1);
        pass(&mut stage, 20);
        assert_eq!(stage.slots_of(1), expected);
    }
    stage.backends(&[1, 2]);
    stage.accept_all();
    pass(&mut stage, 50);
    assert_eq!((stage.slots_of(1), stage.slots_of(2)), (4, 0), "there is no room yet");
    pass(&mut stage, 220);
    assert_eq!((stage.slots_of(1), stage.slots_of(2)), (3, 1), "one, not two at once");
    pass(&mut stage, 260);
    assert_eq!((stage.slots_of(1), stage.slots_of(2)), (2, 2));
    pass(&mut stage, 2_000);
    assert_eq!((stage.slots_of(1), stage.slots_of(2)), (2, 2));
}

#[test]
fn an_ejected_backend_leaves_the_plan_for_longer_each_time() {
    let ejection = Ejection::default().consecutive(2).time(ms(1_000));
    let mut stage = Stage::connected(Options { ejection: Some(ejection), ..options(4, 4) }, &[1, 2]);
    for (time, expected) in [(1_000u64, true), (2_000, true)] {
        let mut failures = 0;
        while state_of(&stage, 1) != BackendState::Ejected {
            let slot = stage.take();
            let of_the_first = stage.machine.lent().any(|lent| lent.slot == slot && *lent.backend == backend(1));
            let outcome = if of_the_first { Outcome::Failed } else { Outcome::Open };
            failures += usize::from(of_the_first);
            stage.machine.release(stage.now, slot, outcome);
            stage.go();
            stage.accept_all();
            pass(&mut stage, 10);
            assert!(failures <= 2, "two in a row are enough");
        }
        assert_eq!(stage.slots_of(1), 0);
        assert_eq!(stage.slots_of(2), 4, "the other takes over");
        pass(&mut stage, time - 100);
        assert_eq!(state_of(&stage, 1) == BackendState::Ejected, expected);
        pass(&mut stage, 200);
        assert_eq!(state_of(&stage, 1), BackendState::Alive);
        pass(&mut stage, 500);
        assert_eq!(stage.slots_of(1), 2, "it has its share again");
    }
}

#[test]
fn a_success_between_failures_starts_the_count_again() {
    let ejection = Ejection::default().consecutive(2);
    let mut stage = Stage::connected(Options { ejection: Some(ejection), ..options(4, 4) }, &[1, 2]);
    for round in 0..20 {
        let slot = stage.take();
        let outcome = if round % 2 == 0 { Outcome::Open } else { Outcome::Failed };
        let of = stage.machine.lent().find(|lent| lent.slot == slot).unwrap().backend.port();
        stage.machine.release(stage.now, slot, outcome);
        pass(&mut stage, 100);
        // The next use of the same backend succeeds.
        let mut is_same = outcome == Outcome::Open;
        while !is_same {
            let slot = stage.take();
            is_same = stage.machine.lent().any(|lent| lent.slot == slot && lent.backend.port() == of);
            stage.machine.release(stage.now, slot, Outcome::Open);
            pass(&mut stage, 10);
        }
    }
    assert_ne!(state_of(&stage, 1), BackendState::Ejected);
    assert_ne!(state_of(&stage, 2), BackendState::Ejected);
}

#[test]
fn at_its_turn_a_claim_is_shed_that_waited_too_long_in_a_standing_line() {
    let mut stage = Stage::connected(Options { target_delay: Some(ms(50)), ..options(1, 1) }, &[1]);
    let held = stage.take();
    let patient = Request::within(ms(60_000));
    let Claimed::Waiting(first) = stage.machine.claim(stage.now, patient) else { panic!() };
    stage.pass(ms(80));
    let Claimed::Waiting(second) = stage.machine.claim(stage.now, patient) else { panic!() };
    stage.pass(ms(40));
    stage.machine.release(stage.now, held, Outcome::Open);
    stage.go();
    // The line has stood for 120 ms: the first waited 120 ms and is shed, the second 40 ms and is served.
    assert_eq!(stage.deliveries[0], Delivery::Refuse { waiter: first, refusal: Refusal::Shed });
    assert!(matches!(stage.deliveries[1], Delivery::Grant { waiter, .. } if waiter == second));
}

#[test]
fn a_claim_is_overdue_once_and_only_while_it_is_held() {
    let mut stage = Stage::connected(Options { leak_after: Some(ms(100)), ..options(1, 1) }, &[1]);
    assert_eq!(stage.machine.claim_warm(), None, "the time is needed");
    let slot = stage.take();
    stage.pass(ms(90));
    stage.machine.release(stage.now, slot, Outcome::Open);
    stage.pass(ms(500));
    assert!(stage.overdue.is_empty());
    let slot = stage.take();
    stage.pass(ms(10_000));
    assert_eq!(stage.overdue, [slot]);
}
