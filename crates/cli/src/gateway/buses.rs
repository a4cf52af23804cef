//! The bus that ticks go through, opened as the config has it.

use super::starting::Unstarted;
use crate::config::{self, Bind, Layered};
use crate::failure::{Failure, with_causes};
use crate::hostname;
use carom_gateway::bus::{BindError, Bus, Nats, NatsError, ZeroMq};
use std::io::ErrorKind;
use std::net::SocketAddr;

/// A bus for each user at a broker. The gateway closes them when it is stopped.
pub(super) enum Buses {
    Memory,
    /// One, which the config has seen to.
    ZeroMq(ZeroMq),
    Nats {
        nats: Box<Nats>,
        /// Which line says where it is.
        origin: String,
    },
}

impl Buses {
    pub(super) async fn open(config: &Layered<config::Bus>) -> Result<Buses, Unstarted> {
        match &config.value {
            config::Bus::Memory => Ok(Buses::Memory),
            config::Bus::ZeroMq(config::ZeroMq { bind, listen }) => {
                let bound = match bind {
                    Bind::Sub => ZeroMq::bind_sub(listen.value).await,
                    Bind::Pub => ZeroMq::bind_pub(listen.value).await,
                };
                bound.map(Buses::ZeroMq).map_err(|error| Failure::Unavailable(taken(listen, &error)).into())
            }
            config::Bus::Nats(config) => {
                let (nats, origin) = (Box::new(connected(config).await?), config.urls.origin.clone());
                Ok(Buses::Nats { nats, origin })
            }
        }
    }

    /// The one of this user.
    pub(super) fn of(&self, broker: &str, user: &str) -> Bus {
        match self {
            Buses::Memory => Bus::memory(),
            Buses::ZeroMq(zeromq) => zeromq.clone().into(),
            Buses::Nats { nats, .. } => nats.scope(broker, user),
        }
    }

    /// Where others connect to, if they do.
    pub(super) fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Buses::Memory | Buses::Nats { .. } => None,
            Buses::ZeroMq(zeromq) => Some(zeromq.local_addr()),
        }
    }
}

/// One attempt: NATS is waited for, as brokers are, unless it says no.
async fn connected(config: &config::Nats) -> Result<Nats, Unstarted> {
    let name = Some(hostname::read()).filter(|name| !name.is_empty());
    let options = config.options(name.as_deref().unwrap_or("carom"));
    Nats::connect(options).await.map_err(|error| {
        let problem = format!("{}: {}", config.origin_of(&error), with_causes(&error));
        match error {
            NatsError::Unreachable { .. } | NatsError::TimedOut { .. } => Unstarted::Waiting(problem),
            _ => Failure::Unavailable(problem).into(),
        }
    })
}

fn taken(listen: &Layered<SocketAddr>, BindError { source, .. }: &BindError) -> String {
    let whose = match source.kind() {
        ErrorKind::AddrInUse => "; OpenAlgo's own proxy may have it",
        _ => "",
    };
    format!("cannot listen on {listen} for ZeroMQ: {source}{whose}")
}
