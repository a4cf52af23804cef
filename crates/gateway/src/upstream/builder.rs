//! What the builder of any adapter asks: where the upstream is, whom it trusts, and how fast it is written to.

use super::dial::{Dial, DialBuilder};
use crate::address::AddressError;
use std::fmt;
use std::time::Duration;

/// Builds an adapter; made by [`Kite::builder`](crate::kite::Kite::builder) and [`Delta::builder`](crate::delta::Delta::builder).
/// Every option has a default; `build` refuses what makes no sense. `T` is what one kind of adapter needs beside the options that
/// all have.
#[derive(Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct AdapterBuilder<T> {
    pub(crate) own: T,
    pub(crate) pace: Duration,
    url: String,
    extra_roots: Option<Vec<u8>>,
}

impl<T> AdapterBuilder<T> {
    pub(crate) fn new(own: T, default_url: &str) -> AdapterBuilder<T> {
        AdapterBuilder { own, pace: Duration::from_millis(500), url: default_url.to_owned(), extra_roots: None }
    }

    /// Where the upstream is: `ws://` or `wss://`. Default: where its broker has it, such as
    /// [`kite::DEFAULT_URL`](crate::kite::DEFAULT_URL) or [`delta::DEFAULT_URL`](crate::delta::DEFAULT_URL).
    pub fn url(mut self, url: impl Into<String>) -> AdapterBuilder<T> {
        self.url = url.into();
        self
    }

    /// Trust these roots too, beside those that the system trusts: one or more certificates in PEM. For `wss://` alone. Default:
    /// none.
    pub fn extra_roots(mut self, pem: impl Into<Vec<u8>>) -> AdapterBuilder<T> {
        self.extra_roots = Some(pem.into());
        self
    }

    /// Least time from one batch of subscriptions on a connection to the next: 200 of them with Kite, 150 with Delta. Default
    /// 500 ms.
    pub fn pace(mut self, pace: Duration) -> AdapterBuilder<T> {
        self.pace = pace;
        self
    }

    /// How the upstream is reached.
    pub(crate) fn dial(&self) -> Result<DialBuilder, AddressError> {
        let dial = Dial::to(self.url.parse()?);
        Ok(match &self.extra_roots {
            Some(pem) => dial.extra_roots(pem.clone()),
            None => dial,
        })
    }
}

/// Neither keys nor certificates.
impl<T> fmt::Debug for AdapterBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdapterBuilder").field("pace", &self.pace).finish_non_exhaustive()
    }
}
