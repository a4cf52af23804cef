//! The adapter: how a feed speaks to a simulated exchange, over a WebSocket as to any other.

mod halves;

pub use crate::upstream::UpstreamError;

use super::wire::LONGEST_ANSWER;
use crate::address::{Address, AddressError};
use crate::credential::{Credential, Presented};
use crate::upstream::{Dial, DialError, now};
use carom::feed::{Adapter, Change, Pacing, Refused, Tick};
use halves::{Reader, Writer};
use std::time::Duration;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::header::{AUTHORIZATION, HeaderValue};

/// Speaks to an [`Exchange`](super::Exchange), here or in another process.
///
/// Subscriptions are written 200 at a time, at most one batch every 20 ms, and count when the exchange has accepted them. The
/// exchange hears every 10 s that this side lives.
#[derive(Debug)]
pub struct Simulated {
    dial: Dial,
    credential: Credential,
}

/// Why a text is not the address of an exchange.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// It is no address of a WebSocket server.
    #[error("that is not the address of an exchange, such as ws://127.0.0.1:7001")]
    Address(#[from] AddressError),
    /// It is one that is spoken to with TLS.
    #[error("`{url}` asks for TLS, which exchanges do not speak; accepted: such as ws://127.0.0.1:7001")]
    #[non_exhaustive]
    Secure {
        /// Which.
        url: String,
    },
    /// It cannot be spoken to.
    #[error("exchanges cannot be spoken to")]
    Dial(#[from] DialError),
}

impl Simulated {
    /// Speaks to the exchange at this address, such as `ws://127.0.0.1:7001`, and presents this credential.
    ///
    /// # Errors
    /// When that is not the address of one.
    pub fn new(url: &str, credential: Credential) -> Result<Simulated, UrlError> {
        let address: Address = url.parse()?;
        if address.is_secure() {
            return Err(UrlError::Secure { url: address.to_string() });
        }
        Ok(Simulated { dial: Dial::to(address).longest_message(LONGEST_ANSWER).build()?, credential })
    }

    fn request(&self, presented: &Presented) -> Result<Request, UpstreamError> {
        let mut request = self.dial.request()?;
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", presented.secret()))
            .map_err(|_| UpstreamError::Unpresentable)?;
        bearer.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, bearer);
        Ok(request)
    }
}

impl Adapter for Simulated {
    type Writer = Writer;
    type Reader = Reader;
    type Error = UpstreamError;

    async fn open(&self) -> Result<(Writer, Reader), UpstreamError> {
        let presented = self.credential.present().await?;
        let socket = self.dial.log_in(self.request(&presented)?, &presented).await?;
        Ok(halves::of(socket, presented))
    }

    async fn write(&self, writer: &mut Writer, changes: &[Change]) -> Result<Vec<Refused>, UpstreamError> {
        writer.change(changes).await
    }

    async fn read(&self, reader: &mut Reader, ticks: &mut Vec<Tick>) -> Result<(), UpstreamError> {
        reader.read(ticks).await
    }

    async fn heartbeat(&self, writer: &mut Writer) -> Result<(), UpstreamError> {
        writer.beat(now()).await
    }

    async fn close(&self, writer: Writer, reader: Reader) {
        writer.close(reader).await;
    }

    fn pacing(&self) -> Pacing {
        Pacing { batch: 200, pace: Duration::from_millis(20), heartbeat: Some(Duration::from_secs(10)) }
    }

    fn refuses_credential(&self, error: &UpstreamError) -> bool {
        matches!(error, UpstreamError::CredentialRefused { .. })
    }

    fn lacks_credential(&self, error: &UpstreamError) -> bool {
        matches!(error, UpstreamError::Credential(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_exchanges_are_known_from_others() {
        let at = |url| {
            let address = Simulated::new(url, Credential::fixed("token"))?.dial.address().clone();
            Ok((address.host().to_owned(), address.port()))
        };
        let known = |url| at(url).unwrap_or_else(|error: UrlError| panic!("{url}: {error}"));
        assert_eq!(known("ws://127.0.0.1:7001"), ("127.0.0.1".to_owned(), 7001));
        assert_eq!(known("ws://[::1]:7001/feed"), ("::1".to_owned(), 7001));
        assert_eq!(known("ws://exchange"), ("exchange".to_owned(), 80));
        let others = ["", "127.0.0.1:7001", "http://127.0.0.1", "wss://127.0.0.1", "ws://"];
        for wrong in others.into_iter().chain(["ws://127.0.0.1:70001", "ws://127.0.0.1:", "ws://me:pw@127.0.0.1:7001"])
        {
            assert!(at(wrong).unwrap_err().to_string().contains("ws://127.0.0.1:7001"), "{wrong}");
        }
    }
}
