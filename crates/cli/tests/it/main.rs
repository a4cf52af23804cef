//! Integration tests of the program: each runs it as a process.

mod admin;
#[cfg(unix)]
mod admin_events;
#[cfg(unix)]
mod admin_odd;
#[cfg(unix)]
mod admin_paths;
#[cfg(unix)]
mod admin_secrets;
#[cfg(unix)]
mod admin_security;
mod brokers;
#[cfg(unix)]
mod check_config;
mod documents;
#[cfg(unix)]
mod gateway_broker_config;
#[cfg(unix)]
mod gateway_bus_config;
#[cfg(unix)]
mod gateway_config;
#[cfg(unix)]
mod gateway_delta;
#[cfg(unix)]
mod gateway_kite;
#[cfg(unix)]
mod gateway_secrets;
#[cfg(unix)]
mod gateway_serves;
#[cfg(unix)]
mod gateway_upstream;
#[cfg(unix)]
mod gateway_zeromq;
mod get_answers;
mod get_errors;
#[cfg(unix)]
mod get_terminal;
mod get_tls;
mod key_new;
mod ledger_answers;
mod ledger_cache;
mod ledger_errors;
#[cfg(unix)]
mod ledger_terminal;
mod load_counts;
#[cfg(unix)]
mod load_terminal;
mod peer;
mod pool;
mod program;
mod proxy_http_messages;
mod proxy_http_nodes;
mod proxy_http_refusals;
mod proxy_http_streams;
mod proxy_tcp_sessions;
mod proxy_tls;
mod proxying;
mod resolve_errors;
#[cfg(unix)]
mod resolve_follow;
mod resolve_once;
mod serving;
mod terminal;
mod top;
#[cfg(unix)]
mod top_once;
#[cfg(unix)]
mod top_terminal;
mod up;
#[cfg(unix)]
mod up_config;
#[cfg(unix)]
mod up_demonstration;
#[cfg(unix)]
mod up_draining;
#[cfg(unix)]
mod up_healthz;
#[cfg(unix)]
mod up_hold_off;
#[cfg(unix)]
mod up_notify;
#[cfg(unix)]
mod up_reload;
#[cfg(unix)]
mod up_shortage;
#[cfg(unix)]
mod up_signals;
#[cfg(unix)]
mod up_waits;
mod watch_errors;
mod watch_lines;
#[cfg(unix)]
mod watch_terminal;
mod web;
