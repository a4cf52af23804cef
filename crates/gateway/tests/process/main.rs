//! Integration tests of process-wide state: the limit of open files. One test, since the limit applies to all.

mod gateway_descriptors;
#[allow(dead_code, reason = "most of it is for the tests in `it`")]
#[path = "../it/gateway_stage/mod.rs"]
mod gateway_stage;
