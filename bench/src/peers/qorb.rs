//! qorb on one fixed backend or several, without probes and with the connector's default checks, which do nothing.

use crate::measure::Subject;
use async_trait::async_trait;
use qorb::backend::{Backend, Connector, Error};
use qorb::claim::Handle;
use qorb::policy::{Policy, SetConfig};
use qorb::pool::Pool;
use qorb::resolvers::fixed::FixedResolver;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone)]
pub struct Qorb<const BACKENDS: u16 = 1>(Arc<Pool<u64>>);

struct AtOnce;

#[async_trait]
impl Connector for AtOnce {
    type Connection = u64;

    async fn connect(&self, _backend: &Backend) -> Result<u64, Error> {
        Ok(1)
    }
}

impl<const BACKENDS: u16> Subject for Qorb<BACKENDS> {
    const NAME: &'static str = "qorb";

    type Guard<'a> = Handle<u64>;

    async fn open(connections: usize) -> Self {
        Self(Arc::new(pool(BACKENDS, connections, Policy::default().claim_timeout)))
    }

    async fn claim(&self) -> Handle<u64> {
        self.0.claim().await.expect("the claim succeeds")
    }
}

pub fn pool(backends: u16, connections: usize, claim_timeout: Duration) -> Pool<u64> {
    let backends = (1..=backends).map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let policy = Policy {
        spares_wanted: connections,
        max_slots: connections,
        claim_timeout,
        set_config: SetConfig { max_count: connections, ..SetConfig::default() },
        ..Policy::default()
    };
    Pool::new(<Qorb>::NAME.to_string(), Box::new(FixedResolver::new(backends)), Arc::new(AtOnce), policy)
        .expect("a pool without probes is always built")
}
