//! The set: connections that many share, made when somebody wants one and let go when nobody does.
//!
//! A set has places: `per_backend` for each backend, each with at most one connection that takes leases. Whoever wants one
//! gets a lease at once if a connection is up, and otherwise waits for the dial; however many wait, it is one dial, and all
//! get its outcome. A connection without leases is marked by the detector and released when nobody has come back for it.
//!
//! Backends are known from the resolver, or foreign: somebody asked for one by name. Foreign ones are dialled on demand and go
//! when their connections do. Known ones that the resolver takes back are drained: no new leases, the holders are told, and
//! the connection ends with the last of them or when their time is over.
//!
//! An eager set keeps connections to as many backends as its `target` says before anybody asks, by the same [`plan`]
//! as a pool, and gives one up only when another works. Dead backends are tried beside that, at most `min(maximum, 16)` at a time.
//! What somebody asks for comes and goes as in any set.
//!
//! ```
//! use carom_core::backend::Backend;
//! use carom_core::set::{Action, Delivery, Leased, Machine, Options, Want};
//! use std::time::{Duration, Instant};
//!
//! # #[allow(clippy::disallowed_methods)]
//! let start = Instant::now();
//! let mut set = Machine::new(Options::default(), 7, start).unwrap();
//! set.handle_backends(start, &[Backend::fixed("10.0.0.1:6650".parse().unwrap())]);
//!
//! // Two want a connection; there is one dial, and both get what comes of it.
//! let Leased::Waiting(first) = set.lease(start, Want::any()) else { panic!() };
//! let Leased::Waiting(second) = set.lease(start, Want::any()) else { panic!() };
//! let Some(Action::Dial { connection, .. }) = set.poll_action() else { panic!() };
//! assert_eq!(set.poll_action(), None);
//! set.handle_connected(start, connection);
//! assert_eq!(set.poll_delivery(), Some(Delivery::Granted { waiter: first, connection }));
//! assert_eq!(set.poll_delivery(), Some(Delivery::Granted { waiter: second, connection }));
//! ```
//!
//! [`plan`]: crate::plan::plan

mod anyone;
mod dials;
mod keeping;
mod leases;
mod membership;
mod observation;
mod open;
mod options;
mod outage;
mod outliers;
mod places;
mod ready;
mod snapshot;

pub use leases::{Leased, Want};
pub use observation::{BackendGlance, Counters, Observation};
pub use options::Options;
pub use places::ConnectionId;
pub use snapshot::{Figures, Glance, Snapshot};

use crate::backend::Backend;
use crate::backends::{Backends, Outage};
pub use crate::backends::{CheckCounts, CheckId, Readiness};
use crate::news::News;
use crate::options::OptionsError;
use crate::pick::Loads;
use crate::random::Random;
use crate::timers::Timers;
use leases::Waiter;
use open::Class;
use places::{BackendPlaces, Connection, Entry};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where a set is.
///
/// ```text
///  Starting ----> Running <----> Failed     every known backend is dead or unhealthy, or the resolver knows none
///     |              |             ^ |
///     +--------------|-------------+ |
///     +--------------+---------------+----> Stopping ----> Stopped
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing has been connected yet.
    Starting,
    /// Something has been connected.
    Running,
    /// Every known backend is dead or unhealthy, and no connection works: leases of any backend wait for up to `outage_wait` while connects are attempted at least every
    /// second. Or no backend is known and the resolver has failed: they fail at once.
    Failed,
    /// No new leases; some are still out.
    Stopping,
    /// Nothing is left.
    Stopped,
}

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect, and say what came of it with [`Machine::handle_connected`] or [`Machine::handle_failed`], at the latest
    /// after `timeout`.
    Dial {
        /// How to name it, and the connection that comes of it.
        connection: ConnectionId,
        /// To whom.
        backend: Arc<Backend>,
        /// How long it may take.
        timeout: Duration,
    },
    /// Nobody wants what would come of this dial any more.
    Abort(ConnectionId),
    /// End this connection, for all who hold it.
    Shut(ConnectionId),
    /// Tell those who hold it that it is on its way out.
    Drain(ConnectionId),
    /// Check the health of the backend, then tell [`Machine::handle_health_checked`].
    HealthCheck {
        /// Names the check.
        check: CheckId,
        /// The backend to check.
        backend: Arc<Backend>,
    },
    /// A connection came up: for whoever tracks them.
    Added(ConnectionId),
    /// A connection takes no more leases, because it ended or is about to: for whoever tracks them.
    Removed(ConnectionId),
}

