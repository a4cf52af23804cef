//! What a feed does when connections fail in ways that opening another does not mend.

use crate::feed_stage::{Stage, ms, small, topic};
use carom_core::feed::{
    ConnectionId, ConnectionState, Delivery, End, Milestone, Mode, Options, Pending, Placement, Standing,
};
use carom_core::recovery::{Policy, Recovery};
use std::time::Duration;

/// Two connections that are up: the first full, the second with one topic.
fn one_and_a_half(options: Options) -> Stage {
    let mut stage = Stage::new(options);
    stage.carry(0..3);
    stage
}

/// Opens what is asked for, and writes what is to be written.
fn open(stage: &mut Stage) -> ConnectionId {
    let connection = stage.opening.pop().expect("it is opened");
    stage.machine.handle_opened(stage.now, connection);
    stage.settle();
    connection
}

/// How long it takes until another is opened.
fn delay(stage: &mut Stage) -> Duration {
    let from = stage.now;
    while stage.opening.is_empty() {
        stage.pass(ms(10));
    }
    stage.now - from
}

#[test]
fn a_connection_that_keeps_dying_young_is_opened_later_each_time() {
    let mut stage = one_and_a_half(small());
    let mut connection = stage.latest.expect("the second");
    let mut delays = Vec::new();
    for _ in 0..10 {
        stage.pass(ms(150));
        stage.machine.handle_ended(stage.now, connection, End::Lost);
        stage.go();
        delays.push(delay(&mut stage));
        connection = open(&mut stage);
        assert_eq!(stage.machine.snapshot().live, 3);
    }
    let doubled = [100, 200, 400, 800, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000].map(ms);
    assert_eq!(delays, doubled, "up to the longest, and it stays there");

    // A long life makes up for all of it.
    stage.pass(ms(1_000));
    stage.machine.handle_ended(stage.now, connection, End::Lost);
    stage.go();
    assert_eq!(delay(&mut stage), ms(0));
}

#[test]
fn while_the_upstream_is_down_the_delay_grows_evenly_to_its_longest() {
    // Delays as they are unless somebody says otherwise, but with nothing left to chance.
    let exact = Policy::default().attempts(8).max_delay(ms(10_000)).spread(0.0);
    for (recovery, about) in [(Recovery::from(exact), 0), (Options::default().recovery, 10)] {
        let mut stage = Stage::new(Options { recovery, ..small() });
        stage.waits(&topic(0, Mode::Quote));
        for expected in [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 10_000].map(ms) {
            let attempt = stage.opening.pop().expect("it is tried");
            stage.machine.handle_ended(stage.now, attempt, End::Lost);
            stage.go();
            let waited = delay(&mut stage);
            assert!(waited.abs_diff(expected) <= expected * about / 100 + ms(10), "{waited:?}, not {expected:?}");
        }
    }
}

#[test]
fn while_attempts_fail_what_is_subscribed_to_is_pending_at_once() {
    let mut stage = Stage::new(small());
    let fail = |stage: &mut Stage| {
        let attempt = stage.opening.pop().expect("it is tried");
        stage.machine.handle_ended(stage.now, attempt, End::Lost);
        stage.go();
    };
    // The first attempt may succeed any moment.
    stage.waits(&topic(0, Mode::Quote));
    fail(&mut stage);
    let down = (true, Some(Pending::Down));
    let told = |placement: Placement| (placement.pending, placement.why);
    assert_eq!(told(stage.placed(&topic(1, Mode::Quote))), down, "another attempt is made later");
    delay(&mut stage);
    assert_eq!(told(stage.placed(&topic(1, Mode::Depth))), down, "it is under way, and the last one has failed");
    // Who has waited since before is told when its time is over, and why.
    stage.pass(ms(3_000));
    let Some(Delivery::Placed { placement, .. }) = stage.machine.poll_delivery() else { panic!("it is told") };
    assert_eq!(told(placement), down);

    // A connection that is up may accept any moment, and one that was up just now may be back.
    delay(&mut stage);
    let connection = open(&mut stage);
    stage.leave(0);
    stage.waits(&topic(2, Mode::Quote));
    stage.settle();
    stage.pass(ms(5_000));
    stage.machine.handle_ended(stage.now, connection, End::Lost);
    stage.go();
    stage.waits(&topic(2, Mode::Depth));
    stage.settle();
    assert_eq!(told(stage.placed(&topic(2, Mode::Depth))), (false, None));
}

#[test]
fn topics_of_a_connection_that_dies_young_go_where_there_is_room_and_it_is_left_alone_for_its_time() {
    let mut stage = one_and_a_half(small());
    let connection = stage.latest.expect("the second");
    stage.leave(0);
    stage.settle();
    stage.machine.handle_ended(stage.now, connection, End::Lost);
    stage.settle();
    assert_eq!((stage.connection_of(2), stage.machine.snapshot().live), (1, 2));
    // Nobody needs it any more; whoever does soon after has to wait all the same.
    assert_eq!(stage.machine.snapshot().connections.len(), 1);
    stage.told.clear();
    stage.waits(&topic(3, Mode::Quote));
    assert!(stage.opening.is_empty() && !stage.told.iter().any(|told| matches!(told, Milestone::Opening { .. })));
    assert_eq!(delay(&mut stage), ms(100));
}

