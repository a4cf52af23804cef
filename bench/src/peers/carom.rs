//! carom as it comes, on one fixed backend or several; and with one optional part each.

use crate::measure::Subject;
use carom::pool::Builder;
use carom::{Backend, Claim, Connect, Ejection, Pool};
use std::io;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// An option that may be turned on.
pub trait Part: Clone + Send + Sync + 'static {
    const NAME: &'static str;

    fn add(builder: Builder<AtOnce>) -> Builder<AtOnce>;
}

#[derive(Clone)]
pub struct Carom<P: Part = Plain, const BACKENDS: u16 = 1> {
    pool: Pool<AtOnce>,
    part: PhantomData<P>,
}

pub struct AtOnce;

impl Connect for AtOnce {
    type Connection = u64;
    type Error = io::Error;

    async fn connect(&self, _backend: &Backend) -> io::Result<u64> {
        Ok(1)
    }
}

impl<P: Part, const BACKENDS: u16> Subject for Carom<P, BACKENDS> {
    const NAME: &'static str = P::NAME;

    type Guard<'a> = Claim<AtOnce>;

    async fn open(connections: usize) -> Self {
        let builder = Pool::builder(AtOnce)
            .backends((1..=BACKENDS).map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))))
            .spares(connections)
            .maximum(connections);
        Self { pool: P::add(builder).build().expect("the options are valid"), part: PhantomData }
    }

    async fn claim(&self) -> Claim<AtOnce> {
        self.pool.claim().await.expect("the claim succeeds")
    }
}

#[derive(Clone)]
pub struct Plain;

impl Part for Plain {
    const NAME: &'static str = "carom";

    fn add(builder: Builder<AtOnce>) -> Builder<AtOnce> {
        builder
    }
}

#[derive(Clone)]
pub struct WithEjection;

impl Part for WithEjection {
    const NAME: &'static str = "carom + ejection";

    fn add(builder: Builder<AtOnce>) -> Builder<AtOnce> {
        builder.ejection(Ejection::default())
    }
}

#[derive(Clone)]
pub struct WithLeakAfter;

impl Part for WithLeakAfter {
    const NAME: &'static str = "carom + leak_after";

    fn add(builder: Builder<AtOnce>) -> Builder<AtOnce> {
        builder.leak_after(Duration::from_secs(60))
    }
}

/// Long enough that nothing is shed: what is measured is the looking.
#[derive(Clone)]
pub struct WithTargetDelay;

impl Part for WithTargetDelay {
    const NAME: &'static str = "carom + target_delay";

    fn add(builder: Builder<AtOnce>) -> Builder<AtOnce> {
        builder.target_delay(Duration::from_secs(5))
    }
}
