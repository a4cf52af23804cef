//! The scripted Pulsar cluster, spoken to frame by frame.

mod client;
mod faults;
mod moving;
mod tls;
mod topics;
