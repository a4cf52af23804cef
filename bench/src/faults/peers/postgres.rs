//! PostgreSQL: carom with bb8's manager, deadpool's, and a connector of its own, next to bb8, deadpool and sqlx's pool.

use super::{Open, Peer, Request, request, text};
use crate::faults::CONNECTIONS;
use bb8_postgres::PostgresConnectionManager;
use bb8_postgres::tokio_postgres::config::LoadBalanceHosts;
use bb8_postgres::tokio_postgres::{self, Client, Config, NoTls, SimpleQueryMessage};
use carom::{Backend, Connect, Liveness, Pool, managers};
use carom_live::AnyError;
use carom_live::postgres::{USER, config, connect};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::{Executor, Row};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// [`WORK`](crate::faults::WORK) long.
const QUERY: &str = "SELECT inet_server_port() FROM pg_sleep(0.02)";

pub const PEERS: &[Peer] = &[
    Peer::carom("carom, bb8's manager", |nodes| {
        Box::pin(async { carom(managed_by_bb8(), nodes, |client| client, false) })
    }),
    Peer::carom("carom, deadpool's manager", |nodes| {
        Box::pin(async { carom(managed_by_deadpool(), nodes, |client| client, false) })
    }),
    Peer::carom("carom, tokio-postgres", |nodes| Box::pin(async { carom(Plain, nodes, |client| client, true) })),
    Peer::other("bb8", bb8),
    Peer::other("deadpool", deadpool),
    Peer::other("sqlx", sqlx),
];

fn managed_by_bb8() -> impl Connect<Connection = managers::bb8::Managed<PostgresConnectionManager<NoTls>>> {
    managers::bb8::from_managers(|backend: &Backend| {
        PostgresConnectionManager::new(config(backend, USER, "carom"), NoTls)
    })
}

fn managed_by_deadpool() -> impl Connect<Connection = managers::deadpool::Managed<deadpool_postgres::Manager>> {
    managers::deadpool::from_managers(|backend: &Backend| {
        deadpool_postgres::Manager::new(config(backend, USER, "carom"), NoTls)
    })
}

/// A connector written by hand: it tells whether a connection has ended, and has no check.
struct Plain;

impl Connect for Plain {
    type Connection = Client;
    type Error = tokio_postgres::Error;

    async fn connect(&self, backend: &Backend) -> Result<Client, tokio_postgres::Error> {
        connect(&config(backend, USER, "carom")).await
    }

    fn liveness(&self, client: &mut Client) -> Liveness {
        if client.is_closed() { Liveness::Closed } else { Liveness::Open }
    }
}

/// With `reports`, a failed query is reported with `Claim::fail`.
fn carom<C: Connect>(
    connector: C,
    nodes: Vec<SocketAddr>,
    client: fn(&C::Connection) -> &Client,
    reports: bool,
) -> Result<Request, AnyError> {
    let pool = Pool::builder(connector).backends(nodes).build()?;
    Ok(request(move || {
        let pool = pool.clone();
        async move {
            let claim = pool.claim().await.map_err(text)?;
            let outcome = query(client(&claim)).await;
            if let (Err(error), true) = (&outcome, reports) {
                claim.fail(error.clone());
            }
            outcome
        }
    }))
}

async fn query(client: &Client) -> Result<u16, String> {
    for message in client.simple_query(QUERY).await.map_err(text)? {
        if let SimpleQueryMessage::Row(row) = message {
            return row.get(0).and_then(|port| port.parse().ok()).ok_or_else(|| "no port".into());
        }
    }
    Err("no row".into())
}

/// tokio-postgres's own way with several hosts: each connection goes to one that is drawn by lot, and to the next if that fails.
fn all_of(nodes: &[SocketAddr]) -> Config {
    let mut config = Config::new();
    config.user(USER).dbname("postgres").load_balance_hosts(LoadBalanceHosts::Random);
    for node in nodes {
        config.host(node.ip().to_string()).port(node.port());
    }
    config
}

fn bb8(nodes: Vec<SocketAddr>) -> Open {
    Box::pin(async move {
        let pool = bb8::Pool::builder().build(PostgresConnectionManager::new(all_of(&nodes), NoTls)).await?;
        Ok(request(move || {
            let pool = pool.clone();
            async move { query(&*pool.get().await.map_err(text)?).await }
        }))
    })
}

fn deadpool(nodes: Vec<SocketAddr>) -> Open {
    Box::pin(async move {
        let manager = deadpool_postgres::Manager::new(all_of(&nodes), NoTls);
        let pool = deadpool_postgres::Pool::builder(manager).max_size(CONNECTIONS).build()?;
        Ok(request(move || {
            let pool = pool.clone();
            async move { query(&**pool.get().await.map_err(text)?).await }
        }))
    })
}

/// It knows one host, so an application has a pool for each node, takes them in turn, and the next one when it gets no connection.
fn sqlx(nodes: Vec<SocketAddr>) -> Open {
    Box::pin(async move {
        let pool = |node: &SocketAddr| {
            let options = PgConnectOptions::new().host(&node.ip().to_string()).port(node.port());
            let options = options.username(USER).database("postgres").ssl_mode(PgSslMode::Disable);
            PgPoolOptions::new().connect_lazy_with(options)
        };
        let pools: Arc<[sqlx::PgPool]> = nodes.iter().map(pool).collect();
        let turn = Arc::new(AtomicUsize::new(0));
        Ok(request(move || {
            let (pools, turn) = (Arc::clone(&pools), turn.fetch_add(1, Ordering::Relaxed));
            async move {
                let mut refused = String::new();
                for next in 0..pools.len() {
                    let mut connection = match pools[(turn + next) % pools.len()].acquire().await {
                        Ok(connection) => connection,
                        Err(error) => {
                            refused = error.to_string();
                            continue;
                        }
                    };
                    let row = connection.fetch_one(QUERY).await.map_err(text)?;
                    return row.try_get::<i32, _>(0).map_err(text)?.try_into().map_err(text);
                }
                Err(refused)
            }
        }))
    })
}
