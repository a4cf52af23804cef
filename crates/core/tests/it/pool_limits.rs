//! What limits a pool: churn, ejection, controlled delay, overdue claims; as plain steps on the machine.

use crate::stage::{Stage, backend, ms, options, recovery};
use carom_core::backend::BackendState;
use carom_core::ejection::Ejection;
use carom_core::pick::Pick;
use carom_core::pool::{Claimed, Delivery, Options, Outcome, Refusal, Request};
use carom_core::slot::{Phase, SlotRef};
use std::time::{Duration, Instant};

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
    let mut stage = Stage::connected(Options { pick: Pick::Fifo, ..ejecting(2, 1_000, 4) }, &[1, 2]);
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
        assert_eq!(state_of(&stage, 1), BackendState::Healthy);
        pass(&mut stage, 500);
        assert_eq!(stage.slots_of(1), 2, "it has its share again");
    }
}

#[test]
fn reported_failures_eject_a_backend_too_and_cost_no_connection_before() {
    let mut stage = Stage::connected(Options { pick: Pick::Fifo, ..ejecting(3, 1_000, 4) }, &[1, 2]);
    let connected = stage.machine.snapshot().counts.total();
    for reports in 1..=3 {
        loop {
            let slot = stage.take();
            if lent_from(&stage, slot) == 1 {
                stage.machine.report_failure(stage.now, slot);
                stage.machine.release(stage.now, slot, Outcome::Open);
                break;
            }
            stage.machine.release(stage.now, slot, Outcome::Open);
        }
        stage.go();
        let expected = if reports == 3 { BackendState::Ejected } else { BackendState::Healthy };
        assert_eq!(state_of(&stage, 1), expected, "after {reports}");
        if reports < 3 {
            assert_eq!((stage.slots_of(1), stage.machine.snapshot().counts.total()), (2, connected));
        }
    }
    stage.accept_all();
    pass(&mut stage, 100);
    assert_eq!((stage.slots_of(1), stage.slots_of(2)), (0, 4), "the other takes over");
    pass(&mut stage, 2_000);
    assert_eq!((state_of(&stage, 1), stage.slots_of(1)), (BackendState::Healthy, 2), "it has its share again");
}

