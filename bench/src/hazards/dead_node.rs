//! One node of two goes silent for a while: what do claims notice, and is the node used again?

use super::pools;
use super::{Cell, Hazard, after, observe, one_node, rounded};
use async_trait::async_trait;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

pub const HAZARD: Hazard = Hazard {
    when: "one node of two goes silent for 1 s",
    carom: || observe(carom),
    bb8: one_node,
    deadpool: one_node,
    qorb: || observe(qorb),
    mobc: one_node,
};

const STEADY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
const FRAIL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 2);
const CALLERS: usize = 4;
const CONNECTIONS: usize = 8;
const TIMEOUT: Duration = Duration::from_millis(500);
const USE: Duration = Duration::from_millis(2);
const SILENCE: Duration = Duration::from_secs(1);
/// Longer than this is too long a wait while the other node serves, even on a busy machine.
const TOLERABLE: Duration = Duration::from_millis(400);
const GIVEN_UP: Duration = Duration::from_secs(3);

async fn carom() -> Cell {
    let nodes = Nodes::default();
    let pool = carom::Pool::builder(nodes.clone())
        .backends([STEADY, FRAIL])
        .spares(CONNECTIONS / 2)
        .maximum(CONNECTIONS)
        .claim_timeout(TIMEOUT)
        .build()
        .expect("the options are valid");
    let claim = move || {
        let pool = pool.clone();
        async move { pool.claim().await }
    };
    silence(&nodes, claim).await
}

async fn qorb() -> Cell {
    let nodes = Nodes::default();
    let mut policy = pools::qorb_policy(CONNECTIONS, TIMEOUT);
    policy.spares_wanted = CONNECTIONS / 2;
    let resolver = Box::new(qorb::resolvers::fixed::FixedResolver::new([STEADY, FRAIL]));
    let pool = Arc::new(pools::qorb_pool(resolver, Arc::new(nodes.clone()), policy));
    let claim = move || {
        let pool = Arc::clone(&pool);
        async move { pool.claim().await }
    };
    silence(&nodes, claim).await
}

/// Two nodes. While the frail one is silent, connects to it hang; what was connected to it before stays broken.
#[derive(Clone, Default)]
struct Nodes {
    silent: Arc<AtomicBool>,
    silences: Arc<AtomicUsize>,
}

struct Wire {
    address: SocketAddr,
    /// How often the frail node had been silent when this was opened.
    silences: usize,
}

impl Nodes {
    async fn open(&self, address: SocketAddr) -> Wire {
        while address == FRAIL && self.silent.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(10)).await;
        }
        Wire { address, silences: self.silences.load(Ordering::Relaxed) }
    }

    fn works(&self, wire: &Wire) -> bool {
        wire.address == STEADY || wire.silences == self.silences.load(Ordering::Relaxed)
    }
}

impl carom::Connect for Nodes {
    type Connection = Wire;
    type Error = io::Error;

    async fn connect(&self, backend: &carom::Backend) -> io::Result<Wire> {
        Ok(self.open(backend.socket_addr()).await)
    }

    fn liveness(&self, wire: &mut Wire) -> carom::Liveness {
        if self.works(wire) { carom::Liveness::Open } else { carom::Liveness::Closed }
    }
}

#[async_trait]
impl qorb::backend::Connector for Nodes {
    type Connection = Wire;

    async fn connect(&self, backend: &qorb::backend::Backend) -> Result<Wire, qorb::backend::Error> {
        Ok(self.open(backend.address).await)
    }

    async fn is_valid(&self, wire: &mut Wire) -> Result<(), qorb::backend::Error> {
        if self.works(wire) { Ok(()) } else { Err(io::Error::other("broken").into()) }
    }
}

/// What the callers have seen since it was last taken.
#[derive(Default)]
struct Seen {
    refused: usize,
    broken: usize,
    longest: Duration,
    frail: bool,
}

async fn silence<F, T, E>(nodes: &Nodes, claim: impl Fn() -> F + Clone + Send + 'static) -> Cell
where
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Deref<Target = Wire> + Send + 'static,
    E: Send + 'static,
{
    let seen = Arc::new(Mutex::new(Seen::default()));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        callers.spawn(call(nodes.clone(), claim.clone(), Arc::clone(&seen)));
    }
    if timeout(GIVEN_UP, until_frail_serves(&seen)).await.is_err() {
        return Cell::wrong("one node is never used");
    }
    *lock(&seen) = Seen::default();
    nodes.silences.fetch_add(1, Ordering::Relaxed);
    nodes.silent.store(true, Ordering::Relaxed);
    sleep(SILENCE).await;
    let Seen { refused, broken, longest, .. } = std::mem::take(&mut *lock(&seen));
    nodes.silent.store(false, Ordering::Relaxed);
    let start = Instant::now();
    let back = timeout(GIVEN_UP, until_frail_serves(&seen)).await.is_ok();
    let returned = if back { format!("back in use {}", after(start.elapsed())) } else { "not used again".to_string() };
    Cell::judged(
        refused == 0 && longest <= TOLERABLE && back,
        format!(
            "{refused} claims fail, {broken} get a broken connection, longest wait {}; {returned}",
            rounded(longest)
        ),
    )
}

async fn call<F, T, E>(nodes: Nodes, claim: impl Fn() -> F, seen: Arc<Mutex<Seen>>)
where
    F: Future<Output = Result<T, E>>,
    T: Deref<Target = Wire>,
{
    loop {
        let start = Instant::now();
        let claimed = claim().await;
        let works = claimed.as_ref().is_ok_and(|wire| nodes.works(wire));
        {
            let mut seen = lock(&seen);
            seen.longest = seen.longest.max(start.elapsed());
            match &claimed {
                Ok(wire) if works => seen.frail |= wire.address == FRAIL,
                Ok(_) => seen.broken += 1,
                Err(_) => seen.refused += 1,
            }
        }
        if works {
            sleep(USE).await;
        }
    }
}

async fn until_frail_serves(seen: &Mutex<Seen>) {
    while !lock(seen).frail {
        sleep(Duration::from_millis(2)).await;
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #[test]
    fn carom_goes_on_with_the_other_node() {
        super::HAZARD.holds(&[]);
    }
}
