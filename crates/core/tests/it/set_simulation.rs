//! What the set machine promises, over thousands of seeded schedules in a simulated world.
//!
//! Each schedule has a seed of its own. A failure prints it, with what happened lately; `CAROM_SEED=<seed> cargo test`
//! runs that schedule alone, `CAROM_SCHEDULES=<n>` changes how many there are in each test.

use crate::set_world::{Behaviour, Setting, Trace, World, backend, for_each_schedule, ms};
use carom_core::random::Random;
use carom_core::set::{State, Want};

/// Every promise that can be judged step by step is; see `set_world/promises.rs`.
#[test]
fn promises_hold_whatever_happens() {
    for_each_schedule(1_200, |seed, trace| {
        let mut world = World::new(Setting::wild(seed), seed, trace);
        world.publish_all();
        world.run_for(ms(8_000));
        world.end();
    });
}

/// Most callers give up: nothing is left behind, and no dial goes on that nobody wants.
#[test]
fn cancelling_leaves_counts_exact_and_nothing_behind() {
    for_each_schedule(700, |seed, trace| {
        let mut setting = Setting::wild(seed);
        setting.gives_up = 0.9;
        setting.caller_every = ms(15);
        let mut world = World::new(setting, seed, trace);
        world.publish_all();
        world.run_for(ms(3_000));
        world.end();
    });
}

#[test]
fn abandoned_at_any_moment_everything_ends_at_once() {
    for_each_schedule(600, |seed, trace| {
        let mut world = World::new(Setting::wild(seed), seed, trace);
        world.publish_all();
        world.run_for(ms(Random::new(seed).below(4_000) as u64));
        if seed % 2 == 0 {
            world.close();
            world.run_for(ms(100));
        }
        world.abandon();
        world.end();
    });
}

#[test]
fn when_faults_stop_the_target_is_met_and_no_lease_fails() {
    for_each_schedule(800, |seed, trace| {
        let mut setting = Setting::wild(seed);
        // It gives up connections that nothing is wrong with.
        setting.options.decoherence = ms(3_600_000);
        let mut world = World::new(setting, seed, trace);
        world.publish_all();
        world.run_for(ms(4_000));
        world.publish_all();
        world.calm_down();
        world.run_for(world.settling() + world.setting.patience.1);
        if world.setting.options.eager {
            world.promise_the_target_is_met();
        }
        let refused = world.refused();
        for server in 0..world.setting.servers {
            world.ask(Want::of(backend(server)), ms(60_000));
            world.ask(Want::any(), ms(60_000));
        }
        world.run_for(ms(10_000));
        assert_eq!(world.refused(), refused, "a lease failed, though nothing is wrong");
        if world.setting.options.eager {
            world.promise_the_target_is_met();
        }
        world.end();
    });
}

/// The others hang, refuse, or drop what they accept; all but one.
#[test]
fn a_backend_that_does_not_serve_blocks_nobody_who_takes_any() {
    for_each_schedule(600, |seed, trace| {
        let mut random = Random::new(seed);
        let mut setting = Setting::with_one_that_serves(seed);
        (setting.weather_every, setting.mortal) = (None, 0.0);
        let mut world = World::new(setting, seed, trace);
        let serves = random.below(world.setting.servers);
        for server in (0..world.setting.servers).filter(|server| *server != serves) {
            world.behave(server, [Behaviour::Hangs, Behaviour::Refuses][random.below(2)]);
        }
        world.publish_all();
        world.run_for(ms(5_000));
        world.stop_calling();
        let (_, patience) = world.setting.patience;
        world.run_for(patience);
        assert_eq!(world.refused(), 0, "one serves");
        world.end();
    });
}

/// H3: every server is down, then one accepts connections again. What holds while all are down is in `set_world/promises.rs`.
#[test]
fn outage_ends_for_leases_within_a_second_of_the_first_server_that_is_back() {
    for_each_schedule(800, |seed, trace| {
        let mut random = Random::new(seed);
        let mut world = World::new(Setting::with_an_outage(seed), seed, trace);
        world.publish_all();
        world.run_for(ms(random.below(2_000) as u64));
        let servers = world.setting.servers;
        let back = random.below(servers);
        for server in 0..servers {
            // An attempt that fails after nearly a second is followed by a delay.
            let may_hang = server != back || world.setting.limits.max_timeout > ms(1_000);
            let hangs = may_hang && random.chance(0.5);
            world.behave(server, if hangs { Behaviour::Hangs } else { Behaviour::Refuses });
        }
        // Connections that were accepted just before that are closed as well.
        world.run_for(world.setting.dial);
        (0..servers).for_each(|server| world.cut_off(server));
        let mut steps = 0;
        while world.machine.state() != State::Failed {
            world.run_for(ms(10));
            steps += 1;
            assert!(steps < 10_000, "no outage although every server is down");
        }
        world.run_for(ms(random.below(8_000) as u64));
        world.come_back(back);
        world.ask(Want::any(), ms(60_000));
        let (dial, late) = (world.setting.dial, world.setting.late);
        world.run_for(ms(1_000) + 2 * dial + 4 * late);
        assert_eq!(world.machine.state(), State::Running, "the outage is not over");
        let refused = world.refused();
        world.run_for(ms(8_000));
        assert_eq!(world.refused(), refused, "a lease failed that had waited for the outage to end");
        world.end();
    });
}

/// H1, H2 and H7: every use of every server fails, as when a database behind all of them does, and later none.
#[test]
fn backends_that_all_fail_at_once_are_ejected_and_used_in_a_panic_until_they_recover() {
    for_each_schedule(400, |seed, trace| {
        let mut random = Random::new(seed);
        let mut world = World::new(Setting::with_failing_uses(seed), seed, trace);
        world.publish_all();
        world.run_for(ms(1_000 + random.below(2_000) as u64));
        world.setting.reports_failure = 1.0;
        world.run_for(ms(3_000));
        let mut until = world.promise_all_are_ejected_and_used();
        for _ in 0..random.below(4) {
            until = world.promise_all_are_ejected_and_used();
        }
        world.setting.reports_failure = 0.0;
        // An ejection that ends is followed by another if its backend failed in the panic until now.
        while world.machine.snapshot().ejected.iter().len() > 0 {
            world.run_for(until.saturating_sub(world.clock) + ms(10));
            until = world.clock + ms(100);
            assert!(world.clock < ms(120_000), "H1: the ejections do not end");
        }
        world.promise_all_are_healthy_and_used();
        world.end();
    });
}

/// H5: a backend that closes connections cleanly after every k-th use is never penalised.
#[test]
fn clean_closes_after_use_cost_one_dial_and_no_backoff() {
    for_each_schedule(600, |seed, trace| {
        let mut world = World::new(Setting::closing_after_use(seed), seed, trace);
        world.publish_all();
        world.run_for(ms(5_000));
        assert_eq!(world.refused(), 0, "nothing fails");
        world.promise_clean_closes_are_free();
        world.end();
    });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [1, 2, 3, 4] {
        let run = || {
            let trace = Trace::on(usize::MAX);
            let mut world = World::new(Setting::wild(seed), seed, &trace);
            world.publish_all();
            world.run_for(ms(3_000));
            world.end();
            trace.lines()
        };
        assert_eq!(run(), run());
    }
}
