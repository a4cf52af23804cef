//! What somebody is answered who speaks HTTP but asks for no WebSocket, or does not speak HTTP at all.

use crate::wire::TOO_MUCH_READ;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::error::ProtocolError;

const UPGRADE_REQUIRED: &str = "426 Upgrade Required\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13";
const BAD_REQUEST: &str = "400 Bad Request";

/// So much is read of what somebody goes on to say.
const REST: usize = 1 << 20;

/// The answer to somebody whose upgrade has failed like that; `None` if it has its answer, or is gone.
pub(crate) fn answer(error: &Error) -> Option<String> {
    let (status, connection, body) = match error {
        Error::Protocol(
            ProtocolError::WrongHttpMethod
            | ProtocolError::WrongHttpVersion
            | ProtocolError::MissingConnectionUpgradeHeader
            | ProtocolError::MissingUpgradeWebSocketHeader
            | ProtocolError::MissingSecWebSocketVersionHeader,
        ) => (UPGRADE_REQUIRED, "Upgrade, close", "this is a WebSocket endpoint: connect with a WebSocket client\n"),
        Error::Http(_) => return None,
        Error::Io(error) if error.kind() != TOO_MUCH_READ => return None,
        _ => (BAD_REQUEST, "close", "this is a WebSocket endpoint, and what came is no request for an upgrade\n"),
    };
    Some(format!(
        "HTTP/1.1 {status}\r\nConnection: {connection}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

/// Says this and ends the connection, in at most `time`. What still comes is thrown away, up to an end: where it is not read,
/// the system takes back what was written.
pub(crate) async fn tell<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut S, answer: &str, time: Duration) {
    let told = async {
        socket.write_all(answer.as_bytes()).await?;
        socket.shutdown().await?;
        let (mut read, mut rest) = (0, vec![0; 4096]);
        while read < REST {
            match socket.read(&mut rest).await? {
                0 => break,
                more => read += more,
            }
        }
        io::Result::Ok(())
    };
    // Whoever does not listen, or does not stop talking, has had its chance.
    let _ = timeout(time, told).await;
}
