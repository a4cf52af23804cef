//! Consumers of a topic: what they ask for, and what they are done with.

use super::commands::{Replies, failure, success};
use super::frames;
use super::rare::Seek;
use super::subscription::{Key, Sharing, Subscription};
use super::topic::{Position, Topic, is_stored};
use super::world::{Reading, World, partition};
use carom_pulsar::wire::{
    Ack, AckResponse, AckType, ActiveConsumerChange, CloseConsumer, Flow, GetLastMessageId, GetLastMessageIdResponse,
    InitialPosition, MessageIdData, RedeliverUnacknowledged, ServerError, SubType, Subscribe, Unsubscribe,
};

impl World {
    pub(super) fn subscribe(&mut self, connection: u64, begun: &Subscribe) -> Replies {
        let request_id = begun.request_id;
        if !self.owned_here(connection, &begun.topic) {
            return Ok(failure(
                request_id,
                ServerError::ServiceNotReady,
                "the topic is not here: please redo the lookup",
            ));
        }
        let key = Key { connection, id: begun.consumer_id };
        self.end_consumer(key);
        let sharing = match SubType::try_from(begun.sub_type) {
            Ok(SubType::Exclusive) => Sharing::Exclusive,
            Ok(SubType::Failover) => Sharing::Failover,
            Ok(SubType::Shared | SubType::KeyShared) => Sharing::Shared,
            Err(_) => return Ok(failure(request_id, ServerError::NotAllowed, "no such type of subscription")),
        };
        let topic = self.topics.entry(begun.topic.clone()).or_default();
        let start = start(topic, begun);
        let fresh = || Subscription::new(sharing, begun.durable.unwrap_or(true), start);
        let subscription = topic.subscriptions.entry(begun.subscription.clone()).or_insert_with(fresh);
        if !subscription.consumers().is_empty() && subscription.sharing != sharing {
            return Ok(failure(request_id, ServerError::ConsumerBusy, "Subscription is of different type"));
        }
        if !subscription.consumers().is_empty() && sharing == Sharing::Exclusive {
            let text = "Exclusive consumer is already connected";
            return Ok(failure(request_id, ServerError::ConsumerBusy, text));
        }
        subscription.sharing = sharing;
        subscription.attach(key);
        let first = subscription.consumers().len() == 1;
        let name = begun.consumer_name.clone().unwrap_or_default();
        let (topic, subscription) = (begun.topic.clone(), begun.subscription.clone());
        if let Some(link) = self.connections.get_mut(&connection) {
            link.consumers.insert(key.id, Reading { topic, subscription, name });
        }
        let mut replies = success(request_id);
        if sharing == Sharing::Failover {
            replies.push(active(key, first));
        }
        Ok(replies)
    }

    pub(super) fn flow(&mut self, connection: u64, flow: &Flow) -> Replies {
        let key = Key { connection, id: flow.consumer_id };
        if let Some((reading, subscription)) = self.reading(key) {
            subscription.permit(key, flow.message_permits);
            self.deliver(&reading.topic, &reading.subscription);
        }
        Ok(Vec::new())
    }

    pub(super) fn acknowledge(&mut self, connection: u64, ack: &Ack) -> Replies {
        let known = self.try_acknowledge(Key { connection, id: ack.consumer_id }, ack).is_some();
        let Some(request_id) = ack.request_id else { return Ok(Vec::new()) };
        Ok(vec![frames::command(AckResponse {
            consumer_id: ack.consumer_id,
            error: (!known).then_some(ServerError::ConsumerNotFound as i32),
            message: (!known).then(|| "no such consumer".to_owned()),
            request_id: Some(request_id),
        })])
    }

    fn try_acknowledge(&mut self, key: Key, ack: &Ack) -> Option<()> {
        let reading = self.connections.get(&key.connection)?.consumers.get(&key.id)?.clone();
        let topic = self.topics.get_mut(&reading.topic)?;
        for id in &ack.message_id {
            let position = position(id);
            let (found, after) = (topic.find(position), topic.after(position));
            let subscription = topic.subscriptions.get_mut(&reading.subscription)?;
            match (found, ack.ack_type == AckType::Cumulative as i32) {
                (Some(index), true) => subscription.acknowledge_to(index, &id.ack_set),
                (Some(index), false) => subscription.acknowledge(index, &id.ack_set),
                (None, true) if after > 0 => subscription.acknowledge_to(after - 1, &[]),
                (None, _) => {}
            }
        }
        Some(())
    }

    pub(super) fn redeliver(&mut self, connection: u64, again: &RedeliverUnacknowledged) -> Replies {
        let key = Key { connection, id: again.consumer_id };
        let Some(reading) = self.connections.get(&connection).and_then(|link| link.consumers.get(&key.id)).cloned()
        else {
            return Ok(Vec::new());
        };
        if let Some(topic) = self.topics.get_mut(&reading.topic) {
            let which = again.message_ids.iter().filter_map(|id| topic.find(position(id))).collect();
            if let Some(subscription) = topic.subscriptions.get_mut(&reading.subscription) {
                let all = again.message_ids.is_empty();
                subscription.redeliver(key, if all { None } else { Some(&which) });
            }
        }
        self.deliver(&reading.topic, &reading.subscription);
        Ok(Vec::new())
    }

