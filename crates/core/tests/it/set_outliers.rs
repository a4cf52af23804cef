//! Where leases of any backend go, and who is left out for having served badly. Each test is named for its rule.

use crate::set_stage::{Stage, backend, eager, lazy, ms, to};
use carom_core::backend::Backend;
use carom_core::ejection::Ejection;
use carom_core::set::{ConnectionId, Options, Want};

fn ejecting(options: Options) -> Options {
    Options { ejection: Some(Ejection::default().consecutive(3).time(ms(1_000))), ..options }
}

/// An eager set that is connected to all of these.
fn connected(options: Options, numbers: &[u16]) -> Stage {
    let mut stage = Stage::knowing(options, numbers);
    while let Some((_, number)) = stage.dials.first() {
        stage.accept(*number);
    }
    stage
}

/// Leases of any backend one after another: where they went.
fn rounds(stage: &mut Stage, want: &Want, count: usize) -> Vec<u16> {
    let round = |_| {
        let id = stage.take(want.clone());
        let number = stage.glance(id).backend.port();
        stage.release(id);
        number
    };
    (0..count).map(round).collect()
}

fn report_failures(stage: &mut Stage, number: u16, times: usize) {
    for _ in 0..times {
        stage.machine.report_failure(stage.now, &backend(number));
        stage.go();
    }
}

fn ejected(stage: &Stage) -> Vec<u16> {
    let snapshot = stage.machine.snapshot();
    snapshot.ejected.iter().filter(|_| !snapshot.is_panic).map(|(backend, _)| backend.port()).collect()
}

/// Those that are ejected and used, if there is a panic.
fn panic(stage: &Stage) -> Option<Vec<u16>> {
    let snapshot = stage.machine.snapshot();
    snapshot.is_panic.then(|| snapshot.ejected.iter().map(|(backend, _)| backend.port()).collect())
}

fn avoiding(number: u16) -> Want {
    Want { avoid: Some(backend(number)), ..Want::any() }
}

fn of(stage: &Stage, id: ConnectionId) -> u16 {
    let backend: &Backend = &stage.glance(id).backend;
    backend.port()
}

#[test]
fn leases_one_after_another_go_round() {
    let mut stage = connected(eager(3, 3), &[1, 2, 3]);
    let mut went = rounds(&mut stage, &Want::any(), 3);
    assert_eq!(rounds(&mut stage, &Want::any(), 3), went, "whoever was leased longest ago is next");
    went.sort_unstable();
    assert_eq!(went, [1, 2, 3]);
}

#[test]
fn what_is_to_be_avoided_is_leased_only_when_nothing_else_is_up() {
    let mut stage = connected(eager(3, 3), &[1, 2]);
    assert_eq!(rounds(&mut stage, &avoiding(1), 4), [2, 2, 2, 2]);
    let held: Vec<_> = (0..5).map(|_| stage.take(avoiding(2))).collect();
    assert!(held.iter().all(|id| of(&stage, *id) == 1), "however many have it");
    stage.backends(&[1]);
    assert_eq!(rounds(&mut stage, &avoiding(1), 1), [1]);
    assert_eq!(rounds(&mut stage, &avoiding(9), 1), [1], "nobody has heard of that one");
}

#[test]
fn leases_go_where_there_is_room() {
    let mut stage = connected(eager(2, 2), &[1, 2]);
    let first = stage.take(Want::any());
    let (small, large) = (of(&stage, first), 3 - of(&stage, first));
    stage.machine.set_capacity(first, 1);
    let held: Vec<_> = (0..5).map(|_| stage.take(Want::any())).collect();
    assert!(held.iter().all(|id| of(&stage, *id) == large), "the other is full");

    stage.machine.set_capacity(held[0], 5);
    let next = stage.take(Want::any());
    assert_eq!(of(&stage, next), small, "all are full, and it has the fewest");
    stage.release(next);
    let named = stage.take(to(small));
    assert_eq!(of(&stage, named), small, "whoever names it gets it");
    stage.release(named);
    stage.release(first);
    let next = stage.take(avoiding(small));
    assert_eq!(of(&stage, next), small, "it alone has room");
}

