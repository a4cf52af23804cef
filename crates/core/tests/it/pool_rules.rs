//! Where the pool decides differently from cueball, or decides what cueball leaves open. Each test is named for its rule.

use crate::stage::{Stage, backend, ms, options, policy, recovery};
use carom_core::idle;
use carom_core::pick::Pick;
use carom_core::pool::{Claimed, Ending, Options, Outcome, Refusal, Request, State};
use carom_core::recovery::Recovery;
use carom_core::slot::{Phase, SlotRef};
use std::time::Duration;

#[test]
fn claiming_an_idle_connection_starts_its_replacement_at_once() {
    let mut stage = Stage::connected(options(2, 10), &[1]);
    stage.take();
    assert_eq!((stage.dialling(1), stage.counts().total()), (1, 3));
    stage.take();
    assert_eq!((stage.dialling(1), stage.counts().total()), (2, 4));
}

#[test]
fn a_connect_no_longer_needed_becomes_a_spare_or_is_cancelled() {
    let mut stage = Stage::connected(options(1, 10), &[1]);
    let lent = stage.take();
    assert_eq!(stage.dialling(1), 1);
    let waiter = stage.wait(ms(1_000));
    assert_eq!(stage.dialling(1), 2);
    stage.release(lent, Outcome::Open);
    assert!(stage.granted(waiter).is_some(), "the returned one wins");
    stage.pass(ms(400));
    assert_eq!((stage.dialling(1), stage.counts().total()), (1, 2), "one is the spare, the other is not needed");
}

#[test]
fn a_pool_whose_last_backend_was_removed_is_not_failed() {
    let mut stage = Stage::connected(options(2, 2), &[1]);
    stage.backends(&[]);
    assert_eq!((stage.machine.state(), stage.counts().total(), stage.closed), (State::Running, 0, 2));
    let hasty = Request { error_on_empty: true, ..Request::within(ms(100)) };
    assert_eq!(stage.machine.claim(stage.now, hasty), Claimed::Refused(Refusal::NoBackends));
    let waiter = stage.wait(ms(1_000));
    stage.backends(&[2]);
    stage.accept_all();
    assert!(stage.granted(waiter).is_some());
}

#[test]
fn a_failed_pool_that_knows_nobody_any_more_is_what_it_was_before() {
    for has_run in [false, true] {
        let mut stage = Stage::new(options(1, 1));
        stage.backends(&[1]);
        if has_run {
            stage.accept(1);
            stage.end_idle(1);
        }
        stage.refuse(1);
        assert_eq!(stage.machine.state(), State::Failed);
        stage.backends(&[]);
        assert_eq!(stage.machine.state(), if has_run { State::Running } else { State::Starting });
        let waiter = stage.wait(ms(1_000));
        stage.backends(&[2]);
        stage.accept_all();
        assert!(stage.granted(waiter).is_some());
        assert_eq!(stage.machine.state(), State::Running);
    }
    let mut stage = Stage::new(options(1, 1));
    stage.machine.handle_resolver_failed();
    assert_eq!(stage.machine.state(), State::Failed);
    stage.backends(&[]);
    assert_eq!(stage.machine.state(), State::Starting, "it can say who serves: nobody yet");
}

#[test]
fn probe_and_slot_of_removed_backends_stop_at_once() {
    let slow = policy(3).delay(ms(400));
    let mut stage = Stage::new(Options { recovery: Recovery::from(slow), ..options(2, 2) });
    stage.backends(&[1, 2]);
    stage.refuse(1);
    assert_eq!((stage.machine.snapshot().probes.of(Phase::Backoff), stage.dialling(2)), (1, 1));
    stage.backends(&[3]);
    let after = stage.machine.snapshot();
    assert_eq!((stage.dialling(2), after.draining.total(), after.probes.total()), (0, 0, 0));
    assert_eq!((stage.slots_of(3), stage.counts().total()), (2, 2));
}

