//! A pool over three TCP nodes, one of which dies and comes back while it is in use.
//!
//! Run it with `cargo run --example failing_nodes`; it takes ten seconds and needs nothing else. Watch the middle column:
//! when node 2 is killed its connections go at once, callers are served by the other two, the pool counts it as dead and
//! tries it now and then, and when it is back it gets its share again. A caller whose connection breaks in the middle of a
//! request sees that error, as it must, and says so with `fail`; no caller waits for the dead node.

use carom::pool::BackendState;
use carom::tcp::Tcp;
use carom::{Claim, Policy, Pool};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::backends::EchoServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, interval, sleep};

const WORKERS: usize = 12;

/// What the workers saw since the last line was printed.
#[derive(Default)]
struct Seen {
    answers: BTreeMap<SocketAddr, u64>,
    broken: u64,
    refused: u64,
    longest: Duration,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut nodes = [EchoServer::start().await?, EchoServer::start().await?, EchoServer::start().await?];
    let addresses: Vec<SocketAddr> = nodes.iter().map(EchoServer::addr).collect();

    let pool = Pool::builder(Tcp::default())
        .name("echo")
        .backends(addresses.clone())
        .spares(3)
        .maximum(12)
        .claim_timeout(Duration::from_secs(2))
        .recovery(Policy::default().attempts(3).delay(Duration::from_millis(50)).max_delay(Duration::from_secs(1)))
        .build()?;

    let seen = Arc::new(Mutex::new(Seen::default()));
    let workers: Vec<_> = (0..WORKERS).map(|_| tokio::spawn(work(pool.clone(), Arc::clone(&seen)))).collect();

    println!("answers per node and second, and what the pool has of each: connections and what it thinks of it\n");
    let mut ticks = interval(Duration::from_secs(1));
    ticks.tick().await;
    for second in 1..=10 {
        ticks.tick().await;
        print_line(second, &pool, &addresses, &mut seen.lock().unwrap());
        match second {
            3 => {
                println!("    -- node 2 is killed");
                nodes[1].stop().await;
            }
            7 => {
                println!("    -- node 2 is back");
                nodes[1].restart().await?;
            }
            _ => {}
        }
    }

    workers.iter().for_each(tokio::task::JoinHandle::abort);
    let drained = pool.drain(Instant::now() + Duration::from_secs(2)).await;
    println!("\npool: {drained}");
    Ok(())
}

/// Claims, asks, and thinks for a moment, for as long as the example runs.
async fn work(pool: Pool<Tcp>, seen: Arc<Mutex<Seen>>) {
    loop {
        let start = Instant::now();
        match pool.claim().await {
            Ok(mut claim) => {
                let waited = start.elapsed();
                let node = claim.backend().socket_addr();
                let answer = ask(&mut claim).await;
                let mut seen = seen.lock().unwrap();
                seen.longest = seen.longest.max(waited);
                match answer {
                    Ok(()) => *seen.answers.entry(node).or_default() += 1,
                    Err(error) => {
                        seen.broken += 1;
                        claim.fail(error);
                    }
                }
            }
            Err(error) => {
                seen.lock().unwrap().refused += 1;
                println!("    {error}");
            }
        }
        sleep(Duration::from_millis(5)).await;
    }
}

async fn ask(claim: &mut Claim<Tcp>) -> io::Result<()> {
    claim.write_all(b"ping\n").await?;
    let mut answer = [0; 5];
    claim.read_exact(&mut answer).await?;
    Ok(())
}

fn print_line(second: u32, pool: &Pool<Tcp>, addresses: &[SocketAddr], seen: &mut Seen) {
    let snapshot = pool.snapshot().pool;
    let mut columns = String::new();
    for (number, address) in addresses.iter().enumerate() {
        let backend = snapshot.backends.iter().find(|found| found.backend.socket_addr() == *address);
        let (working, state) = backend.map_or((0, "?"), |found| (found.counts.working(), describe(found.state)));
        let answers = seen.answers.get(address).copied().unwrap_or(0);
        columns += &format!("| node {}: {answers:>4}  {working:>2} {state:<9}", number + 1);
    }
    let Seen { broken, refused, longest, .. } = std::mem::take(seen);
    println!("{second:>2} s {columns}| broken {broken}, refused {refused}, longest wait {longest:.1?}");
}

fn describe(state: BackendState) -> &'static str {
    match state {
        BackendState::Unknown => "unknown",
        BackendState::Healthy => "healthy",
        BackendState::Dead => "dead",
        BackendState::Removed => "removed",
        _ => "other",
    }
}
