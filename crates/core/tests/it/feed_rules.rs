//! What a feed decides, case by case. Each test is named for its rule.

use crate::feed_stage::{Stage, ms, small, topic};
use carom_core::feed::{
    ConnectionState, Delivery, End, Level, Machine, Milestone, Mode, Options, Refusal, Standing, State, Subscribed,
};
use carom_core::idle::Idleness;
use std::sync::Arc;

#[test]
fn the_first_connection_with_room_is_used_first() {
    let mut stage = Stage::new(small());
    stage.carry(0..3);
    assert_eq!((0..3).map(|number| stage.connection_of(number)).collect::<Vec<_>>(), [1, 1, 2]);
    stage.leave(0);
    stage.settle();
    stage.carry([3]);
    assert_eq!(stage.connection_of(3), 1, "freed room is used before anything else");
}

#[test]
fn a_full_feed_names_both_limits_and_the_count() {
    let mut stage = Stage::new(small());
    stage.carry(0..4);
    let refusal = Refusal::CapacityReached { max_connections: 2, max_topics_per_connection: 2, topics: 4 };
    assert_eq!(stage.subscribe(&topic(4, Mode::Ltp)), Subscribed::Refused(refusal));
    assert!(stage.machine.glance_at(&topic(4, Mode::Ltp).instrument).is_none());
}

#[test]
fn a_drop_makes_room_only_when_it_is_through() {
    let mut stage = Stage::new(small());
    stage.carry(0..2);
    stage.leave(0);
    stage.waits(&topic(2, Mode::Quote));
    let (connection, dropped) = stage.writes.pop().expect("the drop");
    assert_eq!((dropped.len(), dropped[0].to), (1, None));
    stage.machine.handle_written(stage.now, connection, &[]);
    stage.go();
    assert_eq!(stage.writes.pop().expect("the other").1[0].instrument, topic(2, Mode::Quote).instrument);
}

#[test]
fn what_is_wanted_again_while_it_is_being_dropped_is_taken_up_again() {
    let mut stage = Stage::new(small());
    stage.carry([0]);
    stage.leave(0);
    assert_eq!(stage.writes.len(), 1, "the drop is under way");
    let waiter = stage.waits(&topic(0, Mode::Quote));
    stage.settle();
    let Some(Delivery::Placed { waiter: told, placement }) = stage.machine.poll_delivery() else { panic!() };
    assert_eq!((told, placement.pending), (waiter, false));
}

#[test]
fn a_refused_level_leaves_the_next_lower_one_and_is_tried_again_for_those_who_were_told_it_is_pending() {
    let mut stage = Stage::new(small());
    stage.carry([0]);
    let deep = topic(0, Mode::Depth);
    let waiter = stage.waits(&deep);
    stage.pass(ms(3_000));
    let delivered = stage.machine.poll_delivery();
    assert!(
        matches!(delivered, Some(Delivery::Placed { waiter: told, placement }) if told == waiter && placement.pending)
    );
    let (connection, _) = stage.writes.pop().expect("the upgrade");
    let reason: Arc<str> = "no depth".into();
    stage.machine.handle_written(stage.now, connection, &[(0, Arc::clone(&reason))]);
    stage.go();
    let glance = stage.machine.glance_at(&deep.instrument).unwrap();
    assert_eq!((glance.standing, glance.carried), (Standing::Refused { reason }, Some(topic(0, Mode::Quote).level)));
    // A connection that comes back is asked for all of it, and for the rest when it refuses again.
    stage.machine.handle_ended(stage.now, connection, End::Lost);
    stage.go();
    let connection = stage.opening.pop().expect("its successor");
    stage.machine.handle_opened(stage.now, connection);
    stage.go();
    assert_eq!(stage.writes.pop().expect("all of it").1[0].to, Some(deep.level));
    stage.machine.handle_written(stage.now, connection, &[(0, "no depth".into())]);
    stage.go();
    assert_eq!(stage.writes.pop().expect("the rest").1[0].to, Some(topic(0, Mode::Quote).level));
    stage.machine.handle_written(stage.now, connection, &[]);
    stage.pass(ms(100));
    assert_eq!(stage.writes.pop().expect("another try").1[0].to, Some(deep.level));
}

