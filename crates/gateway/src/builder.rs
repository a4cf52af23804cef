//! Building a gateway: whom it serves, from which feeds, and every option.

use crate::accepting::Accepting;
use crate::bus::Bus;
use crate::carrier;
use crate::cluster::{Elected, Share};
use crate::gateway::Gateway;
use crate::hub::Hub;
use crate::keys::{Identity, Keys};
use crate::options::{Limits, Options};
use crate::server::Server;
use crate::shared::{Scope, Shared, Supply};
use crate::sight::Sight;
use crate::tls::{self, TlsError};
use carom::Monitor;
use carom::feed::{Adapter, Feed};
use carom_core::options::OptionsError;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tracing::Instrument;

/// Where OpenAlgo's clients look for a gateway.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8765);

/// Builds a [`Gateway`]; made by [`Gateway::builder`]. Every option has a default; [`start`](Builder::start) refuses what makes no
/// sense.
#[must_use = "a builder does nothing until `start`"]
pub struct Builder {
    listen: SocketAddr,
    keys: Keys,
    feeds: Vec<(Identity, Supply)>,
    tls: Option<Tls>,
    monitor: Monitor,
    options: Options,
}

enum Tls {
    Files { chain: PathBuf, key: PathBuf },
    Config(Arc<ServerConfig>),
}

