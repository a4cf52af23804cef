//! What the brokers of a cluster share: topics, connections, and the script. Commands change it under one lock.

use super::answer::{Answer, On, Script};
use super::frames;
use super::subscription::Key;
use super::topic::{Topic, is_stored, message_id};
use carom_pulsar::wire::{self, BaseCommand, CommandType};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Without TLS, and with.
pub(super) type Urls = (Option<String>, Option<String>);

/// What a connection's writer is to do; the drop of its last sender closes the connection.
#[derive(Debug)]
pub(super) struct Out {
    pub(super) delay: Duration,
    pub(super) bytes: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) brokers: Vec<Broker>,
    /// Those that are open.
    pub(super) connections: BTreeMap<u64, Link>,
    /// By full name.
    pub(super) topics: BTreeMap<String, Topic>,
    /// How many each partitioned topic has.
    pub(super) partitions: BTreeMap<String, u32>,
    pub(super) script: Script,
    pub(super) settings: Settings,
    pub(super) ids: Ids,
    /// Whether the brokers speak TLS.
    pub(super) tls: bool,
}

/// The last that were given away.
#[derive(Debug, Default)]
pub(super) struct Ids {
    pub(super) connection: u64,
    pub(super) ledger: i64,
    pub(super) producer: u64,
}

#[derive(Debug)]
pub(super) struct Broker {
    pub(super) address: SocketAddr,
    /// Whether it owns topics: not when it is stopped.
    pub(super) up: bool,
    /// Connections so far.
    pub(super) accepted: usize,
    /// Commands so far.
    pub(super) heard: BTreeMap<CommandType, usize>,
}

#[derive(Debug)]
pub(super) struct Settings {
    pub(super) token: Option<String>,
    pub(super) redirect: bool,
    pub(super) proxied: bool,
    pub(super) deduplicate: bool,
    pub(super) keep_unsubscribed: bool,
    pub(super) keep_alive: Duration,
    pub(super) max_message_size: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            token: None,
            redirect: false,
            proxied: false,
            deduplicate: false,
            keep_unsubscribed: true,
            keep_alive: Duration::from_secs(30),
            max_message_size: wire::DEFAULT_MAX_MESSAGE_SIZE,
        }
    }
}

/// A connection of a client.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) broker: usize,
    /// The broker that it leads to, which is another if the client asked for one behind a proxy.
    pub(super) target: usize,
    pub(super) peer: SocketAddr,
    pub(super) outbox: mpsc::UnboundedSender<Out>,
    _open: oneshot::Sender<()>,
    /// Its version, once the client has said CONNECT.
    pub(super) client: Option<String>,
    pub(super) producers: BTreeMap<u64, Writing>,
    pub(super) consumers: BTreeMap<u64, Reading>,
    /// Producers that the broker closed: what they had on the way is nobody's fault.
    pub(super) closed_producers: BTreeSet<u64>,
    /// A PING that nothing has come after.
    pub(super) unanswered: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Writing {
    pub(super) topic: String,
    pub(super) name: String,
    pub(super) epoch: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) topic: String,
    pub(super) subscription: String,
    pub(super) name: String,
}

impl World {
    pub(super) fn new(addresses: impl IntoIterator<Item = SocketAddr>, tls: bool) -> World {
        let broker = |address| Broker { address, up: true, accepted: 0, heard: BTreeMap::new() };
        World {
            brokers: addresses.into_iter().map(broker).collect(),
            connections: BTreeMap::new(),
            topics: BTreeMap::new(),
            partitions: BTreeMap::new(),
            script: Script::default(),
            settings: Settings::default(),
            ids: Ids::default(),
            tls,
        }
    }

    /// The drop of `open` tells that the connection is closed.
    pub(super) fn open(
        &mut self,
        broker: usize,
        peer: SocketAddr,
        outbox: mpsc::UnboundedSender<Out>,
        open: oneshot::Sender<()>,
    ) -> u64 {
        self.brokers[broker].accepted += 1;
        self.ids.connection += 1;
        let link = Link {
            broker,
            target: broker,
            peer,
            outbox,
            _open: open,
            client: None,
            producers: BTreeMap::new(),
            consumers: BTreeMap::new(),
            closed_producers: BTreeSet::new(),
            unanswered: false,
        };
        self.connections.insert(self.ids.connection, link);
        self.ids.connection
    }

    /// Forgets a connection, and with it who was there. Its writer ends when it has written what it has.
    pub(super) fn close(&mut self, connection: u64) {
        let Some(link) = self.connections.remove(&connection) else { return };
        for (id, producer) in link.producers {
            self.leave(&producer, Key { connection, id });
        }
        for (id, consumer) in link.consumers {
            self.detach(&consumer, Key { connection, id });
        }
    }

    /// The keep-alive's turn; `false` closes the connection.
    pub(super) fn tick(&mut self, connection: u64) -> bool {
        let Some(link) = self.connections.get_mut(&connection) else { return false };
        if link.client.is_none() || link.unanswered {
            self.close(connection);
            return false;
        }
        link.unanswered = true;
        self.send(connection, frames::command(wire::Ping {}));
        true
    }

