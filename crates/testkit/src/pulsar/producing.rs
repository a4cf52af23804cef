//! Producers of a topic, and what they send.

use super::commands::{Replies, failure, success};
use super::frames;
use super::subscription::Key;
use super::topic::{Entry, Position, message_id};
use super::world::{World, Writing};
use carom_pulsar::wire::{CloseProducer, Producer, ProducerSuccess, Send, SendError, SendReceipt, ServerError};

impl World {
    pub(super) fn produce(&mut self, connection: u64, begun: &Producer) -> Replies {
        let (request_id, id, topic) = (begun.request_id, begun.producer_id, begun.topic.clone());
        if !self.owned_here(connection, &topic) {
            return Ok(failure(
                request_id,
                ServerError::ServiceNotReady,
                "the topic is not here: please redo the lookup",
            ));
        }
        let name = match begun.producer_name.as_deref() {
            Some("") | None => {
                self.ids.producer += 1;
                format!("testkit-{}", self.ids.producer)
            }
            Some(name) => name.to_owned(),
        };
        let key = Key { connection, id };
        let epoch = begun.epoch.unwrap_or(0);
        let Some(link) = self.connections.get(&connection) else { return Err(Vec::new()) };
        let holder = self.topics.get(&topic).and_then(|topic| topic.producers.get(&name).copied());
        if let Some(holder) = holder.filter(|holder| *holder != key) {
            // Its own later self may take the place, on the same connection.
            let earlier = link.producers.get(&holder.id).is_some_and(|earlier| earlier.epoch < epoch);
            let chosen = begun.user_provided_producer_name.unwrap_or(true);
            if holder.connection != connection || !earlier || chosen {
                let text = format!("Producer with name '{name}' is already connected to topic '{topic}'");
                return Ok(failure(request_id, ServerError::ProducerBusy, &text));
            }
            self.end_producer(holder);
        }
        self.end_producer(key);
        let Some(link) = self.connections.get_mut(&connection) else { return Err(Vec::new()) };
        link.closed_producers.remove(&id);
        link.producers.insert(id, Writing { topic: topic.clone(), name: name.clone(), epoch });
        let held = self.topics.entry(topic).or_default();
        held.producers.insert(name.clone(), key);
        let last = held.sequences.get(&name).filter(|_| self.settings.deduplicate);
        Ok(vec![frames::command(ProducerSuccess {
            request_id,
            producer_name: name,
            last_sequence_id: Some(last.map_or(-1, |last| *last as i64)),
            producer_ready: Some(true),
            ..ProducerSuccess::default()
        })])
    }

    pub(super) fn store(&mut self, connection: u64, send: &Send, raw: &[u8]) -> Replies {
        let Send { producer_id, sequence_id, highest_sequence_id, .. } = *send;
        let Some(link) = self.connections.get(&connection) else { return Err(Vec::new()) };
        let Some(writing) = link.producers.get(&producer_id).cloned() else {
            let expected = link.closed_producers.contains(&producer_id);
            return if expected { Ok(Vec::new()) } else { Err(Vec::new()) };
        };
        let Ok((sound, metadata, payload)) = frames::message(raw) else { return Err(Vec::new()) };
        if !sound || payload.len() > self.settings.max_message_size {
            let error = if sound { ServerError::NotAllowed } else { ServerError::Checksum } as i32;
            let message = if sound { "the message is too large" } else { "the checksum is wrong" }.to_owned();
            return Ok(vec![frames::command(SendError { producer_id, sequence_id, error, message })]);
        }
        let Some(topic) = self.topics.get_mut(&writing.topic) else { return Err(Vec::new()) };
        let last = topic.sequences.get(&writing.name).copied();
        let highest = highest_sequence_id.unwrap_or(0).max(sequence_id);
        let position = if self.settings.deduplicate && last.is_some_and(|last| sequence_id <= last) {
            Position::EARLIEST
        } else {
            let position = topic.end(&mut self.ids.ledger);
            topic.sequences.insert(writing.name.clone(), highest.max(last.unwrap_or(0)));
            let in_batch = metadata.num_messages_in_batch.and_then(|count| u32::try_from(count).ok());
            if !self.settings.keep_unsubscribed && topic.subscriptions.is_empty() {
                topic.log.clear();
            }
            topic.log.push(Entry {
                position,
                producer: writing.name,
                sequence: sequence_id,
                published: metadata.publish_time,
                messages: in_batch.unwrap_or(1),
                batch: in_batch.is_some(),
                compression: metadata.compression.unwrap_or(0),
                payload: payload.to_vec(),
                raw: raw.to_vec(),
            });
            let subscriptions: Vec<String> = topic.subscriptions.keys().cloned().collect();
            for subscription in subscriptions {
                self.deliver(&writing.topic, &subscription);
            }
            position
        };
        Ok(vec![frames::command(SendReceipt {
            producer_id,
            sequence_id,
            message_id: Some(message_id(&writing.topic, position)),
            highest_sequence_id,
        })])
    }

    pub(super) fn close_producer(&mut self, connection: u64, close: &CloseProducer) -> Replies {
        let key = Key { connection, id: close.producer_id };
        let known = self
            .connections
            .get(&connection)
            .is_some_and(|link| link.producers.contains_key(&key.id) || link.closed_producers.contains(&key.id));
        if !known {
            let text = "Producer was not registered on the connection";
            return Ok(failure(close.request_id, ServerError::Unknown, text));
        }
        self.end_producer(key);
        Ok(success(close.request_id))
    }

    /// Takes it from its connection and its topic, if it is there.
    pub(super) fn end_producer(&mut self, key: Key) -> Option<Writing> {
        let writing = self.connections.get_mut(&key.connection)?.producers.remove(&key.id)?;
        self.leave(&writing, key);
        Some(writing)
    }

    pub(super) fn leave(&mut self, writing: &Writing, key: Key) {
        if let Some(topic) = self.topics.get_mut(&writing.topic) {
            // The name may be another's by now.
            if topic.producers.get(&writing.name) == Some(&key) {
                topic.producers.remove(&writing.name);
            }
        }
    }

    pub(super) fn owned_here(&mut self, connection: u64, topic: &str) -> bool {
        let owner = self.owner(topic);
        self.connections.get(&connection).is_some_and(|link| owner == Some(link.target))
    }
}
