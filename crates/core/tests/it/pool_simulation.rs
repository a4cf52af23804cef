//! What the pool machine promises, over thousands of seeded schedules in a simulated world.
//!
//! Each schedule has a seed of its own. A failure prints it, with what happened lately; `CAROM_SEED=<seed> cargo test`
//! runs that schedule alone, `CAROM_SCHEDULES=<n>` changes how many there are in each test.

use crate::world::{Behaviour, Setting, World, for_each_schedule};
use carom_core::pool::State;
use carom_core::random::Random;
use std::time::Duration;

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
        // And these take their time.
        setting.options.churn_per_second = None;
        setting.options.ejection = None;
        // Otherwise nothing shows that an idle connection is dead.
        setting.liveness = true;
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
        world.only_the_best_tier_is_used();
        world.end();
    });
}

/// Few are ejected at a time, nothing of them is lent, and they come back; see `world/promises.rs`.
#[test]
fn ejection_leaves_enough_to_serve_and_ends_in_time() {
    for_each_schedule(2_000, |seed, trace| {
        let mut world = World::new(Setting::with_failing_uses(seed), seed, trace);
        world.publish_all();
        world.run_for(Duration::from_secs(8));
        world.end();
    });
}

/// Callers who avoid a backend may let others go ahead; everything else holds.
#[test]
fn promises_1_2_3_6_7_hold_with_callers_who_avoid_backends() {
    for_each_schedule(1_500, |seed, trace| {
        let mut setting = Setting::wild(seed);
        setting.choosy = 0.5;
        let mut world = World::new(setting, seed, trace);
        world.publish_all();
        world.run_for(Duration::from_secs(8));
        world.end();
    });
}

/// Callers who mostly give up: while they wait, when something has just been laid ready for them, at the same moment.
#[test]
fn promise_7_cancelling_leaves_counts_exact_and_nothing_behind() {
    for_each_schedule(2_000, |seed, trace| {
        let mut setting = Setting::wild(seed);
        setting.gives_up = 0.9;
        setting.caller_every = Duration::from_millis(15);
        let mut world = World::new(setting, seed, trace);
        world.publish_all();
        world.run_for(Duration::from_secs(3));
        world.end();
    });
}

/// Closed in the middle of everything, with most checks, goodbyes and connects hanging, and callers still coming.
#[test]
fn promise_8_closing_waits_for_nothing_but_claims_and_short_goodbyes() {
    for_each_schedule(3_000, |seed, trace| {
        let mut setting = Setting::wild(seed);
        setting.stalls = 0.8;
        setting.weather_every = Some(Duration::from_millis(300));
        let mut world = World::new(setting, seed, trace);
        world.publish_all();
        world.run_for(Duration::from_millis(1 + Random::new(seed).below(6_000) as u64));
        world.close();
        world.run_for(Duration::from_secs(1));
        world.end();
    });
}

/// The driver is gone at any moment: whoever waits is told, and what comes back later finds nothing.
#[test]
fn promise_8_without_a_driver_everything_ends_at_once() {
    for_each_schedule(1_000, |seed, trace| {
        let mut world = World::new(Setting::wild(seed), seed, trace);
        world.publish_all();
        world.run_for(Duration::from_millis(1 + Random::new(seed).below(6_000) as u64));
        world.driver_dies();
    });
}

/// Nobody comes, and what is kept ready is closed from afar before anybody watches it, or just after.
#[test]
fn servers_that_close_what_they_accept_are_not_hammered() {
    for_each_schedule(500, |seed, trace| {
        let mut setting = Setting::with_one_that_hangs(seed);
        setting.options.check_after = None;
        setting.options.max_idle = None;
        let mut world = World::new(setting, seed, trace);
        world.stop_the_rhythm();
        for server in 0..world.setting.servers {
            world.behave(server, Behaviour::ClosesSoon);
        }
        world.publish_all();
        world.run_for(Duration::from_secs(60));
        // By the default policy, three attempts and then, while all are dead, one every 0.8 to 1 s. When that one succeeds
        // others follow it, and have three attempts each.
        let (servers, slots) = (world.setting.servers, world.setting.options.spares);
        let most = servers * slots.max(1) * (3 + 4 * 75);
        assert!(world.dials() <= most, "{} dials in a minute for {slots} slots, not {most}", world.dials());
        world.end();
    });
}

