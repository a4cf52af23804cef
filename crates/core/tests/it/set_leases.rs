//! Leases of a set: who gets one, of what, and who shares a dial. Each test is named for its rule.

use crate::set_stage::{Stage, at, backend, eager, lazy, ms, policy, to, within};
use carom_core::set::{Action, Leased, Options, Refusal, State, Want};
use std::sync::Arc;

fn places(per_backend: usize) -> Options {
    Options { per_backend, ..lazy() }
}

#[test]
fn a_thousand_leases_to_a_cold_backend_are_one_dial_and_all_get_it() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    let waiters: Vec<_> = (0..1_000).map(|i| stage.wait(if i % 2 == 0 { to(1) } else { Want::any() })).collect();
    assert_eq!(stage.dialled, 1);
    let id = stage.accept(1);
    assert!(waiters.iter().all(|waiter| stage.granted(*waiter) == Some(id)));
    assert_eq!((stage.dialled, stage.glance(id).leases), (1, 1_000));
    assert_eq!(stage.take(to(1)), id, "and whoever comes later, at once");
}

#[test]
fn all_who_wait_get_the_failure_of_their_dial() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    let waiters: Vec<_> = (0..100).map(|_| stage.wait(to(1))).collect();
    stage.refuse(1);
    assert!(waiters.iter().all(|waiter| stage.waits(*waiter)), "one attempt is left");
    stage.pass(ms(99));
    assert_eq!(stage.dialled, 1);
    stage.pass(ms(1));
    stage.refuse(1);
    let unreachable = Refusal::Unreachable(Arc::new(backend(1)));
    assert!(waiters.iter().all(|waiter| stage.refused(*waiter) == Some(unreachable.clone())));
    assert_eq!(stage.dialled, 2);
}

#[test]
fn a_failure_is_not_kept_but_for_its_back_off() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    stage.wait(to(1));
    stage.kill(1);
    let next = stage.wait(to(1));
    stage.pass(ms(199));
    assert_eq!(stage.dialled, 2, "its back-off, doubled, is not over");
    assert!(stage.waits(next));
    stage.pass(ms(1));
    assert_eq!(stage.dialled, 3);
    let id = stage.accept(1);
    assert_eq!(stage.granted(next), Some(id));
    stage.pass(ms(1_000));
    stage.ended(id);
    stage.wait(to(1));
    assert_eq!(stage.dialled, 4, "a success ends the back-off");
}

#[test]
fn once_its_back_off_is_over_the_next_lease_dials_at_once() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    stage.wait(to(1));
    stage.kill(1);
    stage.pass(ms(200));
    assert_eq!(stage.dials.len(), 0, "a lazy set dials for somebody only");
    stage.wait(to(1));
    assert_eq!(stage.dialling(), [1]);
    stage.refuse(1);
    assert_eq!(stage.dials.len(), 0, "a dead one is given one attempt at a time");
    stage.wait(to(1));
    stage.pass(ms(399));
    assert_eq!(stage.dials.len(), 0, "longer each time");
    stage.pass(ms(1));
    assert_eq!(stage.dialling(), [1]);
}

#[test]
fn a_dead_backend_is_given_the_longest_timeout() {
    let patient = policy(2).max_timeout(ms(8_000));
    let mut stage = Stage::knowing(Options { recovery: patient.into(), ..lazy() }, &[1]);
    stage.wait(to(1));
    stage.kill(1);
    stage.pass(ms(1_000));
    stage.wait(to(1));
    assert_eq!(stage.timeouts, [ms(1_000), ms(2_000), ms(8_000)]);
}

#[test]
fn a_foreign_backend_is_dialled_on_demand_and_forgotten_after_its_release() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    let bare = stage.machine.footprint();
    let id = stage.connect(to(9));
    let waiter = stage.wait(Want::any());
    assert_eq!(stage.granted(waiter), None, "it is not for those who take any");
    stage.accept(1);
    stage.release(id);
    stage.pass(ms(14_000));
    assert!(!stage.is_up(id));
    let known = stage.granted(waiter).unwrap();
    stage.release(known);
    stage.pass(ms(60_000));
    assert_eq!((stage.up(), stage.machine.snapshot().known), (0, 1));
    assert!(stage.machine.footprint() <= bare + 2, "{} instead of {bare}", stage.machine.footprint());
}

