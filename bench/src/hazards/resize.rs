//! A pool is told to be larger, or smaller, while it runs: how many connections can be held then?

use super::pools;
use super::service::Service;
use super::{Cell, Hazard, observe};
use std::time::Duration;

pub const HAZARD: Hazard = Hazard {
    when: "the maximum is changed at run time: 2 to 4; 4 to 2; 4 to 2 before the first use",
    carom: || observe(carom),
    bb8: || Cell::absent("cannot be changed"),
    deadpool: || observe(deadpool),
    qorb: || Cell::absent("cannot be changed"),
    mobc: || observe(mobc),
};

const TIMEOUT: Duration = Duration::from_millis(100);
/// One more than any pool here may hold.
const ATTEMPTS: usize = 5;

async fn carom() -> Cell {
    let pool = |size| pools::carom(&Service::new(), size, TIMEOUT).build().expect("the options are valid");
    let resize = |pool: &carom::Pool<Service>, maximum| pool.resize(1, maximum).expect("the sizes are valid");
    let used = pool(2);
    hold(|| used.claim()).await;
    resize(&used, 4);
    let grown = hold(|| used.claim()).await;
    resize(&used, 2);
    let shrunk = hold(|| used.claim()).await;
    let unused = pool(4);
    resize(&unused, 2);
    judge([grown, shrunk, hold(|| unused.claim()).await])
}

async fn deadpool() -> Cell {
    let used = pools::deadpool(&Service::new(), 2, TIMEOUT);
    hold(|| used.get()).await;
    used.resize(4);
    let grown = hold(|| used.get()).await;
    used.resize(2);
    let shrunk = hold(|| used.get()).await;
    let unused = pools::deadpool(&Service::new(), 4, TIMEOUT);
    unused.resize(2);
    judge([grown, shrunk, hold(|| unused.get()).await])
}

async fn mobc() -> Cell {
    let used = pools::mobc(&Service::new(), 2, TIMEOUT);
    hold(|| used.get()).await;
    used.set_max_open_conns(4).await;
    let grown = hold(|| used.get()).await;
    let larger = pools::mobc(&Service::new(), 4, TIMEOUT);
    hold(|| larger.get()).await;
    larger.set_max_open_conns(2).await;
    let shrunk = hold(|| larger.get()).await;
    let unused = pools::mobc(&Service::new(), 4, TIMEOUT);
    unused.set_max_open_conns(2).await;
    judge([grown, shrunk, hold(|| unused.get()).await])
}

/// How many can be held at once; all are given back.
async fn hold<T, E, F: Future<Output = Result<T, E>>>(claim: impl Fn() -> F) -> usize {
    settle().await;
    let mut guards = Vec::new();
    while guards.len() < ATTEMPTS {
        match claim().await {
            Ok(guard) => guards.push(guard),
            Err(_) => break,
        }
    }
    let held = guards.len();
    drop(guards);
    settle().await;
    held
}

/// Some pools take connections back, or put new sizes into effect, in a task of their own.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

fn judge(held: [usize; 3]) -> Cell {
    let [grown, shrunk, unused] = held;
    Cell::judged(held == [4, 2, 2], format!("holds {grown}, {shrunk}, {unused}"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn carom_grows_and_shrinks() {
        super::HAZARD.holds(&["deadpool", "mobc"]);
    }
}
