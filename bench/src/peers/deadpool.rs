//! deadpool as it comes: no timeouts, no hooks, and a recycling that always agrees.

use crate::measure::Subject;
use deadpool::managed::{Manager, Metrics, Object, Pool, RecycleResult};
use std::convert::Infallible;

#[derive(Clone)]
pub struct Deadpool(Pool<AtOnce>);

pub struct AtOnce;

impl Manager for AtOnce {
    type Type = u64;
    type Error = Infallible;

    async fn create(&self) -> Result<u64, Infallible> {
        Ok(1)
    }

    async fn recycle(&self, _connection: &mut u64, _metrics: &Metrics) -> RecycleResult<Infallible> {
        Ok(())
    }
}

impl Subject for Deadpool {
    const NAME: &'static str = "deadpool";

    type Guard<'a> = Object<AtOnce>;

    async fn open(connections: usize) -> Self {
        let pool =
            Pool::builder(AtOnce).max_size(connections).build().expect("a pool without timeouts needs no runtime");
        Self(pool)
    }

    async fn claim(&self) -> Object<AtOnce> {
        self.0.get().await.expect("the claim succeeds")
    }
}
