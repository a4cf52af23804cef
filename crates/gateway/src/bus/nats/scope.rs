//! The bus of one user at a broker on NATS: what is said here is heard by all members, and the other way round.

use super::post::{Letter, Post, PostError};
use super::subject::{Heard, Subjects};
use crate::bus::{Message, Subscription};
use crate::cluster::Role;
use crate::nonsense::{Nonsense, shown_topic};
use crate::protocol::topic::{self, BusTopic};
use crate::shared::Counter;
use bytes::Bytes;
use carom::feed::bus;
use carom_core::seldom::Seldom;
use futures_util::StreamExt;
use futures_util::stream::select;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// So many messages wait to be sent before the oldest are dropped: every topic of a large feed a few times over.
const BACKLOG: usize = 32_768;

/// So many are handed to NATS' client before it has to have written them: what it has cannot be taken back, however late it is sent.
const UNDER_WAY: usize = 256;

/// How often it is looked for whether NATS is back.
const LOOK: Duration = Duration::from_millis(50);

/// The bus of one user at a broker on NATS; made by [`Nats::scope`](super::Nats::scope). Cheap to clone; all clones are the same bus.
///
/// Who subscribes here is told what is published here, and what other members publish. What waits to be sent is bounded: when NATS
/// does not keep up, or is away, the oldest is dropped and counted.
#[derive(Clone)]
pub struct NatsBus {
    core: Arc<Core>,
    /// Ends with the last handle.
    _tasks: Arc<JoinSet<()>>,
}

/// A bus on NATS at one moment. Counts are since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NatsStatus {
    /// Whether NATS can be reached, as far as is known.
    pub connected: bool,
    /// Messages that were sent.
    pub sent: u64,
    /// Messages of others that came.
    pub heard: u64,
    /// Messages of others that made no sense by their subject.
    pub malformed: u64,
    /// Ticks of members that do not own the upstream any more, or of this one when it does not.
    pub stale: u64,
    /// Messages that were not sent: too many waited, or NATS did not take them.
    pub dropped: u64,
}

struct Core {
    subjects: Subjects,
    post: Arc<dyn Post>,
    local: bus::Bus,
    /// What is to be sent, by subject; the empty one is a mark, see [`NatsBus::flush`].
    outgoing: bus::Bus,
    /// Who owns the upstream, when somebody is elected; otherwise everybody's ticks count.
    roles: Option<watch::Receiver<Role>>,
    /// The latest epoch in which ticks were said here.
    said_in: AtomicU64,
    counters: Counters,
    /// How many marks have come by.
    marks: watch::Sender<u64>,
}

#[derive(Default)]
struct Counters {
    sent: Counter,
    heard: Counter,
    malformed: Counter,
    stale: Counter,
    dropped: Counter,
    troubles: Mutex<Seldom>,
    senseless: Mutex<Nonsense<Senseless>>,
}

impl NatsBus {
    /// With `roles` only the owner's ticks count.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(crate) fn new(post: Arc<dyn Post>, subjects: Subjects, roles: Option<watch::Receiver<Role>>) -> NatsBus {
        let (local, outgoing) = (bus::Bus::memory(), bus::Bus::memory());
        let waiting = outgoing.subscribe_with_backlog("", BACKLOG);
        let core = Core {
            subjects,
            post,
            local,
            outgoing,
            roles,
            said_in: AtomicU64::new(0),
            counters: Counters::default(),
            marks: watch::Sender::new(0),
        };
        let core = Arc::new(core);
        let mut tasks = JoinSet::new();
        tasks.spawn(send_all(Arc::clone(&core), waiting));
        tasks.spawn(hear_all(Arc::clone(&core)));
        NatsBus { core, _tasks: Arc::new(tasks) }
    }

    /// A copy of its figures.
    pub fn status(&self) -> NatsStatus {
        let Counters { sent, heard, malformed, stale, dropped, .. } = &self.core.counters;
        NatsStatus {
            connected: self.core.post.is_connected(),
            sent: sent.get(),
            heard: heard.get(),
            malformed: malformed.get(),
            stale: stale.get(),
            dropped: dropped.get(),
        }
    }

    /// Waits until NATS has what was published here before; for ever if it cannot be reached.
    ///
    /// Cancel safe.
    pub async fn flush(&self) {
        let mut marks = self.core.marks.subscribe();
        let before = *marks.borrow_and_update();
        self.core.outgoing.publish("", Bytes::new());
        // The sender is in the same place.
        let _ = marks.wait_for(|now| *now > before).await;
    }

    pub(crate) fn publish(&self, topic: Arc<str>, payload: Bytes) {
        let core = &*self.core;
        let subject = match topic::parse(&topic) {
            Some(BusTopic::Tick { .. }) => match core.owned() {
                Some(epoch) => {
                    core.said_in.fetch_max(epoch, Relaxed);
                    core.subjects.tick(epoch, &topic)
                }
                // It came when this member was the owner; what the next one said may have been told already.
                None => return core.counters.stale.add(1),
            },
            Some(BusTopic::Orders | BusTopic::CacheInvalidate { .. } | BusTopic::Ignored) => core.subjects.said(&topic),
            // Whoever listens here counts it; others need not be told.
            None => return core.local.publish(topic, payload),
        };
        core.local.publish(topic, payload.clone());
        match subject {
            Some(subject) => core.outgoing.publish(subject, payload),
            None => core.counters.dropped.add(1),
        }
    }

    pub(crate) fn subscribe_with_backlog(&self, prefix: Arc<str>, backlog: usize) -> Subscription {
        self.core.local.subscribe_with_backlog(prefix, backlog)
    }
}

