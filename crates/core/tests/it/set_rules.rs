//! How connections of a set come to their end: unused, given up by the resolver, ended by the far side, closed. Each test is
//! named for its rule.

use crate::set_stage::{Stage, at, eager, lazy, ms, policy, to};
use carom_core::idle::Idleness;
use carom_core::recovery::Recovery;
use carom_core::set::{Action, ConnectionId, Leased, Options, Refusal, State, Want};
use std::time::Duration;

/// Somebody has held it and let go just now; the detector looks at 2 s, 4 s and so on.
fn unused(stage: &mut Stage) -> ConnectionId {
    let id = stage.connect(to(1));
    stage.release(id);
    id
}

#[test]
fn an_unused_connection_is_marked_and_then_released() {
    let mut stage = Stage::new(lazy());
    let id = unused(&mut stage);
    stage.pass(ms(1_999));
    assert_eq!(stage.idleness(id), Idleness::Using, "nobody has looked");
    stage.pass(ms(1));
    assert_eq!(stage.idleness(id), Idleness::IdleMarked { since: stage.start });
    stage.pass(ms(7_999));
    assert!(stage.is_up(id));
    stage.news();
    stage.pass(ms(1));
    assert_eq!(stage.news(), [Action::Removed(id), Action::Shut(id)]);
    stage.pass(ms(60_000));
    assert_eq!(stage.machine.next_timeout(), None, "nothing is left to look at");
}

#[test]
fn a_lease_wins_a_marked_connection_back() {
    let mut stage = Stage::new(lazy());
    let id = unused(&mut stage);
    stage.pass(ms(9_000));
    assert!(matches!(stage.idleness(id), Idleness::IdleMarked { .. }));
    assert_eq!(stage.take(to(1)), id);
    assert_eq!(stage.idleness(id), Idleness::Using);
    stage.pass(ms(60_000));
    assert!(stage.is_up(id), "it is held");
    let released = stage.now;
    stage.release(id);
    stage.pass(ms(9_999));
    assert!(stage.is_up(id), "the time starts anew");
    stage.pass(ms(2_001));
    assert!(!stage.is_up(id) && stage.now == released + ms(12_000));
}

/// Pulsar's checklist, missing upstream: borrow during RELEASING.
#[test]
fn a_lease_between_look_and_release_wins() {
    let mut stage = Stage::new(lazy());
    let id = unused(&mut stage);
    stage.pass(ms(9_999));
    stage.now += ms(1);
    stage.machine.handle_timeout(stage.now);
    stage.go();
    assert_eq!(stage.idleness(id), Idleness::BeforeRelease { since: stage.start });
    assert_eq!(stage.machine.next_timeout(), Some(stage.now), "the rest is due at once");
    assert_eq!(stage.take(to(1)), id);
    stage.pass(ms(1_000));
    assert!(stage.is_up(id));
    assert_eq!((stage.idleness(id), stage.dialled), (Idleness::Using, 1));
}

/// Pulsar's checklist, missing upstream: borrow after RELEASED.
#[test]
fn a_lease_after_the_release_dials_anew() {
    let mut stage = Stage::new(lazy());
    let id = unused(&mut stage);
    stage.pass(ms(10_000));
    assert!(!stage.is_up(id));
    let next = stage.connect(to(1));
    assert_ne!(next, id);
    stage.release(id);
    assert_eq!(stage.glance(next).leases, 1, "a late release of the old one is nothing to the new one");
}

/// Pulsar's checklist, missing upstream: pass during handshake.
#[test]
fn a_look_during_a_dial_does_nothing_to_it() {
    let mut stage = Stage::new(lazy());
    unused(&mut stage);
    stage.pass(ms(1_900));
    let waiter = stage.wait(to(2));
    stage.pass(ms(200));
    assert_eq!(stage.dialling(), [2]);
    let id = stage.accept(2);
    assert_eq!((stage.granted(waiter), stage.idleness(id)), (Some(id), Idleness::Using));
}

