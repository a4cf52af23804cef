//! Building a client: where the cluster is, and every option.

use super::{Client, Shared};
use crate::address::{AddressError, Service};
use crate::connection::Numbers;
use crate::connector::{Connector, Token};
use crate::hosts::{Addresses, Hosts};
use carom::dns::{DnsOptions, resolver_for};
use carom::tcp::Tcp;
use carom::tls::{Tls, TlsError};
use carom::{Monitor, Policy, Set};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The shortest `connection_max_idle` that is taken, as in Pulsar's own clients.
const SHORTEST_IDLE: Duration = Duration::from_secs(15);

/// The shortest time that an option may be: an interval below it would be a busy loop, and no broker answers within less.
const SHORTEST: Duration = Duration::from_millis(1);

/// The longest delay between two attempts at what has worked before, and between two dials of a broker. With the default spread, an
/// attempt is made at least every 5 s.
const LONGEST_RETRY_DELAY: Duration = Duration::from_millis(4500);

/// The longest time that an option may be.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Builds a [`Client`]; made by [`Client::builder`]. Every option has a default, which is that of Pulsar's own clients;
/// [`build`](Builder::build) refuses what makes no sense.
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    address: String,
    max_idle: Option<Duration>,
    shortest_idle: Duration,
    idle_interval: Option<Duration>,
    per_broker: usize,
    operation_timeout: Duration,
    keep_alive: Duration,
    recovery: Policy,
    token: Option<Token>,
    empty_token: bool,
    tls: Option<Tls>,
    dns: DnsOptions,
    monitor: Monitor,
    runtime: Option<Handle>,
}

/// Why a client could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The address of the cluster makes no sense.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// An option makes no sense.
    #[error("`{option}` {problem}")]
    #[non_exhaustive]
    Option {
        /// Which.
        option: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The connections' set says no.
    #[error(transparent)]
    Set(#[from] carom::BuildError),
    /// There is no tokio runtime here, and none was given.
    #[error("there is no tokio runtime here: call `build` in one, or give `runtime`")]
    NoRuntime,
}

/// What the client goes by.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) operation_timeout: Duration,
    /// A little less, so that a connection that cannot be had says why before the operation that wants it is over.
    pub(crate) lease_timeout: Duration,
    pub(crate) recovery: Policy,
    /// For what has worked before.
    pub(crate) reconnect: Policy,
    pub(crate) dns: DnsOptions,
    pub(crate) monitor: Monitor,
    pub(crate) tls: bool,
}

impl Builder {
    pub(super) fn new(address: String) -> Builder {
        Builder {
            address,
            max_idle: Some(Duration::from_secs(60)),
            shortest_idle: SHORTEST_IDLE,
            idle_interval: None,
            per_broker: 1,
            operation_timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(30),
            recovery: Policy::default()
                .timeout(Duration::from_secs(10))
                .max_timeout(Duration::from_secs(10))
                .max_delay(Duration::from_secs(60)),
            token: None,
            empty_token: false,
            tls: None,
            dns: DnsOptions::default(),
            monitor: Monitor::global().clone(),
            runtime: None,
        }
    }

    /// A connection that no producer, consumer or request has used for this long is released; `None` keeps it. Default 60 s;
    /// under 15 s is refused. Pings are not use.
    pub fn connection_max_idle(mut self, max_idle: impl Into<Option<Duration>>) -> Builder {
        self.max_idle = max_idle.into();
        self
    }

    /// How often unused connections are looked for: after its last use one lives between `connection_max_idle` and that and
    /// twice this. Default: a quarter of `connection_max_idle`, at least a second, at most a minute. Refused if unused
    /// connections are kept.
    pub fn connection_idle_interval(mut self, interval: impl Into<Option<Duration>>) -> Builder {
        self.idle_interval = interval.into();
        self
    }

    /// Connections to one broker; 0 gives every producer, consumer and request its own. A producer or consumer stays with the
    /// one it began with. Default 1.
    pub fn connections_per_broker(mut self, connections: usize) -> Builder {
        self.per_broker = connections;
        self
    }

    /// How long an operation may take, retries included: beginning a producer or consumer, a `send`, a request. Default 30 s;
    /// under 1 ms is refused.
    ///
    /// A producer or consumer that has begun outlives any outage: it goes on looking for its broker, each attempt within this
    /// time, until it is closed or is told that there is no use.
    pub fn operation_timeout(mut self, operation_timeout: Duration) -> Builder {
        self.operation_timeout = operation_timeout;
        self
    }

    /// How often a connection is pinged. One on which nothing arrives from one ping to the next is closed. Default 30 s.
    pub fn keep_alive(mut self, keep_alive: Duration) -> Builder {
        self.keep_alive = keep_alive;
        self
    }

    /// Attempts and timeouts of connecting, and the delays between attempts at anything. Default: 3 attempts, timeout 10 s,
    /// delay 100 ms up to 60 s, spread 0.2. A delay below 1 ms is refused.
    ///
    /// Longer delays than 4.5 s are for producers and consumers that have not begun yet. What has worked before is tried at least every 5 s,
    /// and at once when the addresses of the cluster change.
    pub fn recovery(mut self, recovery: Policy) -> Builder {
        self.recovery = recovery;
        self
    }

    /// The token that says who the client is. Not empty. Default: none.
    pub fn token(self, token: impl Into<String>) -> Builder {
        let token = token.into();
        let empty_token = token.is_empty();
        Builder { empty_token, ..self.token_from(move || token.clone()) }
    }

