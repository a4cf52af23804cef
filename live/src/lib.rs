//! carom against third-party servers: they are started, loaded, killed with SIGKILL, counted and ended here; the tests
//! beside this crate say what is expected. `make live` runs them.
//!
//! `CAROM_LIVE_SECONDS` says how long servers are killed under load in each of the two storms, Redis and PostgreSQL (60);
//! `CAROM_SEED` reruns a schedule.

pub mod admin;
pub mod certificates;
pub mod chromium;
pub mod counted;
pub mod cut;
pub mod echo;
pub mod gateways;
pub mod knot;
pub mod load;
pub mod nats;
pub mod nginx;
pub mod postgres;
pub mod process;
pub mod pulsar;
pub mod python;
pub mod redis;
pub mod resp;
pub mod rest;
pub mod showing;
pub mod sidecar;
pub mod storm;
pub mod table;
pub mod views;
pub mod witness;

use std::collections::hash_map::RandomState;
use std::env;
use std::fmt::Display;
use std::future::Future;
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// A server of somebody else's that can be killed and counted.
pub trait Server {
    fn address(&self) -> SocketAddr;
    /// As a power cut would: SIGKILL to all that belongs to it, and nobody is left when this returns.
    fn kill(&mut self);
    /// Starts it again where it was, and waits until it serves.
    fn restart(&mut self) -> impl Future<Output = ()>;
    /// The connections that a pool has, as the server itself counts them.
    fn connections(&self, pool: &str) -> impl Future<Output = usize>;
}

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// How long one test kills servers under load: its share of a minute, or of what `CAROM_LIVE_SECONDS` says.
pub fn load_time(share: f64) -> Duration {
    let seconds = env::var("CAROM_LIVE_SECONDS")
        .map_or(60.0, |text| text.parse().unwrap_or_else(|_| panic!("CAROM_LIVE_SECONDS is not a number: {text}")));
    Duration::from_secs_f64(seconds * share)
}

/// A program of this workspace, which the Makefile has built: in the folder of this program, or above that of this test.
pub fn program(name: &str) -> PathBuf {
    let here = env::current_exe().expect("the path of this program");
    let mut built = here.ancestors().skip(1).take(2).map(|folder| folder.join(name));
    built.find(|path| path.exists()).unwrap_or_else(|| panic!("no program {name} beside {}", here.display()))
}

/// Another one each time, unless `CAROM_SEED` says which.
pub fn seed() -> u64 {
    let chance = || RandomState::new().build_hasher().finish() % 1_000_000;
    env::var("CAROM_SEED")
        .map_or_else(|_| chance(), |text| text.parse().unwrap_or_else(|_| panic!("CAROM_SEED is not a number: {text}")))
}

/// Asks again and again until there is an answer; the last reason why there is none, if that takes too long.
pub async fn until<T, E: Display>(within: Duration, mut ask: impl AsyncFnMut() -> Result<T, E>) -> T {
    let start = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(reason) if start.elapsed() >= within => panic!("not within {within:?}: {reason}"),
            Err(_) => tokio::time::sleep(ms(20)).await,
        }
    }
}
