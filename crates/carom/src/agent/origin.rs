//! One origin: who serves it, and the connections to it.

use super::body::Body;
use super::dial::Dialer;
use super::error::{Error, Step};
use super::making::{Maker, OriginError};
use super::negotiation::Routes;
use super::options::Settings;
use super::served::Protocol;
use super::stalls::Stalls;
use crate::monitor::Id;
use crate::pool::{self, Drained, State};
use crate::ready::ReadyError;
use crate::resolver::{Resolver, ResolverState};
use crate::{Backend, clock, set};
use http::header::HeaderValue;
use http::{Request, Response};
use http_body::Body as HttpBody;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::Instrument;

/// How long it is tried at a time to find out which HTTP is spoken, and how long not, while nobody asks for anything.
const LOOK_AHEAD: Duration = Duration::from_secs(1);

/// An origin, such as `https://api.example.com`, with its connections. Made by
/// [`Agent::create_pool`](super::Agent::create_pool), or found with [`Agent::pool`](super::Agent::pool).
///
/// Cheap to clone; all clones are the same. It lives for as long as the agent, or anybody else, holds it.
#[derive(Clone)]
pub struct Origin {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) name: Arc<str>,
    /// What requests say in `Host` when they say nothing themselves.
    pub(super) host: HeaderValue,
    pub(super) settings: Settings,
    pub(super) routes: Routes,
    pub(super) stalls: Arc<Stalls>,
    pub(super) dialer: Dialer,
    pub(super) runtime: Handle,
    pub(super) resolver: Resolver,
    /// Somebody has to be asked who serves.
    resolves: bool,
    /// The resolver has spoken.
    resolved: AtomicBool,
    pub(super) closed: watch::Sender<bool>,
    made: Instant,
    /// When it was last asked for something, in milliseconds since it was made.
    used: AtomicU64,
    /// It stays, however idle.
    lasts: bool,
}

impl Origin {
    pub(super) fn make(maker: Maker, lasts: bool) -> Result<Origin, OriginError> {
        let Maker { name, host, settings, resolver, resolves, stalls, dialer, runtime, .. } = &maker;
        let (stalls, dialer, runtime) = (Arc::clone(stalls), dialer.clone(), runtime.clone());
        let (name, host, settings) = (Arc::clone(name), host.clone(), settings.clone());
        let (resolver, resolves, routes) = (resolver.clone(), *resolves, Routes::new(maker)?);
        let (resolved, made, used) = (AtomicBool::new(false), clock::now(), AtomicU64::new(0));
        let closed = watch::Sender::new(false);
        let shared = Shared {
            name,
            host,
            settings,
            routes,
            stalls,
            dialer,
            runtime,
            resolver,
            resolves,
            resolved,
            closed,
            made,
            used,
            lasts,
        };
        Ok(Origin { shared: Arc::new(shared) })
    }

