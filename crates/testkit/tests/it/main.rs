//! Integration tests of the peers: each is used with another implementation of its protocol.

mod dns_server;
mod feed_upstream;
mod pulsar_broker;