#[test]
fn a_slot_that_a_working_backend_refuses_is_given_up_and_tried_again_later() {
    let mut stage = Stage::new(options(3, 3));
    stage.backends(&[1]);
    stage.accept(1);
    stage.accept(1);
    stage.refuse(1);
    assert_eq!((stage.machine.dead_of_known(), stage.counts().total()), ((0, 1), 2), "it works: it is not dead");
    stage.pass(ms(999));
    assert_eq!(stage.dials.len(), 0, "left alone for max_delay");
    stage.pass(ms(1));
    assert_eq!(stage.dialling(1), 1);
    stage.accept(1);
    assert_eq!(stage.of(Phase::Idle), 3);
}

#[test]
fn what_a_resting_backend_will_not_take_goes_to_others() {
    let mut stage = Stage::new(options(4, 4));
    stage.backends(&[1, 2]);
    stage.accept(1);
    stage.accept_all_of(2);
    stage.refuse(1);
    assert_eq!((stage.slots_of(1), stage.slots_of(2)), (1, 3));
    stage.accept_all();
    stage.pass(ms(1_000));
    assert_eq!(stage.slots_of(1), 2, "it is asked again");
}

#[test]
fn a_resting_backend_gets_back_what_it_loses_and_no_more() {
    let mut stage = Stage::new(options(4, 4));
    stage.backends(&[1]);
    (0..3).for_each(|_| stage.accept(1));
    stage.refuse(1);
    assert_eq!((stage.dials.len(), stage.of(Phase::Idle)), (0, 3));
    for _ in 0..3 {
        let slot = stage.take();
        stage.release(slot, Outcome::Discarded);
        assert_eq!(stage.dialling(1), 1, "its place is free");
        stage.accept(1);
        assert_eq!((stage.dials.len(), stage.of(Phase::Idle)), (0, 3), "no more until it has rested");
    }
    stage.pass(ms(1_000));
    assert_eq!(stage.dialling(1), 1);
}

#[test]
fn a_full_server_is_tried_by_one_slot_and_not_by_all() {
    for (backends, places) in [(1, 9), (2, 9), (3, 4)] {
        let recovery = Recovery::from(policy(3).delay(ms(100)).max_delay(ms(1_000)));
        let mut stage = Stage::new(Options { recovery, ..options(16, 16) });
        let all: Vec<u16> = (1..=backends).collect();
        stage.backends(&all);
        let mut refused = [0; 4];
        let mut serve = |stage: &mut Stage, places: usize| {
            while let Some(&(_, number)) = stage.dials.first() {
                let has_room = stage.counts_of(number).working() < places;
                refused[number as usize] += usize::from(!has_room);
                stage.end_dial(number, has_room);
            }
        };
        for _ in 0..1_000 {
            serve(&mut stage, places);
            assert!(all.iter().all(|&number| stage.slots_of(number) <= stage.counts_of(number).working() + 4));
            stage.pass(ms(10));
        }
        let held = if backends == 2 { 16 } else { places * backends as usize };
        assert_eq!((stage.counts().working(), stage.machine.state()), (held, State::Running));
        // Those that find it full at first, and then three attempts in 1.3 s each time.
        for refused in refused.into_iter().filter(|&refused| refused > 0) {
            assert!(refused <= 6 + 3 * 8, "{refused} in ten seconds at {backends}");
        }
        stage.pass(ms(1_500));
        for _ in 0..10 {
            stage.accept_all();
            stage.pass(ms(150));
        }
        assert_eq!(stage.counts().working(), 16, "when there is room for one there may be room for all");
    }
}

#[test]
fn a_smaller_maximum_holds_before_the_driver_has_its_turn() {
    let mut stage = Stage::connected(options(4, 4), &[1, 2]);
    let lent = stage.take();
    stage.machine.resize(stage.now, 0, 2).unwrap();
    let claim = |stage: &mut Stage| stage.machine.claim(stage.now, Request::within(ms(1_000)));
    assert!(matches!(claim(&mut stage), Claimed::Granted { .. }));
    assert!(matches!(claim(&mut stage), Claimed::Waiting(_)), "two are lent");
    stage.release(lent, Outcome::Open);
    assert_eq!((stage.counts().total(), stage.of(Phase::Busy)), (2, 2));
}