    pub(super) fn unsubscribe(&mut self, connection: u64, end: &Unsubscribe) -> Replies {
        let key = Key { connection, id: end.consumer_id };
        let Some((reading, subscription)) = self.reading(key) else {
            return Ok(failure(end.request_id, ServerError::ConsumerNotFound, "no such consumer"));
        };
        if subscription.consumers().len() > 1 {
            let text = "Unconnected or shared consumer attempting to unsubscribe";
            return Ok(failure(end.request_id, ServerError::Metadata, text));
        }
        self.end_consumer(key);
        if let Some(topic) = self.topics.get_mut(&reading.topic) {
            topic.subscriptions.remove(&reading.subscription);
        }
        Ok(success(end.request_id))
    }

    pub(super) fn last_message(&mut self, connection: u64, asked: &GetLastMessageId) -> Replies {
        let key = Key { connection, id: asked.consumer_id };
        let Some((reading, subscription)) = self.reading(key) else {
            return Ok(failure(asked.request_id, ServerError::ConsumerNotFound, "no such consumer"));
        };
        let done = subscription.done();
        let log = self.topics.get(&reading.topic).map_or(&[][..], |topic| &topic.log);
        let id = |index: Option<usize>| {
            let entry = index.and_then(|index| log.get(index));
            let position = entry.map_or(Position::EARLIEST, |entry| entry.position);
            let batch = entry.filter(|entry| entry.batch);
            MessageIdData {
                ledger_id: position.ledger as u64,
                entry_id: position.entry as u64,
                partition: Some(partition(&reading.topic).unwrap_or(-1)),
                batch_index: Some(batch.map_or(-1, |entry| entry.messages as i32 - 1)),
                ..MessageIdData::default()
            }
        };
        Ok(vec![frames::command(GetLastMessageIdResponse {
            last_message_id: id(log.len().checked_sub(1)),
            request_id: asked.request_id,
            consumer_mark_delete_position: Some(MessageIdData { batch_index: None, ..id(done.checked_sub(1)) }),
        })])
    }

    pub(super) fn seek(&mut self, connection: u64, seek: &Seek) -> Replies {
        let Some((reading, _)) = self.reading(Key { connection, id: seek.consumer_id }) else {
            return Ok(failure(seek.request_id, ServerError::ConsumerNotFound, "no such consumer"));
        };
        let Some(topic) = self.topics.get(&reading.topic) else { return Err(Vec::new()) };
        let index = match (&seek.message_id, seek.message_publish_time) {
            (Some(id), _) => topic.from(position(id)),
            (None, Some(time)) => topic.log.partition_point(|entry| entry.published < time),
            (None, None) => 0,
        };
        self.rewind(&reading.topic, &reading.subscription, index);
        Ok(success(seek.request_id))
    }

    /// Whoever is at the subscription is sent away, as real brokers do, and comes back to find it moved.
    pub(super) fn rewind(&mut self, topic: &str, subscription: &str, index: usize) {
        let held = self.topics.get_mut(topic).and_then(|topic| topic.subscriptions.get_mut(subscription));
        if let Some(held) = held {
            held.seek(index);
        }
        self.dismiss(topic, Some(subscription), &(None, None));
    }

    pub(super) fn close_consumer(&mut self, connection: u64, close: &CloseConsumer) -> Replies {
        if self.end_consumer(Key { connection, id: close.consumer_id }).is_none() {
            return Ok(failure(close.request_id, ServerError::Metadata, "Consumer not found"));
        }
        Ok(success(close.request_id))
    }

    /// Takes it from its connection and its subscription, if it is there.
    pub(super) fn end_consumer(&mut self, key: Key) -> Option<Reading> {
        let reading = self.connections.get_mut(&key.connection)?.consumers.remove(&key.id)?;
        self.detach(&reading, key);
        Some(reading)
    }

    /// What it had goes to others.
    pub(super) fn detach(&mut self, reading: &Reading, key: Key) {
        let Some(topic) = self.topics.get_mut(&reading.topic) else { return };
        let Some(subscription) = topic.subscriptions.get_mut(&reading.subscription) else { return };
        let before = subscription.consumers().first().map(|consumer| consumer.key);
        subscription.detach(key);
        let after = subscription.consumers().first().map(|consumer| consumer.key);
        if let (Sharing::Failover, Some(next)) = (subscription.sharing, after.filter(|_| before != after)) {
            self.send(next.connection, active(next, true));
        } else if !subscription.durable && after.is_none() {
            topic.subscriptions.remove(&reading.subscription);
        }
        self.deliver(&reading.topic, &reading.subscription);
    }

    fn reading(&mut self, key: Key) -> Option<(Reading, &mut Subscription)> {
        let reading = self.connections.get(&key.connection)?.consumers.get(&key.id)?.clone();
        let subscription = self.topics.get_mut(&reading.topic)?.subscriptions.get_mut(&reading.subscription)?;
        Some((reading, subscription))
    }
}

fn active(key: Key, is_active: bool) -> Vec<u8> {
    frames::command(ActiveConsumerChange { consumer_id: key.id, is_active: Some(is_active) })
}

/// Where a new subscription starts.
fn start(topic: &Topic, begun: &Subscribe) -> usize {
    match &begun.start_message_id {
        // The rest of that batch may still be wanted.
        Some(id) if id.batch_index.is_some_and(|index| index >= 0) => topic.from(position(id)),
        Some(id) => topic.after(position(id)),
        None if begun.initial_position == Some(InitialPosition::Earliest as i32) && is_stored(&begun.topic) => 0,
        None => topic.log.len(),
    }
}

/// The wire has no sign, and yet its numbers have one.
fn position(id: &MessageIdData) -> Position {
    Position { ledger: id.ledger_id as i64, entry: id.entry_id as i64 }
}
