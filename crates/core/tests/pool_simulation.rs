//! What the pool machine promises, over thousands of seeded schedules in a simulated world.
//!
//! Each schedule has a seed of its own. A failure prints it, with what happened lately; `CAROM_SEED=<seed> cargo test`
//! runs that schedule alone, `CAROM_SCHEDULES=<n>` changes how many there are in each test.

mod world;

use carom_core::pool::State;
use carom_core::random::Random;
use std::time::Duration;
use world::{Behaviour, Setting, World, for_each_schedule};

const HOUR: Duration = Duration::from_secs(3_600);

/// Every promise that can be judged step by step is; see `world/promises.rs`.
#[test]
fn promises_1_2_3_4_6_7_hold_whatever_happens() {
    for_each_schedule(4_000, |seed, trace| {
        let mut world = World::new(Setting::wild(seed), seed, trace);
        world.publish_all();
        world.run_for(Duration::from_secs(10));
        world.end();
    });
}

#[test]
fn promise_5_the_pool_is_back_at_its_target_when_faults_stop() {
    for_each_schedule(3_000, |seed, trace| {
        let mut setting = Setting::wild(seed);
        // They close connections that nothing is wrong with.
        setting.options.decoherence = HOUR;
        setting.options.max_lifetime = None;
        let mut world = World::new(setting, seed, trace);
        world.publish_all();
        world.run_for(Duration::from_secs(6));
        world.stop_the_rhythm();
        world.faults_stop();
        world.publish_all();
        let bound = world.recovery_bound();
        let back = world.run_until_holds(world.clock + bound, World::is_at_target);
        assert!(back, "promise 5: not back at the target after {bound:?}");
        world.run_for(world.quiet_bound());
        world.pool_is_quiet();
        world.end();
    });
}
