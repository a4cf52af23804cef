//! A market-data gateway: OpenAlgo's clients on one side, a [`Feed`](carom::feed::Feed) for each user at a broker on the other.

pub mod credential;
pub mod keys;
pub mod protocol;
pub mod simulated;
pub mod tables;