#[test]
fn without_max_idle_everything_is_kept() {
    let mut stage = Stage::new(Options { max_idle: None, ..lazy() });
    let id = unused(&mut stage);
    stage.pass(Duration::from_secs(1_000_000));
    assert!(stage.is_up(id));
    assert_eq!(stage.machine.next_timeout(), None);
}

#[test]
fn one_that_is_held_is_never_released_however_long() {
    let mut stage = Stage::new(lazy());
    let id = stage.connect(to(1));
    stage.take(to(1));
    stage.release(id);
    stage.pass(Duration::from_secs(10_000));
    assert!(stage.is_up(id));
}

#[test]
fn one_that_nobody_came_for_is_released_too() {
    let mut stage = Stage::new(Options { target: None, maximum: None, ..eager(1, 1) });
    stage.backends(&[1]);
    let id = stage.accept(1);
    stage.pass(ms(60_000));
    assert!(stage.is_up(id), "an eager set keeps it");
    let foreign = stage.connect(to(9));
    stage.release(foreign);
    stage.pass(ms(14_000));
    assert!(!stage.is_up(foreign) && stage.is_up(id));
}

/// Whatever the times, and however often it is looked.
#[test]
fn it_lives_for_max_idle_after_its_last_use_and_two_looks_more_at_most() {
    for max_idle in [1, 700, 10_000] {
        for interval in [1, 300, 2_000, 25_000] {
            for held in [0, 13, 777, 12_345] {
                let options = Options { max_idle: Some(ms(max_idle)), idle_interval: Some(ms(interval)), ..lazy() };
                let mut stage = Stage::new(options);
                let id = stage.connect(to(1));
                stage.pass(ms(held));
                stage.release(id);
                stage.pass(ms(max_idle) - ms(1));
                assert!(stage.is_up(id), "{max_idle} {interval} {held}");
                stage.pass(ms(1) + 2 * ms(interval));
                assert!(!stage.is_up(id), "{max_idle} {interval} {held}");
            }
        }
    }
}

#[test]
fn a_clock_that_jumps_still_leaves_a_chance_to_lease() {
    let mut stage = Stage::new(lazy());
    let id = unused(&mut stage);
    stage.now += Duration::from_secs(3_600);
    stage.machine.handle_timeout(stage.now);
    stage.go();
    assert!(matches!(stage.idleness(id), Idleness::IdleMarked { .. }), "a look marks; a later one releases");
    assert_eq!(stage.take(to(1)), id);
}

#[test]
fn a_removed_backend_is_drained_and_ends_with_its_last_lease() {
    let mut stage = Stage::knowing(lazy(), &[1, 2]);
    let id = stage.connect(to(1));
    stage.take(to(1));
    stage.news();
    stage.backends(&[2]);
    assert_eq!(stage.news(), [Action::Removed(id), Action::Drain(id)]);
    assert!(stage.is_draining(id));
    stage.backends(&[2, 3]);
    assert_eq!(stage.news(), [], "its holders are told once");
    let waiter = stage.wait(Want::any());
    assert!(!stage.dialling().contains(&1), "it takes no new leases");
    stage.cancel(waiter);
    stage.news();
    stage.release(id);
    assert_eq!(stage.news(), []);
    stage.release(id);
    assert_eq!(stage.news(), [Action::Shut(id)]);
}

#[test]
fn a_removed_backend_without_leases_ends_at_once() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    let id = unused(&mut stage);
    stage.news();
    stage.backends(&[]);
    assert_eq!(stage.news(), [Action::Removed(id), Action::Shut(id)]);
}

#[test]
fn draining_ends_at_its_timeout() {
    let mut stage = Stage::knowing(Options { drain_timeout: ms(5_000), ..lazy() }, &[1]);
    let id = stage.connect(to(1));
    stage.backends(&[]);
    stage.news();
    stage.pass(ms(4_999));
    assert_eq!(stage.news(), []);
    stage.pass(ms(1));
    assert_eq!(stage.news(), [Action::Shut(id)]);
    stage.release(id);
    stage.ended(id);
    assert_eq!(stage.news(), [], "those who held it let go of nothing");
}

