//! TLS to real redis-servers: killed under load, with roots of their own, and with certificates for clients.

use carom::connect::Connect;
use carom::pool::State;
use carom::tls::{Builder, Tls};
use carom::{Backend, ClaimError, Pool};
use carom_live::certificates::Authority;
use carom_live::counted::Counted;
use carom_live::echo::Echo;
use carom_live::load::{PATIENCE, Stalls};
use carom_live::redis::{Clients, Redis};
use carom_live::rest::{self, RECOVERY, Sizes, Trial, assert_refused, policy};
use carom_live::storm::Storm;
use carom_live::table::millis;
use carom_live::{Server, load_time, ms, seed};

fn trusting(authority: &Authority) -> Builder {
    Tls::builder().roots_pem(authority.pem())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_killed_in_turn_under_load() {
    let (seed, time) = (seed(), load_time(0.1));
    println!("CAROM_SEED={seed}");
    let authority = Authority::new("own");
    let tls = trusting(&authority).build().unwrap();
    let mut servers = Vec::new();
    for _ in 0..2 {
        servers.push(Redis::start_tls(&authority.identity("127.0.0.1"), Clients::Anyone, tls.clone()).await);
    }
    let stalls = Stalls::watch();
    let mut storm = Storm::new(seed);
    let (kills, sizes) = (storm.kills.clone(), Sizes { users: 16, spares: 2, maximum: 8 });
    let mut trial = Trial::begin("tls", tls, &servers, sizes, &kills, seed).await;
    storm.rage(&mut servers, &[trial.ledger()], time, RECOVERY).await;
    tokio::time::sleep(ms(1000)).await;
    trial.end_load().await;
    let (stall, rest) = (stalls.worst(), trial.rest(&servers).await);

    let mut table = rest::table();
    table.row(trial.row(&rest));
    table.print(&format!(
        "2 redis-servers over TLS, {} s of load, {} kills and restarts (down for {} at most), machine late by {} at most, seed {seed}",
        time.as_secs(),
        storm.killed,
        millis(storm.longest_down),
        millis(stall),
    ));
    trial.ledger().figures().judge("tls");
    trial.drain(&servers).await;
    println!("drained: none is left at any server");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_another_root_or_name_is_refused() {
    let (authority, stranger) = (Authority::new("own"), Authority::new("stranger"));
    let tls = trusting(&authority).build().unwrap();
    let server = Redis::start_tls(&authority.identity("127.0.0.1"), Clients::Anyone, tls.clone()).await;
    let words = "certificate of `127.0.0.1` is not trusted: no root has issued it";
    assert_refused("another root", trusting(&stranger).build().unwrap(), server.address(), words).await;
    let words = "certificate is not valid for `orders.example.com`, only for `127.0.0.1`";
    let named = trusting(&authority).server_name("orders.example.com").build().unwrap();
    assert_refused("another name", named, server.address(), words).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_may_ask_for_a_certificate() {
    let (authority, stranger) = (Authority::new("own"), Authority::new("stranger"));
    let (client, unknown) = (authority.identity("a client"), stranger.identity("a client"));
    let certified = trusting(&authority).client_certificate_pem(client.certificate, client.key).build().unwrap();
    let bare = trusting(&authority).build().unwrap();
    let uncertified = trusting(&authority).client_certificate_pem(unknown.certificate, unknown.key).build().unwrap();
    let in_the_handshake = "connecting fails: the server refused the tls handshake";
    for (clients, words) in [(Clients::Certified, "using fails"), (Clients::CertifiedTls12, in_the_handshake)] {
        let server = Redis::start_tls(&authority.identity("127.0.0.1"), clients, certified.clone()).await;
        let backend = Backend::fixed(server.address());
        let pool = Pool::builder(certified.clone()).backends([backend.clone()]).build().unwrap();
        assert_eq!(pool.claim().await.unwrap().echo("hello").await.unwrap(), "hello");
        for (what, tls) in [("no certificate", &bare), ("one of a stranger", &uncertified)] {
            let said = match tls.connect(&backend).await {
                Err(error) => format!("connecting fails: {error}"),
                Ok(mut stream) => format!("using fails: {}", stream.echo("hello").await.unwrap_err()),
            };
            assert!(said.starts_with(words), "{said}");
            println!("{clients:?}, {what}: {said}");
        }
    }
}

/// In TLS 1.3 the server says what it thinks of the client only after the client has connected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ends_what_it_accepted_is_not_hammered_and_said_to_have_failed() {
    let authority = Authority::new("own");
    let client = authority.identity("a client");
    let certified = trusting(&authority).client_certificate_pem(client.certificate, client.key).build().unwrap();
    let bare = Counted::new(trusting(&authority).build().unwrap());
    let dials = bare.dials();
    let server = Redis::start_tls(&authority.identity("127.0.0.1"), Clients::Certified, certified).await;
    let pool = Pool::builder(bare).backends([server.address()]).spares(2).maximum(4).recovery(policy());
    let pool = pool.build().unwrap();
    tokio::time::sleep(ms(3000)).await;
    let idle = dials.made();
    assert!(idle <= 2 * 3 * 4, "{idle} connects in 3 s, to keep 2 spares");

    // Users blame it.
    let error = loop {
        match pool.claim_within(PATIENCE).await {
            Ok(mut claim) => {
                let error = claim.echo("hello").await.unwrap_err();
                claim.fail(error);
            }
            Err(error) => panic!("{error}"),
        }
        // A claim would wait for the next connection, which is as bad.
        if pool.state() == State::Failed {
            break pool.try_claim().unwrap_err();
        }
        assert!(dials.made() < idle + 50, "{} connects", dials.made());
    };
    assert!(matches!(error, ClaimError::Failed { dead: 1, known: 1, .. }), "{error}");
    println!("{idle} connects in 3 s of idling, {} until: {error}", dials.made() - idle);
}
