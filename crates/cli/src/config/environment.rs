//! The environment, with OpenAlgo's names: its variables, and below them those in `.env`.

use super::bus::Bus;
use super::dotenv;
use super::feed::{MOST_CONNECTIONS, MOST_TOPICS};
use super::layered::{Layered, host};
use crate::failure::{Failure, say};
use crate::files::of_no_use;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Display;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

/// Beside which the program was started.
const FILE: &str = ".env";
const HOST: &str = "WEBSOCKET_HOST";
const PORT: &str = "WEBSOCKET_PORT";
const TOPICS: &str = "MAX_SYMBOLS_PER_WEBSOCKET";
const CONNECTIONS: &str = "MAX_WEBSOCKET_CONNECTIONS";
const ZMQ_HOST: &str = "ZMQ_HOST";
const ZMQ_PORT: &str = "ZMQ_PORT";
/// What is read, and nothing else is.
const NAMES: [&str; 6] = [HOST, PORT, TOPICS, CONNECTIONS, ZMQ_HOST, ZMQ_PORT];

const AN_ADDRESS: &str = "an IP address or localhost";
const A_PORT: &str = "a port from 0 to 65535";

/// What the environment says, as far as anybody asks. A variable that is empty says nothing.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    pub(crate) host: Option<Layered<IpAddr>>,
    pub(crate) port: Option<Layered<u16>>,
    pub(crate) max_topics_per_connection: Option<Layered<usize>>,
    pub(crate) max_connections: Option<Layered<usize>>,
    /// Where OpenAlgo's bus is. With another bus nobody minds what they say.
    pub(super) zmq_host: Option<Result<Layered<IpAddr>, String>>,
    pub(super) zmq_port: Option<Result<Layered<u16>, String>>,
    /// Who says that.
    zmq: Option<String>,
}

impl Environment {
    /// This process's, and the `.env` in its folder.
    pub(crate) fn read() -> Result<Environment, Failure> {
        let file = Path::new(FILE);
        let text = match std::fs::read(file) {
            // Somebody's comment may be in another encoding.
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            // Python keeps folders of that name.
            Err(_) if file.is_dir() => String::new(),
            Err(error) => return Err(Failure::Input(of_no_use(file, format_args!("cannot be read: {error}")))),
        };
        Environment::new(&text, |name| std::env::var_os(name)).map_err(Failure::Input)
    }

    /// Says what is set and not used with this bus.
    pub(crate) fn tell_unused(&self, bus: &Bus) {
        let whereabouts = match bus {
            Bus::Memory => "stay in this process",
            Bus::Nats(_) => "go over NATS",
            Bus::ZeroMq(_) => return,
        };
        if let Some(unused) = &self.zmq {
            say(format_args!("note: ticks {whereabouts}, and this is not used: {unused}"));
        }
    }

    fn new(text: &str, variable: impl Fn(&str) -> Option<OsString>) -> Result<Environment, String> {
        let written =
            dotenv::parse(text, &NAMES).map_err(|error| format!("{FILE}:{}: {}", error.line, error.problem))?;
        let mut set: HashMap<&str, Layered<String>> = HashMap::new();
        for name in NAMES {
            // Of several lines the last one counts, as it does for a shell.
            if let Some((_, value, line)) = written.iter().rfind(|(written, ..)| written == name) {
                set.insert(name, Layered::new(value.clone(), format_args!("{FILE}:{line}: {name}")));
            }
            if let Some(value) = variable(name) {
                let value = value.into_string().map_err(|_| format!("the variable {name} is not UTF-8"))?;
                set.insert(name, Layered::new(value, format_args!("the variable {name}")));
            }
        }
        set.retain(|_, set| !set.value.trim().is_empty());
        let zmq = [ZMQ_HOST, ZMQ_PORT].iter().filter_map(|name| set.get(name)).map(|set| &*set.origin);
        let zmq = Some(zmq.collect::<Vec<_>>().join(", ")).filter(|zmq| !zmq.is_empty());
        Ok(Environment {
            host: take(&mut set, HOST, AN_ADDRESS, host)?,
            port: take(&mut set, PORT, A_PORT, parsed)?,
            max_topics_per_connection: count(&mut set, TOPICS, MOST_TOPICS)?,
            max_connections: count(&mut set, CONNECTIONS, MOST_CONNECTIONS)?,
            zmq_host: take(&mut set, ZMQ_HOST, AN_ADDRESS, host).transpose(),
            zmq_port: take(&mut set, ZMQ_PORT, A_PORT, parsed).transpose(),
            zmq,
        })
    }
}

