//! Three redis-servers killed under load: through bb8's manager, deadpool's, a closure, and RESP spoken by hand.

use bb8_redis::RedisConnectionManager;
use bb8_redis::redis::{self, AsyncConnectionConfig};
use carom::tcp::Tcp;
use carom::{Backend, ClaimError, Connect, Pool, connect_fn, managers};
use carom_live::load::{PATIENCE, Stalls};
use carom_live::redis::Redis;
use carom_live::rest::{self, RECOVERY, Rest, Sizes, Trial, assert_refused, policy};
use carom_live::storm::Storm;
use carom_live::table::{Table, millis};
use carom_live::{Server, load_time, ms, resp, seed, until};
use std::time::{Duration, Instant};

const USERS: [&str; 3] = ["bb8", "deadpool", "closure"];

/// A client that waits longer than its usual half second for a reply.
fn patient() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_response_timeout(Some(ms(5000)))
}

fn bb8() -> impl Connect<Connection = managers::bb8::Managed<RedisConnectionManager>> {
    managers::bb8::try_from_managers(|backend: &Backend| RedisConnectionManager::new(Redis::url(backend, "bb8")))
}

fn deadpool() -> impl Connect<Connection = managers::deadpool::Managed<deadpool_redis::Manager>> {
    managers::deadpool::try_from_managers(|backend: &Backend| {
        deadpool_redis::Manager::new_with_config(Redis::url(backend, "deadpool"), patient())
    })
}

