//! Topics change their owner, brokers go and come back.

use super::commands::NO_REQUEST;
use super::frames;
use super::subscription::Key;
use super::world::{Urls, World};
use carom_pulsar::wire::{CloseConsumer, CloseProducer};

impl World {
    /// Sends away who is at the topic, and gives it to another, or to nobody. `named`: they are told who has it now.
    pub(super) fn unload(&mut self, topic: &str, to: Option<usize>, named: bool) {
        let urls = to.filter(|_| named).map(|to| self.urls(to)).unwrap_or_default();
        let held = self.topics.entry(topic.to_owned()).or_default();
        held.owner = to;
        // The next owner begins a ledger of its own.
        held.ledger = None;
        let producers: Vec<Key> = held.producers.values().copied().collect();
        for key in producers {
            self.end_producer(key);
            if let Some(link) = self.connections.get_mut(&key.connection) {
                link.closed_producers.insert(key.id);
            }
            let close = CloseProducer {
                producer_id: key.id,
                request_id: NO_REQUEST,
                assigned_broker_service_url: urls.0.clone(),
                assigned_broker_service_url_tls: urls.1.clone(),
            };
            self.send(key.connection, frames::command(close));
        }
        self.dismiss(topic, None, &urls);
    }

    /// Sends away the consumers of one subscription, or of all.
    pub(super) fn dismiss(&mut self, topic: &str, subscription: Option<&str>, urls: &Urls) {
        let Some(held) = self.topics.get(topic) else { return };
        let named = held.subscriptions.iter().filter(|(name, _)| subscription.is_none_or(|wanted| wanted == *name));
        let keys = named.flat_map(|(_, subscription)| subscription.consumers().iter().map(|consumer| consumer.key));
        let keys: Vec<Key> = keys.collect();
        // All are gone before anything is delivered again.
        for key in keys {
            let link = self.connections.get_mut(&key.connection);
            let reading = link.and_then(|link| link.consumers.remove(&key.id));
            let held = self.topics.get_mut(topic).zip(reading);
            if let Some(at) = held.and_then(|(held, reading)| held.subscriptions.get_mut(&reading.subscription)) {
                at.detach(key);
            }
            let close = CloseConsumer {
                consumer_id: key.id,
                request_id: NO_REQUEST,
                assigned_broker_service_url: urls.0.clone(),
                assigned_broker_service_url_tls: urls.1.clone(),
            };
            self.send(key.connection, frames::command(close));
        }
        if let Some(held) = self.topics.get_mut(topic) {
            held.subscriptions.retain(|_, subscription| subscription.durable || !subscription.consumers().is_empty());
        }
    }

    /// A broker that is gone owns nothing, and nobody is connected to it or through it.
    pub(super) fn fall(&mut self, broker: usize) {
        self.brokers[broker].up = false;
        for connection in self.at(broker, true) {
            self.close(connection);
        }
        for topic in self.topics.values_mut().filter(|topic| topic.owner == Some(broker)) {
            (topic.owner, topic.ledger) = (None, None);
        }
    }

    /// The connections that a broker has accepted, and those that lead to it through others.
    pub(super) fn at(&self, broker: usize, through: bool) -> Vec<u64> {
        let here =
            self.connections.iter().filter(|(_, link)| link.broker == broker || through && link.target == broker);
        here.map(|(id, _)| *id).collect()
    }
}
