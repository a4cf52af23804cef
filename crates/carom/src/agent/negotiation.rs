//! Negotiation: which HTTP an origin's servers speak, asked once and remembered.
//!
//! ```text
//!             the first to ask                  a server chose
//!  Unknown --------------------> Asking ---------------------------> Known
//!     ^                            | nobody could be asked             |
//!     +----------------------------+-----------------------------------+ every server refuses it by now
//! ```
//!
//! Whoever asks first makes a set that offers both: so a dead server is passed over as everywhere, and however many ask
//! meanwhile, it is one dial. The stream it brings is put aside for the pool or the set that is made next, whose first dial to
//! that backend it is.

use super::dial::{Dialer, Offer, Spoken};
use super::error::{self, Error};
use super::making::{Maker, OriginError};
use super::probing::{Probe, probe};
use super::routes::{FOREVER, Route, http1_pool, state_of};
use super::served::Protocol;
use crate::building::BuildError;
use crate::monitor::Id;
use crate::pool::{self, Drained, State};
use crate::ready::ReadyError;
use crate::set::{self, Lease, LeaseError, LeaseOptions, Set};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

/// How often a request looks for a way that others forget while it waits.
pub(super) const LOOKS: u32 = 4;

/// How often an origin without backends is looked at that does not wait for one.
const NEXT_LOOK: Duration = Duration::from_millis(100);

/// The ways to an origin.
pub(super) struct Routes {
    name: Arc<str>,
    /// Whether servers are asked what they speak.
    negotiates: bool,
    /// Whether HTTP/1 may be spoken.
    speaks_http1: bool,
    /// What was dialled to find out waits there to be taken.
    dialer: Dialer,
    known: Mutex<Known>,
}

/// The way that requests go at present.
#[derive(Clone)]
pub(super) struct Found {
    pub(super) route: Route,
    /// Tells it from what was found before or after.
    number: u64,
}

struct Known {
    /// `None` once closed: nothing is made any more, and the resolver is let go of.
    maker: Option<Maker>,
    state: Knowledge,
    /// Counts the times that it was asked for.
    number: u64,
    /// For requests that HTTP/2 has no words for, beside it.
    upgrading: Option<Route>,
    /// Forgotten ways that somebody is still on.
    past: Vec<Route>,
}

enum Knowledge {
    Unknown,
    Asking(Set<Probe>),
    Known(Route),
}

/// What somebody who wants to know is to do.
enum Step {
    Go(Found),
    /// With the number of that.
    Ask(Set<Probe>, u64),
}

impl Routes {
    /// Where there is nothing to negotiate the way is known from the start.
    pub(super) fn new(maker: Maker) -> Result<Routes, BuildError> {
        let protocol = maker.settings.protocol;
        let spoken = match protocol {
            Protocol::Negotiate if maker.dialer.is_tls() => None,
            Protocol::Negotiate | Protocol::Http1 => Some(Spoken::Http1),
            Protocol::Http2 => Some(Spoken::Http2),
        };
        let state = match spoken {
            None => Knowledge::Unknown,
            Some(spoken) => Knowledge::Known(Route::make(&maker, spoken)?),
        };
        let (negotiates, speaks_http1) = (spoken.is_none(), protocol != Protocol::Http2);
        let (name, dialer) = (Arc::clone(&maker.name), maker.dialer.offering(Offer::Both));
        let known = Known { maker: Some(maker), state, number: 0, upgrading: None, past: Vec::new() };
        Ok(Routes { name, negotiates, speaks_http1, dialer, known: Mutex::new(known) })
    }

