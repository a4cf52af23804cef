//! The connector: a socket to a broker, the handshake done, for a set to share.

use crate::address::proxy_of;
use crate::connection::{Connection, ConnectionError, Numbers, Setup, Socket};
use crate::wire::{
    AuthData, AuthResponse, Codec, Command, Connect as Hello, DEFAULT_MAX_MESSAGE_SIZE, FeatureFlags, Frame,
    MOST_MESSAGE_SIZE, PROTOCOL_VERSION, Ping, Pong, ServerError,
};
use bytes::{Bytes, BytesMut};
use carom::tcp::Tcp;
use carom::tls::Tls;
use carom::{Backend, Connect, Liveness, Share};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const CLIENT_VERSION: &str = concat!("carom-pulsar/", env!("CARGO_PKG_VERSION"));

/// Says who the client is, each time it is asked.
#[derive(Clone)]
pub(crate) struct Token(pub(crate) Arc<dyn Fn() -> String + Send + Sync>);

impl Token {
    fn proof(&self) -> Result<AuthData, ConnectionError> {
        match (self.0)() {
            token if token.is_empty() => Err(ConnectionError::EmptyToken),
            token => Ok(AuthData { auth_method_name: Some("token".into()), auth_data: Some(Bytes::from(token)) }),
        }
    }
}

/// Not its secret.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Connects to brokers.
pub(crate) struct Connector {
    pub(crate) tcp: Tcp,
    pub(crate) tls: Option<Tls>,
    pub(crate) token: Option<Token>,
    pub(crate) keep_alive: Duration,
    pub(crate) numbers: Arc<Numbers>,
}

impl Connect for Connector {
    type Connection = Connection;
    type Error = ConnectionError;

    /// Cancel safety: dropping the future closes the socket.
    async fn connect(&self, backend: &Backend) -> Result<Connection, ConnectionError> {
        let (seen, proxied) = match proxy_of(backend.name()) {
            Some((proxy, broker)) => (proxy, Some(broker)),
            None => (backend.name(), None),
        };
        match &self.tls {
            None => self.greet(self.tcp.connect(backend).await?, backend, proxied).await,
            Some(tls) => {
                // Certificates are made out to hosts, without a port.
                let host = seen.rsplit_once(':').map_or(seen, |(host, _)| host).trim_matches(['[', ']']);
                let socket = tls.connect(&Backend::new(host, backend.socket_addr())).await?;
                self.greet(socket, backend, proxied).await
            }
        }
    }

    fn closed(&self, connection: &Connection) -> Option<impl Future<Output = Liveness> + Send + 'static> {
        let closed = connection.lines().closed();
        Some(async move {
            closed.await;
            Liveness::Closed
        })
    }
}

impl Share for Connector {
    fn shut(&self, connection: &Connection) {
        connection.let_go();
    }
}

impl Connector {
    async fn greet(
        &self,
        mut socket: impl Socket,
        backend: &Backend,
        proxied: Option<&str>,
    ) -> Result<Connection, ConnectionError> {
        let codec = Codec::default();
        let mut bytes = BytesMut::new();
        let proof = self.token.as_ref().map(Token::proof).transpose()?;
        let hello = Hello {
            client_version: CLIENT_VERSION.into(),
            protocol_version: Some(PROTOCOL_VERSION),
            auth_method_name: proof.as_ref().and_then(|proof| proof.auth_method_name.clone()),
            auth_data: proof.and_then(|proof| proof.auth_data),
            proxy_to_broker_url: proxied.map(str::to_owned),
            feature_flags: Some(FeatureFlags { supports_auth_refresh: Some(true), ..FeatureFlags::default() }),
            ..Hello::default()
        };
        say(&mut socket, codec, &hello.into()).await?;
        let connected = loop {
            let Some(frame) = codec.decode(&mut bytes)? else {
                if socket.read_buf(&mut bytes).await? == 0 {
                    return Err(ConnectionError::ByBroker);
                }
                continue;
            };
            let kind = frame.command.kind;
            match frame.command.body {
                Some(Command::Connected(connected)) => break connected,
                Some(Command::Failure(failure)) => {
                    let error = ServerError::of(failure.error);
                    return Err(ConnectionError::Refused { error, message: failure.message });
                }
                Some(Command::AuthChallenge(_)) => say(&mut socket, codec, &answer(self.token.as_ref())?).await?,
                Some(Command::Ping(Ping {})) => say(&mut socket, codec, &Pong {}.into()).await?,
                Some(Command::Pong(_)) | None => {}
                Some(_) => return Err(ConnectionError::Violation { kind }),
            }
        };
        let max_message_size = connected.max_message_size.and_then(|size| usize::try_from(size).ok());
        let max_message_size = max_message_size.filter(|size| *size > 0).unwrap_or(DEFAULT_MAX_MESSAGE_SIZE);
        let token = self.token.clone();
        let setup = Setup {
            broker: backend.to_string(),
            // What one frame may take of this side's memory is not for the broker alone to say.
            max_message_size: max_message_size.min(MOST_MESSAGE_SIZE),
            protocol_version: connected.protocol_version.unwrap_or(0),
            keep_alive: self.keep_alive,
            numbers: Arc::clone(&self.numbers),
            authenticate: Box::new(move || answer(token.as_ref())),
            read: bytes,
        };
        Ok(Connection::start(socket, setup))
    }
}

/// The answer to a broker that asks who the client is.
fn answer(token: Option<&Token>) -> Result<Frame, ConnectionError> {
    let response = token.ok_or_else(ConnectionError::no_token)?.proof()?;
    let response = AuthResponse {
        client_version: Some(CLIENT_VERSION.into()),
        response: Some(response),
        protocol_version: Some(PROTOCOL_VERSION),
    };
    Ok(response.into())
}

async fn say(socket: &mut impl Socket, codec: Codec, frame: &Frame) -> Result<(), ConnectionError> {
    let mut bytes = BytesMut::new();
    codec.encode(frame, &mut bytes)?;
    socket.write_all(&bytes).await?;
    socket.flush().await?;
    Ok(())
}
