//! A client for Hyperledger Indy ledgers that holds no idle sockets.
//!
//! A pool of nodes keeps a ledger, and part of it says who they are. One begins with a [`Genesis`], brings it to where the pool is
//! ([`catch_up`]), believing only what is shown by hashes or said by more nodes than may lie, and keeps it in a
//! [cache](ledger::Cache). What goes over the wire is in [`message`], and how in [`zmtp`].

pub mod catch_up;
mod genesis;
pub mod ledger;
pub mod message;
mod node;
pub mod zmtp;

pub use genesis::{Genesis, GenesisError};
pub use node::{Node, Place, Problem, Skipped, validators};