impl Core {
    /// The epoch that ticks from here are of; none if they do not count.
    fn owned(&self) -> Option<u64> {
        match &self.roles {
            None => Some(0),
            Some(roles) => roles.borrow().owns(tokio::time::Instant::now()),
        }
    }

    /// Whether this was to be said when it was published, and is not any more: a tick of a hold that is over.
    fn is_late(&self, subject: &str) -> bool {
        self.roles.is_some() && self.subjects.epoch(subject).is_some_and(|epoch| self.owned() != Some(epoch))
    }

    /// Whether a tick of this epoch was said here. NATS does not tell a connection what came over it, but after an outage what was under
    /// way on the one before may come to the next.
    fn is_echo(&self, epoch: u64, role: &Role) -> bool {
        // Whoever keeps the lease may have begun anew.
        let is_others = matches!(role, Role::Follower { epoch: theirs, .. } if *theirs == epoch);
        !is_others && epoch <= self.said_in.load(Relaxed)
    }

    fn hear(&self, letter: Letter, horizon: &mut Horizon) {
        self.counters.heard.add(1);
        let topic = match self.subjects.parse(&letter.subject) {
            Some(Heard::Tick { epoch, topic }) if is_tick(&topic) => {
                if let Some(roles) = &self.roles {
                    let role = roles.borrow().clone();
                    horizon.see(&role);
                    if self.is_echo(epoch, &role) || !horizon.takes(epoch) {
                        return self.counters.stale.add(1);
                    }
                }
                topic
            }
            Some(Heard::Said { topic }) if !is_tick(&topic) => topic,
            Some(Heard::Tick { .. }) => return self.malformed(Senseless::NoTick, &letter.subject),
            Some(Heard::Said { .. }) => return self.malformed(Senseless::Tick, &letter.subject),
            None => return self.malformed(Senseless::Subject, &letter.subject),
        };
        self.local.publish(&*topic, letter.payload);
    }

    fn malformed(&self, why: Senseless, subject: &str) {
        self.counters.malformed.add(1);
        let mut senseless = self.counters.senseless.lock().unwrap_or_else(PoisonError::into_inner);
        let count = senseless.happened(why, Instant::now());
        drop(senseless);
        if let Some(count) = count {
            tracing::warn!(%why, subject = shown_topic(subject.as_bytes()), count, "messages of NATS make no sense");
        }
    }

    fn not_sent(&self, error: &PostError) {
        self.counters.dropped.add(1);
        let count = self.counters.troubles.lock().unwrap_or_else(PoisonError::into_inner).happened(Instant::now());
        if let Some(count) = count {
            tracing::warn!(%error, count, "messages were not sent to NATS");
        }
    }
}

/// Why a message makes no sense, by its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
enum Senseless {
    #[error("a subject is none of this bus")]
    Subject,
    #[error("a subject is for ticks, and its topic is none of a tick")]
    NoTick,
    #[error("a subject is not for ticks, and its topic is one of a tick")]
    Tick,
}

/// Ticks of which epochs count: of the latest that was heard of, and later ones.
#[derive(Debug, Default)]
struct Horizon {
    /// The epoch of the role that was seen last.
    seen: u64,
    earliest: u64,
}

impl Horizon {
    /// While nobody is known to own the upstream, it stays as it was. A later epoch does not lower it, as ticks of one later still
    /// may have come already; an earlier one does: whoever keeps the lease has begun anew.
    fn see(&mut self, role: &Role) {
        let (Role::Follower { epoch, .. } | Role::Owner { epoch, .. }) = *role else { return };
        self.earliest = if epoch < self.seen { epoch } else { self.earliest.max(epoch) };
        self.seen = epoch;
    }