#[test]
fn what_is_refused_for_good_is_asked_for_ever_more_rarely_and_new_only_once() {
    let mut stage = Stage::new(small());
    stage.waits(&topic(0, Mode::Quote));
    stage.pass(ms(3_000));
    let mut connection = stage.opening.pop().expect("it is opened");
    stage.machine.handle_opened(stage.now, connection);
    stage.go();
    let mut delays = Vec::new();
    for times in 0..16 {
        stage.writes.pop().expect("it is asked for");
        stage.machine.handle_written(stage.now, connection, &[(0, "unknown symbol".into())]);
        stage.go();
        if times == 13 {
            // A successor is asked at once, which is no reason to ask more often, or more rarely.
            stage.machine.handle_ended(stage.now, connection, End::Lost);
            stage.go();
            connection = stage.opening.pop().expect("its successor");
            stage.machine.handle_opened(stage.now, connection);
            stage.go();
            continue;
        }
        let from = stage.now;
        while stage.writes.is_empty() {
            let next = stage.machine.next_timeout().expect("it is asked for again");
            stage.pass(next - stage.now);
        }
        delays.push((stage.now - from).as_millis());
    }
    let doubled: Vec<u128> = (0..15).map(|times| (100 << times).min(300_000)).collect();
    assert_eq!(delays, doubled);
    let told = |milestone: &Milestone| match milestone {
        Milestone::TopicRefused { again, .. } => Some(*again),
        _ => None,
    };
    let told: Vec<bool> = stage.told.iter().filter_map(told).collect();
    assert_eq!((told.len(), told.iter().filter(|again| !**again).count(), told[0]), (16, 1, false));
}

#[test]
fn what_is_refused_at_every_level_is_asked_for_ever_more_rarely_too() {
    let mut stage = Stage::new(small());
    for mode in [Mode::Ltp, Mode::Quote] {
        stage.waits(&topic(0, mode));
    }
    stage.pass(ms(3_000));
    let connection = stage.opening.pop().expect("it is opened");
    stage.machine.handle_opened(stage.now, connection);
    stage.go();
    let mut delays = Vec::new();
    for _ in 0..5 {
        for mode in [Mode::Quote, Mode::Ltp] {
            let (_, changes) = stage.writes.pop().expect("it is asked for");
            assert_eq!(changes[0].to, Some(topic(0, mode).level));
            stage.machine.handle_written(stage.now, connection, &[(0, "unknown symbol".into())]);
            stage.go();
        }
        let from = stage.now;
        while stage.writes.is_empty() {
            let next = stage.machine.next_timeout().expect("it is asked for again");
            stage.pass(next - stage.now);
        }
        delays.push((stage.now - from).as_millis());
    }
    assert!(delays.windows(2).all(|two| two[0] < two[1]) && delays[4] > 10_000, "{delays:?}");
}

#[test]
fn a_refused_downgrade_leaves_more_than_is_wanted_and_is_tried_again() {
    let mut stage = Stage::new(small());
    for mode in Mode::ALL {
        stage.subscribe(&topic(0, mode));
        stage.settle();
    }
    let [_, quote, deep] = Mode::ALL.map(|mode| topic(0, mode));
    assert!(stage.machine.unsubscribe(stage.now, &deep));
    stage.go();
    for later in [100, 200] {
        let (connection, changes) = stage.writes.pop().expect("the downgrade");
        assert_eq!((changes[0].from, changes[0].to), (Some(deep.level), Some(quote.level)));
        stage.machine.handle_written(stage.now, connection, &[(0, "not now".into())]);
        stage.go();
        assert!(stage.writes.is_empty(), "whoever wants quotes does not lose them: {:?}", stage.writes);
        let glance = stage.machine.glance_at(&deep.instrument).unwrap();
        assert_eq!((glance.carried, glance.standing), (Some(deep.level), Standing::Live));
        stage.pass(ms(later));
    }
    // Where nothing is carried of it yet, what is wanted is asked for.
    let (connection, _) = stage.writes.pop().expect("the downgrade");
    stage.machine.handle_written(stage.now, connection, &[(0, "not now".into())]);
    stage.pass(ms(10_000));
    stage.machine.handle_ended(stage.now, connection, End::Lost);
    stage.writes.clear();
    stage.settle();
    assert_eq!(stage.machine.glance_at(&deep.instrument).unwrap().carried, Some(quote.level));
}

