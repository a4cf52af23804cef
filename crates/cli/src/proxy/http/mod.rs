//! HTTP: each request goes to a backend on a connection that is lent for it, and its answer comes back as it is written.

mod attend;
mod bodies;
mod forward;
mod headers;
mod origin;
mod plain;
mod pulse;
mod refusal;
mod streams;
mod target;
mod upload;
mod visit;
mod wire;

use super::door::{Closed, Serve};
use super::refused;
use super::tally::Tally;
use crate::config::{self, Service};
use crate::failure::Failure;
use ::http::HeaderValue;
use carom::agent::{Agent, Origin};
use carom::monitor::Id;
use carom::pool::State;
use carom::resolver::Resolver;
use carom_core::seldom::Seldom;
use refusal::Refusal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::sleep;

/// How long a backend may be silent when the client has ended its side of the connection (FIN).
///
/// Such a client may have left, or it may still want its response, as `nc -N` does. nginx gives the request up at once. Here a
/// response that comes in time is delivered. After that the request is cancelled, the client's connection is closed, and neither
/// counts as a failure of the backend. `request_timeout` applies as well, if it is shorter.
const HALF_CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long after the door was closed requests may begin: clients of HTTP/1 have [`GRACE`](visit::GRACE), and streams of HTTP/2 that were
/// opened before the client heard of it are on their way.
const LAST_REQUESTS: Duration = Duration::from_secs(2);

/// Everything that requests have in common.
pub(super) struct Requests {
    name: Arc<str>,
    agent: Agent,
    origin: Origin,
    /// The `Host` that backends are shown; without one, the client's own.
    host: Option<HeaderValue>,
    /// How long a client may take to send a whole head, to send more of a request, or to take more of its answer.
    idle_timeout: Option<Duration>,
    /// How long nothing may be said on a connection that speaks something else.
    upgraded_timeout: Option<Duration>,
    /// [`HALF_CLOSE_TIMEOUT`], but in tests.
    half_close_timeout: Duration,
    tally: Arc<Tally>,
    /// Requests that were not served by a backend.
    failures: Mutex<Seldom>,
}

impl Requests {
    pub(super) fn new(
        service: &Service,
        own: &config::Http,
        resolver: &Resolver,
        tally: Arc<Tally>,
    ) -> Result<Requests, Failure> {
        let agent = Agent::builder().build().map_err(|error| refused(service, &error))?;
        let origin = agent
            .create_pool(origin::uri(service, own), origin::options(service, own, resolver))
            .map_err(|error| refused(service, &error))?;
        Ok(Requests {
            name: service.name.as_str().into(),
            agent,
            origin,
            host: origin::host(service, own),
            idle_timeout: own.idle_timeout,
            // Only who has said a time means these as well: unless told otherwise, they may be quiet.
            upgraded_timeout: own.idle_timeout.filter(|time| Some(*time) != config::Http::default().idle_timeout),
            half_close_timeout: HALF_CLOSE_TIMEOUT,
            tally,
            failures: Mutex::default(),
        })
    }

    /// Of the service.
    fn name(&self) -> &str {
        &self.name
    }

    /// A request is answered with 502, 503 or 504 because no backend served it: the first one is logged, and then their number once a
    /// minute.
    fn log_failed(&self, refusal: &Refusal) {
        if !matches!(refusal.status().as_u16(), 502..=504) {
            return;
        }
        let (service, status, why) = (self.name(), refusal.status().as_u16(), refusal.message());
        let count = self.failures.lock().unwrap_or_else(PoisonError::into_inner).happened(Instant::now());
        match count {
            Some(count) => tracing::warn!(service, count, status, why, "requests of clients fail"),
            None => tracing::debug!(service, status, why, "a request of a client fails"),
        }
    }

    /// How it is, and what requests go through, as the monitor knows it, with a pool for upgrades if that is another.
    pub(super) fn behind(&self) -> (State, Vec<Id>) {
        (self.origin.state(), self.origin.ids())
    }

    /// Nobody comes any more: once the last requests have their response heads, connections that are not in use close and none is
    /// opened.
    pub(super) async fn leave(&self) {
        sleep(LAST_REQUESTS).await;
        self.tally.nothing_is_pending().await;
        self.agent.close();
    }
}

impl Serve for Requests {
    async fn serve(self: Arc<Self>, client: TcpStream, closed: Closed) {
        visit::serve(self, client, closed).await;
    }

    fn turn_away(&self, client: TcpStream) -> impl Future<Output = ()> + Send + 'static {
        let refusal = Refusal::too_many_clients();
        self.log_failed(&refusal);
        refusal::turn_away(Arc::clone(&self.name), refusal, client)
    }
}
