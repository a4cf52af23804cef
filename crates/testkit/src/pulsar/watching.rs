//! What a test sees of a cluster, and how it waits to see it.

use super::topic::full_name;
use super::{Cluster, Connection, Entry};
use carom_pulsar::wire::CommandType;

impl Cluster {
    /// How many connections a broker has.
    pub fn connections(&self, broker: usize) -> usize {
        self.shared.lock().at(broker, false).len()
    }

    /// How many connections a broker has ever accepted.
    pub fn accepted(&self, broker: usize) -> usize {
        self.shared.lock().brokers[broker].accepted
    }

    /// The connections of a broker, in the order in which they came.
    pub fn connection_list(&self, broker: usize) -> Vec<Connection> {
        let world = self.shared.lock();
        let links = world.connections.iter().filter(|(_, link)| link.broker == broker);
        links.map(|(id, link)| world.seen(*id, link)).collect()
    }

    /// How many commands of this kind a broker has heard: lookups, pings. Those that the script spoiled are among them.
    pub fn heard(&self, broker: usize, command: CommandType) -> usize {
        self.shared.lock().brokers[broker].heard.get(&command).copied().unwrap_or(0)
    }

    /// Who owns the topic, if anybody does.
    pub fn owner(&self, topic: &str) -> Option<usize> {
        self.shared.lock().topics.get(&full_name(topic)).and_then(|topic| topic.owner)
    }

    /// What was written to the topic.
    pub fn log(&self, topic: &str) -> Vec<Entry> {
        self.shared.lock().topics.get(&full_name(topic)).map(|topic| topic.log.clone()).unwrap_or_default()
    }

    /// How many messages were written to the topic, each of a batch counted.
    pub fn written(&self, topic: &str) -> usize {
        let world = self.shared.lock();
        let log = world.topics.get(&full_name(topic)).map_or(&[][..], |topic| &topic.log);
        log.iter().map(|entry| entry.messages as usize).sum()
    }

    /// The payload of each message that was written to the topic, those of batches too.
    pub fn payloads(&self, topic: &str) -> Vec<Vec<u8>> {
        self.log(topic).iter().flat_map(Entry::payloads).collect()
    }

    /// The names of those who write to the topic.
    pub fn producers(&self, topic: &str) -> Vec<String> {
        let world = self.shared.lock();
        let producers = world.topics.get(&full_name(topic)).map(|topic| topic.producers.keys().cloned().collect());
        producers.unwrap_or_default()
    }

    /// How many consumers a subscription has.
    pub fn consumers(&self, topic: &str, subscription: &str) -> usize {
        let world = self.shared.lock();
        let topic = world.topics.get(&full_name(topic));
        topic.and_then(|topic| topic.subscriptions.get(subscription)).map_or(0, |held| held.consumers().len())
    }

    /// How many entries of the topic a subscription has not acknowledged; `None` if there is no such subscription.
    pub fn backlog(&self, topic: &str, subscription: &str) -> Option<usize> {
        let world = self.shared.lock();
        let topic = world.topics.get(&full_name(topic))?;
        Some(topic.subscriptions.get(subscription)?.backlog(topic.log.len()))
    }

    /// Waits until the condition holds, asking again after everything that happens.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn until(&self, condition: impl Fn(&Cluster) -> bool) {
        let mut changes = self.shared.changes();
        while !condition(self) {
            changes.changed().await.expect("the sender lives as long as this cluster");
        }
    }
}