/// What a waiter gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// A lease.
    Granted {
        /// Who.
        waiter: WaiterId,
        /// Of what.
        connection: ConnectionId,
    },
    /// None.
    Refused {
        /// Who.
        waiter: WaiterId,
        /// Why.
        refusal: Refusal,
    },
}

/// Why there is no lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Connecting to this backend failed as often as the policy allows.
    Unreachable(Arc<Backend>),
    /// Connecting failed to all of them.
    Failed {
        /// Backends that are dead.
        dead: usize,
        /// Backends that are known.
        known: usize,
    },
    /// It took too long.
    TimedOut {
        /// How long it had.
        after: Duration,
    },
    /// There is no such place, or no backend was named whose place it could be.
    NoSuchPlace {
        /// The place that was asked for.
        place: usize,
        /// How many there are; 0 when no backend was named.
        places: usize,
    },
    /// The set is closed.
    Closed,
}

/// Names a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(pub(super) u64);

/// What a timer is for. Entries that nobody needs any more are passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A waiter's time is over.
    Waiter(WaiterId),
    /// A place may dial again, in the stay it was set for.
    Backoff { backend: u32, serial: u64, place: u32, stay: u64 },
    /// A dial takes long: whoever takes any backend should not wait for this one alone.
    Doubt(ConnectionId),
    /// A dial has taken a second in an outage.
    Hanging(ConnectionId),
    /// The holders' time is over.
    Drain(ConnectionId),
    /// A backend's failures are old enough to be forgotten.
    Forget(u32),
    /// A backend that served badly is tried again.
    Ejection(u32),
}

/// The machine behind a set.
#[derive(Debug)]
pub struct Machine {
    options: Options,
    random: Random,
    state: State,
    backends: Backends<BackendPlaces>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// Backends with a connection that a lease of any backend may be of, in order of their classes.
    open: Vec<(Class, u32)>,
    loads: Loads,
    /// Connections of whatever kind.
    connected: usize,
    waiters: BTreeMap<WaiterId, Waiter>,
    /// Those who take any backend.
    any: BTreeSet<WaiterId>,
    next_waiter: u64,
    /// Counts the times that somebody began to wait for any backend: each gives every backend another chance.
    wave: u64,
    resolver_failed: bool,
    /// Backends that are dialled until enough are ready.
    expected: Vec<u32>,
    /// Every known backend is dead or unhealthy, and no connection works.
    outage: Option<Outage>,
    timers: Timers<Timer>,
    look_at: Option<Instant>,
    /// Something was found unused for long enough: it is released unless it is leased before the driver comes back.
    release_at: Option<Instant>,
    disturb_at: Option<Instant>,
    /// When an eager set last planned.
    planned_at: Option<Instant>,
    counters: Counters,
    actions: VecDeque<Action>,
    deliveries: VecDeque<Delivery>,
}

impl Machine {
    /// A set that knows nobody yet. The same seed gives the same run.
    ///
    /// # Errors
    /// When an option makes no sense.
    pub fn new(options: Options, seed: u64, now: Instant) -> Result<Machine, OptionsError> {
        options.validate()?;
        let disturb_at = options.eager.then(|| now + options.decoherence);
        Ok(Machine {
            random: Random::new(seed),
            state: State::Starting,
            backends: Backends::default(),
            entries: Vec::new(),
            free: Vec::new(),
            open: Vec::new(),
            loads: Loads::new(options.slow_start, now),
            connected: 0,
            waiters: BTreeMap::new(),
            any: BTreeSet::new(),
            next_waiter: 0,
            wave: 0,
            resolver_failed: false,
            expected: Vec::new(),
            outage: None,
            timers: Timers::new(),
            look_at: None,
            release_at: None,
            disturb_at,
            planned_at: None,
            counters: Counters::default(),
            actions: VecDeque::new(),
            deliveries: VecDeque::new(),
            options,
        })
    }

    /// Where it is.
    pub fn state(&self) -> State {
        self.state
    }

