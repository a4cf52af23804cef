//! An upstream that changes hands.

use super::*;
use crate::bus::nats::post::Post;
use testkit::feed::OnOpen;

#[tokio::test(start_paused = true)]
async fn everything_is_carried_again_by_whoever_is_the_owner() {
    let mut stage = Stage::new(3);
    let topics: Vec<_> = (0..30).map(|number| topic(&format!("S{number}"))).collect();
    stage.elect(1, 0);
    for (number, topic) in topics.iter().enumerate() {
        stage.members[number % 3].feed.subscribe(topic.clone()).await.unwrap();
    }
    for (epoch, owner) in [(2, 1), (3, 2), (4, 2), (9, 0)] {
        let moved = Instant::now();
        stage.hand_over(epoch, owner).await;
        stage.carries(&topics).await;
        assert!(moved.elapsed() < Duration::from_secs(2), "epoch {epoch}: {:?}", moved.elapsed());
        for topic in [&topics[0], &topics[1], &topics[29]] {
            assert_eq!(stage.tick(topic, "7").await, ["7"; 3], "epoch {epoch}");
        }
        stage.members[owner].serves(2).await;
    }
    assert_eq!(stage.upstream.peak(), 1);
}

#[tokio::test(start_paused = true)]
async fn everything_is_resubscribed_in_batches() {
    let stage = Stage::new(2);
    stage.elect(1, 0);
    let topics: Vec<_> = (0..90).map(|number| topic(&format!("S{number}"))).collect();
    for topic in &topics {
        stage.members[1].feed.subscribe(topic.clone()).await.unwrap();
    }
    let before = stage.upstream.written().len();
    stage.hand_over(2, 1).await;
    stage.carries(&topics).await;
    assert_eq!(stage.upstream.written().len() - before, 1);
    stage.hand_over(3, 0).await;
    stage.carries(&topics).await;
    assert_eq!(stage.upstream.written().len() - before, 2);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_hears_nothing_cuts_its_connections_by_its_own_clock() {
    let stage = Stage::new(2);
    stage.elect(1, 0);
    stage.members[0].feed.subscribe(topic("SBIN")).await.unwrap();
    stage.members[1].feed.subscribe(topic("INFY")).await.unwrap();
    stage.carries(&["SBIN", "INFY"].map(topic)).await;
    stage.town.cut_off(0, true);
    let held = Duration::from_secs(2);
    stage.members[0].roles.send_replace(Role::Owner { epoch: 1, until: Instant::now() + held });
    let cut = Instant::now();
    stage.upstream.until(|upstream| upstream.open_now() == 0).await;
    assert_eq!(cut.elapsed(), held);
    // It goes on trying, and may not.
    tokio::time::sleep(held).await;
    assert_eq!((stage.upstream.open_now(), stage.upstream.opened()), (0, 1));
    let name = Arc::clone(stage.members[1].share.member());
    stage.members[1].roles.send_replace(Role::Owner { epoch: 2, until: Instant::now() + PATIENCE });
    stage.carries(&[topic("INFY")]).await;
    stage.town.cut_off(0, false);
    stage.members[0].roles.send_replace(Role::Follower { owner: name, epoch: 2 });
    stage.carries(&["SBIN", "INFY"].map(topic)).await;
    assert_eq!(stage.upstream.peak(), 1);
}

#[tokio::test(start_paused = true)]
async fn ticks_of_a_late_owner_do_not_count() {
    let mut stage = Stage::new(3);
    stage.elect(5, 0);
    stage.members[1].feed.subscribe(topic("SBIN")).await.unwrap();
    assert_eq!(stage.tick(&topic("SBIN"), "1").await, ["1"; 3]);
    stage.hand_over(6, 1).await;
    stage.carries(&[topic("SBIN")]).await;
    // NATS had it for a while, and it arrives when somebody else is the owner.
    let (house, subjects) = (stage.town.house(0), Subjects::new("carom", "simulated", "demo"));
    house.send(subjects.tick(5, "NSE_SBIN_LTP").unwrap(), "late".into()).await.unwrap();
    let stale = async {
        while stage.members[1].share.snapshot().bus.stale == 0 || stage.members[2].share.snapshot().bus.stale == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, stale).await.unwrap();
    assert_eq!(stage.tick(&topic("SBIN"), "2").await, ["2"; 3]);
}

#[tokio::test(start_paused = true)]
async fn what_an_owner_could_not_say_in_time_is_not_said_later() {
    let mut stage = Stage::new(3);
    stage.elect(5, 0);
    stage.members[0].feed.subscribe(topic("SBIN")).await.unwrap();
    assert_eq!(stage.tick(&topic("SBIN"), "1").await, ["1"; 3]);
    // Nobody reaches anybody: the others go on believing in the owner, whose hold ends.
    (0..3).for_each(|member| stage.town.cut_off(member, true));
    for _ in 0..10 {
        stage.upstream.tick(&topic("SBIN").instrument, Mode::Ltp, "late");
        assert_eq!(stage.members[0].hears().await, "late");
    }
    stage.members[0].roles.send_replace(Role::Unknown);
    tokio::time::sleep(Duration::from_secs(60)).await;
    (0..3).for_each(|member| stage.town.cut_off(member, false));
    stage.members[0].share.bus().flush().await;
    assert_eq!(stage.members[0].share.snapshot().bus.stale, 10);
    stage.elect(6, 0);
    stage.carries(&[topic("SBIN")]).await;
    assert_eq!(stage.tick(&topic("SBIN"), "2").await, ["2"; 3]);
}

#[tokio::test(start_paused = true)]
async fn however_long_nobody_was_the_owner_everything_is_carried_at_once_when_somebody_is() {
    let stage = Stage::new(3);
    stage.elect(1, 0);
    let topics = ["A", "B", "C"].map(topic);
    for (member, topic) in stage.members.iter().zip(&topics) {
        member.feed.subscribe(topic.clone()).await.unwrap();
    }
    for (epoch, known) in [(2, true), (3, false)] {
        // The others know the owner, which does not answer, or nobody.
        stage.town.cut_off(0, true);
        stage.members[0].roles.send_replace(Role::Unknown);
        for member in &stage.members[1..] {
            member.roles.send_if_modified(|role| {
                let unknown = std::mem::replace(role, Role::Unknown);
                if known {
                    *role = unknown
                };
                !known
            });
        }
        tokio::time::sleep(Duration::from_secs(1_234)).await;
        stage.town.cut_off(0, false);
        let since = Instant::now();
        stage.elect(epoch, 0);
        stage.carries(&topics).await;
        assert!(since.elapsed() < Duration::from_millis(500), "epoch {epoch}: {:?}", since.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn epochs_may_begin_anew() {
    let mut stage = Stage::new(2);
    stage.elect(500, 0);
    stage.members[1].feed.subscribe(topic("SBIN")).await.unwrap();
    assert_eq!(stage.tick(&topic("SBIN"), "1").await, ["1"; 2]);
    stage.hand_over(1, 0).await;
    stage.carries(&[topic("SBIN")]).await;
    assert_eq!(stage.tick(&topic("SBIN"), "2").await, ["2"; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_does_not_know_its_owner_any_more_is_served_all_the_same() {
    let mut stage = Stage::new(2);
    stage.elect(1, 0);
    stage.members[1].feed.subscribe(topic("SBIN")).await.unwrap();
    stage.members[1].roles.send_replace(Role::Unknown);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(stage.tick(&topic("SBIN"), "1").await, ["1"; 2]);
    assert_eq!((stage.members[0].share.snapshot().sessions, stage.upstream.opened()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_owner_serves_its_own_epoch_and_no_other() {
    let stage = Stage::new(2);
    stage.elect(3, 0);
    stage.members[1].feed.subscribe(topic("SBIN")).await.unwrap();
    // One who believes that the owner before, or after, was the same member.
    let (house, subjects) = (stage.town.house(1), Subjects::new("carom", "simulated", "demo"));
    for (epoch, said) in [(2, r#""not_here""#), (3, r#"{"done":[]}"#), (4, r#""not_here""#)] {
        let ask = format!(r#"{{"epoch":{epoch},"session":{{"member":"member-1","number":99}},"what":"open"}}"#);
        let answer = house.ask(subjects.ask("member-0"), ask.into()).await.unwrap();
        assert_eq!(answer, said, "epoch {epoch}");
    }
    let unknown = r#"{"epoch":3,"session":{"member":"member-1","number":100},"what":{"change":[]}}"#;
    assert_eq!(house.ask(subjects.ask("member-0"), unknown.into()).await.unwrap(), r#""not_here""#);
    stage.hand_over(4, 1).await;
    stage.members[0].serves(0).await;
}

#[tokio::test(start_paused = true)]
async fn sense_is_made_of_nothing_that_makes_none() {
    let stage = Stage::new(2);
    stage.elect(1, 0);
    stage.members[1].feed.subscribe(topic("INFY")).await.unwrap();
    let (house, subjects) = (stage.town.house(1), Subjects::new("carom", "simulated", "demo"));
    for nonsense in
        ["", "{}", "[]", "null", "\u{0}", r#"{"epoch":1,"session":{"member":"m","number":1},"what":"sing"}"#]
    {
        house.send(subjects.ask("member-0"), nonsense.into()).await.unwrap();
    }
    for subject in [
        "carom.simulated.demo.tick.1.",
        "carom.simulated.demo.tick.1.nonsense",
        "carom.simulated.demo.say.NSE_SBIN_LTP",
    ] {
        house.send(subject.to_owned(), "{}".into()).await.unwrap();
    }
    stage.members[1].feed.subscribe(topic("SBIN")).await.unwrap();
    stage.carries(&["INFY", "SBIN"].map(topic)).await;
    assert_eq!(stage.members[0].share.snapshot().bus.malformed, 3);
}

#[tokio::test(start_paused = true)]
async fn who_is_cut_off_says_that_it_is() {
    let stage = Stage::new(2);
    stage.elect(1, 0);
    for member in &stage.members {
        member.feed.subscribe(topic("SBIN")).await.unwrap();
    }
    (0..2).for_each(|member| stage.town.cut_off(member, true));
    stage.members[0].roles.send_replace(Role::Owner { epoch: 1, until: Instant::now() + Duration::from_secs(2) });
    for member in &stage.members {
        let failing = |snapshot: &Snapshot| snapshot.connections.iter().any(|connection| connection.failing);
        let seen = member.until(|snapshot| failing(snapshot) && snapshot.cause.is_some()).await;
        let cause = seen.cause.unwrap().to_string();
        assert!(cause.starts_with("NATS cannot be reached"), "{cause}");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(failing(&member.feed.snapshot()), "for as long as nobody has anything");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_becomes_the_owner_tries_at_once_what_it_would_have_tried_later() {
    let stage = Stage::new(2);
    stage.upstream.on_open(OnOpen::Fail);
    stage.elect(1, 0);
    stage.members[0].feed.subscribe(topic("SBIN")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    // Right after an attempt, the next one is far away.
    let attempts = stage.upstream.attempts();
    stage.upstream.until(|upstream| upstream.attempts() > attempts).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    stage.upstream.on_open(OnOpen::Succeed);
    let since = Instant::now();
    stage.elect(2, 0);
    stage.carries(&[topic("SBIN")]).await;
    assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
}
