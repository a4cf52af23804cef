//! Consumers: messages come in, acknowledgements go back.
//!
//! A consumer has a task for each topic or partition it reads. Task and handle share what has arrived there. The handle takes messages from
//! all of them in turn; dropping it needs to wait for nothing: the tasks close and let go of their connections.

mod acks;
mod builder;
mod chunks;
mod held;
mod inbox;
mod message;
mod outlet;
mod serving;
mod session;
mod task;

pub use builder::ConsumerBuilder;
pub use message::{Delivered, Message};

use crate::client::Trouble;
use crate::error::Error;
use crate::wire::SubType;
use acks::Ack;
use outlet::{Item, Outlet};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use task::{Order, Reply};
use tokio::sync::{mpsc, oneshot};

/// Reads messages of a subscription. Dropping it closes it at the broker, without waiting.
///
/// When a topic moves, the broker sends everything again that was not acknowledged. Exclusive and failover consumers leave out
/// what they have handed out before and what is not acknowledged yet; in shared subscriptions a message may come again. What was
/// acknowledged comes again when somebody resets the subscription to an earlier message, and after a broker that died before it
/// had stored the acknowledgement.
///
/// Messages of `non-persistent://` topics are not stored: what is sent while the consumer is not at its broker is missed, and
/// nothing comes again.
pub struct Consumer {
    subscription: Arc<str>,
    sub_type: SubType,
    /// By the whole name of what they read.
    parts: BTreeMap<Arc<str>, Part>,
    outlet: Arc<Outlet>,
    /// Parts whose end has not been taken from the outlet.
    live: usize,
}

/// The handle's side of one topic or partition.
struct Part {
    orders: mpsc::UnboundedSender<Order>,
    fate: Arc<OnceLock<Error>>,
    trouble: Trouble,
}

impl Consumer {
    /// The next message of any of its topics. Cancelling it loses nothing.
    ///
    /// While a broker is away it waits, for as long as that takes: the consumer goes on looking for it, until it is closed or told
    /// something final: that the client may not, that the topic is gone. [`trouble`](Consumer::trouble) says what is wrong.
    ///
    /// # Errors
    /// When a message cannot be read (the next can, and [`ack`](Consumer::ack) takes the topic and id in the error), and when a topic cannot be read any more: once for each, while others go
    /// on; [`Error::Closed`] when there is none left.
    pub async fn next(&mut self) -> Result<Message, Error> {
        while self.live > 0 {
            match self.outlet.take() {
                Some((shelf, Item::Message(message, due))) => {
                    if let Some(part) = self.parts.get(&shelf.topic).filter(|_| due) {
                        let _ = part.orders.send(Order::Flow);
                    }
                    return *message;
                }
                Some((_, Item::Ended(reason))) => {
                    self.live -= 1;
                    if let Some(reason) = reason {
                        return Err(reason);
                    }
                }
                Some((_, Item::Nothing)) => {}
                None => self.outlet.filled().await,
            }
        }
        let mut fates = self.parts.values().filter_map(|part| part.fate.get());
        Err(fates.find(|fate| matches!(fate, Error::Panicked { .. })).cloned().unwrap_or(Error::Closed))
    }

