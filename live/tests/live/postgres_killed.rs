//! Two PostgreSQL clusters killed under load, with all their processes: through bb8's manager, deadpool's, and a closure. And one
//! that is restarted while there is no other.

use bb8_postgres::PostgresConnectionManager;
use bb8_postgres::tokio_postgres::{self, Client, NoTls};
use carom::{Backend, Connect, Pool, connect_fn, managers};
use carom_live::echo::Echo;
use carom_live::load::Stalls;
use carom_live::postgres::{LOCKED, Postgres, USER, config, connect};
use carom_live::rest::{self, RECOVERY, Sizes, Trial, assert_refused};
use carom_live::storm::Storm;
use carom_live::table::millis;
use carom_live::{Server, load_time, ms, seed};
use deadpool_postgres::{ManagerConfig, RecyclingMethod};
use futures_util::future::{BoxFuture, join_all};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn bb8(user: &'static str) -> impl Connect<Connection = managers::bb8::Managed<PostgresConnectionManager<NoTls>>> {
    managers::bb8::from_managers(move |backend: &Backend| {
        let mut config = config(backend, user, "bb8");
        PostgresConnectionManager::new(config.password("wrong").clone(), NoTls)
    })
}

fn deadpool(user: &'static str) -> impl Connect<Connection = managers::deadpool::Managed<deadpool_postgres::Manager>> {
    managers::deadpool::from_managers(move |backend: &Backend| {
        let mut config = config(backend, user, "deadpool");
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Verified };
        deadpool_postgres::Manager::from_config(config.password("wrong").clone(), NoTls, recycling)
    })
}

fn closure(user: &'static str) -> impl Connect<Connection = Client, Error = tokio_postgres::Error> {
    connect_fn(
        move |backend: Backend| async move { connect(config(&backend, user, "closure").password("wrong")).await },
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clusters_killed_in_turn_under_load() {
    let (seed, time) = (seed(), load_time(1.0));
    println!("CAROM_SEED={seed}");
    let mut servers = [Postgres::start().await, Postgres::start().await];
    let stalls = Stalls::watch();
    let mut storm = Storm::new(seed);
    let (kills, sizes) = (storm.kills.clone(), Sizes { users: 16, spares: 2, maximum: 9 });
    let mut bb8 = Trial::begin("bb8", bb8(USER), &servers, sizes, &kills, seed).await;
    let mut deadpool = Trial::begin("deadpool", deadpool(USER), &servers, sizes, &kills, seed + 1).await;
    let mut closure = Trial::begin("closure", closure(USER), &servers, sizes, &kills, seed + 2).await;

    let ledgers = [bb8.ledger(), deadpool.ledger(), closure.ledger()];
    storm.rage(&mut servers, &ledgers, time, RECOVERY).await;
    tokio::time::sleep(ms(1000)).await;
    tokio::join!(bb8.end_load(), deadpool.end_load(), closure.end_load());
    let (stall, servers) = (stalls.worst(), &servers[..]);
    let rests = tokio::join!(bb8.rest(servers), deadpool.rest(servers), closure.rest(servers));

    let mut table = rest::table();
    table.row(bb8.row(&rests.0));
    table.row(deadpool.row(&rests.1));
    table.row(closure.row(&rests.2));
    table.print(&format!(
        "2 PostgreSQL clusters, {} s of load, {} kills and restarts (down for {} at most), machine late by {} at most, seed {seed}",
        time.as_secs(),
        storm.killed,
        millis(storm.longest_down),
        millis(stall),
    ));
    for ledger in ledgers {
        ledger.figures().judge(ledger.name);
    }
    tokio::join!(bb8.drain(servers), deadpool.drain(servers), closure.drain(servers));
    println!("drained: none is left at any server");
}

/// What became of the claims of one pool.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    served: u64,
    /// Claims that failed.
    refused: u64,
    /// Queries that failed.
    broken: u64,
    longest: Duration,
}

/// Eight tasks that claim and query until `stop` is set. `query` returns whether the query succeeded, or why the claim failed.
async fn load<F>(stop: Arc<AtomicBool>, query: impl Fn() -> F) -> Tally
where
    F: Future<Output = Result<bool, String>> + Send + 'static,
{
    let user = async || {
        let mut tally = Tally::default();
        while !stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            match query().await {
                Ok(true) => tally.served += 1,
                Ok(false) => tally.broken += 1,
                Err(_) => tally.refused += 1,
            }
            tally.longest = tally.longest.max(begun.elapsed());
            tokio::time::sleep(ms(1)).await;
        }
        tally
    };
    let tallies = join_all((0..8).map(|_| user())).await;
    tallies.into_iter().fold(Tally::default(), |sum, tally| Tally {
        served: sum.served + tally.served,
        refused: sum.refused + tally.refused,
        broken: sum.broken + tally.broken,
        longest: sum.longest.max(tally.longest),
    })
}

