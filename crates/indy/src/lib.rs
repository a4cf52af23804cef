//! A client for Hyperledger Indy ledgers.

mod genesis;
pub mod ledger;
mod node;
pub mod zmtp;

pub use genesis::{Genesis, GenesisError};
pub use node::{Node, Place, Problem, Skipped, validators};
