//! The tables `[[service]]`: what is proxied, from where, to whom, and how patiently.

mod backends;
mod check;
mod tls;

pub(crate) use backends::Backends;
pub(crate) use check::{Check, HttpCall, TcpCall};

use super::File;
use super::layered::{Layered, address};
use super::recovery::Recovery;
use super::values::{COUNT, FLAG, LISTEN, Switch, TIME, count, name, number, switch, time, time_or_none, up_to};
use crate::units::several;
use backends::Unsaid;
use carom::Ejection;
use carom_gateway::tables::{Table, TableError, Value};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;
use tls::Tls;

/// More would be a slip of the hand.
const MOST_CONNECTIONS: usize = 100_000;
const ATTEMPTS: u32 = 3;
const MOST_ATTEMPTS: usize = 100;
/// A backend that is back is to be noticed before the next one goes, when all are restarted one after the other.
const MAX_DELAY: Duration = Duration::from_secs(1);
const SPARES: usize = 2;
const CLAIM_TIMEOUT: Duration = Duration::from_secs(5);
const OUTAGE_WAIT: Duration = Duration::from_secs(5);
const MAX_IDLE: Duration = Duration::from_secs(60);
const MAX_CLIENTS: usize = 10_000;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
pub(crate) const HALF_CLOSE_TIMEOUT: Duration = Duration::from_secs(30);
/// As parts of names have it.
const LONGEST_NAME: usize = 63;
const OR_NOT: &str = "a time up to a day, such as \"5s\", or 0 for none";
const OR_NEVER: &str = "a time up to a day, such as \"30s\", or 0 for never";
const EJECTION: &str = "true, false, or a table such as { consecutive = 5, time = \"30s\", max_ejected = 0.5 }";

/// A service that is proxied. Two are equal when the same is to be done for both.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) listen: SocketAddr,
    pub(crate) protocol: Protocol,
    pub(crate) backends: Backends,
    pub(crate) tls: Option<Tls>,
    pub(crate) spares: usize,
    pub(crate) maximum: usize,
    pub(crate) claim_timeout: Duration,
    /// How long a client waits while every backend is dead.
    pub(crate) outage_wait: Duration,
    pub(crate) recovery: Recovery,
    /// Connections that nobody needs are let go after this.
    pub(crate) max_idle: Option<Duration>,
    pub(crate) ejection: Option<Ejection>,
    /// Over how long the share of a new or recovered backend grows to the whole.
    pub(crate) slow_start: Option<Duration>,
    /// More clients at a time are turned away.
    pub(crate) max_clients: usize,
    /// How long what is under way may take when the program stops or the service is removed.
    pub(crate) drain_timeout: Duration,
}

/// What is spoken, with what is meant for that alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http(Http),
    Tcp(Tcp),
}

/// How requests are passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Http {
    pub(crate) http2: Http2,
    /// The `Host` that backends are shown. Without one, it is the name that was resolved, or else the client's own.
    pub(crate) host: Option<String>,
    pub(crate) check: Option<Check<HttpCall>>,
    /// How long the head of an answer may take.
    pub(crate) request_timeout: Option<Duration>,
    /// Whether safe requests at a stalled backend are sent to another as well.
    pub(crate) retry_stalled: bool,
    /// How long a client may take to send a whole head, to send more of a request, or to take more of its answer.
    pub(crate) idle_timeout: Option<Duration>,
}

/// Whether backends are spoken to by HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Http2 {
    /// If they can, which TLS finds out; never without TLS.
    Negotiate,
    Only,
    Off,
}

/// How bytes are passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tcp {
    pub(crate) check: Option<Check<TcpCall>>,
    /// A session in which nothing is said for this long, either way, is ended.
    pub(crate) idle_timeout: Option<Duration>,
    /// A session that one side has closed ends when no byte arrives from the other side for this long.
    pub(crate) half_close_timeout: Option<Duration>,
}