#[test]
fn one_that_serves_badly_too_often_in_a_row_is_left_out_and_comes_back() {
    let mut stage = connected(ejecting(eager(3, 3)), &[1, 2, 3]);
    report_failures(&mut stage, 2, 2);
    stage.machine.report_success(stage.now, &backend(2), None);
    report_failures(&mut stage, 2, 2);
    assert!(ejected(&stage).is_empty(), "not in a row");
    report_failures(&mut stage, 2, 1);
    assert_eq!((ejected(&stage), stage.serving()), (vec![2], vec![1, 3]));
    assert!(!rounds(&mut stage, &Want::any(), 10).contains(&2));
    stage.pass(ms(999));
    assert_eq!((ejected(&stage), stage.dials.len()), (vec![2], 0));
    stage.pass(ms(1));
    assert_eq!((ejected(&stage), stage.dialling()), (vec![], vec![2]));
    stage.accept(2);
    assert!(rounds(&mut stage, &Want::any(), 3).contains(&2));

    report_failures(&mut stage, 2, 3);
    stage.pass(ms(1_999));
    assert_eq!(ejected(&stage), [2], "longer each time");
    stage.pass(ms(1));
    assert!(ejected(&stage).is_empty());
}

#[test]
fn whoever_has_a_lease_of_one_that_is_left_out_keeps_it_and_who_names_it_gets_one() {
    let mut stage = connected(ejecting(eager(2, 2)), &[1, 2]);
    let held = stage.take(to(1));
    report_failures(&mut stage, 1, 3);
    assert!(stage.is_up(held) && stage.is_draining(held));
    stage.release(held);
    assert!(!stage.is_up(held));
    stage.pass(ms(1));
    let named = stage.connect(to(1));
    assert_eq!(of(&stage, named), 1);
    assert_eq!(rounds(&mut stage, &Want::any(), 4), [2; 4], "for who names it alone");
}

#[test]
fn in_a_lazy_set_what_is_left_out_stays_connected_for_when_it_is_back() {
    let mut stage = Stage::knowing(ejecting(lazy()), &[1, 2]);
    let ids = [1, 2].map(|number| stage.connect(to(number)));
    ids.into_iter().for_each(|id| stage.release(id));
    report_failures(&mut stage, 1, 3);
    assert_eq!(rounds(&mut stage, &Want::any(), 4), [2; 4]);
    stage.pass(ms(1_000));
    assert!(rounds(&mut stage, &Want::any(), 2).contains(&1));
    assert_eq!(stage.dialled, 2);
}

#[test]
fn another_takes_the_place_of_one_that_is_left_out() {
    let mut stage = connected(ejecting(eager(2, 2)), &[1, 2, 3, 4]);
    let out = stage.serving()[0];
    report_failures(&mut stage, out, 3);
    let [instead] = stage.dialling()[..] else { panic!("{:?}", stage.dialling()) };
    stage.accept(instead);
    assert_eq!(stage.serving().len(), 2);
    assert!(!stage.serving().contains(&out));
}

#[test]
fn when_more_are_ejected_than_may_be_all_are_used_in_a_panic() {
    let mut stage = connected(ejecting(eager(3, 3)), &[1, 2, 3]);
    report_failures(&mut stage, 1, 3);
    assert_eq!(ejected(&stage), [1]);
    report_failures(&mut stage, 2, 3);
    assert_eq!(panic(&stage), Some(vec![1, 2]), "half of three is one");
    stage.pass(ms(1));
    stage.accept(1);
    assert_eq!(rounds(&mut stage, &Want::any(), 3), [3; 3], "while another serves, it is preferred");
    let mut went = rounds(&mut stage, &avoiding(3), 2);
    went.sort_unstable();
    assert_eq!(went, [1, 2]);

    let all = Options { ejection: Some(Ejection::default().consecutive(1).max_ejected(1.0)), ..eager(2, 2) };
    let mut stage = connected(all, &[1, 2]);
    report_failures(&mut stage, 1, 1);
    assert_eq!((ejected(&stage), panic(&stage)), (vec![1], None));
    report_failures(&mut stage, 2, 1);
    assert_eq!(panic(&stage), Some(vec![1, 2]), "one is always used");
}