    /// Whether a tick of this epoch counts. Those of earlier ones do not from then on.
    fn takes(&mut self, epoch: u64) -> bool {
        let counts = epoch >= self.earliest;
        self.earliest = self.earliest.max(epoch);
        counts
    }
}

fn is_tick(name: &str) -> bool {
    matches!(topic::parse(name), Some(BusTopic::Tick { .. }))
}

/// Sends what waits, for as long as there is somebody who publishes. What NATS' client has it sends whenever it can, so it is
/// given little: an outage may last for longer than what was to be said is true.
async fn send_all(core: Arc<Core>, mut waiting: Subscription) {
    let (mut missed, mut under_way) = (0, 0);
    // One at a time, as what was taken does not make room for what is newer.
    while let Some(Message { topic, payload }) = waiting.next().await {
        let before = std::mem::replace(&mut missed, waiting.missed());
        core.counters.dropped.add(missed - before);
        let is_mark = topic.is_empty();
        if is_mark || under_way == UNDER_WAY {
            // One that fails is no reason to keep anybody waiting.
            let _ = core.post.flush().await;
            under_way = 0;
        }
        if is_mark {
            core.marks.send_modify(|marks| *marks += 1);
            continue;
        }
        while !core.post.is_connected() {
            sleep(LOOK).await;
        }
        if core.is_late(&topic) {
            core.counters.stale.add(1);
            continue;
        }
        under_way += 1;
        match core.post.send(topic.to_string(), payload).await {
            Ok(()) => core.counters.sent.add(1),
            Err(error) => core.not_sent(&error),
        }
    }
}

/// Takes what others say to whoever listens here.
async fn hear_all(core: Arc<Core>) {
    let [ticks, said] = core.subjects.heard();
    let letters = match (core.post.hear(ticks).await, core.post.hear(said).await) {
        (Ok(ticks), Ok(said)) => select(ticks, said),
        (Err(error), _) | (_, Err(error)) => return tracing::error!(%error, "nothing is heard of NATS"),
    };
    let (mut letters, mut horizon) = (letters.ready_chunks(256), Horizon::default());
    while let Some(many) = letters.next().await {
        many.into_iter().for_each(|letter| core.hear(letter, &mut horizon));
        tokio::task::consume_budget().await;
    }
}

