//! A link: one TCP connection that is read and written at the same time.

use crate::error::SocketError;
use bytes::BytesMut;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) stream: TcpStream,
    /// What was read, and is not used yet.
    pub(crate) input: BytesMut,
    room: usize,
}

impl Link {
    /// At least so much is read at a time, if there is so much.
    pub(crate) fn new(stream: TcpStream, room: usize) -> io::Result<Link> {
        // Whoever writes has put together what can travel together.
        stream.set_nodelay(true)?;
        Ok(Link { stream, input: BytesMut::new(), room })
    }

    /// Reads some, or writes some of `output`; `due` is what the peer is to say before the handshake is over. Can be cancelled:
    /// nothing is lost, neither way.
    pub(crate) async fn exchange(
        &mut self,
        due: Option<&'static str>,
        output: &mut BytesMut,
    ) -> Result<(), SocketError> {
        self.input.reserve(self.room);
        let (mut reader, mut writer) = self.stream.split();
        // What was read or written is in or out of the buffers by the time the other branch is dropped.
        let read = tokio::select! {
            read = reader.read_buf(&mut self.input) => read,
            written = writer.write_buf(output), if !output.is_empty() => {
                written?;
                return Ok(());
            }
        };
        match (read, due) {
            (Ok(1..), _) => Ok(()),
            (Ok(0), None) => Err(SocketError::Closed),
            (Ok(0), Some(due)) => Err(SocketError::ClosedInHandshake { due }),
            // Who closes with something unread resets the connection, and means the same.
            (Err(error), Some(due)) if error.kind() == io::ErrorKind::ConnectionReset => {
                Err(SocketError::ClosedInHandshake { due })
            }
            (Err(error), _) => Err(error.into()),
        }
    }

    /// Writes all of `output`. Can be cancelled: the rest stays there.
    pub(crate) async fn flush(&mut self, output: &mut BytesMut) -> io::Result<()> {
        while !output.is_empty() {
            self.stream.write_buf(output).await?;
        }
        Ok(())
    }
}
