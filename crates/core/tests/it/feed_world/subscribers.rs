//! Subscribers: they come, wait, give up and leave; and what all of them want together.

use super::{Event, Moment, World, ms};
use crate::limits::one_of;
use carom_core::feed::{
    ConnectionId, Delivery, Instrument, Level, Mode, Pending, Placement, Refusal, Subscribed, Topic, WaiterId,
};
use std::collections::{BTreeMap, BTreeSet};

/// What is wanted, as the world knows it.
#[derive(Default)]
pub(crate) struct Subscribers {
    /// How often each level of each instrument is wanted.
    pub(crate) wanted: BTreeMap<Instrument, BTreeMap<Level, usize>>,
    pub(crate) waiting: BTreeMap<WaiterId, (Topic, Moment)>,
    /// Instruments of which something was refused lately.
    pub(crate) troubled: BTreeSet<Instrument>,
    /// Instruments of which somebody was told that they are carried, and where they have ticked since.
    pub(crate) assured: BTreeMap<Instrument, Option<ConnectionId>>,
    pub(crate) asked: usize,
    pub(crate) told: usize,
}

impl Subscribers {
    pub(super) fn everything_gone(&mut self) {
        self.wanted.clear();
        self.assured.clear();
    }

    /// A connection is gone, or about to be, that carried these.
    pub(super) fn lost<'a>(&mut self, carried: impl Iterator<Item = &'a Instrument>) {
        carried.for_each(|instrument| {
            self.assured.remove(instrument);
        });
    }

    /// A tick of this counted that came from there.
    pub(super) fn ticked(&mut self, instrument: &Instrument, connection: ConnectionId) {
        if let Some(source) = self.assured.get_mut(instrument) {
            *source = Some(connection);
        }
    }

    pub(super) fn refused(&mut self, instrument: &Instrument) {
        self.troubled.insert(instrument.clone());
    }

    pub(super) fn accepted(&mut self, instrument: &Instrument, level: Level) {
        if self.highest(instrument) <= Some(level) {
            self.troubled.remove(instrument);
        }
    }

    pub(super) fn highest(&self, instrument: &Instrument) -> Option<Level> {
        self.wanted.get(instrument)?.last_key_value().map(|(level, _)| *level)
    }

    fn wants(&self, topic: &Topic) -> bool {
        self.wanted.get(&topic.instrument).is_some_and(|levels| levels.contains_key(&topic.level.plain()))
    }

    fn add(&mut self, topic: &Topic) {
        *self.wanted.entry(topic.instrument.clone()).or_default().entry(topic.level.plain()).or_default() += 1;
    }

    fn remove(&mut self, topic: &Topic) {
        let Some(levels) = self.wanted.get_mut(&topic.instrument) else { return };
        // Somebody else may have left on its behalf.
        let Some(count) = levels.get_mut(&topic.level.plain()) else { return };
        *count -= 1;
        if *count == 0 {
            levels.remove(&topic.level.plain());
        }
        if levels.is_empty() {
            self.wanted.remove(&topic.instrument);
            self.assured.remove(&topic.instrument);
        }
    }
}

impl World {
    pub(super) fn somebody_comes_or_goes(&mut self) {
        let leaves = self.random.chance(self.setting.leaves);
        let topic = if leaves && self.random.chance(0.9) { self.some_subscribed() } else { Some(self.some_topic()) };
        let Some(topic) = topic else { return };
        if leaves { self.leave(&topic) } else { self.come(&topic) }
    }

