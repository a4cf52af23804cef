//! Claims that avoid a backend: while another can serve, and no longer than they can afford.

use crate::stage::{Stage, backend, ms, options};
use carom_core::ejection::Ejection;
use carom_core::pool::{Claimed, Ending, Options, Outcome, Refusal, Request};
use carom_core::slot::{Phase, SlotRef};
use carom_core::waiters::WaiterId;

/// A claim for 500 ms that avoids a backend.
fn avoiding(stage: &mut Stage, number: u16) -> Claimed {
    let request = Request { avoid: stage.machine.find(&backend(number)), ..Request::within(ms(500)) };
    let claimed = stage.machine.claim(stage.now, request);
    stage.go();
    claimed
}

fn granted(claimed: Claimed) -> SlotRef {
    match claimed {
        Claimed::Granted { slot, .. } => slot,
        other @ (Claimed::Waiting(_) | Claimed::Refused(_)) => panic!("{other:?}"),
    }
}

fn waiting(claimed: Claimed) -> WaiterId {
    match claimed {
        Claimed::Waiting(waiter) => waiter,
        other @ (Claimed::Granted { .. } | Claimed::Refused(_)) => panic!("{other:?}"),
    }
}

fn lent_from(stage: &Stage, slot: SlotRef) -> u16 {
    stage.machine.lent().find(|lent| lent.slot == slot).expect("it is lent").backend.port()
}

/// Two backends with one connection each and room for no more; that of the second is lent.
fn with_the_other_lent(options: Options) -> (Stage, SlotRef) {
    let mut stage = Stage::connected(options, &[1, 2]);
    let held = granted(avoiding(&mut stage, 1));
    assert_eq!(lent_from(&stage, held), 2);
    (stage, held)
}

#[test]
fn the_other_is_waited_for_and_who_does_not_mind_goes_ahead() {
    let (mut stage, held) = with_the_other_lent(options(2, 2));
    let waiter = waiting(avoiding(&mut stage, 1));
    let other = stage.take();
    assert_eq!(lent_from(&stage, other), 1);
    stage.release(other, Outcome::Open);
    assert_eq!(stage.granted(waiter), None);
    stage.pass(ms(200));
    stage.release(held, Outcome::Open);
    let slot = stage.granted(waiter).expect("in time");
    assert_eq!(lent_from(&stage, slot), 2);
}

#[test]
fn after_half_its_time_a_claim_takes_what_there_is() {
    let (mut stage, _held) = with_the_other_lent(options(2, 2));
    let waiter = waiting(avoiding(&mut stage, 1));
    stage.pass(ms(249));
    assert_eq!(stage.granted(waiter), None);
    stage.pass(ms(1));
    let slot = stage.granted(waiter).expect("250 ms of 500 are over");
    assert_eq!(lent_from(&stage, slot), 1);
}

#[test]
fn a_claim_that_has_relented_stands_in_line_like_any_other() {
    let (mut stage, _held) = with_the_other_lent(options(2, 2));
    let avoided = stage.take();
    let waiter = waiting(avoiding(&mut stage, 1));
    stage.pass(ms(300));
    stage.release(avoided, Outcome::Open);
    assert!(stage.granted(waiter).is_some());
}

#[test]
fn a_target_delay_is_as_long_as_it_is_waited_for_another() {
    let (mut stage, _held) = with_the_other_lent(Options { target_delay: Some(ms(60)), ..options(2, 2) });
    let waiter = waiting(avoiding(&mut stage, 1));
    stage.pass(ms(59));
    assert_eq!(stage.granted(waiter), None);
    stage.pass(ms(1));
    assert!(stage.granted(waiter).is_some());
}

/// An idle connection stands beside the line: that is not overload, however long it lasts.
#[test]
fn who_waits_for_something_better_does_not_make_an_overload() {
    let (mut stage, _held) = with_the_other_lent(Options { target_delay: Some(ms(60)), ..options(2, 2) });
    let choosy = waiting(avoiding(&mut stage, 1));
    stage.pass(ms(54));
    let avoided = stage.take();
    stage.pass(ms(1));
    let plain = stage.wait(ms(5_000));
    stage.pass(ms(62));
    // Somebody has been in line for 117 ms, but for want of a connection only for 62.
    stage.release(avoided, Outcome::Open);
    let slot = stage.granted(choosy).expect("not shed");
    stage.release(slot, Outcome::Open);
    assert!(stage.granted(plain).is_some(), "not shed");
}