#[test]
fn the_failures_of_a_foreign_backend_are_remembered_for_their_back_off() {
    let mut stage = Stage::new(lazy());
    let bare = stage.machine.footprint();
    stage.wait(to(9));
    stage.kill(9);
    for _ in 0..1_000 {
        let waiter = stage.wait(to(9));
        stage.cancel(waiter);
    }
    assert!(stage.machine.footprint() < 200, "{} things remembered", stage.machine.footprint());
    let waiter = stage.wait(to(9));
    assert_eq!(stage.dialled, 2, "not dialled before its back-off is over");
    stage.cancel(waiter);
    stage.pass(ms(60_000));
    assert!(stage.machine.footprint() <= bare + 1, "a number in a table is left of it");
    stage.wait(to(9));
    stage.kill(9);
    assert_eq!(stage.dialled, 4, "as if it were new");
}

#[test]
fn a_foreign_backend_that_becomes_known_serves_those_who_wait_for_any() {
    let mut stage = Stage::new(lazy());
    let id = stage.connect(to(1));
    stage.backends(&[2]);
    let waiter = stage.wait(Want::any());
    assert_eq!(stage.dialling(), [2]);
    stage.backends(&[1, 2]);
    assert_eq!((stage.granted(waiter), stage.dials.len()), (Some(id), 0), "and nobody wants the other any more");
    assert_eq!((stage.dialled, stage.take(Want::any())), (2, id));
}

#[test]
fn a_lease_goes_to_the_place_with_the_fewest() {
    let mut stage = Stage::knowing(places(2), &[1]);
    let first = stage.connect(to(1));
    let second = stage.connect(to(1));
    assert_ne!(first, second);
    let third = stage.take(to(1));
    let fourth = stage.take(to(1));
    assert_ne!(third, fourth);
    assert_eq!((stage.glance(first).leases, stage.glance(second).leases), (2, 2));
    stage.release(second);
    assert_eq!(stage.take(to(1)), second);
    assert_eq!(stage.dialled, 2);
}

#[test]
fn with_equally_many_a_place_that_is_connected_wins() {
    let mut stage = Stage::knowing(places(3), &[1]);
    let id = stage.connect(at(1, 2));
    stage.release(id);
    assert_eq!(stage.take(to(1)), id);
    assert_eq!(stage.dialled, 1);
}

#[test]
fn those_who_wait_count_as_those_who_hold() {
    let mut stage = Stage::knowing(places(2), &[1]);
    stage.wait(to(1));
    stage.wait(to(1));
    assert_eq!(stage.dialled, 2);
    stage.wait(to(1));
    assert_eq!(stage.dialled, 2, "no more than there are places");
}

/// Pulsar's checklist 13: a producer that reconnects goes to the connection it had, or the broker says ProducerBusy.
#[test]
fn a_user_keeps_its_place_over_reconnects() {
    let mut stage = Stage::knowing(places(10), &[1]);
    for _ in 0..20 {
        let id = stage.connect(at(1, 7));
        assert_eq!(stage.glance(id).place, 7);
        assert_eq!(stage.take(at(1, 7)), id);
        stage.pass(ms(1_000));
        stage.ended(id);
    }
    let (now, nowhere) = (stage.now, Want { place: Some(3), ..Want::any() });
    let misplaced = stage.machine.lease(now, at(1, 10));
    assert_eq!(misplaced, Leased::Refused(Refusal::NoSuchPlace { place: 10, places: 10 }));
    let misplaced = stage.machine.lease(now, nowhere);
    assert_eq!(misplaced, Leased::Refused(Refusal::NoSuchPlace { place: 3, places: 0 }));
}

/// Pulsar's checklist 12.
#[test]
fn with_no_places_each_lease_has_a_connection_which_ends_with_it() {
    let mut stage = Stage::knowing(places(0), &[1]);
    let ids: Vec<_> = [to(1), to(1), Want::any(), at(1, 0)].map(|want| stage.connect(want)).to_vec();
    assert_eq!((stage.dialled, stage.up()), (4, 4));
    stage.news();
    stage.release(ids[1]);
    assert_eq!(stage.news(), [Action::Removed(ids[1]), Action::Shut(ids[1])]);
    assert_eq!(stage.up(), 3);
    stage.pass(ms(60_000));
    assert_eq!(stage.up(), 3, "those that are held stay");
}

#[test]
fn with_no_places_leases_of_any_go_to_the_least_used() {
    let mut stage = Stage::knowing(places(0), &[1, 2]);
    (0..4).for_each(|_| _ = stage.connect(Want::any()));
    assert_eq!(stage.serving(), [1, 1, 2, 2]);
    let waiter = stage.wait(Want::any());
    let bad = stage.dialling()[0];
    stage.refuse(bad);
    let other = if bad == 1 { 2 } else { 1 };
    assert_eq!(stage.dialling(), [other], "it is tried elsewhere");
    stage.accept(other);
    assert!(stage.granted(waiter).is_some());
}