/// Why a gateway could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An option makes no sense.
    #[error(transparent)]
    Option(#[from] OptionsError),
    /// Two feeds are for the same user at the same broker.
    #[error("there are two feeds for user `{user}` at broker `{broker}`")]
    #[non_exhaustive]
    TwoFeeds {
        /// The broker.
        broker: Arc<str>,
        /// The user.
        user: Arc<str>,
    },
    /// The certificate or its key cannot be used.
    #[error("TLS cannot be offered")]
    Tls(#[from] TlsError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    #[non_exhaustive]
    Listen {
        /// Which one.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
}

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder {
            listen: DEFAULT_LISTEN,
            keys: Keys::in_memory([]),
            feeds: Vec::new(),
            tls: None,
            monitor: Monitor::global().clone(),
            options: Options::default(),
        }
    }

    /// Where clients connect to; port 0 is one that the system chooses. Default: 127.0.0.1:8765, where OpenAlgo's clients look. A
    /// port that is taken is an error; no other is tried.
    pub fn listen(mut self, address: impl Into<SocketAddr>) -> Builder {
        self.listen = address.into();
        self
    }

    /// Which keys clients may present. They can be [reloaded](Keys::reload) while the gateway runs: who came with a
    /// key that is gone is closed with 4401.
    /// Default: none, and nobody can be served.
    pub fn keys(mut self, keys: Keys) -> Builder {
        self.keys = keys;
        self
    }

    /// The feed of this user at this broker, of any adapter. Each pair may have one. The gateway closes it when it is
    /// [stopped](Gateway::stop). A user with a key and no feed can say who it is, and is told `BROKER_ERROR` when it subscribes.
    pub fn feed<A: Adapter>(self, broker: impl Into<Arc<str>>, user: impl Into<Arc<str>>, feed: Feed<A>) -> Builder {
        self.feed_on(broker, user, feed, Bus::memory())
    }

    /// As [`feed`](Builder::feed), with its ticks on this bus, which is to be nobody else's.
    pub fn feed_on<A: Adapter>(
        mut self,
        broker: impl Into<Arc<str>>,
        user: impl Into<Arc<str>>,
        feed: Feed<A>,
        bus: Bus,
    ) -> Builder {
        let supply = Supply { source: Arc::new(feed), bus, share: None };
        self.feeds.push((Identity::new(broker, user), supply));
        self
    }

    /// A feed that several gateways have together, whose adapter is [elected](Share::elected) of this share, for the user and broker
    /// that the share is of. One of them has the connections to the upstream, and the others get their ticks from it over NATS.
    /// When the gateway is [stopped](Gateway::stop), another becomes the owner at once.
    ///
    /// An owner whose credential the upstream refuses stays the owner, logs that as an error, and nobody has ticks until it has another
    /// credential or is stopped: give all of them the same source of credentials. The others need none while they are not the
    /// owner.
    ///
    /// ```no_run
    /// use carom::feed::Feed;
    /// use carom_gateway::Gateway;
    /// use carom_gateway::bus::{Nats, NatsOptions};
    /// use carom_gateway::credential::Credential;
    /// use carom_gateway::simulated::Simulated;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let nats = Nats::connect(NatsOptions::new("nats://127.0.0.1:4222")).await?;
    /// let share = nats.share("simulated", "demo").await?;
    /// let credential = Credential::file("/etc/carom/token");
    /// let adapter = Simulated::new("ws://exchange.internal:7001", credential.clone())?;
    /// let feed = Feed::builder(share.elected(adapter)).max_connections(3).build()?;
    /// let _watcher = credential.watch(&feed);
    /// let gateway = Gateway::builder().shared_feed(share, feed).start().await?;
    /// # Ok(()) }
    /// ```
    pub fn shared_feed<A: Adapter>(mut self, share: Share, feed: Feed<Elected<A>>) -> Builder {
        let identity = Identity::new(Arc::clone(&share.broker), Arc::clone(&share.user));
        let bus = Bus::Nats(share.bus().clone());
        self.feeds.push((identity, Supply { source: Arc::new(feed), bus, share: Some(share) }));
        self
    }

    /// Serves clients over TLS alone, with this certificate chain and its key, unencrypted, in PEM files; read by `start`.
    /// Default: no TLS.
    pub fn tls(mut self, chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Builder {
        self.tls = Some(Tls::Files { chain: chain.into(), key: key.into() });
        self
    }

    /// As [`tls`](Builder::tls), with a configuration of your own; the last call of either counts.
    pub fn tls_config(mut self, config: Arc<ServerConfig>) -> Builder {
        self.tls = Some(Tls::Config(config));
        self
    }

    /// How much clients may ask for.
    pub fn limits(mut self, limits: Limits) -> Builder {
        self.options.limits = limits;
        // A tick of each topic can wait, so none is lost, however slow a client is.
        self.options.outbox.max_ticks = limits.topics_per_client.max(1);
        self
    }

    /// Whether a client that subscribes is sent the last known tick at once, marked with `"snapshot":true`. Default: true.
    pub fn snapshot_on_subscribe(mut self, snapshot: bool) -> Builder {
        self.options.snapshot = snapshot;
        self
    }

    /// The last price of an instrument is told at most once in this time: the first at once, then the latest of those that
    /// came meanwhile. Quotes and order books are not held back. Default: `None`, and every price is told.
    pub fn ltp_throttle(mut self, interval: impl Into<Option<Duration>>) -> Builder {
        self.options.ltp_throttle = interval.into();
        self
    }

    /// A client that has taken nothing for this long although something waits for it is closed with 1008. Default: 30 s.
    pub fn slow_after(mut self, slow_after: Duration) -> Builder {
        self.options.outbox.slow_after = slow_after;
        self
    }

    /// How long a client has to say who it is, from when it connects; then it is closed with 4401. Default: 15 s.
    pub fn auth_grace(mut self, auth_grace: Duration) -> Builder {
        self.options.auth_grace = auth_grace;
        self
    }

    /// Clients that have said nothing for `interval` are pinged, and closed with 1011 when nothing is heard of them for `timeout`
    /// then. Default: 20 s, 20 s.
    pub fn ping(mut self, interval: Duration, timeout: Duration) -> Builder {
        (self.options.ping_interval, self.options.ping_timeout) = (interval, timeout);
        self
    }

    /// Which monitor sees it. Default: [`Monitor::global`]. Its feeds have [one](carom::feed::Builder::monitor) of their own, which
    /// had better be the same.
    pub fn monitor(mut self, monitor: &Monitor) -> Builder {
        self.monitor = monitor.clone();
        self
    }

    /// Listens, and serves whoever comes, on the runtime it is called in.
    ///
    /// Cancel safe: nothing was started then.
    ///
    /// # Errors
    /// [`StartError`] says why not.
    pub async fn start(self) -> Result<Gateway, StartError> {
        let Builder { listen, keys, feeds, tls, monitor, options } = self;
        options.validate()?;
        let tls = match tls {
            None => None,
            Some(Tls::Config(config)) => Some(TlsAcceptor::from(config)),
            Some(Tls::Files { chain, key }) => Some(TlsAcceptor::from(tls::from_files(&chain, &key)?)),
        };
        let hub = Hub::new(options.ltp_throttle, options.snapshot);
        let mut scopes = BTreeMap::new();
        for (Identity { broker, user, .. }, mut supply) in feeds {
            if let Some(share) = &mut supply.share {
                share.serve(Arc::clone(&supply.source));
            }
            let scope = Scope {
                id: hub.scope(&broker, &user),
                broker: Arc::clone(&broker),
                user: Arc::clone(&user),
                supply: Some(supply),
            };
            if scopes.insert((Arc::clone(&broker), Arc::clone(&user)), Arc::new(scope)).is_some() {
                return Err(StartError::TwoFeeds { broker, user });
            }
        }
        let bound = TcpListener::bind(listen).await.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound.map_err(|source| StartError::Listen { address: listen, source })?;
        let shared = Arc::new(Shared {
            options,
            hub,
            keys,
            attempts: Default::default(),
            roll: Default::default(),
            scopes,
            counters: Default::default(),
            troubles: Default::default(),
        });
        let mut carriers = JoinSet::new();
        let (stop, stopped) = watch::channel(None);
        shared.scopes.values().for_each(|scope| carrier::start(&mut carriers, &shared, scope, &stopped));
        let sight = Sight { shared: Arc::clone(&shared), listen: address, stop: stopped.clone() };
        let sight = Arc::new(sight);
        let id = monitor.register(&sight);
        let accepting = Accepting::new(listener, "clients");
        let server = Server { shared: Arc::clone(&shared), accepting, tls, stop: stopped, sight };
        let span = tracing::info_span!(parent: None, "gateway", listen = %address);
        let server = tokio::spawn(server.run().instrument(span));
        Ok(Gateway::new(id, address, shared, stop, server, carriers))
    }
}