#[test]
fn the_least_recently_used_of_a_backend_is_let_go_first_however_they_are_picked() {
    for pick in [Pick::LeastLoaded, Pick::Fifo, Pick::Lifo] {
        let mut stage = Stage::connected(Options { pick, max_idle: None, ..options(4, 4) }, &[1]);
        let lent: Vec<_> = (0..4).map(|_| stage.take()).collect();
        // They come back in another order than they went, far enough apart to be told apart.
        for place in [2, 0, 3, 1] {
            stage.pass(ms(1_000));
            stage.release(lent[place], Outcome::Open);
        }
        stage.pass(ms(1_000));
        let kept = [lent[3], lent[1]].map(|slot| slot.index());
        stage.machine.resize(stage.now, 2, 2).unwrap();
        stage.go();
        let mut left = [stage.take(), stage.take()].map(|slot| slot.index());
        left.sort_by_key(|index| kept.iter().position(|kept| kept == index));
        assert_eq!(left, kept, "{pick:?}");
    }
}

#[test]
fn a_backend_rests_only_while_something_of_it_works() {
    let mut stage = Stage::new(options(2, 2));
    stage.backends(&[1]);
    stage.accept(1);
    stage.refuse(1);
    assert_eq!((stage.dials.len(), stage.of(Phase::Idle)), (0, 1));
    stage.end_idle(1);
    assert!(stage.dialling(1) > 0, "a clean close reconnects at once");
}

#[test]
fn until_its_first_success_one_slot_of_a_backend_dials_and_the_others_are_held() {
    let mut stage = Stage::new(options(6, 6));
    stage.backends(&[1]);
    assert_eq!((stage.dialling(1), stage.of(Phase::Held)), (1, 5));
    stage.accept(1);
    assert_eq!((stage.dialling(1), stage.of(Phase::Held)), (4, 1), "then as many as may connect at a time");
}

#[test]
fn connects_to_one_backend_are_limited_and_others_do_not_wait_for_them() {
    let mut stage = Stage::new(Options { connecting_per_backend: 2, ..options(10, 10) });
    stage.backends(&[1, 2]);
    stage.accept(1);
    stage.accept(2);
    for _ in 0..4 {
        assert!(stage.dialling(1) <= 2 && stage.dialling(2) <= 2);
        stage.accept(1);
    }
    assert_eq!((stage.counts_of(1).of(Phase::Idle), stage.dialling(2)), (5, 2));
}

#[test]
fn connects_that_are_only_slow_are_cut_short_only_when_there_is_no_other_room() {
    let recovery = Recovery::from(policy(3).timeout(ms(2_000)).max_timeout(ms(2_000)));
    for maximum in [8, 6] {
        let mut stage = Stage::new(Options { recovery: recovery.clone(), ..options(6, maximum) });
        stage.backends(&[1, 2]);
        stage.accept(1);
        stage.accept_all_of(2);
        assert_eq!((stage.slots_of(1), stage.slots_of(2), stage.dialling(1)), (3, 3, 2));
        stage.pass(ms(500));
        if maximum == 8 {
            assert_eq!((stage.dialling(1), stage.slots_of(2)), (2, 5), "others make up for them");
        } else {
            assert_eq!((stage.dialling(1), stage.slots_of(2)), (1, 4), "one goes on trying");
        }
    }
}

#[test]
fn a_success_ends_all_doubt() {
    let mut stage = Stage::new(Options { recovery: Recovery::from(policy(3).delay(ms(100))), ..options(8, 8) });
    stage.backends(&[1, 2]);
    stage.refuse(1);
    assert_eq!((stage.slots_of(1), stage.slots_of(2)), (0, 8), "a backend that is doubted is probed");
    stage.pass(ms(100));
    stage.accept(1);
    assert_eq!((stage.slots_of(1), stage.slots_of(2)), (4, 4), "and its whole share when it works");
}

#[test]
fn the_line_is_no_longer_than_it_may_be() {
    let mut stage = Stage::new(Options { max_waiters: Some(2), ..options(0, 1) });
    stage.wait(ms(1_000));
    let second = stage.wait(ms(1_000));
    assert_eq!(stage.claim(ms(1_000)), Claimed::Refused(Refusal::Full));
    assert!(stage.machine.forget_waiter(second));
    stage.wait(ms(1_000));
}

