//! Building the adapter: an account at Kite, and what the builder of any adapter asks.

use super::Kite;
use crate::address::AddressError;
use crate::credential::Credential;
use crate::kite::DEFAULT_URL;
use crate::kite::counts::Counts;
use crate::kite::instruments::Instruments;
use crate::kite::listing::Listing;
use crate::upstream::{AdapterBuilder, DialError};
use std::sync::Arc;
use tokio_tungstenite::tungstenite::http::StatusCode;
use zeroize::Zeroizing;

/// Longest message that is read: all that a connection carries at once, three times over.
const LONGEST_MESSAGE: usize = 2 * 1024 * 1024;

/// Builds a [`Kite`]; made by [`Kite::builder`].
pub type Builder = AdapterBuilder<Account>;

/// What Kite is spoken to with.
pub struct Account {
    pub(super) api_key: Zeroizing<String>,
    pub(super) credential: Credential,
    pub(super) instruments: Arc<Instruments>,
}

/// Why an adapter cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There is no key.
    #[error("`api_key` is empty")]
    NoKey,
    /// The address is none.
    #[error("`url` is not the address of a ticker, such as {DEFAULT_URL}")]
    Url(#[from] AddressError),
    /// Kite cannot be spoken to in this way.
    #[error("the ticker cannot be spoken to")]
    Dial(#[from] DialError),
}

impl AdapterBuilder<Account> {
    /// Builds it. With `wss://` the system's root certificates are read, a matter of milliseconds.
    ///
    /// # Errors
    /// When an option makes no sense; the error names it.
    pub fn build(self) -> Result<Kite, BuildError> {
        if self.own.api_key.is_empty() {
            return Err(BuildError::NoKey);
        }
        let dial = self.dial()?.longest_message(LONGEST_MESSAGE).refused_with(StatusCode::FORBIDDEN).build()?;
        let AdapterBuilder { own: Account { api_key, credential, instruments }, pace, .. } = self;
        let (listing, counts) = (Listing::new(instruments), Counts::default());
        Ok(Kite { dial, api_key, credential, listing, counts, pace })
    }
}
