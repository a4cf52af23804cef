//! mobc without tests at check-out and without a timer for each claim.

use crate::measure::Subject;
use mobc::{Connection, Manager, Pool, async_trait};
use std::convert::Infallible;

#[derive(Clone)]
pub struct Mobc(Pool<AtOnce>);

pub struct AtOnce;

#[async_trait]
impl Manager for AtOnce {
    type Connection = u64;
    type Error = Infallible;

    async fn connect(&self) -> Result<u64, Infallible> {
        Ok(1)
    }

    async fn check(&self, connection: u64) -> Result<u64, Infallible> {
        Ok(connection)
    }
}

impl Subject for Mobc {
    const NAME: &'static str = "mobc";

    type Guard<'a> = Connection<AtOnce>;

    async fn open(connections: usize) -> Self {
        let connections = connections as u64;
        let pool = Pool::builder()
            .max_open(connections)
            .max_idle(connections)
            .test_on_check_out(false)
            .get_timeout(None)
            .build(AtOnce);
        Self(pool)
    }

    async fn claim(&self) -> Connection<AtOnce> {
        self.0.get().await.expect("the claim succeeds")
    }
}
