//! Integration tests of the handles: real sockets, or in-memory peers with paused time.

#[cfg(feature = "http")]
mod agent;
#[cfg(feature = "http")]
mod agent_bodies;
#[cfg(feature = "http")]
mod agent_cancellation;
#[cfg(feature = "http")]
mod agent_dns;
#[cfg(feature = "http")]
mod agent_driving;
#[cfg(feature = "http")]
mod agent_ejection;
#[cfg(feature = "http")]
mod agent_errors;
#[cfg(feature = "http")]
mod agent_http2;
#[cfg(feature = "http")]
mod agent_http2_nodes;
#[cfg(feature = "http")]
mod agent_negotiation;
#[cfg(feature = "http")]
mod agent_origins;
#[cfg(feature = "http")]
mod agent_ping;
#[cfg(feature = "http")]
mod agent_scenarios;
#[cfg(feature = "http")]
mod agent_stale;
#[cfg(feature = "http")]
mod agent_tls;
#[cfg(feature = "http")]
mod agent_tower;
#[cfg(feature = "http")]
mod agent_trouble;
#[cfg(feature = "http")]
mod agent_upgrade;
#[cfg(feature = "http")]
mod builder_intervals;
#[cfg(feature = "dns")]
mod dns_answers;
#[cfg(feature = "dns")]
mod dns_fuzz;
#[cfg(feature = "dns")]
mod dns_pool;
#[cfg(feature = "dns")]
mod dns_system;
mod feed_bus;
mod feed_end;
mod feed_milestones;
mod feed_packing;
mod feed_recovery;
mod feed_subscriptions;
mod feed_threads;
mod log_backends;
#[cfg(feature = "http")]
mod log_requests;
#[cfg(feature = "bb8")]
mod managers_bb8;
#[cfg(feature = "deadpool")]
mod managers_deadpool;
#[cfg(all(feature = "bb8", feature = "deadpool"))]
mod managers_kin;
#[cfg(feature = "http")]
mod monitor_agent;
mod monitor_feed;
#[cfg(all(feature = "dns", feature = "kang"))]
mod monitor_kang;
mod monitor_pool;
#[cfg(feature = "dns")]
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
#[cfg(feature = "metrics")]
mod pool_recorder;
#[cfg(feature = "http")]
mod raw_http2;
#[cfg(feature = "dns")]
mod resolver_handle;
#[cfg(feature = "dns")]
mod resolver_remembered;
mod set_allocation;
mod set_cancellation;
mod set_end;
mod set_errors;
mod set_idle;
mod set_leases;
mod set_notices;
mod tcp_connector;
#[cfg(feature = "tls")]
mod tls_connector;
mod tracing_warnings;
mod window_answers;
mod window_cancellation;
mod window_end;
mod window_sockets;
