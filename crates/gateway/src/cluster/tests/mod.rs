//! Several members in one process, without sockets and in paused time, on an upstream that counts its connections.

mod elections;
mod moves;
mod serving;
mod standing;

use super::{Elected, Role, Share};
use crate::bus::Subscription;
use crate::bus::nats::subject::Subjects;
use crate::bus::nats::town::Town;
use bytes::Bytes;
use carom::feed::{Builder, Feed, Mode, Snapshot, Ticks, Topic};
use std::sync::Arc;
use std::time::Duration;
use testkit::feed::Upstream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// Longer than anything here should take.
const PATIENCE: Duration = Duration::from_secs(600);

/// Members of one town that share one upstream.
struct Stage {
    town: Town,
    upstream: Upstream,
    members: Vec<Seat>,
}

/// A member, and who says what its role is.
struct Seat {
    roles: watch::Sender<Role>,
    share: Share,
    feed: Feed<Elected<Upstream>>,
    /// What is heard on its bus.
    heard: Subscription,
    publishing: JoinHandle<()>,
}

impl Stage {
    fn new(count: usize) -> Stage {
        Stage::with(count, |builder| builder)
    }

    fn with(count: usize, options: impl Fn(Builder<Elected<Upstream>>) -> Builder<Elected<Upstream>>) -> Stage {
        Stage::on(Upstream::new(), count, options)
    }

    fn on(
        upstream: Upstream,
        count: usize,
        options: impl Fn(Builder<Elected<Upstream>>) -> Builder<Elected<Upstream>>,
    ) -> Stage {
        let town = Town::default();
        let members = (0..count).map(|number| Seat::new(&town, &upstream, number, &options)).collect();
        Stage { town, upstream, members }
    }

    /// Nobody owns the upstream, and when nothing is left of its connections this one does.
    async fn hand_over(&self, epoch: u64, owner: usize) {
        for member in &self.members {
            member.roles.send_replace(Role::Unknown);
        }
        self.upstream.until(|upstream| upstream.open_now() == 0).await;
        self.elect(epoch, owner);
    }

    /// Everybody is told who owns the upstream.
    fn elect(&self, epoch: u64, owner: usize) {
        let name = Arc::clone(self.members[owner].share.member());
        for (number, member) in self.members.iter().enumerate() {
            member.roles.send_replace(match number == owner {
                true => Role::Owner { epoch, until: Instant::now() + Duration::from_secs(86_400) },
                false => Role::Follower { owner: Arc::clone(&name), epoch },
            });
        }
    }

    /// Waits until each of these is carried by one connection, and nothing else is carried at all.
    async fn carries(&self, topics: &[Topic]) {
        let carried = |upstream: &Upstream| {
            let each = topics.iter().all(|topic| {
                let carried = upstream.carried(&topic.instrument);
                carried.len() == 1 && carried[0].1 == topic.level
            });
            each && upstream.carried_by_each().values().sum::<usize>() == topics.len()
        };
        self.upstream.until(carried).await;
    }

    /// A tick of the upstream, as each member hears it.
    async fn tick(&mut self, topic: &Topic, says: &'static str) -> Vec<Bytes> {
        self.upstream.tick(&topic.instrument, topic.mode(), says);
        let mut heard = Vec::new();
        for member in &mut self.members {
            heard.push(member.hears().await);
        }
        heard
    }
}

impl Seat {
    fn new(
        town: &Town,
        upstream: &Upstream,
        number: usize,
        options: impl Fn(Builder<Elected<Upstream>>) -> Builder<Elected<Upstream>>,
    ) -> Seat {
        let (roles, role) = watch::channel(Role::Unknown);
        let subjects = Subjects::new("carom", "simulated", "demo");
        let (name, post) = (format!("member-{number}").into(), Arc::new(town.house(number)));
        let share = Share::new(name, post, subjects, role, ("simulated", "demo"));
        Seat::of(share, roles, upstream, options)
    }

    fn of(
        mut share: Share,
        roles: watch::Sender<Role>,
        upstream: &Upstream,
        options: impl Fn(Builder<Elected<Upstream>>) -> Builder<Elected<Upstream>>,
    ) -> Seat {
        let feed = Feed::builder(share.elected(upstream.clone())).name("shared").linger(Duration::ZERO);
        let feed = options(feed).build().unwrap();
        share.serve(Arc::new(feed.clone()));
        let heard = share.bus().subscribe_with_backlog("".into(), 1_000);
        let publishing = tokio::spawn(publish(feed.ticks(), share.bus().clone()));
        Seat { roles, share, feed, heard, publishing }
    }

    async fn hears(&mut self) -> Bytes {
        let heard = timeout(PATIENCE, self.heard.next()).await;
        heard.expect("nothing is heard").expect("the bus is there").payload
    }

    /// Waits until its feed is like this.
    async fn until(&self, reached: impl Fn(&Snapshot) -> bool) -> Snapshot {
        let seen = async {
            loop {
                let snapshot = self.feed.snapshot();
                if reached(&snapshot) {
                    return snapshot;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, seen).await.unwrap_or_else(|_| panic!("{:?}", self.feed.snapshot()))
    }

    /// Waits until so many connections of others are served here.
    async fn serves(&self, sessions: usize) {
        let reached = async {
            while self.share.snapshot().sessions != sessions {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, reached).await.unwrap_or_else(|_| panic!("{:?}", self.share.snapshot()));
    }
}

/// As a gateway does.
async fn publish(mut ticks: Ticks, bus: crate::bus::NatsBus) {
    while let Some(tick) = ticks.next().await {
        bus.publish(tick.bus_topic().into(), tick.payload);
    }
}

fn topic(symbol: &str) -> Topic {
    Topic::new("NSE", symbol, Mode::Ltp)
}

/// Whether all that is wanted is carried.
fn whole(snapshot: &Snapshot) -> bool {
    snapshot.withheld == 0 && snapshot.live == snapshot.total_subscriptions
}
