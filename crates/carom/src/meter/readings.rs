//! Readings: what a snapshot says, as gauges and counters.

use super::bounded::Few;
use super::names;
use super::{MOST_BACKENDS, MOST_NAMES, label_of};
use crate::monitor::{
    Backend, BackendFlags, BackendState, Feed, FeedConnectionState, Gateway, Id, Object, Phase, Pool, Resolver, Seen,
    Set, Snapshot, State, Window,
};
use metrics::{Key, Label};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

/// Everything that a snapshot says.
#[derive(Default)]
pub(super) struct Readings {
    /// Of objects that share a label, what they have in all.
    pub(super) gauges: HashMap<Key, f64>,
    /// Of each object by name, since it was there; and the labels that it goes by at present.
    pub(super) counters: HashMap<Counted, (Key, u64)>,
}

impl Readings {
    pub(super) fn of(snapshot: &Snapshot) -> Readings {
        let mut readings = Readings::default();
        let mut few = Few::default();
        for Seen { id, name, object } in &snapshot.objects {
            let scope = match object {
                Object::Pool(_) => names::POOL,
                Object::Set(_) => names::SET,
                Object::Resolver(_) => names::RESOLVER,
                Object::Window(_) => names::WINDOW,
                Object::Feed(_) => names::FEED,
                Object::Gateway(_) => names::GATEWAY,
            };
            let name = few.label(scope, MOST_NAMES, name);
            let mut reader = Reader { id: *id, own: Label::new(scope, name), few: &mut few, readings: &mut readings };
            match object {
                Object::Pool(pool) => reader.pool(pool),
                Object::Set(set) => reader.set(set),
                Object::Resolver(resolver) => reader.resolver(resolver),
                Object::Window(window) => reader.window(window),
                Object::Feed(feed) => reader.feed(feed),
                Object::Gateway(gateway) => reader.gateway(gateway),
            }
        }
        readings
    }
}

/// What is counted, whatever its object is called: of which object, by name, and of several of one name, which.
pub(super) type Counted = (Id, &'static str, String);

/// Reads one object.
struct Reader<'a> {
    id: Id,
    /// The label that names it.
    own: Label,
    few: &'a mut Few,
    readings: &'a mut Readings,
}

