//! A socket: a session on one TCP connection, which closes with it.

use super::error::ZmtpError;
use super::handshake::Fresh;
use super::keys::{CurveKey, KeyPair};
use super::session::{Event, Session};
use bytes::{Bytes, BytesMut};
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Why a socket is of no use, or does not come to be.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// There is no connection to be had.
    #[error("cannot connect to {address}")]
    Connect {
        /// Where to.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The system has no randomness, and there are no keys without it.
    #[error("no keys can be made")]
    Keys(#[source] io::Error),
    /// The connection broke.
    #[error("the connection broke")]
    Io(#[from] io::Error),
    /// The peer said something that it must not say.
    #[error(transparent)]
    Protocol(#[from] ZmtpError),
    /// The peer left before there was a channel, as it does when it cannot read what is said to it.
    #[error("the peer closed the connection when {due} was due; it does so if it has not the key that it is known by")]
    ClosedInHandshake {
        /// What should have come.
        due: &'static str,
    },
    /// The peer closed the connection.
    #[error("the peer closed the connection")]
    Closed,
}

/// One connection with an open channel: opened when it is made, closed when it is dropped, never made again by itself.
#[derive(Debug)]
pub struct Socket {
    stream: TcpStream,
    session: Session,
    input: BytesMut,
    identity: Bytes,
}

impl Socket {
    /// Calls a ROUTER that has this key, and waits until there is a channel. Cancelled, it leaves nothing behind.
    ///
    /// # Errors
    /// When there is nobody, or somebody else.
    pub async fn connect(
        address: SocketAddr,
        server: CurveKey,
        keys: &KeyPair,
        identity: Bytes,
        limit: usize,
    ) -> Result<Socket, SocketError> {
        let fresh = Fresh::random().map_err(SocketError::Keys)?;
        let stream = TcpStream::connect(address).await.map_err(|source| SocketError::Connect { address, source })?;
        Socket::open(stream, Session::client(server, keys.clone(), identity, fresh, limit)).await
    }

    /// Answers a DEALER that calls, and waits until there is a channel. Cancelled, it leaves nothing behind.
    ///
    /// # Errors
    /// When the caller does not know the key, or speaks something else.
    pub async fn accept(stream: TcpStream, keys: &KeyPair, limit: usize) -> Result<Socket, SocketError> {
        let fresh = Fresh::random().map_err(SocketError::Keys)?;
        Socket::open(stream, Session::server(keys.clone(), fresh, limit)).await
    }

    async fn open(stream: TcpStream, session: Session) -> Result<Socket, SocketError> {
        // Small messages that wait for nothing: there is no more to come that could travel with them.
        stream.set_nodelay(true)?;
        let mut socket = Socket { stream, session, input: BytesMut::new(), identity: Bytes::new() };
        loop {
            match socket.event().await? {
                Event::Open { identity } => {
                    socket.identity = identity;
                    socket.flush().await?;
                    return Ok(socket);
                }
                // Not before the channel is open.
                Event::Message(_) => {}
            }
        }
    }

    /// What the peer calls itself.
    pub fn identity(&self) -> &Bytes {
        &self.identity
    }

    /// Where we are.
    ///
    /// # Errors
    /// When the system does not know.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// Puts a message in line; [`next`](Self::next) and [`flush`](Self::flush) write it.
    ///
    /// # Errors
    /// When it is too long.
    pub fn push(&mut self, message: &[u8]) -> Result<(), ZmtpError> {
        self.session.send(message)
    }

    /// Waits for a message, and writes what is in line meanwhile. Can be cancelled: nothing is lost, neither way.
    ///
    /// # Errors
    /// When the connection has ended.
    pub async fn next(&mut self) -> Result<Bytes, SocketError> {
        loop {
            if let Event::Message(message) = self.event().await? {
                return Ok(message);
            }
        }
    }

    /// Writes what is in line. Can be cancelled: the rest stays in line.
    ///
    /// # Errors
    /// When the connection has ended.
    pub async fn flush(&mut self) -> Result<(), SocketError> {
        while !self.session.output().is_empty() {
            self.stream.write_buf(self.session.output()).await?;
        }
        Ok(())
    }

    async fn event(&mut self) -> Result<Event, SocketError> {
        loop {
            if let Some(event) = self.session.handle(&mut self.input)? {
                return Ok(event);
            }
            let (mut reader, mut writer) = self.stream.split();
            let output = self.session.output();
            // What was read or written is in or out of the buffers by the time the other branch is dropped.
            let read = tokio::select! {
                read = reader.read_buf(&mut self.input) => read,
                written = writer.write_buf(output), if !output.is_empty() => {
                    written?;
                    continue;
                }
            };
            match (read, self.session.due()) {
                (Ok(1..), _) => {}
                (Ok(0), None) => return Err(SocketError::Closed),
                (Ok(0), Some(due)) => return Err(SocketError::ClosedInHandshake { due }),
                // Who closes with something unread resets the connection, and means the same.
                (Err(error), Some(due)) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Err(SocketError::ClosedInHandshake { due });
                }
                (Err(error), _) => return Err(error.into()),
            }
        }
    }
}
