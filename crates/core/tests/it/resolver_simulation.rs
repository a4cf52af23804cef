//! What the resolver machine promises, over thousands of seeded schedules in a simulated world.
//!
//! Each schedule has a seed of its own. A failure prints it, with what happened lately; `CAROM_SEED=<seed> cargo test`
//! runs that schedule alone, `CAROM_SCHEDULES=<n>` changes how many there are in each test.

use crate::resolver_world::{Setting, Trace, World, for_each_schedule};
use std::time::Duration;

/// Every promise that can be judged step by step is; see `resolver_world/promises.rs`.
#[test]
fn promises_hold_whatever_happens() {
    for_each_schedule(3_000, |seed, trace| {
        let mut world = World::new(Setting::wild(seed), seed, trace);
        world.run_for(Duration::from_secs(40));
    });
}

#[test]
fn promise_6_the_truth_is_published_when_changes_and_faults_stop() {
    for_each_schedule(3_000, |seed, trace| {
        let mut world = World::new(Setting::wild(seed), seed, trace);
        world.run_for(Duration::from_secs(20));
        world.calm_down();
        let bound = world.settling_bound();
        assert!(world.run_until_holds(bound, World::is_settled), "promise 6: not settled after {bound:?}");
    });
}

/// With short waits, so that every answer there is has been asked for again: then there is nothing more to say.
#[test]
fn promise_6_and_then_nothing_is_published_any_more() {
    for_each_schedule(300, |seed, trace| {
        let mut setting = Setting::wild(seed);
        setting.options.max_ttl = setting.options.min_ttl * 3;
        let mut world = World::new(setting, seed, trace);
        world.run_for(Duration::from_secs(20));
        world.calm_down();
        world.run_for(world.settling_bound());
        assert!(world.is_settled(), "promise 6: not settled");
        let published = world.published();
        world.run_for(world.settling_bound());
        assert!(world.is_settled() && world.published() == published, "promise 6: published again");
    });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let trace = Trace::on(usize::MAX);
        World::new(Setting::wild(seed), seed, &trace).run_for(Duration::from_secs(10));
        trace.lines()
    };
    for seed in 1..=100 {
        assert!(run(seed) == run(seed), "seed {seed} went another way the second time");
    }
}