    pub(super) fn url(&self, broker: usize) -> String {
        let scheme = if self.tls { "pulsar+ssl" } else { "pulsar" };
        format!("{scheme}://{}", self.brokers[broker].address)
    }

    /// The url as commands have it: without TLS, and with.
    pub(super) fn urls(&self, broker: usize) -> Urls {
        let url = Some(self.url(broker));
        if self.tls { (None, url) } else { (url, None) }
    }

    pub(super) fn send(&self, connection: u64, bytes: Vec<u8>) {
        self.send_after(connection, Duration::ZERO, bytes);
    }

    pub(super) fn send_after(&self, connection: u64, delay: Duration, bytes: Vec<u8>) {
        if let Some(link) = self.connections.get(&connection) {
            // Who has gone misses it.
            let _ = link.outbox.send(Out { delay, bytes });
        }
    }

    /// Who owns the topic; if nobody does, the broker with the least to do from now on.
    pub(super) fn owner(&mut self, topic: &str) -> Option<usize> {
        if let Some(owner) = self.topics.get(topic).and_then(|topic| topic.owner) {
            return Some(owner);
        }
        let load = |broker: usize| self.topics.values().filter(|topic| topic.owner == Some(broker)).count();
        let up = (0..self.brokers.len()).filter(|broker| self.brokers[*broker].up);
        let owner = up.min_by_key(|broker| load(*broker))?;
        self.topics.entry(topic.to_owned()).or_default().owner = Some(owner);
        Some(owner)
    }

    /// Sends what can be sent of a subscription.
    pub(super) fn deliver(&mut self, topic: &str, subscription: &str) {
        let World { topics, script, connections, .. } = self;
        let Some(held) = topics.get_mut(topic) else { return };
        let Some(subscription) = held.subscriptions.get_mut(subscription) else { return };
        let mut broken = Vec::new();
        for delivery in subscription.deliver(&held.log) {
            let Some(link) = connections.get(&delivery.to.connection) else { continue };
            let entry = &held.log[delivery.index];
            let message = wire::Message {
                consumer_id: delivery.to.id,
                message_id: message_id(topic, entry.position),
                redelivery_count: Some(delivery.redeliveries),
                ack_set: delivery.wanted,
                ..wire::Message::default()
            };
            let frame = frames::with_message(message, &entry.raw);
            let places = places(delivery.to.connection, Some(topic), link.broker);
            let play = script.play(&places, Some(CommandType::Message));
            let bytes = match play.answer {
                Answer::Silent | Answer::Ignored | Answer::Error(_) => continue,
                Answer::Close | Answer::DoneAndClose => {
                    broken.push(delivery.to.connection);
                    continue;
                }
                Answer::Bytes(bytes) => bytes,
                Answer::BadChecksum => frames::spoil(frame),
                Answer::Normal | Answer::Delay(..) | Answer::Times(..) => frame,
            };
            let _ = link.outbox.send(Out { delay: play.delay, bytes });
        }
        if !is_stored(topic) {
            // Who could not have it misses it; who has it need not say so.
            subscription.seek(held.log.len());
        }
        for connection in broken {
            self.close(connection);
        }
    }

    /// The topic that a command is about.
    pub(super) fn topic_of(&self, connection: u64, command: &BaseCommand) -> Option<String> {
        use wire::Command as C;
        let link = self.connections.get(&connection)?;
        let producer = |id: &u64| link.producers.get(id).map(|producer| producer.topic.clone());
        let consumer = |id: &u64| link.consumers.get(id).map(|consumer| consumer.topic.clone());
        match command.body.as_ref()? {
            C::Lookup(lookup) => Some(lookup.topic.clone()),
            C::PartitionedMetadata(asked) => Some(asked.topic.clone()),
            C::Producer(begun) => Some(begun.topic.clone()),
            C::Subscribe(begun) => Some(begun.topic.clone()),
            C::Send(send) => producer(&send.producer_id),
            C::CloseProducer(close) => producer(&close.producer_id),
            C::CloseConsumer(close) => consumer(&close.consumer_id),
            C::Flow(flow) => consumer(&flow.consumer_id),
            C::Ack(ack) => consumer(&ack.consumer_id),
            C::RedeliverUnacknowledged(again) => consumer(&again.consumer_id),
            C::Unsubscribe(end) => consumer(&end.consumer_id),
            C::GetLastMessageId(asked) => consumer(&asked.consumer_id),
            _ => None,
        }
    }
}

/// What may be said about a command here, the closest first.
pub(super) fn places(connection: u64, topic: Option<&str>, broker: usize) -> Vec<On> {
    let topic = topic.map(|topic| On::Topic(topic.to_owned()));
    [Some(On::Connection(connection)), topic, Some(On::Broker(broker)), Some(On::Anywhere)]
        .into_iter()
        .flatten()
        .collect()
}

/// Which partition this topic is.
pub(super) fn partition(topic: &str) -> Option<i32> {
    topic.rsplit_once("-partition-").and_then(|(_, number)| number.parse().ok())
}
