//! The handle of a gateway.

use crate::builder::Builder;
use crate::bus::Bus;
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use carom::monitor::Id;
use futures_util::future::join_all;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout_at;

/// How long a feed that other gateways wait for may take to close: less than they wait for one that is killed.
const CLOSE_SHARED: Duration = Duration::from_secs(2);

/// A gateway that runs. See the [crate](crate).
///
/// Dropping it stops it too, without waiting for anything: clients are closed with 1001, and its feeds when their last handle
/// is gone.
pub struct Gateway {
    id: Id,
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<Option<Instant>>,
    server: JoinHandle<()>,
    carriers: JoinSet<()>,
}

impl Gateway {
    /// Starts building a gateway.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn new(
        id: Id,
        address: SocketAddr,
        shared: Arc<Shared>,
        stop: watch::Sender<Option<Instant>>,
        server: JoinHandle<()>,
        carriers: JoinSet<()>,
    ) -> Gateway {
        Gateway { id, address, shared, stop, server, carriers }
    }

    /// What its [monitor](Builder::monitor) calls it.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Where clients connect to.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// A copy of its state for people.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.snapshot()
    }

    /// The bus that the ticks of this user at this broker go through. Whatever is published on it under the names that OpenAlgo
    /// uses is treated alike: ticks, order updates (`*_orders`) of the user that their payload names, and
    /// `CACHE_INVALIDATE_{AUTH|FEED|ALL}_{user}`, after which the feed's credential is tried again. `None` if there is no such feed.
    pub fn bus(&self, broker: &str, user: &str) -> Option<Bus> {
        let scope = self.shared.scopes.get(&(broker.into(), user.into()))?;
        scope.supply.as_ref().map(|supply| supply.bus.clone())
    }

    /// Stops it: nobody is let in any more, clients get what waits for them and are closed with 1001, feeds are closed, and what
    /// they said until then goes through their buses; then other gateways may own what was shared with them, and buses are closed.
    /// What is not done by the deadline is cut short; clients have half of the time
    /// until then, so that one who does not leave takes none from the feeds. A feed that is shared has half of what is left then,
    /// and at most 2 s, as nobody has ticks meanwhile. How many subscriptions of the feeds were cut.
    ///
    /// Cancelled, it goes on as if the gateway had been dropped.
    pub async fn stop(mut self, deadline: impl Into<tokio::time::Instant>) -> usize {
        let deadline = deadline.into();
        let now = Instant::now();
        let half = deadline.into_std().saturating_duration_since(now) / 2;
        self.stop.send_replace(Some(now + half));
        let _ = (&mut self.server).await;
        let supplies = self.shared.scopes.values().filter_map(|scope| scope.supply.as_ref());
        // Others wait for what is shared, and some of the time is left to tell them that they need not any longer.
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        let shared_by = Instant::now() + CLOSE_SHARED.min(left / 2);
        let closing = supplies.clone().map(|supply| {
            let by = if supply.share.is_some() { shared_by } else { deadline.into_std() };
            supply.source.close(by)
        });
        let cut = join_all(closing).await;
        let carried = async { while self.carriers.join_next().await.is_some() {} };
        let _ = timeout_at(deadline, carried).await;
        let shares = supplies.clone().filter_map(|supply| supply.share.as_ref());
        join_all(shares.map(|share| share.leave(deadline.into_std()))).await;
        join_all(supplies.map(|supply| supply.bus.close(deadline))).await;
        cut.into_iter().sum()
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("address", &self.address)
            .field("clients", &self.shared.roll.len())
            .finish_non_exhaustive()
    }
}