#[test]
fn a_backend_that_comes_back_while_draining_gets_a_new_connection() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    let old = stage.connect(to(1));
    stage.backends(&[]);
    stage.backends(&[1]);
    stage.pass(ms(1));
    let new = stage.connect(Want::any());
    assert_ne!(old, new);
    assert!(stage.is_draining(old) && !stage.is_draining(new));
    assert_eq!(stage.take(to(1)), new);
    stage.release(old);
    assert!(!stage.is_up(old) && stage.is_up(new));
}

#[test]
fn a_removed_backend_that_somebody_waits_for_by_name_is_dialled_on() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    let (named, any) = (stage.wait(to(1)), stage.wait(Want::any()));
    stage.backends(&[]);
    let id = stage.accept(1);
    assert_eq!((stage.granted(named), stage.granted(any)), (Some(id), None));
    stage.backends(&[2]);
    stage.accept(2);
    assert!(stage.granted(any).is_some());
    assert!(!stage.is_draining(id), "it was foreign when it came up");
}

#[test]
fn a_dial_that_only_served_anybody_ends_with_its_backend() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    let any = stage.wait(Want::any());
    let dial = stage.dial_to(1);
    stage.backends(&[2]);
    assert_eq!((stage.news(), stage.dialling()), (vec![Action::Abort(dial)], vec![2]));
    stage.accept(2);
    assert!(stage.granted(any).is_some());
}

/// Removal matches the very connection: dotpulsar #291's second race.
#[test]
fn what_is_said_late_of_an_old_connection_is_nothing_to_its_successor() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    let old = stage.connect(to(1));
    stage.pass(ms(1_000));
    stage.ended(old);
    let waiter = stage.wait(to(1));
    let dial = stage.dial_to(1);
    for _ in 0..2 {
        stage.ended(old);
        stage.failed(old);
        stage.connected(old);
        stage.release(old);
        assert_eq!((stage.dialling(), stage.waits(waiter)), (vec![1], true));
    }
    stage.connected(dial);
    stage.news();
    stage.ended(old);
    stage.failed(old);
    stage.connected(old);
    stage.release(old);
    stage.failed(dial);
    stage.connected(dial);
    assert_eq!(stage.news(), []);
    assert_eq!((stage.granted(waiter), stage.glance(dial).leases), (Some(dial), 1));
}

#[test]
fn a_connection_that_ends_is_removed_once_and_its_leases_come_back_to_nothing() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    let id = stage.connect(to(1));
    stage.take(to(1));
    stage.news();
    stage.ended(id);
    assert_eq!(stage.news(), [Action::Removed(id)], "not shut: it has ended");
    stage.ended(id);
    stage.release(id);
    stage.release(id);
    assert_eq!((stage.news(), stage.machine.snapshot().leases), (vec![], 0));
    assert_eq!(stage.dials.len(), 0, "a lazy set dials for somebody only");
}

#[test]
fn a_draining_connection_that_ends_was_removed_already() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    let id = stage.connect(to(1));
    stage.backends(&[]);
    stage.news();
    stage.ended(id);
    assert_eq!(stage.news(), []);
    stage.pass(ms(60_000));
    assert_eq!(stage.news(), [], "nothing is shut that is not there");
}

#[test]
fn one_that_ends_unused_within_a_second_backs_off_longer_each_time() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    for delay in [100, 100, 200, 400, 800, 1_000, 1_000] {
        let id = stage.connect(to(1));
        stage.pass(ms(999));
        stage.ended(id);
        let waiter = stage.wait(to(1));
        stage.pass(ms(delay - 1));
        assert_eq!(stage.dials.len(), 0, "before {delay} ms are over");
        stage.pass(ms(1));
        assert_eq!(stage.dialling(), [1]);
        stage.cancel(waiter);
        stage.pass(ms(1));
    }
    let id = stage.connect(to(1));
    stage.pass(ms(1_000));
    stage.ended(id);
    stage.connect(to(1));
}

