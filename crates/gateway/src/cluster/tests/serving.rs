//! What the owner does for the others, for as long as they are there.

use super::*;
use carom::feed::{Instrument, Pacing, Pending, SubscribeError};
use testkit::feed::OnOpen;

#[tokio::test(start_paused = true)]
async fn one_member_has_the_connection_and_all_have_the_ticks() {
    let mut stage = Stage::new(3);
    stage.elect(1, 1);
    let topics = [topic("SBIN"), topic("INFY"), topic("TCS")];
    for (member, topic) in stage.members.iter().zip(&topics) {
        let placed = member.feed.subscribe(topic.clone()).await.unwrap();
        assert!(!placed.pending, "{placed:?}");
    }
    stage.carries(&topics).await;
    assert_eq!(stage.upstream.open_now(), 1);
    for topic in &topics {
        assert_eq!(stage.tick(topic, "812.05").await, ["812.05"; 3]);
    }
    assert_eq!((stage.upstream.opened(), stage.members[1].share.snapshot().sessions), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn what_several_want_is_carried_once_and_as_the_greediest_wants_it() {
    let stage = Stage::new(3);
    stage.elect(1, 0);
    let of = |mode| Topic::new("NSE", "SBIN", mode);
    for (member, mode) in stage.members.iter().zip([Mode::Ltp, Mode::Quote, Mode::Depth]) {
        member.feed.subscribe(of(mode)).await.unwrap();
    }
    stage.carries(&[of(Mode::Depth)]).await;
    stage.members[2].feed.unsubscribe(&of(Mode::Depth)).await.unwrap();
    stage.carries(&[of(Mode::Quote)]).await;
    // A member that wants more and then less of it.
    stage.members[1].feed.subscribe(of(Mode::Depth).depth(20)).await.unwrap();
    stage.carries(&[of(Mode::Depth).depth(20)]).await;
    stage.members[1].feed.unsubscribe(&of(Mode::Depth).depth(20)).await.unwrap();
    stage.carries(&[of(Mode::Quote)]).await;
    stage.members[1].feed.unsubscribe(&of(Mode::Quote)).await.unwrap();
    stage.carries(&[of(Mode::Ltp)]).await;
    stage.members[0].feed.unsubscribe(&of(Mode::Ltp)).await.unwrap();
    stage.carries(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn what_the_upstream_refuses_the_owner_refuses_with_the_same_words() {
    let stage = Stage::new(2);
    stage.elect(1, 0);
    stage.upstream.refuse(&Instrument::new("NSE", "NONE"), Some("no symbol has such a name"));
    let error = stage.members[1].feed.subscribe(topic("NONE")).await.unwrap_err();
    assert!(
        matches!(&error, SubscribeError::Refused { reason, .. } if &**reason == "no symbol has such a name"),
        "{error}"
    );
    assert!(stage.members[1].feed.subscribe(topic("SBIN")).await.is_ok(), "others are none the worse");
    let error = stage.members[1].feed.subscribe(topic(&"S".repeat(300))).await.unwrap_err();
    assert!(error.to_string().contains("such a name"), "{error}");
    stage.carries(&[topic("SBIN")]).await;
}

#[tokio::test(start_paused = true)]
async fn together_they_have_no_more_than_one_would_have() {
    let stage = Stage::with(3, |builder| builder.max_topics_per_connection(2).max_connections(2));
    stage.upstream.max_topics(2);
    stage.elect(1, 0);
    let [zero, one, two] = [0, 1, 2].map(|member| stage.members[member].feed.clone());
    for (feed, symbol) in [(&zero, "A"), (&one, "B"), (&one, "C"), (&two, "D")] {
        feed.subscribe(topic(symbol)).await.unwrap();
    }
    let error = two.subscribe(topic("E")).await.unwrap_err();
    assert!(error.to_string().contains("is full: 4 topics on at most 2 connections of 2 each"), "{error}");
    assert!(two.subscribe(topic("B")).await.is_ok(), "what is carried anyway costs nothing");
    one.unsubscribe(&topic("C")).await.unwrap();
    stage.carries(&["A", "B", "D"].map(topic)).await;
    two.subscribe(topic("E")).await.unwrap();
    stage.carries(&["A", "B", "D", "E"].map(topic)).await;
    assert_eq!(stage.upstream.peak(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_closes_takes_back_what_it_wanted_at_once() {
    let stage = Stage::new(3);
    stage.elect(1, 0);
    stage.members[1].feed.subscribe(topic("SBIN")).await.unwrap();
    stage.members[2].feed.subscribe(topic("SBIN")).await.unwrap();
    stage.members[2].feed.subscribe(topic("INFY")).await.unwrap();
    assert_eq!(stage.members[2].feed.close(Instant::now() + PATIENCE).await, 0);
    let asked = Instant::now();
    stage.members[0].serves(1).await;
    stage.carries(&[topic("SBIN")]).await;
    assert!(asked.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_member_that_vanishes_is_forgotten() {
    let mut stage = Stage::new(3);
    stage.elect(1, 0);
    stage.members[1].feed.subscribe(topic("SBIN")).await.unwrap();
    stage.members[2].feed.subscribe(topic("INFY")).await.unwrap();
    stage.carries(&["SBIN", "INFY"].map(topic)).await;
    // Nobody says goodbye.
    stage.town.cut_off(2, true);
    stage.town.burn(2);
    let gone = stage.members.remove(2);
    gone.publishing.abort();
    drop(gone);
    let vanished = Instant::now();
    stage.members[0].serves(1).await;
    stage.carries(&[topic("SBIN")]).await;
    assert!((4..8).contains(&vanished.elapsed().as_secs()), "{:?}", vanished.elapsed());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(stage.members[0].share.snapshot().sessions, 1, "those who show life stay");
    stage.carries(&[topic("SBIN")]).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_was_cut_off_for_a_while_has_everything_again() {
    let mut stage = Stage::new(2);
    stage.elect(1, 0);
    stage.members[1].feed.subscribe(topic("SBIN")).await.unwrap();
    stage.town.cut_off(1, true);
    stage.members[0].serves(0).await;
    stage.carries(&[]).await;
    stage.town.cut_off(1, false);
    stage.carries(&[topic("SBIN")]).await;
    stage.members[0].serves(1).await;
    assert_eq!(stage.tick(&topic("SBIN"), "1").await, ["1"; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_is_refused_stops_the_owner_alone() {
    let stage = Stage::new(2);
    stage.upstream.on_open(OnOpen::Refuse);
    stage.elect(1, 0);
    let placed = stage.members[0].feed.subscribe(topic("INFY")).await.unwrap();
    assert_eq!(placed.why, Some(Pending::Credential));
    stage.members[1].feed.subscribe(topic("SBIN")).await.unwrap();
    assert_eq!(stage.members[1].feed.state(), carom::feed::State::Running);
    stage.upstream.on_open(OnOpen::Succeed);
    stage.members[0].feed.resume();
    stage.carries(&["INFY", "SBIN"].map(topic)).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_credential_was_refused_is_served_by_the_next_owner() {
    let mut stage = Stage::new(2);
    stage.upstream.on_open(OnOpen::Refuse);
    stage.elect(1, 0);
    stage.members[0].feed.subscribe(topic("INFY")).await.unwrap();
    assert_eq!(stage.members[0].feed.state(), carom::feed::State::Refused);
    stage.upstream.on_open(OnOpen::Succeed);
    stage.hand_over(2, 1).await;
    stage.carries(&[topic("INFY")]).await;
    assert_eq!(stage.members[0].feed.state(), carom::feed::State::Running);
    assert_eq!(stage.tick(&topic("INFY"), "1").await, ["1"; 2]);
}

#[tokio::test(start_paused = true)]
async fn batches_of_any_size_are_asked_for_in_messages_that_nats_takes() {
    let upstream = Upstream::new().pacing(Pacing { batch: 10_000, ..Pacing::default() });
    let stage = Stage::on(upstream, 2, |builder| builder.max_topics_per_connection(5_000));
    let topics: Vec<_> = (0..4_000).map(|number| topic(&format!("{number:0>250}"))).collect();
    let refused = topics[3_777].clone();
    stage.upstream.refuse(&refused.instrument, Some("not today"));
    // Everything is wanted before anybody can be asked for it.
    let wanted = topics.iter().map(|topic| stage.members[1].feed.subscribe(topic.clone()));
    let elected = async { stage.elect(1, 0) };
    let (answers, ()) = tokio::join!(futures_util::future::join_all(wanted), elected);
    for (topic, answer) in topics.iter().zip(answers) {
        assert_eq!(answer.is_err(), *topic == refused, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn words_that_are_no_ticks_reach_everybody_whoever_says_them() {
    let mut stage = Stage::new(3);
    stage.elect(1, 0);
    stage.members[2].share.bus().publish("demo_orders".into(), "{}".into());
    for member in &mut stage.members {
        assert_eq!(member.hears().await, "{}");
    }
}
