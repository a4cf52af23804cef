//! Health checks over TCP: connect, or send and expect.

use crate::Backend;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A backend that sends more than this without the expected bytes fails the check.
const MOST: usize = 64 * 1024;

pub(super) async fn send_expect(backend: Backend, send: Arc<[u8]>, expect: Arc<[u8]>) -> io::Result<()> {
    let mut stream = TcpStream::connect(backend.socket_addr()).await?;
    stream.write_all(&send).await?;
    let mut received = Vec::new();
    while !contains(&received, &expect) {
        if received.len() >= MOST {
            return Err(io::Error::other(format!("expected bytes not found in the first {MOST} bytes")));
        }
        if stream.read_buf(&mut received).await? == 0 {
            let found = String::from_utf8_lossy(&received[..received.len().min(100)]).escape_debug().to_string();
            let problem = format!("connection closed before the expected bytes; received \"{found}\"");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, problem));
        }
    }
    Ok(())
}

fn contains(received: &[u8], expect: &[u8]) -> bool {
    expect.is_empty() || received.windows(expect.len()).any(|window| window == expect)
}
