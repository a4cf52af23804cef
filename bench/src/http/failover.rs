//! Three nodes, one of which is killed and comes back while everybody asks.

use super::clients::Client;
use super::load::{self, Outcome};
use super::node::Node;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Duration;
use tokio::runtime::Runtime;

const CONCURRENCY: usize = 16;

/// Kills the node so often in the period, for half of the time in between.
pub fn run<C: Client>(runtime: &Runtime, times: u32, each: Duration) -> io::Result<Outcome> {
    // Addresses of their own: a socket of a client that got any port does not sit where a node comes back.
    let mut nodes = Vec::new();
    for last in [11, 12, 13] {
        nodes.push(Node::start(SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0)))?);
    }
    let addresses: Vec<SocketAddr> = nodes.iter().map(|node| node.address).collect();
    let client = runtime.block_on(C::open(&addresses, CONCURRENCY)).map_err(io::Error::other)?;
    let period = each * times;
    thread::scope(|scope| {
        let load = scope.spawn(|| load::run(runtime, &client, CONCURRENCY, Duration::ZERO, period));
        for _ in 0..times {
            thread::sleep(each / 4);
            nodes[0].kill();
            thread::sleep(each / 2);
            nodes[0].revive()?;
            thread::sleep(each / 4);
        }
        load.join().map_err(|_| io::Error::other("the load panicked"))?
    })
}
