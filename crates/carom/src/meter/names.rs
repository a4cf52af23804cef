//! What is measured: OpenTelemetry's names where it has one, our own elsewhere, each with its unit and what it means.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Labels of everything about pools.
pub(super) const POOL: &str = "db.client.connection.pool.name";
pub(super) const STATE: &str = "db.client.connection.state";
pub(super) const BACKEND: &str = "carom.backend";
/// Labels of everything about the others.
pub(super) const SET: &str = "carom.set.name";
pub(super) const WINDOW: &str = "carom.window.name";
pub(super) const RESOLVER: &str = "carom.resolver.name";
pub(super) const FEED: &str = "carom.feed.name";
pub(super) const GATEWAY: &str = "carom.gateway.name";
pub(super) const CONNECTION_STATE: &str = "state";
pub(super) const WHAT: &str = "what";

/// Tells the recorder what everything means. Saying it again does no harm.
pub(super) fn describe() {
    for (name, unit, help) in GAUGES {
        describe_gauge!(*name, *unit, *help);
    }
    for (name, unit, help) in COUNTERS {
        describe_counter!(*name, *unit, *help);
    }
    for (name, unit, help) in HISTOGRAMS {
        describe_histogram!(*name, *unit, *help);
    }
}

macro_rules! names {
    ($all:ident: $($constant:ident = $name:literal, $unit:ident, $help:literal;)*) => {
        $(pub(super) const $constant: &str = $name;)*
        const $all: &[(&str, Unit, &str)] = &[$(($name, Unit::$unit, $help)),*];
    };
}

names! { HISTOGRAMS:
    CREATE_TIME = "db.client.connection.create_time", Seconds, "How long connections took to make.";
    WAIT_TIME = "db.client.connection.wait_time", Seconds, "How long claims waited that were served.";
    USE_TIME = "db.client.connection.use_time", Seconds, "How long connections were lent.";
}

