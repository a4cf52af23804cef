//! What the others know of how things stand with the owner.

use super::*;
use crate::bus::nats::post::Post;
use carom::feed::Pending;
use carom_core::random::Random;
use futures_util::StreamExt;
use testkit::feed::OnOpen;

fn live(count: usize) -> impl Fn(&Snapshot) -> bool {
    move |snapshot| (snapshot.live, snapshot.withheld) == (count, 0)
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_cannot_be_reached_is_known_to_everybody() {
    let mut stage = Stage::new(2);
    stage.upstream.on_open(OnOpen::Fail);
    stage.elect(1, 0);
    let placed = stage.members[1].feed.subscribe(topic("SBIN")).await.unwrap();
    assert_eq!((placed.pending, placed.why), (true, Some(Pending::Down)));
    let seen = stage.members[1].until(|snapshot| snapshot.withheld == 1).await;
    assert_eq!(seen.live, 0);
    let cause = seen.cause.expect("it is known").to_string();
    assert!(cause.contains("member-0") && cause.contains("scripted: "), "{cause}");
    assert_eq!(stage.upstream.open_now(), 0);
    stage.upstream.on_open(OnOpen::Succeed);
    stage.carries(&[topic("SBIN")]).await;
    let seen = stage.members[1].until(live(1)).await;
    assert!(seen.cause.is_none(), "{seen:?}");
    assert!(!stage.members[1].feed.subscribe(topic("SBIN")).await.unwrap().pending);
    assert_eq!(stage.tick(&topic("SBIN"), "1").await, ["1"; 2]);
}

#[tokio::test(start_paused = true)]
async fn what_the_owner_loses_nobody_has_and_all_have_it_again() {
    let mut stage = Stage::new(3);
    stage.elect(1, 0);
    for (member, symbol) in stage.members.iter().zip(["A", "B", "C"]) {
        assert!(!member.feed.subscribe(topic(symbol)).await.unwrap().pending);
    }
    tokio::time::sleep(Duration::from_secs(120)).await;
    for round in 1..=3 {
        stage.upstream.on_open(OnOpen::Fail);
        stage.upstream.kill(stage.upstream.opened());
        for member in &stage.members[1..] {
            member.until(|snapshot| (snapshot.live, snapshot.withheld) == (0, 1)).await;
        }
        let new = topic(&format!("N{round}"));
        let told = [0, 1, 2].map(|member| stage.members[member].feed.subscribe(new.clone()));
        for placed in futures_util::future::join_all(told).await {
            assert_eq!(placed.unwrap().why, Some(Pending::Down), "round {round}");
        }
        stage.upstream.on_open(OnOpen::Succeed);
        for member in &stage.members[1..] {
            member.until(live(2)).await;
        }
        assert_eq!(stage.tick(&new, "1").await, ["1"; 3]);
        assert_eq!(stage.tick(&topic("B"), "2").await, ["2"; 3]);
        for member in &stage.members {
            member.feed.unsubscribe(&new).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(120)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_the_owner_is_refused_is_the_reason_that_others_are_told() {
    let stage = Stage::new(2);
    stage.upstream.on_open(OnOpen::Refuse);
    stage.elect(1, 0);
    let placed = stage.members[1].feed.subscribe(topic("SBIN")).await.unwrap();
    assert_eq!(placed.why, Some(Pending::Credential));
    assert_eq!(stage.members[1].feed.state(), carom::feed::State::Running, "its own was refused by nobody");
    let seen = stage.members[1].until(|snapshot| snapshot.withheld == 1).await;
    let cause = seen.cause.expect("it is known").to_string();
    assert!(cause.contains("token expired"), "{cause}");
}

#[tokio::test(start_paused = true)]
async fn of_two_connections_one_is_lost_and_the_others_topics_are_live() {
    let stage = Stage::with(2, |builder| builder.max_topics_per_connection(2).max_connections(2));
    stage.elect(1, 0);
    for symbol in ["A", "B", "C", "D"] {
        stage.members[1].feed.subscribe(topic(symbol)).await.unwrap();
    }
    let lost = stage.upstream.carried(&topic("C").instrument)[0].0;
    stage.upstream.on_open(OnOpen::Fail);
    stage.upstream.kill(lost);
    stage.members[1].until(|snapshot| (snapshot.live, snapshot.withheld) == (2, 2)).await;
    let pending = ["A", "B", "C", "D"].map(|symbol| stage.members[1].feed.pending(&topic(symbol)));
    assert_eq!(pending, [None, None, Some(Pending::Down), Some(Pending::Down)]);
    stage.upstream.on_open(OnOpen::Succeed);
    stage.members[1].until(live(4)).await;
}

#[tokio::test(start_paused = true)]
async fn however_much_has_changed_all_of_it_is_told() {
    let stage = Stage::with(2, |builder| builder.max_topics_per_connection(2_000));
    stage.elect(1, 0);
    let topics: Vec<_> = (0..1_111).map(|number| topic(&format!("{number:0>250}"))).collect();
    let wanted = topics.iter().map(|topic| stage.members[1].feed.subscribe(topic.clone()));
    futures_util::future::join_all(wanted).await;
    stage.members[1].until(live(topics.len())).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    stage.upstream.on_open(OnOpen::Fail);
    stage.upstream.kill(stage.upstream.opened());
    stage.members[1].until(|snapshot| (snapshot.live, snapshot.withheld) == (0, 1_111)).await;
    stage.upstream.on_open(OnOpen::Succeed);
    stage.members[1].until(live(topics.len())).await;
    // One leaves, and what is left is told of as before.
    stage.members[1].feed.unsubscribe(&topics[0]).await.unwrap();
    stage.upstream.on_open(OnOpen::Fail);
    stage.upstream.kill(stage.upstream.opened());
    stage.members[1].until(|snapshot| (snapshot.live, snapshot.withheld) == (0, 1_110)).await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_says_nothing_of_how_things_stand_is_believed() {
    let stage = Stage::new(2);
    let (house, subjects) = (stage.town.house(7), Subjects::new("carom", "simulated", "demo"));
    let mut letters = house.hear(subjects.ask("member-7")).await.unwrap();
    let old = tokio::spawn(async move {
        while let Some(letter) = letters.next().await {
            house.send(letter.reply.unwrap(), r#"{"done":[]}"#.into()).await.unwrap();
        }
    });
    stage.members[1].roles.send_replace(Role::Follower { owner: "member-7".into(), epoch: 1 });
    assert!(!stage.members[1].feed.subscribe(topic("SBIN")).await.unwrap().pending);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(live(1)(&stage.members[1].feed.snapshot()));
    old.abort();
}

#[tokio::test(start_paused = true)]
async fn what_an_owner_gives_as_its_reason_is_fit_to_be_shown() {
    let stage = Stage::new(2);
    let (house, subjects) = (stage.town.house(7), Subjects::new("carom", "simulated", "demo"));
    let mut letters = house.hear(subjects.ask("member-7")).await.unwrap();
    let wordy = tokio::spawn(async move {
        let reason = r"no\n".repeat(10_000);
        let turned = r#"[{"exchange":"NSE","symbol":"SBIN","pending":"down"}]"#;
        let answer = format!(r#"{{"stands":{{"turn":1,"turned":{turned},"reason":"{reason}"}}}}"#);
        while let Some(letter) = letters.next().await {
            house.send(letter.reply.unwrap(), answer.clone().into()).await.unwrap();
        }
    });
    stage.members[1].roles.send_replace(Role::Follower { owner: "member-7".into(), epoch: 1 });
    stage.members[1].feed.subscribe(topic("SBIN")).await.unwrap();
    let seen = stage.members[1].until(|snapshot| snapshot.withheld == 1).await;
    let cause = seen.cause.expect("it is known").to_string();
    assert!(cause.contains("no no") && cause.len() < 1_000 && !cause.contains('\n'), "{cause}");
    wordy.abort();
}

/// What an owner may say.
const ANSWERS: [&str; 5] = [
    r#"{"done":[]}"#,
    r#"{"done":[{"at":0,"reason":"no"}]}"#,
    r#""not_here""#,
    r#"{"stands":{"turn":3,"turned":[{"exchange":"NSE","symbol":"SBIN","pending":"down"}],"more":true,"reason":"no"}}"#,
    r#"{"stands":{"refused":[{"at":9,"reason":"no"}],"turned":[{"exchange":"","symbol":"SBIN"}],"later":1}}"#,
];

/// What an owner may be asked.
const ASKS: [&str; 5] = [
    r#"{"version":1,"epoch":1,"session":{"member":"m","number":1},"what":"open"}"#,
    r#"{"version":9,"epoch":1,"session":{"member":"m","number":1},"what":"beat"}"#,
    r#"{"epoch":1,"session":{"member":"m","number":1},"what":"bye"}"#,
    r#"{"version":1,"epoch":1,"session":{"member":"m","number":1},"what":{"change":[{"exchange":"NSE","symbol":"X","mode":1,"depth":5}]}}"#,
    r#"{"epoch":1,"session":{"member":"m","number":1},"what":{"change":[{"exchange":"NSE","symbol":"X","mode":null,"depth":0}]}}"#,
];

/// One of these, some of them with a few bytes wrong.
fn bent(random: &mut Random, right: &[&str]) -> Vec<u8> {
    let mut bytes = right[random.below(right.len())].as_bytes().to_vec();
    for _ in 0..random.below(3) {
        let at = random.below(bytes.len().max(1));
        match random.below(3) {
            _ if bytes.is_empty() => bytes.push(b'{'),
            0 => bytes[at] = random.bits() as u8,
            1 => bytes.truncate(at),
            _ => bytes.insert(at, b"{}[]\",:09-"[random.below(10)]),
        }
    }
    bytes
}

#[tokio::test(start_paused = true)]
async fn whatever_an_owner_is_asked_it_serves_the_others() {
    for seed in 0..20 {
        let (mut stage, mut random) = (Stage::new(2), Random::new(seed));
        stage.elect(1, 0);
        stage.members[1].feed.subscribe(topic("SBIN")).await.unwrap();
        let (house, subjects) = (stage.town.house(7), Subjects::new("carom", "simulated", "demo"));
        for _ in 0..200 {
            let ask = bent(&mut random, &ASKS);
            let _ = timeout(Duration::from_millis(100), house.ask(subjects.ask("member-0"), ask.into())).await;
        }
        // Whoever it was is forgotten, with all that it wanted.
        stage.members[0].serves(1).await;
        stage.carries(&[topic("SBIN")]).await;
        assert_eq!(stage.tick(&topic("SBIN"), "1").await, ["1"; 2], "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_an_owner_says_the_next_one_is_understood() {
    for seed in 0..20 {
        let stage = Stage::new(2);
        let (house, subjects) = (stage.town.house(7), Subjects::new("carom", "simulated", "demo"));
        let mut letters = house.hear(subjects.ask("member-7")).await.unwrap();
        let garbled = tokio::spawn(async move {
            let mut random = Random::new(seed);
            while let Some(letter) = letters.next().await {
                let _ = house.send(letter.reply.unwrap(), bent(&mut random, &ANSWERS).into()).await;
            }
        });
        stage.members[1].roles.send_replace(Role::Follower { owner: "member-7".into(), epoch: 1 });
        // It may be refused, pending or accepted.
        let _ = stage.members[1].feed.subscribe(topic("SBIN")).await;
        let _ = stage.members[1].feed.subscribe(topic("INFY")).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        garbled.abort();
        stage.elect(2, 0);
        let placed = timeout(PATIENCE, stage.members[1].feed.subscribe(topic("TCS"))).await;
        assert!(placed.is_ok_and(|placed| placed.is_ok()), "seed {seed}");
        stage.members[1].until(whole).await;
    }
}
