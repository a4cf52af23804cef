//! A node keeps its name and gets a new address, as a restarted pod does: do claims follow?

use super::pools;
use super::service::NODE;
use super::{Cell, Hazard, after, observe, one_node};
use async_trait::async_trait;
use carom::resolver::{Publisher, Resolve};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::sleep;

pub const HAZARD: Hazard = Hazard {
    when: "a node gets a new address under its old name",
    carom: || observe(carom),
    bb8: one_node,
    deadpool: one_node,
    qorb: || observe(qorb),
    mobc: one_node,
};

const NAME: &str = "node-1";
const NEW: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 2);
const TIMEOUT: Duration = Duration::from_secs(1);
const GIVEN_UP: Duration = Duration::from_secs(2);

/// A resolver for carom that says what it is told.
struct Told(watch::Receiver<SocketAddr>);

impl Resolve for Told {
    async fn run(mut self, publisher: Publisher) {
        loop {
            let address = *self.0.borrow_and_update();
            publisher.publish([carom::Backend::new(NAME, address)]);
            if self.0.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Its connections are the address they lead to.
async fn carom() -> Cell {
    let (sender, receiver) = watch::channel(NODE);
    let connector =
        carom::connect_fn(|backend: carom::Backend| async move { Ok::<_, Infallible>(backend.socket_addr()) });
    let pool = carom::Pool::builder(connector)
        .resolver(Told(receiver))
        .claim_timeout(TIMEOUT)
        .build()
        .expect("the options are valid");
    drop(pool.claim().await);
    sender.send_replace(NEW);
    follow(async || *pool.claim().await.expect("both addresses serve")).await
}

struct Addresses;

#[async_trait]
impl qorb::backend::Connector for Addresses {
    type Connection = SocketAddr;

    async fn connect(&self, backend: &qorb::backend::Backend) -> Result<SocketAddr, qorb::backend::Error> {
        Ok(backend.address)
    }
}

/// A resolver for qorb that says what it is told.
struct ToldToQorb(watch::Receiver<qorb::resolver::AllBackends>);

impl qorb::resolver::Resolver for ToldToQorb {
    fn monitor(&mut self) -> watch::Receiver<qorb::resolver::AllBackends> {
        self.0.clone()
    }
}

async fn qorb() -> Cell {
    let backends = |address| Arc::new(BTreeMap::from([(NAME.into(), qorb::backend::Backend { address })]));
    let (sender, receiver) = watch::channel(backends(NODE));
    let policy = pools::qorb_policy(2, TIMEOUT);
    let pool = pools::qorb_pool(Box::new(ToldToQorb(receiver)), Arc::new(Addresses), policy);
    drop(pool.claim().await);
    sender.send_replace(backends(NEW));
    follow(async || *pool.claim().await.expect("both addresses serve")).await
}

async fn follow(claimed_address: impl AsyncFn() -> SocketAddr) -> Cell {
    let start = Instant::now();
    while start.elapsed() < GIVEN_UP {
        if claimed_address().await == NEW {
            return Cell::right(format!("moves {}", after(start.elapsed())));
        }
        sleep(Duration::from_millis(5)).await;
    }
    Cell::wrong(format!("still the old address {}", after(GIVEN_UP)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn carom_follows_a_moved_node() {
        super::HAZARD.holds(&["qorb"]);
    }
}
