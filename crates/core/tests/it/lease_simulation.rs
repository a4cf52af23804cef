//! What the lease promises, over thousands of seeded schedules in a simulated world.
//!
//! Each schedule has a seed of its own. A failure prints it, with what happened lately; `CAROM_SEED=<seed> cargo test`
//! runs that schedule alone, `CAROM_SCHEDULES=<n>` changes how many there are in each test.

use crate::lease_world::{Setting, Trace, World, for_each_schedule, ms};
use carom_core::random::Random;

/// Messages lost, late and out of order, members killed, stopped and cut off, a register that forgets, clocks that differ: never
/// do two hold the lease or have connections because of it, and each hold has a higher epoch.
#[test]
fn there_are_never_two_whatever_happens() {
    for_each_schedule(1_200, |seed, trace| {
        let mut world = World::new(Setting::wild(seed), seed, trace);
        world.run_for(ms(60_000));
        world.end();
    });
}

/// Who is stopped for long keeps its connections, as nobody can take them from it, but not its hold.
#[test]
fn there_are_never_two_holds_however_long_members_are_stopped() {
    for_each_schedule(500, |seed, trace| {
        let mut setting = Setting::wild(seed);
        setting.stops_for = setting.options.ttl * 5;
        let mut world = World::new(setting, seed, trace);
        world.run_for(ms(60_000));
        let broken = world.broken.unwrap_or_default();
        assert!(!broken.contains("hold the lease"), "{broken}");
    });
}

#[test]
fn when_faults_stop_somebody_holds_within_the_bound_and_for_good() {
    for_each_schedule(1_000, |seed, trace| {
        let mut world = World::new(Setting::wild(seed), seed, trace);
        world.run_for(ms(20_000));
        world.calm_down();
        // Answers that were lost before are waited for, and holds that nobody can renew end.
        let bound = world.setting.succession_bound() + world.setting.by_any_clock(world.setting.options.hold);
        let slow = world.setting.takes * 4 > world.setting.options.renew;
        world.run_for(bound);
        if !slow {
            assert!(world.broken.is_some() || world.holder().is_some(), "nobody holds after {bound:?}");
            let holds = world.holds;
            world.run_for(ms(30_000));
            assert_eq!(world.holds, holds, "nothing went wrong, and yet it changed hands");
        }
        world.end();
    });
}

#[test]
fn a_killed_holder_is_succeeded_within_the_bound() {
    for_each_schedule(500, |seed, trace| {
        let mut world = held(seed, trace);
        let holder = world.holder().expect("somebody holds");
        world.kill(holder);
        let bound = world.setting.succession_bound();
        world.expect(bound, "a successor", |world| world.holder().is_some());
        world.end();
    });
}

#[test]
fn what_is_given_back_is_taken_at_once() {
    for_each_schedule(500, |seed, trace| {
        let mut world = held(seed, trace);
        let holder = world.holder().expect("somebody holds");
        world.release(holder);
        assert_eq!(world.holder(), None, "it does not hold what it has given back");
        // It may have been renewing; the others hear of it, or look again soon; then one of them reads twice and writes.
        let renew = world.setting.options.renew;
        let bound = world.setting.by_any_clock(renew + renew / 5) + world.setting.takes * 9;
        world.expect(bound, "a successor", |world| world.holder().is_some());
        world.end();
    });
}

#[test]
fn nobody_claims_from_a_holder_that_is_well() {
    for_each_schedule(200, |seed, trace| {
        let mut world = held(seed, trace);
        world.run_for(ms(120_000));
        assert_eq!(world.holds, 1);
        world.end();
    });
}

/// One lost message in the time of a hold costs nothing, whichever it is.
#[test]
fn a_holder_survives_single_losses() {
    for_each_schedule(300, |seed, trace| {
        let mut world = held(seed, trace);
        world.setting.loses_one_every = Some(world.setting.options.hold);
        world.run_for(ms(120_000));
        assert_eq!(world.holds, 1);
        world.end();
    });
}

/// Who had the lease before, or finds it given back, knows that it was somebody else's later.
#[test]
fn a_register_that_goes_back_makes_no_second_holder() {
    for_each_schedule(300, |seed, trace| {
        let mut world = held(seed, trace);
        let before = world.holder().expect("somebody holds");
        let bound = world.setting.succession_bound() + world.setting.options.hold;
        if seed % 2 == 0 {
            world.cut(before, true);
            world.expect(bound, "a successor", |world| world.holder().is_some_and(|holder| holder != before));
            world.cut(before, false);
        } else {
            world.release(before);
            world.expect(bound, "a successor", |world| world.holder().is_some());
        }
        // Everybody is there again, and has seen who it is.
        world.run_for(ms(10_000));
        world.go_back();
        world.run_for(ms(10_000));
        assert!(world.broken.is_some() || world.holder().is_some(), "nobody holds");
        world.end();
    });
}

/// To who looks there is nothing before and after, but it was told of the claim.
#[test]
fn a_claim_that_is_forgotten_at_once_makes_no_second_holder() {
    for_each_schedule(500, |seed, trace| {
        let mut world = World::new(Setting::calm(seed), seed, trace);
        let bound = ms(2_000) + world.setting.succession_bound();
        world.expect(bound, "a first holder", |world| world.holder().is_some());
        world.run_for(world.setting.takes);
        world.lose_everything();
        world.run_for(bound);
        assert!(world.broken.is_some() || world.holder().is_some(), "nobody holds");
        world.end();
    });
}

/// The world can tell when a promise is broken: it is, where the lease is not made for what happens.
#[test]
fn promises_break_where_none_were_made() {
    let breaks = |what: &str, change: fn(&mut Setting)| {
        let broken = (1..=500).find_map(|seed| {
            let mut setting = Setting::wild(seed);
            change(&mut setting);
            let mut world = World::new(setting, seed, &Trace::default());
            world.run_for(ms(60_000));
            world.broken.filter(|broken| broken.contains(what))
        });
        assert!(broken.is_some(), "it takes more than that until {what}");
    };
    breaks("two hold the lease", |setting| setting.rate = 0.3);
    breaks("two hold the lease", |setting| setting.compares = false);
    breaks("two have connections", |setting| setting.stops_for = setting.options.grace() + setting.options.hold / 5);
}

/// A calm world in which somebody holds the lease, for some time already.
fn held(seed: u64, trace: &Trace) -> World {
    let mut world = World::new(Setting::calm(seed), seed, trace);
    world.expect(ms(2_000) + world.setting.succession_bound(), "a first holder", |world| world.holder().is_some());
    world.run_for(ms(3_000 + Random::new(seed).below(3_000) as u64));
    world
}
