//! The process that publishes on a bus, as OpenAlgo's adapters do, or another gateway: ticks of every symbol in turn.

use crate::fanout::{BROKER, Rhythm, SYMBOLS, USER, payload, since_epoch, symbol};
use crate::process::say;
use carom_gateway::bus::{Bus, Nats, NatsOptions};
use carom_zmtp::pubsub::{Encoded, Limits, Role, Socket};
use serde_json::json;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, atomic::Ordering};
use tokio::runtime::Builder;

/// A publisher that has connected.
pub enum Publisher {
    ZeroMq(Box<Socket>),
    Nats(Bus),
}

/// Connects to a gateway's SUB, or to NATS, and publishes as much as it is told until its parent has gone.
pub fn run(connect: impl Future<Output = io::Result<Publisher>>) -> io::Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let publisher = runtime.block_on(connect)?;
    say(&json!({ "publishes": true }));
    let ticks_s = Arc::new(AtomicU64::new(0));
    runtime.spawn(publish(publisher, Arc::clone(&ticks_s)));
    for line in io::stdin().lines() {
        ticks_s.store(line?.parse().unwrap_or_default(), Ordering::Relaxed);
    }
    Ok(())
}

pub async fn to_zeromq(address: SocketAddr) -> io::Result<Publisher> {
    let mut socket = Socket::connect(address, Role::Publisher, Limits::default()).await.map_err(io::Error::other)?;
    // It hears of the subscription first; what was published before would be nobody's.
    socket.next().await.map_err(io::Error::other)?;
    Ok(Publisher::ZeroMq(Box::new(socket)))
}

pub async fn to_nats(address: SocketAddr) -> io::Result<Publisher> {
    let nats = Nats::connect(NatsOptions::new(format!("nats://{address}"))).await.map_err(io::Error::other)?;
    Ok(Publisher::Nats(nats.scope(BROKER, USER)))
}

async fn publish(mut publisher: Publisher, ticks_s: Arc<AtomicU64>) -> io::Result<()> {
    let topics: Vec<String> = (0..SYMBOLS).map(|at| format!("NSE_{}_LTP", symbol(at))).collect();
    let mut rhythm = Rhythm::new();
    loop {
        let rate = ticks_s.load(Ordering::Relaxed);
        tokio::time::sleep(Rhythm::pause(rate)).await;
        for portion in rhythm.due(rate) {
            for number in portion {
                let (topic, payload) = (&topics[number % SYMBOLS], payload(number, since_epoch()));
                match &mut publisher {
                    Publisher::ZeroMq(socket) => {
                        let message = Encoded::new(&[topic.as_bytes(), payload.as_bytes()]);
                        socket.push(&message).map_err(io::Error::other)?;
                    }
                    Publisher::Nats(bus) => bus.publish(&**topic, payload),
                }
            }
            if let Publisher::ZeroMq(socket) = &mut publisher {
                socket.flush().await.map_err(io::Error::other)?;
            }
        }
    }
}
