//! What SRV priorities and weights mean for a pool. Each test is named for its rule.

use crate::stage::{Stage, backend, ms, options, recovery};
use carom_core::backend::Backend;
use carom_core::ejection::Ejection;
use carom_core::pick::Pick;
use carom_core::pool::{Options, Outcome, State};
use carom_core::slot::Phase;

/// Backend 1 goes first, 2 is its spare; both have been connected to as far as the plan wants.
fn with_a_spare(options: Options) -> Stage {
    let mut stage = Stage::new(options);
    stage.ranked(&[(1, 10, 0), (2, 20, 0)]);
    stage.accept_all_of(1);
    stage
}

/// The same after backend 1 has died with all it had: 2 serves.
fn with_the_spare_serving(options: Options) -> Stage {
    let mut stage = Stage::new(options);
    stage.ranked(&[(1, 10, 0), (2, 20, 0)]);
    stage.refuse(1);
    stage.accept_all_of(2);
    assert_eq!(stage.machine.dead_of_known(), (1, 2));
    stage
}

#[test]
fn the_lowest_priority_serves_and_the_others_get_nothing() {
    let mut stage = with_a_spare(options(3, 8));
    assert_eq!((stage.counts_of(1).of(Phase::Idle), stage.slots_of(2)), (3, 0));
    let lent: Vec<_> = (0..5).map(|_| stage.take_connecting()).collect();
    stage.accept_all();
    assert_eq!((stage.slots_of(1), stage.slots_of(2)), (8, 0));
    lent.into_iter().for_each(|slot| stage.release(slot, Outcome::Open));
}

#[test]
fn the_next_priority_serves_when_the_first_is_dead_and_the_first_is_watched() {
    let mut stage = with_the_spare_serving(options(3, 8));
    assert_eq!((stage.slots_of(1), stage.counts_of(2).of(Phase::Idle)), (0, 3));
    assert_eq!(stage.machine.state(), State::Running);
    stage.pass(ms(1_000));
    assert_eq!((stage.dialling(1), stage.dialling(2)), (1, 0));
}

#[test]
fn one_that_hangs_is_not_waited_for() {
    let mut stage = Stage::new(options(1, 4));
    stage.ranked(&[(1, 0, 0), (2, 1, 0)]);
    let waiter = stage.wait(ms(400));
    assert_eq!((stage.dialling(1), stage.dialling(2)), (1, 0));
    stage.pass(ms(130));
    assert_eq!((stage.dialling(1), stage.dialling(2)), (1, 1), "a quarter of the timeout is enough");
    stage.accept_all_of(2);
    assert_eq!(stage.granted(waiter).map(|slot| stage.lent_from(slot)), Some(2));
    stage.accept(1);
    assert_eq!(stage.lent_from(stage.granted(waiter).unwrap()), 2);
    let next = stage.take();
    assert_eq!(stage.lent_from(next), 1, "it was only slow");
}

#[test]
fn traffic_moves_back_when_the_better_one_works_again() {
    for pick in [Pick::LeastLoaded, Pick::Fifo, Pick::Lifo] {
        let mut stage = with_the_spare_serving(Options { pick, ..options(3, 8) });
        let lent = stage.take();
        assert_eq!(stage.lent_from(lent), 2);
        stage.accept_all_of(2);
        stage.pass(ms(1_000));
        stage.accept(1);
        assert_eq!(stage.counts_of(2).of(Phase::Busy), 1, "what is lent stays");
        assert_eq!(stage.counts_of(2).of(Phase::Idle), 3, "what is idle may still be needed");
        stage.release(lent, Outcome::Open);
        let first = stage.take();
        assert_eq!(stage.lent_from(first), 1, "{pick:?}: the better one goes first");
        let second = stage.take();
        assert_eq!(stage.lent_from(second), 2, "{pick:?}: rather than wait");
        stage.accept_all_of(1);
        let third = stage.take();
        assert_eq!(stage.lent_from(third), 1);
        for slot in [first, second, third] {
            stage.release(slot, Outcome::Open);
        }
        stage.pass(ms(200_000));
        stage.accept_all();
        assert_eq!((stage.counts_of(1).of(Phase::Idle), stage.slots_of(2)), (3, 0), "{pick:?}");
    }
}