fn closure() -> impl Connect<Connection = redis::aio::MultiplexedConnection> {
    connect_fn(|backend: Backend| async move {
        let client = redis::Client::open(Redis::url(&backend, "closure"))?;
        client.get_multiplexed_async_connection_with_config(&patient()).await
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_killed_in_turn_under_load() {
    let (seed, time) = (seed(), load_time(1.0));
    println!("CAROM_SEED={seed}");
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(Redis::start(&USERS).await);
    }
    let stalls = Stalls::watch();
    let mut storm = Storm::new(seed);
    let (kills, sizes) = (storm.kills.clone(), Sizes { users: 24, spares: 3, maximum: 12 });
    let mut bb8 = Trial::begin("bb8", bb8(), &servers, sizes, &kills, seed).await;
    let mut deadpool = Trial::begin("deadpool", deadpool(), &servers, sizes, &kills, seed + 1).await;
    let mut closure = Trial::begin("closure", closure(), &servers, sizes, &kills, seed + 2).await;
    let mut by_hand = Trial::begin("by hand", Tcp::default(), &servers, sizes, &kills, seed + 3).await;

    let ledgers = [bb8.ledger(), deadpool.ledger(), closure.ledger(), by_hand.ledger()];
    storm.rage(&mut servers, &ledgers, time, RECOVERY).await;
    tokio::time::sleep(ms(1000)).await;
    tokio::join!(bb8.end_load(), deadpool.end_load(), closure.end_load(), by_hand.end_load());
    let (stall, servers) = (stalls.worst(), &servers[..]);
    let rests = tokio::join!(bb8.rest(servers), deadpool.rest(servers), closure.rest(servers), by_hand.rest(servers));

    let mut table = rest::table();
    table.row(bb8.row(&rests.0));
    table.row(deadpool.row(&rests.1));
    table.row(closure.row(&rests.2));
    table.row(by_hand.row(&rests.3));
    table.print(&format!(
        "3 redis-servers, {} s of load, {} kills and restarts (down for {} at most), machine late by {} at most, seed {seed}",
        time.as_secs(),
        storm.killed,
        millis(storm.longest_down),
        millis(stall),
    ));
    for ledger in ledgers {
        ledger.figures().judge(ledger.name);
    }

    let shrunk =
        tokio::join!(bb8.shrink(servers), deadpool.shrink(servers), closure.shrink(servers), by_hand.shrink(servers));
    let one_each = |rest: &Rest| assert_eq!(rest.counts, [1, 1, 1], "the spares are spread over all servers");
    [shrunk.0, shrunk.1, shrunk.2, shrunk.3].iter().for_each(one_each);
    tokio::join!(bb8.drain(servers), deadpool.drain(servers), closure.drain(servers), by_hand.drain(servers));
    println!("shrunk to one connection at each server; drained: none is left at any");
}

/// The manager of bb8-redis never says that a connection has broken, and commands to a dead server fail at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_server_gets_few_claims_with_default_options() {
    let mut servers = [Redis::start(&USERS).await, Redis::start(&USERS).await, Redis::start(&USERS).await];
    let stalls = Stalls::watch();
    let addresses = servers.each_ref().map(Server::address);
    let pool = Pool::builder(bb8()).backends(addresses).build().unwrap();
    let (start, (end, ended)) = (Instant::now(), tokio::sync::watch::channel(false));
    let mut users = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (pool, ended) = (pool.clone(), ended.clone());
        users.spawn(async move {
            let mut got = Vec::new();
            while !*ended.borrow() {
                let mut claim = pool.claim().await.unwrap();
                got.push((start.elapsed(), claim.backend().socket_addr()));
                let _: Result<(), _> = redis::cmd("INCR").arg("counter").query_async(&mut **claim).await;
            }
            got
        });
    }
    tokio::time::sleep(ms(2_000)).await;
    servers[0].kill();
    let killed = start.elapsed();
    tokio::time::sleep(ms(4_000)).await;
    end.send_replace(true);
    let got: Vec<_> = users.join_all().await.into_iter().flatten().collect();
    let share = |from: Duration, until: Duration| {
        let window: Vec<_> = got.iter().filter(|(at, _)| (from..until).contains(at)).collect();
        let dead = window.iter().filter(|(_, server)| *server == addresses[0]).count();
        (dead as f64 / window.len() as f64, window.len())
    };
    let late = killed + ms(1_000) + stalls.worst();
    let (before, at_once, after) =
        (share(ms(0), killed), share(killed, late), share(late, late + Duration::from_secs(3)));
    println!(
        "share of the killed server and claims: {before:.3?} before, {at_once:.3?} in the next second, {after:.3?} then"
    );
    assert!((0.15..0.5).contains(&before.0), "{before:?}");
    assert!(after.0 < 0.02 && after.1 > 1_000, "{after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_no_server_lives_claims_say_so_and_are_served_again_when_one_does() {
    let mut servers = [Redis::start(&USERS).await, Redis::start(&USERS).await];
    let addresses = [servers[0].address(), servers[1].address()];
    let pool = Pool::builder(closure()).backends(addresses).recovery(policy()).check_after(ms(200));
    let pool = pool.outage_wait(Duration::ZERO).build().unwrap();
    drop(pool.claim().await.unwrap());
    let mut table = Table::new(&["", "failed", "timed out", "past deadline", "served again after"]);
    for round in ["first outage", "second outage"] {
        servers.iter_mut().for_each(Server::kill);
        let (start, mut failed, mut timed_out, mut latest) = (Instant::now(), 0, 0, Duration::ZERO);
        let mut refused = 0;
        while start.elapsed() < ms(2500) {
            let (since, within) = (Instant::now(), ms(400));
            let result = pool.claim_within(within).await;
            latest = latest.max(since.elapsed().saturating_sub(within));
            match result {
                // It was idle when its server died.
                Ok(claim) => claim.fail("its server is dead"),
                Err(error @ ClaimError::Failed { dead: 2, known: 2, .. }) => {
                    // A connection that was made just before its server died is one more failed attempt when it is blamed.
                    let words = ["last connect error: ", "last failed use: "];
                    let told = error.to_string();
                    assert!(words.iter().any(|words| told.contains(words)), "{error}");
                    refused += usize::from(told.contains("Connection refused"));
                    failed += 1;
                    tokio::time::sleep(ms(5)).await;
                }
                Err(ClaimError::TimedOut { .. }) => timed_out += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(failed > 10 && refused > 10, "{failed} failed, {refused} of them refused by the system");
        servers[1].restart().await;
        let back = Instant::now();
        until(RECOVERY, async || pool.claim_within(PATIENCE).await.map(drop)).await;
        table.row([
            round.to_string(),
            failed.to_string(),
            timed_out.to_string(),
            millis(latest),
            millis(back.elapsed()),
        ]);
        servers[0].restart().await;
        until(RECOVERY, async || match pool.snapshot().pool.dead {
            0 => Ok(()),
            dead => Err(format!("{dead} dead")),
        })
        .await;
    }
    table.print("2 redis-servers, both killed, one restarted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_told_in_the_servers_words() {
    let server = Redis::start_with_password("right").await;
    let address = server.address();
    let url = |backend: &Backend| format!("redis://:wrong@{}", backend.socket_addr());
    // This client has words of its own for it, and keeps the server's to itself.
    let clients_words = "Password authentication failed";
    let bb8 = managers::bb8::try_from_managers(move |backend: &Backend| RedisConnectionManager::new(url(backend)));
    assert_refused("bb8", bb8, address, clients_words).await;
    let deadpool =
        managers::deadpool::try_from_managers(move |backend: &Backend| deadpool_redis::Manager::new(url(backend)));
    assert_refused("deadpool", deadpool, address, clients_words).await;
    let closure = connect_fn(move |backend: Backend| async move {
        redis::Client::open(url(&backend))?.get_multiplexed_async_connection().await
    });
    assert_refused("closure", closure, address, clients_words).await;
    let by_hand = |words: &'static [&'static str]| {
        connect_fn(move |backend: Backend| async move {
            let mut stream = Tcp::default().connect(&backend).await?;
            resp::command(&mut stream, words).await.map_err(std::io::Error::other)?;
            Ok::<_, std::io::Error>(stream)
        })
    };
    assert_refused("by hand", by_hand(&["AUTH", "wrong"]), address, "WRONGPASS").await;
    assert_refused("without any", by_hand(&["PING"]), address, "NOAUTH").await;
}