impl fmt::Debug for NatsBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsBus").field("subjects", &self.core.subjects).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::town::Town;
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    fn buses(town: &Town) -> [NatsBus; 2] {
        let bus = |house| NatsBus::new(Arc::new(town.house(house)), Subjects::new("carom", "zerodha", "asha"), None);
        [bus(0), bus(1)]
    }

    async fn next(heard: &mut Subscription) -> (String, Bytes) {
        let message = timeout(Duration::from_secs(60), heard.next()).await.expect("nothing is heard").unwrap();
        (message.topic.to_string(), message.payload)
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_said_at_one_end_is_heard_once_at_both() {
        let town = Town::default();
        let buses = buses(&town);
        let mut heard = [0, 1].map(|bus| buses[bus].subscribe_with_backlog("".into(), 100));
        // Both have begun to listen when they have been asked for something else.
        tokio::task::yield_now().await;
        let said = [
            ("NSE_M&M_LTP", "1"),
            ("BSE_INDEX_SENSEX.2_QUOTE", "2"),
            ("asha_orders", "3"),
            ("CACHE_INVALIDATE_ALL_asha", "4"),
        ];
        for (topic, payload) in said {
            buses[0].publish(topic.into(), payload.into());
        }
        // Nobody else makes sense of it.
        buses[0].publish("nonsense".into(), "5".into());
        buses[1].publish("NSE_SBIN_LTP".into(), "6".into());
        buses[0].flush().await;
        buses[1].flush().await;
        let expected = |topics: &[(&str, &'static str)]| {
            let mut expected: Vec<_> =
                topics.iter().map(|(topic, text)| ((*topic).to_owned(), Bytes::from(*text))).collect();
            expected.sort();
            expected
        };
        let mut at_first = Vec::new();
        let mut at_second = Vec::new();
        for _ in 0..6 {
            at_first.push(next(&mut heard[0]).await);
        }
        for _ in 0..5 {
            at_second.push(next(&mut heard[1]).await);
        }
        at_first.sort();
        at_second.sort();
        let all = [said.as_slice(), &[("nonsense", "5"), ("NSE_SBIN_LTP", "6")]].concat();
        assert_eq!(at_first, expected(&all));
        assert_eq!(at_second, expected(&[said.as_slice(), &[("NSE_SBIN_LTP", "6")]].concat()));
        let NatsStatus { sent, heard, malformed, stale, dropped, connected } = buses[0].status();
        assert_eq!((sent, heard, malformed, stale, dropped, connected), (4, 1, 0, 0, 0, true));
    }

    #[tokio::test(start_paused = true)]
    async fn users_do_not_hear_each_other() {
        let town = Town::default();
        let bus =
            |house, user| NatsBus::new(Arc::new(town.house(house)), Subjects::new("carom", "zerodha", user), None);
        let (asha, ravi, again) = (bus(0, "asha"), bus(1, "ravi"), bus(2, "asha"));
        let (mut by_ravi, mut by_asha) =
            (ravi.subscribe_with_backlog("".into(), 9), again.subscribe_with_backlog("".into(), 9));
        tokio::task::yield_now().await;
        asha.publish("NSE_SBIN_LTP".into(), "asha's".into());
        asha.flush().await;
        ravi.publish("NSE_SBIN_LTP".into(), "ravi's".into());
        assert_eq!(next(&mut by_asha).await.1, "asha's");
        assert_eq!(next(&mut by_ravi).await.1, "ravi's");
        assert_eq!(ravi.status().heard, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_nats_does_not_take_gives_its_place_to_what_is_newer_and_is_counted() {
        let town = Town::default();
        let [here, there] = buses(&town);
        let mut heard = there.subscribe_with_backlog("".into(), BACKLOG);
        tokio::task::yield_now().await;
        town.cut_off(0, true);
        let said = BACKLOG as u64 + 100;
        for number in 0..said {
            here.publish("NSE_SBIN_LTP".into(), number.to_string().into());
        }
        // The one that was under way is not among those that wait.
        tokio::task::yield_now().await;
        assert!(!here.status().connected);
        town.cut_off(0, false);
        let newest = (said - 1).to_string();
        let mut count = 1;
        while next(&mut heard).await.1 != newest {
            count += 1;
        }
        here.flush().await;
        let NatsStatus { sent, dropped, .. } = here.status();
        assert_eq!((sent, sent + dropped), (count, said));
        assert!((100..=101).contains(&dropped), "{dropped}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_said_here_is_not_heard_again_by_another_way() {
        let town = Town::default();
        let owner = |epoch| Role::Owner { epoch, until: tokio::time::Instant::now() + Duration::from_secs(60) };
        let (role, roles) = watch::channel(owner(5));
        let subjects = || Subjects::new("carom", "zerodha", "asha");
        let here = NatsBus::new(Arc::new(town.house(0)), subjects(), Some(roles));
        // As the connection before may do, of which NATS does not know that it was the same one's.
        let before = town.house(1);
        let echo = async |epoch, text: &'static str| {
            let subject = subjects().tick(epoch, "NSE_SBIN_LTP").unwrap();
            before.send(subject, text.into()).await.unwrap();
        };
        let mut heard = here.subscribe_with_backlog("".into(), 9);
        tokio::task::yield_now().await;
        here.publish("NSE_SBIN_LTP".into(), "said".into());
        echo(5, "while it is the owner").await;
        tokio::task::yield_now().await;
        role.send_replace(Role::Unknown);
        echo(5, "when nobody is").await;
        tokio::task::yield_now().await;
        role.send_replace(Role::Follower { owner: "other".into(), epoch: 4 });
        echo(4, "by the next owner, in a lease that began anew").await;
        assert_eq!(next(&mut heard).await.1, "said");
        assert_eq!(next(&mut heard).await.1, "by the next owner, in a lease that began anew");
        assert_eq!(here.status().stale, 2);
    }

    #[test]
    fn no_epoch_counts_after_a_later_one_unless_they_begin_anew() {
        let follower = |epoch| Role::Follower { owner: "other".into(), epoch };
        let mut horizon = Horizon::default();
        horizon.see(&follower(5));
        assert_eq!([4, 5, 6, 5].map(|epoch| horizon.takes(epoch)), [false, true, true, false]);
        // It is known late who the owner is, and that is no reason to hear the one before again.
        for role in [follower(5), Role::Unknown, follower(6)] {
            horizon.see(&role);
            assert_eq!([5, 6].map(|epoch| horizon.takes(epoch)), [false, true], "{role:?}");
        }
        horizon.see(&follower(1));
        assert!(horizon.takes(1));
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_its_last_handle() {
        let town = Town::default();
        let [here, there] = buses(&town);
        let mut heard = there.subscribe_with_backlog("".into(), 9);
        tokio::task::yield_now().await;
        here.publish("NSE_SBIN_LTP".into(), "1".into());
        assert_eq!(next(&mut heard).await.1, "1");
        drop(there);
        assert_eq!(timeout(Duration::from_secs(60), heard.next()).await.unwrap(), None);
    }
}