/// All services, each with where it is said where it listens.
pub(super) fn read(file: &mut File<'_>) -> Result<Vec<Layered<Service>>, TableError> {
    let mut services: Vec<Layered<Service>> = Vec::new();
    for mut table in file.table.tables("service")? {
        let service = Service::take(&mut table, file)?;
        if let Some(other) = services.iter().find(|other| other.value.name == service.name) {
            let problem =
                format_args!("there is a service of this name at {}; accepted: one of each name", other.origin);
            return Err(table.wrong("name", problem));
        }
        let place = table.place("listen");
        table.finish()?;
        services.push(Layered::new(service, place));
    }
    Ok(services)
}

impl Service {
    fn take(table: &mut Table, file: &File<'_>) -> Result<Service, TableError> {
        let accepted = format!("up to {LONGEST_NAME} letters, digits, and any of - _ . between them");
        let name = table.require("name", &accepted, label)?;
        let listen = table.require("listen", LISTEN, |value| address(&value.text()?))?;
        let spoken = table.require("protocol", "\"http\" or \"tcp\"", |value| spoken(&value.text()?))?;
        let mut tls = Tls::take(table, file)?;
        let unsaid = match (spoken, &tls) {
            (Spoken::Http, None) => Unsaid { srv: Some("_http._tcp"), port: Some(80) },
            (Spoken::Http, Some(_)) => Unsaid { srv: Some("_https._tcp"), port: Some(443) },
            (Spoken::Tcp, _) => Unsaid { srv: None, port: None },
        };
        let backends = Backends::take(table, &unsaid)?;
        let protocol = match spoken {
            Spoken::Http => {
                let http = Http::take(table)?;
                if let (Some(tls), Backends::Addresses(addresses)) = (&mut tls, &backends) {
                    tls.name_addresses(table, http.host.as_deref(), addresses)?;
                }
                Protocol::Http(http)
            }
            Spoken::Tcp => Protocol::Tcp(Tcp::take(table, tls.is_some())?),
        };
        let accepted = format!("a number from 1 to {MOST_CONNECTIONS}");
        let maximum = table.read("maximum", &accepted, |value| up_to(MOST_CONNECTIONS, value))?;
        let maximum = maximum.unwrap_or(spoken.maximum());
        let accepted = format!("a number from 0 to maximum, which is {maximum}");
        let spares = table.read("spares", &accepted, |value| spares(maximum, value))?;
        let claim_timeout = table.read("claim_timeout", TIME, time)?;
        let outage_wait = table.read("outage_wait", OR_NOT, time_or_none)?;
        let attempts = table.read("attempts", "a number from 1 to 100", |value| up_to(MOST_ATTEMPTS, value))?;
        let max_clients = table.read("max_clients", COUNT, count)?;
        let drain_timeout = table.read("drain_timeout", TIME, time)?;
        let recovery = Recovery::take(table, recovery(attempts.map_or(ATTEMPTS, |attempts| attempts as u32)))?;
        if protocol.may_be_http2(tls.is_some()) && !recovery.has_delay() {
            let problem = "0 is too short for HTTP/2; accepted: from 1ms on, or with http2 = \"off\"";
            return Err(table.wrong("delay", problem));
        }
        let is_http = matches!(protocol, Protocol::Http(_));
        let slow_start = table.read("slow_start", OR_NOT, time_or_none)?.flatten();
        Ok(Service {
            name,
            listen,
            protocol,
            backends,
            tls,
            spares: spares.unwrap_or(SPARES.min(maximum)),
            maximum,
            claim_timeout: claim_timeout.unwrap_or(CLAIM_TIMEOUT),
            outage_wait: outage_wait.unwrap_or(Some(OUTAGE_WAIT)).unwrap_or_default(),
            recovery,
            max_idle: table.read("max_idle", OR_NEVER, time_or_none)?.unwrap_or(Some(MAX_IDLE)),
            ejection: ejection(table, is_http)?,
            slow_start,
            max_clients: max_clients.unwrap_or(MAX_CLIENTS),
            drain_timeout: drain_timeout.unwrap_or(DRAIN_TIMEOUT),
        })
    }
}