#[test]
fn with_no_places_a_lease_of_any_is_refused_when_all_are_dead() {
    let mut stage = Stage::knowing(Options { outage_wait: ms(0), ..places(0) }, &[1, 2]);
    for dead in [1, 2] {
        let waiter = stage.wait(Want::any());
        while stage.waits(waiter) {
            match stage.dialling().first() {
                Some(&number) => stage.refuse(number),
                None => stage.pass(ms(10)),
            }
        }
        assert_eq!(stage.refused(waiter), Some(Refusal::Failed { dead, known: 2 }));
        assert_eq!(stage.dials.len(), 0);
    }
    assert_eq!(stage.machine.state(), State::Failed);
}

#[test]
fn with_no_places_whoever_waits_for_any_backend_waits_for_the_first_that_is_known() {
    let mut stage = Stage::new(places(0));
    let waiters = [stage.wait(Want::any()), stage.wait(Want::any())];
    stage.backends(&[1]);
    stage.accept(1);
    stage.accept(1);
    let granted = waiters.map(|waiter| stage.granted(waiter).unwrap());
    assert_ne!(granted[0], granted[1]);
    let waiter = stage.wait(Want::any());
    stage.backends(&[2]);
    assert_eq!(stage.dialling(), [2], "it does not wait for one that is gone");
    stage.accept(2);
    assert!(stage.granted(waiter).is_some());
}

#[test]
fn so_many_dials_to_one_backend_at_a_time() {
    let mut stage = Stage::knowing(Options { connecting_per_backend: 2, ..places(4) }, &[1]);
    let waiters = [0, 1, 2, 3].map(|place| stage.wait(at(1, place)));
    assert_eq!(stage.dialling(), [1, 1]);
    stage.accept(1);
    assert_eq!(stage.dialling(), [1, 1], "the next has its turn");
    assert!(stage.granted(waiters[0]).is_some());
    // Somebody whose turn has not come goes away: nobody else loses theirs.
    stage.cancel(waiters[3]);
    stage.accept(1);
    assert_eq!(stage.dialling(), [1]);
    stage.accept(1);
    assert_eq!(stage.dialling(), [0; 0]);
    assert!(waiters[..3].iter().all(|waiter| stage.granted(*waiter).is_some()));
}

#[test]
fn who_waits_for_a_turn_waits_for_the_back_off_too_and_gets_the_same_outcome() {
    let mut stage = Stage::knowing(Options { connecting_per_backend: 1, ..places(3) }, &[1]);
    let waiters = [0, 1, 2].map(|place| stage.wait(at(1, place)));
    stage.refuse(1);
    assert_eq!(stage.dialled, 1, "not at once, one by one");
    stage.pass(ms(100));
    assert_eq!(stage.dialled, 2);
    stage.refuse(1);
    let unreachable = Refusal::Unreachable(Arc::new(backend(1)));
    assert!(waiters.iter().all(|waiter| stage.refused(*waiter) == Some(unreachable.clone())));
    stage.pass(ms(60_000));
    assert_eq!(stage.dialled, 2);
}

#[test]
fn turns_are_not_collected_by_those_who_come_and_go() {
    let mut stage = Stage::knowing(Options { connecting_per_backend: 1, ..places(2) }, &[1]);
    stage.wait(at(1, 0));
    for _ in 0..1_000 {
        let waiter = stage.wait(at(1, 1));
        assert!(stage.cancel(waiter));
    }
    assert!(stage.machine.footprint() < 200, "{}", stage.machine.footprint());
}

#[test]
fn the_least_leases_first_whatever_the_backend() {
    let mut stage = Stage::knowing(lazy(), &[1, 2, 3]);
    let ids = [1, 2, 3].map(|number| stage.connect(to(number)));
    ids.iter().for_each(|id| stage.release(*id));
    let mut taken: Vec<_> = (0..3).map(|_| stage.take(Want::any())).collect();
    taken.sort_unstable();
    let mut all = ids.to_vec();
    all.sort_unstable();
    assert_eq!(taken, all, "each once");
    stage.take(to(1));
    stage.take(to(2));
    assert_eq!(stage.take(Want::any()), ids[2]);
}

