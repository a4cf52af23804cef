//! Active health checks of pools and sets, as plain steps on the machines. Each test is named for its rule.

use crate::set_stage::{self, eager};
use crate::stage::{Stage, backend, ms, options, policy, recovery};
use carom_core::backend::BackendState;
use carom_core::ejection::Ejection;
use carom_core::health_check::Schedule;
use carom_core::pool::{Options, Outcome, Refusal, State};
use carom_core::set;

/// A check every 100 ms, decided by two results in a row.
fn schedule() -> Schedule {
    Schedule::default().interval(ms(100)).timeout(ms(50)).jitter(0.0)
}

fn checked(spares: usize, maximum: usize) -> Options {
    Options { health_check: Some(schedule()), ..options(spares, maximum) }
}

fn state_of(stage: &Stage, number: u16) -> BackendState {
    let snapshot = stage.machine.snapshot();
    snapshot.backends.iter().find(|found| *found.backend == backend(number)).unwrap().state
}

/// Lets time pass; the checks of these backends fail, those of others pass. Dials are accepted at once.
fn pass(stage: &mut Stage, millis: u64, failing: &[u16]) -> usize {
    let mut checks = 0;
    for _ in 0..millis / 10 {
        stage.pass(ms(10));
        for (check, number) in std::mem::take(&mut stage.health_checks) {
            stage.machine.handle_health_checked(stage.now, check, !failing.contains(&number));
            checks += 1;
        }
        stage.go();
        stage.accept_all();
    }
    checks
}

#[test]
fn every_known_backend_is_checked_once_an_interval_without_any_use() {
    let mut stage = Stage::connected(checked(1, 1), &[1, 2, 3]);
    assert!(pass(&mut stage, 200, &[]) >= 3, "the first check runs within the interval");
    let checks = pass(&mut stage, 1_000, &[]);
    assert!((25..=30).contains(&checks), "{checks} checks of three backends in ten intervals");
}

#[test]
fn backend_is_unhealthy_after_two_failed_checks_and_gets_no_traffic_until_two_pass() {
    let mut stage = Stage::connected(checked(4, 4), &[1, 2]);
    assert_eq!(stage.slots_of(1), 2);
    pass(&mut stage, 1_000, &[1]);
    assert_eq!((state_of(&stage, 1), state_of(&stage, 2)), (BackendState::Unhealthy, BackendState::Healthy));
    assert_eq!((stage.slots_of(1), stage.slots_of(2)), (0, 4), "its idle connections close, the other takes over");
    pass(&mut stage, 1_000, &[]);
    assert_eq!((state_of(&stage, 1), stage.slots_of(1)), (BackendState::Healthy, 2));
}

#[test]
fn failed_check_between_passed_ones_changes_nothing() {
    let mut stage = Stage::connected(checked(4, 4), &[1, 2]);
    let mut results = [0, 0];
    for _ in 0..200 {
        stage.pass(ms(10));
        for (check, number) in std::mem::take(&mut stage.health_checks) {
            let result = &mut results[usize::from(number) - 1];
            *result += 1;
            stage.machine.handle_health_checked(stage.now, check, *result % 2 == 0);
        }
        stage.go();
        assert_eq!([1, 2].map(|number| state_of(&stage, number)), [BackendState::Healthy; 2]);
    }
    assert!(results.iter().all(|&results| results > 10), "{results:?}");
}

#[test]
fn all_backends_are_used_when_all_are_unhealthy() {
    let mut stage = Stage::connected(checked(4, 4), &[1, 2]);
    pass(&mut stage, 1_000, &[1, 2]);
    let snapshot = stage.machine.snapshot();
    assert_eq!([1, 2].map(|number| state_of(&stage, number)), [BackendState::Unhealthy; 2], "states stay as judged");
    assert!(snapshot.is_panic && snapshot.backends.iter().all(|found| !found.is_out));
    assert_eq!((stage.slots_of(1), stage.slots_of(2)), (2, 2));
    pass(&mut stage, 1_000, &[1]);
    assert!(!stage.machine.snapshot().is_panic);
    assert_eq!((stage.slots_of(1), stage.slots_of(2)), (0, 4));
}

#[test]
fn ejected_backend_is_reinstated_when_its_checks_pass() {
    let ejection = Some(Ejection::default().consecutive(1).time(ms(60_000)));
    let mut stage = Stage::connected(Options { ejection, ..checked(4, 4) }, &[1, 2]);
    pass(&mut stage, 500, &[]);
    let lent: Vec<_> = (0..4).map(|_| stage.take()).collect();
    let of_the_first = stage.machine.lent().find(|lent| *lent.backend == backend(1)).unwrap().slot;
    stage.machine.release(stage.now, of_the_first, Outcome::Failed);
    assert_eq!(state_of(&stage, 1), BackendState::Ejected);
    pass(&mut stage, 90, &[]);
    assert_eq!(state_of(&stage, 1), BackendState::Ejected, "checks before the ejection do not count");
    pass(&mut stage, 400, &[]);
    assert_eq!(state_of(&stage, 1), BackendState::Healthy, "long before its time is over");
    drop(lent);
}

