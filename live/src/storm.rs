//! Servers killed in turn under load, by a schedule from a seed. One always lives.

use crate::load::Ledger;
use crate::{Server, ms};
use carom_core::random::Random;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Who was killed when, last: so that a broken connection can be told from one that should not be.
#[derive(Debug, Default)]
pub struct Kills {
    last: Mutex<BTreeMap<SocketAddr, Instant>>,
}

impl Kills {
    /// Whether a server was killed after a connection to it was made. Its age is counted from when the pool heard of it,
    /// which may be later than that.
    pub fn since(&self, server: SocketAddr, born: Instant) -> bool {
        let last = self.last.lock().expect("nobody panics with it").get(&server).copied();
        last.is_some_and(|killed| killed + ms(500) >= born)
    }

    fn note(&self, server: SocketAddr) {
        self.last.lock().expect("nobody panics with it").insert(server, Instant::now());
    }
}

pub struct Storm {
    pub kills: Arc<Kills>,
    pub killed: usize,
    /// Down, from the kill until it served again.
    pub longest_down: Duration,
    random: Random,
}

impl Storm {
    pub fn new(seed: u64) -> Storm {
        Storm { kills: Arc::default(), killed: 0, longest_down: Duration::ZERO, random: Random::new(seed) }
    }

    /// Kills one server after the other, now and then two, never all, for so long. Each comes back after a while, and the
    /// next is killed when every pool has used it again, which must be within `bound`.
    pub async fn rage<S: Server>(
        &mut self,
        servers: &mut [S],
        ledgers: &[Arc<Ledger>],
        time: Duration,
        bound: Duration,
    ) {
        let start = Instant::now();
        let mut next = 0;
        while start.elapsed() < time {
            let many = if servers.len() > 2 && self.random.below(3) == 0 { 2 } else { 1 };
            let victims: Vec<usize> = (next..next + many).map(|number| number % servers.len()).collect();
            next += many;
            let killed_at = Instant::now();
            for &victim in &victims {
                self.kill(&mut servers[victim]);
            }
            tokio::time::sleep(ms(50 + self.random.below(2000) as u64)).await;
            for &victim in &victims {
                servers[victim].restart().await;
                self.longest_down = self.longest_down.max(killed_at.elapsed());
                let back = Instant::now();
                for ledger in ledgers {
                    is_used_again(ledger, servers[victim].address(), back, bound).await;
                }
            }
            tokio::time::sleep(ms(self.random.below(500) as u64)).await;
        }
    }

    pub fn kill(&mut self, server: &mut impl Server) {
        self.kills.note(server.address());
        server.kill();
        self.killed += 1;
        // What was connected just before it died is told apart by this.
        self.kills.note(server.address());
    }
}

async fn is_used_again(ledger: &Ledger, server: SocketAddr, back: Instant, bound: Duration) {
    while !ledger.notes_return(server, back) {
        let missed = back.elapsed();
        assert!(missed < bound, "{}: {server} is back since {missed:?}, and not used", ledger.name);
        tokio::time::sleep(ms(2)).await;
    }
}
