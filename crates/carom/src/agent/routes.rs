//! Ways to an origin: a pool of HTTP/1 connections or a set of HTTP/2 ones, and what a request holds of either.

use super::dial::{Dialer, Made, Offer, Spoken};
use super::error::Error;
use super::http1;
use super::http2::{self, Address, Line, Ping, Seat};
use super::making::Maker;
use super::served::Protocol;
use super::stalls::Pulse;
use crate::building::BuildError;
use crate::monitor::Id;
use crate::pool::{Drained, Phase, Pool, State};
use crate::ready::ReadyError;
use crate::set::{self, Set};
use crate::telling::{Whose, tell_stall};
use crate::{Backend, Claim};
use http::header::HeaderValue;
use http::uri::{Authority, Scheme};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long what is under way may go on when its server is not known any more: as over HTTP/1, until its end. A set wants to
/// be told some time.
pub(super) const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Over what requests go.
#[derive(Clone)]
pub(super) enum Route {
    Http1(Pool<http1::Connector>),
    Http2(Set<http2::Connector>),
}

/// What a request holds while it is tried.
pub(super) enum Held {
    Http1(Claim<http1::Connector>),
    Http2(Seat),
}

impl Route {
    /// One over which this is spoken, and nothing else offered.
    pub(super) fn make(maker: &Maker, spoken: Spoken) -> Result<Route, BuildError> {
        Ok(match spoken {
            Spoken::Http1 => Route::Http1(http1_pool(maker, maker.settings.spares)?),
            Spoken::Http2 => Route::Http2(http2_set(maker)?),
        })
    }

    pub(super) fn protocol(&self) -> Protocol {
        match self {
            Route::Http1(_) => Protocol::Http1,
            Route::Http2(_) => Protocol::Http2,
        }
    }

    pub(super) fn state(&self) -> State {
        match self {
            Route::Http1(pool) => pool.state(),
            Route::Http2(set) => state_of(set.state()),
        }
    }

    /// Which one it is to the monitor.
    pub(super) fn id(&self) -> Id {
        match self {
            Route::Http1(pool) => pool.id(),
            Route::Http2(set) => set.id(),
        }
    }

    pub(super) async fn ready(&self, n: usize, within: Duration) -> Result<(), ReadyError> {
        match self {
            Route::Http1(pool) => pool.ready(n, within).await,
            Route::Http2(set) => set.ready(n, within).await,
        }
    }

    pub(super) fn is_used(&self) -> bool {
        match self {
            Route::Http1(pool) => pool.snapshot().pool.counts.of(Phase::Busy) > 0,
            Route::Http2(set) => set.snapshot().leases > 0,
        }
    }

    pub(super) fn close(&self) {
        match self {
            Route::Http1(pool) => pool.close(),
            Route::Http2(set) => set.close(),
        }
    }

    pub(super) async fn drain(&self, deadline: Instant) -> Drained {
        match self {
            Route::Http1(pool) => pool.drain(deadline).await,
            Route::Http2(set) => Drained { cut: set.drain(deadline).await, ..Drained::default() },
        }
    }
}

/// HTTP/1 connections to an origin, so many of them spare.
pub(super) fn http1_pool(maker: &Maker, spares: usize) -> Result<Pool<http1::Connector>, BuildError> {
    let Maker { name, title, host, settings, resolver, runtime, monitor, .. } = maker;
    let ping = settings.ping.as_ref().map(|path| (path.clone(), host.clone()));
    let ping = ping.and_then(|(path, host)| Some((path.parse().ok()?, host)));
    let check_after = ping.is_some().then_some(settings.ping_interval);
    let dialer = dialer(maker, Spoken::Http1);
    let authority = authority_of(host);
    let health_check = settings.health_check.as_ref().map(|check| check.over(&dialer, Spoken::Http1, &authority));
    let refusals = dialer.is_tls().then(Notify::new);
    let pool = Pool::builder(http1::Connector { dialer, origin: Arc::clone(name), ping, refusals })
        .name(Arc::clone(title))
        .resolver(resolver.clone())
        .runtime(runtime.clone())
        .monitor(monitor)
        .spares(spares)
        .maximum(settings.maximum)
        .recovery(settings.recovery.clone())
        .claim_timeout(settings.claim_timeout)
        // Without spares every claim waits for its connection.
        .max_waiters(settings.max_waiters.filter(|most| *most > 0 || spares > 0))
        .outage_wait(settings.outage_wait)
        .target_delay(settings.target_delay)
        .max_idle(settings.connection_max_idle)
        .max_lifetime(settings.max_lifetime)
        .check_after(check_after)
        .check_timeout(settings.check_timeout)
        .ejection(settings.ejection.clone())
        .slow_start(settings.slow_start)
        .health_check(health_check)
        .build()?;
    let (set_stalled, name) = (pool.set_stalled(), Arc::clone(title));
    maker.stalls.follow(move |pulse: &Pulse| {
        let lives = set_stalled(&pulse.backend, &|| pulse.is_stalled());
        if lives {
            tell_stall(Whose::Pool(&name), &pulse.backend, pulse.is_stalled());
        }
        lives
    });
    Ok(pool)
}