#[test]
fn removed_backend_is_not_checked() {
    let mut stage = Stage::connected(checked(2, 2), &[1, 2]);
    pass(&mut stage, 500, &[]);
    stage.backends(&[2]);
    pass(&mut stage, 500, &[]);
    assert!(stage.machine.next_timeout().is_some());
    stage.pass(ms(300));
    assert!(stage.health_checks.iter().all(|(_, number)| *number == 2), "{:?}", stage.health_checks);
}

#[test]
fn set_leases_no_connection_of_an_unhealthy_backend() {
    let options = set::Options { health_check: Some(schedule()), ..eager(3, 3) };
    let mut stage = set_stage::Stage::knowing(options, &[1, 2, 3]);
    let pass = |stage: &mut set_stage::Stage, failing: &[u16]| {
        for _ in 0..100 {
            stage.pass(ms(10));
            for (check, number) in std::mem::take(&mut stage.health_checks) {
                stage.machine.handle_health_checked(stage.now, check, !failing.contains(&number));
                stage.go();
            }
            while let Some((_, number)) = stage.dials.first() {
                stage.accept(*number);
            }
        }
    };
    pass(&mut stage, &[2]);
    assert_eq!(stage.serving(), [1, 3]);
    for _ in 0..6 {
        let id = stage.take(set::Want::any());
        assert_ne!(stage.glance(id).backend.port(), 2);
        stage.release(id);
    }
    pass(&mut stage, &[]);
    assert_eq!(stage.serving(), [1, 2, 3]);
}

/// Lets time pass until this many checks have run; all of them pass or fail. Dials stay under way.
fn check(stage: &mut Stage, many: usize, passed: bool) {
    for _ in 0..many {
        stage.pass_until(|stage| !stage.health_checks.is_empty());
        let (check, _) = stage.health_checks.remove(0);
        stage.machine.handle_health_checked(stage.now, check, passed);
        stage.go();
    }
}

#[test]
fn claims_wait_as_in_an_outage_while_all_backends_are_unhealthy_and_nothing_works() {
    let recovery = policy(9).delay(ms(100)).max_delay(ms(60_000)).into();
    let mut stage = Stage::connected(Options { recovery, ..checked(1, 1) }, &[1]);
    check(&mut stage, 2, false);
    assert_eq!((state_of(&stage, 1), stage.machine.state()), (BackendState::Unhealthy, State::Running), "it is used");
    let slot = stage.take();
    stage.release(slot, Outcome::Open);
    stage.end_idle(1);
    assert_eq!((stage.machine.state(), stage.machine.dead_of_known()), (State::Failed, (0, 1)));
    let waiter = stage.wait(ms(30_000));
    let came = stage.now;
    let mut failed_at = stage.now;
    while stage.refused(waiter).is_none() {
        if stage.dialling(1) > 0 {
            assert!(stage.now <= failed_at + ms(1_000), "tried at least every second");
            stage.refuse(1);
            failed_at = stage.now;
        }
        stage.pass(ms(10));
    }
    assert!(matches!(stage.refused(waiter), Some(Refusal::Failed { known: 1, .. })));
    assert_eq!(stage.now, came + ms(5_000), "`outage_wait`");
    stage.pass_until(|stage| stage.dialling(1) > 0);
    stage.accept(1);
    assert_eq!((state_of(&stage, 1), stage.machine.state()), (BackendState::Unhealthy, State::Running));
}

#[test]
fn checks_that_pass_end_an_outage() {
    let mut stage = Stage::new(Options { recovery: recovery(9), ..checked(1, 1) });
    stage.backends(&[1]);
    check(&mut stage, 2, false);
    assert_eq!((state_of(&stage, 1), stage.machine.state()), (BackendState::Unhealthy, State::Failed));
    check(&mut stage, 2, true);
    assert_eq!((state_of(&stage, 1), stage.machine.state()), (BackendState::Unknown, State::Running));
}

#[test]
fn set_is_in_an_outage_while_all_backends_are_unhealthy_or_dead_and_nothing_works() {
    let options = set::Options { health_check: Some(schedule()), ..eager(2, 2) };
    let mut stage = set_stage::Stage::knowing(options, &[1, 2]);
    let up = stage.accept(1);
    let check = |stage: &mut set_stage::Stage, passed: bool| {
        for _ in 0..60 {
            stage.pass(ms(10));
            for (check, number) in std::mem::take(&mut stage.health_checks) {
                stage.machine.handle_health_checked(stage.now, check, passed && number == 1);
                stage.go();
            }
        }
    };
    check(&mut stage, false);
    assert_eq!(stage.machine.state(), set::State::Running, "the connection of an unhealthy backend is used");
    let lease = stage.take(set::Want::any());
    assert_eq!(lease, up);
    stage.release(lease);
    stage.ended(up);
    assert_eq!(stage.machine.state(), set::State::Failed);
    let waiter = stage.wait(set::Want::any());
    check(&mut stage, true);
    assert_eq!(stage.machine.state(), set::State::Running, "backend 1 is healthy again");
    stage.accept(1);
    assert!(stage.granted(waiter).is_some());
}
