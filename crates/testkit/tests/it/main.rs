//! Integration tests of the peers: each is used with another implementation of its protocol. And a check of PROMISES.md.

mod dns_server;
mod feed_upstream;
mod promises;
mod pulsar_broker;
