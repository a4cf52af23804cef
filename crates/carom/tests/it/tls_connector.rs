//! The TLS connector on real sockets: whom it trusts, what its errors say, and that ends are told from session tickets.

use crate::watch;
use carom::connect::{Connect, Liveness};
use carom::tls::{Builder, ConnectError, Stream, Tls, TlsError};
use carom::{Backend, ClaimError, Policy, Pool};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use std::collections::BTreeSet;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind, IoSlice};
use std::pin::{Pin, pin};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use std::{env, fs};
use testkit::wait::{LIMIT, soon};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, split};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet, spawn_blocking, yield_now};
use tokio::{join, spawn};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, HandshakeKind, ProtocolVersion, RootCertStore, ServerConfig, SupportedProtocolVersion,
};
use tokio_rustls::server::TlsStream;

const MEBIBYTE: usize = 1 << 20;

// Whom it trusts

#[tokio::test]
async fn a_server_with_a_certificate_of_an_own_root_is_trusted() {
    let authority = Authority::new("own");
    for (version, spoken) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)] {
        let server = Server::start(authority.config(version, ["localhost"])).await;
        for tls in [
            Tls::builder().roots_pem(authority.pem()).build().unwrap(),
            Tls::builder().root_der(authority.der().to_vec()).build().unwrap(),
        ] {
            let (mut stream, mut peer) = server.pair(&tls).await;
            ping(&mut stream, &mut peer).await;
            assert_eq!(peer.get_ref().1.protocol_version(), Some(spoken));
            assert_eq!(peer.get_ref().1.server_name(), Some("localhost"));
            assert_eq!(stream.peer_addr().unwrap(), server.backend.socket_addr());
            assert_eq!(stream.get_ref().local_addr().unwrap(), peer.get_ref().0.peer_addr().unwrap());
            assert_eq!(
                format!("{stream:?}"),
                format!("Stream {{ peer_addr: Some({}), alpn_protocol: None, .. }}", server.backend.socket_addr())
            );
        }
    }
}

