//! Probes of backends that cannot be connected to: they have no slot, and few run at a time.

use crate::stage::{self, Stage, ms, policy};
use crate::world::{Behaviour, Setting, World, for_each_schedule};
use carom_core::backend::BackendState;
use carom_core::pool::{Ending, Options, Outcome, State};
use carom_core::random::Random;
use carom_core::recovery::Policy;
use carom_core::slot::Phase;
use std::time::Duration;

/// A hold time so long that hardly any claim is released.
const FOR_EVER: Duration = Duration::from_secs(1_000_000_000);

/// Backend 1 serves with as many connections as there are spares, the others are dead and are probed every second.
fn with_dead(options: Options, dead: &[u16]) -> Stage {
    let (spares, maximum) = (options.spares, options.maximum);
    let mut stage = Stage::new(Options { spares: 64, maximum: 64, ..options });
    let all: Vec<u16> = [1].iter().chain(dead).copied().collect();
    stage.backends(&all);
    while stage.machine.dead_of_known().0 < dead.len() {
        stage.accept_all_of(1);
        if let Some(&(_, number)) = stage.dials.first() {
            stage.refuse(number);
        }
    }
    stage.accept_all_of(1);
    for maximum in [spares.max(1), maximum] {
        stage.machine.resize(stage.now, spares, maximum).unwrap();
        stage.go();
    }
    stage
}

/// Dead after one attempt, and probed every second.
fn options(spares: usize, maximum: usize) -> Options {
    Options { recovery: policy(1).delay(ms(1_000)).into(), ..stage::options(spares, maximum) }
}

fn state_of(stage: &Stage, number: u16) -> BackendState {
    let snapshot = stage.machine.snapshot();
    snapshot.backends.iter().find(|found| found.backend.port() == number).unwrap().state
}

#[test]
fn all_connections_can_be_claimed_while_nine_of_ten_backends_are_dead() {
    let mut stage = with_dead(options(0, 4), &[2, 3, 4, 5, 6, 7, 8, 9, 10]);
    let waiters: Vec<_> = (0..4).map(|_| stage.claim(ms(60_000))).collect();
    stage.accept_all_of(1);
    assert_eq!((stage.of(Phase::Busy), stage.counts().total()), (4, 4), "{waiters:?}");
    stage.pass(ms(1_000));
    assert_eq!((stage.of(Phase::Busy), stage.counts().total()), (4, 4));
    assert_eq!(stage.dials.len(), 4, "as many probes run");
}

#[test]
fn all_connections_can_be_claimed_while_attempts_at_four_of_five_backends_hang() {
    let mut stage = Stage::new(options(0, 4));
    stage.backends(&[1, 2, 3, 4, 5]);
    let waiters: Vec<_> = (0..4).map(|_| stage.claim(ms(60_000))).collect();
    for _ in 0..20 {
        stage.accept_all_of(1);
        stage.pass(ms(15));
    }
    assert_eq!((stage.of(Phase::Busy), stage.counts().total()), (4, 4), "{waiters:?}");
    assert_eq!((stage.machine.dead_of_known(), stage.dials.len()), ((0, 5), 4), "their attempts go on as probes");
}

#[test]
fn probe_that_connects_becomes_an_idle_connection_if_there_is_room() {
    let mut stage = with_dead(options(1, 2), &[2]);
    stage.pass_until(|stage| stage.dialling(2) > 0);
    assert_eq!((stage.slots_of(2), stage.machine.snapshot().probes.total()), (0, 1));
    let closed = stage.closed;
    stage.accept(2);
    assert_eq!((stage.counts_of(2).of(Phase::Idle), stage.machine.snapshot().probes.total()), (1, 0));
    assert_eq!((state_of(&stage, 2), stage.closed - closed), (BackendState::Healthy, 0));
}

#[test]
fn probe_that_connects_without_room_closes_and_its_backend_is_healthy() {
    let mut stage = with_dead(options(0, 2), &[2]);
    let held = [stage.take_connecting(), stage.take_connecting()];
    assert!(held.iter().all(|&slot| stage.lent_from(slot) == 1));
    stage.pass_until(|stage| stage.dialling(2) > 0);
    let closed = stage.closed;
    stage.accept(2);
    assert_eq!((state_of(&stage, 2), stage.closed - closed, stage.counts().total()), (BackendState::Healthy, 1, 2));
    // It has its share when the claims come back.
    held.into_iter().for_each(|slot| stage.release(slot, Outcome::Open));
    assert_eq!((stage.slots_of(1), stage.dialling(2)), (1, 1));
}

#[test]
fn probe_that_connects_serves_a_claim_that_waits_for_the_delay_of_another_backend() {
    let recovery = policy(1).delay(ms(10_000)).max_delay(ms(10_000)).into();
    let mut stage = with_dead(Options { recovery, ..options(1, 1) }, &[2]);
    stage.pass(ms(5_000));
    stage.end_idle(1);
    let waiter = stage.wait(ms(60_000));
    assert_eq!((stage.of(Phase::Backoff), stage.counts().total()), (1, 1), "there is no room");
    stage.pass_until(|stage| stage.dialling(2) > 0);
    stage.accept(2);
    assert_eq!(stage.granted(waiter).map(|slot| stage.lent_from(slot)), Some(2));
    assert_eq!(stage.counts().total(), 1);
}

