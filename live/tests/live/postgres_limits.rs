//! A PostgreSQL that will not have more connections, and one that ends some: what the pool does about it.

use bb8_postgres::PostgresConnectionManager;
use bb8_postgres::tokio_postgres::{Client, NoTls};
use carom::pool::BackendState;
use carom::{Backend, Connect, Pool, connect_fn, managers};
use carom_live::postgres::{Postgres, USER, config, connect};
use carom_live::rest::{self, RECOVERY, Rest, Sizes, Trial, policy};
use carom_live::storm::Kills;
use carom_live::table::Table;
use carom_live::{Server, ms, seed, until};
use deadpool_postgres::{ManagerConfig, RecyclingMethod};
use std::sync::Arc;
use std::time::Instant;

fn bb8() -> impl Connect<Connection = managers::bb8::Managed<PostgresConnectionManager<NoTls>>> {
    managers::bb8::from_managers(|backend: &Backend| {
        PostgresConnectionManager::new(config(backend, USER, "bb8"), NoTls)
    })
}

fn deadpool() -> impl Connect<Connection = managers::deadpool::Managed<deadpool_postgres::Manager>> {
    managers::deadpool::from_managers(|backend: &Backend| {
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        deadpool_postgres::Manager::from_config(config(backend, USER, "deadpool"), NoTls, recycling)
    })
}

fn closure() -> impl Connect<Connection = Client> {
    connect_fn(|backend: Backend| async move { connect(&config(&backend, USER, "closure")).await })
}

/// Its 20 places: 1 for the observer, 10 for others, 9 for a pool that would have 16.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_goes_on_serving_and_is_not_hammered() {
    let server = Postgres::start_with(&["max_connections=20", "superuser_reserved_connections=0"]).await;
    let observer = server.observer().await;
    let mut others = Vec::new();
    for _ in 0..10 {
        others.push(connect(&config(&Backend::fixed(server.address()), USER, "others")).await.unwrap());
    }
    let sizes = Sizes { users: 24, spares: 2, maximum: 16 };
    let kills = Arc::new(Kills::default());
    let mut trial = Trial::begin("closure", closure(), std::slice::from_ref(&server), sizes, &kills, seed()).await;
    until(RECOVERY, async || has(&trial.pool, 9)).await;

    // The server says why, and the pool goes on with what it has.
    let turned_away = || server.log().matches("too many clients already").count();
    let (start, before, made) = (Instant::now(), turned_away(), trial.dials.made());
    let (mut heard, mut samples, mut low) = (false, 0, 0);
    while start.elapsed() < ms(5000) {
        let snapshot = trial.pool.snapshot();
        let (pool, backend) = (&snapshot.pool, &snapshot.pool.backends[0]);
        assert_eq!((pool.dead, backend.state), (0, BackendState::Healthy), "{snapshot:#?}");
        samples += 1;
        low += usize::from(pool.counts.working() < 7);
        heard |= snapshot.cause.is_some_and(|cause| cause.to_string().contains("too many clients already"));
        tokio::time::sleep(ms(10)).await;
    }
    // Now and then a user closes one. Its place is free then, and is taken again.
    assert!(low * 10 <= samples, "fewer than 7 connections of 9 in {low} of {samples} samples");
    assert!(heard, "the cause is in the server's own words");
    let (refused, made) = (turned_away() - before, trial.dials.made() - made);
    // One of the 7 that find no place is tried 3 times, and then left alone for a second, less its spread. When a user has
    // closed one meanwhile it finds a place, and up to four more try theirs: so often is for the users to say.
    let most = (3 + 4) * (5000 / 900 + 1 + made);
    assert!(refused <= most, "the server turned away {refused} in 5 s, and let {made} in");
    until(ms(1000), async || match counted(&observer, "closure").await {
        9 => Ok(()),
        other => Err(format!("the server counts {other}")),
    })
    .await;

    // There is room again.
    drop(others);
    let room = Instant::now();
    until(RECOVERY, async || has(&trial.pool, 16)).await;
    let grown = room.elapsed();
    until(ms(1000), async || match counted(&observer, "closure").await {
        16 => Ok(()),
        other => Err(format!("the server counts {other}")),
    })
    .await;
    trial.end_load().await;

    let mut table = rest::table();
    table.row(trial.row(&Rest { counts: vec![16], after: grown }));
    table.print(&format!(
        "a full PostgreSQL: 9 places for 16, {refused} turned away in 5 s by its log and {made} let in; then room for all"
    ));
    trial.ledger().figures().judge("closure");
    trial.drain(&[server]).await;
}

