//! TLS towards backends: whom they must prove to be, by requests and by bytes.

use crate::proxying::Proxy;
use crate::serving::folder;
use std::net::SocketAddr;
use testkit::http::{Authority, Certificate, Server};
use testkit::wait::soon;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";

/// The table that says who vouches for backends, and whatever else.
fn trusting(test: &str, authority: &Authority, more: &str) -> String {
    let folder = folder(&format!("{test}-ca"), &[("ca.pem", &authority.pem())]);
    format!("tls = {{ ca = {:?}{more} }}", folder.join("ca.pem"))
}

/// What clients hear of a node with this certificate.
async fn answer(test: &str, authority: &Authority, certificate: &Certificate, more: &str) -> String {
    let node = Server::start_tls("node-1", certificate.serving(["h2", "http/1.1"])).await.unwrap();
    let name = if more.contains("host") { "" } else { ", server_name = \"named.test\"" };
    let more = format!("{}\n{more}", trusting(test, authority, name));
    Proxy::http(test, &[node.address()], &more).await.say(GET).await
}

#[tokio::test]
async fn a_backend_proves_to_be_who_it_is_said_to_be() {
    let authority = Authority::new();
    let certificate = authority.issue(["named.test"]);
    for (version, http2) in [("2 carom", "negotiate"), ("1.1 carom", "off")] {
        let more = format!("http2 = {http2:?}");
        let answer = answer(&format!("tls-name-{http2}"), &authority, &certificate, &more).await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("hello from node-1"), "{answer}");
        assert!(answer.contains(&format!("\r\nvia: {version}\r\n")), "{answer}");
    }
}

#[tokio::test]
async fn a_backend_with_a_host_proves_to_be_that() {
    let authority = Authority::new();
    let certificate = authority.issue(["api.test"]);
    let served = answer("tls-host", &authority, &certificate, "host = \"api.test:8443\"").await;
    assert!(served.starts_with("HTTP/1.1 200 "), "{served}");
    assert!(certificate.asked().iter().all(|name| name.as_deref() == Some("api.test")), "{:?}", certificate.asked());
    let refused = answer("tls-other", &authority, &certificate, "host = \"other.test\"").await;
    assert!(refused.starts_with("HTTP/1.1 502 ") && refused.contains("\"error\":\"tls\""), "{refused}");
}

#[tokio::test]
async fn a_stranger_is_told_nothing() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let answer = answer("tls-stranger", &authority, &stranger.issue(["named.test"]), "").await;
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("\"error\":\"tls\""), "{answer}");
}

/// Says back what it hears, over TLS.
async fn echo(certificate: &Certificate) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = TlsAcceptor::from(certificate.serving([]));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(socket).await else { return };
                let (mut reading, mut writing) = tokio::io::split(stream);
                let _ = tokio::io::copy(&mut reading, &mut writing).await;
                let _ = writing.shutdown().await;
            });
        }
    });
    address
}

#[tokio::test]
async fn a_session_goes_over_tls() {
    let authority = Authority::new();
    let address = echo(&authority.issue(["127.0.0.1"])).await;
    let proxy = Proxy::tcp("tls-tcp", &[address], &trusting("tls-tcp", &authority, "")).await;
    let mut client = proxy.connect().await;
    client.write_all(b"hello").await.unwrap();
    client.shutdown().await.unwrap();
    let mut heard = Vec::new();
    soon(client.read_to_end(&mut heard)).await.unwrap();
    assert_eq!(heard, b"hello");
    proxy.until("nobody", |service| service["clients"] == 0 && service["busy"] == 0).await;
}

#[tokio::test]
async fn a_session_with_a_stranger_is_none() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let address = echo(&stranger.issue(["127.0.0.1"])).await;
    let more = format!("{}\nattempts = 1\noutage_wait = 0", trusting("tls-tcp-stranger", &authority, ""));
    let proxy = Proxy::tcp("tls-tcp-stranger", &[address], &more).await;
    let mut client = proxy.connect().await;
    let mut heard = Vec::new();
    soon(client.read_to_end(&mut heard)).await.unwrap();
    assert!(heard.is_empty());
    assert_eq!(proxy.health().await["failed"], 1);
}