#[test]
fn who_waits_for_what_another_takes_back_is_told() {
    for linger in [0, 1_000] {
        let mut stage = Stage::new(Options { linger: ms(linger), ..small() });
        let (wanted, higher) = (topic(0, Mode::Quote), topic(0, Mode::Depth));
        let (one, same, other) = (stage.waits(&wanted), stage.waits(&wanted), stage.waits(&higher));
        assert!(stage.machine.unsubscribe(stage.now, &wanted));
        stage.go();
        assert_eq!(stage.machine.poll_delivery(), None, "one interest is left, and nobody knows whose");
        assert!(stage.machine.unsubscribe(stage.now, &wanted));
        stage.go();
        for waiter in [one, same] {
            let refusal = Refusal::Unsubscribed;
            assert_eq!(stage.machine.poll_delivery(), Some(Delivery::Refused { waiter, refusal }));
        }
        stage.settle();
        let delivery = stage.machine.poll_delivery();
        assert!(matches!(delivery, Some(Delivery::Placed { waiter, .. }) if waiter == other), "{delivery:?}");
    }
}

#[test]
fn a_refused_credential_finds_nobody_waiting_for_what_is_gone() {
    let mut stage = Stage::new(Options { linger: ms(100), ..small() });
    let waiter = stage.waits(&topic(0, Mode::Quote));
    stage.waits(&topic(1, Mode::Quote));
    stage.leave(0);
    stage.pass(ms(200));
    stage.machine.handle_ended(stage.now, stage.latest.expect("it is being opened"), End::Credential);
    stage.go();
    assert_eq!(stage.machine.state(), State::Refused);
    let refusal = Refusal::Unsubscribed;
    assert_eq!(stage.machine.poll_delivery(), Some(Delivery::Refused { waiter, refusal }));
    let delivery = stage.machine.poll_delivery();
    assert!(matches!(delivery, Some(Delivery::Placed { placement, .. }) if placement.pending), "{delivery:?}");
}

#[test]
fn each_who_waits_is_told_when_its_own_level_is_carried() {
    let mut stage = Stage::new(small());
    let waiters = Mode::ALL.map(|mode| stage.waits(&topic(0, mode)));
    let connection = stage.opening.pop().expect("it is opened");
    stage.machine.handle_opened(stage.now, connection);
    stage.go();
    // Depth is refused, so quotes are asked for: both lower ones are served by them.
    stage.machine.handle_written(stage.now, connection, &[(0, "no depth".into())]);
    let told = stage.machine.poll_delivery();
    assert!(matches!(told, Some(Delivery::Refused { waiter, .. }) if waiter == waiters[2]), "{told:?}");
    assert_eq!(stage.machine.poll_delivery(), None);
    stage.machine.handle_written(stage.now, connection, &[]);
    for expected in [waiters[0], waiters[1]] {
        let told = stage.machine.poll_delivery();
        assert!(matches!(told, Some(Delivery::Placed { waiter, .. }) if waiter == expected), "{told:?}");
    }
}

#[test]
fn a_topic_that_moves_is_carried_twice_for_a_while_and_ticks_from_where_it_was() {
    let mut stage = Stage::new(Options { compact_after: Some(ms(1_000)), overlap: ms(500), ..small() });
    stage.carry(0..3);
    stage.leave(1);
    stage.settle();
    stage.pass(ms(1_000));
    let (first, _) = stage.writes.pop().expect("the move");
    stage.pass(ms(50));
    stage.machine.handle_written(stage.now, first, &[]);
    stage.pass(ms(499));
    let moved = &topic(2, Mode::Quote).instrument;
    assert!(stage.writes.is_empty(), "some upstreams take a while to begin, and do not say when");
    assert!(stage.machine.admit(stage.now, 1, moved) && !stage.machine.admit(stage.now, 0, moved));
    stage.pass(ms(1));
    assert!(stage.machine.admit(stage.now, 0, moved) && !stage.machine.admit(stage.now, 1, moved));
    assert_eq!(stage.writes.pop().expect("the other lets go").1[0].to, None);
}