#[tokio::test]
async fn the_systems_roots_are_the_default() {
    // The environment says where the system's roots are, and is a whole process's: the child is this test, too. It begins
    // a line of its own, as the harness may have begun one.
    const PORT: &str = "CAROM_TEST_TLS_PORT";
    if let Ok(port) = env::var(PORT) {
        match Tls::builder().build() {
            Ok(tls) => {
                match tls.connect(&Backend::new("localhost", ([127, 0, 0, 1], port.parse().unwrap()).into())).await {
                    Ok(_) => println!("\ntrusted"),
                    Err(error) => println!("\nuntrusted: {error}"),
                }
            }
            Err(error @ TlsError::NoPlatformRoots { .. }) => println!("\nno roots: {error}: {:?}", error.source()),
            Err(error) => println!("\n{error}"),
        }
        return;
    }

    let (authority, stranger) = (Authority::new("own"), Authority::new("stranger"));
    let server = Server::start(authority.config(&TLS13, ["localhost"])).await;
    let port = server.backend.port().to_string();
    let accepting = spawn(async move {
        loop {
            let _ = server.accept().await;
        }
    });
    let folder = env::temp_dir().join(format!("carom-tls-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for (name, text, says) in [
        ("own", authority.pem(), "trusted"),
        ("stranger", stranger.pem(), "untrusted: certificate of `localhost` is not trusted"),
        ("empty", String::new(), "no roots: this system has no root certificates"),
    ] {
        let roots = folder.join(name);
        fs::write(&roots, text).unwrap();
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--exact", "tls_connector::the_systems_roots_are_the_default", "--nocapture"]);
        child.env(PORT, &port).env("SSL_CERT_FILE", roots).env_remove("SSL_CERT_DIR");
        let output = soon(spawn_blocking(move || child.output())).await.unwrap().unwrap();
        let output = String::from_utf8_lossy(&output.stdout);
        assert!(output.lines().any(|line| line.starts_with(says)), "{name}: {output}");
    }
    fs::remove_dir_all(folder).unwrap();
    accepting.abort();
}

#[tokio::test]
async fn a_server_of_another_root_is_not() {
    let (authority, stranger) = (Authority::new("own"), Authority::new("stranger"));
    let server = Server::start(stranger.config(&TLS13, ["localhost"])).await;
    let error = server.refused_by(&authority.tls()).await;
    assert!(matches!(error, ConnectError::Untrusted { .. }), "{error:?}");
    assert!(error.to_string().starts_with("certificate of `localhost` is not trusted"), "{error}");

    let impostor = Authority::new("own");
    let server = Server::start(impostor.config(&TLS13, ["localhost"])).await;
    let error = server.refused_by(&authority.tls()).await;
    assert_eq!(error.to_string(), "certificate of `localhost` is not valid: BadSignature");
}

#[tokio::test]
async fn a_certificate_made_out_to_another_name_is_refused() {
    let authority = Authority::new("own");
    let server = Server::start(authority.config(&TLS13, ["other.test", "*.wild.test", "10.0.0.1"])).await;
    let error = server.refused_by(&authority.tls()).await;
    assert!(matches!(error, ConnectError::WrongName { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "certificate is not valid for `localhost`, only for `other.test`, `*.wild.test`, `10.0.0.1`"
    );

    let tls = authority.trusting().server_name("node-1.wild.test").build().unwrap();
    let (_, peer) = server.pair(&tls).await;
    assert_eq!(peer.get_ref().1.server_name(), Some("node-1.wild.test"));
}

#[tokio::test]
async fn a_backend_known_by_its_address_is_verified_by_it() {
    let authority = Authority::new("own");
    let server = Server::start(authority.config(&TLS13, ["127.0.0.1"])).await.known_as(Backend::fixed);
    server.pair(&authority.tls()).await;

    let server = Server::start(authority.config(&TLS13, ["localhost"])).await.known_as(Backend::fixed);
    let error = server.refused_by(&authority.tls()).await;
    assert_eq!(error.to_string(), "certificate is not valid for `127.0.0.1`, only for `localhost`");
}

#[tokio::test]
async fn a_backend_known_by_an_absolute_name_is_verified_by_it() {
    let authority = Authority::new("own");
    let server = Server::start(authority.config(&TLS13, ["db-1.test"])).await;
    let server = server.known_as(|address| Backend::new("db-1.test.", address));
    let (_, peer) = server.pair(&authority.tls()).await;
    assert_eq!(peer.get_ref().1.server_name(), Some("db-1.test"));
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let authority = Authority::new("own");
    let server = Server::start(authority.expired_config()).await;
    let error = server.refused_by(&authority.tls()).await;
    assert!(matches!(error, ConnectError::Certificate { .. }), "{error:?}");
    assert!(error.to_string().starts_with("certificate of `localhost` is not valid: certificate expired"), "{error}");
}

#[tokio::test]
async fn any_certificate_will_do_if_one_insists() {
    let authority = Authority::new("own");
    let tls = Tls::builder().dangerous_accept_any_certificate().build().unwrap();
    for config in
        [authority.config(&TLS12, ["other.test"]), authority.config(&TLS13, ["other.test"]), authority.expired_config()]
    {
        let server = Server::start(config).await;
        let (mut stream, mut peer) = server.pair(&tls).await;
        ping(&mut stream, &mut peer).await;
    }
}

#[tokio::test]
async fn a_configuration_is_used_as_it_is() {
    let authority = Authority::new("own");
    let server = Server::start(authority.config(&TLS13, ["localhost"])).await;
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(authority.store())
        .with_no_client_auth();
    config.enable_sni = false;
    let (_, peer) = server.pair(&Tls::builder().config(Arc::new(config)).build().unwrap()).await;
    assert_eq!(peer.get_ref().1.server_name(), None);
}

// Who it says it is

#[tokio::test]
async fn a_client_certificate_is_shown_to_servers_that_ask() {
    let authority = Authority::new("own");
    let (certificate, key) = authority.issue(CertificateParams::new(["client.test".into()]).unwrap());
    let tls = authority.trusting().client_certificate_pem(certificate.pem(), key.serialize_pem()).build().unwrap();
    for version in [&TLS12, &TLS13] {
        let server = Server::start(authority.config_asking_clients(version)).await;
        let (mut stream, mut peer) = server.pair(&tls).await;
        ping(&mut stream, &mut peer).await;
        let shown = peer.get_ref().1.peer_certificates().unwrap();
        assert_eq!(shown, [certificate.der().clone()]);
        assert!(tls.liveness(&mut stream).is_usable());
    }
}

#[tokio::test]
async fn a_missing_client_certificate_fails_the_connect_in_tls_1_2() {
    let authority = Authority::new("own");
    let server = Server::start(authority.config_asking_clients(&TLS12)).await;
    let error = server.refused_by(&authority.tls()).await;
    assert!(matches!(error, ConnectError::Refused { .. }), "{error:?}");
    assert_eq!(error.to_string(), "the server refused the tls handshake: CertificateRequired");
}

#[tokio::test]
async fn a_missing_client_certificate_ends_the_connection_in_tls_1_3() {
    let authority = Authority::new("own");
    let tls = authority.tls();
    let server = Server::start(authority.config_asking_clients(&TLS13)).await;

    let (stream, accepted) = soon(async { join!(tls.connect(&server.backend), server.accept()) }).await;
    let mut stream = stream.expect("the client's part of the handshake is done");
    accepted.unwrap_err();
    soon(watch(&tls, &stream)).await;
    let error = soon(stream.read_u8()).await.unwrap_err();
    assert_eq!(error.to_string(), "received fatal alert: CertificateRequired");
    assert!(!tls.liveness(&mut stream).is_usable());

    let (stream, accepted) = soon(async { join!(tls.connect(&server.backend), server.accept()) }).await;
    let mut stream = stream.unwrap();
    accepted.unwrap_err();
    soon(watch(&tls, &stream)).await;
    assert!(!tls.liveness(&mut stream).is_usable(), "the alert that nobody has read is seen");
    let error = soon(stream.read_u8()).await.unwrap_err();
    assert_eq!(error.to_string(), "received fatal alert: CertificateRequired");
}

#[tokio::test]
async fn application_protocols_are_agreed_on() {
    let authority = Authority::new("own");
    let tls = authority.trusting().alpn(["h2", "http/1.1"]).build().unwrap();
    let offering = |protocols: &[&str]| {
        let mut config = authority.config(&TLS13, ["localhost"]);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        config
    };

    let server = Server::start(offering(&["http/1.1"])).await;
    let (stream, _peer) = server.pair(&tls).await;
    assert_eq!(stream.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert!(format!("{stream:?}").contains(r#"alpn_protocol: Some("http/1.1")"#), "{stream:?}");

    let server = Server::start(offering(&[])).await;
    assert_eq!(server.pair(&tls).await.0.alpn_protocol(), None, "the server knows nothing of such offers");

    let server = Server::start(offering(&["mqtt"])).await;
    let error = server.refused_by(&tls).await;
    assert_eq!(error.to_string(), "the server refused the tls handshake: NoApplicationProtocol");
}

// Why it could not connect

#[tokio::test]
async fn a_refused_connect_says_so() {
    // Bound and not listening: nobody else can take the port meanwhile.
    let reserved = TcpSocket::new_v4().unwrap();
    reserved.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let backend = Backend::new("localhost", reserved.local_addr().unwrap());
    let error = soon(Authority::new("own").tls().connect(&backend)).await.unwrap_err();
    assert!(
        matches!(&error, ConnectError::Connect(error) if error.kind() == ErrorKind::ConnectionRefused),
        "{error:?}"
    );
    assert!(error.to_string().starts_with("Connection refused"), "{error}");
}

#[tokio::test]
async fn a_server_that_goes_away_or_speaks_no_tls_says_so() {
    let tls = Authority::new("own").tls();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let backend = Backend::new("localhost", listener.local_addr().unwrap());
    let (connected, ()) = soon(async {
        join!(tls.connect(&backend), async {
            let (mut peer, _) = listener.accept().await.unwrap();
            // Unread bytes would turn the end into a reset.
            assert!(peer.read(&mut [0; 4096]).await.unwrap() > 0);
        })
    })
    .await;
    let error = connected.unwrap_err();
    assert!(matches!(&error, ConnectError::Ended(error) if error.kind() == ErrorKind::UnexpectedEof), "{error:?}");
    assert_eq!(error.to_string(), "the connection ended during the tls handshake");
    assert!(error.source().is_some());

    let (connected, peer) = soon(async {
        join!(tls.connect(&backend), async {
            let (mut peer, _) = listener.accept().await.unwrap();
            peer.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
            peer
        })
    })
    .await;
    let error = connected.unwrap_err();
    assert!(error.to_string().starts_with("the tls handshake failed: received corrupt message"), "{error}");
    drop(peer);
}

// Tickets, and ends

#[tokio::test]
async fn tickets_that_nobody_reads_are_no_end() {
    let authority = Authority::new("own");
    let tls = authority.tls();
    let server = Server::start(authority.config(&TLS13, ["localhost"])).await;
    let (mut stream, mut peer) = server.pair(&tls).await;
    let mut watcher = pin!(watch(&tls, &stream));
    assert!(poll_once(watcher.as_mut()).await.is_pending());
    tickets(&stream).await;
    assert!(poll_once(watcher.as_mut()).await.is_pending());

    assert!(tls.liveness(&mut stream).is_usable());
    assert!(tls.liveness(&mut stream).is_usable());
    assert_eq!(waiting(&stream), 0, "they have been taken in");
    assert!(poll_once(watcher.as_mut()).await.is_pending());
    ping(&mut stream, &mut peer).await;
    assert!(tls.liveness(&mut stream).is_usable());
    drop(peer);
    soon(watcher).await;
    assert!(!tls.liveness(&mut stream).is_usable());
}

#[tokio::test]
async fn tickets_taken_in_shorten_the_next_handshake() {
    let authority = Authority::new("own");
    let tls = authority.tls();
    let server = Server::start(authority.config(&TLS13, ["localhost"])).await;
    let (mut stream, peer) = server.pair(&tls).await;
    assert_eq!(peer.get_ref().1.handshake_kind(), Some(HandshakeKind::Full));
    tickets(&stream).await;
    assert!(tls.liveness(&mut stream).is_usable());

    let (mut stream, mut peer) = server.pair(&tls.clone()).await;
    assert_eq!(peer.get_ref().1.handshake_kind(), Some(HandshakeKind::Resumed));
    ping(&mut stream, &mut peer).await;
}

#[tokio::test]
async fn the_end_of_file_and_a_reset_end_it() {
    let authority = Authority::new("own");
    let tls = authority.tls();
    for version in [&TLS12, &TLS13] {
        let server = Server::start(authority.config(version, ["localhost"])).await;
        for end in [End::Dropped, End::Reset, End::Goodbye] {
            for taken_in in [false, true] {
                let (mut stream, peer) = server.pair(&tls).await;
                if version.version == ProtocolVersion::TLSv1_3 {
                    tickets(&stream).await;
                }
                if taken_in {
                    assert!(tls.liveness(&mut stream).is_usable());
                }
                let mut watcher = pin!(watch(&tls, &stream));
                assert!(poll_once(watcher.as_mut()).await.is_pending());
                end.of(peer).await;
                soon(watcher).await;
                assert!(!tls.liveness(&mut stream).is_usable(), "{version:?} {end:?}");
                soon(watch(&tls, &stream)).await;

                let read = soon(stream.read(&mut [0])).await;
                match end {
                    End::Goodbye => assert_eq!(read.unwrap(), 0),
                    // What the question has used up of a reset is an end without a goodbye to whoever reads after it.
                    End::Dropped | End::Reset => assert_eq!(read.unwrap_err().kind(), ErrorKind::UnexpectedEof),
                }
            }
        }
    }
}

#[tokio::test]
async fn a_goodbye_without_an_end_of_file_is_noticed_when_asked() {
    let authority = Authority::new("own");
    let tls = authority.tls();
    for version in [&TLS12, &TLS13] {
        let server = Server::start(authority.config(version, ["localhost"])).await;
        let (mut stream, mut peer) = server.pair(&tls).await;
        ping(&mut stream, &mut peer).await;
        assert!(tls.liveness(&mut stream).is_usable());
        peer.get_mut().1.send_close_notify();
        peer.flush().await.unwrap();
        soon(stream.get_ref().get_ref().readable()).await.unwrap();
        eventually(|| !tls.liveness(&mut stream).is_usable());
        assert_eq!(soon(stream.read(&mut [0])).await.unwrap(), 0);
    }
}

#[test]
fn a_goodbye_behind_tickets_is_noticed_without_the_driver() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let authority = Authority::new("own");
    let tls = authority.tls();
    let (mut stream, peer) = runtime.block_on(async {
        let server = Server::start(authority.config(&TLS13, ["localhost"])).await;
        let (stream, mut peer) = server.pair(&tls).await;
        tickets(&stream).await;
        peer.shutdown().await.unwrap();
        (stream, peer)
    });
    // From here on the runtime is not entered, so its driver learns of nothing.
    eventually(|| !tls.liveness(&mut stream).is_usable());
    drop(peer);
}

#[tokio::test]
async fn a_late_reply_is_an_end_and_stays_unread() {
    let authority = Authority::new("own");
    let tls = authority.tls();
    for version in [&TLS12, &TLS13] {
        let server = Server::start(authority.config(version, ["localhost"])).await;
        let (mut stream, mut peer) = server.pair(&tls).await;
        assert!(tls.liveness(&mut stream).is_usable());
        peer.write_all(b"late").await.unwrap();
        peer.flush().await.unwrap();
        let closes = async {
            while tls.liveness(&mut stream).is_usable() {
                yield_now().await;
            }
        };
        soon(closes).await;

        let mut received = [0; 4];
        soon(stream.read_exact(&mut received)).await.unwrap();
        assert_eq!(&received, b"late");
        assert!(tls.liveness(&mut stream).is_usable(), "nothing waits any more");
        ping(&mut stream, &mut peer).await;
    }
}

#[tokio::test]
async fn connection_is_unanswered_until_application_bytes_were_read() {
    let authority = Authority::new("own");
    let (tls, careless) = (authority.tls(), authority.trusting().reuse_without_answer(true).build().unwrap());
    let greeted = authority.trusting().server_first(true).build().unwrap();
    for version in [&TLS12, &TLS13] {
        let server = Server::start(authority.config(version, ["localhost"])).await;
        let (mut stream, mut peer) = server.pair(&tls).await;
        match version.version {
            ProtocolVersion::TLSv1_3 => tickets(&stream).await,
            _ => assert!(matches!(tls.liveness(&mut stream), Liveness::Open), "a handshake has its answer"),
        }
        for vectored in [false, true] {
            match vectored {
                false => stream.write_all(b"request").await.unwrap(),
                true => assert_eq!(stream.write_vectored(&[IoSlice::new(b"request")]).await.unwrap(), 7),
            }
            assert!(matches!(tls.liveness(&mut stream), Liveness::Unanswered), "before the flush");
            stream.flush().await.unwrap();
            assert!(matches!(tls.liveness(&mut stream), Liveness::Unanswered), "tickets are no answer");
            assert!(matches!(greeted.liveness(&mut stream), Liveness::Unanswered));
            assert!(matches!(careless.liveness(&mut stream), Liveness::Open));
            soon(peer.read_exact(&mut [0; 7])).await.unwrap();
            peer.write_all(b"answer").await.unwrap();
            peer.flush().await.unwrap();
            soon(stream.read_exact(&mut [0; 6])).await.unwrap();
            assert!(matches!(tls.liveness(&mut stream), Liveness::Open));
        }
        stream.write_all(b"request").await.unwrap();
        stream.flush().await.unwrap();
        drop(peer);
        soon(watch(&tls, &stream)).await;
        assert!(!matches!(tls.liveness(&mut stream), Liveness::Unanswered), "the end is told before");
    }
}

#[tokio::test]
async fn connection_with_an_answer_still_to_come_does_not_go_back() {
    let authority = Authority::new("own");
    let server = Server::start(authority.config(&TLS13, ["localhost"])).await;
    let backend = server.backend.clone();
    let running = server.run();
    let pool = Pool::builder(authority.trusting().server_name("localhost").build().unwrap());
    let pool = pool.backends([backend.socket_addr()]).spares(1).maximum(1).build().unwrap();
    let mut claim = soon(pool.claim()).await.unwrap();
    claim.write_all(b"cut short").await.unwrap();
    claim.flush().await.unwrap();
    drop(claim);
    for uses in [1, 2] {
        let mut claim = soon(pool.claim()).await.unwrap();
        assert_eq!(claim.uses(), uses);
        soon(round_trip(&mut claim)).await.unwrap();
    }
    assert!(pool.snapshot().cause.is_none());
    running.abort();
}

#[tokio::test]
async fn what_is_left_of_a_reply_is_an_end() {
    let authority = Authority::new("own");
    let tls = authority.tls();
    let server = Server::start(authority.config(&TLS13, ["localhost"])).await;
    let (mut stream, mut peer) = server.pair(&tls).await;
    peer.write_all(b"a long reply").await.unwrap();
    let mut received = [0; 6];
    soon(stream.read_exact(&mut received)).await.unwrap();
    assert_eq!(waiting(&stream), 0, "the rest is decrypted already");
    assert!(!tls.liveness(&mut stream).is_usable());
    soon(stream.read_exact(&mut received)).await.unwrap();
    assert!(tls.liveness(&mut stream).is_usable());
}

#[tokio::test]
async fn a_server_that_may_speak_first_ends_only_at_the_end() {
    let authority = Authority::new("own");
    let tls = authority.trusting().server_first(true).build().unwrap();
    let server = Server::start(authority.config(&TLS13, ["localhost"])).await;
    let (mut stream, mut peer) = server.pair(&tls).await;
    let mut watcher = pin!(watch(&tls, &stream));
    peer.write_all(b"welcome").await.unwrap();
    peer.flush().await.unwrap();
    let mut received = [0; 3];
    soon(stream.read_exact(&mut received)).await.unwrap();
    assert!(tls.liveness(&mut stream).is_usable());
    assert!(poll_once(watcher.as_mut()).await.is_pending());

    drop(peer);
    soon(watcher).await;
    assert!(!tls.liveness(&mut stream).is_usable(), "the end behind the bytes was seen");
    let mut rest = Vec::new();
    assert_eq!(soon(stream.read_to_end(&mut rest)).await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(rest, b"come");
}

#[tokio::test]
async fn bytes_in_front_of_the_end_are_unread_and_tickets_are_not() {
    let authority = Authority::new("own");
    let tls = authority.trusting().server_first(true).build().unwrap();
    let server = Server::start(authority.config(&TLS13, ["localhost"])).await;
    for greets in [false, true] {
        let (mut stream, mut peer) = server.pair(&tls).await;
        tickets(&stream).await;
        assert!(!tls.has_unread(&mut stream));
        if greets {
            peer.write_all(b"welcome").await.unwrap();
        }
        peer.shutdown().await.unwrap();
        drop(peer);
        soon(watch(&tls, &stream)).await;
        assert_eq!(tls.has_unread(&mut stream), greets);
        assert!(!tls.liveness(&mut stream).is_usable());
    }
}

#[tokio::test]
async fn tickets_do_not_make_a_watcher_spin() {
    let authority = Authority::new("own");
    let tls = authority.tls();
    let server = Server::start(authority.config(&TLS13, ["localhost"])).await;
    let (stream, _peer) = server.pair(&tls).await;
    tickets(&stream).await;
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut watcher = pin!(watch(&tls, &stream));
    assert!(watcher.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let before = wakes.count();

    // Round trips elsewhere make the driver look at every socket again and again. A watcher that looks at its own once a second
    // is woken in few of them.
    let (mut elsewhere, mut far) = server.pair(&tls).await;
    for _ in 0..100 {
        ping(&mut elsewhere, &mut far).await;
        yield_now().await;
        assert!(watcher.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert!(wakes.count() - before < 50, "{} wake-ups", wakes.count() - before);
    assert!(waiting(&stream) > 0, "the watcher has consumed nothing");
}

// Use, and goodbyes

#[tokio::test]
async fn a_mebibyte_goes_round_while_the_stream_is_watched() {
    let authority = Authority::new("own");
    let tls = authority.tls();
    for version in [&TLS12, &TLS13] {
        let server = Server::start(authority.config(version, ["localhost"])).await;
        let (stream, peer) = server.pair(&tls).await;
        let never_polled = watch(&tls, &stream);
        let watcher = spawn(watch(&tls, &stream));
        let echo = spawn(echo(peer));
        let sent: Vec<u8> = (0..MEBIBYTE).map(|position| (position * 31 % 251) as u8).collect();
        let mut received = Vec::new();
        let (mut read, mut write) = split(stream);
        let (written, all) = soon(async {
            join!(
                async {
                    write.write_all(&sent).await?;
                    write.shutdown().await
                },
                read.read_to_end(&mut received)
            )
        })
        .await;
        written.unwrap();
        assert_eq!(all.unwrap(), MEBIBYTE);
        assert!(sent == received);
        soon(echo).await.unwrap().unwrap();
        soon(watcher).await.unwrap();
        drop(never_polled);
    }
}

#[tokio::test]
async fn a_stream_that_was_shut_down_is_not_lent_again() {
    let authority = Authority::new("own");
    let tls = authority.tls();
    let server = Server::start(authority.config(&TLS13, ["localhost"])).await;
    let (mut stream, mut peer) = server.pair(&tls).await;
    soon(stream.shutdown()).await.unwrap();
    assert!(!tls.liveness(&mut stream).is_usable());
    assert_eq!(soon(peer.read(&mut [0])).await.unwrap(), 0);
}

#[tokio::test]
async fn closing_says_goodbye() {
    let authority = Authority::new("own");
    let tls = authority.tls();
    for version in [&TLS12, &TLS13] {
        let server = Server::start(authority.config(version, ["localhost"])).await;
        for watched in [false, true] {
            let (mut stream, mut peer) = server.pair(&tls).await;
            if version.version == ProtocolVersion::TLSv1_3 {
                tickets(&stream).await;
            }
            let watcher = watched.then(|| watch(&tls, &stream));
            stream.write_all(b"last words").await.unwrap();
            soon(tls.close(stream)).await;
            let mut received = String::new();
            soon(peer.read_to_string(&mut received)).await.expect("a clean end");
            assert_eq!(received, "last words");

            // Nor did the tickets that nobody had read turn the end into a reset.
            let (mut socket, _) = peer.into_inner();
            assert_eq!(soon(socket.read(&mut [0])).await.unwrap(), 0);
            assert!(socket.take_error().unwrap().is_none());
            drop(watcher);
        }
    }
}

#[tokio::test]
async fn a_pool_goes_on_when_one_of_two_servers_is_stopped() {
    let authority = Authority::new("own");
    let mut nodes = Vec::new();
    for name in ["one.test", "two.test"] {
        let server = Server::start(authority.config(&TLS13, [name])).await;
        nodes.push(server.known_as(|address| Backend::new(name, address)));
    }
    let backends: Vec<_> = nodes.iter().map(|node| node.backend.clone()).collect();
    let mut running: Vec<_> = nodes.into_iter().map(Server::run).collect();
    let pool = Pool::builder(authority.tls()).backends(backends.clone()).spares(2).maximum(4).build().unwrap();

    let mut served = BTreeSet::new();
    soon(async {
        while served.len() < 2 {
            let mut claims = vec![pool.claim().await.unwrap(), pool.claim().await.unwrap()];
            for claim in &mut claims {
                round_trip(claim).await.unwrap();
                served.insert(claim.backend().clone());
            }
        }
    })
    .await;

    let stopped = running.swap_remove(0);
    stopped.abort();
    let _ = stopped.await;
    let mut in_a_row = 0;
    soon(async {
        while in_a_row < 100 {
            let mut claim = pool.claim().await.expect("the other one serves");
            match round_trip(&mut claim).await {
                Ok(()) => {
                    assert_eq!(*claim.backend(), backends[1]);
                    in_a_row += 1;
                }
                // It was claimed before anyone could know.
                Err(error) => {
                    assert_eq!(*claim.backend(), backends[0]);
                    claim.fail(error);
                    in_a_row = 0;
                }
            }
        }
    })
    .await;
    assert!(soon(pool.drain(Instant::now() + Duration::from_secs(20))).await.is_complete());
}

#[tokio::test]
async fn a_claim_that_fails_says_what_is_wrong_with_the_certificate() {
    let (authority, stranger) = (Authority::new("own"), Authority::new("stranger"));
    let server = Server::start(stranger.config(&TLS13, ["localhost"])).await;
    let backend = server.backend.clone();
    let running = server.run();
    let once = Policy::default().attempts(1);
    let pool = Pool::builder(authority.tls()).backends([backend]).recovery(once).outage_wait(Duration::ZERO);
    let pool = pool.build().unwrap();
    let error = soon(pool.claim()).await.unwrap_err();
    assert!(matches!(error, ClaimError::Failed { .. }), "{error:?}");
    assert!(error.to_string().contains("certificate of `localhost` is not trusted"), "{error}");
    let source = error.source().and_then(|source| source.downcast_ref::<ConnectError>());
    assert!(matches!(source, Some(ConnectError::Untrusted { .. })), "{source:?}");
    running.abort();
}

/// Issues the certificates of one test.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn der(&self) -> &CertificateDer<'static> {
        self.0.der()
    }

    fn store(&self) -> RootCertStore {
        let mut store = RootCertStore::empty();
        store.add(self.der().clone()).unwrap();
        store
    }

    fn issue(&self, params: CertificateParams) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.0).unwrap(), key)
    }

    /// A connector that trusts it.
    fn trusting(&self) -> Builder {
        Tls::builder().roots_pem(self.pem())
    }

    fn tls(&self) -> Tls {
        self.trusting().build().unwrap()
    }

    /// A server with a certificate for these names.
    fn config<const N: usize>(&self, version: &'static SupportedProtocolVersion, names: [&str; N]) -> ServerConfig {
        self.config_of(version, CertificateParams::new(names.map(String::from)).unwrap(), false)
    }

    fn expired_config(&self) -> ServerConfig {
        let mut params = CertificateParams::new(["localhost".into()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
        self.config_of(&TLS13, params, false)
    }

    fn config_asking_clients(&self, version: &'static SupportedProtocolVersion) -> ServerConfig {
        self.config_of(version, CertificateParams::new(["localhost".into()]).unwrap(), true)
    }

    fn config_of(
        &self,
        version: &'static SupportedProtocolVersion,
        params: CertificateParams,
        asks_clients: bool,
    ) -> ServerConfig {
        let provider = Arc::new(ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(&[version]).unwrap();
        let builder = if asks_clients {
            let roots = Arc::new(self.store());
            builder.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(roots, provider).build().unwrap(),
            )
        } else {
            builder.with_no_client_auth()
        };
        let (certificate, key) = self.issue(params);
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        builder.with_single_cert(vec![certificate.der().clone()], key).unwrap()
    }
}

/// A server on loopback, known as `localhost`.
struct Server {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    backend: Backend,
}

impl Server {
    async fn start(config: ServerConfig) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let backend = Backend::new("localhost", listener.local_addr().unwrap());
        Server { listener, acceptor: TlsAcceptor::from(Arc::new(config)), backend }
    }

    fn known_as(mut self, backend: impl FnOnce(std::net::SocketAddr) -> Backend) -> Server {
        self.backend = backend(self.backend.socket_addr());
        self
    }

    async fn accept(&self) -> io::Result<TlsStream<TcpStream>> {
        let (socket, _) = self.listener.accept().await?;
        self.acceptor.accept(socket).await
    }

    async fn pair(&self, tls: &Tls) -> (Stream, TlsStream<TcpStream>) {
        let (stream, accepted) = soon(async { join!(tls.connect(&self.backend), self.accept()) }).await;
        (stream.unwrap(), accepted.unwrap())
    }

    /// Why a connect fails. The server's part of the handshake fails, too.
    async fn refused_by(&self, tls: &Tls) -> ConnectError {
        let (stream, accepted) = soon(async { join!(tls.connect(&self.backend), self.accept()) }).await;
        accepted.unwrap_err();
        stream.unwrap_err()
    }

    /// Echoes until it is aborted; its connections end then, too.
    fn run(self) -> JoinHandle<()> {
        spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (socket, _) = self.listener.accept().await.unwrap();
                let accepting = self.acceptor.accept(socket);
                connections.spawn(async move { echo(accepting.await?).await });
            }
        })
    }
}

/// How a server ends a connection.
#[derive(Clone, Copy, Debug)]
enum End {
    Goodbye,
    Dropped,
    Reset,
}

impl End {
    async fn of(self, mut peer: TlsStream<TcpStream>) {
        match self {
            End::Goodbye => peer.shutdown().await.unwrap(),
            End::Dropped => {}
            End::Reset => peer.get_ref().0.set_zero_linger().unwrap(),
        }
    }
}

async fn echo(peer: TlsStream<TcpStream>) -> io::Result<()> {
    let (mut read, mut write) = split(peer);
    copy(&mut read, &mut write).await?;
    write.shutdown().await
}

/// A byte each way.
async fn ping(stream: &mut Stream, peer: &mut TlsStream<TcpStream>) {
    soon(async {
        stream.write_u8(1).await.unwrap();
        stream.flush().await.unwrap();
        assert_eq!(peer.read_u8().await.unwrap(), 1);
        peer.write_u8(2).await.unwrap();
        peer.flush().await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), 2);
    })
    .await;
}

/// A few bytes to a server that echoes, and back.
async fn round_trip(stream: &mut Stream) -> io::Result<()> {
    stream.write_all(b"hello").await?;
    stream.flush().await?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).await?;
    assert_eq!(&answer, b"hello");
    Ok(())
}

/// Returns when session tickets wait on the socket.
async fn tickets(stream: &Stream) {
    soon(stream.get_ref().get_ref().readable()).await.unwrap();
    assert!(waiting(stream) > 0);
}

/// How many encrypted bytes wait on the socket, as far as a small buffer can tell.
fn waiting(stream: &Stream) -> usize {
    let socket = socket2::SockRef::from(stream.get_ref().get_ref());
    match socket.peek(&mut [std::mem::MaybeUninit::uninit(); 16]) {
        Ok(waiting) => waiting,
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        Err(error) => panic!("{error}"),
    }
}

/// Asks until it is so, without the runtime: what is asked for is on its way through the system.
fn eventually(mut so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !so() {
        assert!(started.elapsed() < LIMIT, "it never came");
        std::thread::yield_now();
    }
}

async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wakes {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
