//! A consumer to be: its options, and its beginning on each topic or partition.

use super::acks::Acks;
use super::inbox::{Delivery, Inbox};
use super::outlet::{Outlet, Shelf};
use super::task::{Beginning, Identity, Leaving, Task};
use super::{Consumer, Part};
use crate::client::{Pace, Seat, Shared, Trouble};
use crate::error::Error;
use crate::topic;
use crate::wire::{InitialPosition, SubType};
use std::collections::{BTreeMap, VecDeque};
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::Instant;

/// Brokers count permits in 32 bits, with a sign.
const MOST_AHEAD: usize = i32::MAX as usize;

/// A consumer to be; awaiting it begins it. Made by [`Client::consumer`](crate::Client::consumer).
#[must_use = "a consumer does not begin until it is awaited"]
pub struct ConsumerBuilder {
    shared: Arc<Shared>,
    topics: Vec<String>,
    subscription: String,
    sub_type: SubType,
    position: InitialPosition,
    name: Option<String>,
    queue: u32,
}

impl ConsumerBuilder {
    pub(crate) fn new(shared: Arc<Shared>, topic: String, subscription: String) -> ConsumerBuilder {
        let (sub_type, position) = (SubType::Exclusive, InitialPosition::Latest);
        ConsumerBuilder { shared, topics: vec![topic], subscription, sub_type, position, name: None, queue: 1000 }
    }

    /// One more topic to read, not given before.
    pub fn topic(mut self, topic: impl Into<String>) -> ConsumerBuilder {
        self.topics.push(topic.into());
        self
    }

    /// How the consumers of the subscription share its messages. Default: [`SubType::Exclusive`].
    pub fn sub_type(mut self, sub_type: SubType) -> ConsumerBuilder {
        self.sub_type = sub_type;
        self
    }

    /// Where the subscription starts if it is new. Default: [`InitialPosition::Latest`].
    pub fn initial_position(mut self, position: InitialPosition) -> ConsumerBuilder {
        self.position = position;
        self
    }

    /// Its name, shown by the broker. Not empty. Default: the broker gives it one.
    pub fn name(mut self, name: impl Into<String>) -> ConsumerBuilder {
        self.name = Some(name.into());
        self
    }

    /// Messages that may arrive ahead of [`Consumer::next`], for each partition; at least 1. Default 1000.
    pub fn receiver_queue(mut self, messages: u32) -> ConsumerBuilder {
        self.queue = messages;
        self
    }

    fn check(&self) -> Result<(), Error> {
        let refuse = |option, problem| Err(Error::Option { option, problem });
        let queue = usize::try_from(self.queue).unwrap_or(usize::MAX);
        match (queue, self.name.as_deref(), self.subscription.as_str()) {
            (0, _, _) => refuse("receiver_queue", "must be at least 1"),
            (queue, _, _) if queue > MOST_AHEAD => {
                refuse("receiver_queue", "must be at most 2^31 - 1, as permits are counted")
            }
            (_, Some(""), _) => refuse("name", "must not be empty"),
            (_, _, "") => refuse("subscription", "must not be empty"),
            (_, Some(_) | None, _) => Ok(()),
        }
    }

    async fn begin(self) -> Result<Consumer, Error> {
        self.check()?;
        let outlet = Arc::new(Outlet::default());
        let deadline = self.shared.deadline();
        let subscription: Arc<str> = self.subscription.as_str().into();
        let mut parts = BTreeMap::new();
        let mut begun = Vec::new();
        for name in &self.topics {
            let whole = topic::whole(name)?;
            let partitions = self.shared.partitions(&whole).await?;
            for (topic, partition) in topic::partitions(&whole, partitions) {
                let topic: Arc<str> = topic.into();
                let inbox = self.inbox(&topic, partition, &subscription);
                let (part, task, beginning) = self.part(&topic, inbox, deadline, Arc::clone(&outlet));
                self.shared.spawn(task.run());
                if parts.insert(topic, part).is_some() {
                    return Err(Error::Option { option: "topic", problem: "must not be given twice" });
                }
                begun.push(beginning);
            }
        }
        for beginning in begun {
            // Dropping the parts ends the tasks that have begun.
            beginning.await.map_err(|_| Error::Closed)??;
        }
        Ok(Consumer { subscription, sub_type: self.sub_type, live: parts.len(), parts, outlet })
    }

    fn inbox<R>(&self, topic: &Arc<str>, partition: i32, subscription: &Arc<str>) -> Inbox<R> {
        let delivery = match self.sub_type {
            _ if !topic::is_stored(topic) => Delivery::Once,
            SubType::Exclusive | SubType::Failover => Delivery::Ordered,
            SubType::Shared | SubType::KeyShared => Delivery::Shared,
        };
        Inbox::new(Arc::clone(topic), Arc::clone(subscription), partition, self.queue, delivery)
    }

    fn part(
        &self,
        topic: &Arc<str>,
        inbox: Inbox<OwnedSemaphorePermit>,
        deadline: Instant,
        outlet: Arc<Outlet>,
    ) -> (Part, Task, oneshot::Receiver<Result<(), Error>>) {
        let (orders, taken) = mpsc::unbounded_channel();
        let (reply, beginning) = oneshot::channel();
        let part = Part { orders, fate: Arc::default(), trouble: Trouble::default() };
        let who = Identity {
            topic: Arc::clone(topic),
            subscription: self.subscription.clone(),
            sub_type: self.sub_type,
            position: self.position,
            name: self.name.clone(),
            id: self.shared.numbers.next(),
            queue: self.queue,
            seat: Seat { role: "consumer", place: None },
        };
        let task = Task {
            shared: Arc::clone(&self.shared),
            who,
            orders: taken,
            outlet,
            begun: Some(Beginning { reply, deadline }),
            fate: Arc::clone(&part.fate),
            shelf: Arc::new(Shelf::new(Arc::clone(topic), inbox)),
            acks: Acks::new(),
            unsent: VecDeque::new(),
            leaving: Leaving::No,
            trouble: part.trouble.clone(),
            pace: Pace::new(&self.shared.options.reconnect),
        };
        (part, task, beginning)
    }
}

impl IntoFuture for ConsumerBuilder {
    type Output = Result<Consumer, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Consumer, Error>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.begin())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;
    use crate::consumer::outlet::Item;

    #[tokio::test]
    async fn a_task_that_panics_leaves_a_reason_to_all_who_wait() {
        let client = Client::builder("pulsar://127.0.0.1:1").build().unwrap();
        let builder = client.consumer("orders", "kitchen");
        let topic: Arc<str> = "persistent://public/default/orders".into();
        let subscription: Arc<str> = "kitchen".into();
        let outlet = Arc::new(Outlet::default());
        for begun in [false, true] {
            let inbox = builder.inbox(&topic, -1, &subscription);
            let (part, mut task, beginning) = builder.part(&topic, inbox, Instant::now(), Arc::clone(&outlet));
            if begun {
                task.begun = None;
            }
            let panicked = tokio::spawn(async move {
                let _task = task;
                panic!("a bug");
            });
            assert!(panicked.await.unwrap_err().is_panic());
            assert!(matches!(part.why(), Error::Ended { what: "consumer", .. }));
            match begun {
                true => assert!(matches!(outlet.take(), Some((_, Item::Ended(Some(Error::Panicked { .. })))))),
                false => {
                    assert!(matches!(beginning.await, Ok(Err(Error::Panicked { .. }))));
                    assert!(matches!(outlet.take(), Some((_, Item::Ended(None)))));
                }
            }
        }
    }
}