#[test]
fn a_topic_that_moves_is_taken_up_before_it_is_let_go_and_ticks_once() {
    let mut stage = Stage::new(Options { compact_after: Some(ms(1_000)), ..small() });
    stage.carry(0..3);
    stage.leave(1);
    stage.settle();
    stage.pass(ms(1_000));
    let (first, taken) = stage.writes.pop().expect("the move");
    assert_eq!((stage.writes.len(), taken[0].from, taken[0].to), (0, None, Some(topic(2, Mode::Quote).level)));
    let moved = &topic(2, Mode::Quote).instrument;
    assert!(stage.machine.admit(stage.now, 1, moved) && !stage.machine.admit(stage.now, 0, moved));
    stage.machine.handle_written(stage.now, first, &[]);
    stage.go();
    assert!(stage.machine.admit(stage.now, 0, moved) && !stage.machine.admit(stage.now, 1, moved));
    assert_eq!(stage.writes.pop().expect("the other lets go").1[0].to, None);
}

#[test]
fn a_move_whose_target_dies_or_refuses_comes_to_nothing() {
    for refused in [false, true] {
        let mut stage = Stage::new(Options { compact_after: Some(ms(1_000)), ..small() });
        stage.carry(0..3);
        stage.leave(1);
        stage.settle();
        stage.pass(ms(1_000));
        let (first, _) = stage.writes.pop().expect("the move");
        if refused {
            stage.machine.handle_written(stage.now, first, &[(0, "no".into())]);
        } else {
            stage.machine.handle_ended(stage.now, first, End::Lost);
        }
        stage.go();
        let glance = stage.machine.glance_at(&topic(2, Mode::Quote).instrument).unwrap();
        assert_eq!((glance.connection, glance.standing), (2, Standing::Live), "refused: {refused}");
        assert!(stage.machine.admit(stage.now, 1, &glance.instrument));
    }
}

#[test]
fn room_that_a_move_holds_twice_is_given_back_when_it_is_short() {
    let mut stage = Stage::new(Options { compact_after: Some(ms(1_000)), ..small() });
    stage.carry(0..3);
    stage.leave(1);
    stage.settle();
    stage.pass(ms(1_000));
    assert_eq!(stage.writes.len(), 1, "the move is under way");
    stage.waits(&topic(5, Mode::Quote));
    stage.waits(&topic(6, Mode::Quote));
    stage.settle();
    assert_eq!(stage.machine.snapshot().live, 4);
}

#[test]
fn a_connection_without_topics_is_marked_and_released() {
    let mut stage = Stage::new(Options { max_idle: Some(ms(10_000)), ..small() });
    stage.carry([0]);
    stage.pass(ms(600_000));
    assert_eq!(stage.machine.snapshot().connections[0].idleness, Some(Idleness::Using));
    stage.leave(0);
    stage.settle();
    let since = stage.now;
    stage.pass(ms(2_500));
    assert_eq!(stage.machine.snapshot().connections[0].idleness, Some(Idleness::IdleMarked { since }));
    stage.pass(ms(12_500));
    assert_eq!(stage.machine.snapshot().connections[0].state, ConnectionState::Closing);
    stage.settle();
    assert!(stage.machine.snapshot().connections.is_empty());
    assert_eq!(stage.machine.next_timeout(), None, "nothing is left to look at");
}

#[test]
fn a_topic_wins_an_idle_connection_back_until_it_is_released() {
    let mut stage = Stage::new(Options { max_idle: Some(ms(10_000)), ..small() });
    stage.carry([0]);
    stage.leave(0);
    stage.settle();
    stage.pass(ms(9_000));
    stage.carry([1]);
    stage.pass(ms(60_000));
    assert!(stage.closing.is_empty() && stage.machine.snapshot().live == 1);
}