names! { GAUGES:
    COUNT = "db.client.connection.count", Count, "Connections of a pool by state, and places that are to be connections.";
    MAX = "db.client.connection.max", Count, "Most connections that a pool may have.";
    IDLE_MIN = "db.client.connection.idle.min", Count, "Spare connections that a pool keeps.";
    PENDING_REQUESTS = "db.client.connection.pending_requests", Count, "Claims in line.";
    BACKEND_KNOWN = "carom.backend.known", Count, "Backends of a pool.";
    BACKEND_DEAD = "carom.backend.dead", Count, "Backends of a pool whose attempts ran out.";
    BACKEND_EJECTED = "carom.backend.ejected", Count, "Backends of a pool that are left out for having failed their users.";
    BACKEND_UNHEALTHY = "carom.backend.unhealthy", Count, "Backends of a pool whose active health checks fail.";
    BACKEND_STALLED = "carom.backend.stalled", Count, "Whether a backend of a pool stopped responding while others respond.";
    BACKEND_FAILING = "carom.backend.failing", Count, "Whether the last connect to a backend of a pool failed or hangs, and no connection works.";
    BACKEND_UNRELIABLE = "carom.backend.unreliable", Count, "Whether more than one use of a backend of a pool failed lately: it gets one use a second while others serve.";
    BACKEND_SLOW_START = "carom.backend.slow_start", Count, "Whether the share of a backend of a pool still grows: it is new, or is back.";
    BACKEND_HELD_OFF = "carom.backend.held_off", Count, "Whether a backend of a pool closed an unused connection lately, and gets connections for waiting claims only.";
    POOL_PANIC = "carom.pool.panic", Count, "Whether so few backends of a pool are healthy that ejected and unhealthy ones are used as well.";
    POOL_FAILED = "carom.pool.failed", Count, "Whether all backends of a pool are dead.";
    POOL_TARGET = "carom.pool.target", Count, "Slots that the present load of a pool asks for.";
    POOL_LONGEST_WAIT = "carom.pool.longest_wait", Seconds, "How long the claim that has waited longest has.";
    SET_CONNECTIONS = "carom.set.connections", Count, "Connections of a set by state.";
    SET_HELD = "carom.set.held", Count, "Leases that are out.";
    SET_WAITING = "carom.set.waiting", Count, "Leases that are waited for.";
    SET_DIALLING = "carom.set.dialling", Count, "Dials of a set that are under way or wait for their turn.";
    SET_KNOWN = "carom.set.backends", Count, "Backends of a set.";
    SET_DEAD = "carom.set.dead", Count, "Backends of a set whose attempts ran out.";
    SET_EJECTED = "carom.set.ejected", Count, "Backends of a set that are left out for having served badly.";
    SET_UNHEALTHY = "carom.set.unhealthy", Count, "Backends of a set whose active health checks fail.";
    SET_STALLED = "carom.set.stalled", Count, "Whether a backend of a set stopped responding while others respond.";
    SET_UNRELIABLE = "carom.set.unreliable", Count, "Whether more than one use of a backend of a set failed lately: others get the leases while there are others.";
    SET_SLOW_START = "carom.set.slow_start", Count, "Whether the share of a backend of a set still grows: it is new, or is back.";
    SET_FAILING = "carom.set.failing", Count, "Whether the last connect to a backend of a set failed or hangs, and no connection works.";
    SET_PANIC = "carom.set.panic", Count, "Whether so few backends of a set are healthy that ejected and unhealthy ones are used as well.";
    SET_FAILED = "carom.set.failed", Count, "Whether all backends of a set are dead.";
    WINDOW_NODES = "carom.window.nodes", Count, "Nodes that requests go to.";
    WINDOW_UNRESPONSIVE = "carom.window.unresponsive", Count, "Nodes that did not respond lately and are asked last.";
    WINDOW_UNHEALTHY = "carom.window.unhealthy", Count, "Nodes whose active health checks fail and that are asked last.";
    WINDOW_OPEN = "carom.window.open", Count, "Windows there are.";
    WINDOW_SOCKETS = "carom.window.sockets", Count, "Sockets of windows there are.";
    WINDOW_ASKING = "carom.window.asking", Count, "Requests under way.";
    WINDOW_IN_LINE = "carom.window.in_line", Count, "Requests that wait for a window.";
    RESOLVER_BACKENDS = "carom.resolver.backends", Count, "Backends that a resolver knows.";
    RESOLVER_STALE = "carom.resolver.stale", Seconds, "For how long what a resolver knows may have been out of date.";
    RESOLVER_FAILING = "carom.resolver.failing", Count, "Whether a resolver has had trouble since it last succeeded.";
    FEED_TOPICS = "carom.feed.topics", Count, "Topics that are at home on a connection of a feed.";
    FEED_LIVE = "carom.feed.live", Count, "Topics of a feed that are carried as they are wanted.";
    FEED_WAITING = "carom.feed.waiting", Count, "Callers who wait to hear of a topic.";
    FEED_CAPACITY = "carom.feed.capacity", Count, "Most topics that a feed can carry.";
    FEED_CONNECTIONS = "carom.feed.connections", Count, "Connections of a feed by state.";
    GATEWAY_CLIENTS = "carom.gateway.clients", Count, "Clients of a gateway.";
    GATEWAY_AUTHENTICATED = "carom.gateway.authenticated", Count, "Clients of a gateway that have said who they are.";
    GATEWAY_SUBSCRIPTIONS = "carom.gateway.subscriptions", Count, "Subscriptions of a gateway's clients.";
    GATEWAY_OWNS = "carom.gateway.owns", Count, "Whether a gateway has the connections of a feed that several gateways share.";
    GATEWAY_NATS_CONNECTED = "carom.gateway.nats_connected", Count, "Whether a gateway can reach NATS.";
    GATEWAY_LAST_TICK = "carom.gateway.last_tick", Seconds, "How long ago the last tick of a gateway's feed came.";
    GATEWAY_BUS_PEERS = "carom.gateway.bus_peers", Count, "Programs that are connected to a gateway's buses.";
}