    /// The way to go, asked for if it is not known. `upgrades`: for a request that only HTTP/1 has words for.
    ///
    /// Cancel safe: others go on asking.
    pub(super) async fn find(&self, upgrades: bool, within: Duration) -> Result<Found, Error> {
        let mut looks = 1;
        loop {
            let (probe, number) = match self.next()? {
                Step::Go(found) if upgrades => return self.upgrading(found),
                Step::Go(found) => return Ok(found),
                Step::Ask(probe, number) => (probe, number),
            };
            match probe.lease_with(LeaseOptions::default().timeout(within)).await {
                Ok(lease) => self.learn(number, &lease)?,
                // Its set is closed when somebody else has found out, and perhaps forgotten it since, or when the origin is.
                Err(error) => match (self.next()?, error) {
                    (Step::Go(_), _) => {}
                    (Step::Ask(..), LeaseError::Closed { .. }) if looks < LOOKS => looks += 1,
                    (Step::Ask(..), error) => return Err(error.into()),
                },
            }
        }
    }

    /// Waits until `n` backends are ready on the way to go, which is asked for if it is not known.
    ///
    /// Cancel safe: others go on asking.
    pub(super) async fn ready(&self, n: usize, within: Duration) -> Result<(), ReadyError> {
        let (name, deadline) = (|| Arc::clone(&self.name), Instant::now() + within.min(FOREVER));
        let left = || deadline.saturating_duration_since(Instant::now());
        let mut looks = 1;
        loop {
            let (result, asks) = match self.next() {
                Ok(Step::Go(found)) => (found.route.ready(n, left()).await, false),
                // One is enough to find out; the others are connected to by what is made then.
                Ok(Step::Ask(probe, _)) => (probe.ready(1, left()).await, true),
                Err(error) if error.step() == error::Step::Closed => return Err(ReadyError::Closed { name: name() }),
                Err(error) if error.step() != error::Step::Resolve => {
                    return Err(ReadyError::Origin { error: Arc::new(error) });
                }
                Err(_) if left().is_zero() => {
                    let (unready, cause) = (Vec::new(), None);
                    let name = name();
                    return Err(ReadyError::TimedOut { name, waited: within, ready: 0, wanted: 1, unready, cause });
                }
                Err(_) => {
                    sleep(NEXT_LOOK.min(left())).await;
                    continue;
                }
            };
            match result {
                Ok(()) if asks => match self.find(false, left()).await {
                    Err(error) if error.step() == error::Step::Request => {
                        return Err(ReadyError::Origin { error: Arc::new(error) });
                    }
                    Ok(_) | Err(_) => {}
                },
                // Somebody else has found out, or forgotten, what is spoken.
                Err(ReadyError::Closed { .. }) if looks < LOOKS => {
                    looks += 1;
                    yield_now().await;
                }
                // What took its time was finding out.
                Err(ReadyError::TimedOut { name, ready, unready, cause, .. }) => {
                    let wanted = n.min((ready + unready.len()).max(1));
                    return Err(ReadyError::TimedOut { name, waited: within, ready, wanted, unready, cause });
                }
                result => return result,
            }
        }
    }

    /// The way to go, if it is known.
    pub(super) fn known(&self) -> Option<Found> {
        let known = self.lock();
        known.maker.as_ref()?;
        Some(Found { route: known.state.route()?.clone(), number: known.number })
    }

    /// Forgets a way that no server lets anybody go any more: true if there is another to be found.
    pub(super) fn forget(&self, found: &Found) -> bool {
        if !self.negotiates {
            return false;
        }
        let mut known = self.lock();
        if known.maker.is_none() {
            return false;
        }
        if known.number != found.number {
            return true;
        }
        if let Some(route) = known.state.route().cloned() {
            known.state = Knowledge::Unknown;
            known.past.retain(|route| route.state() != State::Stopped);
            known.past.push(route.clone());
            drop(known);
            tracing::info!(origin = &*self.name, "no server speaks what it spoke before: they are asked again");
            // Whoever waits there looks again; what is under way goes on.
            route.close();
        }
        true
    }

    /// Whether somebody has forgotten this way meanwhile.
    pub(super) fn is_outdated(&self, found: &Found) -> bool {
        let known = self.lock();
        match known.state {
            _ if known.maker.is_none() => false,
            Knowledge::Known(_) => known.number != found.number,
            Knowledge::Unknown | Knowledge::Asking(_) => true,
        }
    }

    pub(super) fn protocol(&self) -> Option<Protocol> {
        self.lock().state.route().map(Route::protocol)
    }

