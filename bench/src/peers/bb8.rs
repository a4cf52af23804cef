//! bb8 without tests at check-out and without lifetimes to look at; its timer for each claim cannot be turned off.

use crate::measure::Subject;
use bb8::{ManageConnection, Pool, PooledConnection};
use std::convert::Infallible;

#[derive(Clone)]
pub struct Bb8(Pool<AtOnce>);

pub struct AtOnce;

impl ManageConnection for AtOnce {
    type Connection = u64;
    type Error = Infallible;

    async fn connect(&self) -> Result<u64, Infallible> {
        Ok(1)
    }

    async fn is_valid(&self, _connection: &mut u64) -> Result<(), Infallible> {
        Ok(())
    }

    fn has_broken(&self, _connection: &mut u64) -> bool {
        false
    }
}

impl Subject for Bb8 {
    const NAME: &'static str = "bb8";

    type Guard<'a> = PooledConnection<'a, AtOnce>;

    async fn open(connections: usize) -> Self {
        let connections = connections as u32;
        let pool = Pool::builder()
            .max_size(connections)
            .min_idle(connections)
            .test_on_check_out(false)
            .max_lifetime(None)
            .idle_timeout(None)
            .build(AtOnce)
            .await
            .expect("connecting cannot fail");
        Self(pool)
    }

    async fn claim(&self) -> PooledConnection<'_, AtOnce> {
        self.0.get().await.expect("the claim succeeds")
    }
}