#[test]
fn a_claim_that_came_before_is_served_first_when_it_relents() {
    let (mut stage, _held) = with_the_other_lent(options(2, 2));
    let waiter = waiting(avoiding(&mut stage, 1));
    // Its time has come, but the driver has not had its turn yet when somebody else asks.
    stage.now += ms(250);
    let claimed = stage.machine.claim(stage.now, Request::within(ms(500)));
    stage.go();
    assert!(stage.granted(waiter).is_some() && matches!(claimed, Claimed::Waiting(_)));
}

#[test]
fn an_ejected_backend_cannot_serve_though_something_of_it_is_lent() {
    let ejection = Ejection::default().consecutive(1).time(ms(60_000));
    let mut stage = Stage::connected(Options { ejection: Some(ejection), ..options(4, 8) }, &[1, 2]);
    let [keep, bad] = [(); 2].map(|()| granted(avoiding(&mut stage, 1)));
    stage.release(bad, Outcome::Failed);
    stage.accept_all();
    assert_eq!((lent_from(&stage, keep), stage.counts_of(2).of(Phase::Busy)), (2, 1));
    let slot = granted(avoiding(&mut stage, 1));
    assert_eq!(lent_from(&stage, slot), 1);
}

#[test]
fn without_room_for_another_the_only_backend_serves() {
    let mut stage = Stage::connected(options(2, 2), &[1, 2]);
    let both = [granted(avoiding(&mut stage, 1)), granted(avoiding(&mut stage, 2))];
    stage.machine.resize(stage.now, 0, 1).unwrap();
    stage.go();
    // One of the two is closed when it comes back; the other one is idle then.
    stage.release(both[0], Outcome::Open);
    stage.release(both[1], Outcome::Open);
    stage.pass(ms(100));
    assert_eq!((stage.counts().total(), stage.of(Phase::Idle)), (1, 1));
    let only = if stage.slots_of(1) > 0 { 1 } else { 2 };
    let slot = granted(avoiding(&mut stage, only));
    assert_eq!(lent_from(&stage, slot), only);
}

#[test]
fn when_the_other_cannot_serve_any_more_the_claim_is_served_at_once() {
    let (mut stage, held) = with_the_other_lent(options(2, 2));
    let waiter = waiting(avoiding(&mut stage, 1));
    stage.pass(ms(10));
    stage.release(held, Outcome::Failed);
    while stage.dialling(2) > 0 {
        stage.refuse(2);
    }
    assert!(stage.granted(waiter).is_some(), "the other is dead");

    let (mut stage, _held) = with_the_other_lent(options(2, 2));
    let waiter = waiting(avoiding(&mut stage, 1));
    stage.backends(&[1]);
    assert!(stage.granted(waiter).is_some(), "the other was removed");
}

#[test]
fn a_backend_without_connections_is_tried_while_there_is_room() {
    let mut stage = Stage::connected(options(1, 4), &[1, 2]);
    let only = if stage.slots_of(1) > 0 { 1 } else { 2 };
    let waiter = waiting(avoiding(&mut stage, only));
    stage.accept_all();
    let slot = stage.granted(waiter).expect("connected to for this claim");
    assert_eq!(lent_from(&stage, slot), 3 - only);
}

#[test]
fn who_avoids_a_backend_that_is_gone_avoids_nobody() {
    let mut stage = Stage::connected(options(2, 2), &[1, 2]);
    let both = [granted(avoiding(&mut stage, 1)), granted(avoiding(&mut stage, 2))];
    let waiter = waiting(avoiding(&mut stage, 1));
    stage.backends(&[2]);
    stage.release(both[1], Outcome::Open);
    // Another has its place now.
    stage.backends(&[2, 3]);
    stage.accept(3);
    let slot = stage.granted(waiter).expect("served by whoever comes first");
    assert_eq!(lent_from(&stage, slot), 3);
}

#[test]
fn a_claim_that_found_its_connection_closed_goes_on_avoiding() {
    let (mut stage, held) = with_the_other_lent(options(2, 2));
    stage.release(held, Outcome::Open);
    stage.pass(ms(600));
    let request = Request { avoid: stage.machine.find(&backend(1)), ..Request::within(ms(500)) };
    let Claimed::Granted { slot, place } = stage.machine.claim(stage.now, request) else { panic!() };
    stage.release(slot, Outcome::Ended);
    let waiter = waiting(stage.machine.claim_again(stage.now, place, request));
    stage.go();
    stage.accept_all();
    let slot = stage.granted(waiter).expect("made again");
    assert_eq!(lent_from(&stage, slot), 2);
    stage.end_watched(1, Ending::Seen);
    assert_eq!(stage.refused(waiter), None::<Refusal>);
}
