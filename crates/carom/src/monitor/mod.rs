//! The monitor: what is held, by whom, and why not.
//!
//! Every pool, set, requester, feed, resolver and gateway registers itself when it is built, and is seen until it has stopped. A
//! monitor holds none of them: it looks, and forgets those that are gone. [`Monitor::snapshot`] is plain data; the figures of each
//! object were taken together, under its one lock, and agree. Two kinds have more than one lock, and may have changed in between: a
//! resolver says who serves, and how its questions stand, a moment later; a gateway counts its clients, and then what they get.
//!
//! ```
//! use carom::monitor::{Monitor, Object};
//! use carom::{Backend, Pool, connect_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let connector = connect_fn(|backend: Backend| async move { Ok::<_, std::io::Error>(backend.to_string()) });
//! let node: std::net::SocketAddr = "10.0.0.1:80".parse()?;
//! let monitor = Monitor::new(); // or none: then it is `Monitor::global()`
//! let pool = Pool::builder(connector).name("orders").backends([node]).monitor(&monitor).build()?;
//!
//! let snapshot = monitor.snapshot();
//! let seen = snapshot.objects.iter().find(|seen| seen.name == "orders").expect("it has registered itself");
//! assert!(matches!(&seen.object, Object::Pool(pool) if pool.backends.len() == 1));
//! drop(pool); // and is not seen any more
//! # Ok(()) }
//! ```
//!
//! What is not ours can be seen as well: implement [`Observe`] and [register](Monitor::register) it.

mod feed;
mod gateway;
mod object;
mod pool;
mod registry;
mod resolver;
mod set;
mod shown;
mod window;

pub use feed::{Feed, FeedConnection, FeedConnectionState, FeedCounters};
pub use gateway::{Gateway, GatewayBus, GatewayClient, GatewayFeed, GatewayShare};
pub use object::{Backend, BackendFlags, BackendState, Idle, Object, Observe, Observed, Phase, Seen, Snapshot, State};
pub use pool::{Pool, PoolBackend, PoolCounters, PoolOptions, Slot};
pub use registry::Id;
pub use resolver::{Dns, DnsCounters, DnsKind, DnsQuestion, DnsState, Resolver};
pub use set::{Set, SetBackend, SetConnection, SetCounters, SetOptions};
pub use window::{OpenWindow, Window, WindowCounters, WindowOptions, WindowSocket};

pub(crate) use shown::{ms, ms_since, ms_until};

use crate::meter::Recorded;
use registry::Registry;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Sees everything that was registered with it. See the [module](self).
///
/// Cheap to clone; all clones are the same monitor.
#[derive(Clone, Default)]
pub struct Monitor {
    registry: Arc<Registry>,
    /// What became metrics of it last.
    recorded: Recorded,
    metered: bool,
}

impl Monitor {
    /// One of its own: it sees what is built with it, and nothing else.
    pub fn new() -> Monitor {
        Monitor::default()
    }

    /// One of its own that meters: pools that are built with it record how long their connections take to make, are waited for and
    /// are used, as the [global](Monitor::global) one's do, if the feature `metrics` is on. Without it, it is as any other.
    pub fn metered() -> Monitor {
        Monitor { metered: true, ..Monitor::default() }
    }

    /// The one that everything registers with that was not told otherwise. It [meters](Monitor::metered).
    pub fn global() -> &'static Monitor {
        static GLOBAL: OnceLock<Monitor> = OnceLock::new();
        GLOBAL.get_or_init(Monitor::metered)
    }

    /// Sees this from now on, until it is dropped or says that it is over. It is not kept alive.
    pub fn register<O: Observe>(&self, object: &Arc<O>) -> Id {
        let weak = Arc::downgrade(object);
        self.registry.add(weak)
    }

    /// Everything that is there, in order of registration. Each is locked by itself, one after the other, for as long as it takes to
    /// copy its figures.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(self.registry.look())
    }

    /// Whether they are the same.
    pub(crate) fn is(&self, other: &Monitor) -> bool {
        Arc::ptr_eq(&self.registry, &other.registry)
    }

    /// One object, if it is still there.
    pub fn object(&self, id: Id) -> Option<Seen> {
        self.registry.look_at(id)
    }

    #[allow(dead_code, reason = "without the feature `metrics` nobody asks")]
    pub(crate) fn is_metered(&self) -> bool {
        self.metered
    }

    #[allow(dead_code, reason = "without the feature `metrics` nothing is recorded")]
    pub(crate) fn recorded(&self) -> &Recorded {
        &self.recorded
    }
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor").field("objects", &self.registry.len()).finish()
    }
}
