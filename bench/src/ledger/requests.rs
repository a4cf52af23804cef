//! Requests to Indy nodes over CURVE on loopback, one after the other: through windows, and on one connection that is kept. The
//! difference is the handshake's price.

use crate::measure::{Cut, Effort, on_own_runtime};
use crate::report::{cell, middle};
use crate::rounds::{Series, extend, share};
use crate::waits::Waits;
use carom_indy::message::{LONGEST_MESSAGE, Message};
use carom_indy::zmtp::{KeyPair, Socket};
use carom_indy::{Address, Genesis, Pool, Reply};
use serde_json::{Value, json};
use std::io;
use std::time::{Duration, Instant};
use testkit::indy;
use tokio::runtime::{Builder, Runtime};

/// Until the client has found its pace, nothing is counted.
const LEAD: Duration = Duration::from_millis(100);
/// What a round may take beyond its time.
const GRACE: Duration = Duration::from_secs(8);
const HOUR: Duration = Duration::from_secs(3_600);

const EXPLAINED: &str = "
Reads of one node (GET_TXN), one after the other, of scripted nodes on a thread of their own, over CURVE on loopback. kept: a bare
socket, and a window that never ends; windows: 5 requests each, with a handshake for every node that one of them goes to.
";

/// Who asks, of how many nodes.
struct Subject {
    name: &'static str,
    nodes: usize,
    how: How,
}

#[derive(Clone, Copy)]
enum How {
    Socket,
    KeptWindow,
    Windows,
    /// Nothing is asked: the socket is opened, and closed.
    Handshake,
}

const SUBJECTS: [Subject; 5] = [
    Subject { name: "kept: a socket", nodes: 1, how: How::Socket },
    Subject { name: "kept: a window", nodes: 1, how: How::KeptWindow },
    Subject { name: "windows, 1 node", nodes: 1, how: How::Windows },
    Subject { name: "windows, 4 nodes", nodes: 4, how: How::Windows },
    Subject { name: "handshakes alone", nodes: 1, how: How::Handshake },
];

/// What one of them did in one round.
struct Round {
    requests_s: f64,
    p50_us: f64,
    p99_us: f64,
}

/// Prints the figures, and returns them.
pub fn report(effort: &Effort) -> io::Result<Vec<Value>> {
    println!("{EXPLAINED}");
    println!("{:<18} {:>11} {:>9} {:>9} {:>12}", "requests", "requests/s", "p50 us", "p99 us", "of a socket");
    let all = measured(effort)?;
    let mut rows = Vec::new();
    for (subject, rounds) in SUBJECTS.iter().zip(&all) {
        let requests_s = middle(rounds, |round| round.requests_s);
        let (p50_us, p99_us) = (middle(rounds, |round| round.p50_us), middle(rounds, |round| round.p99_us));
        let of_socket = share(rounds, &all[0], |round| round.requests_s);
        println!(
            "{:<18} {:>11} {:>9} {:>9} {:>12}",
            subject.name,
            cell(requests_s, 0),
            cell(p50_us, 1),
            cell(p99_us, 1),
            cell(of_socket, 2)
        );
        rows.push(json!({
            "subject": subject.name,
            "nodes": subject.nodes,
            "requests_s": requests_s.ok(),
            "p50_us": p50_us.ok(),
            "p99_us": p99_us.ok(),
            "of_socket": of_socket.ok(),
        }));
    }
    if let Ok(price) = middle(&all[SUBJECTS.len() - 1], |round| round.p50_us) {
        println!("\na handshake's price, both sides on this machine: {price:.0} us");
    }
    Ok(rows)
}

/// Each has its turn in every round, with nodes of its own.
fn measured(effort: &Effort) -> io::Result<[Series<Round>; SUBJECTS.len()]> {
    let mut all = SUBJECTS.map(|_| Ok(Vec::new()));
    for _ in 0..effort.rounds {
        for (subject, rounds) in SUBJECTS.iter().zip(&mut all) {
            let nodes = Nodes::start(subject.nodes)?;
            extend(rounds, || round(nodes.pool.genesis(), subject.how, effort.period));
        }
    }
    Ok(all)
}

