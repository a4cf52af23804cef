//! Integration tests of the Pulsar client with scripted brokers.

mod client_connections;
mod client_faults;
mod client_moving;
mod client_reads;
mod client_sends;
mod client_tls;
mod client_traffic;
mod support;
mod wire_fuzz;