#[test]
fn a_short_lived_connection_counts_as_a_failed_attempt_and_such_attempts_run_out() {
    let recovery = Recovery::from(policy(3).delay(ms(1_000)).max_delay(ms(9_000)));
    let mut stage = Stage::new(Options { recovery, ..options(1, 1) });
    stage.backends(&[1]);
    let mut pauses = Vec::new();
    while stage.machine.state() != State::Failed {
        stage.accept(1);
        stage.pass(ms(600));
        stage.end_watched(1, Ending::Seen);
        let before = stage.now;
        stage.pass_until(|stage| !stage.dials.is_empty());
        pauses.push(stage.now - before);
        assert!(pauses.len() < 9, "it is never given up: {pauses:?}");
    }
    assert_eq!(pauses, [ms(1_000), ms(2_000), ms(1_000)], "dead, as every other backend is");
    stage.accept(1);
    stage.end_idle(1);
    assert_eq!((stage.machine.state(), stage.of(Phase::Backoff)), (State::Running, 1), "no failed attempt");
    stage.pass(ms(998));
    assert_eq!(stage.dialling(1), 0);
    stage.pass(ms(1));
    assert_eq!(stage.dialling(1), 1, "one that lived for a second is replaced after the delay");
}

/// Uses up a connection that was just made.
type UsesUp = fn(&mut Stage, SlotRef);

#[test]
fn a_connection_that_was_used_may_end_at_any_age_and_nobody_is_to_blame() {
    let uses_up: [(&str, bool, UsesUp); 4] = [
        ("closed at release", false, |stage, slot| stage.release(slot, Outcome::Closed)),
        ("closed at rest", false, |stage, slot| {
            stage.release(slot, Outcome::Open);
            stage.pass(ms(600));
            stage.end_watched(1, Ending::Found);
        }),
        ("failed by the recycle", true, |stage, slot| {
            stage.release(slot, Outcome::Open);
            let recycle = stage.checks.pop().expect("it is cleaned");
            stage.machine.handle_checked(stage.now, recycle, false);
            stage.go();
        }),
        ("cut short by the recycle's timeout", true, |stage, slot| {
            stage.release(slot, Outcome::Open);
            stage.pass(ms(3_000));
        }),
    ];
    for (how, recycles, use_up) in uses_up {
        // One attempt: any blame would be death.
        let recovery = Recovery::from(policy(1).delay(ms(5_000)).max_delay(ms(60_000)));
        let mut stage = Stage::recycling(Options { recovery, ..options(1, 1) }, recycles, &[1]);
        for _ in 0..30 {
            let slot = stage.take();
            use_up(&mut stage, slot);
            // Connects are at least 1 ms apart.
            stage.pass(ms(1));
            assert_eq!((stage.dialling(1), stage.machine.state()), (1, State::Running), "{how}");
            stage.accept(1);
        }
    }
}

#[test]
fn a_check_that_fails_says_no_more_than_that_the_connection_has_ended() {
    let options = Options { check_after: Some(ms(1_000)), check_timeout: ms(200), ..options(1, 1) };
    for timed_out in [false, true] {
        for delay in [500, 5_000] {
            // One attempt: any blame would be death.
            let recovery = Recovery::from(policy(1).delay(ms(delay)).max_delay(ms(60_000)));
            let mut stage = Stage::connected(Options { recovery, ..options.clone() }, &[1]);
            stage.pass_until(|stage| !stage.checks.is_empty());
            if timed_out {
                stage.pass(ms(200));
            } else {
                let check = stage.checks.remove(0);
                stage.machine.handle_checked(stage.now, check, false);
                stage.go();
            }
            let reconnects = |stage: &Stage| (stage.dialling(1), stage.of(Phase::Backoff));
            assert_eq!((stage.machine.state(), reconnects(&stage)), (State::Running, (0, 1)));
            stage.pass(ms(delay));
            assert_eq!(reconnects(&stage), (1, 0), "replaced after the delay of {delay} ms");
        }
    }
}