names! { COUNTERS:
    TIMEOUTS = "db.client.connection.timeouts", Count, "Claims that timed out.";
    POOL_CLAIMS = "carom.pool.claims", Count, "Claims that were served.";
    POOL_WAITED = "carom.pool.waited", Count, "Claims that were served and had to wait.";
    POOL_REFUSED = "carom.pool.refused", Count, "Claims that were refused for another reason than time.";
    POOL_GIVEN_UP = "carom.pool.given_up", Count, "Claims whose callers stopped waiting.";
    POOL_CONNECTS = "carom.pool.connects", Count, "Attempts of a pool to connect.";
    POOL_CONNECT_FAILURES = "carom.pool.connect_failures", Count, "Attempts of a pool to connect that failed.";
    POOL_PLANS = "carom.pool.plans", Count, "Plans that a pool made.";
    POOL_CHECKS = "carom.pool.checks", Count, "Checks and recycles of a pool's connections.";
    POOL_CHECK_FAILURES = "carom.pool.check_failures", Count, "Checks and recycles of a pool's connections that failed.";
    POOL_HEALTH_CHECKS = "carom.pool.health_checks", Count, "Active health checks of a pool's backends.";
    POOL_HEALTH_CHECK_FAILURES = "carom.pool.health_check_failures", Count, "Active health checks of a pool's backends that failed.";
    POOL_OVERDUE = "carom.pool.overdue", Count, "Claims that were held longer than they should be.";
    SET_LEASES = "carom.set.leases", Count, "Leases that were given.";
    SET_WAITED = "carom.set.waited", Count, "Leases that were given and had to wait.";
    SET_TIMEOUTS = "carom.set.timeouts", Count, "Leases that timed out.";
    SET_REFUSED = "carom.set.refused", Count, "Leases that were refused for another reason than time.";
    SET_GIVEN_UP = "carom.set.given_up", Count, "Leases whose callers stopped waiting.";
    SET_CONNECTS = "carom.set.connects", Count, "Dials of a set.";
    SET_CONNECT_FAILURES = "carom.set.connect_failures", Count, "Dials of a set that failed.";
    SET_HEALTH_CHECKS = "carom.set.health_checks", Count, "Active health checks of a set's backends.";
    SET_HEALTH_CHECK_FAILURES = "carom.set.health_check_failures", Count, "Active health checks of a set's backends that failed.";
    SET_RELEASED = "carom.set.released", Count, "Connections of a set that were released because nobody used them.";
    WINDOW_REQUESTS = "carom.window.requests", Count, "Requests that have begun.";
    WINDOW_ANSWERED = "carom.window.answered", Count, "Requests that ended as was asked for.";
    WINDOW_FAILED = "carom.window.failed", Count, "Requests that failed.";
    WINDOW_OPENED = "carom.window.opened", Count, "Windows that were opened.";
    WINDOW_SOCKETS_OPENED = "carom.window.sockets_opened", Count, "Sockets of windows that were opened.";
    RESOLVER_ASKED = "carom.resolver.asked", Count, "Questions that DNS was asked.";
    RESOLVER_ANSWERED = "carom.resolver.answered", Count, "Questions that DNS answered.";
    RESOLVER_FAILURES = "carom.resolver.failures", Count, "Questions that DNS did not answer well.";
    RESOLVER_PUBLISHED = "carom.resolver.published", Count, "Sets of backends that a resolver published.";
    FEED_TICKS = "carom.feed.ticks", Count, "Ticks of a feed that counted.";
    FEED_CONNECTS = "carom.feed.connects", Count, "Attempts of a feed to open a connection.";
    FEED_CONNECT_FAILURES = "carom.feed.connect_failures", Count, "Attempts of a feed to open a connection that failed.";
    FEED_LOST = "carom.feed.lost", Count, "Connections of a feed that were up and died.";
    FEED_PASSED_OVER = "carom.feed.passed_over", Count, "What the upstream of a feed said that became no tick, by what it was.";
    GATEWAY_TICKS = "carom.gateway.ticks", Count, "Ticks that came to a gateway, conflated ones included.";
    GATEWAY_FEED_TICKS = "carom.gateway.feed_ticks", Count, "Ticks that came over the bus of a gateway's feed, conflated ones included.";
    GATEWAY_DELIVERED = "carom.gateway.delivered", Count, "Messages that a gateway sent to clients.";
    GATEWAY_CONFLATED = "carom.gateway.conflated", Count, "Ticks that gave their place to newer ones: on the way to a gateway, by its throttle, and in line for each client.";
    GATEWAY_LOST = "carom.gateway.lost", Count, "Ticks that were lost because too many waited.";
    GATEWAY_MALFORMED = "carom.gateway.malformed", Count, "Messages of a bus that made no sense.";
    GATEWAY_BUS_DROPPED = "carom.gateway.bus_dropped", Count, "Messages that other programs on a gateway's buses were too slow for.";
    GATEWAY_REFUSED = "carom.gateway.refused", Count, "Connections that a gateway turned away by a limit.";
    GATEWAY_SLOW_CLOSED = "carom.gateway.slow_closed", Count, "Clients that were closed because they did not read.";
    GATEWAY_WRONG_KEYS = "carom.gateway.wrong_keys", Count, "Keys that were nobody's.";
}
