//! The TLS connector: [`Tls`] opens encrypted connections over TCP, [`Stream`] is such a connection as a claim lends it.
//!
//! What the [TCP connector](crate::tcp) knows of its sockets is not enough here. After the handshake a TLS 1.3 server
//! sends session tickets that nobody reads, so bytes that wait are no sign of an end, nor of a late reply. This connector
//! decrypts what waits before a connection is lent again: tickets are kept for the next handshake, a goodbye is noticed
//! wherever it stands, and the late reply to an earlier request is told from both.
//!
//! It does so when a claim comes back, and when the connection is claimed again. As with the [TCP connector](crate::tcp), a
//! connection does not go back into the pool if bytes were written and none were read since, because the reply may still come. A
//! reply that was read in part is not covered: if its use is cut short, end the claim with
//! [`Claim::discard`](crate::Claim::discard).
//!
//! ```
//! use carom::Pool;
//! use carom::tls::Tls;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! # use std::sync::Arc;
//! # use tokio::net::TcpListener;
//! # use tokio_rustls::TlsAcceptor;
//! # use tokio_rustls::rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let certified = rcgen::generate_simple_self_signed(["orders.example.com".into()])?;
//! # let own_root = certified.cert.pem();
//! # let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
//! # let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
//! #     .with_safe_default_protocol_versions()?
//! #     .with_no_client_auth()
//! #     .with_single_cert(vec![certified.cert.der().clone()], key)?;
//! # let acceptor = TlsAcceptor::from(Arc::new(config));
//! # let listener = TcpListener::bind("127.0.0.1:0").await?;
//! # let nodes = [listener.local_addr()?];
//! # tokio::spawn(async move {
//! #     while let Ok((socket, _)) = listener.accept().await {
//! #         let acceptor = acceptor.clone();
//! #         tokio::spawn(async move {
//! #             let (mut read, mut write) = tokio::io::split(acceptor.accept(socket).await?);
//! #             tokio::io::copy(&mut read, &mut write).await
//! #         });
//! #     }
//! # });
//! // `nodes` are known by address alone, and share a certificate that is made out to their service.
//! let tls = Tls::builder().roots_pem(own_root).server_name("orders.example.com").build()?;
//! let pool = Pool::builder(tls).backends(nodes).build()?;
//!
//! let mut connection = pool.claim().await?;
//! connection.write_all(b"hello").await?;
//! connection.flush().await?;
//! let mut answer = [0; 5];
//! connection.read_exact(&mut answer).await?;
//! assert_eq!(&answer, b"hello");
//! # Ok(()) }
//! ```

mod any_certificate;
mod builder;
mod error;
mod stream;

pub use builder::Builder;
pub use error::{ConnectError, TlsError};
pub use stream::Stream;

use crate::connect::{Connect, Liveness};
use crate::tcp::{self, Tcp};
use carom_core::backend::Backend;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use stream::Waiting;
use tokio::io::AsyncWrite;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// Opens TLS connections, versions 1.2 and 1.3. Cheap to clone; clones share their session tickets.
///
/// It bounds nothing in time: the pool's recovery policy says how long a connect, handshake included, may take. `check`
/// keeps its default, as TLS has no round trip to offer.
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
    server_name: Option<ServerName<'static>>,
    server_first: bool,
    reuse_without_answer: bool,
    /// With `server_first` and `reuse_without_answer`: of a socket's bytes nobody can say whether they are tickets.
    tcp: Tcp,
}

impl Tls {
    /// Starts building a connector. Every option has a default; [`Builder::build`] refuses what makes no sense.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// The same connector, offering these protocols and no others; both share their session tickets. See [`Builder::alpn`].
    /// What cannot be the name of a protocol, being empty or longer than 255 bytes, is left out.
    #[must_use]
    pub fn offering(&self, protocols: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Tls {
        let mut config = ClientConfig::clone(self.connector.config());
        let possible = |name: &Vec<u8>| (1..=255).contains(&name.len());
        config.alpn_protocols = protocols.into_iter().map(Into::into).filter(possible).collect();
        Tls { connector: TlsConnector::from(Arc::new(config)), ..self.clone() }
    }

    /// What it speaks TLS with, for a client that brings a connector of its own.
    #[must_use]
    pub fn config(&self) -> &ClientConfig {
        self.connector.config()
    }

    /// Opens the socket alone, for [`Tls::handshake`].
    ///
    /// Cancel safety: dropping the future closes the socket.
    pub async fn dial(&self, backend: &Backend) -> Result<tcp::Stream, ConnectError> {
        self.tcp.connect(backend).await.map_err(ConnectError::Connect)
    }

    /// The second half of a connect: TLS on a socket that is connected to this backend.
    ///
    /// Cancel safety: dropping the future closes the socket.
    pub async fn handshake(&self, backend: &Backend, socket: tcp::Stream) -> Result<Stream, ConnectError> {
        let name = self.server_name(backend);
        match self.connector.connect(name.clone(), socket).await {
            Ok(tls) => Ok(Stream::new(tls)),
            Err(error) => Err(ConnectError::of_handshake(error, &name)),
        }
    }

    /// A watch over a stream's socket, to be kept beside a stream that belongs to somebody else. It sees end-of-file and
    /// errors, not what is encrypted.
    #[must_use]
    pub fn watch(&self, stream: &Stream) -> tcp::Watch {
        self.tcp.watch(stream.get_ref())
    }

    fn server_name(&self, backend: &Backend) -> ServerName<'static> {
        match &self.server_name {
            Some(name) => name.clone(),
            // The name of one that has none but its address may look like another address.
            None => match backend.own_name().map(ServerName::try_from) {
                Some(Ok(name)) => name.to_owned(),
                Some(Err(_)) | None => backend.address().into(),
            },
        }
    }
}