impl Service {
    /// Requests to these backends, which are expected to be back soon when they are gone.
    pub(crate) fn demonstration(name: &str, listen: SocketAddr, backends: Vec<SocketAddr>) -> Service {
        Service {
            name: name.to_owned(),
            listen,
            protocol: Protocol::Http(Http::default()),
            backends: Backends::Addresses(backends),
            tls: None,
            spares: 3,
            maximum: Spoken::Http.maximum(),
            claim_timeout: CLAIM_TIMEOUT,
            outage_wait: OUTAGE_WAIT,
            recovery: recovery(ATTEMPTS),
            max_idle: Some(MAX_IDLE),
            ejection: Some(Ejection::default()),
            slow_start: None,
            max_clients: MAX_CLIENTS,
            drain_timeout: DRAIN_TIMEOUT,
        }
    }

    /// Whether a service that runs can become this one without being replaced: only its backends and `drain_timeout` differ. A name
    /// that is resolved is also what requests and certificates are for; it has to stay where that matters.
    pub(crate) fn can_become(&self, wanted: &Service) -> bool {
        let name_matters = match self.protocol {
            Protocol::Http(_) => true,
            Protocol::Tcp(_) => self.tls.is_some(),
        };
        let Service { backends, drain_timeout, .. } = wanted;
        let changed = Service { backends: backends.clone(), drain_timeout: *drain_timeout, ..self.clone() };
        changed == *wanted && (!name_matters || self.backends.have_the_name_of(backends))
    }

    /// What is done and where, for people.
    pub(crate) fn summary(&self, at: SocketAddr, origin: &str) -> String {
        let Service { name, protocol, spares, maximum, .. } = self;
        let tls = if self.tls.is_some() { " over TLS" } else { "" };
        let to = self.backends.summary();
        let (spares, most) = (several(*spares, "spare"), several(*maximum, "connection"));
        format!("service {name}: {protocol} on {at} ({origin}) to {to}{tls}\n  {spares}, at most {most}\n")
    }
}

impl Http {
    fn take(table: &mut Table) -> Result<Http, TableError> {
        not_for(table, "half_close_timeout", "tcp")?;
        let http2 = table.read("http2", "\"negotiate\", \"only\" or \"off\"", |value| http2(&value.text()?))?;
        let host = table.read("host", "a host, with a port or without, such as \"api.example.com\"", host)?;
        let check = Check::<HttpCall>::take(table)?;
        let request_timeout = table.read("request_timeout", OR_NEVER, time_or_none)?;
        let retry_stalled = table.read("retry_stalled", FLAG, Value::flag)?;
        let idle_timeout = table.read("idle_timeout", OR_NEVER, time_or_none)?;
        let unsaid = Http::default();
        Ok(Http {
            http2: http2.unwrap_or(unsaid.http2),
            host,
            check,
            request_timeout: request_timeout.unwrap_or(unsaid.request_timeout),
            retry_stalled: retry_stalled.unwrap_or(unsaid.retry_stalled),
            idle_timeout: idle_timeout.unwrap_or(unsaid.idle_timeout),
        })
    }
}

impl Default for Http {
    fn default() -> Http {
        let (request_timeout, idle_timeout) = (Some(REQUEST_TIMEOUT), Some(IDLE_TIMEOUT));
        Http { http2: Http2::Negotiate, host: None, check: None, request_timeout, retry_stalled: true, idle_timeout }
    }
}

impl Tcp {
    fn take(table: &mut Table, tls: bool) -> Result<Tcp, TableError> {
        for key in ["http2", "host", "request_timeout", "retry_stalled"] {
            not_for(table, key, "http")?;
        }
        let check = Check::<TcpCall>::take(table, tls)?;
        let idle_timeout = table.read("idle_timeout", OR_NEVER, time_or_none)?;
        let half_close_timeout = table.read("half_close_timeout", OR_NEVER, time_or_none)?;
        Ok(Tcp {
            check,
            idle_timeout: idle_timeout.flatten(),
            half_close_timeout: half_close_timeout.unwrap_or(Some(HALF_CLOSE_TIMEOUT)),
        })
    }
}

