//! A client who has said who it is: what it has, and that it is all given back.
//!
//! What a client has is counted twice: in the hub, which knows who gets a tick, and in the feed, which knows what is to be
//! streamed. The feed comes first, and holds it for the request; the hub's count and the end of that hold are one step. So
//! the two never differ but while a request is under way, and whenever that is cut short.

use crate::frame;
use crate::keys::Identity;
use crate::mailbox::Mailbox;
use crate::protocol::reply::{self, Answer, Holding};
use crate::protocol::topic;
use crate::protocol::{BadEntry, Code, Echo, Refusal};
use crate::shared::{Scope, Shared, Supply};
use crate::source::Held;
use carom::feed::SubscribeError;
use carom_core::feed::interest::ClientId;
use carom_core::feed::{Instrument, Level, Mode, Topic};
use futures_util::future::join_all;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

/// See the [module](self).
pub(super) struct Member {
    shared: Arc<Shared>,
    scope: Arc<Scope>,
    client: ClientId,
}

impl Member {
    pub(super) fn new(shared: &Arc<Shared>, identity: &Identity, mailbox: &Arc<Mailbox>) -> Member {
        let scope = shared.scope(identity);
        let client = shared.hub.connect(scope.id, mailbox);
        Member { shared: Arc::clone(shared), scope, client }
    }

    pub(super) fn is(&self, identity: &Identity) -> bool {
        (&self.scope.broker, &self.scope.user) == (&identity.broker, &identity.user)
    }

    pub(super) fn seat(&self) -> ClientId {
        self.client
    }

    pub(super) fn broker(&self) -> &str {
        &self.scope.broker
    }

    pub(super) fn user(&self) -> &str {
        &self.scope.user
    }

    pub(super) fn supply(&self) -> Option<&Supply> {
        self.scope.supply.as_ref()
    }

    pub(super) fn set_orders(&self, wanted: bool) {
        self.shared.hub.set_orders(self.client, wanted);
    }

    /// What it has.
    pub(super) fn subscriptions(&self) -> Vec<Topic> {
        self.shared.hub.subscriptions_of(self.client)
    }

    /// How many topics it has.
    pub(super) fn count(&self) -> usize {
        self.shared.hub.count_with(self.client, &BTreeSet::new())
    }

    /// What its user's clients have, and how many of them.
    pub(super) fn wanted(&self) -> Vec<(Instrument, [usize; 3])> {
        self.shared.hub.wanted(self.scope.id)
    }

    /// The topics that these entries are about; refused if there is nobody to ask for them.
    pub(super) fn topics(
        &self,
        entries: &[Result<Instrument, BadEntry>],
        level: Level,
    ) -> Result<BTreeSet<Topic>, Refusal> {
        if self.scope.supply.is_none() {
            return Err(Refusal::new(Code::BrokerError, "Broker adapter not found"));
        }
        Ok(entries.iter().flatten().map(|instrument| topic_of(instrument, level)).collect())
    }

    /// Whether it would have more than `limit` topics with these: at least how many.
    pub(super) fn too_many_with(&self, topics: &BTreeSet<Topic>, limit: usize) -> Option<usize> {
        // Far too many are not looked up one by one while everybody waits for the hub.
        let count = match topics.len() {
            many if many > limit => many,
            _ => self.shared.hub.count_with(self.client, topics),
        };
        Some(count).filter(|count| *count > limit)
    }

    /// Subscribes to the topics of these entries, all together, and replies; what it has already calls nobody.
    ///
    /// Cancel safe: what is under way is given back.
    pub(super) async fn subscribe(
        &self,
        topics: BTreeSet<Topic>,
        entries: &[Result<Instrument, BadEntry>],
        level: Level,
        echo: Option<&Echo>,
    ) {
        let Some(supply) = &self.scope.supply else { return };
        let hub = &self.shared.hub;
        let new: Vec<Topic> = topics.into_iter().filter(|topic| !hub.has(self.client, topic)).collect();
        // First ticks may come before the last answer.
        let expected = hub.expect(Instant::now(), self.scope.id, &new);
        let under_way = new.into_iter().map(async |topic| {
            let told = match has_a_name(&topic) {
                true => Held::subscribe(Arc::clone(&supply.source), topic.clone()).await.map_err(|error| why(&error)),
                false => Err(format!("{} has no name on a bus: its exchange has an underscore", topic.instrument)),
            };
            (topic, told)
        });
        let asked: BTreeMap<Topic, Result<Held, String>> = join_all(under_way).await.into_iter().collect();

        let answers: Vec<Answer<'_, Holding>> = entries
            .iter()
            .map(|entry| {
                let instrument = match entry {
                    Err(entry) => return Answer::from(entry),
                    Ok(instrument) => instrument,
                };
                let topic = topic_of(instrument, level);
                let pending = match asked.get(&topic) {
                    Some(Err(reason)) => return Answer::failed(instrument, Cow::Borrowed(reason.as_str())),
                    Some(Ok(held)) => held.pending(),
                    // It has it already.
                    None => supply.source.pending(&topic),
                };
                Answer::served(instrument, Holding { level, pending })
            })
            .collect();
        let text = reply::subscribed(&self.scope.broker, &answers, echo);
        let (topics, held): (Vec<Topic>, Vec<Held>) =
            asked.into_iter().filter_map(|(topic, told)| Some((topic, told.ok()?))).unzip();
        let (back, wakers) = hub.join(Instant::now(), self.client, &topics, frame::text(&text));
        drop(expected);
        held.into_iter().for_each(Held::hand_over);
        self.give_back(&back);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// It does not want this any more, in this mode or in any.
    pub(super) fn leave(&self, instrument: &Instrument, mode: Option<Mode>) {
        self.give_back(&self.shared.hub.leave(Instant::now(), self.client, instrument, mode));
    }

    /// It wants nothing any more. What it had.
    pub(super) fn leave_all(&self) -> Vec<Topic> {
        let left = self.shared.hub.leave_all(Instant::now(), self.client);
        self.give_back(&left);
        left
    }

    fn give_back(&self, topics: &[Topic]) {
        if let Some(supply) = &self.scope.supply {
            topics.iter().for_each(|topic| supply.source.unsubscribe(topic));
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.give_back(&self.shared.hub.disconnect(Instant::now(), self.client));
    }
}

fn topic_of(instrument: &Instrument, level: Level) -> Topic {
    Topic { instrument: instrument.clone(), level }
}

/// Whether its ticks would be known as its own when they come from the bus.
fn has_a_name(topic: &Topic) -> bool {
    topic::name(topic.instrument.exchange(), topic.instrument.symbol(), topic.mode()).is_some()
}

/// What a client is told of a topic that could not be had; of a feed that is full in OpenAlgo's words.
fn why(error: &SubscribeError) -> String {
    match error {
        SubscribeError::CapacityReached { max_connections, max_topics_per_connection, topics, .. } => {
            let capacity = max_connections * max_topics_per_connection;
            format!(
                "Maximum capacity reached: {max_connections} connections × {max_topics_per_connection} symbols = {capacity} symbols. \
                 Currently subscribed to {topics} symbols."
            )
        }
        SubscribeError::Refused { reason, .. } => reason.to_string(),
        other => other.to_string(),
    }
}