#[test]
fn a_connection_that_is_accepted_and_mute_does_not_keep_its_topics() {
    let mut stage = one_and_a_half(Options { stall_after: Some(ms(5_000)), ..small() });
    let (first, mute) = (stage.earliest.expect("the first"), stage.latest.expect("the second"));
    stage.leave(0);
    stage.settle();
    for _ in 0..5 {
        stage.pass(ms(1_000));
        assert_eq!(stage.machine.handle_heard(stage.now, first), Some(0));
    }
    assert_eq!((stage.closing.as_slice(), stage.goodbyes), ([mute].as_slice(), 0), "it would not hear a goodbye");
    assert_eq!(stage.machine.snapshot().connections[1].state, ConnectionState::Closing, "it has not ended yet");
    assert_eq!(stage.connection_of(2), 1);
    stage.settle();
    let glance = stage.machine.glance_at(&topic(2, Mode::Quote).instrument).unwrap();
    assert_eq!((glance.standing, stage.machine.snapshot().connections.len()), (Standing::Live, 1));
}

#[test]
fn a_mute_connection_is_opened_later_each_time() {
    let mut stage = Stage::new(Options { stall_after: Some(ms(5_000)), ..small() });
    stage.carry([0]);
    let mut delays = Vec::new();
    for _ in 0..6 {
        stage.pass(ms(5_000));
        let mute = stage.closing.pop().expect("it is given up");
        stage.machine.handle_ended(stage.now, mute, End::Lost);
        stage.go();
        delays.push(delay(&mut stage));
        open(&mut stage);
    }
    assert_eq!(delays, [100, 200, 400, 800, 1_000, 1_000].map(ms));
}

#[test]
fn a_connection_nobody_needs_gets_a_goodbye_and_one_that_is_cut_gets_none() {
    let mut stage = Stage::new(small());
    stage.carry([0]);
    stage.leave(0);
    stage.settle();
    stage.machine.close(stage.now);
    stage.go();
    assert_eq!((stage.closing.len(), stage.goodbyes), (1, 1));

    let mut stage = Stage::new(small());
    stage.carry([0]);
    stage.machine.abandon(stage.now);
    stage.go();
    assert_eq!((stage.closing.len(), stage.goodbyes), (1, 0));
}

#[test]
fn what_only_lingers_takes_no_room_from_what_lost_its_connection() {
    let mut stage = Stage::new(Options { linger: ms(60_000), ..small() });
    stage.carry(0..4);
    stage.pass(ms(2_000));
    // One that lingers on either connection; the second cannot be opened again.
    stage.leave(0);
    stage.leave(2);
    let second = stage.latest.expect("the second");
    stage.machine.handle_ended(stage.now, second, End::Lost);
    stage.go();
    let attempt = stage.opening.pop().expect("another");
    stage.machine.handle_ended(stage.now, attempt, End::Lost);
    stage.settle();
    let shown = |number| stage.machine.glance_at(&topic(number, Mode::Quote).instrument);
    assert_eq!((shown(0), shown(2)), (None, None));
    assert_eq!((stage.connection_of(3), stage.machine.snapshot().live), (1, 2));
}

#[test]
fn what_only_lingers_is_not_moved() {
    let mut stage = Stage::new(Options { linger: ms(60_000), compact_after: None, ..small() });
    stage.carry(0..3);
    stage.leave(0);
    stage.leave(2);
    let second = stage.latest.expect("the second");
    stage.machine.handle_ended(stage.now, second, End::Lost);
    stage.go();
    assert!(stage.writes.is_empty() && stage.opening.is_empty(), "nobody wants it: {:?}", stage.writes);
    let shown = |number| stage.machine.glance_at(&topic(number, Mode::Quote).instrument).map(|glance| glance.standing);
    assert_eq!((shown(0), shown(2)), (Some(Standing::Lingering), None));
}

#[test]
fn whoever_leaves_everything_has_nothing_moved_and_what_is_left_moves_in_one_step() {
    for leave in [40, 5] {
        let options = Options { max_topics_per_connection: 20, pace: ms(50), compact_after: None, ..small() };
        let mut stage = Stage::new(Options { linger: ms(60_000), ..options });
        stage.carry(0..40);
        stage.pass(ms(2_000));
        // The second cannot be opened again, and the first is full.
        let second = stage.latest.expect("the second");
        stage.machine.handle_ended(stage.now, second, End::Lost);
        stage.go();
        let attempt = stage.opening.pop().expect("another");
        stage.machine.handle_ended(stage.now, attempt, End::Lost);
        stage.go();
        stage.told.clear();
        (0..leave).for_each(|number| stage.leave(number));
        stage.pass(ms(50));
        let moved = |told: &Milestone| match told {
            Milestone::Moved { topics, .. } => Some(*topics),
            _ => None,
        };
        let moves: Vec<usize> = stage.told.iter().filter_map(moved).collect();
        assert_eq!(moves, if leave == 40 { vec![] } else { vec![5] });
    }
}

#[test]
fn who_waits_for_a_credential_is_told_so_until_something_else_is_wrong() {
    let mut stage = Stage::new(small());
    stage.waits(&topic(0, Mode::Quote));
    for (end, why) in [(End::NoCredential, Pending::NoCredential), (End::Lost, Pending::Down)] {
        let attempt = stage.opening.pop().expect("it is tried");
        stage.machine.handle_ended(stage.now, attempt, end);
        stage.go();
        assert_eq!(stage.placed(&topic(1, Mode::Quote)).why, Some(why));
        assert_eq!(stage.machine.pending(&topic(0, Mode::Quote)), Some(why));
        stage.leave(1);
        delay(&mut stage);
    }
    open(&mut stage);
    assert_eq!(stage.machine.pending(&topic(0, Mode::Quote)), None);
}
