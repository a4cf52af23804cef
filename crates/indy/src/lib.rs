//! A client for Hyperledger Indy ledgers.

pub mod zmtp;
