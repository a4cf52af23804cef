//! What the program shows at its admin address, asked for as a probe would.

use crate::ms;
use crate::sidecar::Sidecar;
use crate::until;
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Where it can be asked, as it says itself.
pub async fn address(sidecar: &Sidecar) -> SocketAddr {
    until(ms(30_000), async || {
        let said = sidecar.said();
        let found = said
            .lines()
            .find_map(|line| line.trim_start().strip_prefix("admin: http://")?.split('/').next()?.parse().ok());
        found.ok_or(format!("it does not say where:\n{said}"))
    })
    .await
}

/// The body of a good answer.
pub async fn get(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if head.starts_with("HTTP/1.1 200 ") { Ok(body.to_owned()) } else { Err(io::Error::other(head.to_owned())) }
}

/// A backend that sends back what it gets, for as long as the test runs.
pub async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                tokio::io::copy(&mut read, &mut write).await
            });
        }
    });
    address
}

/// Has a word sent back by whoever serves there.
pub async fn say(address: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"hello").await?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).await?;
    assert_eq!(&answer, b"hello");
    Ok(())
}
