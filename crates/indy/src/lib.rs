//! A client for Hyperledger Indy ledgers.

pub mod ledger;
pub mod zmtp;
