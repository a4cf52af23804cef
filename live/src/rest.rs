//! A pool on trial: built, loaded, brought to rest, compared with what the servers count, and drained.

use crate::counted::{Counted, Dials};
use crate::echo::Echo;
use crate::load::{Ledger, Load, PATIENCE};
use crate::storm::Kills;
use crate::table::{Table, millis, sum};
use crate::{Server, ms, until};
use carom::pool::{Phase, State};
use carom::{Connect, Policy, Pool};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What pools on trial have in common: a dead server is tried every second.
pub fn policy() -> Policy {
    Policy::default().timeout(ms(1000)).max_timeout(ms(2000)).delay(ms(50)).max_delay(ms(1000))
}

/// Within how long a server that is back must be in use again: the longest delay with its spread, a connect, and something
/// for the machine.
pub const RECOVERY: Duration = Duration::from_millis(1100 + 1000);

/// How long after a load its connections may be kept: the filter's window, and `max_idle` with its looks.
const SHRINKING: Duration = Duration::from_millis(25_600 + 1000 + 2000);

#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub users: u64,
    pub spares: usize,
    pub maximum: usize,
}

pub struct Trial<C: Connect> {
    pub name: &'static str,
    pub pool: Pool<Counted<C>>,
    pub dials: Arc<Dials>,
    sizes: Sizes,
    load: Load,
}

impl<C> Trial<C>
where
    C: Connect,
    C::Connection: Echo,
{
    /// Builds the pool, waits until it serves, and loads it.
    pub async fn begin(
        name: &'static str,
        connector: C,
        servers: &[impl Server],
        sizes: Sizes,
        kills: &Arc<Kills>,
        seed: u64,
    ) -> Trial<C> {
        let connector = Counted::new(connector);
        let dials = connector.dials();
        let pool = Pool::builder(connector)
            .name(name)
            .backends(servers.iter().map(Server::address))
            .spares(sizes.spares)
            .maximum(sizes.maximum)
            .recovery(policy())
            .max_idle(ms(1000))
            .check_after(ms(500))
            .build()
            .expect("options that make sense");
        drop(pool.claim().await.expect("the servers run"));
        let load = Load::begin(name, &pool, sizes.users, kills, seed);
        Trial { name, pool, dials, sizes, load }
    }

    pub fn ledger(&self) -> Arc<Ledger> {
        Arc::clone(&self.load.ledger)
    }

    pub async fn end_load(&mut self) {
        self.load.end().await;
    }

    /// Waits until every server is connected to, nothing is on its way, and each server counts what the pool does.
    pub async fn rest(&self, servers: &[impl Server]) -> Rest {
        let start = Instant::now();
        let counts = until(ms(5000), async || self.compare(servers, |_| true).await).await;
        Rest { counts, after: start.elapsed() }
    }

    /// Waits until nothing is left but the spares, which are spread over all servers, and each server counts them.
    pub async fn shrink(&self, servers: &[impl Server]) -> Rest {
        let start = Instant::now();
        let counts = until(SHRINKING, async || self.compare(servers, |idle| idle == self.sizes.spares).await).await;
        Rest { counts, after: start.elapsed() }
    }

    async fn compare(&self, servers: &[impl Server], enough: impl Fn(usize) -> bool) -> Result<Vec<usize>, String> {
        let snapshot = self.pool.snapshot().pool;
        let idle = snapshot.counts.working();
        let at_rest = snapshot.counts.total() == idle && snapshot.counts.of(Phase::Busy) + snapshot.waiting == 0;
        if snapshot.state != State::Running
            || snapshot.dead > 0
            || !at_rest
            || idle < self.sizes.spares
            || !enough(idle)
        {
            return Err(format!("{} is not back at its target: {snapshot:#?}", self.name));
        }
        let mut counts = Vec::new();
        for server in servers {
            let here = self.connected_to(server.address());
            let there = server.connections(self.name).await;
            if here != there || here == 0 {
                let address = server.address();
                return Err(format!("{} says {here} to {address}, the server {there}: {snapshot:#?}", self.name));
            }
            counts.push(there);
        }
        Ok(counts)
    }

    fn connected_to(&self, server: SocketAddr) -> usize {
        let backends = self.pool.snapshot().pool.backends;
        let found = backends.iter().find(|found| found.backend.socket_addr() == server);
        found.map_or(0, |found| found.counts.working())
    }

    /// Drains the pool, and waits until no server knows of it any more.
    pub async fn drain(&self, servers: &[impl Server]) {
        let drained = self.pool.drain(Instant::now() + ms(4000)).await;
        assert!(drained.is_complete(), "{}: {drained}", self.name);
        for server in servers {
            until(ms(2000), async || match server.connections(self.name).await {
                0 => Ok(()),
                left => Err(format!("{} is drained, and {} has {left} of it", self.name, server.address())),
            })
            .await;
        }
    }
}

/// A pool at rest: the connections at each server, and how long it took.
#[derive(Clone, Debug)]
pub struct Rest {
    pub counts: Vec<usize>,
    pub after: Duration,
}

/// A server that refuses this connector is why claims fail, in these words.
pub async fn assert_refused<C: Connect>(what: &str, connector: C, server: SocketAddr, words: &str) {
    let pool = Pool::builder(connector).name(what).backends([server]).recovery(policy()).build().expect("options");
    let error = pool.claim_within(PATIENCE).await.expect_err("it is refused");
    assert!(error.to_string().contains(words), "{error}");
    println!("{error}");
}

/// One row for each pool.
///
/// - timed out: of the claims with no more than 10 ms; the others are not to fail
/// - cancelled: dropped while they waited
/// - past deadline: how late the latest claim ended
/// - broken uses: their server was killed
/// - back in use: the longest time from when a server was back until it was used
/// - at rest: the connections at each server, as the server and the pool count them, and how soon they agreed
pub fn table() -> Table {
    let claims = ["pool", "claims", "granted", "failed", "timed out", "cancelled", "longest wait", "past deadline"];
    let connections = ["broken uses", "connects", "refused", "back in use", "at rest", "after"];
    Table::new(&[&claims[..], &connections[..]].concat())
}

impl<C> Trial<C>
where
    C: Connect,
    C::Connection: Echo,
{
    /// What the table says of it.
    pub fn row(&self, rest: &Rest) -> Vec<String> {
        let figures = self.load.ledger.figures();
        let counts = [figures.begun, figures.granted, figures.refused, figures.hurried, figures.cancelled];
        let mut row = vec![self.name.to_string()];
        row.extend(counts.map(|count| count.to_string()));
        row.extend([figures.longest_wait, figures.latest].map(millis));
        row.push((figures.broken + figures.impatient).to_string());
        row.extend([self.dials.made(), self.dials.refused()].map(|count| count.to_string()));
        row.extend([millis(figures.longest_missed), sum(&rest.counts), millis(rest.after)]);
        row
    }
}