fn has<C: Connect>(pool: &Pool<C>, connections: usize) -> Result<(), String> {
    let counts = pool.snapshot().pool.counts;
    if counts.working() == connections { Ok(()) } else { Err(format!("not {connections}: {counts:?}")) }
}

async fn counted(observer: &Client, pool: &str) -> i64 {
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    observer.query_one(count, &[&pool]).await.unwrap().get(0)
}

/// What the connection of a claim is called at the server.
async fn process(client: &Client) -> i32 {
    client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0)
}

/// Ends a connection at the server, and waits until it has ended.
async fn terminate(observer: &Client, process: i32) {
    let ended = observer.query_one("SELECT pg_terminate_backend($1, 5000)", &[&process]).await.unwrap();
    assert!(ended.get::<_, bool>(0));
    // The end is on its way to a client in this process, which does not say when it has seen it.
    tokio::time::sleep(ms(300)).await;
}

fn single<C: Connect>(connector: C, server: &Postgres) -> Pool<C> {
    let pool = Pool::builder(connector).backends([server.address()]).spares(1).maximum(1);
    pool.recovery(policy()).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_ended_by_the_server_are_noticed_as_their_managers_say() {
    let server = Postgres::start().await;
    let observer = server.observer().await;
    let mut table = Table::new(&["", "ended while", "noticed by", "user saw"]);
    let mut row = |cells: [&str; 4]| table.row(cells.map(str::to_string));

    // bb8: `has_broken` is asked when a claim comes back, and when something is claimed that has idled.
    let pool = single(bb8(), &server);
    let claim = pool.claim().await.unwrap();
    let first = process(&claim).await;
    terminate(&observer, first).await;
    claim.query_one("SELECT 1", &[]).await.unwrap_err();
    drop(claim);
    let claim = pool.claim().await.unwrap();
    let second = process(&claim).await;
    assert_ne!(first, second);
    row(["bb8", "lent", "has_broken at release", "its own error"]);
    drop(claim);
    tokio::time::sleep(ms(600)).await;
    terminate(&observer, second).await;
    assert_ne!(process(&pool.claim().await.unwrap()).await, second);
    row(["bb8", "idle", "has_broken at claim", "nothing"]);

    // deadpool: `recycle` runs when a claim comes back, and after `check_after` of idling.
    let builder = Pool::builder(deadpool()).backends([server.address()]).spares(1).maximum(1);
    let pool = builder.recovery(policy()).check_after(ms(300)).build().unwrap();
    let claim = pool.claim().await.unwrap();
    let first = process(&claim).await;
    terminate(&observer, first).await;
    drop(claim);
    let claim = pool.claim().await.unwrap();
    let second = process(&claim).await;
    assert_ne!(first, second);
    row(["deadpool", "lent", "recycle at release", "nothing"]);
    drop(claim);
    terminate(&observer, second).await;
    // It has noticed when there is another.
    until(RECOVERY, async || match counted(&observer, "deadpool").await {
        1 => Ok(()),
        other => Err(format!("{other} connections")),
    })
    .await;
    assert_ne!(process(&pool.claim().await.unwrap()).await, second);
    row(["deadpool", "idle", "recycle after idling", "nothing"]);

    // A closure says nothing about its connections: the user does.
    let pool = single(closure(), &server);
    let claim = pool.claim().await.unwrap();
    let first = process(&claim).await;
    drop(claim);
    terminate(&observer, first).await;
    let claim = pool.claim().await.unwrap();
    let error = claim.query_one("SELECT 1", &[]).await.unwrap_err();
    claim.fail(error);
    assert_ne!(process(&pool.claim().await.unwrap()).await, first);
    row(["closure", "idle", "fail()", "its own error"]);
    table.print("pg_terminate_backend");
}