    /// What snapshots show: the pool, which may be one for upgrades beside the set, and the set.
    pub(super) fn figures(&self) -> (Option<pool::Snapshot>, Option<set::Snapshot>) {
        let known = self.lock();
        let (mut pool, mut set) = (None, None);
        for route in known.state.route().into_iter().chain(&known.upgrading) {
            match route {
                Route::Http1(found) => pool = Some(found.snapshot()),
                Route::Http2(found) => set = Some(found.snapshot()),
            }
        }
        (pool, set)
    }

    /// Which ones they are to the monitor: the one that requests go at present, or the one that it is found out with, and the one
    /// for upgrades beside it.
    pub(super) fn ids(&self) -> Vec<Id> {
        let known = self.lock();
        if let Knowledge::Asking(probe) = &known.state {
            return vec![probe.id()];
        }
        known.state.route().into_iter().chain(&known.upgrading).map(Route::id).collect()
    }

    pub(super) fn state(&self) -> State {
        let known = self.lock();
        match &known.state {
            Knowledge::Known(route) => route.state(),
            Knowledge::Unknown | Knowledge::Asking(_) if known.maker.is_none() => State::Stopped,
            Knowledge::Asking(probe) => state_of(probe.state()),
            Knowledge::Unknown => State::Starting,
        }
    }

    pub(super) fn is_used(&self) -> bool {
        self.lock().routes().any(Route::is_used)
    }

    pub(super) fn close(&self) {
        for route in self.end() {
            route.close();
        }
    }

    pub(super) async fn drain(&self, deadline: Instant) -> Drained {
        let (routes, mut drained) = (self.end(), Drained::default());
        // All at once: what is waited for last must not take requests meanwhile.
        routes.iter().for_each(Route::close);
        for route in routes {
            drained = drained.and(route.drain(deadline).await);
        }
        drained
    }

    /// Every way there is; no other is found or made from now on.
    fn end(&self) -> Vec<Route> {
        let mut known = self.lock();
        let maker = known.maker.take();
        let probe = match &known.state {
            Knowledge::Asking(probe) => Some(probe.clone()),
            Knowledge::Unknown | Knowledge::Known(_) => None,
        };
        let routes = known.routes().cloned().collect();
        drop(known);
        drop(maker);
        if let Some(probe) = probe {
            probe.close();
        }
        self.dialer.clear_aside();
        routes
    }

    fn next(&self) -> Result<Step, Error> {
        let mut known = self.lock();
        let Known { maker: Some(maker), state, number, .. } = &mut *known else { return Err(Error::closed()) };
        let probe = match state {
            Knowledge::Known(route) => return Ok(Step::Go(Found { route: route.clone(), number: *number })),
            Knowledge::Asking(probe) => probe.clone(),
            Knowledge::Unknown => {
                let probe = probe(maker).map_err(OriginError::Build)?;
                *state = Knowledge::Asking(probe.clone());
                *number += 1;
                probe
            }
        };
        if maker.settings.error_on_empty && maker.resolver.backends().is_empty() {
            return Err(Error::empty());
        }
        Ok(Step::Ask(probe, *number))
    }

