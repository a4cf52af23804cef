//! The adapter: how a feed speaks to a simulated exchange, over a WebSocket as to any other.

mod error;
mod halves;

pub use error::{UpstreamError, UrlError};

use super::wire::LONGEST_ANSWER;
use super::world::now;
use crate::credential::{Credential, Presented};
use carom::feed::{Adapter, Change, Pacing, Refused, Tick};
use halves::{Reader, Writer};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::header::{AUTHORIZATION, HeaderValue};
use tokio_tungstenite::tungstenite::http::{StatusCode, Uri};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// Speaks to an [`Exchange`](super::Exchange), here or in another process.
///
/// Subscriptions are written 200 at a time, at most one batch every 20 ms, and count when the exchange has accepted them. The
/// exchange hears every 10 s that this side lives.
#[derive(Debug)]
pub struct Simulated {
    uri: Uri,
    /// Host and port, as they are connected to.
    address: String,
    credential: Credential,
}

impl Simulated {
    /// Speaks to the exchange at this address, such as `ws://127.0.0.1:7001`, and presents this credential.
    ///
    /// # Errors
    /// When that is not the address of one.
    pub fn new(url: &str, credential: Credential) -> Result<Simulated, UrlError> {
        let wrong = || UrlError { url: url.to_owned() };
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let host = uri.host().filter(|host| !host.is_empty() && uri.scheme_str() == Some("ws")).ok_or_else(wrong)?;
        let address = format!("{host}:{}", uri.port_u16().unwrap_or(80));
        Ok(Simulated { uri, address, credential })
    }

    fn request(&self, presented: &Presented) -> Result<Request, UpstreamError> {
        let mut request = self.uri.clone().into_client_request()?;
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
        let socket = TcpStream::connect(&self.address).await.map_err(UpstreamError::Unreachable)?;
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
        let at = |url| Simulated::new(url, Credential::fixed("token")).map(|simulated| simulated.address);
        assert_eq!(at("ws://127.0.0.1:7001").unwrap(), "127.0.0.1:7001");
        assert_eq!(at("ws://[::1]:7001/feed").unwrap(), "[::1]:7001");
        assert_eq!(at("ws://exchange").unwrap(), "exchange:80");
        for wrong in ["", "127.0.0.1:7001", "http://127.0.0.1", "wss://127.0.0.1", "ws://"] {
            assert!(at(wrong).unwrap_err().to_string().contains("ws://127.0.0.1:7001"), "{wrong}");
        }
    }
}
