//! The adapter: how a feed speaks to Kite.

mod builder;
mod halves;

pub use builder::{Account, BuildError, Builder};
pub use halves::{Reader, Writer};

use super::DEFAULT_URL;
use super::counts::Counts;
use super::instruments::Instruments;
use super::listing::Listing;
use crate::credential::{Credential, Presented};
use crate::upstream::{Dial, UpstreamError};
use carom::feed::{Adapter, Change, Pacing, Refused, Tick};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::Uri;
use tokio_tungstenite::tungstenite::http::header::HeaderValue;
use zeroize::Zeroizing;

/// Most tokens in one message.
const BATCH: usize = 200;

/// How often Kite is asked for a pong: a market at rest is no stall.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Speaks to Kite's ticker.
///
/// Subscriptions are written 200 at a time, a batch every half second. Kite confirms none of them, so they count when they are
/// written; what its list of instruments does not have is refused here, with the nearest names.
pub struct Kite {
    dial: Dial,
    api_key: Zeroizing<String>,
    credential: Credential,
    listing: Listing,
    counts: Counts,
    pace: Duration,
}

impl Kite {
    /// Starts building one: with the key of the application, the token of the day, and what Kite lists.
    pub fn builder(api_key: impl Into<String>, credential: Credential, instruments: Arc<Instruments>) -> Builder {
        let api_key = Zeroizing::new(api_key.into());
        Builder::new(Account { api_key, credential, instruments }, DEFAULT_URL)
    }

    /// What symbols are looked up in. Kept aside, it can be replaced while a feed has the adapter.
    pub fn listing(&self) -> Listing {
        self.listing.clone()
    }

    /// What is not passed on, as long as this runs.
    pub fn counts(&self) -> Counts {
        self.counts.clone()
    }

    fn request(&self, presented: &Presented) -> Result<Request, UpstreamError> {
        let mut request = self.dial.request()?;
        let uri = asking(request.uri(), &self.api_key, presented.secret()).ok_or(UpstreamError::Unpresentable)?;
        *request.uri_mut() = uri;
        request.headers_mut().insert("X-Kite-Version", HeaderValue::from_static("3"));
        Ok(request)
    }
}

impl Adapter for Kite {
    type Writer = Writer;
    type Reader = Reader;
    type Error = UpstreamError;

    async fn open(&self) -> Result<(Writer, Reader), UpstreamError> {
        let presented = self.credential.present().await?;
        let opened = self.dial.log_in(self.request(&presented)?, &presented).await;
        let hidden = |error: UpstreamError| error.hiding(&escaped(presented.secret())).hiding(&self.api_key);
        let socket = opened.map_err(hidden)?;
        Ok(halves::of(socket, presented, self.listing.clone(), self.counts.clone()))
    }

    async fn write(&self, writer: &mut Writer, changes: &[Change]) -> Result<Vec<Refused>, UpstreamError> {
        writer.change(changes).await
    }

    async fn read(&self, reader: &mut Reader, ticks: &mut Vec<Tick>) -> Result<(), UpstreamError> {
        reader.read(ticks, &self.api_key).await
    }

    async fn heartbeat(&self, writer: &mut Writer) -> Result<(), UpstreamError> {
        writer.ping().await
    }

    async fn close(&self, writer: Writer, reader: Reader) {
        writer.close(reader).await;
    }

    fn pacing(&self) -> Pacing {
        Pacing { batch: BATCH, pace: self.pace, heartbeat: Some(HEARTBEAT) }
    }

    fn passed_over(&self) -> Vec<(&'static str, u64)> {
        let Kite { counts, .. } = self;
        vec![
            ("malformed", counts.malformed()),
            ("unknown", counts.unknown()),
            ("unasked", counts.unasked()),
            ("orders", counts.orders()),
        ]
    }

    fn refuses_credential(&self, error: &UpstreamError) -> bool {
        matches!(error, UpstreamError::CredentialRefused { .. })
    }

    fn lacks_credential(&self, error: &UpstreamError) -> bool {
        matches!(error, UpstreamError::Credential(_))
    }
}

/// Neither key nor token.
impl fmt::Debug for Kite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kite").field("address", self.dial.address()).finish_non_exhaustive()
    }
}

/// The address with key and token in it, after what is asked for already.
fn asking(uri: &Uri, api_key: &str, access_token: &str) -> Option<Uri> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut asked = Zeroizing::new(path.to_owned());
    asked.push(if path.contains('?') { '&' } else { '?' });
    for (name, value) in [("api_key=", api_key), ("&access_token=", access_token)] {
        asked.push_str(name);
        asked.push_str(&escaped(value));
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(asked.parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// As it stands in an address.
fn escaped(value: &str) -> Zeroizing<String> {
    let mut escaped = Zeroizing::new(String::with_capacity(3 * value.len()));
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped.push(char::from(byte)),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_and_token_are_part_of_what_is_asked_for() {
        let asked = |uri: &str| asking(&uri.parse().unwrap(), "key", "a b&c=d/é").unwrap().to_string();
        let escaped = "api_key=key&access_token=a%20b%26c%3Dd%2F%C3%A9";
        assert_eq!(asked("wss://ws.kite.trade"), format!("wss://ws.kite.trade/?{escaped}"));
        assert_eq!(asked("ws://127.0.0.1:80/feed?v=3"), format!("ws://127.0.0.1:80/feed?v=3&{escaped}"));
    }
}