#[test]
fn without_ejection_a_reported_failure_changes_nothing_about_who_serves() {
    let mut stage = Stage::connected(options(4, 4), &[1, 2]);
    for _ in 0..50 {
        let slot = stage.take();
        stage.machine.report_failure(stage.now, slot);
        stage.machine.release(stage.now, slot, Outcome::Open);
        pass(&mut stage, 10);
    }
    assert_eq!((stage.slots_of(1), stage.slots_of(2)), (2, 2));
    assert_eq!([1, 2].map(|port| state_of(&stage, port)), [BackendState::Healthy, BackendState::Healthy]);
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

/// The port of the backend that a slot is lent from.
fn lent_from(stage: &Stage, slot: SlotRef) -> u16 {
    stage.machine.lent().find(|lent| lent.slot == slot).unwrap().backend.port()
}

/// Takes so many, and returns those of one backend.
fn take_of(stage: &mut Stage, many: usize, number: u16) -> Vec<SlotRef> {
    let all: Vec<SlotRef> = (0..many).map(|_| stage.take_connecting()).collect();
    let (of_it, others) = all.into_iter().partition(|&slot| lent_from(stage, slot) == number);
    for slot in others {
        stage.release(slot, Outcome::Open);
    }
    of_it
}

/// Ejects after so many failures, and never gives up a backend for them.
fn ejecting(consecutive: u32, time: u64, size: usize) -> Options {
    let ejection = Ejection::default().consecutive(consecutive).time(ms(time));
    Options { ejection: Some(ejection), recovery: recovery(1_000), ..options(size, size) }
}

fn ejected(stage: &Stage) -> usize {
    stage.machine.snapshot().backends.iter().filter(|found| found.is_out).count()
}

#[test]
fn ejected_backends_are_left_out_up_to_max_ejected_and_all_are_used_in_a_panic_above_it() {
    for (share, of_five, of_ten) in [(0.1, 0, 1), (0.3, 1, 3), (0.5, 2, 5), (0.75, 3, 7), (1.0, 4, 9)] {
        for (known, most) in [(5u16, of_five), (10, of_ten)] {
            let ejection = Ejection::default().consecutive(1).max_ejected(share);
            let backends: Vec<u16> = (1..=known).collect();
            let size = usize::from(known) * 2;
            let options = Options { ejection: Some(ejection), ..ejecting(1, 30_000, size) };
            let mut stage = Stage::connected(options, &backends);
            let judged = |stage: &Stage| {
                let backends = stage.machine.snapshot().backends;
                backends.iter().filter(|seen| seen.ejected_until.is_some()).count()
            };
            while judged(&stage) < usize::from(known) {
                let before = judged(&stage);
                // It serves each in turn: those in a panic are used as well.
                let slot = stage.take_connecting();
                stage.machine.report_failure(stage.now, slot);
                stage.machine.release(stage.now, slot, Outcome::Discarded);
                stage.pass(ms(1));
                stage.accept_all();
                let (now, snapshot) = (judged(&stage), stage.machine.snapshot());
                assert_eq!(snapshot.is_panic, now > most, "{share} of {known}, {now} ejected");
                assert_eq!(ejected(&stage), if now > most { 0 } else { now }, "{share} of {known}: left out");
                assert!(now >= before);
            }
        }
    }
}

#[test]
fn a_backend_both_dead_and_ejected_is_missing_once() {
    let ejection = Ejection::default().consecutive(1).time(ms(10_000));
    let mut stage = Stage::connected(Options { ejection: Some(ejection), ..options(4, 4) }, &[1, 2]);
    let lent = take_of(&mut stage, 4, 1);
    let [first, second] = lent[..] else { panic!("half of them") };
    stage.release(first, Outcome::Failed);
    assert_eq!(state_of(&stage, 1), BackendState::Ejected);
    stage.release(second, Outcome::Failed);
    assert_eq!((state_of(&stage, 1), ejected(&stage)), (BackendState::Dead, 1), "its last connection failed");
    pass(&mut stage, 500);
    assert_eq!((ejected(&stage), stage.slots_of(1)), (1, 0), "one of two is healthy, which is enough");
    // The other one dies: now there is none.
    stage.end_idle(4);
    while stage.dialling(2) > 0 {
        stage.refuse(2);
    }
    assert_eq!(ejected(&stage), 0, "all are used");
    assert_eq!((stage.dialling(1), stage.machine.dead_of_known()), (1, (2, 2)), "and watched");
    stage.accept(1);
    assert_eq!(state_of(&stage, 1), BackendState::Healthy);
}

#[test]
fn what_is_lent_of_an_ejected_backend_is_not_lent_again() {
    let mut stage = Stage::connected(ejecting(1, 10_000, 4), &[1, 2]);
    let lent = take_of(&mut stage, 4, 1);
    stage.machine.release(stage.now, lent[0], Outcome::Failed);
    assert_eq!(stage.counts_of(1).of(Phase::Busy), 1);
    // The driver has not had its turn yet.
    stage.machine.release(stage.now, lent[1], Outcome::Open);
    assert_eq!(stage.counts_of(1).of(Phase::Idle), 0);
    stage.go();
    assert_eq!(stage.slots_of(1), 0);
}

#[test]
fn what_is_still_lent_when_its_backend_is_back_stays() {
    let mut stage = Stage::connected(ejecting(1, 1_000, 4), &[1, 2]);
    let lent = take_of(&mut stage, 4, 1);
    stage.release(lent[0], Outcome::Failed);
    pass(&mut stage, 500);
    assert_eq!(ejected(&stage), 1);
    pass(&mut stage, 1_000);
    assert_eq!(ejected(&stage), 0);
    let closed = stage.closed;
    stage.release(lent[1], Outcome::Open);
    pass(&mut stage, 500);
    assert_eq!(stage.closed, closed, "nothing is wrong with it");
}

#[test]
fn ejections_are_forgiven_after_as_long_in_service() {
    let mut stage = Stage::connected(ejecting(1, 1_000, 4), &[1, 2]);
    let mut eject = |served: u64| {
        pass(&mut stage, served);
        let lent = take_of(&mut stage, 4, 1);
        for &slot in &lent[1..] {
            stage.release(slot, Outcome::Open);
        }
        stage.release(lent[0], Outcome::Failed);
        let until = stage.machine.snapshot().backends.iter().find_map(|found| found.ejected_until).unwrap();
        let lasts = (until - stage.now).as_millis() as u64;
        pass(&mut stage, lasts + 20);
        assert_eq!(ejected(&stage), 0);
        lasts
    };
    assert_eq!([500, 500, 500].map(&mut eject), [1_000, 2_000, 3_000]);
    assert_eq!([2_100, 60_000].map(eject), [2_000, 1_000], "two are forgiven, then all");
}

/// Also if it is handed straight to the next user.
#[test]
fn successful_use_starts_the_count_of_failures_again() {
    for passed_on in [false, true] {
        let mut stage = Stage::connected(Options { pick: Pick::Fifo, ..ejecting(2, 1_000, 2) }, &[1, 2]);
        let take_from = |stage: &mut Stage, number: u16| {
            let request = Request { avoid: stage.machine.find(&backend(3 - number)), ..Request::within(ms(1_000)) };
            let Claimed::Granted { slot, .. } = stage.machine.claim(stage.now, request) else { panic!() };
            assert_eq!(lent_from(stage, slot), number);
            slot
        };
        let fail = |stage: &mut Stage| {
            let slot = take_from(stage, 1);
            stage.release(slot, Outcome::Failed);
            stage.pass(ms(1));
            stage.accept_all();
        };
        fail(&mut stage);
        take_from(&mut stage, 2);
        let lent = stage.take();
        if passed_on {
            let waiter = stage.wait(ms(1_000));
            stage.release(lent, Outcome::Open);
            let slot = stage.granted(waiter).expect("it is handed over");
            stage.release(slot, Outcome::Failed);
        } else {
            stage.release(lent, Outcome::Open);
            fail(&mut stage);
        }
        assert_eq!(ejected(&stage), 0, "one in a row");
        stage.pass(ms(1));
        stage.accept_all();
        fail(&mut stage);
        assert_eq!(ejected(&stage), 1, "two in a row");
    }
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
fn in_a_burst_only_a_claim_that_waited_ten_times_the_target_is_shed() {
    for (waits, is_shed) in [(49, false), (51, true)] {
        let mut stage = Stage::connected(Options { target_delay: Some(ms(5)), ..options(1, 1) }, &[1]);
        let held = stage.take();
        let waiter = stage.wait(ms(60_000));
        stage.pass(ms(waits));
        stage.release(held, Outcome::Open);
        assert_eq!(stage.refused(waiter), is_shed.then_some(Refusal::Shed), "after {waits} ms in line");
        assert_eq!(stage.granted(waiter).is_some(), !is_shed);
    }
}

/// Failing at once must not look like being quick. With two connections each, one failed use in a row leaves a backend with
/// something idle, so that only its load keeps users away.
#[test]
fn a_failed_use_counts_as_a_slow_one() {
    let options = Options { recovery: recovery(1_000), ..options(8, 8) };
    let mut stage = Stage::connected(options, &[1, 2]);
    let mut failed = 0;
    for _ in 0..200 {
        let slot = stage.take();
        if lent_from(&stage, slot) == 1 {
            failed += 1;
            stage.release(slot, Outcome::Failed);
            stage.accept_all();
        } else {
            stage.pass(ms(5));
            stage.release(slot, Outcome::Open);
        }
    }
    assert!((1..=20).contains(&failed), "{failed} of 200 went to the one that fails");
}

/// Traffic at a fixed rate on the paths that a handle takes, warm ones included. Uses of a backend take as long as `takes` says.
/// Returns the share of the claims that each of the backends 1 to 3 got.
fn traffic(stage: &mut Stage, time: Duration, every: Duration, takes: impl Fn(u16) -> Duration) -> [f64; 3] {
    let end = stage.now + time;
    let (mut counts, mut lent) = ([0_u32; 3], Vec::<(Instant, SlotRef)>::new());
    let mut arrival = stage.now + every;
    loop {
        let returns = lent.iter().enumerate().min_by_key(|(_, (at, _))| *at).map(|(place, (at, _))| (*at, place));
        let next = returns.map_or(arrival, |(at, _)| at.min(arrival));
        if next > end && lent.is_empty() {
            let total = f64::from(counts.iter().sum::<u32>());
            return counts.map(|count| f64::from(count) / total);
        }
        stage.pass(next - stage.now);
        if let Some((at, place)) = returns
            && at <= arrival
        {
            let (_, slot) = lent.swap_remove(place);
            let now = stage.machine.time_for_release(slot).unwrap_or(stage.now);
            stage.machine.release(now, slot, Outcome::Open);
            stage.go();
            continue;
        }
        arrival += every;
        if next > end {
            continue;
        }
        let slot = stage.take();
        let number = lent_from(stage, slot);
        counts[usize::from(number) - 1] += 1;
        lent.push((stage.now + takes(number), slot));
        stage.accept_all();
    }
}

#[test]
fn backend_gets_its_share_again_soon_after_two_uses_hit_a_timeout() {
    let ends = [Outcome::Failed, Outcome::Discarded, Outcome::Open];
    for (seed, end, reports) in
        (1..=6).flat_map(|seed| ends.map(|end| [(seed, end, false), (seed, end, true)])).flatten()
    {
        let mut stage = Stage::seeded(Options { recovery: recovery(1_000), ..options(12, 12) }, seed);
        stage.backends(&[1, 2, 3]);
        stage.accept_all();
        let quick = |_| ms(1);
        traffic(&mut stage, ms(3_000), ms(5), quick);
        // The node hangs for 2 s. Two uses of it are cut off by their timeout, then it is well again.
        let mut hung = take_of(&mut stage, 12, 1);
        hung.split_off(2).into_iter().for_each(|slot| stage.release(slot, Outcome::Open));
        traffic(&mut stage, ms(2_000), ms(5), quick);
        for slot in hung {
            if reports {
                stage.machine.report_failure(stage.now, slot);
            }
            stage.release(slot, end);
            stage.accept_all();
        }
        traffic(&mut stage, ms(5_000), ms(5), quick);
        let [soon, ..] = traffic(&mut stage, ms(5_000), ms(5), quick);
        traffic(&mut stage, ms(5_000), ms(5), quick);
        let [later, ..] = traffic(&mut stage, ms(5_000), ms(5), quick);
        let seen = format!("{soon:.3} after 5 s, {later:.3} after 15 s: {end:?}, reported {reports}, seed {seed}");
        assert!(soon >= 0.5 / 3.0 && later >= 0.9 / 3.0, "{seen}");
    }
}

#[test]
fn backend_that_is_ten_times_slower_gets_less_than_its_share() {
    for (seed, every) in [(1, 5), (2, 10), (3, 50)] {
        let mut stage = Stage::seeded(options(12, 12), seed);
        stage.backends(&[1, 2, 3]);
        stage.accept_all();
        let [slow, ..] = traffic(&mut stage, ms(30_000), ms(every), |number| ms(if number == 1 { 50 } else { 5 }));
        assert!(slow < 0.8 / 3.0, "{slow:.3} with a claim every {every} ms");
        assert!(slow > 0.0, "it is still tried with a claim every {every} ms");
        // It is as fast as the others again.
        traffic(&mut stage, ms(5_000), ms(every), |_| ms(5));
        let [again, ..] = traffic(&mut stage, ms(10_000), ms(every), |_| ms(5));
        assert!(again >= 0.9 / 3.0, "{again:.3} with a claim every {every} ms");
    }
}

#[test]
fn session_length_is_no_latency_when_latency_is_not_learned() {
    for end in [Outcome::Discarded, Outcome::Detached, Outcome::Open] {
        let mut stage = Stage::connected(Options { learn_latency: false, ..options(12, 48) }, &[1, 2, 3]);
        let quick = |_| ms(1);
        traffic(&mut stage, ms(3_000), ms(5), quick);
        // Sessions that idle for 30 s, as those of a connection pool at the other end.
        let mut idle = take_of(&mut stage, 48, 1);
        assert!(idle.len() > 12, "{}", idle.len());
        traffic(&mut stage, ms(30_000), ms(5), quick);
        idle.drain(..).for_each(|slot| stage.release(slot, end));
        stage.accept_all();
        let [share, ..] = traffic(&mut stage, ms(2_000), ms(5), quick);
        assert!(share >= 0.5 / 3.0, "{share:.3} after the sessions ended: {end:?}");
        assert!(stage.machine.snapshot().backends.iter().all(|backend| backend.typical_use.is_none()));
    }
}

#[test]
fn failed_use_is_a_penalty_when_latency_is_not_learned() {
    let mut stage = Stage::connected(Options { learn_latency: false, ..options(12, 12) }, &[1, 2, 3]);
    for slot in take_of(&mut stage, 12, 1) {
        stage.machine.report_failure(stage.now, slot);
        stage.release(slot, Outcome::Open);
    }
    let [share, ..] = traffic(&mut stage, ms(500), ms(5), |_| ms(1));
    assert!(share < 0.05, "{share:.3}");
}

#[test]
fn first_reported_latency_counts_and_the_length_of_the_use_does_not() {
    let mut stage = Stage::connected(options(1, 1), &[1]);
    let slot = stage.take();
    stage.pass(ms(10));
    stage.machine.report_success_in(stage.now, slot, Some(ms(10)));
    stage.pass(ms(30_000));
    stage.machine.report_success_in(stage.now, slot, Some(ms(30_010)));
    stage.release(slot, Outcome::Discarded);
    assert_eq!(stage.machine.snapshot().backends[0].typical_use, Some(ms(10)));
}

#[test]
fn use_that_is_cut_short_is_a_latency_penalty_and_no_failed_use() {
    let ejection = Some(Ejection::default().consecutive(1));
    let mut stage = Stage::connected(Options { ejection, ..options(12, 12) }, &[1, 2, 3]);
    let _ = traffic(&mut stage, ms(500), ms(5), |_| ms(1));
    let mut slots = take_of(&mut stage, 12, 1);
    let slot = slots.pop().expect("it has connections");
    stage.machine.report_cut_short(stage.now, slot, ms(2_000));
    stage.release(slot, Outcome::Dropped);
    slots.into_iter().for_each(|slot| stage.release(slot, Outcome::Open));
    stage.accept_all();
    assert!(stage.machine.snapshot().backends.iter().all(|backend| backend.ejected_until.is_none()));
    let [share, ..] = traffic(&mut stage, ms(500), ms(5), |_| ms(1));
    assert!(share < 0.1, "{share:.3}");
}

/// Ends the check or reset that the machine asked for last.
fn end_check(stage: &mut Stage, passed: bool) {
    let check = stage.checks.pop().expect("a check was asked for");
    stage.machine.handle_checked(stage.now, check, passed);
    stage.go();
}

#[test]
fn connection_is_checked_after_use_when_its_last_check_is_too_old() {
    let mut stage = Stage::connected(Options { validate_every: Some(ms(500)), ..options(1, 1) }, &[1]);
    for _ in 0..3 {
        for _ in 0..4 {
            let slot = stage.take();
            stage.pass(ms(100));
            stage.release(slot, Outcome::Open);
            assert_eq!((stage.checks.len(), stage.of(Phase::Idle)), (0, 1), "it was checked less than 500 ms ago");
        }
        let slot = stage.take();
        let waiter = stage.wait(ms(60_000));
        stage.pass(ms(100));
        stage.release(slot, Outcome::Open);
        assert_eq!((stage.checks.len(), stage.granted(waiter)), (1, None), "it is not handed out before the check");
        end_check(&mut stage, true);
        let slot = stage.granted(waiter).expect("it has passed");
        stage.pass(ms(50));
        stage.release(slot, Outcome::Open);
        stage.deliveries.clear();
    }
}

#[test]
fn failed_check_or_recycle_after_use_is_a_failed_use() {
    for (recycles, validate_every) in [(true, None), (false, Some(ms(500)))] {
        let limits = Options { validate_every, ..ejecting(3, 60_000, 8) };
        for times_out in [false, true] {
            let mut stage = Stage::recycling(limits.clone(), recycles, &[1, 2]);
            for failures in 1..=3 {
                assert_eq!(ejected(&stage), 0, "after {} failures", failures - 1);
                let mut slots = take_of(&mut stage, 8, 1);
                let slot = slots.remove(0);
                slots.into_iter().for_each(|slot| stage.release(slot, Outcome::Discarded));
                while !stage.checks.is_empty() {
                    end_check(&mut stage, true);
                }
                stage.accept_all();
                stage.pass(ms(500));
                stage.release(slot, Outcome::Open);
                assert_eq!(stage.counts_of(1).of(Phase::Checking), 1);
                if times_out {
                    stage.pass(ms(3_000));
                } else {
                    end_check(&mut stage, false);
                }
                stage.accept_all();
            }
            assert_eq!((ejected(&stage), state_of(&stage, 1)), (1, BackendState::Ejected));
        }
    }
}

#[test]
fn surplus_connections_are_released_no_faster_than_churn_allows() {
    let options = Options { churn_per_second: Some(2.0), max_idle: Some(ms(1_000)), ..options(0, 4) };
    let mut stage = Stage::connected(options, &[1]);
    let waiters: Vec<_> = (0..4).map(|_| stage.wait(ms(60_000))).collect();
    pass(&mut stage, 3_000);
    for waiter in waiters {
        let slot = stage.granted(waiter).expect("grown to four");
        stage.release(slot, Outcome::Open);
    }
    let (mut closed, mut closed_at) = (stage.closed, stage.now);
    while stage.counts().total() > 0 {
        pass(&mut stage, 10);
        if stage.closed > closed {
            assert_eq!(stage.closed, closed + 1, "one at a time");
            assert!(stage.now - closed_at >= ms(500), "after {:?}", stage.now - closed_at);
            (closed, closed_at) = (stage.closed, stage.now);
        }
        assert!(stage.elapsed() < ms(100_000), "they are never released");
    }
}

#[test]
fn a_smaller_maximum_does_not_wait_for_churn() {
    let mut stage = Stage::new(Options { churn_per_second: Some(2.0), ..options(8, 8) });
    stage.backends(&[1, 2]);
    pass(&mut stage, 5_000);
    assert_eq!(stage.of(Phase::Idle), 8);
    stage.machine.resize(stage.now, 1, 3).unwrap();
    stage.go();
    assert_eq!(stage.counts().total(), 3, "what is above the maximum is closed at once");
}

#[test]
fn a_claim_is_overdue_once_and_only_while_it_is_held() {
    let mut stage = Stage::connected(Options { leak_after: Some(ms(100)), ..options(1, 1) }, &[1]);
    assert_eq!(stage.machine.time_for_claim(), None, "the time is needed");
    let slot = stage.take();
    stage.pass(ms(90));
    stage.machine.release(stage.now, slot, Outcome::Open);
    stage.pass(ms(500));
    assert!(stage.overdue.is_empty());
    let slot = stage.take();
    stage.pass(ms(10_000));
    assert_eq!(stage.overdue, [slot]);
}

#[test]
fn what_a_user_says_counts_at_once_whatever_becomes_of_the_connection() {
    for outcome in [Outcome::Open, Outcome::Discarded, Outcome::Dropped, Outcome::Failed, Outcome::Detached] {
        let mut stage = Stage::connected(Options { pick: Pick::Fifo, ..ejecting(3, 1_000, 4) }, &[1, 2]);
        let mut said = 0;
        while state_of(&stage, 1) != BackendState::Ejected {
            let slot = stage.take();
            if lent_from(&stage, slot) == 2 {
                stage.machine.release(stage.now, slot, Outcome::Open);
                continue;
            }
            said += 1;
            stage.machine.report_failure(stage.now, slot);
            stage.machine.report_failure(stage.now, slot);
            let expected = if said == 3 { BackendState::Ejected } else { BackendState::Healthy };
            assert_eq!(state_of(&stage, 1), expected, "after {said}, before it comes back {outcome:?}");
            stage.machine.release(stage.now, slot, outcome);
            stage.go();
            stage.accept_all();
            pass(&mut stage, 10);
            assert_eq!(state_of(&stage, 1), expected, "after {said}, {outcome:?}: one use is counted once");
        }
        pass(&mut stage, 2_000);
        assert_eq!(state_of(&stage, 1), BackendState::Healthy);
    }
}

#[test]
fn reported_success_starts_the_count_again_though_the_connection_is_not_kept() {
    for succeeds in [true, false] {
        let mut stage = Stage::connected(Options { pick: Pick::Fifo, ..ejecting(2, 1_000, 4) }, &[1, 2]);
        for round in 0..20 {
            let slot = stage.take();
            if lent_from(&stage, slot) == 2 {
                stage.machine.release(stage.now, slot, Outcome::Open);
                continue;
            }
            match round % 4 {
                0 => stage.machine.report_failure(stage.now, slot),
                _ if succeeds => stage.machine.report_success(stage.now, slot),
                _ => {}
            }
            stage.machine.release(stage.now, slot, Outcome::Discarded);
            stage.go();
            stage.accept_all();
            pass(&mut stage, 10);
        }
        let ever_ejected = state_of(&stage, 1) == BackendState::Ejected;
        assert_eq!(ever_ejected, !succeeds);
    }
}

/// How many connects to a backend are begun within 100 ms, with a delay of 0, when each ends as `end` says.
fn dials_with_a_delay_of_0(end: impl Fn(&mut Stage)) -> usize {
    let mut stage = Stage::new(Options { recovery: recovery(1_000), ..options(1, 1) });
    stage.backends(&[1]);
    let mut dials = 0;
    while stage.elapsed() < ms(100) {
        while stage.dialling(1) > 0 {
            dials += 1;
            assert!(dials <= 200, "a busy loop after {:?}", stage.elapsed());
            end(&mut stage);
        }
        stage.pass(ms(1));
    }
    dials
}

#[test]
fn attempts_are_at_least_1_ms_apart_with_a_delay_of_0() {
    let dials = dials_with_a_delay_of_0(|stage| stage.refuse(1));
    assert!((5..=100).contains(&dials), "{dials} in 100 ms");
}

#[test]
fn connections_that_end_at_once_are_replaced_at_least_1_ms_apart_with_a_delay_of_0() {
    let dials = dials_with_a_delay_of_0(|stage| {
        stage.accept(1);
        let slot = stage.take();
        stage.release(slot, Outcome::Ended);
    });
    assert!((5..=100).contains(&dials), "{dials} in 100 ms");
}

#[test]
fn connections_that_are_closed_during_their_use_are_replaced_at_least_1_ms_apart() {
    let dials = dials_with_a_delay_of_0(|stage| {
        stage.accept(1);
        let slot = stage.take();
        stage.release(slot, Outcome::Dropped);
    });
    assert!((50..=101).contains(&dials), "{dials} in 100 ms");
}

#[test]
fn connections_that_fail_their_recycle_are_replaced_at_least_1_ms_apart() {
    let mut stage = Stage::new(options(1, 1));
    stage.recycles = true;
    stage.backends(&[1]);
    let mut dials = 0;
    while stage.elapsed() < ms(100) {
        while stage.dialling(1) > 0 {
            dials += 1;
            assert!(dials <= 200, "a busy loop after {:?}", stage.elapsed());
            stage.accept(1);
            let slot = stage.take();
            stage.release(slot, Outcome::Open);
            let recycle = stage.checks.pop().expect("it is recycled");
            stage.machine.handle_checked(stage.now, recycle, false);
            stage.go();
        }
        stage.pass(ms(1));
    }
    assert!((50..=101).contains(&dials), "{dials} in 100 ms");
}

#[test]
fn used_connection_that_is_closed_is_redialled_1_ms_after_its_connect_began_and_at_once_if_that_is_over() {
    let micros = Duration::from_micros;
    let mut stage = Stage::new(options(1, 2));
    stage.backends(&[1]);
    stage.pass(micros(300));
    stage.accept(1);
    stage.pass(ms(5_000));
    let slot = stage.take();
    stage.pass(micros(300));
    stage.accept(1);
    let young = stage.take();
    stage.release(young, Outcome::Dropped);
    assert_eq!((stage.dialling(1), stage.of(Phase::Backoff)), (0, 1));
    stage.pass(micros(699));
    assert_eq!((stage.dialling(1), stage.of(Phase::Backoff)), (0, 1));
    stage.pass(micros(1));
    assert_eq!((stage.dialling(1), stage.of(Phase::Backoff)), (1, 0), "1 ms after the connect began");
    stage.accept(1);
    stage.take();
    stage.release(slot, Outcome::Dropped);
    assert_eq!((stage.dialling(1), stage.of(Phase::Backoff)), (1, 0), "its connect began 5 s ago");
}

#[test]
fn slot_that_waits_for_its_redial_does_not_hold_up_the_others_of_its_backend() {
    let mut stage = Stage::new(options(0, 4));
    stage.backends(&[1]);
    let slot = stage.take_connecting();
    stage.release(slot, Outcome::Dropped);
    stage.wait(ms(5_000));
    stage.wait(ms(5_000));
    assert_eq!((stage.dialling(1), stage.of(Phase::Backoff)), (1, 1));
    stage.pass(ms(1));
    assert_eq!((stage.dialling(1), stage.of(Phase::Backoff)), (2, 0));
}

#[test]
fn claim_waits_at_most_250_ms_beside_an_idle_connection_of_an_unreliable_backend() {
    let mut stage = Stage::connected(options(3, 3), &[1, 2, 3]);
    for _ in 0..2 {
        let slots = [0; 3].map(|_| stage.take());
        stage.pass(ms(10));
        let of_it = slots.into_iter().find(|&slot| lent_from(&stage, slot) == 1).expect("each has a connection");
        stage.machine.report_failure(stage.now, of_it);
        slots.into_iter().for_each(|slot| stage.release(slot, Outcome::Open));
    }
    // These do not come back.
    let _others = [stage.take(), stage.take()];
    let Claimed::Waiting(waiter) = stage.claim(ms(60_000)) else { panic!("it waits for one of the others") };
    stage.pass(ms(249));
    assert!(stage.granted(waiter).is_none());
    stage.pass(ms(1));
    assert!(stage.granted(waiter).is_some_and(|slot| lent_from(&stage, slot) == 1));
}

#[test]
fn backend_that_failed_twice_lately_is_left_out_while_another_is_soon_free() {
    for (takes, left_out) in [(10, true), (200, false)] {
        let mut stage = Stage::connected(options(3, 3), &[1, 2, 3]);
        for _ in 0..2 {
            let slots = [0; 3].map(|_| stage.take());
            stage.pass(ms(takes));
            let of_it = slots.into_iter().find(|&slot| lent_from(&stage, slot) == 1).expect("each has a connection");
            stage.machine.report_failure(stage.now, of_it);
            slots.into_iter().for_each(|slot| stage.release(slot, Outcome::Open));
        }
        let others = [stage.take(), stage.take()];
        let third = stage.claim(ms(60_000));
        assert_eq!(matches!(third, Claimed::Waiting(_)), left_out, "uses take {takes} ms");
        if let Claimed::Waiting(waiter) = third {
            stage.release(others[0], Outcome::Open);
            assert!(stage.granted(waiter).is_some_and(|slot| lent_from(&stage, slot) != 1));
            let last = stage.machine.try_claim(stage.now);
            assert!(matches!(last, Claimed::Granted { .. }), "this claim cannot wait: {last:?}");
        }
    }
}
