//! carom against third-party servers and clients.

mod dashboard;
mod dashboard_link;
mod dashboard_views;
mod dns_zone;
mod indy_vdr;
mod indy_zmq;
mod monitor_kang;
mod monitor_prometheus;
mod nats_access;
mod nats_gateways;
mod nats_lease;
mod nats_permissions;
mod nginx_frozen;
mod openalgo_python;
mod postgres_killed;
mod postgres_limits;
mod pulsar_broker;
mod pulsar_python;
mod redis_frozen;
mod redis_killed;
mod redis_tls;
mod sidecar_grpc;
mod sidecar_nginx;
mod sidecar_postgres;
mod sidecar_websocket;
mod zeromq_bus;
