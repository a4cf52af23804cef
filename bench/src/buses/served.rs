//! The processes: a gateway on a bus, and whoever publishes on it.

use super::publishing;
use crate::fanout::{self, BROKER, Kind, USER};
use crate::process::{Process, say};
use carom::feed::Feed;
use carom_gateway::bus::{Bus, Nats, NatsOptions, Outside, ZeroMq};
use serde_json::json;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::runtime::Builder;

/// What a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A gateway that is its own publisher.
    GatewayAlone,
    /// One that a publisher connects to.
    GatewayOnZeroMq,
    /// One on this NATS.
    GatewayOnNats(SocketAddr),
    /// A publisher to this gateway's bus.
    ToZeroMq(SocketAddr),
    /// A publisher on this NATS.
    ToNats(SocketAddr),
}

impl Role {
    /// What `--serve bus-` says.
    pub fn parse(text: &str) -> Option<Role> {
        let at = |begins: &str| text.strip_prefix(begins).and_then(|address| address.parse().ok());
        match text {
            "memory" => Some(Role::GatewayAlone),
            "zeromq" => Some(Role::GatewayOnZeroMq),
            _ => at("nats-")
                .map(Role::GatewayOnNats)
                .or_else(|| at("to-zeromq-").map(Role::ToZeroMq))
                .or_else(|| at("to-nats-").map(Role::ToNats)),
        }
    }

    pub fn bus(self) -> &'static str {
        match self {
            Role::GatewayAlone => "memory",
            Role::GatewayOnZeroMq | Role::ToZeroMq(_) => "zeromq",
            Role::GatewayOnNats(_) | Role::ToNats(_) => "nats",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::GatewayAlone => f.write_str("bus-memory"),
            Role::GatewayOnZeroMq => f.write_str("bus-zeromq"),
            Role::GatewayOnNats(address) => write!(f, "bus-nats-{address}"),
            Role::ToZeroMq(address) => write!(f, "bus-to-zeromq-{address}"),
            Role::ToNats(address) => write!(f, "bus-to-nats-{address}"),
        }
    }
}

/// A gateway, with its publisher.
pub struct Served {
    gateway: Process,
    publisher: Option<Process>,
    pub address: SocketAddr,
    pub key: String,
}

impl Served {
    pub fn start(role: Role) -> io::Result<Served> {
        let (gateway, beginning) = Process::start(role)?;
        let place = |key: &str| beginning[key].as_str().and_then(|address| address.parse().ok());
        let said =
            |place: Option<SocketAddr>| place.ok_or_else(|| io::Error::other("the gateway did not say where it is"));
        let publisher = match role {
            Role::GatewayOnZeroMq => Some(Process::start(Role::ToZeroMq(said(place("bus"))?))?.0),
            Role::GatewayOnNats(address) => Some(Process::start(Role::ToNats(address))?.0),
            Role::GatewayAlone | Role::ToZeroMq(_) | Role::ToNats(_) => None,
        };
        let key = beginning["key"].as_str().unwrap_or_default().to_owned();
        Ok(Served { gateway, publisher, address: said(place("address"))?, key })
    }

    pub fn publish(&mut self, ticks_s: u64) -> io::Result<()> {
        self.publisher.as_mut().unwrap_or(&mut self.gateway).tell(ticks_s)
    }
}

/// The part of the process started with `--serve`: until its parent has gone.
pub fn serve(role: Role) -> io::Result<()> {
    match role {
        Role::GatewayAlone => fanout::serve(Kind::Gateway),
        Role::GatewayOnZeroMq => gateway(async {
            let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let zeromq = ZeroMq::bind_sub(here).await.map_err(io::Error::other)?;
            Ok((Some(zeromq.local_addr()), zeromq.into()))
        }),
        Role::GatewayOnNats(address) => gateway(async move {
            let nats = Nats::connect(NatsOptions::new(format!("nats://{address}"))).await.map_err(io::Error::other)?;
            Ok((None, nats.scope(BROKER, USER)))
        }),
        Role::ToZeroMq(address) => publishing::run(publishing::to_zeromq(address)),
        Role::ToNats(address) => publishing::run(publishing::to_nats(address)),
    }
}

/// A gateway on this bus, with where publishers connect to if they do.
fn gateway(bus: impl Future<Output = io::Result<(Option<SocketAddr>, Bus)>>) -> io::Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (builder, key) = fanout::gateway()?;
    let (at, gateway) = runtime.block_on(async {
        let (at, bus) = bus.await?;
        let feed = Feed::builder(Outside).build().map_err(io::Error::other)?;
        let gateway = builder.feed_on(BROKER, USER, feed, bus).start().await.map_err(io::Error::other)?;
        io::Result::Ok((at, gateway))
    })?;
    let bus = at.map(|at| at.to_string());
    say(&json!({ "address": gateway.local_addr().to_string(), "key": key.reveal(), "bus": bus }));
    io::stdin().lines().try_for_each(|line| line.map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_told_as_they_are_understood() {
        let at = SocketAddr::from(([127, 0, 0, 1], 4222));
        for role in
            [Role::GatewayAlone, Role::GatewayOnZeroMq, Role::GatewayOnNats(at), Role::ToZeroMq(at), Role::ToNats(at)]
        {
            let told = role.to_string();
            assert_eq!(told.strip_prefix("bus-").and_then(Role::parse), Some(role), "{told}");
        }
        assert_eq!((Role::parse("kafka"), Role::parse("nats-here")), (None, None));
    }
}
