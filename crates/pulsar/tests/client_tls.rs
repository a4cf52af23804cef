//! `pulsar+ssl://`: the broker is verified by its host, without its port.

mod support;

use carom::tls::Tls;
use carom_pulsar::wire::{Command, PartitionedMetadataResponse, PartitionedType};
use carom_pulsar::{BuildError, Client};
use std::sync::Arc;
use std::time::Duration;
use support::{tell, told_by};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer};

#[tokio::test]
async fn a_broker_is_verified_and_talked_to() {
    let certified = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            connections.spawn(async move {
                if let Ok(socket) = acceptor.accept(socket).await {
                    tell(socket, four_partitions, String::new()).await;
                }
            });
        }
    });
    let tls = Tls::builder().roots_pem(certified.cert.pem()).build().unwrap();
    let at = |host: &str| {
        let client = Client::builder(format!("pulsar+ssl://{host}:{port}")).operation_timeout(Duration::from_secs(5));
        client.tls(tls.clone()).build().unwrap()
    };
    assert_eq!(at("localhost").partitions("orders").await.unwrap(), 4);
    let stranger = at("127.0.0.1").partitions("orders").await.unwrap_err();
    assert!(told_by(&stranger).contains("not valid for `127.0.0.1`"), "{}", told_by(&stranger));
    let plain = Client::builder("pulsar://localhost").tls(tls.clone()).build();
    assert!(matches!(plain, Err(BuildError::Option { option: "tls", .. })));
}

fn four_partitions(command: &Command, _own: &str) -> Option<carom_pulsar::wire::BaseCommand> {
    let Command::PartitionedMetadata(asked) = command else { return None };
    let response = Some(PartitionedType::Success as i32);
    let (request_id, partitions) = (asked.request_id, Some(4));
    Some(PartitionedMetadataResponse { request_id, partitions, response, ..Default::default() }.into())
}
