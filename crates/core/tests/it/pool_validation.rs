//! Connections that do not know whether they have broken: when they are validated after use, and what it means that they are gone.

use crate::stage::{Stage, ms, options};
use carom_core::ejection::Ejection;
use carom_core::pool::{Options, Outcome};
use carom_core::slot::SlotRef;
use std::time::Duration;

/// A pool whose connections were all used for 100 ms, twice: each has served.
fn used(options: Options, recycles: bool, backends: &[u16]) -> Stage {
    let mut stage = Stage::recycling(options, recycles, backends);
    for _ in 0..2 {
        let slots: Vec<SlotRef> = (0..stage.machine.options().maximum).map(|_| stage.take()).collect();
        stage.pass(ms(100));
        slots.into_iter().for_each(|slot| stage.release(slot, Outcome::Open));
        end_checks(&mut stage, true);
    }
    stage
}

fn validated(size: usize) -> Options {
    let ejection = Some(Ejection::default().consecutive(1));
    Options { validate_every: Some(ms(60_000)), ejection, ..options(size, size) }
}

fn end_checks(stage: &mut Stage, passed: bool) {
    while !stage.checks.is_empty() {
        let check = stage.checks.remove(0);
        stage.machine.handle_checked(stage.now, check, passed);
        stage.go();
    }
}

/// One use that lasts this long; no other connection stays.
fn use_for(stage: &mut Stage, time: Duration, outcome: Outcome) {
    let slots: Vec<SlotRef> = (0..stage.machine.options().maximum).map(|_| stage.take()).collect();
    slots[1..].iter().for_each(|&slot| stage.release(slot, Outcome::Discarded));
    stage.accept_all();
    stage.pass(time);
    stage.release(slots[0], outcome);
}

fn is_ejected(stage: &Stage) -> bool {
    stage.machine.snapshot().backends.iter().any(|found| found.ejected_until.is_some())
}

#[test]
fn connection_is_validated_after_a_use_that_was_much_shorter_than_usual() {
    for (time, expected) in [(200, 0), (50, 0), (20, 1)] {
        let mut stage = used(validated(1), false, &[1]);
        use_for(&mut stage, ms(time), Outcome::Open);
        assert_eq!(stage.checks.len(), expected, "after {time} ms");
    }
}

#[test]
fn connections_are_validated_after_every_use_for_10_s_after_one_failed_its_check() {
    let mut stage = used(validated(1), false, &[1]);
    use_for(&mut stage, ms(20), Outcome::Open);
    end_checks(&mut stage, false);
    stage.pass(ms(1));
    stage.accept_all();
    for _ in 0..9 {
        stage.pass(ms(900));
        use_for(&mut stage, ms(100), Outcome::Open);
        assert_eq!(stage.checks.len(), 1, "after {:?}", stage.elapsed());
        end_checks(&mut stage, true);
    }
    stage.pass(ms(1_000));
    use_for(&mut stage, ms(100), Outcome::Open);
    assert_eq!(stage.checks.len(), 0);
}

#[test]
fn connection_that_served_and_is_gone_after_a_usual_use_blames_nothing() {
    for recycles in [true, false] {
        let limits = || Options { validate_every: (!recycles).then_some(ms(500)), ..validated(2) };
        // It has served, its use lasts so long, and its check so long: whether the use failed.
        for (has_served, time, check, failed) in
            [(true, 600, 1, false), (true, 20, 1, true), (true, 600, 3_000, true), (false, 600, 1, true)]
        {
            let mut stage = if has_served {
                used(limits(), recycles, &[1, 2])
            } else {
                Stage::recycling(limits(), recycles, &[1, 2])
            };
            use_for(&mut stage, ms(time), Outcome::Open);
            assert_eq!(stage.checks.len(), 1);
            stage.pass(ms(check));
            end_checks(&mut stage, false);
            assert_eq!(is_ejected(&stage), failed, "{recycles}, {has_served}, {time} ms, {check} ms");
        }
    }
}

#[test]
fn closed_connection_has_failed_its_use_where_it_cannot_tell_and_the_use_was_short() {
    for (validates, time, failed) in [(true, 20, true), (true, 100, false), (false, 20, false)] {
        let limits = Options { validate_every: validates.then_some(ms(60_000)), ..validated(2) };
        let mut stage = used(limits, false, &[1, 2]);
        use_for(&mut stage, ms(time), Outcome::Closed);
        assert_eq!(is_ejected(&stage), failed, "{validates}, {time} ms");
    }
}

#[test]
fn connections_that_end_together_are_one_failed_use_for_the_penalty() {
    for outcome in [Outcome::Broken, Outcome::Failed] {
        let mut stage = Stage::connected(options(12, 12), &[1, 2, 3]);
        let slots: Vec<SlotRef> = (0..12).map(|_| stage.take()).collect();
        let (failing, others) = slots.into_iter().partition::<Vec<_>, _>(|&slot| stage.lent_from(slot) == 1);
        failing[1..].iter().for_each(|&slot| stage.release(slot, outcome));
        others.into_iter().for_each(|slot| stage.release(slot, Outcome::Open));
        stage.release(failing[0], Outcome::Open);
        end_checks(&mut stage, true);
        stage.pass(ms(1));
        stage.accept_all();
        // Of a penalty for each, half would be left.
        stage.pass(ms(2_500));
        let mut picks = 0;
        for _ in 0..300 {
            let slot = stage.take();
            picks += u32::from(stage.lent_from(slot) == 1);
            stage.release(slot, Outcome::Open);
            stage.pass(ms(1));
        }
        assert!(picks > 80, "{outcome:?}: {picks} of 300");
    }
}
