//! The table `[gateway]`: where clients come in, who they may be, and how they are served.

use super::File;
use super::environment::Environment;
use super::layered::{Layered, address};
use carom_gateway::tables::{Table, TableError, Value};
use carom_gateway::{DEFAULT_LISTEN, Limits};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

const TIME: &str = "a time from 1ms to a day, such as \"30s\" or \"500ms\"";
const COUNT: &str = "a number from 1 on";
const DAY: Duration = Duration::from_secs(86_400);

/// How clients are served.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) listen: Layered<SocketAddr>,
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
        gateway.take(&mut table, file)?;
        table.finish()?;
        Ok(gateway)
    }

    fn unconfigured(environment: &Environment) -> Gateway {
        Gateway {
            listen: listen(environment),
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

    fn take(&mut self, table: &mut Table, file: &File<'_>) -> Result<(), TableError> {
        let accepted = "an IP address or localhost, and a port, such as \"127.0.0.1:8765\"";
        if let Some(value) = table.read("listen", accepted, |value| address(&value.text()?))? {
            self.listen = Layered::new(value, table.place("listen"));
        }
        table.read("bus", "\"memory\"", bus)?;
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
        if let Some(value) = table.read("snapshot", "true or false", Value::flag)? {
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

fn listen(environment: &Environment) -> Layered<SocketAddr> {
    let Environment { host, port, .. } = environment;
    let value = SocketAddr::new(
        host.as_ref().map_or(DEFAULT_LISTEN.ip(), |host| host.value),
        port.as_ref().map_or(DEFAULT_LISTEN.port(), |port| port.value),
    );
    let origins = [host.as_ref().map(|host| &*host.origin), port.as_ref().map(|port| &*port.origin)];
    let origins: Vec<&str> = origins.into_iter().flatten().collect();
    Layered::new(value, if origins.is_empty() { "the default".to_owned() } else { origins.join(", ") })
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

fn bus(value: Value) -> Result<(), String> {
    match &*value.text()? {
        "memory" => Ok(()),
        other => Err(format!("`{}` is no kind of bus", other.escape_debug())),
    }
}

/// From 1 on.
pub(super) fn count(value: Value) -> Result<usize, String> {
    let count = usize::try_from(value.whole()?).map_err(|error| error.to_string())?;
    if count == 0 { Err("0 is too few".to_owned()) } else { Ok(count) }
}

pub(super) fn time(value: Value) -> Result<Duration, String> {
    time_or_none(value)?.ok_or_else(|| "no time at all is out of bounds".to_owned())
}

/// Zero is none.
pub(super) fn time_or_none(value: Value) -> Result<Option<Duration>, String> {
    let time = value.time()?;
    if time > DAY { Err(format!("{time:?} is out of bounds")) } else { Ok(Some(time).filter(|time| !time.is_zero())) }
}
