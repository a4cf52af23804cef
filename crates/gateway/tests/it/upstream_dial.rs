//! Connections to upstreams: with TLS, to whoever is trusted, within bounds.

use carom_gateway::address::Address;
use carom_gateway::upstream::{Dial, DialError, Socket, UpstreamError};
use futures_util::{SinkExt, StreamExt};
use std::error::Error;
use std::time::Duration;
use testkit::backends::Nobody;
use testkit::http::{Authority, Certificate};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::http::StatusCode;

/// Says this to everybody, with this certificate if there is one; where it is.
async fn upstream(certificate: Option<Certificate>, says: Message) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let scheme = if certificate.is_some() { "wss" } else { "ws" };
    let address = format!("{scheme}://localhost:{}", listener.local_addr().unwrap().port());
    let acceptor = certificate.map(|certificate| TlsAcceptor::from(certificate.serving([])));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            match &acceptor {
                None => say(socket, says.clone()).await,
                Some(acceptor) => match acceptor.accept(socket).await {
                    Ok(socket) => say(socket, says.clone()).await,
                    Err(_) => continue,
                },
            }
        }
    });
    address.parse().unwrap()
}

async fn say(socket: impl AsyncRead + AsyncWrite + Unpin, says: Message) {
    if let Ok(mut socket) = accept_async(socket).await {
        let _ = socket.send(says).await;
        while let Some(Ok(_)) = socket.next().await {}
    }
}

async fn open(dial: &Dial) -> Result<Socket, UpstreamError> {
    timeout(Duration::from_secs(30), dial.open(dial.request()?)).await.expect("it hangs")
}

async fn heard(socket: &mut Socket) -> Result<Message, UpstreamError> {
    Ok(timeout(Duration::from_secs(30), socket.next()).await.expect("it hangs").expect("something is said")?)
}

#[tokio::test]
async fn upstreams_are_spoken_to_with_and_without_tls() {
    let authority = Authority::new();
    for certificate in [None, Some(authority.issue(["localhost"]))] {
        let dial = Dial::to(upstream(certificate.clone(), Message::text("hello")).await);
        let dial = if certificate.is_some() { dial.extra_roots(authority.pem()) } else { dial };
        let mut socket = open(&dial.build().unwrap()).await.unwrap();
        assert_eq!(heard(&mut socket).await.unwrap(), Message::text("hello"));
    }
}

#[tokio::test]
async fn only_who_is_trusted_is_spoken_to() {
    let (authority, another) = (Authority::new(), Authority::new());
    for certificate in
        [another.issue(["localhost"]), authority.issue(["elsewhere"]), authority.issue_expired(["localhost"])]
    {
        let address = upstream(Some(certificate), Message::text("hello")).await;
        let error = open(&Dial::to(address).extra_roots(authority.pem()).build().unwrap()).await.unwrap_err();
        assert!(matches!(error, UpstreamError::Tls(_)), "{error:?}");
        assert!(error.source().is_some_and(|cause| cause.to_string().contains("certificate")), "{error:?}");
    }
}

#[tokio::test]
async fn a_message_that_is_too_long_ends_the_connection() {
    let address = upstream(None, Message::binary(vec![0; 1_001])).await;
    let dial = |longest| Dial::to(address.clone()).longest_message(longest).build().unwrap();
    assert!(heard(&mut open(&dial(1_001)).await.unwrap()).await.is_ok());
    let error = heard(&mut open(&dial(1_000)).await.unwrap()).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Socket(_)), "{error:?}");
}

#[tokio::test]
async fn how_an_upstream_refuses_is_told_apart() {
    for (status, refused_with, expected) in [
        (401, StatusCode::UNAUTHORIZED, "the upstream refuses the credential: no"),
        (401, StatusCode::FORBIDDEN, "the upstream turns us away with 401: no"),
        (403, StatusCode::FORBIDDEN, "the upstream refuses the credential: no"),
        (429, StatusCode::FORBIDDEN, "the upstream allows no more connections: no"),
        (302, StatusCode::FORBIDDEN, "the upstream turns us away with 302: no"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("ws://{}", listener.local_addr().unwrap()).parse().unwrap();
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            assert!(socket.read(&mut request).await.unwrap() > 0);
            let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nno");
            socket.write_all(answer.as_bytes()).await.unwrap();
            // Until the other side has read it and gone.
            while socket.read(&mut request).await.is_ok_and(|read| read > 0) {}
        });
        let error = open(&Dial::to(address).refused_with(refused_with).build().unwrap()).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let nobody = Nobody::new().unwrap();
    let address = format!("ws://{}", nobody.address()).parse().unwrap();
    let error = open(&Dial::to(address).build().unwrap()).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Unreachable(_)), "{error:?}");
}

#[test]
fn roots_make_no_sense_without_tls() {
    let pem = Authority::new().pem();
    let error = Dial::to("ws://localhost".parse().unwrap()).extra_roots(pem).build().unwrap_err();
    assert!(matches!(error, DialError::RootsWithoutTls { .. }), "{error}");
    let error = Dial::to("wss://localhost".parse().unwrap()).extra_roots("nothing").build().unwrap_err();
    assert!(matches!(error, DialError::Tls(_)), "{error}");
}
