//! A caller gives up while a healthy connection is being checked or cleaned: is the connection still there, and in order?

use super::pools::{self, When};
use super::service::{Answer, Service, Wire};
use super::{Cell, Hazard, observe};
use std::io;
use std::time::Duration;
use tokio::time::timeout;

pub const HAZARD: Hazard = Hazard {
    when: "a claim is dropped while a healthy connection is checked or cleaned",
    carom: || observe(carom),
    bb8: || observe(bb8),
    deadpool: || observe(deadpool),
    qorb: || observe(qorb),
    mobc: || observe(mobc),
};

const TIMEOUT: Duration = Duration::from_secs(2);
const CLEANING: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_millis(30);

/// The service for carom, with cleaning after use.
struct Cleaned(Service);

impl carom::Connect for Cleaned {
    type Connection = Wire;
    type Error = io::Error;

    async fn connect(&self, _backend: &carom::Backend) -> io::Result<Wire> {
        self.0.open().await
    }

    fn recycle(&self, wire: &mut Wire) -> Option<impl Future<Output = io::Result<()>> + Send> {
        Some(self.0.ping(wire))
    }
}

async fn carom() -> Cell {
    let service = slow();
    let pool = pools::carom_of(Cleaned(service.clone()), 1, TIMEOUT).build().expect("the options are valid");
    drop(pool.claim().await);
    service.until_checks(1).await;
    assert!(timeout(PATIENCE, pool.claim()).await.is_err());
    judge(&service, &pool.claim().await.expect("the service answers"))
}

async fn bb8() -> Cell {
    let service = slow();
    let pool = pools::bb8(&service, 1, TIMEOUT);
    drop(pool.get().await);
    assert!(timeout(PATIENCE, pool.get()).await.is_err());
    judge(&service, &pool.get().await.expect("the service answers"))
}

async fn deadpool() -> Cell {
    let service = slow();
    let pool = pools::deadpool(&service, 1, TIMEOUT);
    drop(pool.get().await);
    assert!(timeout(PATIENCE, pool.get()).await.is_err());
    judge(&service, &pool.get().await.expect("the service answers"))
}

async fn qorb() -> Cell {
    let service = slow();
    let pool = pools::qorb(&service, When::AfterUse, 1, TIMEOUT);
    drop(pool.claim().await);
    assert!(timeout(PATIENCE, pool.claim()).await.is_err());
    judge(&service, &pool.claim().await.expect("the service answers"))
}

async fn mobc() -> Cell {
    let service = slow();
    let pool = pools::mobc(&service, 1, TIMEOUT);
    drop(pool.get().await);
    // It goes back in a task of its own.
    tokio::task::yield_now().await;
    assert!(timeout(PATIENCE, pool.get()).await.is_err());
    judge(&service, &pool.get().await.expect("the service answers"))
}

fn slow() -> Service {
    let service = Service::new();
    service.on_check(Answer::After(CLEANING));
    service
}

fn judge(service: &Service, wire: &Wire) -> Cell {
    match (service.connects(), wire.in_order()) {
        (1, true) => Cell::right("kept"),
        (1, false) => Cell::wrong("lent, with the answer still to come"),
        _ => Cell::wrong("closed"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn carom_keeps_what_is_being_cleaned() {
        super::HAZARD.holds(&["bb8", "deadpool", "mobc"]);
    }
}