#[test]
fn a_closing_connection_is_opened_again_for_whoever_needs_it() {
    let mut stage = Stage::new(Options { max_connections: 1, max_idle: Some(ms(10_000)), ..small() });
    stage.carry([0]);
    stage.leave(0);
    stage.settle();
    stage.pass(ms(15_000));
    assert_eq!(stage.closing.len(), 1);
    stage.waits(&topic(1, Mode::Quote));
    assert!(stage.opening.is_empty(), "not before the other has really ended");
    stage.settle();
    assert_eq!(stage.machine.snapshot().live, 1);
}

#[test]
fn what_an_older_credential_is_told_says_nothing_of_a_newer_one() {
    let mut stage = Stage::new(small());
    stage.waits(&topic(0, Mode::Quote));
    let connection = stage.opening.pop().unwrap();
    stage.machine.resume(stage.now);
    stage.machine.handle_ended(stage.now, connection, End::Credential);
    assert_eq!(stage.machine.state(), State::Running);
    stage.pass(ms(100));
    let connection = stage.opening.pop().expect("it is tried again");
    stage.machine.handle_ended(stage.now, connection, End::Credential);
    assert_eq!(stage.machine.state(), State::Refused);
    stage.pass(ms(3_600_000));
    assert!(stage.opening.is_empty());
}

#[test]
fn attempts_follow_the_policy_and_go_on_for_as_long_as_there_are_topics() {
    let mut stage = Stage::new(small());
    stage.waits(&topic(0, Mode::Quote));
    let began = stage.now;
    let mut attempts = Vec::new();
    for _ in 0..4 {
        let connection = stage.opening.pop().expect("an attempt");
        attempts.push(stage.now - began);
        stage.machine.handle_ended(stage.now, connection, End::Lost);
        stage.go();
        while stage.opening.is_empty() {
            stage.pass(ms(50));
        }
    }
    assert_eq!(attempts, [ms(0), ms(100), ms(1_100), ms(2_100)]);
    let connection = stage.opening.pop().unwrap();
    stage.machine.handle_ended(stage.now, connection, End::Lost);
    stage.leave(0);
    stage.pass(ms(60_000));
    assert!(stage.opening.is_empty(), "nobody needs it");
}

#[test]
fn milestones_tell_what_people_want_to_know() {
    let mut stage = Stage::new(Options { max_topics_per_connection: 150, ..small() });
    stage.carry(0..151);
    let filled: Vec<_> = stage
        .told
        .iter()
        .filter_map(|milestone| match milestone {
            Milestone::Filled { connection, on_connection, topics, .. } => Some((*connection, *on_connection, *topics)),
            _ => None,
        })
        .collect();
    assert_eq!(filled, [(1, 100, 100), (1, 150, 150)]);
    let created = Milestone::Created { max_topics_per_connection: 150, max_connections: 2, capacity: 300 };
    assert_eq!(stage.told[0], created);
    assert!(stage.told.contains(&Milestone::Opening { connection: 2, on_previous: Some(150), topics: 150 }));
    let first = topic(150, Mode::Quote).instrument;
    assert!(stage.told.contains(&Milestone::Started { connection: 2, first }));
    stage.subscribe(&topic(3, Mode::Depth));
    stage.settle();
    let level = |mode| Level { mode, depth: 5 };
    let (from, to, instrument) = (level(Mode::Quote), level(Mode::Depth), topic(3, Mode::Depth).instrument);
    assert!(stage.told.contains(&Milestone::Changed { instrument, from, to, connection: 1 }));
    let peak = stage.machine.snapshot().peak;
    assert_eq!((peak.topics, peak.connections, peak.on_each), (151, 2, vec![150, 1]));
}