#[test]
fn a_connection_found_closed_lived_until_it_came_to_rest() {
    let recovery = Recovery::from(policy(3).delay(ms(100)).max_delay(ms(5_000)));
    let mut stage = Stage::new(Options { recovery, ..options(1, 1) });
    stage.backends(&[1]);
    let mut pauses = Vec::new();
    let watched = |stage: &Stage| stage.watches.iter().any(|&slot| stage.machine.is_current(slot));
    while stage.machine.state() != State::Failed {
        // Nobody uses it, and by the time it is watched it has ended.
        stage.accept(1);
        stage.pass_until(watched);
        stage.end_watched(1, Ending::Found);
        let before = stage.now;
        stage.pass_until(|stage| !stage.dials.is_empty());
        pauses.push(stage.now - before);
        assert!(pauses.len() < 9, "it is never given up: {pauses:?}");
    }
    assert_eq!(pauses, [ms(100), ms(200), ms(400)], "dead, as every other backend is");
    stage.accept(1);
    let slot = stage.take();
    stage.pass(ms(1_000));
    stage.release(slot, Outcome::Open);
    stage.pass_until(watched);
    stage.end_watched(1, Ending::Found);
    assert_eq!(stage.dialling(1), 1, "one that was used for longer is replaced at once");
}

#[test]
fn the_first_connect_follows_the_initial_policy_and_every_later_one_the_other() {
    let recovery = Recovery::default().initial(policy(9).timeout(ms(100))).connect(policy(9).timeout(ms(300)));
    let mut stage = Stage::new(Options { recovery, ..options(3, 3) });
    stage.backends(&[1]);
    let first = stage.dials[0].0;
    stage.pass(ms(101));
    assert_ne!(stage.dials[0].0, first, "timed out after 100 ms and dialled again 1 ms later");
    stage.accept(1);
    let (waited, dials) = (stage.now, stage.dials.clone());
    assert_eq!(dials.len(), 2, "they were held until now");
    stage.pass(ms(299));
    assert_eq!(stage.dials, dials);
    stage.pass(ms(2));
    assert_ne!(stage.dials, dials, "timed out after 300 ms and dialled again 1 ms later");
    assert_eq!(stage.now - waited, ms(301));
}

#[test]
fn a_lifetime_is_cut_by_up_to_a_fifth_drawn_when_the_connection_is_born() {
    let limit = Duration::from_secs(100);
    let ends_after = |seed: u64, used: bool| {
        let mut stage = Stage::seeded(Options { max_lifetime: Some(limit), max_idle: None, ..options(1, 1) }, seed);
        stage.backends(&[1]);
        stage.accept_all();
        while stage.closed == 0 {
            assert!(stage.elapsed() < 2 * limit, "it never ends");
            stage.pass(ms(50));
            if used && stage.of(Phase::Idle) == 1 {
                let slot = stage.take();
                stage.pass(ms(50));
                stage.release(slot, Outcome::Open);
            }
        }
        stage.elapsed()
    };
    let ends: Vec<Duration> = (0..50).map(|seed| ends_after(seed, false)).collect();
    assert!(ends.iter().all(|end| *end >= limit.mul_f64(0.8) && *end <= limit + ms(50)), "{ends:?}");
    let (earliest, latest) = (ends.iter().min().unwrap(), ends.iter().max().unwrap());
    assert!(*latest - *earliest > limit.mul_f64(0.15), "they end apart: {earliest:?} to {latest:?}");
    for seed in 0..5 {
        let (idle, used) = (ends_after(seed, false), ends_after(seed, true));
        assert!(used >= idle.saturating_sub(ms(50)) && used <= idle + ms(150), "{used:?} instead of {idle:?}");
    }
}

#[test]
fn a_connection_is_retired_after_so_many_uses() {
    let mut stage = Stage::connected(Options { max_uses: Some(3), ..options(1, 1) }, &[1]);
    for _ in 0..3 {
        assert_eq!(stage.closed, 0);
        let slot = stage.take();
        stage.release(slot, Outcome::Open);
    }
    assert_eq!((stage.closed, stage.dialling(1)), (1, 1));
}

