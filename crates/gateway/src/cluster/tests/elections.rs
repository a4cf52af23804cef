//! Members that agree on who is the owner by way of a register: nobody tells them.

use super::*;
use crate::cluster::{Lease, LeaseOptions, Memory, MemoryLink};
use carom::feed::{Pending, State};
use testkit::feed::{OnClose, OnOpen};

/// Members of one town that elect their owner.
struct Elections {
    stage: Stage,
    links: Vec<MemoryLink>,
}

impl Elections {
    fn new() -> Elections {
        let upstream = Upstream::new();
        Elections::on([(); 3].map(|()| upstream.clone()))
    }

    /// Each has a way to the upstream of its own.
    fn on<const MEMBERS: usize>(upstreams: [Upstream; MEMBERS]) -> Elections {
        let (town, register) = (Town::default(), Memory::default());
        let links: Vec<_> = upstreams.iter().map(|_| register.link()).collect();
        let members = links.iter().enumerate().map(|(number, link)| {
            let name = format!("member-{number}");
            let lease = Lease::start(link.clone(), "simulated.demo", &*name, LeaseOptions::default()).unwrap();
            let (post, subjects) = (Arc::new(town.house(number)), Subjects::new("carom", "simulated", "demo"));
            let share = Share::leased(name.into(), post, subjects, lease, ("simulated", "demo"));
            Seat::of(share, watch::Sender::new(Role::Unknown), &upstreams[number], |builder| builder)
        });
        let members = members.collect();
        let upstream = upstreams[0].clone();
        Elections { stage: Stage { town, upstream, members }, links }
    }

    /// Each wants something of its own.
    async fn with_topics() -> (Elections, [Topic; 3]) {
        let (elections, topics) = (Elections::new(), ["A", "B", "C"].map(topic));
        for (member, topic) in elections.stage.members.iter().zip(&topics) {
            member.feed.subscribe(topic.clone()).await.unwrap();
        }
        (elections, topics)
    }

    /// Each wants something of its own, and has the same luck with an upstream of its own.
    async fn where_all(luck: OnOpen) -> (Elections, [Upstream; 3]) {
        let upstreams = [(); 3].map(|()| Upstream::new());
        upstreams.iter().for_each(|upstream| upstream.on_open(luck));
        let elections = Elections::on(upstreams.clone());
        for (member, symbol) in elections.stage.members.iter().zip(["A", "B", "C"]) {
            member.feed.subscribe(topic(symbol)).await.unwrap();
        }
        (elections, upstreams)
    }

    /// What they want without this one.
    fn without(topics: &[Topic; 3], gone: usize) -> [Topic; 2] {
        others(gone).map(|member| topics[member].clone())
    }

