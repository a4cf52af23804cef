//! The client: the handle that producers and consumers are made with.

mod builder;
mod finding;
mod patience;
mod trouble;

pub use builder::{BuildError, Builder};
pub(crate) use finding::Seat;
pub(crate) use patience::{Pace, at};
pub(crate) use trouble::Trouble;

use crate::connection::Numbers;
use crate::connector::Connector;
use crate::consumer::ConsumerBuilder;
use crate::error::Error;
use crate::hosts::Addresses;
use crate::producer::ProducerBuilder;
use crate::topic;
use builder::Options;
use carom::Set;
use carom::set::ConnectionSnapshot;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// A client of a Pulsar cluster. See the [crate](crate).
///
/// Cheap to clone; all clones are the same client. It lives as long as one of them does, or a producer or consumer.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

/// What a client shares with the tasks of its producers and consumers.
pub(crate) struct Shared {
    pub(crate) set: Set<Connector>,
    pub(crate) options: Options,
    pub(crate) numbers: Arc<Numbers>,
    pub(crate) addresses: Addresses,
    /// Changes when the cluster is reached at other addresses than before.
    new_addresses: watch::Sender<()>,
    runtime: Handle,
    tasks: Mutex<JoinSet<()>>,
    pub(crate) closing: watch::Sender<bool>,
}

impl Client {
    /// Starts building a client of the cluster at `pulsar://host:port` or `pulsar+ssl://host:port`; several hosts are separated
    /// by commas. Without a port it is 6650, with TLS 6651.
    pub fn builder(address: impl Into<String>) -> Builder {
        Builder::new(address.into())
    }

    pub(crate) fn new(shared: Shared) -> Client {
        Client { shared: Arc::new(shared) }
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// A producer for a topic, `persistent://tenant/namespace/topic` or short. Awaiting it begins the producer, on each partition
    /// if the topic has them; options come before. It takes at most `operation_timeout`, unless a broker says that the producer
    /// has to wait for its turn: that may take any time.
    ///
    /// ```no_run
    /// # async fn example(client: carom_pulsar::Client) -> Result<(), carom_pulsar::Error> {
    /// let producer = client.producer("orders").max_pending(100).await?;
    /// # Ok(()) }
    /// ```
    pub fn producer(&self, topic: impl Into<String>) -> ProducerBuilder {
        ProducerBuilder::new(Arc::clone(&self.shared), topic.into())
    }

    /// A consumer of a topic in a subscription. Awaiting it begins the consumer, on each partition if the topic has them;
    /// options come before.
    pub fn consumer(&self, topic: impl Into<String>, subscription: impl Into<String>) -> ConsumerBuilder {
        ConsumerBuilder::new(Arc::clone(&self.shared), topic.into(), subscription.into())
    }

    /// How many partitions a topic has; 0 when it is not made of partitions. Cancel safe.
    ///
    /// # Errors
    /// When nobody says so within `operation_timeout`, or somebody says no; [`Error::Partitions`] when they are said to be more
    /// than 10 000.
    pub async fn partitions(&self, topic: &str) -> Result<u32, Error> {
        self.shared.partitions(&topic::whole(topic)?).await
    }

    /// Every connection there is: where it leads, how far it is on its way out, and who holds it, by role.
    pub fn connections(&self) -> Vec<ConnectionSnapshot> {
        self.shared.set.connections()
    }

    /// Closes the client: producers and consumers are closed at their brokers, what waits fails with [`Error::Closed`], then
    /// the connections end. Takes at most `operation_timeout`.
    ///
    /// Cancel safe: the client stays closed.
    pub async fn close(&self) {
        self.shared.closing.send_replace(true);
        let deadline = Instant::now() + self.shared.options.operation_timeout;
        let mut tasks = std::mem::take(&mut *self.shared.tasks());
        let _ = timeout_at(deadline, async { while tasks.join_next().await.is_some() {} }).await;
        self.shared.set.drain(deadline).await;
    }
}

impl Shared {
    /// Runs the task of a producer or consumer for as long as it likes.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks();
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(task, &self.runtime);
    }

    /// Resolves when the client is closed.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut closing = self.closing.subscribe();
        async move {
            // It fails when the client is gone; whoever waits here holds it.
            let _ = closing.wait_for(|closing| *closing).await;
        }
    }

    fn tasks(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last one to go may be one of the tasks: none of them is to be cut short by it.
impl Drop for Shared {
    fn drop(&mut self) {
        self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner).detach_all();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("set", &self.shared.set).finish_non_exhaustive()
    }
}