impl Connect for Tls {
    type Connection = Stream;
    type Error = ConnectError;

    /// A TLS 1.3 server says what it thinks of the client's certificate only after the client has ended its handshake.
    /// If it refuses, the connect succeeds, and reading fails then with the reason.
    ///
    /// Cancel safety: dropping the future closes the socket.
    async fn connect(&self, backend: &Backend) -> Result<Stream, ConnectError> {
        let socket = self.dial(backend).await?;
        self.handshake(backend, socket).await
    }

    /// Decrypts what waits, without a system call while nothing has arrived. Nothing is lost: application bytes stay for
    /// whoever reads next.
    fn liveness(&self, stream: &mut Stream) -> Liveness {
        if stream.said_goodbye() {
            return Liveness::Closed;
        }
        let liveness = match stream.take_in() {
            Ok(Waiting::Nothing) => Liveness::Open,
            Ok(Waiting::Bytes) if self.server_first => self.tcp.liveness(stream.socket()),
            Ok(Waiting::Bytes | Waiting::End) => Liveness::Closed,
            Err(error) => Liveness::broken(error),
        };
        match liveness {
            Liveness::Open if stream.is_unanswered() && !self.reuse_without_answer => Liveness::Unanswered,
            liveness => liveness,
        }
    }

    /// Ends at end-of-file or an error on the socket: a future apart from the stream cannot decrypt, so a goodbye after
    /// which the far side keeps its socket open is left to [`liveness`](Connect::liveness). An end behind unread tickets is
    /// noticed as [`Tcp::server_first`] has it.
    ///
    /// Cancel safety: the future consumes no bytes; dropping it leaves the stream as it was.
    fn closed(&self, stream: &Stream) -> Option<impl Future<Output = Liveness> + Send + 'static> {
        self.tcp.closed(stream.get_ref())
    }

    /// Decrypts what waits: tickets are no bytes of the application's.
    fn has_unread(&self, stream: &mut Stream) -> bool {
        stream.has_unread()
    }

    /// Sends what is still to be sent and a goodbye (`close_notify`), ends the sending side of the socket, then drops.
    ///
    /// Cancel safety: dropping the future closes the socket without a goodbye.
    async fn close(&self, mut stream: Stream) {
        // An error means that the connection has ended already.
        let _ = poll_fn(|cx| Pin::new(&mut stream).poll_shutdown(cx)).await;
        // A socket that is dropped with bytes unread is reset, which can cost the far side the goodbye.
        let _ = stream.take_in();
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("server_name", &self.server_name)
            .field("server_first", &self.server_first)
            .field("reuse_without_answer", &self.reuse_without_answer)
            .field("tcp", &self.tcp)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_is_verified_by_its_name_or_else_by_its_address() {
        let named = |name: &'static str| Backend::new(name, "[2001:db8::7]:443".parse().unwrap());
        let tls = Tls::builder().dangerous_accept_any_certificate().build().unwrap();
        let asked = |backend: Backend| tls.server_name(&backend).to_str().into_owned();
        assert_eq!(asked(named("db-1.example.com")), "db-1.example.com");
        assert_eq!(asked(named("db_1")), "db_1");
        assert_eq!(asked(named("10.0.0.1")), "10.0.0.1");
        assert_eq!(asked(named("the second node")), "2001:db8::7");
        assert_eq!(asked(Backend::fixed("[2001:db8::7]:443".parse().unwrap())), "2001:db8::7");
        assert_eq!(asked(Backend::fixed("10.0.0.1:443".parse().unwrap())), "10.0.0.1");

        let tls = Tls::builder().dangerous_accept_any_certificate().server_name("orders.example.com").build().unwrap();
        assert_eq!(tls.server_name(&named("db-1.example.com")).to_str(), "orders.example.com");
    }
}