#[test]
fn a_surplus_connection_is_released_soon_after_max_idle() {
    let limit = Duration::from_secs(60);
    let mut stage = Stage::connected(Options { max_idle: Some(limit), ..options(0, 8) }, &[1]);
    let lent: Vec<_> = (0..4).map(|_| stage.take_connecting()).collect();
    stage.pass(Duration::from_secs(30));
    lent.into_iter().for_each(|slot| stage.release(slot, Outcome::Open));
    stage.pass(limit - ms(1_000));
    assert_eq!(stage.of(Phase::Idle), 4);
    stage.pass(ms(1_000) + 2 * idle::interval(limit));
    assert_eq!((stage.counts().total(), stage.closed), (0, 4));
}

#[test]
fn spares_are_never_released_for_idling() {
    let mut stage = Stage::connected(Options { max_idle: Some(ms(1_000)), ..options(2, 8) }, &[1]);
    stage.pass(Duration::from_secs(600));
    assert_eq!((stage.of(Phase::Idle), stage.closed), (2, 0));
}

#[test]
fn a_dip_does_not_shrink_the_pool() {
    let mut stage = Stage::connected(Options { max_idle: Some(ms(1)), ..options(0, 8) }, &[1]);
    let lent: Vec<_> = (0..6).map(|_| stage.take_connecting()).collect();
    stage.pass(Duration::from_secs(30));
    assert_eq!(stage.machine.wanted(), 6);
    lent.into_iter().for_each(|slot| stage.release(slot, Outcome::Open));
    stage.pass(ms(250));
    assert_eq!((stage.machine.target(), stage.machine.wanted()), (0, 5), "a fifth of a second hardly shows");
    assert!(stage.counts().total() >= 5);
    stage.pass(Duration::from_secs(30));
    assert_eq!((stage.machine.wanted(), stage.counts().total()), (0, 0));
}

#[test]
fn nothing_is_timed_when_nothing_changes() {
    let mut stage = Stage::connected(options(2, 8), &[1]);
    let slot = stage.take();
    stage.accept_all();
    stage.release(slot, Outcome::Open);
    stage.pass(Duration::from_secs(200));
    assert_eq!(stage.machine.next_timeout(), None);
    let slot = stage.take();
    assert!(stage.machine.next_timeout().is_some(), "a change is sampled again");
    stage.release(slot, Outcome::Open);
    stage.pass(Duration::from_secs(200));
    assert_eq!(stage.machine.next_timeout(), None);
}

#[test]
fn a_failed_pool_without_spares_comes_back() {
    let mut stage = Stage::new(Options { outage_wait: Duration::ZERO, ..options(0, 4) });
    stage.backends(&[1, 2]);
    let waiter = stage.wait(ms(10_000));
    while stage.machine.state() != State::Failed {
        let number = stage.dials[0].1;
        stage.refuse(number);
    }
    assert!(matches!(stage.refused(waiter), Some(Refusal::Failed { dead: 2, known: 2 })));
    stage.pass(ms(1_000));
    assert_eq!((stage.dialling(1), stage.dialling(2)), (1, 1), "both are watched");
    stage.accept(2);
    assert_eq!(stage.machine.state(), State::Running);
    stage.take();
}

#[test]
fn a_pool_that_starts_fails_when_the_resolver_does_and_a_running_one_does_not_mind() {
    let mut stage = Stage::new(options(1, 1));
    let waiter = stage.wait(ms(1_000));
    stage.machine.handle_resolver_failed();
    stage.go();
    assert_eq!(stage.machine.state(), State::Failed);
    assert_eq!(stage.refused(waiter), Some(Refusal::Failed { dead: 0, known: 0 }));
    assert_eq!(stage.claim(ms(100)), Claimed::Refused(Refusal::Failed { dead: 0, known: 0 }));
    stage.backends(&[1]);
    stage.accept(1);
    assert_eq!(stage.machine.state(), State::Running);
    stage.machine.handle_resolver_failed();
    stage.backends(&[]);
    stage.machine.handle_resolver_failed();
    assert_eq!(stage.machine.state(), State::Running);
}