/// One HTTP/2 connection to each of as many nodes as `maximum` says: requests go where the load is least.
fn http2_set(maker: &Maker) -> Result<Set<http2::Connector>, BuildError> {
    let Maker { name, title, host, settings, resolver, runtime, monitor, .. } = maker;
    let dialer = dialer(maker, Spoken::Http2);
    let scheme = if dialer.is_tls() { Scheme::HTTPS } else { Scheme::HTTP };
    let authority = authority_of(host);
    let health_check = settings.health_check.as_ref().map(|check| check.over(&dialer, Spoken::Http2, &authority));
    let address = Arc::new(Address { origin: Arc::clone(name), scheme, authority });
    let ping = settings.ping.is_some();
    let ping = ping.then_some(Ping { interval: settings.ping_interval, timeout: settings.check_timeout });
    let (max_lifetime, line) = (settings.max_lifetime, Line::new(settings.max_waiters));
    let set = Set::builder(http2::Connector { dialer, address, ping, max_lifetime, line })
        .name(Arc::clone(title))
        .resolver(resolver.clone())
        .runtime(runtime.clone())
        .monitor(monitor)
        .eager(true)
        .target(settings.maximum)
        .maximum(settings.maximum)
        .recovery(settings.recovery.clone())
        .lease_timeout(settings.claim_timeout)
        .outage_wait(settings.outage_wait)
        .max_idle(settings.connection_max_idle)
        .drain_timeout(FOREVER)
        .ejection(settings.ejection.clone())
        .slow_start(settings.slow_start)
        .health_check(health_check)
        .build()?;
    let (set_stalled, name) = (set.set_stalled(), Arc::clone(title));
    maker.stalls.follow(move |pulse: &Pulse| {
        let lives = set_stalled(&pulse.backend, &|| pulse.is_stalled());
        if lives {
            tell_stall(Whose::Set(&name), &pulse.backend, pulse.is_stalled());
        }
        lives
    });
    Ok(set)
}

fn authority_of(host: &HeaderValue) -> Authority {
    Authority::try_from(host.as_bytes()).expect("it was the authority of a URI")
}

fn dialer(maker: &Maker, spoken: Spoken) -> Dialer {
    maker.dialer.offering(Offer::Only(spoken))
}

pub(super) fn state_of(state: set::State) -> State {
    match state {
        set::State::Starting => State::Starting,
        set::State::Running => State::Running,
        set::State::Failed => State::Failed,
        set::State::Stopping => State::Stopping,
        set::State::Stopped => State::Stopped,
    }
}

impl Held {
    pub(super) fn backend(&self) -> &Backend {
        match self {
            Held::Http1(claim) => claim.backend(),
            Held::Http2(seat) => seat.backend(),
        }
    }

    /// The signs of life of the backend.
    pub(super) fn pulse(&self) -> &Arc<Pulse> {
        match self {
            Held::Http1(claim) => claim.pulse(),
            Held::Http2(seat) => seat.pulse(),
        }
    }

    /// How long it took to make the connection; `None` if it has served before. To be asked once, as it is used.
    pub(super) fn begin_use(&self) -> Option<Made> {
        match self {
            Held::Http1(claim) => claim.made(),
            Held::Http2(seat) => seat.begin_use(),
        }
    }

    pub(super) fn protocol(&self) -> Protocol {
        match self {
            Held::Http1(_) => Protocol::Http1,
            Held::Http2(_) => Protocol::Http2,
        }
    }
}

impl Drained {
    /// Together with what was left elsewhere.
    pub(super) fn and(mut self, other: Drained) -> Drained {
        self.left.extend(other.left);
        (self.closing, self.cut) = (self.closing + other.closing, self.cut + other.cut);
        self
    }
}

impl Error {
    /// Nobody is known who serves, and whoever asks does not want to wait for somebody.
    pub(super) fn empty() -> Error {
        Error::unresolved(None)
    }
}
