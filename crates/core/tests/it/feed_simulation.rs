//! What the feed machine promises, over thousands of seeded schedules in a simulated world.
//!
//! Each schedule has a seed of its own. A failure prints it, with what happened lately; `CAROM_SEED=<seed> cargo test`
//! runs that schedule alone, `CAROM_SCHEDULES=<n>` changes how many there are in each test.

use crate::feed_world::{Setting, Trace, Weather, World, for_each_schedule, ms};
use carom_core::random::Random;

/// Every promise that can be judged step by step is; see `feed_world/promises.rs`.
#[test]
fn promises_hold_whatever_happens() {
    for_each_schedule(800, |seed, trace| {
        let mut world = World::new(Setting::wild(seed), seed, trace);
        world.run_for(ms(8_000));
        world.end();
    });
}

/// Capacity is short, and everybody comes and goes all the time.
#[test]
fn a_feed_that_is_always_full_stays_within_its_limits() {
    for_each_schedule(400, |seed, trace| {
        let mut setting = Setting::wild(seed);
        setting.instruments = setting.options.capacity() + 2;
        setting.caller_every = ms(2);
        setting.leaves = 0.35;
        let mut world = World::new(setting, seed, trace);
        world.run_for(ms(3_000));
        world.end();
    });
}

#[test]
fn abandoned_at_any_moment_everything_ends_at_once() {
    for_each_schedule(400, |seed, trace| {
        let mut world = World::new(Setting::wild(seed), seed, trace);
        world.run_for(ms(Random::new(seed).below(4_000) as u64));
        if seed % 2 == 0 {
            world.close();
            world.run_for(ms(20));
        }
        world.abandon();
        world.end();
    });
}

#[test]
fn when_faults_stop_everything_wanted_is_carried_once_and_nothing_else() {
    for_each_schedule(600, |seed, trace| {
        let mut world = World::new(Setting::wild(seed), seed, trace);
        world.run_for(ms(4_000));
        world.calm_down();
        world.run_for(world.recovery_bound());
        // A topic may be on its way to fewer connections just now; it is carried all the same, but perhaps twice.
        world.run_for(world.tidying());
        world.promise_upstream_carries_what_is_wanted();
        world.promise_connections_are_few();
        world.end();
    });
}

/// Without moves the bound is exact: faults stop, and after the recovery bound everything is there.
#[test]
fn when_faults_stop_everything_wanted_is_live_within_the_recovery_bound() {
    for_each_schedule(500, |seed, trace| {
        let mut setting = Setting::wild(seed);
        setting.options.compact_after = None;
        setting.options.max_idle = None;
        let mut world = World::new(setting, seed, trace);
        world.run_for(ms(4_000));
        world.calm_down();
        world.run_for(world.recovery_bound());
        world.promise_upstream_carries_what_is_wanted();
        world.end();
    });
}

/// The delays that a feed has unless somebody says otherwise: silence lasts about twice as long as what caused it.
#[test]
fn an_outage_costs_about_twice_its_time_and_no_more_than_the_longest_delay() {
    for_each_schedule(150, |seed, trace| {
        let mut setting = Setting::wild(seed).with_default_recovery();
        setting.options.compact_after = None;
        (setting.refuses, setting.mortal, setting.silent, setting.leaves, setting.gives_up) = (0.0, 0.0, 0.0, 0.0, 0.0);
        (setting.weather_every, setting.jump_every) = (None, None);
        let mut world = World::new(setting, seed, trace);
        // Long enough for connections to have lived.
        world.run_for(world.setting.limits.max_delay * 2);
        let outage = ms(Random::new(seed).below(30_000) as u64);
        world.cut();
        world.run_for(outage);
        world.calm_down();
        world.run_for(world.setting.silence_after(outage));
        world.promise_upstream_carries_what_is_wanted();
        world.end();
    });
}

/// Connections are accepted and die after a while, all of them: everybody is served now and then, but not by ever more logins.
#[test]
fn connections_that_keep_dying_are_opened_ever_more_rarely() {
    for_each_schedule(150, |seed, trace| {
        let mut setting = Setting::wild(seed);
        setting.instruments = setting.options.capacity();
        setting.caller_every = ms(3);
        (setting.leaves, setting.silent) = (0.0, 0.0);
        (setting.weather_every, setting.jump_every) = (None, None);
        let mut world = World::new(setting, seed, trace);
        world.set_weather(Weather::Brittle);
        let time = (world.setting.limits.max_delay * 40).min(ms(8_000));
        world.run_for(time);
        world.promise_openings_are_rare(time);
        world.end();
    });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [1, 2, 3, 4] {
        let run = || {
            let trace = Trace::on(usize::MAX);
            let mut world = World::new(Setting::wild(seed), seed, &trace);
            world.run_for(ms(3_000));
            world.end();
            trace.lines()
        };
        assert_eq!(run(), run());
    }
}
