//! What an upstream has accepted and cannot carry for now, as it says itself.

use crate::feed_stage::{Stage, small, topic};
use carom_core::feed::{Delivery, End, Milestone, Mode, Pending, Standing};

fn says(stage: &mut Stage, number: usize, why: Option<Pending>) {
    let connection = stage.latest.expect("one is up");
    stage.machine.handle_withheld(stage.now, connection, [(topic(number, Mode::Quote).instrument, why)]);
    stage.go();
}

fn figures(stage: &Stage) -> (usize, usize, bool) {
    let snapshot = stage.machine.snapshot();
    (snapshot.live, snapshot.withheld, stage.machine.is_whole())
}

#[test]
fn what_is_withheld_is_not_live_and_whoever_wants_it_is_told_why() {
    let mut stage = Stage::new(small());
    stage.carry(0..2);
    assert_eq!(figures(&stage), (2, 0, true));
    for why in [Pending::Down, Pending::Credential] {
        says(&mut stage, 0, Some(why));
        assert_eq!(figures(&stage), (1, 1, false));
        let wanted = topic(0, Mode::Quote);
        assert_eq!(stage.machine.pending(&wanted), Some(why));
        let glance = stage.machine.glance_at(&wanted.instrument).unwrap();
        assert_eq!((glance.standing, glance.carried), (Standing::Pending, None));
        let placed = stage.placed(&wanted);
        assert_eq!((placed.pending, placed.why, placed.already), (true, Some(why), true));
        stage.leave(0);
        let other = topic(1, Mode::Quote);
        assert_eq!((stage.machine.pending(&other), stage.placed(&other).pending), (None, false));
        stage.leave(1);
    }
    says(&mut stage, 0, None);
    assert_eq!(figures(&stage), (2, 0, true));
    assert!(!stage.placed(&topic(0, Mode::Quote)).pending);
    let told = |wanted: &Milestone| stage.told.iter().filter(|milestone| *milestone == wanted).count();
    assert_eq!((told(&Milestone::Withheld { topics: 1 }), told(&Milestone::Restored)), (1, 1), "each once");
}

#[test]
fn what_is_withheld_when_it_is_accepted_is_pending_at_once() {
    let mut stage = Stage::new(small());
    stage.carry([0]);
    let waiter = stage.waits(&topic(1, Mode::Quote));
    let (connection, _) = stage.writes.pop().expect("it is written");
    says(&mut stage, 1, Some(Pending::Down));
    assert_eq!(stage.machine.poll_delivery(), None, "nobody knows yet whether it is accepted");
    stage.machine.handle_written(stage.now, connection, &[]);
    stage.go();
    let Some(Delivery::Placed { waiter: told, placement }) = stage.machine.poll_delivery() else { panic!() };
    assert_eq!((told, placement.why), (waiter, Some(Pending::Down)));
    assert_eq!(figures(&stage), (1, 1, false));
}

#[test]
fn what_is_not_answered_for_a_while_is_not_live_and_nothing_to_worry_about() {
    let mut stage = Stage::new(small());
    stage.carry([0]);
    says(&mut stage, 0, Some(Pending::Unanswered));
    assert_eq!(figures(&stage), (0, 0, false));
    assert!(!stage.told.iter().any(|milestone| matches!(milestone, Milestone::Withheld { .. })));
}

#[test]
fn another_connection_knows_nothing_of_what_was_withheld() {
    let mut stage = Stage::new(small());
    stage.carry([0, 1]);
    let gone = stage.latest.expect("one is up");
    says(&mut stage, 0, Some(Pending::Down));
    says(&mut stage, 1, Some(Pending::Down));
    stage.leave(1);
    stage.settle();
    assert_eq!(figures(&stage), (0, 1, false), "what nobody wants is not counted");
    stage.machine.handle_ended(stage.now, gone, End::Lost);
    stage.go();
    assert_eq!(stage.machine.snapshot().withheld, 0);
    stage.pass(crate::feed_stage::ms(100));
    stage.settle();
    assert_eq!(figures(&stage), (1, 0, true));
    // It says so too late.
    stage.machine.handle_withheld(stage.now, gone, [(topic(0, Mode::Quote).instrument, Some(Pending::Down))]);
    says(&mut stage, 7, Some(Pending::Down));
    assert_eq!(figures(&stage), (1, 0, true));
}

#[test]
fn a_line_that_was_lost_is_failing_until_it_is_up_again() {
    let mut stage = Stage::new(small());
    stage.carry([0]);
    let failing = |stage: &Stage| stage.machine.snapshot().connections.iter().any(|connection| connection.failing);
    assert!(!failing(&stage));
    stage.pass(crate::feed_stage::ms(60_000));
    let connection = stage.latest.expect("one is up");
    stage.machine.handle_ended(stage.now, connection, End::Lost);
    stage.go();
    for _ in 0..3 {
        let attempt = stage.opening.pop().expect("it is opened again");
        assert!(failing(&stage), "while it is opened");
        stage.machine.handle_ended(stage.now, attempt, End::Lost);
        stage.go();
        assert!(failing(&stage), "while it waits");
        stage.machine.hurry(stage.now);
        stage.go();
    }
    stage.settle();
    assert!(!failing(&stage));
}

#[test]
fn who_is_told_to_hurry_opens_what_waits_and_nothing_else() {
    let mut stage = Stage::new(small());
    stage.waits(&topic(0, Mode::Quote));
    stage.machine.hurry(stage.now);
    stage.go();
    let attempt = stage.opening.pop().expect("it is opened");
    assert!(stage.opening.is_empty(), "once");
    stage.machine.handle_ended(stage.now, attempt, End::Credential);
    stage.machine.hurry(stage.now);
    stage.go();
    assert!(stage.opening.is_empty(), "not while the credential is refused");
}