#[test]
fn the_only_backend_is_ejected_and_used() {
    let mut stage = connected(ejecting(eager(1, 1)), &[1]);
    report_failures(&mut stage, 1, 3);
    assert_eq!((panic(&stage), rounds(&mut stage, &Want::any(), 1)), (Some(vec![1]), vec![1]));
    stage.pass(ms(1_000));
    assert_eq!(panic(&stage), None, "its time is over");
}

#[test]
fn backend_that_goes_on_failing_in_a_panic_stays_ejected() {
    let mut stage = connected(ejecting(eager(1, 1)), &[1]);
    report_failures(&mut stage, 1, 6);
    stage.pass(ms(1_000));
    assert_eq!(panic(&stage), Some(vec![1]));
    // The second time is twice as long; a use that succeeds counts.
    report_failures(&mut stage, 1, 3);
    stage.machine.report_success(stage.now, &backend(1), None);
    stage.pass(ms(1_999));
    assert_eq!(panic(&stage), Some(vec![1]));
    stage.pass(ms(1));
    assert_eq!(panic(&stage), None);
}

#[test]
fn failures_of_uses_that_began_before_an_ejection_do_not_count_after_it() {
    let mut stage = connected(ejecting(eager(2, 2)), &[1, 2]);
    report_failures(&mut stage, 1, 9);
    stage.pass(ms(1_000));
    assert!(ejected(&stage).is_empty(), "it was left out when they failed");
    stage.accept(1);
    report_failures(&mut stage, 1, 2);
    assert!(ejected(&stage).is_empty(), "they are not in a row with these");
}

#[test]
fn when_too_few_others_are_healthy_all_take_part_again() {
    let mut stage = connected(ejecting(eager(2, 2)), &[1, 2]);
    report_failures(&mut stage, 1, 3);
    assert_eq!(stage.serving(), [2]);
    let other = stage.take(Want::any());
    stage.pass(ms(1_000));
    stage.ended(other);
    let waiter = stage.wait(Want::any());
    stage.kill(2);
    assert!(ejected(&stage).is_empty());
    let id = stage.accept(1);
    assert_eq!(stage.granted(waiter), Some(id));

    let mut stage = connected(ejecting(eager(2, 2)), &[1, 2]);
    report_failures(&mut stage, 1, 3);
    stage.backends(&[1]);
    assert!(ejected(&stage).is_empty(), "the other is not known any more");
}

#[test]
fn nobody_is_dialled_for_any_who_is_left_out() {
    let mut stage = Stage::knowing(ejecting(lazy()), &[1, 2]);
    report_failures(&mut stage, 1, 3);
    let waiter = stage.wait(Want::any());
    assert_eq!(stage.dialling(), [2]);
    stage.cancel(waiter);

    let mut stage = Stage::knowing(ejecting(Options { per_backend: 0, ..lazy() }), &[1, 2]);
    report_failures(&mut stage, 1, 3);
    for _ in 0..3 {
        stage.wait(Want::any());
    }
    assert_eq!(stage.dialling(), [2, 2, 2]);
}

#[test]
fn without_ejection_no_backend_is_left_out_for_reported_failures() {
    let mut stage = connected(eager(2, 2), &[1, 2]);
    report_failures(&mut stage, 1, 100);
    assert_eq!((ejected(&stage), stage.serving()), (vec![], vec![1, 2]));
}

#[test]
fn one_that_is_retired_as_soon_as_it_is_there_backs_off_longer_each_time() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    for delay in [100, 100, 200, 400] {
        let id = stage.connect(Want::any());
        stage.retire(id);
        stage.release(id);
        let waiter = stage.wait(Want::any());
        stage.pass(ms(delay - 1));
        assert!(stage.dials.is_empty(), "not before {delay} ms");
        stage.pass(ms(1));
        assert_eq!(stage.dialling(), [1]);
        stage.cancel(waiter);
        stage.pass(ms(1));
    }
}

#[test]
fn one_that_has_served_before_it_is_retired_is_replaced_at_once() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    let id = stage.connect(Want::any());
    stage.release(id);
    stage.pass(ms(1));
    let id = stage.take(Want::any());
    stage.retire(id);
    stage.wait(Want::any());
    assert_eq!(stage.dialling(), [1]);
}
