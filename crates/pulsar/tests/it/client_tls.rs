//! `pulsar+ssl://` and tokens: messages go through, and who is not who they should be is told apart by type.

use crate::support::{Teller, client, in_time, numbers, told_by, usual};
use carom::tls::{ConnectError, Tls};
use carom_pulsar::wire::{AuthChallenge, BaseCommand, Codec, Command, CommandType, Connected, Frame};
use carom_pulsar::{BuildError, Builder, Client, ConnectionError, Error, ServerError};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::pulsar::{Answer, Cluster, On};

fn trusting(root: &str) -> Tls {
    Tls::builder().roots_pem(root).build().unwrap()
}

fn at(cluster: &Cluster, host: &str, root: &str) -> Builder {
    let url = format!("pulsar+ssl://{host}:{}", cluster.address(0).port());
    Client::builder(url).operation_timeout(Duration::from_secs(10)).tls(trusting(root))
}

/// Why no connection could be made.
fn cause(error: &Error) -> &ConnectionError {
    let Error::Lease(lease) = error else { panic!("{}", told_by(error)) };
    std::error::Error::source(lease).and_then(|cause| cause.downcast_ref()).expect("a lease says why it failed")
}

fn frames(commands: impl IntoIterator<Item = BaseCommand>) -> Vec<u8> {
    let mut bytes = bytes::BytesMut::new();
    commands.into_iter().for_each(|command| Codec::default().encode(&Frame::from(command), &mut bytes).unwrap());
    bytes.to_vec()
}

#[tokio::test]
async fn with_tls_and_a_token_messages_go_through_and_follow_their_topic() {
    let cluster = Cluster::start_tls(2).await.unwrap();
    cluster.require_token("sesame");
    cluster.own("orders", 0);
    let root = cluster.root_pem().unwrap();
    let client = at(&cluster, "localhost", root).token("sesame").build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    for number in 0..20 {
        if number == 10 {
            cluster.unload("orders", 1);
        }
        producer.send(format!("{number}")).await.unwrap();
    }
    assert_eq!(numbers(&mut consumer, 20).await, (0..20).collect::<Vec<_>>());
    assert_eq!(cluster.backlog("orders", "kitchen"), Some(0));
    assert_eq!(cluster.connections(1), 1);
    client.close().await;
}

#[tokio::test]
async fn a_broker_that_a_wrong_root_vouches_for_is_not_trusted_and_not_tried_again() {
    let cluster = Cluster::start_tls(1).await.unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap().cert.pem();
    let client = at(&cluster, "127.0.0.1", &other).token("sesame").build().unwrap();
    let error = in_time(client.producer("orders")).await.unwrap_err();
    let untrusted = matches!(cause(&error), ConnectionError::Tls(ConnectError::Untrusted { .. }));
    assert!(untrusted, "{}", told_by(&error));
    assert_eq!(cluster.heard(0, CommandType::Connect), 0, "it was not shown the token");
}

#[tokio::test]
async fn a_broker_of_another_name_is_not_trusted() {
    let cluster = Cluster::start_tls(1).await.unwrap();
    let hosts = std::env::temp_dir().join(format!("carom-pulsar-{}-hosts", std::process::id()));
    std::fs::write(&hosts, "127.0.0.1 broker.test\n").unwrap();
    let client = at(&cluster, "broker.test", cluster.root_pem().unwrap());
    let client = client.dns(carom::dns::DnsOptions::default().hosts(&hosts)).build().unwrap();
    let error = in_time(client.producer("orders")).await.unwrap_err();
    std::fs::remove_file(hosts).unwrap();
    let wrong = matches!(cause(&error), ConnectionError::Tls(ConnectError::WrongName { .. }));
    assert!(wrong, "{}", told_by(&error));
    assert!(told_by(&error).contains("not valid for `broker.test`"), "{}", told_by(&error));
}