fn take<T>(
    set: &mut HashMap<&str, Layered<String>>,
    name: &str,
    accepted: impl Display,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<Layered<T>>, String> {
    let Some(Layered { value, origin }) = set.remove(name) else { return Ok(None) };
    match read(value.trim()) {
        Some(value) => Ok(Some(Layered { value, origin })),
        None => Err(format!("{origin}: `{}` makes no sense; accepted: {accepted}", value.escape_debug())),
    }
}

fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn count(set: &mut HashMap<&str, Layered<String>>, name: &str, most: usize) -> Result<Option<Layered<usize>>, String> {
    let within = |text: &str| parsed(text).filter(|count| (1..=most).contains(count));
    take(set, name, format_args!("a number from 1 to {most}"), within)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, variables: &[(&str, &str)]) -> Result<Environment, String> {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into());
        Environment::new(text, find)
    }

    #[test]
    fn variables_go_over_the_file_and_what_is_empty_says_nothing() {
        let text =
            "WEBSOCKET_PORT='1'\nWEBSOCKET_HOST = 'localhost'\nMAX_SYMBOLS_PER_WEBSOCKET=5\nWEBSOCKET_PORT=2\nX=1";
        let environment = read(text, &[(TOPICS, "7"), (CONNECTIONS, ""), ("X", "y")]).unwrap();
        assert_eq!(environment.port, Some(Layered::new(2, ".env:4: WEBSOCKET_PORT")));
        assert_eq!(environment.host, Some(Layered::new([127, 0, 0, 1].into(), ".env:2: WEBSOCKET_HOST")));
        let topics = environment.max_topics_per_connection;
        assert_eq!(topics, Some(Layered::new(7, "the variable MAX_SYMBOLS_PER_WEBSOCKET")));
        assert_eq!((environment.max_connections, environment.zmq), (None, None));
    }

    #[test]
    fn what_is_said_of_a_bus_may_be_nonsense_until_it_is_used() {
        let environment = read("ZMQ_HOST='gateway'\nZMQ_PORT=''", &[("ZMQ_PORT", "5555")]).unwrap();
        assert_eq!(environment.zmq.as_deref(), Some(".env:1: ZMQ_HOST, the variable ZMQ_PORT"));
        assert_eq!(environment.zmq_port, Some(Ok(Layered::new(5555, "the variable ZMQ_PORT"))));
        let problem = environment.zmq_host.unwrap().unwrap_err();
        assert!(problem.starts_with(".env:1: ZMQ_HOST: `gateway` makes no sense; accepted: an IP"), "{problem}");
    }

    #[test]
    fn nonsense_is_named_with_where_it_is() {
        for (text, variables, problem) in [
            ("A=1\nWEBSOCKET_PORT=http\n", &[][..], ".env:2: WEBSOCKET_PORT: `http` makes no sense; accepted: a port"),
            ("WEBSOCKET_HOST=gateway", &[], ".env:1: WEBSOCKET_HOST: `gateway` makes no sense"),
            (
                "",
                &[(CONNECTIONS, "0")],
                "the variable MAX_WEBSOCKET_CONNECTIONS: `0` makes no sense; accepted: a number",
            ),
            ("", &[(TOPICS, "-1")], "the variable MAX_SYMBOLS_PER_WEBSOCKET: `-1` makes no sense"),
            ("A=1\nWEBSOCKET_PORT 1\n", &[], ".env:2: there is no = after the name"),
        ] {
            let error = read(text, variables).unwrap_err();
            assert!(error.starts_with(problem), "{error}");
        }
    }
}
