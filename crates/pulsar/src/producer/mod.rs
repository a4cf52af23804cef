//! Producers: messages go out, receipts come back.
//!
//! A producer has a task for each partition of its topic, which owns what is in flight there. The handle only puts messages in
//! line, so that dropping it needs to wait for nothing: the task sends what is in line, closes and lets go of the connection.
//!
//! What can become of a message:
//!
//! - It is stored once, and its `send` ends with the receipt: nothing that has its receipt is sent again.
//! - It is stored, and its receipt is lost: with its connection, or because the broker has closed the producer or said no to an
//!   earlier message before it sent the receipt. It is sent again with the same number, together with all behind it, in order. A
//!   broker that deduplicates stores it once; any other stores it **twice**. Nothing else is ever doubled.
//! - It was refused, while one behind it was stored: it fails with what the broker said, as it cannot be stored in order any more.
//! - Its `send` ends with [`Error::TimedOut`] or [`Error::Closed`]: it may be stored all the same, once.
//!
//! The first copies of what is stored are in the order in which messages came in line: that of the calls to `send`, as long as
//! there is room (`max_pending`). What waits for room comes in line when there is some.

mod encoded;
mod outgoing;
mod outstanding;
mod serving;
mod session;
mod task;

pub use outgoing::Outgoing;

use crate::client::{Seat, Shared, Trouble};
use crate::error::Error;
use crate::message_id::MessageId;
use crate::topic;
use outgoing::partition_of;
use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use task::{Beginning, Identity, Order, Pending, Task};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;

/// A producer to be; awaiting it begins it. Made by [`Client::producer`](crate::Client::producer).
#[must_use = "a producer does not begin until it is awaited"]
pub struct ProducerBuilder {
    shared: Arc<Shared>,
    topic: String,
    name: Option<String>,
    max_pending: usize,
}

impl ProducerBuilder {
    pub(crate) fn new(shared: Arc<Shared>, topic: String) -> ProducerBuilder {
        ProducerBuilder { shared, topic, name: None, max_pending: 1000 }
    }

    /// Its name, which no other producer of the topic may have. Not empty. Default: the broker gives it one.
    pub fn name(mut self, name: impl Into<String>) -> ProducerBuilder {
        self.name = Some(name.into());
        self
    }

    /// Messages without a receipt, for each partition; further ones wait. At least 1. Default 1000.
    pub fn max_pending(mut self, max_pending: usize) -> ProducerBuilder {
        self.max_pending = max_pending;
        self
    }

    fn check(&self) -> Result<(), Error> {
        let refuse = |option, problem| Err(Error::Option { option, problem });
        match (self.max_pending, self.name.as_deref()) {
            (0, _) => refuse("max_pending", "must be at least 1"),
            (pending, _) if pending > Semaphore::MAX_PERMITS => refuse("max_pending", "is more than can be counted"),
            (_, Some("")) => refuse("name", "must not be empty"),
            (_, Some(_) | None) => Ok(()),
        }
    }

    async fn begin(self) -> Result<Producer, Error> {
        self.check()?;
        let topic = topic::whole(&self.topic)?;
        let deadline = self.shared.deadline();
        let partitions = self.shared.partitions(&topic).await?;
        let mut parts = Vec::new();
        let mut begun = Vec::new();
        for (topic, partition) in topic::partitions(&topic, partitions) {
            let (part, beginning) = self.part(topic, partition, deadline);
            parts.push(part);
            begun.push(beginning);
        }
        for beginning in begun {
            // Dropping the parts ends the tasks that have begun.
            beginning.await.map_err(|_| Error::Closed)??;
        }
        Ok(Producer { topic, parts, turn: AtomicUsize::new(0), timeout: self.shared.options.operation_timeout })
    }

    fn part(&self, topic: String, partition: i32, deadline: Instant) -> (Part, oneshot::Receiver<Result<(), Error>>) {
        let (orders, taken) = mpsc::unbounded_channel();
        let (reply, beginning) = oneshot::channel();
        let begun = Beginning { reply, deadline };
        let part = Part::new(orders, self.max_pending);
        let who = Identity {
            topic,
            partition,
            id: self.shared.numbers.next(),
            name: self.name.clone(),
            named_by_user: self.name.is_some(),
            epoch: 0,
            seat: Seat { role: "producer", place: None },
        };
        self.shared.spawn(Task::new(Arc::clone(&self.shared), who, taken, begun, &part).run());
        (part, beginning)
    }
}

impl IntoFuture for ProducerBuilder {
    type Output = Result<Producer, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Producer, Error>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.begin())
    }
}

/// Sends messages to a topic. Dropping it sends what is in line, and closes it at the broker, without waiting.
///
/// Once it has begun it outlives any outage: it looks for its broker again and again, with delays, until it is closed or told
/// something final: that the client may not, that the topic has ended or is gone, that another producer has taken its place. What
/// is sent meanwhile is in line until its time is up, and fails then with what is wrong ([`trouble`](Producer::trouble)).
pub struct Producer {
    topic: String,
    parts: Vec<Part>,
    turn: AtomicUsize,
    timeout: Duration,
}

