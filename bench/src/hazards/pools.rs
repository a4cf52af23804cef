//! The service as each pool's connector, and each pool with what all hazards set.

use super::service::{NODE, Service, Wire};
use async_trait::async_trait;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// So that the tables of the hazards can say what was run.
pub const VERSIONS: [&str; 5] = ["carom", "bb8 0.9.1", "deadpool 0.13.1", "qorb 0.4.1", "mobc 0.9.0"];

impl carom::Connect for Service {
    type Connection = Wire;
    type Error = io::Error;

    async fn connect(&self, _backend: &carom::Backend) -> io::Result<Wire> {
        self.open().await
    }

    fn liveness(&self, wire: &mut Wire) -> carom::Liveness {
        if wire.broken { carom::Liveness::Closed } else { carom::Liveness::Open }
    }

    fn check(&self, wire: &mut Wire) -> Option<impl Future<Output = io::Result<()>> + Send> {
        Some(self.ping(wire))
    }
}

/// Before `build`, for what else a hazard sets.
pub fn carom(service: &Service, connections: usize, timeout: Duration) -> carom::pool::Builder<Service> {
    carom_of(service.clone(), connections, timeout)
}

pub fn carom_of<C: carom::Connect>(connector: C, connections: usize, timeout: Duration) -> carom::pool::Builder<C> {
    carom::Pool::builder(connector)
        .name("orders")
        .backends([NODE])
        .spares(connections)
        .maximum(connections)
        .claim_timeout(timeout)
}

impl bb8::ManageConnection for Service {
    type Connection = Wire;
    type Error = io::Error;

    async fn connect(&self) -> io::Result<Wire> {
        self.open().await
    }

    async fn is_valid(&self, wire: &mut Wire) -> io::Result<()> {
        self.ping(wire).await
    }

    fn has_broken(&self, wire: &mut Wire) -> bool {
        wire.broken
    }
}

pub fn bb8(service: &Service, connections: u32, timeout: Duration) -> bb8::Pool<Service> {
    bb8::Pool::builder()
        .max_size(connections)
        .min_idle(connections)
        .connection_timeout(timeout)
        .build_unchecked(service.clone())
}

impl deadpool::managed::Manager for Service {
    type Type = Wire;
    type Error = io::Error;

    async fn create(&self) -> io::Result<Wire> {
        self.open().await
    }

    async fn recycle(
        &self,
        wire: &mut Wire,
        _metrics: &deadpool::managed::Metrics,
    ) -> deadpool::managed::RecycleResult<io::Error> {
        Ok(self.ping(wire).await?)
    }
}

/// deadpool has no timeout for a claim as a whole, so each of its phases has it.
pub fn deadpool(service: &Service, connections: usize, timeout: Duration) -> deadpool::managed::Pool<Service> {
    let timeout = Some(timeout);
    deadpool::managed::Pool::builder(service.clone())
        .max_size(connections)
        .timeouts(deadpool::managed::Timeouts { wait: timeout, create: timeout, recycle: timeout })
        .runtime(deadpool::Runtime::Tokio1)
        .build()
        .expect("a runtime is named")
}

/// The service for qorb, which can check at the claim, after use, and from time to time.
pub struct Checked {
    pub service: Service,
    pub when: When,
}

#[derive(Clone, Copy, PartialEq)]
pub enum When {
    AtClaim,
    AfterUse,
    FromTimeToTime,
}

#[async_trait]
impl qorb::backend::Connector for Checked {
    type Connection = Wire;

    async fn connect(&self, _backend: &qorb::backend::Backend) -> Result<Wire, qorb::backend::Error> {
        Ok(self.service.open().await?)
    }

    async fn is_valid(&self, wire: &mut Wire) -> Result<(), qorb::backend::Error> {
        if self.when == When::FromTimeToTime {
            self.service.ping(wire).await?;
        }
        Ok(())
    }

    async fn on_acquire(&self, wire: &mut Wire) -> Result<(), qorb::backend::Error> {
        if self.when == When::AtClaim {
            self.service.ping(wire).await?;
        }
        Ok(())
    }

    async fn on_recycle(&self, wire: &mut Wire) -> Result<(), qorb::backend::Error> {
        if self.when == When::AfterUse {
            self.service.ping(wire).await?;
        }
        if wire.broken { Err(io::Error::other("broken").into()) } else { Ok(()) }
    }
}

/// A claim may wait as long as a check may take.
pub fn qorb(service: &Service, when: When, connections: usize, timeout: Duration) -> qorb::pool::Pool<Wire> {
    let policy = qorb_policy(connections, timeout);
    let resolver = Box::new(qorb::resolvers::fixed::FixedResolver::new([NODE]));
    let connector = Arc::new(Checked { service: service.clone(), when });
    qorb_pool(resolver, connector, policy)
}

pub fn qorb_policy(connections: usize, timeout: Duration) -> qorb::policy::Policy {
    qorb::policy::Policy {
        spares_wanted: connections,
        max_slots: connections,
        claim_timeout: timeout,
        rebalance_interval: Duration::from_millis(100),
        set_config: qorb::policy::SetConfig {
            max_count: connections,
            health_interval: Duration::from_millis(50),
            health_check_timeout: timeout,
            ..qorb::policy::SetConfig::default()
        },
    }
}

pub fn qorb_pool<C: Send + 'static>(
    resolver: qorb::resolver::BoxedResolver,
    connector: qorb::backend::SharedConnector<C>,
    policy: qorb::policy::Policy,
) -> qorb::pool::Pool<C> {
    qorb::pool::Pool::new("orders".to_string(), resolver, connector, policy)
        .expect("a pool without probes is always built")
}

#[mobc::async_trait]
impl mobc::Manager for Service {
    type Connection = Wire;
    type Error = io::Error;

    async fn connect(&self) -> io::Result<Wire> {
        self.open().await
    }

    async fn check(&self, mut wire: Wire) -> io::Result<Wire> {
        self.ping(&mut wire).await?;
        Ok(wire)
    }

    fn validate(&self, wire: &mut Wire) -> bool {
        !wire.broken
    }
}

pub fn mobc(service: &Service, connections: u64, timeout: Duration) -> mobc::Pool<Service> {
    mobc::Pool::builder().max_open(connections).max_idle(connections).get_timeout(Some(timeout)).build(service.clone())
}