    /// What it was told.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What is to be done next; ask until there is nothing.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What a waiter gets; ask until there is nothing.
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }

    /// What has become of a known backend, for logs; nothing depends on it.
    pub fn poll_news(&mut self) -> Option<News> {
        self.backends.take_news()
    }

    /// Whether there is any.
    pub fn has_news(&self) -> bool {
        self.backends.has_news()
    }

    /// When [`handle_timeout`](Machine::handle_timeout) wants to be called, at the latest.
    pub fn next_timeout(&self) -> Option<Instant> {
        let failure = self.outage.and_then(|outage| outage.next_failure());
        let next_check = self.backends.next_check().filter(|_| !self.is_closed());
        let next_load = self.loads.next_change().filter(|_| !self.is_closed());
        let times =
            [self.timers.next(), failure, self.look_at, self.release_at, self.disturb_at, next_check, next_load];
        times.into_iter().flatten().min()
    }

    /// Time has passed: does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.loads.pass(now);
        // What a look found is released before the next look, so that a lease can come between the two.
        self.release_unused(now);
        self.look(now);
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Waiter(waiter) => self.time_out(now, waiter),
                Timer::Backoff { backend, serial, place, stay } => {
                    self.back_off_over(now, backend, serial, place, stay)
                }
                Timer::Doubt(connection) => self.doubt(now, connection),
                Timer::Hanging(connection) => {
                    self.dial_in_outage(now);
                    self.dial_beside(now, connection);
                }
                Timer::Drain(connection) => self.drain_over(now, connection),
                Timer::Forget(backend) => self.forget_if_unused(now, backend),
                Timer::Ejection(_) => self.end_ejections(now),
            }
        }
        self.fail_waiting(now);
        self.dial_until_ready(now);
        self.disturb(now);
        self.start_health_checks(now);
    }

    /// No new leases. Waiters are refused, unused connections end, and the others when their holders let go.
    pub fn close(&mut self, now: Instant) {
        if matches!(self.state, State::Stopping | State::Stopped) {
            return;
        }
        self.state = State::Stopping;
        (self.disturb_at, self.look_at, self.release_at, self.outage) = (None, None, None, None);
        for waiter in std::mem::take(&mut self.waiters).into_keys() {
            self.tell_refused(waiter, Refusal::Closed);
        }
        self.any.clear();
        self.backends.forget_order();
        for id in self.backends.all().map(|(id, _)| id).collect::<Vec<_>>() {
            self.record(id).places.iter_mut().for_each(|place| place.waiters.clear());
            self.give_up(now, id, None);
        }
        self.stop_when_empty();
    }

    /// Ends what is left, held or not: nobody waits for it any longer.
    pub fn abandon(&mut self, now: Instant) {
        self.close(now);
        for connection in self.up().collect::<Vec<_>>() {
            self.shut(now, connection);
        }
    }

    fn stop_when_empty(&mut self) {
        if self.state == State::Stopping && self.connected == 0 {
            self.state = State::Stopped;
        }
    }

    fn set_timer(&mut self, at: Instant, timer: Timer) {
        let records = self.backends.len();
        let alive = self.waiters.len() + self.entries.len() + (2 + self.options.per_backend) * records;
        let Machine { timers, waiters, entries, backends, .. } = self;
        timers.set(at, timer, alive, |timer| match timer {
            Timer::Waiter(waiter) => waiters.contains_key(&waiter),
            Timer::Backoff { backend, serial, place, stay } => backends
                .lookup(backend)
                .filter(|record| record.serial == serial)
                .and_then(|record| record.places.get(place as usize))
                .is_some_and(|p| p.stay == stay),
            Timer::Forget(backend) => backends.lookup(backend).is_some(),
            Timer::Ejection(backend) => {
                backends.lookup(backend).is_some_and(|record| record.uses.ejected_until().is_some())
            }
            Timer::Doubt(connection) | Timer::Hanging(connection) | Timer::Drain(connection) => {
                entries.get(connection.index as usize).is_some_and(|entry| entry.epoch == connection.epoch)
            }
        });
    }

    fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        match self.entries.get(id.index as usize) {
            Some(Entry { epoch, what: places::What::Connection(connection) }) if *epoch == id.epoch => Some(connection),
            Some(_) | None => None,
        }
    }

    fn connection_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        match self.entries.get_mut(id.index as usize) {
            Some(Entry { epoch, what: places::What::Connection(connection) }) if *epoch == id.epoch => Some(connection),
            Some(_) | None => None,
        }
    }

    /// Every connection there is.
    fn up(&self) -> impl Iterator<Item = ConnectionId> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| match entry.what {
            places::What::Connection(_) => Some(ConnectionId { epoch: entry.epoch, index: index as u32 }),
            places::What::Nothing | places::What::Dial { .. } => None,
        })
    }
}
