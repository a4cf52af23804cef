//! The pools under overload. Each gives up on a claim after the same time; otherwise they are as in the other runs.

use super::{CONNECTIONS, PATIENCE};
use crate::peers;
use carom::{Claim, Pool};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

pub trait Contender: Clone + Send + Sync + 'static {
    const NAME: &'static str;

    /// Releases the connection when dropped.
    type Guard: Send;

    fn open() -> impl Future<Output = Self> + Send;

    /// None when the pool gave up.
    fn claim(&self) -> impl Future<Output = Option<Self::Guard>> + Send;
}

/// With a target delay of so many ms; 0 is without.
#[derive(Clone)]
pub struct Carom<const TARGET: u64>(Pool<peers::carom::AtOnce>);

impl<const TARGET: u64> Contender for Carom<TARGET> {
    const NAME: &'static str = if TARGET == 0 { "carom" } else { "carom, 100 ms target_delay" };

    type Guard = Claim<peers::carom::AtOnce>;

    async fn open() -> Self {
        let pool = Pool::builder(peers::carom::AtOnce)
            .backends([SocketAddr::from((Ipv4Addr::LOCALHOST, 1))])
            .spares(CONNECTIONS)
            .maximum(CONNECTIONS)
            .claim_timeout(PATIENCE)
            .target_delay((TARGET > 0).then(|| Duration::from_millis(TARGET)))
            .build()
            .expect("the options are valid");
        Self(pool)
    }

    async fn claim(&self) -> Option<Self::Guard> {
        self.0.claim().await.ok()
    }
}

#[derive(Clone)]
pub struct Bb8(bb8::Pool<peers::bb8::AtOnce>);

impl Contender for Bb8 {
    const NAME: &'static str = "bb8";

    type Guard = bb8::PooledConnection<'static, peers::bb8::AtOnce>;

    async fn open() -> Self {
        let pool = bb8::Pool::builder()
            .max_size(CONNECTIONS as u32)
            .test_on_check_out(false)
            .connection_timeout(PATIENCE)
            .build(peers::bb8::AtOnce)
            .await
            .expect("connecting cannot fail");
        Self(pool)
    }

    async fn claim(&self) -> Option<Self::Guard> {
        self.0.get_owned().await.ok()
    }
}

#[derive(Clone)]
pub struct Deadpool(deadpool::managed::Pool<peers::deadpool::AtOnce>);

impl Contender for Deadpool {
    const NAME: &'static str = "deadpool";

    type Guard = deadpool::managed::Object<peers::deadpool::AtOnce>;

    async fn open() -> Self {
        let pool = deadpool::managed::Pool::builder(peers::deadpool::AtOnce)
            .max_size(CONNECTIONS)
            .wait_timeout(Some(PATIENCE))
            .runtime(deadpool::Runtime::Tokio1)
            .build()
            .expect("a runtime is named");
        Self(pool)
    }

    async fn claim(&self) -> Option<Self::Guard> {
        self.0.get().await.ok()
    }
}

#[derive(Clone)]
pub struct Qorb(Arc<qorb::pool::Pool<u64>>);

impl Contender for Qorb {
    const NAME: &'static str = "qorb";

    type Guard = qorb::claim::Handle<u64>;

    async fn open() -> Self {
        Self(Arc::new(peers::qorb::pool(1, CONNECTIONS, PATIENCE)))
    }

    async fn claim(&self) -> Option<Self::Guard> {
        self.0.claim().await.ok()
    }
}

#[derive(Clone)]
pub struct Mobc(mobc::Pool<peers::mobc::AtOnce>);

impl Contender for Mobc {
    const NAME: &'static str = "mobc";

    type Guard = mobc::Connection<peers::mobc::AtOnce>;

    async fn open() -> Self {
        let connections = CONNECTIONS as u64;
        let pool = mobc::Pool::builder()
            .max_open(connections)
            .max_idle(connections)
            .test_on_check_out(false)
            .get_timeout(Some(PATIENCE))
            .build(peers::mobc::AtOnce);
        Self(pool)
    }

    async fn claim(&self) -> Option<Self::Guard> {
        self.0.get().await.ok()
    }
}