#[test]
fn resizing_takes_effect_at_once_except_on_what_is_lent() {
    let mut stage = Stage::connected(options(2, 2), &[1]);
    stage.machine.resize(stage.now, 4, 6).unwrap();
    stage.go();
    assert_eq!(stage.dialling(1), 2);
    stage.accept_all();
    let lent: Vec<_> = (0..4).map(|_| stage.take()).collect();
    assert_eq!((stage.of(Phase::Busy), stage.counts().pending()), (4, 2));
    stage.machine.resize(stage.now, 0, 2).unwrap();
    stage.go();
    assert_eq!((stage.of(Phase::Busy), stage.counts().total()), (4, 4), "what is lent stays");
    lent.into_iter().for_each(|slot| stage.release(slot, Outcome::Open));
    assert_eq!((stage.counts().total(), stage.closed), (2, 2), "what is too much is closed as it comes back");
    assert!(stage.machine.resize(stage.now, 3, 2).is_err());
    assert!(stage.machine.resize(stage.now, 0, 0).is_err());
    assert_eq!((stage.machine.options().spares, stage.machine.options().maximum), (0, 2));
}

#[test]
fn a_checked_connection_goes_behind_the_others() {
    let options = Options { check_after: Some(ms(1_000)), pick: Pick::Lifo, ..options(2, 2) };
    let mut stage = Stage::connected(options, &[1]);
    let warm = stage.take();
    stage.pass(ms(1_600));
    let [checked] = stage.checks[..] else { panic!("the idle one is checked: {:?}", stage.checks) };
    stage.release(warm, Outcome::Open);
    stage.machine.handle_checked(stage.now, checked, true);
    stage.go();
    assert_eq!(stage.take().index(), warm.index(), "the one that was used, not the one that was checked");
    assert_eq!(stage.take().index(), checked.index());
}

#[test]
fn a_check_that_fails_or_is_cut_short_ends_the_connection() {
    let options =
        Options { check_after: Some(ms(1_000)), check_timeout: ms(200), recovery: recovery(2), ..options(1, 1) };
    let mut stage = Stage::connected(options.clone(), &[1]);
    stage.pass_until(|stage| !stage.checks.is_empty());
    let check = stage.checks.remove(0);
    stage.machine.handle_checked(stage.now, check, false);
    stage.go();
    stage.pass(ms(1));
    assert_eq!((stage.of(Phase::Checking), stage.dialling(1)), (0, 1));

    let mut stage = Stage::connected(options, &[1]);
    stage.pass_until(|stage| !stage.checks.is_empty());
    let check = stage.checks[0];
    stage.pass(ms(201));
    assert_eq!((stage.checks.len(), stage.dialling(1)), (0, 1), "cut short after 200 ms");
    stage.machine.handle_checked(stage.now, check, true);
    assert_eq!(stage.of(Phase::Idle), 0, "a result that comes too late is of no use");
}

#[test]
fn a_claim_whose_connection_turned_out_closed_keeps_its_place_and_deadline() {
    let mut stage = Stage::connected(options(1, 1), &[1]);
    stage.pass(ms(1_000));
    let Claimed::Granted { slot, place } = stage.claim(ms(500)) else { panic!("it is idle") };
    let later = stage.wait(ms(5_000));
    stage.pass(ms(100));
    stage.release(slot, Outcome::Ended);
    let again = stage.machine.claim_again(stage.now, place, Request::within(ms(500)));
    let Claimed::Waiting(first) = again else { panic!("{again:?}") };
    stage.go();
    stage.pass(ms(399));
    assert_eq!(stage.refused(first), None);
    stage.accept(1);
    assert!(stage.granted(first).is_some() && stage.granted(later).is_none(), "it is still the first in line");

    let Claimed::Waiting(other) = stage.machine.claim_again(stage.now, place, Request::within(ms(500))) else {
        panic!()
    };
    stage.go();
    stage.pass(ms(1));
    assert_eq!(stage.refused(other), Some(Refusal::TimedOut { ahead: 0 }), "500 ms after it first asked");
}

