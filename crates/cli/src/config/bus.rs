//! The bus of a gateway: the key `bus` of `[gateway]`, and the table that goes with its kind.

mod nats;
mod zeromq;

pub(crate) use nats::Nats;
pub(crate) use zeromq::{Bind, ZeroMq};

use super::File;
use super::environment::Environment;
use super::layered::Layered;
use carom_gateway::tables::{Table, TableError, Value};
use std::net::SocketAddr;

/// How ticks get from feeds, and from whoever else publishes, to the gateway's clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bus {
    /// Within this process.
    Memory,
    /// From or to OpenAlgo's processes, for one user.
    ZeroMq(ZeroMq),
    /// Among gateways, on as many machines.
    Nats(Nats),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Memory,
    ZeroMq,
    Nats,
}

impl Bus {
    /// Nobody has said which.
    pub(super) fn unconfigured() -> Layered<Bus> {
        Layered::new(Bus::Memory, "the default")
    }

    /// The one that `[gateway]` asks for.
    pub(super) fn take(
        table: &mut Table,
        file: &File<'_>,
        environment: &Environment,
    ) -> Result<Layered<Bus>, TableError> {
        let kind = table.read("bus", "\"memory\", \"zeromq\" or \"nats\"", kind)?;
        let origin = match kind {
            Some(_) => table.place("bus").to_string(),
            None => "the default".to_owned(),
        };
        let kind = kind.unwrap_or(Kind::Memory);
        if kind == Kind::Nats && !carom_gateway::bus::Nats::AVAILABLE {
            return Err(table.wrong("bus", "this build has no NATS; `cargo install carom-cli --features nats` has it"));
        }
        for (key, whose) in [("zeromq", Kind::ZeroMq), ("nats", Kind::Nats)] {
            if table.has(key) && kind != whose {
                return Err(table.wrong(key, format_args!("is for another bus; accepted: with bus = \"{key}\"")));
            }
        }
        let bus = match kind {
            Kind::Memory => Bus::Memory,
            Kind::ZeroMq => Bus::ZeroMq(ZeroMq::take(table, environment)?),
            Kind::Nats => Bus::Nats(Nats::take(table, file)?),
        };
        Ok(Layered::new(bus, origin))
    }

    /// What it is, in a line or two, for people. `at` is where others really connect to, once they can.
    pub(crate) fn summary(bus: &Layered<Bus>, at: Option<SocketAddr>) -> String {
        let origin = &bus.origin;
        match &bus.value {
            Bus::Memory => format!("bus: memory ({origin})\n"),
            Bus::ZeroMq(ZeroMq { bind, listen }) => {
                let at = at.unwrap_or(listen.value);
                let who = match bind {
                    Bind::Sub => "publishers",
                    Bind::Pub => "subscribers",
                };
                format!("bus: zeromq ({origin})\n  {who} connect to tcp://{at} ({})\n", listen.origin)
            }
            Bus::Nats(Nats { urls, prefix, .. }) => {
                format!("bus: nats ({origin})\n  at {}, with subjects that begin with {prefix}\n", urls.value)
            }
        }
    }

    /// Whether others can publish ticks of the feed's user on it.
    pub(super) fn has_publishers(&self) -> bool {
        match self {
            Bus::Memory => false,
            Bus::ZeroMq(zeromq) => zeromq.bind == Bind::Sub,
            Bus::Nats(_) => true,
        }
    }
}

fn kind(value: Value) -> Result<Kind, String> {
    match &*value.text()? {
        "memory" => Ok(Kind::Memory),
        "zeromq" => Ok(Kind::ZeroMq),
        "nats" => Ok(Kind::Nats),
        other => Err(format!("`{}` is no kind of bus", other.escape_debug())),
    }
}
