//! The managers people have: those of bb8-postgres, bb8-redis, deadpool-postgres and deadpool-redis fit unchanged.
//!
//! Nobody serves here, so each is refused; that the refusal comes back as the client's own error shows that the manager
//! was run.

use carom::{Backend, Claim, ClaimError, Connect, Policy, Pool, managers};
use std::error::Error;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;
use tokio_postgres::NoTls;
use tokio_postgres::config::Config;
use {bb8_postgres::tokio_postgres, bb8_redis::redis};

type Bb8Postgres = managers::bb8::FromManagers<bb8_postgres::PostgresConnectionManager<NoTls>>;
type Bb8Redis = managers::bb8::FromManagers<bb8_redis::RedisConnectionManager>;
type DeadpoolPostgres = managers::deadpool::FromManagers<deadpool_postgres::Manager>;
type DeadpoolRedis = managers::deadpool::FromManagers<deadpool_redis::Manager>;

fn config(backend: &Backend) -> Config {
    let mut config = Config::new();
    config.hostaddr(backend.address()).host(backend.name()).port(backend.port()).user("orders").dbname("orders");
    config
}

fn bb8_postgres() -> Bb8Postgres {
    managers::bb8::from_managers(|backend| bb8_postgres::PostgresConnectionManager::new(config(backend), NoTls))
}

fn bb8_redis() -> Bb8Redis {
    managers::bb8::try_from_managers(|backend: &Backend| {
        bb8_redis::RedisConnectionManager::new(format!("redis://{}", backend.socket_addr()))
    })
}

fn deadpool_postgres() -> DeadpoolPostgres {
    managers::deadpool::from_managers(|backend| deadpool_postgres::Manager::new(config(backend), NoTls))
}

fn deadpool_redis() -> DeadpoolRedis {
    managers::deadpool::try_from_managers(|backend: &Backend| {
        deadpool_redis::Manager::new(format!("redis://{}", backend.socket_addr()))
    })
}

/// How they are used, which nobody does here: that it compiles is enough.
#[allow(dead_code, reason = "compiled, not run")]
async fn used(
    mut bb8_postgres: Claim<Bb8Postgres>,
    mut bb8_redis: Claim<Bb8Redis>,
    mut deadpool_postgres: Claim<DeadpoolPostgres>,
    mut deadpool_redis: Claim<DeadpoolRedis>,
) -> Result<(), Box<dyn Error>> {
    fn takes_client(_client: &tokio_postgres::Client) {}
    takes_client(&bb8_postgres);
    takes_client(&deadpool_postgres);
    bb8_postgres.execute("SELECT 1", &[]).await?;
    bb8_postgres.transaction().await?.commit().await?;
    deadpool_postgres.prepare_cached("SELECT 1").await?;
    deadpool_postgres.transaction().await?.commit().await?;
    redis::cmd("PING").query_async::<()>(&mut **bb8_redis).await?;
    redis::cmd("PING").query_async::<()>(&mut **deadpool_redis).await?;
    managers::deadpool::Managed::manager(&deadpool_postgres).statement_caches.clear();
    let _dedicated: tokio_postgres::Client = managers::bb8::Managed::into_inner(bb8_postgres.detach());
    let _taken: redis::aio::MultiplexedConnection = managers::deadpool::Managed::into_inner(deadpool_redis.detach());
    Ok(())
}

/// Addresses where nobody listens.
fn nobody() -> [SocketAddr; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap())
}

async fn refusal<C: Connect>(connector: C) -> ClaimError {
    let policy = Policy::default().attempts(1);
    let pool =
        Pool::builder(connector).backends(nobody()).recovery(policy).outage_wait(Duration::ZERO).build().unwrap();
    let error = pool.claim().await.unwrap_err();
    assert!(matches!(error, ClaimError::Failed { dead: 2, known: 2, .. }), "{error}");
    error
}

fn sources(error: &ClaimError) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |&error| error.source())
}

#[tokio::test]
async fn bb8_postgres_fits() {
    let error = refusal(bb8_postgres()).await;
    assert!(error.source().unwrap().is::<tokio_postgres::Error>(), "{error}");
}

#[tokio::test]
async fn bb8_redis_fits() {
    let error = refusal(bb8_redis()).await;
    let redis = error.source().unwrap().downcast_ref::<redis::RedisError>().expect("its own error");
    assert!(redis.is_connection_refusal(), "{error}");
}

#[tokio::test]
async fn deadpool_postgres_fits() {
    let error = refusal(deadpool_postgres()).await;
    assert!(sources(&error).any(|source| source.is::<tokio_postgres::Error>()), "{error}");
}

#[tokio::test]
async fn deadpool_redis_fits() {
    let error = refusal(deadpool_redis()).await;
    let redis = sources(&error).find_map(|source| source.downcast_ref::<redis::RedisError>()).expect("its own error");
    assert!(redis.is_connection_refusal(), "{error}");
}
