//! A pool is closed while it waits to try again: does closing wait too, and does it stop trying?

use super::pools::{self, When};
use super::service::{Answer, NODE, Service};
use super::{Cell, Hazard, after, observe};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

pub const HAZARD: Hazard = Hazard {
    when: "the pool is closed during a back-off of 1 s",
    carom: || observe(carom),
    bb8: || observe(bb8),
    deadpool: || observe(deadpool),
    qorb: || observe(qorb),
    mobc: || observe(mobc),
};

const BACK_OFF: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(1);
/// Later than this is too late, even on a busy machine.
const TOLERABLE: Duration = Duration::from_millis(500);
/// For how long a pool is watched after its end: past the back-off.
const AFTERWARDS: Duration = Duration::from_millis(1500);

async fn carom() -> Cell {
    let service = refusing();
    let policy = carom::Policy::default().delay(BACK_OFF).spread(0.0);
    let pool = pools::carom(&service, 1, TIMEOUT).recovery(policy).build().expect("the options are valid");
    backing_off(&service).await;
    let start = Instant::now();
    let drained = pool.drain(start + 2 * BACK_OFF).await;
    let taken = start.elapsed();
    assert!(drained.is_complete());
    let more = connects_afterwards(&service).await;
    Cell::judged(taken <= TOLERABLE && more == 0, format!("`drain` returns {}", after(taken)))
}

/// Its back-off cannot be set; it is 400 ms, then half of the timeout.
async fn bb8() -> Cell {
    let service = refusing();
    let pool = pools::bb8(&service, 1, TIMEOUT);
    backing_off(&service).await;
    drop(pool);
    match connects_afterwards(&service).await {
        0 => Cell::absent("no close; stops when dropped"),
        more => Cell::wrong(format!("no close; dropped, it connects {more} times more")),
    }
}

/// It has no back-off, nor anything else that runs by itself.
async fn deadpool() -> Cell {
    let service = refusing();
    let pool = pools::deadpool(&service, 1, TIMEOUT);
    assert!(pool.get().await.is_err());
    let start = Instant::now();
    pool.close();
    let taken = start.elapsed();
    let more = connects_afterwards(&service).await;
    Cell::judged(taken <= TOLERABLE && more == 0, format!("no back-off; `close` returns {}", after(taken)))
}

/// Its first back-off is twice the shortest.
async fn qorb() -> Cell {
    let service = refusing();
    let mut policy = pools::qorb_policy(1, TIMEOUT);
    policy.set_config.min_connection_backoff = BACK_OFF / 2;
    policy.set_config.spread = Duration::ZERO;
    let resolver = Box::new(qorb::resolvers::fixed::FixedResolver::new([NODE]));
    let connector = Arc::new(pools::Checked { service: service.clone(), when: When::AfterUse });
    let pool = pools::qorb_pool(resolver, connector, policy);
    backing_off(&service).await;
    let start = Instant::now();
    let terminated = pool.terminate().await;
    let taken = start.elapsed();
    assert!(terminated.is_ok());
    Cell::judged(taken <= TOLERABLE, format!("`terminate` returns {}", after(taken)))
}

/// It has neither a back-off nor an end; there is only the drop.
async fn mobc() -> Cell {
    let service = refusing();
    let pool = pools::mobc(&service, 1, TIMEOUT);
    assert!(pool.get().await.is_err());
    drop(pool);
    match connects_afterwards(&service).await {
        0 => Cell::absent("no back-off, no close"),
        more => Cell::wrong(format!("no close; dropped, it connects {more} times more")),
    }
}

fn refusing() -> Service {
    let service = Service::new();
    service.on_connect(Answer::Refusal);
    service
}

/// The first connect has failed, and the next is some time away.
async fn backing_off(service: &Service) {
    service.until_connects(1).await;
    sleep(Duration::from_millis(50)).await;
}

async fn connects_afterwards(service: &Service) -> usize {
    let before = service.connects();
    sleep(AFTERWARDS).await;
    service.connects() - before
}

#[cfg(test)]
mod tests {
    #[test]
    fn carom_ends_at_once() {
        super::HAZARD.holds(&["bb8", "qorb"]);
    }
}
