//! The table `[gateway]`: where clients come in, who they may be, and how they are served.

use super::File;
use super::bus::Bus;
use super::environment::Environment;
use super::layered::{Layered, address, together};
use super::values::{COUNT, FLAG, LISTEN, TIME, count, time, time_or_none};
use carom_gateway::tables::{Table, TableError, Value};
use carom_gateway::{DEFAULT_LISTEN, Limits};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How clients are served.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) listen: Layered<SocketAddr>,
    pub(crate) bus: Layered<Bus>,
    pub(crate) keys: Option<Layered<KeysAt>>,
    /// The certificate chain and its key.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    pub(crate) snapshot: bool,
    pub(crate) ltp_throttle: Option<Duration>,
    pub(crate) slow_after: Duration,
    pub(crate) auth_grace: Duration,
    pub(crate) ping_interval: Duration,
    pub(crate) ping_timeout: Duration,
    /// How long clients and upstreams have for their goodbyes.
    pub(crate) stop_timeout: Duration,
    pub(crate) limits: Limits,
}

/// Where the keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeysAt {
    /// A file of keys alone.
    File(PathBuf),
    /// Tables `[[key]]` of the config itself.
    Config(PathBuf),
}

impl Gateway {
    pub(super) fn read(mut file: Option<&mut File<'_>>, environment: &Environment) -> Result<Gateway, TableError> {
        let mut gateway = Gateway::unconfigured(environment);
        let Some(file) = file.as_mut() else { return Ok(gateway) };
        let listed = file.table.place("key");
        if !file.table.tables("key")?.is_empty() {
            // They are read, and found to make sense or not, by whoever checks keys.
            gateway.keys = Some(Layered::new(KeysAt::Config(file.path.to_owned()), listed));
        }
        let Some(mut table) = file.table.table("gateway")? else { return Ok(gateway) };
        gateway.take(&mut table, file, environment)?;
        table.finish()?;
        Ok(gateway)
    }

    /// Whether the same is to be done for both, wherever that is written; keys are read again in any case.
    pub(crate) fn means_the_same(&self, other: &Gateway) -> bool {
        let keys = |gateway: &Gateway| gateway.keys.as_ref().map(|keys| keys.value.clone());
        let times = |gateway: &Gateway| {
            let Gateway { slow_after, auth_grace, ping_interval, ping_timeout, stop_timeout, ltp_throttle, .. } =
                gateway;
            ([*slow_after, *auth_grace, *ping_interval, *ping_timeout, *stop_timeout], *ltp_throttle)
        };
        self.bus.value == other.bus.value
            && (self.listen.value, keys(self), &self.tls, self.snapshot, times(self), self.limits)
                == (other.listen.value, keys(other), &other.tls, other.snapshot, times(other), other.limits)
    }

    fn unconfigured(environment: &Environment) -> Gateway {
        Gateway {
            listen: together(environment.host.as_ref(), environment.port.as_ref(), DEFAULT_LISTEN),
            bus: Bus::unconfigured(),
            keys: None,
            tls: None,
            snapshot: true,
            ltp_throttle: None,
            slow_after: Duration::from_secs(30),
            auth_grace: Duration::from_secs(15),
            ping_interval: Duration::from_secs(20),
            ping_timeout: Duration::from_secs(20),
            stop_timeout: Duration::from_secs(10),
            limits: Limits::default(),
        }
    }

    fn take(&mut self, table: &mut Table, file: &File<'_>, environment: &Environment) -> Result<(), TableError> {
        if let Some(value) = table.read("listen", LISTEN, |value| address(&value.text()?))? {
            self.listen = Layered::new(value, table.place("listen"));
        }
        self.bus = Bus::take(table, file, environment)?;
        if let Some(name) = table.read("keys", "the name of a file", Value::text)? {
            if let Some(listed) = &self.keys {
                let problem =
                    format_args!("there are keys in this file too, at {}; accepted: one of both", listed.origin);
                return Err(table.wrong("keys", problem));
            }
            self.keys = Some(Layered::new(KeysAt::File(file.beside(name)), table.place("keys")));
        }
        let certificate = table.read("tls_certificate", "the name of a PEM file", Value::text)?;
        let key = table.read("tls_key", "the name of a PEM file", Value::text)?;
        self.tls = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((file.beside(certificate), file.beside(key))),
            (None, None) => None,
            (Some(_), None) => return Err(table.wrong("tls_certificate", "tls_key is missing; accepted: both or none")),
            (None, Some(_)) => return Err(table.wrong("tls_key", "tls_certificate is missing; accepted: both or none")),
        };
        if let Some(value) = table.read("snapshot", FLAG, Value::flag)? {
            self.snapshot = value;
        }
        let accepted = "a time up to a day, such as \"50ms\", or 0 for every price";
        if let Some(value) = table.read("ltp_throttle", accepted, time_or_none)? {
            self.ltp_throttle = value;
        }
        for (key, field) in [
            ("slow_after", &mut self.slow_after),
            ("auth_grace", &mut self.auth_grace),
            ("ping_interval", &mut self.ping_interval),
            ("ping_timeout", &mut self.ping_timeout),
            ("stop_timeout", &mut self.stop_timeout),
        ] {
            if let Some(value) = table.read(key, TIME, time)? {
                *field = value;
            }
        }
        match table.table("limits")? {
            Some(table) => limits(&mut self.limits, table),
            None => Ok(()),
        }
    }
}

fn limits(limits: &mut Limits, mut table: Table) -> Result<(), TableError> {
    for (key, field) in [
        ("message_size", &mut limits.message_size),
        ("topics_per_client", &mut limits.topics_per_client),
        ("clients_per_address", &mut limits.clients_per_address),
        ("clients", &mut limits.clients),
        ("strangers", &mut limits.strangers),
        ("strangers_per_address", &mut limits.strangers_per_address),
    ] {
        if let Some(value) = table.read(key, COUNT, count)? {
            *field = value;
        }
    }
    for (key, field) in
        [("subscribe_rate", &mut limits.subscribe_rate), ("subscribe_burst", &mut limits.subscribe_burst)]
    {
        if let Some(value) = table.read(key, COUNT, count)? {
            *field = u32::try_from(value).map_err(|_| table.wrong(key, "too much; accepted: below 4294967296"))?;
        }
    }
    table.finish()
}
