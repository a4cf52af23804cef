//! TCP: each client is joined to a connection of its own, one that was open before it came.

mod session;

use super::door::{Closed, Serve};
use super::joining::Timeouts;
use super::refused;
use super::silence::KEEPALIVE;
use super::tally::Tally;
use crate::config::{self, Backends, Check, Service, TcpCall};
use crate::failure::Failure;
use carom::monitor::Id;
use carom::pool::{self, Phase, State};
use carom::resolver::Resolver;
use carom::tcp::Tcp;
use carom::tls::Tls;
use carom::{Connect, HealthCheck, Pool};
use session::Session;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;

/// A node that closes a spare in silence may be shutting down, and may wait for connections that are opened meanwhile, as PostgreSQL does for
/// a minute. It gets no spares for this long.
const REPLACE_SPARES_AFTER: Duration = Duration::from_secs(10);

/// Everything that sessions have in common.
pub(super) struct Sessions {
    name: String,
    pool: Connections,
    timeouts: Timeouts,
    tally: Arc<Tally>,
    /// Since a client was left without a backend, none has been given one. It is told once.
    failing: AtomicBool,
}

/// Connections to backends: each is one client's, and never another's.
enum Connections {
    Plain(Pool<Tcp>),
    Secure(Pool<Tls>),
}

impl Sessions {
    pub(super) fn new(
        service: &Service,
        own: &config::Tcp,
        resolver: &Resolver,
        tally: Arc<Tally>,
    ) -> Result<Sessions, Failure> {
        // Whoever greets its clients does so when we connect; it waits for the client who comes.
        let tcp = Tcp::default().server_first(true).keepalive(KEEPALIVE);
        let pool = match &service.tls {
            None => Connections::Plain(pool(service, own, resolver, tcp)?),
            Some(tls) => {
                let mut builder = tls.builder().tcp(tcp).server_first(true);
                if let (None, Backends::Name(name)) = (&tls.server_name, &service.backends) {
                    builder = builder.server_name(&*name.domain);
                }
                let tls = builder.build().map_err(|error| refused(service, &error))?;
                Connections::Secure(pool(service, own, resolver, tls)?)
            }
        };
        let name = service.name.clone();
        let timeouts = Timeouts { idle: own.idle_timeout, half_close: own.half_close_timeout };
        Ok(Sessions { name, pool, timeouts, tally, failing: AtomicBool::new(false) })
    }

    /// How it is, and its pool, as the monitor knows it.
    pub(super) fn behind(&self) -> (State, Vec<Id>) {
        match &self.pool {
            Connections::Plain(pool) => (pool.state(), vec![pool.id()]),
            Connections::Secure(pool) => (pool.state(), vec![pool.id()]),
        }
    }

    /// Nobody comes any more: connections are only for those who wait for one.
    pub(super) fn keep_no_spares(&self) {
        fn resize<C: Connect>(pool: &Pool<C>) {
            let pool::Snapshot { pool: figures, .. } = pool.snapshot();
            // What nobody uses is above this maximum, and is closed at once; whoever waits may need the old one. No spares make
            // sense with each.
            let _ = pool.resize(0, figures.counts.of(Phase::Busy).max(1));
            let _ = pool.resize(0, figures.maximum);
        }
        match &self.pool {
            Connections::Plain(pool) => resize(pool),
            Connections::Secure(pool) => resize(pool),
        }
    }

    /// Nobody comes any more: once each client has a connection, all others close and none is opened.
    pub(super) async fn leave(&self) {
        self.tally.nothing_is_pending().await;
        match &self.pool {
            Connections::Plain(pool) => pool.close(),
            Connections::Secure(pool) => pool.close(),
        }
    }

    /// A client was joined to a backend.
    fn joined(&self) {
        self.tally.served();
        self.tally.succeeded();
        if self.failing.load(Ordering::Relaxed) && self.failing.swap(false, Ordering::Relaxed) {
            tracing::warn!(service = self.name, "clients are served again");
        }
    }

    /// No backend was found for a client.
    fn left_alone(&self, why: &dyn std::fmt::Display) {
        self.tally.failed();
        if self.failing.swap(true, Ordering::Relaxed) {
            tracing::debug!(service = self.name, %why, "a client is closed");
        } else {
            tracing::warn!(service = self.name, %why, "clients are closed until there is a backend again");
        }
    }
}

impl Serve for Sessions {
    /// A session that has begun goes on when the door is closed, for as long as it may.
    fn serve(self: Arc<Self>, client: TcpStream, _: Closed) -> impl Future<Output = ()> + Send {
        let pending = self.tally.begin();
        async move {
            let session = Session { sessions: &self, client, pending };
            match &self.pool {
                Connections::Plain(pool) => session.run(pool).await,
                Connections::Secure(pool) => session.run(pool).await,
            }
        }
    }

    /// There are no words for it that every protocol has.
    fn turn_away(&self, _: TcpStream) -> impl Future<Output = ()> + Send + 'static {
        ready(())
    }
}

/// Over TLS the check is a connect with its handshake.
fn health_check(check: &Check<TcpCall>) -> HealthCheck {
    let health_check = match &check.call {
        TcpCall::SendExpect { send, expect } => HealthCheck::send_expect(send.as_bytes(), expect.as_bytes()),
        TcpCall::Connect => HealthCheck::connector(),
    };
    health_check.schedule(check.schedule())
}

fn pool<C: Connect>(
    service: &Service,
    own: &config::Tcp,
    resolver: &Resolver,
    connector: C,
) -> Result<Pool<C>, Failure> {
    Pool::builder(connector)
        .name(&*service.name)
        .resolver(resolver.clone())
        .spares(service.spares)
        .maximum(service.maximum)
        .claim_timeout(service.claim_timeout)
        .outage_wait(service.outage_wait)
        .recovery(service.recovery.policy())
        .max_idle(service.max_idle)
        .replace_unused_after(REPLACE_SPARES_AFTER)
        .ejection(service.ejection.clone())
        .slow_start(service.slow_start)
        .health_check(own.check.as_ref().map(health_check))
        // A session lasts as long as its client likes.
        .learn_latency(false)
        .build()
        .map_err(|error| refused(service, &error))
}