impl Reader<'_> {
    fn pool(&mut self, pool: &Pool) {
        let is_closed = is_closed(pool.state);
        for seen in &pool.backends {
            let backend = self.backend(&seen.backend);
            // Those that matter most are there even when there are none, so that a line does not begin in the middle of nowhere.
            let mut states = BTreeMap::from([("used", 0), ("idle", 0)]);
            for slot in &seen.slots {
                *states.entry(state_of(slot.phase)).or_default() += 1;
            }
            for (state, count) in states {
                self.gauge_of(names::COUNT, &[backend.clone(), Label::new(names::STATE, state)], count);
            }
            self.counter_of(names::POOL_HEALTH_CHECKS, backend.clone(), checks(&seen.flags));
            self.counter_of(names::POOL_HEALTH_CHECK_FAILURES, backend.clone(), seen.flags.checks_failed);
            if is_closed {
                continue;
            }
            self.gauge_of(names::BACKEND_STALLED, std::slice::from_ref(&backend), seen.flags.stalled.into());
            self.gauge_of(names::BACKEND_UNRELIABLE, std::slice::from_ref(&backend), seen.flags.unreliable.into());
            self.gauge_of(names::BACKEND_SLOW_START, std::slice::from_ref(&backend), seen.flags.slow_start.into());
            let held_off = seen.flags.held_off_ms.is_some();
            self.gauge_of(names::BACKEND_HELD_OFF, std::slice::from_ref(&backend), held_off.into());
            self.gauge_of(names::BACKEND_FAILING, &[backend], seen.flags.failing.into());
        }
        self.gauge(names::PENDING_REQUESTS, pool.waiting);
        if !is_closed {
            let of_state = |state| pool.backends.iter().filter(|seen| seen.state == state).count();
            self.gauge(names::MAX, pool.options.maximum);
            self.gauge(names::IDLE_MIN, pool.options.spares);
            self.gauge(names::BACKEND_KNOWN, pool.backends.len() - of_state(BackendState::Removed));
            self.gauge(names::BACKEND_DEAD, pool.dead);
            self.gauge(names::BACKEND_EJECTED, of_state(BackendState::Ejected));
            self.gauge(names::BACKEND_UNHEALTHY, of_state(BackendState::Unhealthy));
            self.gauge(names::POOL_PANIC, pool.panic.into());
            self.gauge(names::POOL_FAILED, usize::from(pool.state == State::Failed));
            self.gauge(names::POOL_TARGET, pool.target);
        }
        self.longest(names::POOL_LONGEST_WAIT, pool.longest_wait_ms);
        let counters = &pool.counters;
        self.counter(names::TIMEOUTS, counters.timeouts);
        self.counter(names::POOL_CLAIMS, counters.claims);
        self.counter(names::POOL_WAITED, counters.waited);
        self.counter(names::POOL_REFUSED, counters.refused);
        self.counter(names::POOL_GIVEN_UP, counters.given_up);
        self.counter(names::POOL_CONNECTS, counters.connects);
        self.counter(names::POOL_CONNECT_FAILURES, counters.connect_failures);
        self.counter(names::POOL_PLANS, counters.plans);
        self.counter(names::POOL_CHECKS, counters.checks);
        self.counter(names::POOL_CHECK_FAILURES, counters.check_failures);
        self.counter(names::POOL_OVERDUE, counters.overdue);
    }

    fn set(&mut self, set: &Set) {
        let is_closed = is_closed(set.state);
        for seen in &set.backends {
            let backend = self.backend(&seen.backend);
            let used = seen.connections.iter().filter(|connection| connection.leases > 0).count();
            for (state, count) in [("used", used), ("idle", seen.connections.len() - used)] {
                let state = Label::new(names::CONNECTION_STATE, state);
                self.gauge_of(names::SET_CONNECTIONS, &[backend.clone(), state], count);
            }
            self.counter_of(names::SET_HEALTH_CHECKS, backend.clone(), checks(&seen.flags));
            self.counter_of(names::SET_HEALTH_CHECK_FAILURES, backend.clone(), seen.flags.checks_failed);
            if is_closed {
                continue;
            }
            self.gauge_of(names::SET_STALLED, std::slice::from_ref(&backend), seen.flags.stalled.into());
            self.gauge_of(names::SET_UNRELIABLE, std::slice::from_ref(&backend), seen.flags.unreliable.into());
            self.gauge_of(names::SET_SLOW_START, std::slice::from_ref(&backend), seen.flags.slow_start.into());
            self.gauge_of(names::SET_FAILING, &[backend], seen.flags.failing.into());
        }
        self.gauge(names::SET_HELD, set.leases);
        self.gauge(names::SET_WAITING, set.waiting);
        self.gauge(names::SET_DIALLING, set.dialling);
        if !is_closed {
            let of_state = |state| set.backends.iter().filter(|seen| seen.state == state).count();
            self.gauge(names::SET_KNOWN, set.backends.len() - of_state(BackendState::Removed));
            self.gauge(names::SET_DEAD, set.dead);
            self.gauge(names::SET_EJECTED, of_state(BackendState::Ejected));
            self.gauge(names::SET_UNHEALTHY, of_state(BackendState::Unhealthy));
            self.gauge(names::SET_PANIC, set.panic.into());
            self.gauge(names::SET_FAILED, usize::from(set.state == State::Failed));
        }
        let counters = &set.counters;
        self.counter(names::SET_LEASES, counters.leases);
        self.counter(names::SET_WAITED, counters.waited);
        self.counter(names::SET_TIMEOUTS, counters.timeouts);
        self.counter(names::SET_REFUSED, counters.refused);
        self.counter(names::SET_GIVEN_UP, counters.given_up);
        self.counter(names::SET_CONNECTS, counters.connects);
        self.counter(names::SET_CONNECT_FAILURES, counters.connect_failures);
        self.counter(names::SET_RELEASED, counters.released);
    }

    fn resolver(&mut self, resolver: &Resolver) {
        if !is_closed(resolver.state) {
            self.gauge(names::RESOLVER_BACKENDS, resolver.backends.len());
            self.longest(names::RESOLVER_STALE, resolver.stale_ms);
            self.gauge(names::RESOLVER_FAILING, usize::from(resolver.error.is_some()));
        }
        let Some(counters) = resolver.dns.as_ref().map(|dns| dns.counters) else { return };
        self.counter(names::RESOLVER_ASKED, counters.asked);
        self.counter(names::RESOLVER_ANSWERED, counters.answered);
        self.counter(names::RESOLVER_FAILURES, counters.failed);
        self.counter(names::RESOLVER_PUBLISHED, counters.published);
    }

    fn window(&mut self, window: &Window) {
        self.gauge(names::WINDOW_NODES, window.nodes.len());
        self.gauge(names::WINDOW_UNRESPONSIVE, window.unresponsive.len());
        self.gauge(names::WINDOW_UNHEALTHY, window.unhealthy.len());
        self.gauge(names::WINDOW_OPEN, window.windows.len());
        self.gauge(names::WINDOW_SOCKETS, window.windows.iter().map(|open| open.sockets.len()).sum());
        self.gauge(names::WINDOW_ASKING, window.asking);
        self.gauge(names::WINDOW_IN_LINE, window.in_line);
        let counters = &window.counters;
        self.counter(names::WINDOW_REQUESTS, counters.requests);
        self.counter(names::WINDOW_ANSWERED, counters.answered);
        self.counter(names::WINDOW_FAILED, counters.failed);
        self.counter(names::WINDOW_OPENED, counters.windows);
        self.counter(names::WINDOW_SOCKETS_OPENED, counters.sockets);
    }

    fn feed(&mut self, feed: &Feed) {
        self.gauge(names::FEED_TOPICS, feed.topics);
        self.gauge(names::FEED_LIVE, feed.live);
        self.gauge(names::FEED_WAITING, feed.waiting);
        for (what, count) in &feed.passed_over {
            let what = self.few.label(names::WHAT, MOST_NAMES, what);
            self.counter_of(names::FEED_PASSED_OVER, Label::new(names::WHAT, what), *count);
        }
        // Its ticks are the gateway's, and there is no limit and no connection.
        if feed.outside {
            return;
        }
        self.gauge(names::FEED_CAPACITY, feed.capacity);
        let states = [
            ("opening", FeedConnectionState::Opening),
            ("up", FeedConnectionState::Up),
            ("waiting", FeedConnectionState::Waiting),
            ("closing", FeedConnectionState::Closing),
        ];
        for (name, state) in states {
            let count = feed.connections.iter().filter(|connection| connection.state == state).count();
            self.gauge_of(names::FEED_CONNECTIONS, &[Label::new(names::CONNECTION_STATE, name)], count);
        }
        let counters = &feed.counters;
        self.counter(names::FEED_TICKS, counters.ticks);
        self.counter(names::FEED_CONNECTS, counters.connects);
        self.counter(names::FEED_CONNECT_FAILURES, counters.connect_failures);
        self.counter(names::FEED_LOST, counters.lost);
    }

    fn gateway(&mut self, gateway: &Gateway) {
        self.gauge(names::GATEWAY_CLIENTS, gateway.clients);
        self.gauge(names::GATEWAY_AUTHENTICATED, gateway.authenticated);
        self.gauge(names::GATEWAY_SUBSCRIPTIONS, gateway.subscriptions);
        self.counter(names::GATEWAY_TICKS, gateway.ticks);
        self.counter(names::GATEWAY_DELIVERED, gateway.delivered);
        self.counter(names::GATEWAY_CONFLATED, gateway.conflated);
        self.counter(names::GATEWAY_LOST, gateway.lost);
        self.counter(names::GATEWAY_MALFORMED, gateway.malformed);
        for feed in &gateway.feeds {
            let name = self.few.label(names::FEED, MOST_NAMES, &format!("{}/{}", feed.broker, feed.user));
            let label = Label::new(names::FEED, name);
            if let Some(ms) = feed.last_tick_ms {
                self.seconds_of(names::GATEWAY_LAST_TICK, std::slice::from_ref(&label), ms);
            }
            if let Some(share) = &feed.share {
                self.gauge_of(names::GATEWAY_OWNS, std::slice::from_ref(&label), share.owns.into());
            }
            self.counter_of(names::GATEWAY_FEED_TICKS, label, feed.ticks);
        }
        let buses = gateway.feeds.iter().filter_map(|feed| feed.bus.as_ref());
        let mut nats = buses.clone().filter(|bus| bus.kind == "nats").peekable();
        if nats.peek().is_some() {
            self.gauge(names::GATEWAY_NATS_CONNECTED, nats.all(|bus| bus.peers > 0).into());
        }
        self.gauge(names::GATEWAY_BUS_PEERS, buses.clone().map(|bus| bus.peers).sum());
        self.counter(names::GATEWAY_BUS_DROPPED, buses.map(|bus| bus.dropped).sum());
        self.counter(names::GATEWAY_REFUSED, gateway.refused);
        self.counter(names::GATEWAY_SLOW_CLOSED, gateway.slow_closed);
        self.counter(names::GATEWAY_WRONG_KEYS, gateway.wrong_keys);
    }

    /// The label of a backend; there are so many of each name.
    fn backend(&mut self, backend: &Backend) -> Label {
        let address = backend.address.parse::<IpAddr>().map(|ip| label_of(SocketAddr::new(ip, backend.port)));
        let address = address.unwrap_or_else(|_| format!("{}:{}", backend.address, backend.port));
        let scope = format!("{}={}", self.own.key(), self.own.value());
        Label::new(names::BACKEND, self.few.label(&scope, MOST_BACKENDS, &address))
    }

    fn gauge(&mut self, name: &'static str, count: usize) {
        self.gauge_of(name, &[], count);
    }

    #[allow(clippy::cast_precision_loss, reason = "nobody has so many")]
    fn gauge_of(&mut self, name: &'static str, labels: &[Label], count: usize) {
        *self.readings.gauges.entry(self.key(name, labels)).or_default() += count as f64;
    }

    fn longest(&mut self, name: &'static str, ms: Option<u64>) {
        self.seconds_of(name, &[], ms.unwrap_or(0));
    }

    /// Of several, the longest.
    #[allow(clippy::cast_precision_loss, reason = "nobody waits for so long")]
    fn seconds_of(&mut self, name: &'static str, labels: &[Label], ms: u64) {
        let seconds = ms as f64 / 1000.0;
        let reading = self.readings.gauges.entry(self.key(name, labels)).or_default();
        *reading = reading.max(seconds);
    }

    fn counter(&mut self, name: &'static str, count: u64) {
        let key = self.key(name, &[]);
        self.readings.counters.insert((self.id, name, String::new()), (key, count));
    }

    /// One of several of this name, which this label tells apart.
    fn counter_of(&mut self, name: &'static str, label: Label, count: u64) {
        let key = self.key(name, std::slice::from_ref(&label));
        let counter = self.readings.counters.entry((self.id, name, label.value().to_owned()));
        counter.or_insert((key, 0)).1 += count;
    }

    fn key(&self, name: &'static str, labels: &[Label]) -> Key {
        let labels: Vec<Label> = std::iter::once(&self.own).chain(labels).cloned().collect();
        Key::from_parts(name, labels)
    }
}

/// What a closed object knew of its backends is of no use, and another may have its name. Connections in use are still counted.
fn is_closed(state: State) -> bool {
    matches!(state, State::Stopping | State::Stopped)
}

/// Active health checks that have ended.
fn checks(flags: &BackendFlags) -> u64 {
    flags.checks_passed + flags.checks_failed
}

/// OpenTelemetry knows used and idle ones; the rest are on their way to or from that.
fn state_of(phase: Phase) -> &'static str {
    match phase {
        Phase::Busy => "used",
        Phase::Idle => "idle",
        Phase::Held => "held",
        Phase::Connecting => "connecting",
        Phase::Backoff => "backoff",
        Phase::Checking => "checking",
        Phase::Closing => "closing",
    }
}
