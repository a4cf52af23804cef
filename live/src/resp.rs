//! RESP, the protocol of redis, spoken by hand over any stream: one request, one reply.

use crate::AnyError;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Sends a command and reads its reply, which must be a string, a number or a status. What the server refuses is an error
/// in its own words.
///
/// Bytes after the reply are an error too: nobody asked for them, so they belong to somebody else.
pub async fn command<S>(stream: &mut S, words: &[&str]) -> Result<String, AnyError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request += &format!("${}\r\n{word}\r\n", word.len());
    }
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut received = Vec::new();
    loop {
        if let Some((reply, length)) = parse(&received)? {
            if length != received.len() {
                return Err(format!("{} bytes after the reply", received.len() - length).into());
            }
            return reply;
        }
        if stream.read_buf(&mut received).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
}

type Reply = Result<String, AnyError>;

/// A whole reply and how many bytes it takes, if it is there.
fn parse(received: &[u8]) -> Result<Option<(Reply, usize)>, AnyError> {
    let Some(end) = received.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let (line, after) = (String::from_utf8_lossy(&received[1..end]).into_owned(), end + 2);
    match received[0] {
        b'+' | b':' => Ok(Some((Ok(line), after))),
        b'-' => Ok(Some((Err(line.into()), after))),
        b'$' => {
            let length: usize = line.parse()?;
            let whole = after + length + 2;
            if received.len() < whole {
                return Ok(None);
            }
            Ok(Some((Ok(String::from_utf8_lossy(&received[after..after + length]).into_owned()), whole)))
        }
        other => Err(format!("a reply of an unexpected type: {:?}", char::from(other)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    async fn reply(bytes: &'static [u8]) -> Result<String, AnyError> {
        let (mut near, mut far) = duplex(1024);
        tokio::spawn(async move {
            let mut request = [0; 14];
            far.read_exact(&mut request).await.unwrap();
            assert_eq!(&request, b"*1\r\n$4\r\nPING\r\n");
            for byte in bytes {
                far.write_all(&[*byte]).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        command(&mut near, &["PING"]).await
    }

    #[tokio::test]
    async fn replies_are_read_however_they_arrive() {
        assert_eq!(reply(b"+PONG\r\n").await.unwrap(), "PONG");
        assert_eq!(reply(b":12\r\n").await.unwrap(), "12");
        assert_eq!(reply(b"$4\r\na\r\nb\r\n").await.unwrap(), "a\r\nb");
        assert_eq!(
            reply(b"-NOAUTH Authentication required.\r\n").await.unwrap_err().to_string(),
            "NOAUTH Authentication required."
        );
        assert_eq!(reply(b"$4\r\na").await.unwrap_err().to_string(), "unexpected end of file");
        assert!(reply(b"*0\r\n").await.is_err());
    }
}