    /// A server has been asked. The first to hear of it makes what everybody uses from now on.
    fn learn(&self, number: u64, lease: &Lease<Probe>) -> Result<(), Error> {
        let mut known = self.lock();
        let known_now = &mut *known;
        let (Some(maker), Knowledge::Asking(_), true) =
            (&known_now.maker, &known_now.state, known_now.number == number)
        else {
            return Ok(());
        };
        let made = match lease.take() {
            Some(dialled) => {
                let (backend, spoken) = (lease.backend(), dialled.spoken);
                tracing::debug!(origin = &*self.name, %backend, ?spoken, "it is known what is spoken");
                // Before anybody dials: this is their first dial.
                self.dialer.put_aside(backend, dialled, &maker.runtime);
                Route::make(maker, spoken).map(Knowledge::Known).map_err(OriginError::Build)
            }
            // Somebody took it and came to nothing: they are asked anew.
            None => Ok(Knowledge::Unknown),
        };
        let (after, failed) = match made {
            Ok(after) => (after, None),
            Err(error) => (Knowledge::Unknown, Some(error)),
        };
        let before = std::mem::replace(&mut known_now.state, after);
        drop(known);
        if failed.is_some() {
            self.dialer.clear_aside();
        }
        // Whoever waits there looks again.
        if let Knowledge::Asking(probe) = before {
            probe.close();
        }
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// HTTP/1 beside HTTP/2, if the servers may be asked for it.
    fn upgrading(&self, found: Found) -> Result<Found, Error> {
        if matches!(found.route, Route::Http1(_)) || !self.speaks_http1 {
            return Ok(found);
        }
        let mut known = self.lock();
        let Known { maker: Some(maker), upgrading, .. } = &mut *known else { return Err(Error::closed()) };
        let route = match upgrading {
            Some(route) => route.clone(),
            None => upgrading.insert(Route::Http1(http1_pool(maker, 0).map_err(OriginError::Build)?)).clone(),
        };
        Ok(Found { route, ..found })
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Every way that somebody may be on.
    fn routes(&self) -> impl Iterator<Item = &Route> {
        self.state.route().into_iter().chain(&self.upgrading).chain(&self.past)
    }
}

impl Knowledge {
    fn route(&self) -> Option<&Route> {
        match self {
            Knowledge::Known(route) => Some(route),
            Knowledge::Unknown | Knowledge::Asking(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::Step;
    use super::super::options::{OriginOptions, Settings};
    use super::super::target::Target;
    use super::*;
    use crate::Backend;
    use crate::monitor::Monitor;
    use crate::tls::Tls;
    use std::net::SocketAddr;
    use testkit::http::{Authority, Server};
    use tokio::net::TcpListener;
    use tokio::runtime::Handle;
    use tokio::time::timeout;

    fn maker(uri: &str, node: SocketAddr, options: OriginOptions) -> Maker {
        let target = Target::of(&uri.parse().unwrap()).unwrap();
        Maker::new(&target, &Settings::default(), options.backends([node]), &Handle::current(), &Monitor::new())
            .unwrap()
    }

    #[tokio::test]
    async fn a_way_that_cannot_be_made_fails_the_request_and_is_looked_for_anew() {
        let authority = Authority::new();
        let server = Server::start_tls("node", authority.issue(["api.test"]).serving(["http/1.1"])).await.unwrap();
        let options = OriginOptions::default().tls(Tls::builder().roots_pem(authority.pem()));
        let mut maker = maker("https://api.test", server.address(), options);
        // As if this had not been found to make no sense before.
        maker.settings.maximum = 0;
        let routes = Routes::new(maker).unwrap();
        for dials in 1..4 {
            let found = timeout(Duration::from_secs(60), routes.find(false, Duration::from_secs(30))).await.unwrap();
            assert_eq!(found.err().map(|error| error.step()), Some(Step::Request));
            assert_eq!(server.accepted(), dials, "each asks, as nothing came of it before");
        }
        routes.close();
        assert_eq!(
            routes.find(false, Duration::from_secs(30)).await.err().map(|error| error.step()),
            Some(Step::Closed)
        );
        timeout(Duration::from_secs(60), server.until(|server| server.connections() == 0)).await.unwrap();
    }

    #[tokio::test]
    async fn closing_leaves_nothing_put_aside_though_the_way_is_known() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let node = listener.local_addr().unwrap();
        let routes = Routes::new(maker("http://api.test", node, OriginOptions::default().spares(0))).unwrap();
        let dialer = routes.dialer.offering(Offer::Only(Spoken::Http1));
        let backend = Backend::fixed(node);
        dialer.put_aside(&backend, dialer.dial(&backend).await.unwrap(), &Handle::current());
        let _first = listener.accept().await.unwrap();
        routes.close();
        let _dialled = dialer.dial(&backend).await.unwrap();
        let again = timeout(Duration::from_secs(60), listener.accept()).await;
        assert!(again.expect("it is dialled anew").is_ok());
    }
}