#[test]
fn a_new_address_under_an_old_name_takes_over_at_once() {
    let mut stage = Stage::connected(options(2, 2), &[1]);
    let lent = stage.take();
    stage.backends(&[2]);
    assert_eq!((stage.closed, stage.slots_of(2)), (1, 2), "the lent one drains beside the maximum");
    stage.accept_all();
    stage.release(lent, Outcome::Open);
    assert_eq!((stage.closed, stage.machine.snapshot().draining.total()), (2, 0));
    assert_eq!(stage.machine.snapshot().backends.len(), 1);
    assert_eq!(*stage.machine.snapshot().backends[0].backend, backend(2));
}

/// Lent and given back so often, a tenth of a millisecond each: how often it was this backend's.
fn uses_of(stage: &mut Stage, number: u16, uses: usize) -> usize {
    let mut of_it = 0;
    for _ in 0..uses {
        let slot = stage.take();
        of_it += usize::from(stage.machine.lent().any(|lent| lent.slot == slot && lent.backend.port() == number));
        stage.pass(Duration::from_micros(100));
        stage.release(slot, Outcome::Open);
    }
    of_it
}

#[test]
fn a_backend_that_is_back_has_its_share_at_once_however_its_last_uses_failed() {
    let mut stage = Stage::connected(options(6, 6), &[1, 2, 3]);
    uses_of(&mut stage, 1, 600);
    // It goes away with everything that is lent of it, and is dead.
    let mut kept = Vec::new();
    while stage.counts().of(Phase::Idle) > 0 {
        let slot = stage.take();
        let is_gone = stage.machine.lent().any(|lent| lent.slot == slot && lent.backend.port() == 1);
        if is_gone {
            stage.release(slot, Outcome::Failed)
        } else {
            kept.push(slot)
        }
        while stage.dialling(1) > 0 {
            stage.refuse(1);
        }
    }
    kept.into_iter().for_each(|slot| stage.release(slot, Outcome::Open));
    stage.accept_all_of(2);
    stage.accept_all_of(3);
    assert_eq!(uses_of(&mut stage, 1, 600), 0);
    while stage.dialling(1) == 0 {
        stage.pass(ms(100));
    }
    stage.accept_all();
    stage.pass(ms(1_000));
    stage.accept_all();
    let share = uses_of(&mut stage, 1, 600);
    assert!(share > 60, "{share} of 600");
}

#[test]
fn failed_use_of_a_connection_that_has_served_is_no_failed_attempt() {
    // One attempt: a failed one would be death.
    let recovery = Recovery::from(policy(1).delay(ms(5_000)).max_delay(ms(60_000)));
    let mut stage = Stage::connected(Options { recovery, ..options(1, 1) }, &[1]);
    for outcome in [Outcome::Failed, Outcome::Broken].into_iter().cycle().take(20) {
        uses_of(&mut stage, 1, 1);
        let slot = stage.take();
        stage.release(slot, outcome);
        // Connects are at least 1 ms apart.
        stage.pass(ms(1));
        assert_eq!((stage.dialling(1), stage.machine.state()), (1, State::Running));
        stage.accept(1);
    }
}

#[test]
fn first_use_that_fails_is_a_failed_attempt_while_its_connection_is_young() {
    for outcome in [Outcome::Failed, Outcome::Broken] {
        let recovery = Recovery::from(policy(3).delay(ms(100)).max_delay(ms(60_000)));
        let mut stage = Stage::connected(Options { recovery, ..options(1, 1) }, &[1]);
        let mut fail_after = |age: u64| {
            stage.pass(ms(age));
            let slot = stage.take();
            stage.release(slot, outcome);
            let before = stage.now;
            stage.pass_until(|stage| stage.dialling(1) > 0);
            stage.accept(1);
            (stage.now - before).as_millis()
        };
        assert_eq!([0, 10, 50].map(&mut fail_after), [100, 200, 400], "{outcome:?}: the third is the last attempt");
        assert_eq!(fail_after(0), 800, "{outcome:?}: a probe");
        assert_eq!(fail_after(1_000), 0, "{outcome:?}: at once");
        assert_eq!(fail_after(0), 100, "{outcome:?}: what failed before is forgiven");
    }
}