fn round(genesis: String, how: How, period: Duration) -> Result<Round, Cut> {
    on_own_runtime(LEAD + period * 2 + GRACE, async move {
        let mut client = Client::open(genesis, how).await;
        let (start, mut waits) = (Instant::now() + LEAD, Waits::new());
        for number in 1.. {
            let asked = Instant::now();
            client.ask(number).await;
            let now = Instant::now();
            if asked >= start {
                waits.record(now - asked);
            }
            if now >= start + period {
                break;
            }
        }
        Round {
            requests_s: waits.count() as f64 / period.as_secs_f64(),
            p50_us: waits.quantile_us(0.50),
            p99_us: waits.quantile_us(0.99),
        }
    })
}

enum Client {
    Socket(Box<Socket>),
    Windows(Pool),
    Handshake(Genesis),
}

impl Client {
    async fn open(genesis: String, how: How) -> Client {
        let opening = Pool::open(&*genesis).single_reads(true);
        let opening = match how {
            How::Socket => return Client::Socket(Box::new(connected(&known(&genesis)).await)),
            How::Handshake => return Client::Handshake(known(&genesis)),
            How::KeptWindow => opening.active_for(HOUR).request_limit(usize::MAX),
            How::Windows => opening,
        };
        Client::Windows(opening.await.expect("the pool opens"))
    }

    async fn ask(&mut self, number: u64) {
        match self {
            Client::Socket(socket) => {
                socket.push(request(number).to_string().as_bytes()).expect("it is short");
                let answer = Message::parse(&socket.next().await.expect("the node answers")).expect("it makes sense");
                assert!(matches!(answer, Message::Reply { req_id, .. } if req_id == number));
            }
            Client::Windows(pool) => {
                let reply = pool.submit(&request(number)).await.expect("the node answers");
                assert!(matches!(reply, Reply::Agreed(result) if result["reqId"] == number));
            }
            Client::Handshake(genesis) => drop(connected(genesis).await),
        }
    }
}

fn known(genesis: &str) -> Genesis {
    Genesis::parse(genesis).expect("the genesis makes sense")
}

async fn connected(genesis: &Genesis) -> Socket {
    let (node, keys) = (&genesis.nodes()[0], KeyPair::random().expect("the system has randomness"));
    let Address::Ip(address) = node.address else { panic!("the nodes of the benchmark have IP addresses") };
    let socket = Socket::connect(address, node.curve_key, &keys, "bench".into(), LONGEST_MESSAGE);
    socket.await.expect("the node is there")
}

fn request(number: u64) -> Value {
    json!({
        "identifier": "LibindyDid111111111111", "reqId": number, "protocolVersion": 2,
        "operation": {"type": "3", "ledgerId": 0, "data": 1},
    })
}

/// Nodes with a thread to themselves.
struct Nodes {
    pool: indy::Pool,
    _runtime: Runtime,
}

impl Nodes {
    fn start(count: usize) -> io::Result<Nodes> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let pool = runtime.block_on(indy::Pool::start(count))?;
        Ok(Nodes { pool, _runtime: runtime })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_asks_as_it_says() {
        for subject in &SUBJECTS {
            // On a loaded machine, a short round may end before the first reply.
            let mut time = Duration::from_millis(50);
            let (nodes, round) = loop {
                let nodes = Nodes::start(subject.nodes).unwrap();
                let round = round(nodes.pool.genesis(), subject.how, time).unwrap();
                if round.requests_s > 0.0 || time > Duration::from_secs(10) {
                    break (nodes, round);
                }
                time *= 4;
            };
            assert!(round.requests_s > 0.0 && round.p50_us <= round.p99_us, "{}", subject.name);
            let (heard, accepted) = (nodes.pool.heard(0).len(), nodes.pool.accepted(0));
            match subject.how {
                How::Socket | How::KeptWindow => assert!(accepted == 1 && heard > 1, "{}", subject.name),
                How::Windows if subject.nodes == 1 => assert_eq!(accepted, heard.div_ceil(5), "{}", subject.name),
                How::Windows => assert!(accepted > 0, "{}", subject.name),
                How::Handshake => assert!(accepted > 0 && heard == 0, "{}", subject.name),
            }
        }
    }
}