/// Every server accepts connections and refuses every client afterwards, and claims keep coming.
#[test]
fn h6_servers_that_refuse_every_client_are_connected_to_with_delays() {
    for_each_schedule(500, |seed, trace| {
        let mut setting = Setting::with_one_that_hangs(seed);
        let maximum = setting.options.maximum.min(3);
        (setting.options.maximum, setting.options.spares) = (maximum, setting.options.spares.min(1));
        setting.options.health_check = None;
        (setting.caller_every, setting.hold) = (Duration::from_millis(5), Duration::from_millis(2));
        setting.dial = setting.dial.min(Duration::from_millis(20));
        let mut world = World::new(setting, seed, trace);
        for server in 0..world.setting.servers {
            world.behave(server, Behaviour::FailsUses);
        }
        world.publish_all();
        world.run_for(Duration::from_secs(30));
        // By the default policy, a delay is at least 90 ms. When a probe has connected, others connect before its use fails.
        for server in 0..world.setting.servers {
            let (dials, most) = (world.dials_to(server), maximum * 30_000 / 90);
            assert!(dials <= most, "H6: {dials} connects to server {server} in 30 s, not {most}");
        }
        world.end();
    });
}

/// The same of one server, while others serve.
#[test]
fn h6_delays_grow_at_a_server_that_refuses_every_client_while_others_serve() {
    for_each_schedule(500, |seed, trace| {
        let mut setting = Setting::with_one_that_hangs(seed);
        (setting.options.health_check, setting.options.spares) = (None, setting.options.spares.min(1));
        (setting.priorities, setting.weights) = (1, 1);
        (setting.caller_every, setting.hold) = (Duration::from_millis(5), Duration::from_millis(20));
        setting.dial = setting.dial.min(Duration::from_millis(20));
        let mut world = World::new(setting, seed, trace);
        world.behave(0, Behaviour::FailsUses);
        world.publish_all();
        world.run_for(Duration::from_secs(60));
        // By the default policy, three attempts, five probes with growing delays and then one every 3 s, less its spread. A probe
        // that connects is followed by the others of its share, which fail as well, and by another one if it was idle for a second.
        let (dials, most) = (world.dials_to(0), 2 * (8 + 60 / 2) * world.setting.options.maximum);
        assert!(dials <= most, "{dials} connects in a minute, not {most}");
        world.end();
    });
}

/// Callers come and go at servers that have room for fewer than are wanted.
#[test]
fn full_servers_are_tried_by_one_slot_each() {
    for_each_schedule(500, |seed, trace| {
        let mut setting = Setting::with_one_that_hangs(seed);
        setting.servers = 1 + Random::new(seed).below(3);
        // Every server is wanted to its last place.
        (setting.priorities, setting.weights) = (1, 1);
        (setting.options.maximum, setting.options.spares) = (20, 20);
        // Checks of a full server fail.
        setting.options.health_check = None;
        setting.dial = setting.dial.min(Duration::from_millis(100));
        let mut world = World::new(setting, seed, trace);
        let room = 1 + Random::new(seed).below(5);
        for server in 0..world.setting.servers {
            world.behave(server, Behaviour::HasRoomFor(room));
        }
        world.publish_all();
        world.run_for(Duration::from_secs(60));
        // By the default policy, three attempts and then a rest of three seconds, less its spread; and those that were under way
        // when it was first found full.
        let most = world.setting.servers * (10 + 3 * 23);
        assert!(world.turned_away() <= most, "{} turned away in a minute, not {most}", world.turned_away());
        // A few more may have found room at the same moment.
        assert!(world.machine.counts().working() >= world.setting.servers * room);
        world.end();
    });
}

/// Every server is down, then one accepts connections again. What holds while all are down is in `world/promises.rs`.
#[test]
fn outage_ends_for_claims_within_a_second_of_the_first_server_that_is_back() {
    for_each_schedule(1_000, |seed, trace| {
        let mut world = World::new(Setting::with_an_outage(seed), seed, trace);
        let mut random = Random::new(seed);
        world.publish_all();
        world.run_for(Duration::from_millis(random.below(3_000) as u64));
        let (servers, maximum) = (world.setting.servers, world.setting.options.maximum);
        let back = random.below(servers);
        for server in 0..servers {
            // With fewer slots than servers, attempts that hang leave none for the others.
            let hangs = server != back && maximum >= servers && random.chance(0.3);
            world.behave(server, if hangs { Behaviour::Hangs } else { Behaviour::Refuses });
        }
        // Connections that were accepted just before that are closed as well.
        world.run_for(world.setting.dial);
        (0..servers).for_each(|server| world.cut_off(server));
        let are_dead = |world: &World| world.machine.dead_of_known() == (servers, servers);
        let down = world.run_until_holds(world.clock + HOUR, are_dead);
        assert!(down, "every server is down, and not every one is dead");
        world.run_for(Duration::from_millis(random.below(12_000) as u64));
        world.behave(back, Behaviour::Healthy);
        let first = world.claims_so_far();
        let trifles = (1 + servers as u32) * world.setting.dial + 20 * world.setting.latency;
        let bound = Duration::from_secs(1) + trifles;
        let is_over = world.run_until_holds(world.clock + bound, |world| world.machine.state() == State::Running);
        assert!(is_over, "outage: not over {bound:?} after server {back} was back");
        let failed = world.refused_from(0);
        world.run_for(Duration::from_secs(8));
        assert_eq!(world.refused_from(first), 0, "outage: a claim failed that was made after a server was back");
        assert_eq!(world.refused_from(0), failed, "outage: a claim failed that had waited for it to end");
        world.end();
    });
}

