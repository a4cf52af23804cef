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
        let backend = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let policy = Policy {
            spares_wanted: connections,
            max_slots: connections,
            set_config: SetConfig { max_count: connections, ..SetConfig::default() },
            ..Policy::default()
        };
        let pool = Pool::new(Self::NAME.to_string(), Box::new(FixedResolver::new([backend])), Arc::new(AtOnce), policy)
            .expect("a pool without probes is always built");
        Self(Arc::new(pool))
    }

    async fn claim(&self) -> Handle<u64> {
        self.0.claim().await.expect("the claim succeeds")
    }
}
