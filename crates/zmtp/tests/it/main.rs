//! Integration tests of ZMTP sessions.

mod pubsub_fuzz;
mod pubsub_session;
mod support;