    /// Says that a message is done with; ends when the broker has confirmed it. Over a move of the topic it is said again.
    ///
    /// One that could not be read is named by its topic and id:
    ///
    /// ```no_run
    /// # async fn example(mut consumer: carom_pulsar::Consumer) -> Result<(), carom_pulsar::Error> {
    /// match consumer.next().await {
    ///     Ok(message) => consumer.ack(&message).await?,
    ///     Err(carom_pulsar::Error::Unreadable { topic, id, .. }) => consumer.ack((&*topic, id)).await?,
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// A message of a batch is done with when all of them are, and until then confirmed by nobody.
    ///
    /// Cancelling it after the first poll only stops waiting.
    ///
    /// # Errors
    /// When it was not confirmed within `operation_timeout`, was refused, or the consumer has ended; [`Error::Foreign`] when it
    /// came by another subscription, or is of a topic that this consumer does not read.
    pub async fn ack<'m>(&self, message: impl Into<Delivered<'m>>) -> Result<(), Error> {
        self.acknowledge(message.into(), false).await
    }

    /// Says that a message and all before it, of the same topic or partition, are done with. As [`ack`](Consumer::ack).
    ///
    /// # Errors
    /// As [`ack`](Consumer::ack). [`Error::CumulativeAck`] in shared and key-shared subscriptions, where brokers ignore it.
    pub async fn ack_cumulative<'m>(&self, message: impl Into<Delivered<'m>>) -> Result<(), Error> {
        self.acknowledge(message.into(), true).await
    }

    /// Asks for everything again that is not acknowledged.
    pub fn redeliver(&self) {
        for part in self.parts.values() {
            // One that has ended says so to whoever waits for messages.
            let _ = part.orders.send(Order::Redeliver);
        }
    }

    /// The subscription.
    pub fn subscription(&self) -> &str {
        &self.subscription
    }

    /// Why it is without a broker, of any of its topics, since attempts to find one fail; `None` while all is well. It goes on
    /// looking for one, however long that takes.
    pub fn trouble(&self) -> Option<Error> {
        self.parts.values().find_map(|part| part.trouble.get())
    }

    /// Closes the consumer at its brokers, once what was acknowledged is confirmed. Cancelling it only stops waiting.
    ///
    /// # Errors
    /// When the consumer had ended before, or a broker does not say within `operation_timeout` that it has closed it. It is closed
    /// all the same.
    pub async fn close(self) -> Result<(), Error> {
        self.leave(Order::Close).await
    }

    /// Ends the subscription for good, and the consumer with it. Cancelling it only stops waiting.
    ///
    /// # Errors
    /// When the broker says no, or nothing within `operation_timeout`, or cannot be found by then, or the consumer had ended before.
    pub async fn unsubscribe(self) -> Result<(), Error> {
        self.leave(Order::Unsubscribe).await
    }

    async fn acknowledge(
        &self,
        Delivered { topic, id, subscription }: Delivered<'_>,
        cumulative: bool,
    ) -> Result<(), Error> {
        let ours = subscription.is_none_or(|subscription| *subscription == *self.subscription);
        let Some(part) = self.parts.get(topic).filter(|_| ours) else {
            return Err(Error::Foreign { topic: topic.to_owned(), id });
        };
        match self.sub_type {
            SubType::Exclusive | SubType::Failover => {}
            sub_type @ (SubType::Shared | SubType::KeyShared) if cumulative => {
                return Err(Error::CumulativeAck { id, sub_type });
            }
            SubType::Shared | SubType::KeyShared => {}
        }
        part.ask(|reply| Order::Ack(Ack { id, cumulative }, reply))?.wait(part).await
    }

    async fn leave(self, order: impl Fn(Reply) -> Order) -> Result<(), Error> {
        let asked: Vec<_> = self.parts.values().map(|part| (part, part.ask(&order))).collect();
        for (part, answer) in asked {
            answer?.wait(part).await?;
        }
        Ok(())
    }
}

struct Answer(oneshot::Receiver<Result<(), Error>>);

impl Answer {
    async fn wait(self, part: &Part) -> Result<(), Error> {
        self.0.await.unwrap_or_else(|_| Err(part.why()))
    }
}

impl Part {
    fn ask(&self, order: impl FnOnce(Reply) -> Order) -> Result<Answer, Error> {
        let (reply, answer) = oneshot::channel();
        match self.orders.send(order(reply)) {
            Ok(()) => Ok(Answer(answer)),
            Err(_) => Err(self.why()),
        }
    }

    /// Why it takes nothing more.
    fn why(&self) -> Error {
        match self.fate.get() {
            Some(Error::Closed) | None => Error::Closed,
            Some(error) => Error::Ended { what: "consumer", source: Arc::new(error.clone()) },
        }
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("subscription", &self.subscription).field("parts", &self.parts.len()).finish()
    }
}