#[test]
fn at_the_maximum_the_spare_makes_room_once_the_better_one_works() {
    let mut stage = with_the_spare_serving(options(4, 4));
    assert_eq!((stage.slots_of(1), stage.counts_of(2).of(Phase::Idle)), (0, 4), "a probe has no slot");
    stage.pass(ms(1_000));
    assert_eq!((stage.dialling(1), stage.closed), (1, 0));
    stage.accept(1);
    assert_eq!((stage.dialling(1), stage.counts_of(2).of(Phase::Idle)), (1, 3), "the probe found no room");
    stage.accept(1);
    assert_eq!((stage.closed, stage.slots_of(1), stage.slots_of(2)), (5, 4, 0));
}

#[test]
fn a_better_one_that_is_new_takes_over_when_it_is_connected() {
    let mut stage = Stage::new(options(4, 4));
    stage.ranked(&[(2, 20, 0)]);
    stage.accept_all();
    stage.ranked(&[(1, 10, 0), (2, 20, 0)]);
    assert_eq!((stage.dialling(1), stage.counts_of(2).of(Phase::Idle), stage.closed), (1, 4, 0), "it is probed");
    let lent = stage.take();
    assert_eq!(stage.lent_from(lent), 2);
    stage.refuse(1);
    assert_eq!((stage.counts_of(2).working(), stage.closed), (4, 0), "nothing was lost");
    stage.release(lent, Outcome::Open);
    stage.pass(ms(1_000));
    stage.accept_all_of(1);
    assert_eq!((stage.slots_of(1), stage.slots_of(2)), (4, 0));
}

#[test]
fn while_a_better_one_is_tried_the_other_still_grows() {
    let mut stage = Stage::new(options(1, 4));
    stage.ranked(&[(2, 20, 0)]);
    stage.accept_all();
    stage.ranked(&[(1, 10, 0), (2, 20, 0)]);
    assert_eq!((stage.dialling(1), stage.dialling(2)), (1, 0));
    stage.take();
    assert_eq!((stage.dialling(1), stage.dialling(2)), (1, 1));
    stage.accept(1);
    assert_eq!((stage.counts_of(1).of(Phase::Idle), stage.dialling(2)), (1, 0), "what is not needed any more stops");
}

#[test]
fn with_room_for_one_a_better_one_that_is_new_is_tried() {
    let mut stage = Stage::new(options(1, 1));
    stage.ranked(&[(2, 20, 0)]);
    stage.accept_all();
    stage.ranked(&[(1, 10, 0), (2, 20, 0)]);
    assert_eq!((stage.dialling(1), stage.slots_of(2)), (1, 1));
    stage.refuse(1);
    assert_eq!((stage.counts_of(2).of(Phase::Idle), stage.slots_of(1)), (1, 0));
    stage.pass_until(|stage| stage.dialling(1) > 0);
    stage.accept_all_of(1);
    assert_eq!((stage.counts_of(1).of(Phase::Idle), stage.slots_of(2)), (1, 0));
}

#[test]
fn a_changed_priority_moves_traffic_without_a_gap() {
    let mut stage = with_the_spare_serving(options(4, 4));
    stage.pass(ms(1_000));
    stage.accept_all_of(1);
    assert_eq!((stage.counts_of(1).of(Phase::Idle), stage.slots_of(2)), (4, 0));
    let plans = stage.plans();
    stage.ranked(&[(1, 30, 0), (2, 20, 0)]);
    assert!(stage.plans() > plans);
    assert_eq!((stage.counts_of(1).of(Phase::Idle), stage.dialling(2)), (3, 1), "one makes room");
    let lent = stage.take();
    assert_eq!(stage.lent_from(lent), 1, "nobody has to wait");
    stage.accept_all_of(2);
    assert_eq!((stage.counts_of(1).of(Phase::Idle), stage.slots_of(2)), (0, 3), "what is lent stays");
    stage.release(lent, Outcome::Open);
    stage.accept_all();
    assert_eq!((stage.slots_of(1), stage.slots_of(2)), (0, 4));
}

