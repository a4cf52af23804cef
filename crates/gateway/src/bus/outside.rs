//! Ticks that come from outside: a feed for users whose ticks other programs publish on the bus.

use carom::feed::{Adapter, Change, Pacing, Refused, Tick};
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::sleep;

/// How often a connection shows that it lives; less than anybody sets
/// [`stall_after`](carom::feed::Builder::stall_after) to.
const ALIVE: Duration = Duration::from_secs(1);

/// An adapter without an upstream: every topic is accepted at once, and ticks are what other programs publish on the
/// [bus](super::Bus), such as OpenAlgo's with [`ZeroMq::bind_sub`](super::ZeroMq::bind_sub).
///
/// Nobody there is asked for anything: whoever publishes decides what. What no client wants is passed over. As there are no
/// connections to be sparing with, the feed had better be given room for all topics on one.
///
/// ```
/// use carom::feed::{Feed, Mode, Topic};
/// use carom_gateway::bus::Outside;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let feed = Feed::builder(Outside).max_topics_per_connection(100_000).max_connections(1).build()?;
/// assert!(!feed.subscribe(Topic::new("NSE", "SBIN", Mode::Quote)).await?.pending);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outside;

impl Adapter for Outside {
    type Writer = ();
    type Reader = ();
    type Error = Infallible;

    async fn open(&self) -> Result<((), ()), Infallible> {
        Ok(((), ()))
    }

    async fn write(&self, (): &mut (), _: &[Change]) -> Result<Vec<Refused>, Infallible> {
        Ok(Vec::new())
    }

    async fn read(&self, (): &mut (), _: &mut Vec<Tick>) -> Result<(), Infallible> {
        sleep(ALIVE).await;
        Ok(())
    }

    fn pacing(&self) -> Pacing {
        Pacing { batch: 10_000, pace: Duration::ZERO, heartbeat: None }
    }

    fn has_upstream(&self) -> bool {
        false
    }
}