#[tokio::test]
async fn a_wrong_token_and_none_are_refused_over_tls() {
    let cluster = Cluster::start_tls(1).await.unwrap();
    cluster.require_token("sesame");
    let root = cluster.root_pem().unwrap();
    for client in [at(&cluster, "localhost", root).token("open"), at(&cluster, "localhost", root)] {
        let error = in_time(client.build().unwrap().producer("orders")).await.unwrap_err();
        let refused = matches!(cause(&error), ConnectionError::Refused { error: ServerError::Authentication, .. });
        assert!(refused, "{}", told_by(&error));
    }
}

#[tokio::test]
async fn who_speaks_tls_to_a_broker_that_does_not_is_told_so() {
    let (cluster, other) = (Cluster::start(1).await.unwrap(), Cluster::start_tls(1).await.unwrap());
    let client = at(&cluster, "127.0.0.1", other.root_pem().unwrap());
    let client = client.operation_timeout(Duration::from_secs(3)).build().unwrap();
    let error = in_time(client.partitions("orders")).await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { source: Some(_), .. }), "{}", told_by(&error));
    assert!(told_by(&error).contains("tls handshake"), "{}", told_by(&error));
}

#[tokio::test]
async fn tls_without_an_address_for_it_is_refused() {
    let other = Cluster::start_tls(1).await.unwrap();
    let plain = Client::builder("pulsar://localhost").tls(trusting(other.root_pem().unwrap())).build();
    assert!(matches!(plain, Err(BuildError::Option { option: "tls", .. })));
}

#[tokio::test]
async fn a_broker_that_wants_to_know_again_is_told_the_token_of_that_moment() {
    let cluster = Cluster::start(1).await.unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let token = move || format!("token {}", counted.fetch_add(1, Ordering::Relaxed));
    // Once before the handshake is over, then in the middle of everything.
    let connected = Connected { max_message_size: Some(1024 * 1024), ..Connected::default() };
    let greeting = frames([AuthChallenge::default().into(), connected.into()]);
    cluster.answer(On::Anywhere, CommandType::Connect, Answer::Bytes(greeting));
    let client = client(&cluster).token_from(token).build().unwrap();
    let mut consumer = client.consumer("orders", "kitchen").await.unwrap();
    let producer = client.producer("orders").await.unwrap();
    let challenge = frames([AuthChallenge::default().into()]);
    for number in 0..10 {
        let sending = producer.send(format!("{number}"));
        cluster.inject(0, &challenge);
        sending.await.unwrap();
    }
    assert_eq!(numbers(&mut consumer, 10).await, (0..10).collect::<Vec<_>>());
    in_time(cluster.until(|cluster| cluster.heard(0, CommandType::AuthResponse) == 11)).await;
    assert_eq!((asked.load(Ordering::Relaxed), cluster.accepted(0)), (12, 1));
}

#[tokio::test]
async fn a_broker_that_wants_to_know_who_has_no_token_is_left_and_quoted() {
    let teller = Teller::start(|command, url| match command {
        Command::Lookup(_) => vec![AuthChallenge::default().into()],
        command => usual(command, url),
    })
    .await;
    let client = Client::builder(&teller.url).operation_timeout(Duration::from_secs(3)).build().unwrap();
    let error = in_time(client.producer("orders")).await.unwrap_err();
    assert!(told_by(&error).contains("wants a token, and there is none"), "{}", told_by(&error));
}

#[tokio::test]
async fn a_token_that_panics_ends_the_connection_and_nobody_waits() {
    let cluster = Cluster::start(1).await.unwrap();
    let asked = AtomicUsize::new(0);
    let token = move || match asked.fetch_add(1, Ordering::Relaxed) {
        1 => panic!("there is no token today"),
        _ => "sesame".to_owned(),
    };
    let client = client(&cluster).token_from(token).build().unwrap();
    let producer = client.producer("orders").await.unwrap();
    cluster.inject(0, &frames([AuthChallenge::default().into()]));
    in_time(cluster.until(|cluster| cluster.accepted(0) == 2)).await;
    in_time(producer.send("0")).await.unwrap();
}
