//! What a test sees of a cluster: copies, taken at one moment.

use super::subscription::Key;
use super::world::{Link, World};
use std::net::SocketAddr;

/// An open connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// No other connection of the cluster has it, before or after.
    pub id: u64,
    /// The broker that accepted it.
    pub broker: usize,
    /// The broker that it leads to: another one when the client asked for it as of a proxy.
    pub target: usize,
    /// The client's end.
    pub peer: SocketAddr,
    /// What the client says it is, once it has said CONNECT.
    pub client: Option<String>,
    /// Its producers, by id.
    pub producers: Vec<Producer>,
    /// Its consumers, by id.
    pub consumers: Vec<Consumer>,
}

/// A producer of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Producer {
    /// The client's number for it.
    pub id: u64,
    /// Its name, be it the client's choice or the broker's.
    pub name: String,
    /// What it writes to, by full name.
    pub topic: String,
}

/// A consumer of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// The client's number for it.
    pub id: u64,
    /// Its name, if it has one.
    pub name: String,
    /// What it reads, by full name.
    pub topic: String,
    /// As part of this subscription.
    pub subscription: String,
    /// How many messages it may be sent; below 0 when a batch was larger than that.
    pub permits: i64,
    /// How many entries it was sent and has not acknowledged.
    pub pending: usize,
}

impl World {
    pub(super) fn seen(&self, id: u64, link: &Link) -> Connection {
        let producers = link.producers.iter().map(|(id, producer)| Producer {
            id: *id,
            name: producer.name.clone(),
            topic: producer.topic.clone(),
        });
        let consumers = link.consumers.iter().map(|(consumer, reading)| {
            let subscription =
                self.topics.get(&reading.topic).and_then(|topic| topic.subscriptions.get(&reading.subscription));
            let key = Key { connection: id, id: *consumer };
            let attached = subscription.and_then(|held| held.consumers().iter().find(|consumer| consumer.key == key));
            Consumer {
                id: *consumer,
                name: reading.name.clone(),
                topic: reading.topic.clone(),
                subscription: reading.subscription.clone(),
                permits: attached.map_or(0, |consumer| consumer.permits),
                pending: attached.map_or(0, |consumer| consumer.pending.len()),
            }
        });
        Connection {
            id,
            broker: link.broker,
            target: link.target,
            peer: link.peer,
            client: link.client.clone(),
            producers: producers.collect(),
            consumers: consumers.collect(),
        }
    }
}
