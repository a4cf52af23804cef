//! Integration tests of the handles: real sockets, or in-memory peers with paused time.

use carom::{Connect, Liveness};

mod agent;
mod agent_bodies;
mod agent_cancellation;
mod agent_dns;
mod agent_driving;
mod agent_ejection;
mod agent_errors;
mod agent_http2;
mod agent_http2_nodes;
mod agent_negotiation;
mod agent_origins;
mod agent_ping;
mod agent_scenarios;
mod agent_stale;
mod agent_stalled;
mod agent_tls;
mod agent_tower;
mod agent_trouble;
mod agent_upgrade;
mod builder_intervals;
mod dns_answers;
mod dns_fuzz;
mod dns_pool;
mod dns_system;
mod feed_bus;
mod feed_end;
mod feed_milestones;
mod feed_packing;
mod feed_recovery;
mod feed_subscriptions;
mod feed_threads;
mod health_checks;
mod log_backends;
mod log_requests;
mod managers_bb8;
mod managers_deadpool;
mod managers_kin;
mod monitor_agent;
mod monitor_feed;
mod monitor_kang;
mod monitor_pool;
mod monitor_resolver;
mod monitor_set;
mod monitor_window;
mod pool_allocation;
mod pool_cancellation;
mod pool_claims;
mod pool_end;
mod pool_errors;
mod pool_health;
mod pool_outliers;
mod pool_overload;
mod pool_recorder;
mod pool_suspects;
mod raw_http2;
mod ready;
mod resolver_handle;
mod resolver_remembered;
mod set_allocation;
mod set_cancellation;
mod set_end;
mod set_errors;
mod set_idle;
mod set_leases;
mod set_notices;
mod tcp_connector;
mod tls_connector;
mod tracing_warnings;
mod window_answers;
mod window_cancellation;
mod window_end;
mod window_sockets;

/// Waits for the end of a connection that can be watched.
fn watch<C: Connect>(connector: &C, connection: &C::Connection) -> impl Future<Output = Liveness> + Send + 'static {
    connector.closed(connection).expect("it can be watched")
}
