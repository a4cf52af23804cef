//! Brokers behind TLS.

use super::client::{Client, full, greeting};
use bytes::BytesMut;
use carom_pulsar::wire::{Codec, Command, CommandType, Frame, Lookup};
use std::sync::Arc;
use testkit::pulsar::Cluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

#[tokio::test]
async fn who_trusts_the_root_is_served() {
    let cluster = Cluster::start_tls(2).await.unwrap();
    assert!(cluster.url(0).starts_with("pulsar+ssl://127.0.0.1:"));
    cluster.own("t", 1);
    let mut roots = RootCertStore::empty();
    let root = cluster.root_pem().unwrap();
    roots.add(CertificateDer::from_pem_slice(root.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(cluster.address(0)).await.unwrap();
    let name = ServerName::from(cluster.address(0).ip());
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();

    let (codec, mut bytes) = (Codec::default(), BytesMut::new());
    codec.encode(&Frame::from(greeting()), &mut bytes).unwrap();
    codec.encode(&Frame::from(Lookup { topic: full("t"), ..Lookup::default() }), &mut bytes).unwrap();
    stream.write_all(&bytes).await.unwrap();
    bytes.clear();
    let told = loop {
        match codec.decode(&mut bytes).unwrap().and_then(|frame| frame.command.body) {
            Some(Command::LookupResponse(told)) => break told,
            Some(_) => {}
            None => assert!(stream.read_buf(&mut bytes).await.unwrap() > 0),
        }
    };
    assert_eq!((told.broker_service_url, told.broker_service_url_tls), (None, Some(cluster.url(1))));
    cluster.disconnect(0);
    assert_eq!(stream.read_buf(&mut bytes).await.unwrap(), 0, "an orderly end");
}

#[tokio::test]
async fn who_does_not_speak_tls_is_closed() {
    let cluster = Cluster::start_tls(1).await.unwrap();
    let mut client = Client::raw(cluster.address(0)).await;
    client.say(greeting()).await;
    client.frame().await.unwrap_err();
    cluster.until(|cluster| cluster.connections(0) == 0).await;
    assert_eq!((cluster.accepted(0), cluster.heard(0, CommandType::Connect)), (1, 0));
}
