//! A socket: a session on one TCP connection, which closes with it.

use super::handshake::Fresh;
use super::keys::{CurveKey, KeyPair};
use super::session::{Event, Session};
use crate::error::{SocketError, ZmtpError};
use crate::link::Link;
use bytes::Bytes;
use std::io;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// Messages are short and come one by one, and there may be many sockets.
const ROOM: usize = 64;

/// One connection with an open channel: opened when it is made, closed when it is dropped, never made again by itself.
#[derive(Debug)]
pub struct Socket {
    link: Link,
    session: Session,
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
        let mut socket = Socket { link: Link::new(stream, ROOM)?, session, identity: Bytes::new() };
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
        self.link.stream.local_addr()
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
        Ok(self.link.flush(self.session.output()).await?)
    }

    async fn event(&mut self) -> Result<Event, SocketError> {
        loop {
            if let Some(event) = self.session.handle(&mut self.link.input)? {
                return Ok(event);
            }
            self.link.exchange(self.session.due(), self.session.output()).await?;
        }
    }
}