#[test]
fn a_lower_priority_number_wins_over_fewer_leases() {
    let mut stage = Stage::new(lazy());
    stage.ranked(&[(1, 1), (2, 0)]);
    let [second, first] = [1, 2].map(|number| stage.connect(to(number)));
    stage.release(second);
    assert_eq!(stage.take(Want::any()), first);
    assert_eq!(stage.take(Want::any()), first);
    stage.ranked(&[(1, 0), (2, 1)]);
    assert_eq!(stage.take(Want::any()), second, "as soon as priorities change");
}

#[test]
fn the_most_important_backend_is_dialled_first_and_the_next_when_it_fails() {
    let mut stage = Stage::new(lazy());
    stage.ranked(&[(1, 2), (2, 1), (3, 0)]);
    let waiter = stage.wait(Want::any());
    assert_eq!(stage.dialling(), [3]);
    stage.refuse(3);
    assert_eq!(stage.dialling(), [2], "without waiting for its next attempt");
    stage.pass(ms(100));
    assert_eq!(stage.dialling(), [2, 3]);
    stage.accept(3);
    assert_eq!(stage.dials.len(), 0, "nobody wants the other any more");
    assert!(stage.granted(waiter).is_some());
}

#[test]
fn a_hanging_backend_is_doubted_after_a_quarter_of_its_timeout() {
    let mut stage = Stage::new(lazy());
    stage.ranked(&[(1, 0), (2, 1), (3, 2)]);
    let waiter = stage.wait(Want::any());
    stage.pass(ms(249));
    assert_eq!(stage.dialling(), [1]);
    stage.pass(ms(1));
    assert_eq!(stage.dialling(), [1, 2]);
    stage.pass(ms(250));
    assert_eq!(stage.dialling(), [1, 2, 3]);
    let id = stage.accept(2);
    assert_eq!(stage.granted(waiter), Some(id));
    assert_eq!(stage.dials.len(), 0);
}

#[test]
fn whoever_wants_one_backend_waits_for_that_one() {
    let mut stage = Stage::knowing(lazy(), &[1, 2]);
    let waiter = stage.wait(to(1));
    stage.pass(ms(999));
    assert_eq!(stage.dialling(), [1], "no other is tried");
    let any = stage.wait(Want::any());
    assert_eq!(stage.dialling(), [1, 2], "unless somebody takes any: that one hangs");
    stage.accept(2);
    assert!(stage.granted(any).is_some() && stage.waits(waiter));
    assert_eq!(stage.dialling(), [1], "somebody still waits for it");
}

#[test]
fn when_all_are_dead_whoever_takes_any_is_told_how_many() {
    let mut stage = Stage::knowing(Options { outage_wait: ms(0), ..lazy() }, &[1, 2]);
    let waiter = stage.wait(Want::any());
    let failed = Refusal::Failed { dead: 2, known: 2 };
    for _ in 0..2 {
        while let Some(&number) = stage.dialling().first() {
            stage.refuse(number);
        }
        assert!(stage.dialled == 4 || stage.waits(waiter));
        stage.pass(ms(100));
    }
    assert_eq!(stage.refused(waiter), Some(failed));
    assert_eq!((stage.dialled, stage.machine.state()), (4, State::Failed));
    let hasty = stage.wait(Want::any());
    assert!(stage.waits(hasty), "no attempt has begun since");
    stage.cancel(hasty);
    stage.pass(ms(1_000));
    assert_eq!(stage.dialled, 6, "and none is made for those who are gone");
    let third = stage.wait(Want::any());
    assert_eq!(stage.dialled, 8, "a lease tries again all the same");
    let number = stage.dialling()[0];
    stage.accept(number);
    assert!(stage.granted(third).is_some());
    assert_eq!(stage.machine.state(), State::Running);
}

#[test]
fn every_backend_is_tried_before_whoever_takes_any_is_refused() {
    let mut stage = Stage::knowing(Options { recovery: policy(1).into(), outage_wait: ms(0), ..lazy() }, &[1, 2, 3]);
    let waiter = stage.wait(Want::any());
    let mut tried: Vec<u16> = (0..3)
        .map(|_| {
            let number = stage.dialling()[0];
            stage.refuse(number);
            number
        })
        .collect();
    tried.sort_unstable();
    assert_eq!(tried, [1, 2, 3]);
    assert_eq!(stage.refused(waiter), Some(Refusal::Failed { dead: 3, known: 3 }));
}

