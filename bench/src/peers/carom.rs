//! carom as it comes, on one fixed backend.

use crate::measure::Subject;
use carom::{Backend, Claim, Connect, Pool};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

#[derive(Clone)]
pub struct Carom(Pool<AtOnce>);

pub struct AtOnce;

impl Connect for AtOnce {
    type Connection = u64;
    type Error = io::Error;

    async fn connect(&self, _backend: &Backend) -> io::Result<u64> {
        Ok(1)
    }
}

impl Subject for Carom {
    const NAME: &'static str = "carom";

    type Guard<'a> = Claim<AtOnce>;

    async fn open(connections: usize) -> Self {
        let pool = Pool::builder(AtOnce)
            .backends([SocketAddr::from((Ipv4Addr::LOCALHOST, 1))])
            .spares(connections)
            .maximum(connections)
            .build()
            .expect("the options are valid");
        Self(pool)
    }

    async fn claim(&self) -> Claim<AtOnce> {
        self.0.claim().await.expect("the claim succeeds")
    }
}
