//! The adapter: how a feed speaks to a simulated exchange, over a WebSocket as to any other.

mod error;
mod halves;

pub use error::{UpstreamError, UrlError};

use super::wire::LONGEST_ANSWER;
use super::world::now;
use crate::address::Address;
use crate::credential::{Credential, Presented};
use carom::feed::{Adapter, Change, Pacing, Refused, Tick};
use halves::{Reader, Writer};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::http::header::{AUTHORIZATION, HeaderValue};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// Speaks to an [`Exchange`](super::Exchange), here or in another process.
///
/// Subscriptions are written 200 at a time, at most one batch every 20 ms, and count when the exchange has accepted them. The
/// exchange hears every 10 s that this side lives.
#[derive(Debug)]
pub struct Simulated {
    address: Address,
    credential: Credential,
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
        Ok(Simulated { address, credential })
    }

    fn request(&self, presented: &Presented) -> Result<Request, UpstreamError> {
        let mut request = self.address.uri().clone().into_client_request()?;
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
        let request = self.request(&presented)?;
        let socket =
            TcpStream::connect((self.address.host(), self.address.port())).await.map_err(UpstreamError::Unreachable)?;
        socket.set_nodelay(true).map_err(UpstreamError::Unreachable)?;
        let config = WebSocketConfig::default()
            .read_buffer_size(64 * 1024)
            .write_buffer_size(16 * 1024)
            .max_message_size(Some(LONGEST_ANSWER))
            .max_frame_size(Some(LONGEST_ANSWER));
        match client_async_with_config(request, socket, Some(config)).await {
            Ok((socket, _)) => Ok(halves::of(socket, presented)),
            Err(Error::Http(response)) => {
                if response.status() == StatusCode::UNAUTHORIZED {
                    presented.refused();
                }
                Err(UpstreamError::turned_away(&response))
            }
            Err(error) => Err(error.into()),
        }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_exchanges_are_known_from_others() {
        let at = |url| {
            let address = Simulated::new(url, Credential::fixed("token"))?.address;
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