/// nginx closes a connection after `keepalive_requests`; that is no failure, however young the connection is.
#[test]
fn backend_that_closes_connections_after_use_is_dialled_again_without_delay() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    for _ in 0..10 {
        let id = stage.connect(to(1));
        stage.release(id);
        stage.pass(ms(2));
        stage.ended(id);
    }
    assert_eq!(stage.now - stage.start, ms(20), "no dial waited");
}

#[test]
fn eager_set_replaces_a_connection_closed_after_use_without_delay() {
    let mut stage = Stage::knowing(eager(1, 1), &[1]);
    for dialled in 1..=10 {
        let id = stage.accept(1);
        assert_eq!(stage.take(Want::any()), id);
        stage.release(id);
        stage.pass(ms(2));
        stage.ended(id);
        assert_eq!((stage.dialling(), stage.dialled), (vec![1], dialled + 1));
    }
}

#[test]
fn two_dials_of_one_place_begin_at_least_1_ms_apart() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    let id = stage.connect(to(1));
    stage.release(id);
    stage.ended(id);
    let waiter = stage.wait(to(1));
    stage.pass(Duration::from_micros(999));
    assert_eq!(stage.dials.len(), 0);
    stage.pass(Duration::from_micros(1));
    let id = stage.accept(1);
    assert_eq!(stage.granted(waiter), Some(id));
}

/// A response and the end of the connection may arrive together: the driver may learn of the end first.
#[test]
fn use_reported_after_the_connection_has_ended_cancels_the_backoff() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    let id = stage.connect(to(1));
    stage.pass(ms(5));
    stage.ended(id);
    let (named, any) = (stage.wait(to(1)), stage.wait(Want::any()));
    stage.release(id);
    assert_eq!(stage.dials.len(), 0, "unused so far");
    stage.served(1, id);
    let next = stage.accept(1);
    assert_eq!((stage.granted(named), stage.granted(any)), (Some(next), Some(next)));
}

#[test]
fn use_reported_after_the_connection_was_retired_cancels_the_backoff() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    let id = stage.connect(to(1));
    stage.pass(ms(5));
    stage.retire(id);
    let waiter = stage.wait(to(1));
    assert_eq!(stage.dials.len(), 0, "unused so far");
    stage.served(1, id);
    let next = stage.accept(1);
    assert_eq!(stage.granted(waiter), Some(next));
}

#[test]
fn use_reported_late_does_not_cancel_the_backoff_of_a_failed_dial() {
    let mut stage = Stage::knowing(Options { recovery: Recovery::from(policy(3)), ..lazy() }, &[1]);
    let id = stage.connect(to(1));
    stage.pass(ms(5));
    stage.ended(id);
    let waiter = stage.wait(to(1));
    stage.pass(ms(100));
    stage.refuse(1);
    stage.served(1, id);
    assert_eq!((stage.dials.len(), stage.waits(waiter)), (0, true));
    stage.pass(ms(200));
    assert_eq!(stage.dialling(), [1]);
}

#[test]
fn closing_refuses_waiters_ends_what_is_unused_and_waits_for_the_rest() {
    let mut stage = Stage::knowing(Options { per_backend: 2, connecting_per_backend: 1, ..lazy() }, &[1, 2, 3]);
    let held = stage.connect(to(1));
    let unused = stage.connect(to(2));
    stage.release(unused);
    let waiters = [stage.wait(at(3, 0)), stage.wait(at(3, 1)), stage.wait(to(9))];
    let dialled = stage.dialled;
    stage.news();
    stage.machine.close(stage.now);
    stage.go();
    assert!(waiters.iter().all(|waiter| stage.refused(*waiter) == Some(Refusal::Closed)));
    assert_eq!((stage.dials.len(), stage.dialled), (0, dialled), "nothing is dialled any more, for nobody");
    assert_eq!(stage.machine.state(), State::Stopping);
    assert!(stage.is_draining(held) && !stage.is_up(unused));
    assert_eq!(stage.lease(to(1)), Leased::Refused(Refusal::Closed));
    assert_eq!(stage.lease(Want::any()), Leased::Refused(Refusal::Closed));
    stage.backends(&[4]);
    stage.pass(Duration::from_secs(3_600));
    assert_eq!((stage.up(), stage.dials.len()), (1, 0), "its holder has all the time in the world");
    stage.release(held);
    assert_eq!((stage.up(), stage.machine.state()), (0, State::Stopped));
    stage.machine.close(stage.now);
    stage.machine.handle_resolver_failed();
    stage.go();
    assert_eq!(stage.machine.state(), State::Stopped);
}