/// The handle's side of one partition.
#[derive(Clone)]
struct Part {
    orders: mpsc::UnboundedSender<Order>,
    room: Arc<Semaphore>,
    fate: Arc<OnceLock<Error>>,
    trouble: Trouble,
}

impl Producer {
    /// Puts a message in line; the future ends with where it is stored, or why it is not known to be. Many may be in flight at
    /// a time: to the same partition they go in the order of these calls, as long as there is room (`max_pending`); beyond that
    /// the future waits for room first.
    ///
    /// Cancelling: a message that is in line is sent whether or not somebody waits for its receipt. One that waits for room is
    /// not.
    ///
    /// It ends exactly once. A message whose receipt was lost is sent again, and is stored twice unless the broker deduplicates;
    /// a broker that does may not say where it has the message ([`MessageId::is_placed`]).
    ///
    /// # Errors
    /// When it has no receipt within `operation_timeout` of being in line (it may be stored all the same), is too large, or was
    /// refused; when the producer has ended.
    pub fn send(&self, message: impl Into<Outgoing>) -> Sending {
        let message = message.into();
        let index = match (&message.key, self.parts.len()) {
            (_, 1) => 0,
            (Some(key), partitions) => partition_of(key, partitions),
            (None, partitions) => self.turn.fetch_add(1, Ordering::Relaxed) % partitions,
        };
        let part = &self.parts[index];
        let state = match Arc::clone(&part.room).try_acquire_owned() {
            Ok(room) => part.put(message, room, self.timeout),
            Err(_) => {
                let acquire = Box::pin(Arc::clone(&part.room).acquire_owned());
                State::Waiting { part: part.clone(), acquire, message, timeout: self.timeout }
            }
        };
        Sending { state, fate: Arc::clone(&part.fate) }
    }

    /// The topic, by its whole name.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// How many partitions it sends to; 1 for a topic without.
    pub fn partitions(&self) -> usize {
        self.parts.len()
    }

    /// Why it is without a broker, of any of its partitions, since attempts to find one fail; `None` while all is well. It goes
    /// on looking for one, however long that takes, and sends what is in line then.
    pub fn trouble(&self) -> Option<Error> {
        self.parts.iter().find_map(|part| part.trouble.get())
    }

    /// Sends what is in line, and closes the producer at its brokers.
    ///
    /// Cancelling it only stops waiting.
    ///
    /// # Errors
    /// When the producer had ended before; when a broker does not confirm it within `operation_timeout`, or says no. It is closed
    /// all the same: what is not known is whether its name is free.
    pub async fn close(self) -> Result<(), Error> {
        let mut closing = Vec::new();
        for part in &self.parts {
            let (reply, closed) = oneshot::channel();
            if part.orders.send(Order::Close(reply)).is_err() {
                return Err(why(&part.fate));
            }
            closing.push((closed, &part.fate));
        }
        for (closed, fate) in closing {
            closed.await.unwrap_or_else(|_| Err(why(fate)))?;
        }
        Ok(())
    }
}

impl Part {
    fn new(orders: mpsc::UnboundedSender<Order>, max_pending: usize) -> Part {
        let room = Arc::new(Semaphore::new(max_pending));
        Part { orders, room, fate: Arc::default(), trouble: Trouble::default() }
    }

    fn put(&self, message: Outgoing, room: OwnedSemaphorePermit, timeout: Duration) -> State {
        let (reply, receipt) = oneshot::channel();
        let deadline = (tokio::time::Instant::now() + timeout).into_std();
        let pending = Pending { message, reply, _room: room, encoded: None, refused: None };
        match self.orders.send(Order::Send(pending, deadline)) {
            Ok(()) => State::InLine(receipt),
            Err(_) => State::Refused,
        }
    }
}

/// Why a producer takes nothing more.
fn why(fate: &OnceLock<Error>) -> Error {
    match fate.get() {
        Some(Error::Closed) | None => Error::Closed,
        Some(error) => Error::Ended { what: "producer", source: Arc::new(error.clone()) },
    }
}

/// A message on its way; see [`Producer::send`].
#[must_use = "whether a message is stored is known when this ends"]
pub struct Sending {
    state: State,
    fate: Arc<OnceLock<Error>>,
}

enum State {
    /// For room. Only here does it keep the producer from its end.
    Waiting {
        part: Part,
        acquire: Acquire,
        message: Outgoing,
        timeout: Duration,
    },
    InLine(oneshot::Receiver<Result<MessageId, Error>>),
    Refused,
}

type Acquire = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

impl Future for Sending {
    type Output = Result<MessageId, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let Sending { state, fate } = &mut *self;
            *state = match state {
                State::Waiting { part, acquire, message, timeout } => match ready!(acquire.as_mut().poll(context)) {
                    Ok(room) => part.put(std::mem::take(message), room, *timeout),
                    Err(_) => State::Refused,
                },
                State::InLine(receipt) => {
                    let receipt = ready!(Pin::new(receipt).poll(context));
                    return Poll::Ready(receipt.unwrap_or_else(|_| Err(why(fate))));
                }
                State::Refused => return Poll::Ready(Err(why(fate))),
            };
        }
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("topic", &self.topic).field("partitions", &self.parts.len()).finish()
    }
}
