//! What the window machine promises, over thousands of seeded schedules in a simulated world.
//!
//! Each schedule has a seed of its own. A failure prints it, with what happened lately; `CAROM_SEED=<seed> cargo test`
//! runs that schedule alone, `CAROM_SCHEDULES=<n>` changes how many there are in each test.

use crate::window_world::{Behaviour, Setting, Trace, World, for_each_schedule, ms};
use carom_core::random::Random;
use carom_core::window::Ask;

/// Every promise that can be judged step by step is; see `window_world/promises.rs`.
#[test]
fn promises_hold_whatever_happens() {
    for_each_schedule(1_200, |seed, trace| {
        let mut world = World::new(Setting::wild(seed), seed, trace);
        world.run_for(ms(6_000));
        world.end();
    });
}

/// Most callers give up: nothing of their requests is left behind.
#[test]
fn cancelling_leaves_nothing_behind() {
    for_each_schedule(600, |seed, trace| {
        let mut setting = Setting::wild(seed);
        setting.gives_up = 0.9;
        setting.caller_every = ms(30);
        let mut world = World::new(setting, seed, trace);
        world.run_for(ms(5_000));
        world.end();
    });
}

#[test]
fn closed_at_any_moment_everything_ends_at_once() {
    for_each_schedule(600, |seed, trace| {
        let mut world = World::new(Setting::wild(seed), seed, trace);
        world.run_for(ms(Random::new(seed).below(8_000) as u64));
        world.close();
        world.promise_nothing_is_left();
        world.run_for(ms(2_000));
        world.promise_nothing_is_left();
    });
}

/// The driver never finds the time to let the machine know of the time, because something always happens.
#[test]
fn timeouts_fire_under_steady_traffic() {
    for_each_schedule(150, |seed, trace| {
        let mut setting = Setting::wild(seed);
        setting.late = ms(3_600_000);
        (setting.caller_every, setting.stray_every) = (ms(100), Some(ms(15)));
        (setting.options.ack_timeout, setting.options.reply_timeout) = (ms(100), ms(300));
        setting.options.max_windows = None;
        let mut world = World::new(setting, seed, trace);
        for server in 0..world.setting.servers {
            world.behave(server, Behaviour::Mute);
        }
        world.keep_the_weather();
        let before = world.ended();
        world.ask(seed, Ask::any());
        world.run_for(world.setting.longest(world.setting.servers) + ms(100));
        assert!(world.ended() > before, "nobody has ended, though everybody's time is over");
        world.promise_no_deadline_is_long_past(ms(100));
    });
}

/// One node answers, all others fail somehow.
#[test]
fn whoever_takes_any_answer_gets_the_one_there_is() {
    for_each_schedule(300, |seed, trace| {
        let mut random = Random::new(seed);
        let mut setting = Setting::wild(seed);
        setting.servers = setting.servers.max(2);
        (setting.nodes_every, setting.gives_up, setting.drops) = (None, 0.0, 0.0);
        // Nobody waits for a window for longer than it may.
        setting.options.max_windows = None;
        (setting.only_any, setting.names, setting.own_times) = (true, 0.0, 0.0);
        (setting.open, setting.answer) = (ms(10), ms(20));
        let mut world = World::new(setting, seed, trace);
        world.keep_the_weather();
        let answers = random.below(world.setting.servers);
        for server in (0..world.setting.servers).filter(|server| *server != answers) {
            let bad = [Behaviour::Mute, Behaviour::AckOnly, Behaviour::Nacks, Behaviour::Refuses, Behaviour::Drops];
            world.behave(server, bad[random.below(bad.len())]);
        }
        world.run_for(ms(20_000));
        world.end();
        assert_eq!(world.failed(), 0, "one answers");
        assert!(world.ended() > 0);
    });
}

/// Long enough for nodes to be asked last, and to be as good as any again.
#[test]
fn promises_hold_over_minutes() {
    for_each_schedule(200, |seed, trace| {
        let mut setting = Setting::wild(seed);
        (setting.caller_every, setting.weather_every) = (ms(2_000), Some(ms(30_000)));
        setting.nodes_every = setting.nodes_every.map(|_| ms(30_000));
        let mut world = World::new(setting, seed, trace);
        world.run_for(ms(300_000));
        world.end();
    });
}

/// Of 3f + 1 nodes f are silent, and requests come one after the other. A request for any answer waits for `hedge_after` once for
/// each silent node that it finds. A quorum of f + 1 that asks f + 2, as Indy clients do, waits only if it finds two at a
/// time. So all requests together wait at most f times, or f / 2 times.
#[test]
fn silent_nodes_cost_at_most_a_hedge_each_and_nothing_once_they_are_known() {
    for_each_schedule(300, |seed, trace| {
        let mut random = Random::new(seed);
        let faults = 1 + random.below(8);
        let mut setting = Setting::wild(seed);
        setting.servers = 3 * faults + 1;
        (setting.weather_every, setting.nodes_every, setting.stray_every) = (None, None, None);
        (setting.drops, setting.gives_up, setting.open, setting.answer) = (0.0, 0.0, ms(10), ms(20));
        (setting.late, setting.options.max_windows) = (setting.late.min(ms(5)), None);
        let (hedge, response) = (ms(1_000), setting.open + setting.answer + setting.late);
        let options = &mut setting.options;
        (options.hedge_after, options.ack_timeout, options.reply_timeout) = (Some(hedge), ms(10_000), ms(100_000));
        options.read_nodes = 1;
        let mut world = World::new(setting, seed, trace);
        let mut silent = 0;
        while silent < faults {
            silent += usize::from(world.behave(random.below(3 * faults + 1), Behaviour::Mute) != Behaviour::Mute);
        }
        let quorum = Ask { at_once: Some(faults + 2), ..Ask::quorum(faults + 1) };
        let (ask, most) = if random.chance(0.5) { (quorum, faults / 2) } else { (Ask::any(), faults) };
        let mut hedges = 0;
        for tag in 1_000..1_030 {
            let took = world.ask_alone(tag, ask.clone());
            let waited = u32::from(took > response) * (took.as_millis() / hedge.as_millis()) as u32;
            assert!(took <= (hedge + ms(5)) * waited + response, "{tag} took {took:?}");
            hedges += waited as usize;
            world.run_for(ms(random.below(500) as u64));
        }
        assert!(hedges <= most, "{hedges} hedges for {faults} silent nodes");
        assert_eq!(world.failed(), 0);
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