    /// Where the token comes from: asked for each connection, and when a broker wants to know again. It must not block. With an
    /// empty one there is no connection ([`ConnectionError::EmptyToken`](crate::ConnectionError::EmptyToken)).
    pub fn token_from(mut self, token: impl Fn() -> String + Send + Sync + 'static) -> Builder {
        (self.token, self.empty_token) = (Some(Token(Arc::new(token))), false);
        self
    }

    /// How `pulsar+ssl://` is spoken. Default: the roots of this system.
    pub fn tls(mut self, tls: Tls) -> Builder {
        self.tls = Some(tls);
        self
    }

    /// How names of brokers are resolved. Default: as the system is set up.
    pub fn dns(mut self, dns: DnsOptions) -> Builder {
        self.dns = dns;
        self
    }

    /// Which monitor sees its connections, as a set that is called as the cluster's address, and its resolvers. Default:
    /// [`Monitor::global`].
    pub fn monitor(mut self, monitor: &Monitor) -> Builder {
        self.monitor = monitor.clone();
        self
    }

    /// The tokio runtime that the client lives on, with I/O and timers enabled. Default: the one that `build` is called in.
    pub fn runtime(mut self, runtime: Handle) -> Builder {
        self.runtime = Some(runtime);
        self
    }

    /// For tests only: takes a `connection_max_idle` of any length, so that release can be seen without waiting for it.
    #[doc(hidden)]
    pub fn connection_max_idle_of_tests(mut self, max_idle: Duration) -> Builder {
        (self.max_idle, self.shortest_idle) = (Some(max_idle), Duration::ZERO);
        self
    }

    /// Builds the client. It connects when something is asked of it.
    ///
    /// # Errors
    /// When an option makes no sense (the error names it), or when there is no runtime.
    pub fn build(self) -> Result<Client, BuildError> {
        let service = Service::parse(&self.address)?;
        self.check(&service)?;
        let runtime = match self.runtime {
            Some(runtime) => runtime,
            None => Handle::try_current().map_err(|_| BuildError::NoRuntime)?,
        };
        let tls = match (service.tls, self.tls) {
            (true, Some(tls)) => Some(tls),
            (true, None) => Some(Tls::builder().build()?),
            (false, _) => None,
        };
        let options = Options {
            operation_timeout: self.operation_timeout,
            lease_timeout: self.operation_timeout.mul_f64(0.9),
            reconnect: self.recovery.clone().cap_delays(LONGEST_RETRY_DELAY),
            recovery: self.recovery,
            dns: self.dns.clone(),
            monitor: self.monitor.clone(),
            tls: service.tls,
        };
        let numbers = Arc::new(Numbers::default());
        let connector = Connector {
            tcp: Tcp::default(),
            tls,
            token: self.token,
            keep_alive: self.keep_alive,
            numbers: Arc::clone(&numbers),
        };
        let new_addresses = watch::Sender::new(());
        let hosts = Hosts {
            hosts: service.hosts,
            dns: self.dns,
            monitor: self.monitor.clone(),
            new_addresses: new_addresses.clone(),
        };
        let set = Set::builder(connector)
            .resolver(hosts)
            .monitor(&self.monitor)
            .name(self.address)
            .per_backend(self.per_broker)
            .max_idle(self.max_idle)
            .idle_interval(self.idle_interval)
            .lease_timeout(options.lease_timeout)
            .recovery(options.reconnect.clone())
            .runtime(runtime.clone())
            .build()?;
        let (tasks, closing) = (Mutex::new(JoinSet::new()), watch::Sender::new(false));
        let addresses = Addresses::default();
        Ok(Client::new(Shared { set, options, numbers, addresses, new_addresses, runtime, tasks, closing }))
    }

    fn check(&self, service: &Service) -> Result<(), BuildError> {
        let refuse = |option, problem: &str| Err(BuildError::Option { option, problem: problem.to_owned() });
        if self.max_idle.is_some_and(|max_idle| max_idle < self.shortest_idle) {
            return refuse("connection_max_idle", "must be at least 15 s, or `None`");
        }
        let times = [
            ("connection_max_idle", self.max_idle),
            ("connection_idle_interval", self.idle_interval),
            ("operation_timeout", Some(self.operation_timeout)),
            ("keep_alive", Some(self.keep_alive)),
        ];
        for (option, time) in times {
            match time {
                Some(time) if time < SHORTEST => return refuse(option, &format!("must be at least 1ms, not {time:?}")),
                Some(time) if time > LONGEST => return refuse(option, "must be at most a year"),
                Some(_) | None => {}
            }
        }
        if self.max_idle.is_none() && self.idle_interval.is_some() {
            return refuse("connection_idle_interval", "has no effect without `connection_max_idle`");
        }
        if let Err(error) = self.recovery.validate().and_then(|()| self.recovery.require_delay()) {
            return refuse("recovery", &error.to_string());
        }
        // Which name does not matter: what is wrong with it is said elsewhere.
        if let Err(error) = resolver_for("broker:6650", self.dns.clone()) {
            return refuse("dns", &error.to_string());
        }
        if self.empty_token {
            return refuse("token", "must not be empty");
        }
        if self.tls.is_some() && !service.tls {
            return refuse("tls", "has no effect without `pulsar+ssl://`");
        }
        Ok(())
    }
}
