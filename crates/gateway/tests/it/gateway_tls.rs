//! Clients over TLS.

use crate::gateway_stage::{Client, LONG, NEVER, Stage, try_connect};
use carom_core::feed::Mode;
use carom_gateway::{Builder, Gateway, StartError};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_tungstenite::client_async;

/// PEM files in a folder of their own, gone with it.
struct Files {
    folder: PathBuf,
    root: CertificateDer<'static>,
}

impl Files {
    fn new(name: &str) -> Files {
        let folder = std::env::temp_dir().join(format!("carom-gateway-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(folder.join("chain.pem"), made.cert.pem()).unwrap();
        std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        Files { folder, root: made.cert.der().clone() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[tokio::test]
async fn clients_are_served_over_tls_and_nothing_else() {
    let files = Files::new("tls");
    let stage = Stage::with(|gateway| gateway.tls(files.path("chain.pem"), files.path("key.pem"))).await;
    let mut roots = RootCertStore::empty();
    roots.add(files.root.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = TcpStream::connect(stage.address()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap();
    let (socket, _) = client_async("wss://localhost/", tls).await.unwrap();
    let mut client = Client { socket };
    let reply = client.ask(json!({"action": "authenticate", "api_key": stage.key})).await;
    assert_eq!(reply["status"], "success");
    client.subscribe("SBIN", "LTP").await;
    for price in 1..=100 {
        stage.tick("SBIN", Mode::Ltp, price);
        assert_eq!(client.next().await["data"]["ltp"], price);
    }
    assert!(try_connect(stage.address()).await.is_err(), "without TLS there is nothing");
}

#[tokio::test]
async fn whoever_never_finishes_the_handshake_is_closed_and_holds_up_nobody() {
    let files = Files::new("tls-mute");
    let options = |gateway: Builder| {
        gateway.tls(files.path("chain.pem"), files.path("key.pem")).auth_grace(Duration::from_secs(1))
    };
    let stage = Stage::with(options).await;
    let (mut mute, mut begins) =
        (TcpStream::connect(stage.address()).await.unwrap(), TcpStream::connect(stage.address()).await.unwrap());
    // The head of a first message that never comes.
    begins.write_all(&[0x16, 3, 1, 2, 0, 1]).await.unwrap();
    stage.until(|snapshot| snapshot.clients == 2).await;
    for tcp in [&mut mute, &mut begins] {
        let ended = timeout(LONG, tcp.read_to_end(&mut Vec::new())).await.expect("in time");
        assert!(ended.is_err() || ended.is_ok_and(|read| read == 0));
    }
    stage.until(|snapshot| snapshot.clients == 0).await;

    let _late = TcpStream::connect(stage.address()).await.unwrap();
    stage.until(|snapshot| snapshot.clients == 1).await;
    timeout(LONG, stage.gateway.stop(Instant::now() + NEVER)).await.expect("a stop does not wait for it");
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let files = Files::new("tls-errors");
    let tls = async |chain: &str, key: &str| {
        Gateway::builder().listen(([127, 0, 0, 1], 0)).tls(files.path(chain), files.path(key)).start().await
    };
    for (chain, key, told) in [
        ("none.pem", "key.pem", "no certificate in"),
        ("key.pem", "key.pem", "no certificate in"),
        ("chain.pem", "chain.pem", "no private key in"),
    ] {
        match tls(chain, key).await {
            Err(StartError::Tls(error)) => assert!(error.to_string().starts_with(told), "{error}"),
            other => panic!("{other:?}"),
        }
    }
    assert!(tls("chain.pem", "key.pem").await.is_ok());
}
