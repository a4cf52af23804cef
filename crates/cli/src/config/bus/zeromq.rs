//! The table `[gateway.zeromq]`: which end of OpenAlgo's bus is here, and where the other one connects to.

use super::super::environment::Environment;
use super::super::layered::{Layered, host, together};
use carom_gateway::tables::{Table, TableError, Value};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Where OpenAlgo's processes look for each other.
const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5555);

/// A socket that others connect to.
#[derive(Clone, Debug)]
pub(crate) struct ZeroMq {
    pub(crate) bind: Bind,
    pub(crate) listen: Layered<SocketAddr>,
}

/// Which end is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bind {
    /// Publishers connect to it.
    Sub,
    /// Subscribers connect to it.
    Pub,
}

impl ZeroMq {
    pub(super) fn take(gateway: &mut Table, environment: &Environment) -> Result<ZeroMq, TableError> {
        let mut bind = Bind::Sub;
        let (mut at, mut port) = (None, None);
        if let Some(mut table) = gateway.table("zeromq")? {
            let accepted = "\"sub\", for publishers to connect to, or \"pub\", for subscribers";
            bind = table.read("bind", accepted, end)?.unwrap_or(bind);
            let written = table.read("host", "an IP address or localhost", address)?;
            at = written.map(|at| Layered::new(at, table.place("host")));
            let written = table.read("port", "a port from 0 to 65535; 0 is one that the system chooses", number)?;
            port = written.map(|port| Layered::new(port, table.place("port")));
            table.finish()?;
        }
        // What is written above it need not make sense.
        let wrong = |problem: String| gateway.wrong("bus", problem);
        if at.is_none() {
            at = environment.zmq_host.clone().transpose().map_err(wrong)?;
        }
        if port.is_none() {
            port = environment.zmq_port.clone().transpose().map_err(wrong)?;
        }
        Ok(ZeroMq { bind, listen: together(at.as_ref(), port.as_ref(), DEFAULT) })
    }
}

/// Wherever it is written.
impl PartialEq for ZeroMq {
    fn eq(&self, other: &ZeroMq) -> bool {
        (self.bind, self.listen.value) == (other.bind, other.listen.value)
    }
}

impl Eq for ZeroMq {}

fn end(value: Value) -> Result<Bind, String> {
    match &*value.text()? {
        "sub" => Ok(Bind::Sub),
        "pub" => Ok(Bind::Pub),
        other => Err(format!("`{}` is no end of a bus", other.escape_debug())),
    }
}

fn address(value: Value) -> Result<IpAddr, String> {
    let text = value.text()?;
    host(&text).ok_or_else(|| format!("`{}` is no address", text.escape_debug()))
}

fn number(value: Value) -> Result<u16, String> {
    let port = value.whole()?;
    u16::try_from(port).map_err(|_| format!("{port} is no port"))
}