    /// Sends a request to this origin, and waits for the head of the answer. Of its URI only path and query count: the rest is
    /// the origin's. A request without `Host` gets the origin's.
    ///
    /// Cancel safety: the connection is closed, or over HTTP/2 the stream alone, and nobody is blamed.
    ///
    /// # Errors
    /// [`Error`] says at which step it failed.
    pub fn request<B>(
        &self,
        request: Request<B>,
    ) -> impl Future<Output = Result<Response<Body>, Error>> + Send + use<'_, B>
    where
        B: HttpBody + Send + 'static,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        self.serve(request.map(Body::new))
    }

    pub(super) fn serve(
        &self,
        request: Request<Body>,
    ) -> impl Future<Output = Result<Response<Body>, Error>> + Send + use<'_> {
        // Neither path nor headers: they may hold what is nobody else's business.
        let span = tracing::debug_span!("request", origin = &*self.shared.name, method = %request.method());
        self.shared.serve(Box::new(request)).instrument(span)
    }

    /// The origin as `https://api.example.com`, with its port if that is not the default one.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Which HTTP is spoken; `None` while that is not known.
    pub fn protocol(&self) -> Option<Protocol> {
        self.shared.routes.protocol()
    }

    /// Where it is in its life.
    pub fn state(&self) -> State {
        self.shared.routes.state()
    }

    /// Which ones its pool and its set are to the [monitor](crate::Monitor); while it is found out which HTTP is spoken, the set that does
    /// so; none before that.
    pub fn ids(&self) -> Vec<Id> {
        self.shared.routes.ids()
    }

    /// A copy of its state for people.
    pub fn snapshot(&self) -> Snapshot {
        let (pool, set) = self.shared.routes.figures();
        Snapshot {
            name: Arc::clone(&self.shared.name),
            protocol: self.protocol(),
            state: self.state(),
            backends: self.shared.resolver.backends(),
            pool,
            set,
        }
    }

    /// Waits until `n` of its backends have a working connection; see [`Agent::ready`](super::Agent::ready).
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// [`ReadyError`] says how many were ready.
    pub async fn ready(&self, n: usize, within: Duration) -> Result<(), ReadyError> {
        if n == 0 {
            return Ok(());
        }
        self.shared.note_use(clock::now());
        self.shared.routes.ready(n, within).await
    }

    /// Finds out which HTTP is spoken before anybody asks for anything, so that connections are open by then.
    pub(super) fn find_out_ahead(&self, runtime: &Handle) {
        // Without spares nothing is to be open ahead.
        if self.shared.settings.spares == 0 || self.shared.routes.known().is_some() {
            return;
        }
        let origin = Arc::downgrade(&self.shared);
        runtime.spawn(async move {
            // Held for a moment at a time: it ends with whoever else holds it.
            while let Some(shared) = origin.upgrade() {
                match shared.routes.find(false, LOOK_AHEAD).await {
                    Ok(_) => return,
                    Err(error) if error.step() == Step::Closed => return,
                    Err(_) => drop(shared),
                }
                sleep(LOOK_AHEAD).await;
            }
        });
    }

    pub(super) fn close(&self) {
        self.shared.closed.send_replace(true);
        self.shared.routes.close();
    }

    pub(super) async fn drain(&self, deadline: tokio::time::Instant) -> Drained {
        self.shared.closed.send_replace(true);
        self.shared.routes.drain(deadline).await
    }

    /// Whether the agent alone knows of it, and nobody has used it for so long.
    pub(super) fn is_idle(&self, now: Instant, max_idle: Duration) -> bool {
        let Shared { made, used, lasts, routes, .. } = &*self.shared;
        let last = *made + Duration::from_millis(used.load(Ordering::Relaxed));
        !lasts
            && Arc::strong_count(&self.shared) == 1
            && now.saturating_duration_since(last) >= max_idle
            && !routes.is_used()
    }
}

impl Shared {
    /// Notes that it is used now.
    pub(super) fn note_use(&self, now: Instant) {
        let age = now.saturating_duration_since(self.made).as_millis();
        self.used.store(u64::try_from(age).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether the resolver knows nobody who serves.
    pub(super) fn knows_nobody(&self) -> bool {
        self.resolver.backends().is_empty()
    }

    /// Whether the resolver has spoken, well or ill.
    pub(super) fn is_resolved(&self) -> bool {
        self.resolved.load(Ordering::Relaxed)
    }

    /// Waits until it has; says how long that took, if anybody had to be asked.
    pub(super) async fn resolve(&self, since: Instant) -> Result<Option<Duration>, Error> {
        let mut closed = self.closed.subscribe();
        let spoken = self.resolver.wait_until(|known| known.state != ResolverState::Starting);
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => return Err(Error::closed()),
            // If it takes longer, the claim says what there is to say.
            _ = timeout(self.settings.claim_timeout, spoken) => {}
        }
        self.resolved.store(true, Ordering::Relaxed);
        Ok(self.resolves.then(|| clock::now().saturating_duration_since(since)))
    }
}

/// An origin at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its name, as `https://api.example.com`.
    pub name: Arc<str>,
    /// Which HTTP is spoken; `None` while that is not known.
    pub protocol: Option<Protocol>,
    /// Where it is in its life.
    pub state: State,
    /// Who serves it, as far as is known.
    pub backends: Arc<[Backend]>,
    /// Its pool of HTTP/1 connections, if it has one; beside a set, it is for upgrades alone.
    pub pool: Option<pool::Snapshot>,
    /// Its set of HTTP/2 connections, if it has one.
    pub set: Option<set::Snapshot>,
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("name", &self.name()).field("state", &self.state()).finish_non_exhaustive()
    }
}
