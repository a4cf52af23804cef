//! A client for Apache Pulsar on carom's sets.

pub mod wire;
