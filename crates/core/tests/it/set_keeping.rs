//! What an eager set keeps, and how one connection takes the place of another. Scenarios C1 to C9 are cueball's own
//! tests of its ConnectionSet, told in leases and priorities where it has handles and a shuffled preference.

use crate::set_stage::{Stage, at, eager, lazy, ms, policy, to};
use carom_core::set::{Action, Options, State, Want};
use std::collections::BTreeSet;

/// Everything that is dialled is accepted.
fn accept_all(stage: &mut Stage) {
    while let Some(&number) = stage.dialling().first() {
        stage.accept(number);
    }
}

fn kept(stage: &Stage) -> Vec<u16> {
    let snapshot = stage.machine.snapshot();
    let mut kept: Vec<u16> = snapshot.connections.iter().filter(|c| c.kept).map(|c| c.backend.port()).collect();
    kept.sort_unstable();
    kept
}

/// C1.
#[test]
fn one_backend_has_one_connection_whatever_the_target() {
    let mut stage = Stage::knowing(eager(2, 4), &[1]);
    assert_eq!(stage.dialling(), [1]);
    let id = stage.accept(1);
    stage.pass(ms(60_000));
    assert_eq!((stage.news(), stage.dialled, kept(&stage)), (vec![Action::Added(id)], 1, vec![1]));
    stage.take(Want::any());
    stage.machine.close(stage.now);
    stage.go();
    assert_eq!(stage.news(), [Action::Removed(id), Action::Drain(id)]);
    stage.release(id);
    assert_eq!((stage.news(), stage.machine.state()), (vec![Action::Shut(id)], State::Stopped));
}

/// C2.
#[test]
fn two_backends_have_one_connection_each() {
    let mut stage = Stage::knowing(eager(2, 4), &[1, 2]);
    accept_all(&mut stage);
    assert_eq!((kept(&stage), stage.dialled), (vec![1, 2], 2));
}

/// C3: the swap, without anybody who holds.
#[test]
fn what_takes_anothers_place_works_before_that_goes() {
    let mut stage = Stage::new(eager(1, 1));
    stage.ranked(&[(1, 1)]);
    let old = stage.accept(1);
    stage.ranked(&[(1, 1), (2, 0)]);
    assert_eq!((stage.dialling(), stage.serving(), stage.sockets()), (vec![2], vec![1], 2));
    assert_eq!(stage.take(Want::any()), old, "it serves until then");
    stage.release(old);
    stage.news();
    let new = stage.accept(2);
    assert_eq!(stage.news(), [Action::Added(new), Action::Removed(old), Action::Shut(old)]);
    assert_eq!(kept(&stage), [2]);
}

/// C3 again, with somebody who holds: there is no deadline, the backend is still there.
#[test]
fn holders_of_what_the_plan_gives_up_are_told_and_have_time() {
    let mut stage = Stage::new(eager(1, 1));
    stage.ranked(&[(1, 1)]);
    let old = stage.accept(1);
    stage.take(Want::any());
    stage.ranked(&[(1, 1), (2, 0)]);
    stage.news();
    let new = stage.accept(2);
    assert_eq!(stage.news(), [Action::Added(new), Action::Removed(old), Action::Drain(old)]);
    stage.pass(ms(3_600_000));
    assert!(stage.is_draining(old));
    stage.release(old);
    assert_eq!(stage.news(), [Action::Shut(old)]);
}

#[test]
fn the_last_one_that_works_is_not_given_up_for_one_that_does_not() {
    let mut stage = Stage::new(eager(1, 1));
    stage.ranked(&[(1, 1)]);
    let old = stage.accept(1);
    stage.ranked(&[(1, 1), (2, 0)]);
    stage.pass(ms(900));
    assert!(stage.is_up(old));
    stage.kill(2);
    stage.pass(ms(60_000));
    assert_eq!((stage.is_up(old), kept(&stage)), (true, vec![1]), "nor for want of use");
}

/// C4.
#[test]
fn removed_backends_end_and_their_dials_are_aborted() {
    let mut stage = Stage::knowing(eager(3, 5), &[1, 2, 3]);
    let (one, two, three) = (stage.accept(1), stage.accept(2), stage.dial_to(3));
    stage.news();
    stage.backends(&[1]);
    let told: Vec<_> = stage.news();
    for expected in [Action::Removed(two), Action::Shut(two), Action::Abort(three)] {
        assert_eq!(told.iter().filter(|action| **action == expected).count(), 1, "{told:?}");
    }
    assert_eq!((told.len(), stage.is_up(one), stage.sockets()), (3, true, 1));
}

/// C5 (#47).
#[test]
fn removing_a_backend_without_a_connection_changes_nothing() {
    let mut stage = Stage::knowing(eager(1, 1), &[1, 2]);
    let number = stage.dialling()[0];
    stage.accept(number);
    stage.news();
    stage.backends(&[number]);
    assert_eq!((stage.news(), stage.serving()), (vec![], vec![number]));
}