/// Every server restarts while most connections idle. Only a use shows that a connection broke: its user reports that, or it fails the
/// validation after the use. From then on nothing of that server is lent that was opened before.
#[test]
fn h8_after_a_restart_only_uses_fail_that_began_before_a_failure_was_seen() {
    for_each_schedule(1_500, |seed, trace| {
        let mut world = World::new(Setting::with_a_restart(seed), seed, trace);
        world.publish_all();
        world.run_for(Duration::from_millis(500 + Random::new(seed).below(3_000) as u64));
        (0..world.setting.servers).for_each(|server| world.cut_off(server));
        let refused = world.refused_from(0);
        world.run_for(Duration::from_secs(10));
        assert_eq!(world.refused_from(0), refused, "H8: a claim was not served after the restart");
        world.no_suspect_is_left();
        world.end();
    });
}

/// Names keep moving from one address to another; the old ones go on, hang, or die.
#[test]
fn promise_9_a_new_address_under_an_old_name_moves_traffic() {
    for_each_schedule(1_500, |seed, trace| {
        let mut setting = Setting::with_one_that_hangs(seed);
        setting.servers = [2, 4][Random::new(seed).below(2)];
        setting.stuck = None;
        (setting.priorities, setting.weights) = ([1, 2][seed as usize % 2], [1, 4][seed as usize / 2 % 2]);
        setting.dial = setting.dial.min(Duration::from_millis(100));
        let mut random = Random::new(seed);
        let mut world = World::new(setting, seed, trace);
        let mut addresses: Vec<usize> = (0..world.setting.servers).step_by(2).collect();
        world.publish(&addresses);
        for _ in 0..8 {
            world.run_for(Duration::from_millis(random.below(2_000) as u64));
            let moving = random.below(addresses.len());
            let (old, new) = (addresses[moving], addresses[moving] ^ 1);
            addresses[moving] = new;
            world.behave(new, Behaviour::Healthy);
            if random.chance(0.5) {
                world.behave(old, Behaviour::Hangs);
            } else if random.chance(0.5) {
                world.cut_off(old);
            }
            world.publish(&addresses);
        }
        world.run_for(Duration::from_secs(5));
        assert_eq!(world.refused_claims(), 0, "promise 9: not every claim was granted something");
        world.end();
    });
}

#[test]
fn promise_10_one_hanging_backend_never_blocks_claims_that_another_can_serve() {
    for_each_schedule(3_000, |seed, trace| {
        let setting = Setting::with_one_that_hangs(seed);
        let mut random = Random::new(seed);
        let mut world = World::new(setting, seed, trace);
        let hanging = random.below(world.setting.servers);
        let begins = Duration::from_millis([0, random.below(10_000) as u64][random.below(2)]);
        if begins.is_zero() {
            world.behave(hanging, Behaviour::Hangs);
        }
        world.publish_all();
        world.run_until(begins);
        world.behave(hanging, Behaviour::Hangs);
        if world.setting.stuck.is_none() {
            world.cut_off(hanging);
        }
        world.run_for(Duration::from_secs(20));
        assert_eq!(world.refused_claims(), 0, "promise 10: not every claim was granted something");
        world.end();
    });
}

/// Nothing comes back, and every slot is needed but the one that watches the hanging backend.
#[test]
fn promise_10_a_hanging_backend_does_not_keep_slots_that_another_could_use() {
    for_each_schedule(2_000, |seed, trace| {
        let mut setting = Setting::with_one_that_hangs(seed);
        setting.hold = HOUR;
        setting.stuck = Some(HOUR);
        (setting.priorities, setting.weights) = (1, 1);
        setting.dial = setting.dial.min(Duration::from_millis(100));
        setting.patience = (Duration::from_secs(4), Duration::from_secs(8));
        let mut random = Random::new(seed);
        let mut world = World::new(setting, seed, trace);
        world.stop_the_rhythm();
        world.publish_all();
        let (hanging, claims) = (random.below(world.setting.servers), world.setting.options.maximum - 1);
        let healthy = random.below(claims + 1);
        for claim in 0..claims {
            if claim == healthy {
                world.behave(hanging, Behaviour::Hangs);
                world.run_for(Duration::from_millis(random.below(1_000) as u64));
            }
            world.caller_comes();
            world.run_for(Duration::from_millis(random.below(1_000) as u64));
        }
        world.run_for(Duration::from_secs(8));
        assert_eq!(world.refused_claims(), 0, "promise 10: not every claim was granted something");
        world.end();
    });
}
