//! redis-servers stopped with SIGSTOP: they accept connections and answer nothing, which is worse than being dead.

use carom::pool::Phase;
use carom::tcp::Tcp;
use carom::{Backend, ClaimError, Connect, Pool, connect_fn};
use carom_live::echo::Echo;
use carom_live::load::PATIENCE;
use carom_live::redis::Redis;
use carom_live::rest::policy;
use carom_live::table::{Table, millis};
use carom_live::{AnyError, Server, ms, resp, until};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A connection is ready when the server has answered.
fn answering() -> impl Connect<Connection = carom::tcp::Stream> {
    connect_fn(|backend: Backend| async move {
        let mut stream = Tcp::default().connect(&backend).await?;
        resp::command(&mut stream, &["PING"]).await.map_err(io::Error::other)?;
        Ok::<_, io::Error>(stream)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_on_a_frozen_server_end_by_their_deadline() {
    let server = Redis::start(&[]).await;
    let builder = Pool::builder(answering()).name("frozen").backends([server.address()]).spares(1).maximum(8);
    let pool = builder.recovery(policy()).build().unwrap();
    // What is connected is lent: everybody else needs another.
    let mut lent = pool.claim().await.unwrap();
    until(ms(2000), async || {
        let counts = pool.snapshot().pool.counts;
        if counts.of(Phase::Idle) == 1 && counts.total() == 2 { Ok(()) } else { Err(format!("{counts:?}")) }
    })
    .await;
    server.freeze();
    pool.try_claim().unwrap().discard();
    let mut claims = JoinSet::new();
    for number in 0..100 {
        let pool = pool.clone();
        claims.spawn(async move {
            let (since, within) = (Instant::now(), ms(20 + 10 * number));
            let result = pool.claim_within(within).await.map(drop);
            (result, since.elapsed(), within)
        });
    }
    let (mut timed_out, mut latest, mut text) = (0, Duration::ZERO, String::new());
    while let Some(ended) = timeout(ms(5000), claims.join_next()).await.expect("nobody hangs") {
        let (result, took, within) = ended.unwrap();
        match result {
            Err(error @ ClaimError::TimedOut { .. }) => {
                assert!(took >= within, "{error} after {took:?} of {within:?}");
                timed_out += 1;
                text = error.to_string();
            }
            other => panic!("{other:?} after {took:?} of {within:?}"),
        }
        latest = latest.max(took - within);
    }
    println!("{timed_out} claims with 20 ms to 1 s timed out, the latest {} past its deadline: {text}", millis(latest));
    assert_eq!(timed_out, 100);

    server.thaw();
    assert_eq!(lent.echo("hello").await.unwrap(), "hello");
    drop(lent);
    pool.claim_within(PATIENCE).await.unwrap().discard();
    let mut other = pool.claim_within(PATIENCE).await.unwrap();
    assert_eq!(other.echo("hello").await.unwrap(), "hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_holds_up_no_claim_that_another_can_serve() {
    let servers = [Redis::start(&[]).await, Redis::start(&[]).await];
    let builder = Pool::builder(answering()).name("half frozen").backends(servers.iter().map(Server::address));
    let pool = builder.spares(2).maximum(8).recovery(policy()).build().unwrap();
    drop(pool.claim().await.unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let mut users = JoinSet::new();
    for _ in 0..12 {
        let (pool, stop) = (pool.clone(), Arc::clone(&stop));
        users.spawn(async move {
            let (mut served, mut unanswered, mut longest) = (0, 0, Duration::ZERO);
            while !stop.load(Ordering::Relaxed) {
                let since = Instant::now();
                let mut claim = pool.claim_within(PATIENCE).await.expect("a server answers");
                longest = longest.max(since.elapsed());
                match timeout(ms(200), claim.echo("hello")).await {
                    Ok(Ok(_)) => served += 1,
                    Ok(Err(error)) => claim.fail(error),
                    Err(_) => {
                        unanswered += 1;
                        claim.fail(AnyError::from("no answer"));
                    }
                }
            }
            (served, unanswered, longest)
        });
    }
    for server in &servers {
        tokio::time::sleep(ms(300)).await;
        server.freeze();
        tokio::time::sleep(ms(2500)).await;
        server.thaw();
        // The next is frozen when this one is in use again.
        until(ms(5000), async || {
            let snapshot = pool.snapshot().pool;
            let found = snapshot.backends.iter().find(|found| found.backend.socket_addr() == server.address());
            match found.map_or(0, |found| found.counts.working()) {
                0 => Err(format!("{snapshot:#?}")),
                working => Ok(working),
            }
        })
        .await;
    }
    stop.store(true, Ordering::Relaxed);
    let (mut served, mut unanswered, mut longest) = (0, 0, Duration::ZERO);
    while let Some(user) = timeout(PATIENCE * 2, users.join_next()).await.expect("nobody hangs") {
        let user = user.unwrap();
        (served, unanswered, longest) = (served + user.0, unanswered + user.1, longest.max(user.2));
    }
    let mut table = Table::new(&["pool", "served", "unanswered", "failed", "longest wait"]);
    table.row(["by hand".into(), served.to_string(), unanswered.to_string(), "0".into(), millis(longest)]);
    table.print("2 redis-servers, each frozen for 2.5 s");
    assert!(served > 1000 && unanswered > 0, "{served}, {unanswered}");
}