    /// Somebody wants this topic.
    pub(crate) fn come(&mut self, topic: &Topic) {
        self.note(|_| format!("  subscribe {topic} {}", topic.level.depth));
        let now = self.now();
        let known = self.subscribers.wanted.contains_key(&topic.instrument);
        let distinct = self.subscribers.wanted.len();
        let same = self.subscribers.wants(topic);
        match self.machine.subscribe(now, topic) {
            Subscribed::Placed(placement) => {
                self.subscribers.add(topic);
                assert!(placement.already || !same, "somebody wants it already");
                assert_ne!(placement.why, Some(Pending::Unanswered), "who may be answered any moment waits");
                self.promise_placed(topic, placement);
                self.assure(topic, placement);
            }
            Subscribed::Waiting(waiter) => {
                self.promise_nobody_waits_in_vain();
                self.subscribers.add(topic);
                self.subscribers.asked += 1;
                let deadline = self.clock + self.setting.options.pending_after;
                assert!(self.subscribers.waiting.insert(waiter, (topic.clone(), deadline)).is_none());
                if self.random.chance(self.setting.gives_up) {
                    let at = self.clock + one_of(&mut self.random, &[ms(0), ms(5), ms(200)]);
                    self.at(at, Event::GivesUp(waiter));
                }
            }
            Subscribed::Refused(Refusal::CapacityReached { max_connections, max_topics_per_connection, topics }) => {
                let options = &self.setting.options;
                assert_eq!(max_connections, options.max_connections);
                assert_eq!(max_topics_per_connection, options.max_topics_per_connection);
                assert_eq!(topics, options.capacity());
                assert!(!known && distinct == options.capacity(), "refused with {distinct} topics: {options:?}");
            }
            Subscribed::Refused(refusal) => assert!(self.closing, "{refusal:?}"),
        }
    }

    fn leave(&mut self, topic: &Topic) {
        self.note(|_| format!("  unsubscribe {topic} {}", topic.level.depth));
        // Somebody may leave on behalf of another who still waits.
        let wanted = self.subscribers.wants(topic);
        assert_eq!(self.machine.unsubscribe(self.now(), topic), wanted, "{topic}");
        if wanted {
            self.subscribers.remove(topic);
        }
    }

    pub(super) fn give_up(&mut self, waiter: WaiterId) {
        let Some((topic, _)) = self.subscribers.waiting.remove(&waiter) else {
            let before = format!("{:?}", self.machine);
            assert!(!self.machine.forget_waiter(self.now(), waiter), "it was told already");
            assert_eq!(format!("{:?}", self.machine), before);
            return;
        };
        self.subscribers.told += 1;
        self.subscribers.remove(&topic);
        assert!(self.machine.forget_waiter(self.now(), waiter));
    }

    pub(super) fn delivered(&mut self, delivery: Delivery) {
        self.subscribers.told += 1;
        match delivery {
            Delivery::Placed { waiter, placement } => {
                let (topic, deadline) = self.subscribers.waiting.remove(&waiter).expect("it waits");
                assert!(!placement.pending || self.clock >= deadline || self.machine_is_barred(), "told too early");
                self.promise_placed(&topic, placement);
                self.assure(&topic, placement);
            }
            Delivery::Refused { waiter, refusal } => {
                let (topic, _) = self.subscribers.waiting.remove(&waiter).expect("it waits");
                match refusal {
                    Refusal::Upstream { .. } => {
                        assert!(self.setting.refuses > 0.0);
                        self.subscribers.remove(&topic);
                    }
                    Refusal::Unsubscribed => assert!(!self.subscribers.wants(&topic), "somebody wants {topic}"),
                    Refusal::Closed => assert!(self.closing),
                    Refusal::CapacityReached { .. } => panic!("whoever waits has a place"),
                }
            }
        }
    }

    fn assure(&mut self, topic: &Topic, placement: Placement) {
        if !placement.pending {
            self.subscribers.assured.entry(topic.instrument.clone()).or_default();
        }
    }

    pub(crate) fn some_topic(&mut self) -> Topic {
        let symbol = format!("S{}", self.random.below(self.setting.instruments));
        let exchange = one_of(&mut self.random, &["NSE", "NSE", "BSE"]);
        let mode = one_of(&mut self.random, &Mode::ALL);
        let mut topic = Topic::new(exchange, symbol, mode);
        topic.level.depth = one_of(&mut self.random, &[0, 1, 5, 5, 20]);
        topic
    }

    fn some_subscribed(&mut self) -> Option<Topic> {
        let wanted = &self.subscribers.wanted;
        let instrument = wanted.keys().nth(self.random.below(wanted.len()))?;
        let levels = &wanted[instrument];
        let level = *levels.keys().nth(self.random.below(levels.len()))?;
        Some(Topic { instrument: instrument.clone(), level })
    }
}