    /// Whom these believe to be the owner, when they agree.
    async fn owner(&self, of: &[usize]) -> (usize, u64) {
        let agreed = async {
            loop {
                let seen: Vec<_> = of.iter().map(|member| self.stage.members[*member].share.snapshot()).collect();
                let owner = of.iter().zip(&seen).find(|(_, seen)| seen.owns).map(|(member, seen)| (*member, seen));
                if let Some((member, owner)) = owner
                    && seen.iter().all(|seen| (&seen.owner, seen.epoch) == (&owner.owner, owner.epoch))
                {
                    return (member, owner.epoch.unwrap());
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, agreed).await.expect("they never agree")
    }

    fn cut_off(&self, member: usize, cut: bool) {
        self.stage.town.cut_off(member, cut);
        if cut { self.links[member].cut() } else { self.links[member].mend() }
    }
}

fn others(member: usize) -> [usize; 2] {
    [(member + 1) % 3, (member + 2) % 3]
}

#[tokio::test(start_paused = true)]
async fn somebody_is_elected_and_serves_all() {
    // Nobody has to wait for the election before.
    let (mut elections, topics) = Elections::with_topics().await;
    elections.stage.carries(&topics).await;
    let (owner, _) = elections.owner(&[0, 1, 2]).await;
    elections.stage.members[owner].serves(2).await;
    for topic in &topics {
        assert_eq!(elections.stage.tick(topic, "1").await, ["1"; 3]);
    }
    assert_eq!((elections.stage.upstream.opened(), elections.stage.upstream.peak()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_is_killed_is_succeeded_within_five_seconds() {
    let (mut elections, topics) = Elections::with_topics().await;
    elections.stage.carries(&topics).await;
    let (owner, epoch) = elections.owner(&[0, 1, 2]).await;
    // At any moment between two renewals.
    tokio::time::sleep(Duration::from_millis(12_345)).await;
    elections.cut_off(owner, true);
    elections.stage.town.burn(owner);
    let killed = Instant::now();
    let seat = elections.stage.members.remove(owner);
    seat.publishing.abort();
    drop(seat);
    let wanted = Elections::without(&topics, owner);
    elections.stage.upstream.until(|upstream| upstream.open_now() == 0).await;
    elections.stage.carries(&wanted).await;
    assert!(killed.elapsed() < Duration::from_secs(5), "{:?}", killed.elapsed());
    for topic in &wanted {
        assert_eq!(elections.stage.tick(topic, "1").await, ["1"; 2]);
    }
    let (_, later) = elections.owner(&[0, 1]).await;
    assert!(later > epoch);
    assert_eq!(elections.stage.upstream.peak(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_is_cut_off_again_and_again_never_has_a_connection_beside_another() {
    let (mut elections, topics) = Elections::with_topics().await;
    let mut last = 0;
    for round in 0..12 {
        let (owner, epoch) = elections.owner(&[0, 1, 2]).await;
        assert!(epoch > last, "round {round}");
        last = epoch;
        elections.stage.carries(&topics).await;
        tokio::time::sleep(Duration::from_millis(137 * round)).await;
        elections.cut_off(owner, true);
        let (next, _) = elections.owner(&others(owner)).await;
        assert_ne!(next, owner);
        // The one that is cut off wants something too: nobody hears of it.
        let wanted = Elections::without(&topics, owner);
        elections.stage.carries(&wanted).await;
        elections.cut_off(owner, false);
        elections.stage.carries(&topics).await;
        for member in &mut elections.stage.members {
            while futures_util::FutureExt::now_or_never(member.heard.next()).is_some() {}
        }
        assert_eq!(elections.stage.tick(&topics[0], "1").await, ["1"; 3]);
    }
    assert_eq!(elections.stage.upstream.peak(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_leaves_is_succeeded_at_once() {
    let (mut elections, topics) = Elections::with_topics().await;
    elections.stage.carries(&topics).await;
    let (owner, _) = elections.owner(&[0, 1, 2]).await;
    let seat = elections.stage.members.remove(owner);
    let left = Instant::now();
    assert_eq!(seat.feed.close(left + PATIENCE).await, 0);
    seat.share.leave((left + PATIENCE).into_std()).await;
    let wanted = Elections::without(&topics, owner);
    elections.stage.carries(&wanted).await;
    assert!(left.elapsed() < Duration::from_secs(2), "{:?}", left.elapsed());
    assert_eq!((elections.stage.upstream.peak(), elections.stage.upstream.goodbyes()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_says_no_goodbye_keeps_nobody_waiting() {
    let (mut elections, topics) = Elections::with_topics().await;
    elections.stage.carries(&topics).await;
    let (owner, _) = elections.owner(&[0, 1, 2]).await;
    elections.stage.upstream.on_close(OnClose::Never);
    let seat = elections.stage.members.remove(owner);
    let left = Instant::now();
    seat.feed.close(left + PATIENCE).await;
    seat.share.leave((left + PATIENCE).into_std()).await;
    elections.stage.carries(&Elections::without(&topics, owner)).await;
    assert!(left.elapsed() < Duration::from_secs(3), "{:?}", left.elapsed());
    assert_eq!(elections.stage.upstream.peak(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_owner_whose_credential_is_refused_leaves_the_upstream_to_another() {
    let upstreams = [(); 3].map(|()| Upstream::new());
    let elections = Elections::on(upstreams.clone());
    let (first, epoch) = elections.owner(&[0, 1, 2]).await;
    upstreams[first].on_open(OnOpen::Refuse);
    let topics = ["A", "B", "C"].map(topic);
    for (member, topic) in elections.stage.members.iter().zip(&topics) {
        member.feed.subscribe(topic.clone()).await.unwrap();
    }
    let (second, later) = elections.owner(&[0, 1, 2]).await;
    assert!(second != first && later > epoch);
    for member in &elections.stage.members {
        member.until(whole).await;
    }
    assert_eq!(upstreams[first].attempts(), 1, "it is not shown again");
    // The next one that is gone is succeeded by the third, and not by who was refused just now.
    let third = 3 - first - second;
    elections.cut_off(second, true);
    elections.stage.town.burn(second);
    let (next, _) = elections.owner(&[first, third]).await;
    assert_eq!((next, upstreams[first].attempts()), (third, 1));
}

#[tokio::test(start_paused = true)]
async fn where_all_are_refused_the_lease_goes_round_once_and_whoever_has_another_credential_takes_it() {
    let (elections, upstreams) = Elections::where_all(OnOpen::Refuse).await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!([0, 1, 2].map(|member| upstreams[member].attempts()), [1; 3]);
    let nobody = |member: usize| elections.stage.members[member].share.snapshot().owner.is_none();
    assert!((0..3).all(nobody));
    // The last one was not served by anybody since; the others go on with nobody's help, and are told of a credential as well.
    let served = (0..3).find(|member| elections.stage.members[*member].feed.state() == State::Running).unwrap();
    upstreams[served].on_open(OnOpen::Succeed);
    elections.stage.members[served].feed.resume();
    assert_eq!(elections.owner(&[0, 1, 2]).await.0, served);
    for member in &elections.stage.members {
        member.until(whole).await;
    }
    let attempts = |member: usize| upstreams[member].attempts();
    assert_eq!((0..3).map(attempts).sum::<usize>(), 4);
}

#[tokio::test(start_paused = true)]
async fn the_last_that_was_refused_takes_the_upstream_with_another_credential() {
    let (elections, upstreams) = Elections::where_all(OnOpen::Refuse).await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    let waiting = (0..3).find(|member| elections.stage.members[*member].feed.state() == State::Refused).unwrap();
    upstreams[waiting].on_open(OnOpen::Succeed);
    elections.stage.members[waiting].feed.resume();
    assert_eq!(elections.owner(&[0, 1, 2]).await.0, waiting);
    for member in &elections.stage.members {
        member.until(whole).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lone_member_that_was_refused_tries_again_after_a_while() {
    let upstream = Upstream::new();
    let elections = Elections::on([upstream.clone()]);
    let (_, epoch) = elections.owner(&[0]).await;
    upstream.on_open(OnOpen::Refuse);
    let member = &elections.stage.members[0];
    assert_eq!(member.feed.subscribe(topic("A")).await.unwrap().why, Some(Pending::Credential));
    // Nobody watches its credential, and nobody else is there.
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!((member.share.snapshot().owner, upstream.attempts()), (None, 1));
    upstream.on_open(OnOpen::Succeed);
    member.until(whole).await;
    let (_, later) = elections.owner(&[0]).await;
    assert!(later > epoch);
    assert_eq!(upstream.attempts(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_owner_without_a_credential_leaves_the_upstream_to_another() {
    let upstreams = [(); 3].map(|()| Upstream::new());
    let elections = Elections::on(upstreams.clone());
    let (first, _) = elections.owner(&[0, 1, 2]).await;
    upstreams[first].on_open(OnOpen::Lack);
    for (member, symbol) in elections.stage.members.iter().zip(["A", "B", "C"]) {
        member.feed.subscribe(topic(symbol)).await.unwrap();
    }
    for member in &elections.stage.members {
        member.until(whole).await;
    }
    assert_ne!(elections.owner(&[0, 1, 2]).await.0, first);
}

#[tokio::test(start_paused = true)]
async fn where_nobody_has_a_credential_each_looks_for_one_again_and_again() {
    let (elections, upstreams) = Elections::where_all(OnOpen::Lack).await;
    tokio::time::sleep(Duration::from_secs(1_000)).await;
    upstreams[1].on_open(OnOpen::Succeed);
    for member in &elections.stage.members {
        member.until(whole).await;
    }
    assert_eq!(elections.owner(&[0, 1, 2]).await.0, 1);
}

#[tokio::test(start_paused = true)]
async fn where_all_are_refused_each_tries_again_once_in_five_minutes() {
    let (_elections, upstreams) = Elections::where_all(OnOpen::Refuse).await;
    tokio::time::sleep(Duration::from_secs(1_000)).await;
    let attempts = [0, 1, 2].map(|member| upstreams[member].attempts());
    assert!(attempts.iter().all(|attempts| (2..=5).contains(attempts)), "{attempts:?}");
}
