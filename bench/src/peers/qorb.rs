//! qorb on one fixed backend, without probes and with the connector's default checks, which do nothing.

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
pub struct Qorb(Arc<Pool<u64>>);

struct AtOnce;

#[async_trait]
impl Connector for AtOnce {
    type Connection = u64;

    async fn connect(&self, _backend: &Backend) -> Result<u64, Error> {
        Ok(1)
    }
}

impl Subject for Qorb {
    const NAME: &'static str = "qorb";

    type Guard<'a> = Handle<u64>;

    async fn open(connections: usize) -> Self {
        Self(Arc::new(pool(connections, Policy::default().claim_timeout)))
    }

    async fn claim(&self) -> Handle<u64> {
        self.0.claim().await.expect("the claim succeeds")
    }
}

pub fn pool(connections: usize, claim_timeout: Duration) -> Pool<u64> {
    let backend = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let policy = Policy {
        spares_wanted: connections,
        max_slots: connections,
        claim_timeout,
        set_config: SetConfig { max_count: connections, ..SetConfig::default() },
        ..Policy::default()
    };
    Pool::new(Qorb::NAME.to_string(), Box::new(FixedResolver::new([backend])), Arc::new(AtOnce), policy)
        .expect("a pool without probes is always built")
}
