//! Redis: carom with bb8-redis's manager and deadpool-redis's, next to bb8 and deadpool with the same.

use super::{Open, Peer, Request, request, text};
use crate::faults::CONNECTIONS;
use bb8_redis::RedisConnectionManager;
use bb8_redis::redis::aio::MultiplexedConnection;
use bb8_redis::redis::{self, RedisError};
use carom::{Backend, Connect, Pool, managers};
use carom_live::AnyError;
use deadpool::managed::{self, Metrics, RecycleResult};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

pub const PEERS: &[Peer] = &[
    Peer::carom("carom, bb8's manager", |nodes| {
        Box::pin(async {
            let connector = managers::bb8::try_from_managers(|backend: &Backend| {
                RedisConnectionManager::new(url(&backend.socket_addr()))
            });
            carom(connector, nodes, |connection| connection)
        })
    }),
    Peer::carom("carom, deadpool's manager", |nodes| {
        Box::pin(async {
            let connector = managers::deadpool::try_from_managers(|backend: &Backend| {
                deadpool_redis::Manager::new(url(&backend.socket_addr()))
            });
            carom(connector, nodes, |connection| connection)
        })
    }),
    Peer::other("bb8", bb8),
    Peer::other("deadpool", deadpool),
];

fn url(node: &SocketAddr) -> String {
    format!("redis://{node}")
}

fn carom<C: Connect>(
    connector: C,
    nodes: Vec<SocketAddr>,
    connection: fn(&mut C::Connection) -> &mut MultiplexedConnection,
) -> Result<Request, AnyError> {
    let pool = Pool::builder(connector).backends(nodes).build()?;
    Ok(request(move || {
        let pool = pool.clone();
        async move {
            let mut claim = pool.claim().await.map_err(text)?;
            query(connection(&mut claim)).await
        }
    }))
}

/// Takes [`WORK`](crate::faults::WORK): a list that stays empty is waited for.
async fn query(connection: &mut MultiplexedConnection) -> Result<u16, String> {
    let mut pipe = redis::pipe();
    pipe.cmd("BLPOP").arg("empty").arg(0.02).cmd("CONFIG").arg("GET").arg("port").cmd("ECHO").arg(";");
    let (_, config, _): (Option<Vec<String>>, Vec<String>, String) =
        pipe.query_async(connection).await.map_err(text)?;
    config.get(1).and_then(|port| port.parse().ok()).ok_or_else(|| "no port".into())
}

/// A manager knows one node, so an application has one for each, and connects to the nodes in turn, and to the next one when
/// that fails.
struct InTurn<M> {
    managers: Vec<M>,
    turn: AtomicUsize,
}

impl<M> InTurn<M> {
    fn new(nodes: &[SocketAddr], make: fn(String) -> Result<M, RedisError>) -> Result<InTurn<M>, RedisError> {
        let managers = nodes.iter().map(|node| make(url(node))).collect::<Result<_, _>>()?;
        Ok(InTurn { managers, turn: AtomicUsize::new(0) })
    }

    async fn connect<C>(&self, connect: impl AsyncFn(&M) -> Result<C, RedisError>) -> Result<C, RedisError> {
        let (turn, count) = (self.turn.fetch_add(1, Ordering::Relaxed), self.managers.len());
        for next in 0..count - 1 {
            if let Ok(connection) = connect(&self.managers[(turn + next) % count]).await {
                return Ok(connection);
            }
        }
        connect(&self.managers[(turn + count - 1) % count]).await
    }
}

impl bb8::ManageConnection for InTurn<RedisConnectionManager> {
    type Connection = MultiplexedConnection;
    type Error = RedisError;

    async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        self.connect(async |manager| manager.connect().await).await
    }

    async fn is_valid(&self, connection: &mut MultiplexedConnection) -> Result<(), RedisError> {
        self.managers[0].is_valid(connection).await
    }

    fn has_broken(&self, connection: &mut MultiplexedConnection) -> bool {
        self.managers[0].has_broken(connection)
    }
}

impl managed::Manager for InTurn<deadpool_redis::Manager> {
    type Type = MultiplexedConnection;
    type Error = RedisError;

    async fn create(&self) -> Result<MultiplexedConnection, RedisError> {
        self.connect(async |manager| manager.create().await).await
    }

    async fn recycle(&self, connection: &mut MultiplexedConnection, metrics: &Metrics) -> RecycleResult<RedisError> {
        self.managers[0].recycle(connection, metrics).await
    }
}

fn bb8(nodes: Vec<SocketAddr>) -> Open {
    Box::pin(async move {
        let pool = bb8::Pool::builder().build(InTurn::new(&nodes, RedisConnectionManager::new)?).await?;
        Ok(request(move || {
            let pool = pool.clone();
            async move { query(&mut *pool.get().await.map_err(text)?).await }
        }))
    })
}

fn deadpool(nodes: Vec<SocketAddr>) -> Open {
    Box::pin(async move {
        let manager = InTurn::new(&nodes, deadpool_redis::Manager::new)?;
        let pool = managed::Pool::<InTurn<deadpool_redis::Manager>>::builder(manager).max_size(CONNECTIONS).build()?;
        Ok(request(move || {
            let pool = pool.clone();
            async move { query(&mut *pool.get().await.map_err(text)?).await }
        }))
    })
}