#[test]
fn a_dial_that_succeeds_after_the_close_changes_nothing() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    stage.wait(to(1));
    let dial = stage.dial_to(1);
    stage.machine.close(stage.now);
    stage.go();
    assert_eq!(stage.machine.state(), State::Stopped);
    stage.connected(dial);
    assert_eq!((stage.machine.state(), stage.up()), (State::Stopped, 0));
}

#[test]
fn abandoning_ends_what_is_held() {
    let mut stage = Stage::knowing(lazy(), &[1]);
    let id = stage.connect(to(1));
    let waiter = stage.wait(to(2));
    stage.machine.close(stage.now);
    stage.go();
    stage.news();
    stage.machine.abandon(stage.now);
    stage.go();
    assert_eq!((stage.news(), stage.machine.state()), (vec![Action::Shut(id)], State::Stopped));
    assert_eq!(stage.refused(waiter), Some(Refusal::Closed));
    let mut stage = Stage::knowing(lazy(), &[1]);
    let id = stage.connect(to(1));
    stage.news();
    stage.machine.abandon(stage.now);
    stage.go();
    assert_eq!(stage.news(), [Action::Removed(id), Action::Drain(id), Action::Shut(id)]);
    assert_eq!(stage.machine.state(), State::Stopped);
}

#[test]
fn a_removed_backend_that_drains_when_the_set_closes_keeps_its_deadline() {
    let mut stage = Stage::knowing(Options { drain_timeout: ms(5_000), ..lazy() }, &[1]);
    stage.connect(to(1));
    stage.backends(&[]);
    stage.pass(ms(1_000));
    stage.machine.close(stage.now);
    stage.go();
    assert_eq!(stage.machine.state(), State::Stopping);
    stage.pass(ms(4_000));
    assert_eq!(stage.machine.state(), State::Stopped);
}

#[test]
fn states_follow_what_is_known_of_backends() {
    let mut stage = Stage::knowing(lazy(), &[1, 2]);
    assert_eq!(stage.machine.state(), State::Starting);
    stage.wait(to(1));
    stage.kill(1);
    assert_eq!(stage.machine.state(), State::Starting, "the other may work");
    stage.backends(&[1]);
    assert_eq!(stage.machine.state(), State::Failed, "nobody else is there");
    stage.pass(ms(200));
    let id = stage.connect(to(1));
    assert_eq!(stage.machine.state(), State::Running);
    stage.pass(ms(1_000));
    stage.ended(id);
    assert_eq!(stage.machine.state(), State::Running);
}

#[test]
fn options_that_make_no_sense_are_named() {
    let said = |options: Options| options.validate().unwrap_err().to_string();
    assert!(lazy().validate().is_ok() && eager(2, 3).validate().is_ok());
    assert!(said(Options { per_backend: 0, ..eager(1, 1) }).starts_with("per_backend must be at least 1"));
    assert!(said(eager(2, 1)).contains("target"));
    assert!(said(eager(0, 1)).contains("target"));
    assert!(said(Options { target: None, ..eager(1, 0) }).contains("maximum"));
    assert!(said(Options { eager: false, ..eager(1, 1) }).contains("target"));
    let hasty = Recovery::from(policy(1).delay(ms(0)));
    assert_eq!(
        said(Options { recovery: hasty.clone(), ..eager(1, 1) }),
        "recovery of an eager set: default policy: delay must be at least 1ms, not 0ns"
    );
    assert_eq!(Options { recovery: hasty, ..lazy() }.validate(), Ok(()));
    assert!(said(Options { max_idle: Some(ms(0)), ..lazy() }).contains("max_idle"));
    assert!(said(Options { connecting_per_backend: 0, ..lazy() }).contains("connecting_per_backend"));
}