/// C6: whoever tracks connections finds one dead at once.
#[test]
fn one_that_dies_as_it_is_added_is_removed_and_the_other_untouched() {
    let mut stage = Stage::knowing(eager(2, 2), &[1, 2]);
    let (one, two) = (stage.accept(1), stage.accept(2));
    stage.news();
    stage.ended(one);
    assert_eq!(stage.news(), [Action::Removed(one)]);
    assert_eq!((stage.is_up(two), stage.dials.len()), (true, 0), "it lived too shortly to be dialled again at once");
    stage.pass(ms(100));
    assert_eq!(stage.dialling(), [1]);
}

/// C7 (#92). The stage holds every `Removed` against its `Added`. Where cueball ends failed, a backend that accepts is tried
/// again, further and further apart.
#[test]
fn one_that_connects_and_dies_over_and_over_is_tried_further_and_further_apart() {
    let mut stage = Stage::knowing(Options { recovery: policy(1).into(), ..eager(1, 1) }, &[1]);
    let mut gaps = Vec::new();
    for _ in 0..6 {
        let id = stage.accept(1);
        stage.ended(id);
        let before = stage.now;
        while stage.dials.is_empty() {
            stage.pass(ms(10));
        }
        gaps.push((stage.now - before).as_millis());
    }
    assert_eq!(gaps, [100, 100, 200, 400, 800, 1_000]);
    stage.machine.close(stage.now);
    stage.go();
    assert_eq!((stage.machine.state(), stage.sockets()), (State::Stopped, 0));
}

/// C8: the resolver takes back all that is connected; nothing is held on to.
#[test]
fn when_everything_is_removed_at_once_it_ends_at_once_and_the_rest_is_dialled() {
    let mut stage = Stage::knowing(eager(3, 5), &[1, 2, 3, 4]);
    accept_all(&mut stage);
    let left = (1..=4).find(|number| !stage.serving().contains(number)).unwrap();
    assert_eq!(stage.up(), 3);
    stage.backends(&[left]);
    assert_eq!((stage.up(), stage.dialling()), (0, vec![left]));
    stage.accept(left);
    assert_eq!(kept(&stage), [left]);
}

/// C9: both of two are replaced, one after the other; at no time do fewer than two work.
#[test]
fn replacing_all_goes_one_by_one() {
    let mut stage = Stage::new(eager(2, 2));
    stage.ranked(&[(1, 1), (2, 1)]);
    accept_all(&mut stage);
    stage.news();
    stage.ranked(&[(1, 1), (2, 1), (3, 0), (4, 0)]);
    for round in 0..2 {
        assert_eq!((stage.up(), stage.dials.len(), stage.news()), (2, 1, vec![]), "at most maximum + 1 sockets");
        let (new, _) = stage.dials[0];
        stage.connected(new);
        let told = stage.news();
        assert!(
            matches!(told[..], [Action::Added(added), Action::Removed(old), Action::Shut(shut)]
            if added == new && old == shut),
            "round {round}: {told:?}"
        );
    }
    assert_eq!((kept(&stage), stage.sockets()), (vec![3, 4], 2));
}

#[test]
fn what_others_ask_for_meanwhile_takes_the_room_of_what_goes() {
    let mut stage = Stage::new(eager(3, 3));
    let old = [(1, 1), (2, 1), (3, 1)];
    stage.ranked(&old);
    accept_all(&mut stage);
    let new = [(4, 0), (5, 0), (6, 0)];
    stage.ranked(&[old, new].concat());
    assert_eq!((stage.up(), stage.dials.len()), (3, 1));
    for number in 4..=6 {
        stage.wait(to(number));
    }
    assert_eq!((stage.up(), stage.dials.len()), (3, 3), "two of them on demand");
    stage.ranked(&[&old[..], &new, &[(7, 2)]].concat());
    assert_eq!((stage.up(), stage.dials.len()), (1, 3), "the plan makes them its own, within its bounds");
    accept_all(&mut stage);
    assert_eq!(kept(&stage), [4, 5, 6]);
}

#[test]
fn a_dead_backend_is_replaced_watched_and_welcomed_back() {
    let mut stage = Stage::new(eager(1, 2));
    stage.ranked(&[(1, 0), (2, 1)]);
    stage.kill(1);
    assert_eq!(stage.dialling(), [2], "another takes its place");
    stage.accept(2);
    stage.pass(ms(199));
    assert_eq!(stage.dials.len(), 0);
    stage.pass(ms(1));
    assert_eq!(stage.dialling(), [1], "tried with growing delays");
    stage.refuse(1);
    stage.pass(ms(399));
    assert_eq!(stage.dials.len(), 0);
    stage.pass(ms(1));
    stage.accept(1);
    assert_eq!(kept(&stage), [1], "what stood in for it goes");
}