/// A query through a pool of carom's, with default options.
fn through<C>(pool: &Pool<C>) -> impl Fn() -> BoxFuture<'static, Result<bool, String>> + use<C>
where
    C: Connect,
    C::Connection: Echo,
{
    let pool = pool.clone();
    move || {
        let pool = pool.clone();
        Box::pin(async move {
            let mut claim = pool.claim().await.map_err(|error| error.to_string())?;
            Ok(claim.echo("word").await.is_ok())
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_wait_while_the_only_cluster_restarts() {
    let mut server = Postgres::start_with(&["max_connections=60"]).await;
    let address = server.address();
    let bb8s = Pool::builder(bb8(USER)).backends([address]).build().unwrap();
    let deadpools = Pool::builder(deadpool(USER)).backends([address]).build().unwrap();
    let manager = PostgresConnectionManager::new(config(&Backend::fixed(address), USER, "peer"), NoTls);
    let peer = bb8_postgres::bb8::Pool::builder().build(manager).await.unwrap();
    let through_peer = || {
        let peer = peer.clone();
        async move {
            let client = peer.get().await.map_err(|error| error.to_string())?;
            Ok(client.query_one("SELECT 1", &[]).await.is_ok())
        }
    };
    let stop = Arc::new(AtomicBool::new(false));
    let restart = async {
        tokio::time::sleep(ms(1000)).await;
        let begun = Instant::now();
        server.stop();
        tokio::time::sleep(ms(1600).saturating_sub(begun.elapsed())).await;
        server.restart().await;
        let down = begun.elapsed();
        tokio::time::sleep(ms(3000)).await;
        stop.store(true, Ordering::Relaxed);
        down
    };
    let (down, bb8, deadpool, peer) = tokio::join!(
        restart,
        load(Arc::clone(&stop), through(&bb8s)),
        load(Arc::clone(&stop), through(&deadpools)),
        load(Arc::clone(&stop), through_peer),
    );
    println!("the only PostgreSQL cluster restarts, down for {}, 8 tasks for each pool:", millis(down));
    for (name, tally) in [("carom, bb8's manager", bb8), ("carom, deadpool's manager", deadpool), ("bb8", peer)] {
        println!("  {name}: {tally:?}");
    }
    for (name, tally) in [("bb8", bb8), ("deadpool", deadpool)] {
        assert_eq!(tally.refused, 0, "{name}: claims failed although the server was back: {tally:?}");
        assert!(tally.served > 100, "{name}: that was no load: {tally:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_told_in_the_servers_words() {
    let server = Postgres::start().await;
    let words = "password authentication failed for user \"locked\"";
    assert_refused("bb8", bb8(LOCKED), server.address(), words).await;
    assert_refused("deadpool", deadpool(LOCKED), server.address(), words).await;
    assert_refused("closure", closure(LOCKED), server.address(), words).await;
}
