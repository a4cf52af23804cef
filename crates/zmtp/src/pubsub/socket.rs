//! A socket: a session on one TCP connection, which closes with it.

use super::session::{Encoded, Event, Limits, Role, Session};
use crate::error::{SocketError, ZmtpError};
use crate::link::Link;
use std::net::SocketAddr;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Messages come many at a time.
const ROOM: usize = 16 << 10;

/// One connection whose handshake is over: opened when it is made, closed when it is dropped, never made again by itself.
#[derive(Debug)]
pub struct Socket {
    link: Link,
    session: Session,
}

impl Socket {
    /// Connects to a peer of the other role, and waits until the handshake is over. Cancelled, it leaves nothing behind.
    ///
    /// # Errors
    /// When there is nobody, or somebody else.
    pub async fn connect(address: SocketAddr, role: Role, limits: Limits) -> Result<Socket, SocketError> {
        let stream = TcpStream::connect(address).await.map_err(|source| SocketError::Connect { address, source })?;
        Socket::open(stream, role, limits).await
    }

    /// Waits until the handshake is over with who has connected. Cancelled, it leaves nothing behind.
    ///
    /// # Errors
    /// When the peer is of the same role, or speaks something else.
    pub async fn open(stream: TcpStream, role: Role, limits: Limits) -> Result<Socket, SocketError> {
        let mut socket = Socket { link: Link::new(stream, ROOM)?, session: Session::new(role, limits) };
        // Nothing else happens before.
        while socket.next().await? != Event::Open {}
        socket.flush().await?;
        Ok(socket)
    }

    /// Waits for what the peer says, and writes what is in line meanwhile. Can be cancelled: nothing is lost, neither way.
    ///
    /// # Errors
    /// When the connection has ended.
    pub async fn next(&mut self) -> Result<Event, SocketError> {
        loop {
            if let Some(event) = self.session.handle(&mut self.link.input)? {
                return Ok(event);
            }
            self.link.exchange(self.session.due(), self.session.output()).await?;
        }
    }

    /// As [`next`](Self::next), but `None` as soon as what is in line has become less than so many bytes, if it was not at first: for
    /// whoever has more to write.
    ///
    /// # Errors
    /// When the connection has ended.
    pub async fn next_or_room(&mut self, bytes: usize) -> Result<Option<Event>, SocketError> {
        let full = self.unsent() >= bytes;
        loop {
            if let Some(event) = self.session.handle(&mut self.link.input)? {
                return Ok(Some(event));
            }
            if full && self.unsent() < bytes {
                return Ok(None);
            }
            self.link.exchange(self.session.due(), self.session.output()).await?;
        }
    }

    /// Puts a message in line; [`next`](Self::next) and [`flush`](Self::flush) write it.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn push(&mut self, message: &Encoded) -> Result<(), ZmtpError> {
        self.session.push(message)
    }

    /// Puts a subscription in line.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn subscribe(&mut self, prefix: &[u8]) -> Result<(), ZmtpError> {
        self.session.subscribe(prefix)
    }

    /// Puts in line that a subscription is taken back.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn unsubscribe(&mut self, prefix: &[u8]) -> Result<(), ZmtpError> {
        self.session.unsubscribe(prefix)
    }

    /// How many bytes are in line.
    pub fn unsent(&mut self) -> usize {
        self.session.output().len()
    }

    /// Writes what is in line. Can be cancelled: the rest stays in line.
    ///
    /// # Errors
    /// When the connection has ended.
    pub async fn flush(&mut self) -> Result<(), SocketError> {
        Ok(self.link.flush(self.session.output()).await?)
    }

    /// Writes what is in line, and says that nothing more will be. Can be cancelled: the rest stays in line.
    ///
    /// # Errors
    /// When the connection has ended.
    pub async fn finish(&mut self) -> Result<(), SocketError> {
        self.flush().await?;
        Ok(self.link.stream.shutdown().await?)
    }
}
