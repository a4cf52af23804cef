//! Opening a WebSocket to an upstream, with or without TLS.

use super::error::UpstreamError;
use super::race;
use crate::address::Address;
use crate::credential::Presented;
use crate::transport::Transport;
use carom::tcp::{self, Tcp};
use carom::tls::{self, ConnectError, Tls, TlsError};
use carom::{Backend, Connect};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::lookup_host;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

/// An open connection to an upstream.
pub type Socket = WebSocketStream<Wire>;

/// Opens WebSockets to one upstream. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Dial {
    address: Address,
    tls: Option<Tls>,
    longest_message: usize,
    refused_with: StatusCode,
}

/// Builds a [`Dial`]; made by [`Dial::to`].
#[derive(Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct DialBuilder {
    address: Address,
    extra_roots: Option<Vec<u8>>,
    longest_message: usize,
    refused_with: StatusCode,
}

/// Why an upstream cannot be spoken to in this way.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// There are roots for certificates, and no TLS.
    #[error(
        "`{address}` is spoken to without tls, so there are no certificates to verify: leave out the roots, or use wss://"
    )]
    #[non_exhaustive]
    RootsWithoutTls {
        /// Where the upstream is.
        address: String,
    },
    /// TLS cannot be spoken.
    #[error("tls cannot be spoken with the upstream")]
    Tls(#[from] TlsError),
}

impl DialBuilder {
    /// Trust these roots too, beside those that the system trusts: one or more certificates in PEM. For `wss://` alone. Default:
    /// none.
    pub fn extra_roots(mut self, pem: impl Into<Vec<u8>>) -> DialBuilder {
        self.extra_roots = Some(pem.into());
        self
    }

    /// The longest message that is read, in bytes; a longer one ends the connection. Default 1 MiB.
    pub fn longest_message(mut self, bytes: usize) -> DialBuilder {
        self.longest_message = bytes;
        self
    }

    /// The status by which the upstream says that it refuses the credential. Default 401.
    pub fn refused_with(mut self, status: StatusCode) -> DialBuilder {
        self.refused_with = status;
        self
    }

    /// Builds it. With `wss://` the system's root certificates are read, a matter of milliseconds.
    ///
    /// # Errors
    /// [`DialError`] says what makes no sense.
    pub fn build(self) -> Result<Dial, DialError> {
        let DialBuilder { address, extra_roots, longest_message, refused_with } = self;
        let tls = match (address.is_secure(), extra_roots) {
            (true, None) => Some(Tls::builder().build()?),
            (true, Some(pem)) => Some(trusting(pem)?),
            (false, None) => None,
            (false, Some(_)) => return Err(DialError::RootsWithoutTls { address: address.to_string() }),
        };
        Ok(Dial { address, tls, longest_message, refused_with })
    }
}

/// Not the certificates.
impl fmt::Debug for DialBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DialBuilder").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Dial {
    /// Starts building one to this address.
    pub fn to(address: Address) -> DialBuilder {
        let (longest_message, refused_with) = (1024 * 1024, StatusCode::UNAUTHORIZED);
        DialBuilder { address, extra_roots: None, longest_message, refused_with }
    }

    /// Where the upstream is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// A request for a connection, to which headers can be added.
    ///
    /// # Errors
    /// When no request can be made of the address.
    pub fn request(&self) -> Result<Request, UpstreamError> {
        Ok(self.address.uri().clone().into_client_request()?)
    }

    /// Opens a connection: to the first of the host's addresses that answers, without a delay for small messages. Each has a quarter
    /// of a second before the next is tried beside it.
    ///
    /// Cancel safety: dropping the future closes the socket.
    ///
    /// # Errors
    /// [`UpstreamError`] says how far it got.
    pub async fn open(&self, request: Request) -> Result<Socket, UpstreamError> {
        let wire = self.connect().await?;
        let config = WebSocketConfig::default()
            .read_buffer_size(64 * 1024)
            .write_buffer_size(16 * 1024)
            .max_message_size(Some(self.longest_message))
            .max_frame_size(Some(self.longest_message));
        match client_async_with_config(request, wire, Some(config)).await {
            Ok((socket, _)) => Ok(socket),
            Err(Error::Http(response)) => Err(UpstreamError::turned_away(&response, self.refused_with)),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`open`](Dial::open), with a request that presents this credential: should the upstream refuse it, it is marked as refused,
    /// and nothing that the upstream says shows it.
    ///
    /// # Errors
    /// [`UpstreamError`] says how far it got.
    pub async fn log_in(&self, request: Request, presented: &Presented) -> Result<Socket, UpstreamError> {
        self.open(request).await.map_err(|error| {
            if let UpstreamError::CredentialRefused { .. } = error {
                presented.refused();
            }
            error.hiding(presented.secret())
        })
    }

    async fn connect(&self) -> Result<Wire, UpstreamError> {
        let host = self.address.host();
        let addresses = lookup_host((host, self.address.port())).await.map_err(UpstreamError::Unreachable)?;
        race::first(addresses.map(|address| self.connect_to(address))).await.map_err(|problem| {
            let nowhere = || io::Error::new(ErrorKind::NotFound, "its name leads to no address");
            problem.unwrap_or_else(|| UpstreamError::Unreachable(nowhere()))
        })
    }

    async fn connect_to(&self, address: SocketAddr) -> Result<Wire, UpstreamError> {
        let backend = Backend::new(self.address.host(), address);
        let transport = match &self.tls {
            None => Transport::Plain(Tcp::default().connect(&backend).await.map_err(UpstreamError::Unreachable)?),
            Some(tls) => Transport::Tls(Box::new(tls.connect(&backend).await.map_err(|error| match error {
                ConnectError::Connect(error) => UpstreamError::Unreachable(error),
                error => UpstreamError::Tls(error),
            })?)),
        };
        Ok(Wire(transport))
    }
}

/// Trusts these roots and the system's. The system's may be missing: then these are enough.
pub(crate) fn trusting(pem: Vec<u8>) -> Result<Tls, TlsError> {
    let own = Tls::builder().roots_pem(pem);
    match own.clone().roots_platform().build() {
        Err(TlsError::NoPlatformRoots { .. }) => own.build(),
        built => built,
    }
}

/// The bytes under a [`Socket`], with or without TLS.
#[derive(Debug)]
pub struct Wire(Transport<tcp::Stream, tls::Stream>);

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