#[test]
fn when_all_are_dead_all_are_watched_and_the_set_has_failed_until_one_is_back() {
    let mut stage = Stage::knowing(eager(2, 2), &[1, 2]);
    stage.refuse(1);
    stage.refuse(2);
    stage.pass(ms(100));
    stage.refuse(1);
    stage.refuse(2);
    assert_eq!(stage.machine.state(), State::Failed);
    stage.pass(ms(1_000));
    assert_eq!(stage.dials.len(), 2);
    stage.accept(2);
    assert_eq!(stage.machine.state(), State::Running);
}

#[test]
fn what_ends_is_dialled_again() {
    let mut stage = Stage::knowing(eager(1, 1), &[1]);
    let id = stage.accept(1);
    stage.pass(ms(1_000));
    stage.ended(id);
    assert_eq!(stage.dialling(), [1], "at once: it had lived");
}

#[test]
fn what_is_asked_for_by_name_beside_the_plan_is_left_to_the_detector() {
    let mut stage = Stage::knowing(eager(1, 1), &[1, 2]);
    let first = stage.dialling()[0];
    let planned = stage.accept(first);
    let asked = stage.connect(to(3 - first));
    assert_eq!((kept(&stage), stage.is_draining(asked)), (vec![first], false));
    assert_eq!(stage.take(to(3 - first)), asked);
    (0..5).for_each(|_| assert_eq!(stage.take(Want::any()), planned, "any lease is of what is kept, if there is one"));
    stage.release(asked);
    stage.release(asked);
    stage.pass(ms(9_999));
    assert!(stage.is_up(asked));
    stage.pass(ms(4_001));
    assert!(!stage.is_up(asked) && stage.is_up(planned));
}

#[test]
fn further_places_do_not_count_against_the_maximum() {
    let mut stage = Stage::knowing(Options { per_backend: 3, ..eager(2, 2) }, &[1]);
    stage.accept(1);
    stage.connect(at(1, 1));
    stage.connect(at(1, 2));
    stage.backends(&[1, 2]);
    assert_eq!(stage.dialling(), [2]);
    stage.accept(2);
    assert_eq!(kept(&stage), [1, 2]);
}

#[test]
fn what_the_plan_adopts_is_not_released() {
    let mut stage = Stage::new(eager(1, 1));
    stage.ranked(&[(1, 0), (2, 1)]);
    stage.accept(1);
    let asked = stage.connect(to(2));
    stage.release(asked);
    stage.pass(ms(9_999));
    while !matches!(stage.idleness(asked), carom_core::idle::Idleness::BeforeRelease { .. }) {
        stage.now = stage.machine.next_timeout().unwrap();
        stage.machine.handle_timeout(stage.now);
        stage.go();
    }
    stage.ranked(&[(2, 1)]);
    stage.pass(ms(60_000));
    assert_eq!((stage.is_up(asked), kept(&stage)), (true, vec![2]));
}

/// Two places of one backend, and it refuses the one that the plan wants: with a delay of 0, which was accepted then, that was a loop without end.
#[test]
fn a_backend_that_works_but_refuses_more_is_left_alone_for_a_while() {
    let hasty = policy(1).delay(ms(1));
    let mut stage = Stage::knowing(Options { per_backend: 2, recovery: hasty.into(), ..eager(1, 1) }, &[1]);
    let waiter = stage.wait(at(1, 1));
    let (second, _) = stage.dials[1];
    stage.connected(second);
    assert!(stage.granted(waiter).is_some());
    stage.refuse(1);
    assert_eq!((stage.dials.len(), stage.machine.snapshot().dead), (0, 0));
    stage.pass(ms(999));
    assert_eq!(stage.dials.len(), 0);
    stage.pass(ms(1));
    assert_eq!(stage.dialling(), [1]);
    stage.refuse(1);
    stage.wait(at(1, 0));
    stage.pass(ms(2));
    assert_eq!(stage.dialling(), [1], "somebody who waits is worth an attempt");
}

#[test]
fn decoherence_spreads_over_all_and_something_always_works() {
    let mut stage = Stage::knowing(Options { decoherence: ms(10_000), ..eager(1, 1) }, &[1, 2, 3]);
    accept_all(&mut stage);
    let mut seen = BTreeSet::new();
    for _ in 0..200 {
        stage.pass(ms(10_000));
        assert_eq!(stage.serving().len(), 1);
        assert!(stage.sockets() <= 2);
        accept_all(&mut stage);
        assert_eq!((stage.serving().len(), stage.sockets()), (1, 1));
        seen.extend(stage.serving());
    }
    assert_eq!(seen.len(), 3);
}

#[test]
fn a_lazy_set_dials_nobody_by_itself() {
    let mut stage = Stage::knowing(lazy(), &[1, 2, 3]);
    stage.pass(ms(600_000));
    assert_eq!((stage.dialled, stage.machine.next_timeout()), (0, None));
}