impl Protocol {
    /// Whether backends may be spoken to by HTTP/2, whose connections are made before a request needs them.
    fn may_be_http2(&self, tls: bool) -> bool {
        match self {
            Protocol::Http(Http { http2: Http2::Negotiate, .. }) => tls,
            Protocol::Http(Http { http2, .. }) => *http2 == Http2::Only,
            Protocol::Tcp(_) => false,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Http(_) => "http",
            Protocol::Tcp(_) => "tcp",
        })
    }
}

#[derive(Clone, Copy)]
enum Spoken {
    Http,
    Tcp,
}

impl Spoken {
    /// A connection of HTTP carries requests of many clients, one of TCP is one client's.
    fn maximum(self) -> usize {
        match self {
            Spoken::Http => 32,
            Spoken::Tcp => 256,
        }
    }
}

/// As it is when a table says nothing but how often.
fn recovery(attempts: u32) -> Recovery {
    Recovery::new(attempts).max_delay(MAX_DELAY)
}

fn spoken(text: &str) -> Result<Spoken, String> {
    match text {
        "http" => Ok(Spoken::Http),
        "tcp" => Ok(Spoken::Tcp),
        other => Err(format!("`{}` is no protocol that is known", other.escape_debug())),
    }
}

fn http2(text: &str) -> Result<Http2, String> {
    match text {
        "negotiate" => Ok(Http2::Negotiate),
        "only" => Ok(Http2::Only),
        "off" => Ok(Http2::Off),
        other => Err(format!("`{}` is none of them", other.escape_debug())),
    }
}

/// It is there, and makes no sense with this protocol.
fn not_for(table: &mut Table, key: &'static str, protocol: &str) -> Result<(), TableError> {
    let accepted = format!("with protocol = \"{protocol}\"");
    table.read(key, &accepted, |_| Err::<(), _>(format!("is for {protocol}"))).map(drop)
}

/// Shown in paths and figures, so it has nothing in it that means something there.
fn label(value: Value) -> Result<String, String> {
    let name = name(value)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let edge = |c: char| c.is_ascii_alphanumeric();
    let whole = |part: &str| part.starts_with(edge) && part.ends_with(edge);
    if name.len() <= LONGEST_NAME && name.chars().all(plain) && name.split('.').all(whole) {
        Ok(name)
    } else {
        Err(format!("`{}` is no such name", name.escape_debug()))
    }
}

fn spares(maximum: usize, value: Value) -> Result<usize, String> {
    let spares = value.whole()?;
    usize::try_from(spares).ok().filter(|spares| *spares <= maximum).ok_or_else(|| format!("{spares} are too many"))
}

fn host(value: Value) -> Result<String, String> {
    let host = name(value)?;
    let parsed = host.parse::<http::uri::Authority>();
    let plain = parsed.is_ok_and(|authority| !authority.host().is_empty() && !authority.as_str().contains('@'));
    if plain { Ok(host) } else { Err(format!("`{}` is no host", host.escape_debug())) }
}

/// On by default for http, whose responses tell a request that failed.
fn ejection(table: &mut Table, is_http: bool) -> Result<Option<Ejection>, TableError> {
    let mut own = match table.read("ejection", EJECTION, switch)? {
        None => return Ok(is_http.then(Ejection::default)),
        Some(Switch::Off) => return Ok(None),
        Some(Switch::On) => return Ok(Some(Ejection::default())),
        Some(Switch::Table(own)) => own,
    };
    let mut ejection = Ejection::default();
    if let Some(consecutive) = own.read("consecutive", "a number from 1 to 1000000", |value| up_to(1_000_000, value))? {
        ejection = ejection.consecutive(consecutive as u32);
    }
    if let Some(time) = own.read("time", TIME, time)? {
        ejection = ejection.time(time);
    }
    if let Some(share) = own.read("max_ejected", "the share of backends that may be left out, from 0 to 1", share)? {
        ejection = ejection.max_ejected(share);
    }
    own.finish()?;
    Ok(Some(ejection))
}

fn share(value: Value) -> Result<f64, String> {
    let share = number(value)?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(format!("{share} is out of bounds")) }
}