#[test]
fn an_eager_set_that_is_dead_tries_at_once_for_somebody_who_waits() {
    let mut stage = Stage::knowing(Options { outage_wait: ms(0), ..eager(1, 1) }, &[1]);
    stage.kill(1);
    stage.pass(ms(150));
    assert_eq!(stage.dials.len(), 0, "it is tried after twice that");
    let waiter = stage.wait(Want::any());
    assert_eq!(stage.dialling(), [1]);
    stage.refuse(1);
    assert_eq!(stage.refused(waiter), Some(Refusal::Failed { dead: 1, known: 1 }));
    stage.pass(ms(1_000));
    assert_eq!(stage.dialling(), [1], "and it is still watched");
}

#[test]
fn with_nobody_known_a_lease_of_any_waits_unless_the_resolver_has_failed() {
    let mut stage = Stage::new(lazy());
    let waiter = stage.wait(Want::any());
    stage.pass(ms(10_000));
    assert!(stage.waits(waiter));
    stage.machine.handle_resolver_failed();
    stage.go();
    let failed = Refusal::Failed { dead: 0, known: 0 };
    assert_eq!(stage.refused(waiter), Some(failed.clone()));
    assert_eq!(stage.machine.state(), State::Failed);
    assert_eq!(stage.lease(Want::any()), Leased::Refused(failed));
    stage.backends(&[1]);
    stage.connect(Want::any());
    assert_eq!(stage.machine.state(), State::Running);
}

#[test]
fn what_is_asked_for_by_name_says_nothing_about_those_that_are_known() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    stage.wait(to(1));
    stage.kill(1);
    assert_eq!(stage.machine.state(), State::Failed);
    stage.connect(to(9));
    assert_eq!(stage.machine.state(), State::Failed);
    stage.backends(&[1, 9]);
    assert_eq!(stage.machine.state(), State::Running, "it is one of them now");
}

#[test]
fn a_dial_is_aborted_when_the_last_who_wanted_it_is_gone() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    let waiters = [stage.wait(to(1)), stage.wait(Want::any())];
    let dial = stage.dial_to(1);
    assert!(stage.cancel(waiters[0]));
    assert_eq!(stage.dialling(), [1]);
    assert!(stage.cancel(waiters[1]));
    assert_eq!(stage.news(), [Action::Abort(dial)]);
    assert!(!stage.cancel(waiters[0]), "once");
    let snapshot = stage.machine.snapshot();
    assert_eq!((snapshot.waiting, snapshot.dialling, snapshot.leases), (0, 0, 0));
    stage.pass(ms(1));
    let waiter = stage.wait(to(1));
    assert_ne!(stage.dial_to(1), dial, "the next dial is another one");
    stage.connected(dial);
    assert!(stage.waits(waiter), "and what is told of the old one is nothing to it");
}

#[test]
fn nobody_who_gives_up_leaves_a_back_off_that_dials() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    let waiter = stage.wait(to(1));
    stage.refuse(1);
    stage.cancel(waiter);
    stage.pass(ms(10_000));
    assert_eq!(stage.dialled, 1);
}

#[test]
fn a_waiter_is_refused_at_its_deadline() {
    let mut stage = Stage::knowing(Options { lease_timeout: ms(400), ..lazy() }, &[1]);
    let (usual, hasty) = (stage.wait(to(1)), stage.wait(within(to(1), ms(300))));
    stage.pass(ms(299));
    assert!(stage.waits(hasty));
    stage.pass(ms(1));
    assert_eq!(stage.refused(hasty), Some(Refusal::TimedOut { after: ms(300) }));
    assert_eq!(stage.dialling(), [1]);
    stage.pass(ms(100));
    assert_eq!(stage.refused(usual), Some(Refusal::TimedOut { after: ms(400) }));
    assert_eq!(stage.dialling(), [0; 0], "nobody wants it any more");
}

#[test]
fn a_retired_connection_takes_no_more_leases_and_ends_with_its_last() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    stage.wait(to(1));
    let old = stage.accept(1);
    assert_eq!(stage.take(to(1)), old);
    stage.pass(ms(100));
    stage.retire(old);
    stage.retire(old);
    stage.wait(to(1));
    assert_eq!(stage.dialled, 2, "whoever comes next gets another, at once");
    let new = stage.accept(1);
    assert_ne!(new, old);
    stage.pass(ms(1_000_000));
    stage.release(old);
    assert_eq!(stage.glance(old).leases, 1, "it is not cut short");
    stage.release(old);
    assert_eq!(stage.machine.snapshot().connections.len(), 1);
    assert_eq!(stage.take(to(1)), new);
}