#[test]
fn no_more_than_16_probes_run_and_each_has_its_turn() {
    let dead: Vec<u16> = (2..=40).collect();
    let mut stage = with_dead(options(1, 64), &dead);
    let mut probed = [0; 41];
    for _ in 0..200 {
        stage.pass(ms(50));
        assert!(stage.dials.len() <= 16, "{} run", stage.dials.len());
        for (_, number) in stage.dials.clone().into_iter().take(4) {
            probed[usize::from(number)] += 1;
            stage.refuse(number);
        }
    }
    assert!(probed[2..].iter().all(|&times| times >= 5), "{probed:?}");
}

#[test]
fn probes_end_when_the_pool_closes_or_their_backend_is_removed() {
    let mut stage = with_dead(options(1, 4), &[2, 3]);
    stage.pass_until(|stage| stage.dialling(2) > 0 && stage.dialling(3) > 0);
    stage.backends(&[1, 2]);
    assert_eq!((stage.dialling(2), stage.dialling(3), stage.machine.snapshot().probes.total()), (1, 0, 1));
    stage.machine.close(stage.now);
    stage.go();
    assert_eq!((stage.dials.len(), stage.machine.state()), (0, State::Stopped));
}

/// The delays between the probes of backend 2, which refuses them, in milliseconds.
fn delays_of_probes(stage: &mut Stage, probes: usize) -> Vec<u128> {
    let mut delay = || {
        let before = stage.now;
        stage.pass_until(|stage| stage.dialling(2) > 0);
        stage.refuse(2);
        (stage.now - before).as_millis()
    };
    (0..probes).map(|_| delay()).collect()
}

#[test]
fn delays_of_probes_grow_up_to_max_delay_while_another_backend_serves() {
    let recovery = || Policy::default().spread(0.0).into();
    let mut stage = Stage::connected(Options { recovery: recovery(), ..options(2, 4) }, &[1]);
    stage.backends(&[1, 2]);
    stage.machine.resize(stage.now, 4, 4).unwrap();
    stage.go();
    assert_eq!(delays_of_probes(&mut stage, 9), [0, 100, 200, 400, 800, 1_600, 3_000, 3_000, 3_000]);
    stage.pass_until(|stage| stage.dialling(2) > 0);
    stage.accept(2);
    // A connection that is closed unused within a second is one more failed attempt.
    stage.pass(ms(600));
    let ended: Vec<_> = stage.watches.iter().copied().filter(|&slot| stage.machine.is_current(slot)).collect();
    let ended =
        ended.into_iter().find(|slot| stage.machine.life(*slot).is_some_and(|life| life.born() + ms(600) == stage.now));
    stage.machine.handle_ended(stage.now, ended.unwrap(), Ending::Seen);
    stage.go();
    assert_eq!(state_of(&stage, 2), BackendState::Dead);
    // Another attempt was under way.
    assert_eq!(delays_of_probes(&mut stage, 3), [0, 3_000, 3_000]);
}

/// With any number of dead backends as many claims are held at once as the maximum says. Some of the dead come back meanwhile.
#[test]
fn h4_all_connections_can_be_held_however_many_backends_are_dead() {
    for_each_schedule(1_500, |seed, trace| {
        let mut random = Random::new(seed);
        let mut setting = Setting::with_one_that_hangs(seed);
        (setting.hold, setting.stuck) = (FOR_EVER, None);
        (setting.servers, setting.priorities) = (1 + random.below(10), 1);
        (setting.options.maximum, setting.options.health_check) = (1 + random.below(12), None);
        setting.options.spares = random.below(setting.options.maximum + 1);
        setting.dial = setting.dial.min(Duration::from_millis(50));
        setting.patience = (Duration::from_secs(600), Duration::from_secs(700));
        let (servers, maximum) = (setting.servers, setting.options.maximum);
        let mut world = World::new(setting, seed, trace);
        world.stop_the_rhythm();
        let healthy = 1 + random.below(servers);
        for server in healthy..servers {
            world.behave(server, if random.chance(0.5) { Behaviour::Hangs } else { Behaviour::Refuses });
        }
        world.publish_all();
        // Backends that are not needed are not tried, and not called dead.
        for _ in 0..maximum {
            world.caller_comes();
        }
        world.run_until_holds(world.clock + Duration::from_secs(300), |world| {
            world.machine.dead_of_known().0 == servers - healthy
        });
        let bound = Duration::from_secs(3) + 2 * (maximum as u32) * world.setting.dial;
        world.run_for(bound);
        let held = |world: &World| world.machine.counts().of(Phase::Busy);
        assert_eq!(held(&world), maximum, "H4: {healthy} of {servers} serve");
        for server in healthy..servers {
            world.behave(server, Behaviour::Healthy);
        }
        world.run_for(Duration::from_secs(60));
        assert_eq!(held(&world), maximum);
        assert_eq!(world.machine.dead_of_known().0, 0, "a probe finds out that a backend is back");
        world.end();
    });
}
