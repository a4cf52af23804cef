//! A client for Hyperledger Indy ledgers that holds no idle sockets.
//!
//! A [`Pool`] of nodes keeps ledgers, and one of them says who they are. One begins with a [`Genesis`], brings it to where the pool is
//! ([`catch_up`]), believing only what is shown by hashes or said by more nodes than may lie, and keeps it in a
//! [cache](ledger::Cache). What goes over the wire is in [`message`], and how in [`zmtp`].

pub mod catch_up;
mod genesis;
mod json;
pub mod ledger;
pub mod message;
mod node;
mod pool;
mod transport;

/// How nodes are spoken to: ZeroMQ with CURVE.
pub use carom_zmtp::curve as zmtp;

pub use genesis::{Genesis, GenesisError};
pub use json::JsonError;
pub use node::{Address, Node, Place, Problem, Skipped, Validators, validators};
pub use pool::{Opening, Pool, PoolError, Reply, Request, SubmitError};
