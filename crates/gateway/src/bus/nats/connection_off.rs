//! Stands in for the client of NATS in builds without the feature `nats`: connecting fails.

use super::options::{NatsError, NatsOptions};
use crate::bus::Bus;
use crate::cluster::{Share, ShareError};
use carom_core::options::OptionsError;
use std::convert::Infallible;
use std::sync::Arc;

/// A connection to NATS, which this build cannot make: it lacks the feature `nats`.
#[derive(Clone, Debug)]
pub struct Nats {
    never: Infallible,
}

impl Nats {
    /// Whether this build can connect to NATS.
    pub const AVAILABLE: bool = false;

    /// Fails with [`NatsError::NotBuilt`].
    pub async fn connect(options: NatsOptions) -> Result<Nats, NatsError> {
        options.validate()?;
        Err(NatsError::NotBuilt)
    }

    /// Never called: there is no `Nats`.
    pub fn member(&self) -> &Arc<str> {
        match self.never {}
    }

    /// Never called: there is no `Nats`.
    pub fn is_connected(&self) -> bool {
        match self.never {}
    }

    /// Never called: there is no `Nats`.
    pub fn lost(&self) -> u64 {
        match self.never {}
    }

    /// Never called: there is no `Nats`.
    pub fn scope(&self, _broker: &str, _user: &str) -> Bus {
        match self.never {}
    }

    /// Never called: there is no `Nats`.
    pub async fn share(&self, _broker: &str, _user: &str) -> Result<Share, ShareError> {
        match self.never {}
    }
}

/// Addresses are not read: nothing connects to them.
pub(super) fn check_urls(_urls: &str) -> Result<(), OptionsError> {
    Ok(())
}