#[test]
fn already_is_said_of_the_same_whether_carried_or_awaited() {
    let mut stage = Stage::new(small());
    stage.waits(&topic(0, Mode::Quote));
    stage.waits(&topic(0, Mode::Quote));
    stage.settle();
    let already = |delivery| match delivery {
        Some(Delivery::Placed { placement, .. }) => placement.already,
        other => panic!("{other:?}"),
    };
    assert!(!already(stage.machine.poll_delivery()) && already(stage.machine.poll_delivery()));
    assert!(stage.placed(&topic(0, Mode::Quote)).already);
    assert!(!stage.placed(&topic(0, Mode::Ltp)).already, "covered, but new");
    assert!(stage.placed(&topic(0, Mode::Quote).depth(20)).already, "depth says something of order books only");
    assert!(stage.writes.is_empty());
    stage.waits(&topic(0, Mode::Depth));
    stage.settle();
    while stage.machine.poll_delivery().is_some() {}
    stage.waits(&topic(0, Mode::Depth).depth(20));
    stage.settle();
    assert!(!already(stage.machine.poll_delivery()), "another order book, and somebody was called for it");
}

#[test]
fn no_depth_is_the_least() {
    let mut stage = Stage::new(small());
    let mut none = topic(0, Mode::Depth);
    none.level.depth = 0;
    stage.waits(&none);
    stage.settle();
    assert!(stage.placed(&topic(0, Mode::Depth).depth(1)).already);
    for _ in 0..2 {
        assert!(stage.machine.unsubscribe(stage.now, &none));
    }
    assert!(!stage.machine.unsubscribe(stage.now, &topic(0, Mode::Depth).depth(1)));
}

#[test]
fn who_asks_for_less_than_was_refused_does_not_have_it_asked_for_again() {
    let mut stage = Stage::new(small());
    let deep = topic(0, Mode::Depth);
    stage.waits(&deep);
    stage.pass(ms(3_000));
    let connection = stage.opening.pop().expect("it is opened");
    stage.machine.handle_opened(stage.now, connection);
    stage.go();
    stage.writes.clear();
    stage.machine.handle_written(stage.now, connection, &[(0, "no depth".into())]);
    stage.go();
    stage.waits(&topic(0, Mode::Quote));
    let (_, changes) = stage.writes.pop().expect("the quotes");
    assert_eq!(changes[0].to, Some(topic(0, Mode::Quote).level));
    stage.machine.handle_written(stage.now, connection, &[]);
    stage.go();
    assert!(stage.placed(&topic(0, Mode::Ltp)).connection == 1 && stage.writes.is_empty());
    stage.waits(&deep);
    assert_eq!(stage.writes.pop().expect("whoever asks for it gets an answer").1[0].to, Some(deep.level));
}

#[test]
fn what_lingers_makes_room_first_come_first_gone() {
    let mut stage = Stage::new(Options { linger: ms(5_000), ..small() });
    stage.carry(0..4);
    for number in [2, 0] {
        stage.leave(number);
        stage.pass(ms(100));
    }
    stage.carry([4]);
    let shown = |number| stage.machine.glance_at(&topic(number, Mode::Quote).instrument).map(|glance| glance.standing);
    assert_eq!((shown(2), shown(0), shown(4)), (None, Some(Standing::Lingering), Some(Standing::Live)));
}

#[test]
fn after_the_end_nothing_is_unsubscribed_and_nothing_is_told() {
    let mut stage = Stage::new(small());
    stage.carry([0]);
    stage.machine.close(stage.now);
    stage.settle();
    assert_eq!(stage.machine.state(), State::Stopped);
    assert_eq!((stage.machine.unsubscribe_all(stage.now), stage.machine.poll_action()), (0, None));
}

#[test]
fn nonsense_is_named() {
    let said = |options| Machine::new(options, 1).unwrap_err().to_string();
    assert_eq!(said(Options { max_connections: 0, ..small() }), "max_connections must be at least 1");
    assert_eq!(
        said(Options { max_topics_per_connection: 0, ..small() }),
        "max_topics_per_connection must be at least 1"
    );
    assert_eq!(said(Options { batch: 0, ..small() }), "batch must be at least 1");
    assert_eq!(said(Options { pending_after: ms(0), ..small() }), "pending_after must be above zero");
    assert_eq!(said(Options { stall_after: Some(ms(0)), ..small() }), "stall_after must be above zero");
    assert_eq!(said(Options { linger: ms(400 * 86_400_000), ..small() }), "linger must be at most a year");
}