#[test]
fn slots_are_shared_by_weight_and_follow_when_it_changes() {
    let mut stage = Stage::new(options(8, 8));
    stage.ranked(&[(1, 0, 30), (2, 0, 10)]);
    stage.accept_all();
    assert_eq!((stage.slots_of(1), stage.slots_of(2)), (6, 2));
    stage.ranked(&[(2, 0, 70), (1, 0, 10)]);
    stage.accept_all();
    assert_eq!((stage.slots_of(1), stage.slots_of(2)), (1, 7));
}

#[test]
fn a_set_without_news_costs_no_plan() {
    let mut stage = Stage::new(options(4, 4));
    let ranked = [(1, 0, 1), (2, 0, 2), (3, 1, 3)];
    stage.ranked(&ranked);
    stage.accept_all();
    let plans = stage.plans();
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        stage.ranked(&order.map(|at| ranked[at]));
    }
    stage.ranked(&[(1, 0, 1), (1, 9, 9), (2, 0, 2), (3, 1, 3)]);
    assert_eq!(stage.plans(), plans, "of duplicates the first counts");
    stage.ranked(&[(1, 0, 2), (2, 0, 2), (3, 1, 3)]);
    assert_eq!(stage.plans(), plans + 1);
    stage.accept_all();
    let plans = stage.plans();
    stage.ranked(&[(1, 0, 2), (3, 1, 3)]);
    assert!(stage.plans() > plans);
}

#[test]
fn ten_thousand_backends_published_again_cost_no_plan() {
    let mut stage = Stage::new(options(4, 16));
    let many: Vec<Backend> = (0..10_000).map(|number| backend(number).with_priority(0, number % 7)).collect();
    stage.machine.handle_backends(stage.now, &many);
    stage.go();
    let plans = stage.plans();
    stage.machine.handle_backends(stage.now, &many);
    assert!(!stage.machine.take_attention(), "there is nothing to do");
    stage.go();
    assert_eq!((stage.plans(), stage.machine.dead_of_known()), (plans, (0, 10_000)));
}

#[test]
fn an_ejected_tier_leaves_its_place_to_the_next() {
    let ejection = Some(Ejection::default().consecutive(1).time(ms(5_000)));
    let mut stage = with_a_spare(Options { ejection, ..options(2, 4) });
    let lent = stage.take();
    stage.accept_all_of(1);
    stage.release(lent, Outcome::Failed);
    assert_eq!((stage.slots_of(1), stage.dialling(2)), (0, 1));
    stage.accept_all_of(2);
    stage.pass(ms(5_000));
    stage.accept_all_of(1);
    let lent = stage.take();
    assert_eq!(stage.lent_from(lent), 1, "it is back");
}

#[test]
fn a_spare_that_died_long_ago_is_tried_before_the_pool_fails() {
    let mut stage = with_the_spare_serving(Options { recovery: recovery(1), ..options(1, 4) });
    stage.end_idle(1);
    stage.refuse(2);
    assert_eq!(stage.machine.state(), State::Failed);
    stage.pass_until(|stage| stage.dialling(1) > 0);
    stage.accept(1);
    assert_eq!((stage.machine.dead_of_known(), stage.slots_of(2)), ((0, 2), 0), "nobody knows about the spare");
    let waiter = stage.take();
    stage.release(waiter, Outcome::Discarded);
    stage.refuse(1);
    assert_eq!(stage.machine.state(), State::Running);
    stage.pass_until(|stage| stage.dialling(2) > 0);
    stage.accept(2);
    assert_eq!(stage.counts_of(2).working(), 1);
}

#[test]
fn probes_of_better_backends_take_turns() {
    let mut stage = Stage::new(options(2, 2));
    stage.ranked(&[(1, 0, 0), (2, 0, 0), (3, 1, 0), (4, 2, 0)]);
    for number in [1, 2] {
        stage.pass_until(|stage| stage.dialling(number) > 0);
        stage.refuse(number);
    }
    stage.pass_until(|stage| stage.dialling(3) > 0);
    stage.refuse(3);
    stage.accept_all_of(4);
    let mut watched = [0; 5];
    for _ in 0..30 {
        stage.pass_until(|stage| !stage.dials.is_empty());
        let number = stage.dials[0].1;
        watched[usize::from(number)] += 1;
        stage.refuse(number);
        assert_eq!(stage.counts_of(4).of(Phase::Idle), 2);
    }
    assert!(watched[1..4].iter().all(|&times| times > 5), "{watched:?}");
}
