//! Two PostgreSQL clusters killed under load, with all their processes: through bb8's manager, deadpool's, and a closure.

use bb8_postgres::PostgresConnectionManager;
use bb8_postgres::tokio_postgres::{self, Client, NoTls};
use carom::{Backend, Connect, connect_fn, managers};
use carom_live::load::Stalls;
use carom_live::postgres::{LOCKED, Postgres, USER, config, connect};
use carom_live::rest::{self, RECOVERY, Sizes, Trial, assert_refused};
use carom_live::storm::Storm;
use carom_live::table::millis;
use carom_live::{Server, load_time, ms, seed};
use deadpool_postgres::{ManagerConfig, RecyclingMethod};

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
        ledger.figures().judge(ledger.name, stall);
    }
    tokio::join!(bb8.drain(servers), deadpool.drain(servers), closure.drain(servers));
    println!("drained: none is left at any server");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_told_in_the_servers_words() {
    let server = Postgres::start().await;
    let words = "password authentication failed for user \"locked\"";
    assert_refused("bb8", bb8(LOCKED), server.address(), words).await;
    assert_refused("deadpool", deadpool(LOCKED), server.address(), words).await;
    assert_refused("closure", closure(LOCKED), server.address(), words).await;
}
