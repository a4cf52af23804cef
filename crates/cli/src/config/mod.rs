//! The config: what a file says, over the environment, over `.env`, over defaults; command lines go over all of it.
//!
//! Each table of the file has a module that takes it apart; what nobody takes is a mistake.

mod admin;
mod bus;
mod dotenv;
mod environment;
mod feed;
mod gateway;
mod layered;
mod recovery;
mod service;
mod token;
mod values;

pub(crate) use admin::{Access, Admin, DEFAULT_ADMIN};
pub(crate) use bus::{Bind, Bus, Nats, ZeroMq};
pub(crate) use environment::Environment;
pub(crate) use feed::{Delta, Feed, Kite, MOST_CONNECTIONS, MOST_TOPICS, Simulated, Upstream};
pub(crate) use gateway::{Gateway, KeysAt};
pub(crate) use layered::{Layered, address};
pub(crate) use service::{Backends, Check, HALF_CLOSE_TIMEOUT, Http, Http2, HttpCall, Protocol, Service, Tcp, TcpCall};

use crate::failure::Failure;
use crate::files;
use carom_gateway::tables::{Table, TableError};
use std::path::{Path, PathBuf};

const LONGEST: u64 = 16 << 20;

/// Everything that is configured.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) admin: Option<Admin>,
    /// Each with where it is said where it listens.
    pub(crate) services: Vec<Layered<Service>>,
    pub(crate) gateway: Gateway,
    /// Whether the file says anything about a gateway, or its feeds or keys.
    pub(crate) has_gateway: bool,
    pub(crate) feeds: Vec<Feed>,
}

/// A file that is being taken apart.
struct File<'a> {
    path: &'a Path,
    table: Table,
}

impl Config {
    /// What this file says, or no file.
    pub(crate) fn read(file: Option<&Path>, environment: &Environment) -> Result<Config, Failure> {
        let file = match file {
            Some(path) => {
                let table =
                    Table::parse(&path.display().to_string(), &files::read(path, LONGEST)?).map_err(of_no_use)?;
                Some(File { path, table })
            }
            None => None,
        };
        Config::new(file, environment).map_err(of_no_use)
    }

    fn new(file: Option<File<'_>>, environment: &Environment) -> Result<Config, TableError> {
        let Some(mut file) = file else {
            let gateway = Gateway::read(None, environment)?;
            let feeds = feed::read(None, environment, &gateway.bus)?;
            return Ok(Config { admin: None, services: Vec::new(), gateway, has_gateway: false, feeds });
        };
        let has_gateway = ["gateway", "feed", "key"].iter().any(|key| file.table.has(key));
        let admin = Admin::read(&mut file)?;
        let services = service::read(&mut file)?;
        let gateway = Gateway::read(Some(&mut file), environment)?;
        let feeds = feed::read(Some(&mut file), environment, &gateway.bus)?;
        file.table.finish()?;
        Ok(Config { admin, services, gateway, has_gateway, feeds })
    }
}

impl File<'_> {
    /// What is named in a file is found from there, not from where somebody happens to be.
    fn beside(&self, name: String) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(name)
    }
}

/// It is written as `file:line: key: problem`.
fn of_no_use(error: TableError) -> Failure {
    Failure::Input(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../../../contrib/carom.toml");

    /// Shown with an example: nothing holds without them.
    const EXAMPLES: [&str; 16] = [
        "token_file",
        "hosts",
        "nameservers",
        "ejection",
        "slow_start",
        "tls",
        "host",
        "check",
        "keys",
        "tls_certificate",
        "tls_key",
        "credential_file",
        // Of what is checked.
        "check_interval",
        "check_timeout",
        "check_send",
        "check_expect",
    ];

    fn read(text: &str) -> Config {
        let path = Path::new("carom.toml");
        let table = Table::parse("carom.toml", text).expect("it is TOML");
        Config::new(Some(File { path, table }), &Environment::default()).expect("it makes sense")
    }

    fn same(one: &Config, other: &Config) -> bool {
        let services =
            |config: &Config| config.services.iter().map(|service| service.value.clone()).collect::<Vec<_>>();
        let feeds = one.feeds.len() == other.feeds.len()
            && one.feeds.iter().zip(&other.feeds).all(|(one, other)| one.means_the_same(other));
        services(one) == services(other) && feeds && one.gateway.means_the_same(&other.gateway)
    }

    /// The example, with one of its lines not commented out: each in turn, with its key.
    fn each_key() -> Vec<(&'static str, String)> {
        let key = |line: &'static str| {
            let (key, _) = line.strip_prefix("# ")?.split_once(" = ")?;
            key.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit()).then_some(key)
        };
        let without = |chosen: usize| {
            let lines = EXAMPLE.lines().enumerate();
            lines.map(|(number, line)| if number == chosen { &line[2..] } else { line }.to_owned() + "\n").collect()
        };
        EXAMPLE.lines().enumerate().filter_map(|(number, line)| Some((key(line)?, without(number)))).collect()
    }

    #[test]
    fn what_the_example_shows_as_a_default_is_one() {
        let plain = read(EXAMPLE);
        let mut idle_timeouts = 0;
        let mut tried = 0;
        for (key, text) in each_key().into_iter().filter(|(key, _)| !EXAMPLES.contains(key)) {
            tried += 1;
            idle_timeouts += usize::from(key == "idle_timeout");
            // That of TCP is an example, the second one in the file.
            let is_default = !(key == "idle_timeout" && idle_timeouts == 2);
            assert_eq!(same(&plain, &read(&text)), is_default, "{key}");
        }
        assert!(tried > 40, "{tried} keys are shown");
    }

    /// Otherwise nothing could be found out by comparing.
    #[test]
    fn what_is_no_default_makes_a_difference() {
        // No other adapter makes sense with the keys that it stands among.
        let tried = |key: &str| !EXAMPLES.contains(&key) && key != "adapter";
        for (key, text) in each_key().into_iter().filter(|(key, _)| tried(key)) {
            let other = |line: &str| {
                let (before, value) = line.split_once(" = ").unwrap();
                // Another value of the same kind that is as good.
                let value = match value {
                    "true" => "false".to_owned(),
                    "\"negotiate\"" => "\"off\"".to_owned(),
                    "\"memory\"" => "\"nats\"".to_owned(),
                    "\"127.0.0.1:8765\"" => "\"127.0.0.1:8766\"".to_owned(),
                    "0" => "\"9s\"".to_owned(),
                    number if number.parse::<u64>().is_ok() => (number.parse::<u64>().unwrap() + 1).to_string(),
                    time => time.replacen('"', "\"1", 1),
                };
                format!("{before} = {value}")
            };
            let changed = |(one, plain): (&str, &str)| if one == plain { one.to_owned() } else { other(one) };
            let text: Vec<String> = text.lines().zip(EXAMPLE.lines()).map(changed).collect();
            assert!(!same(&read(EXAMPLE), &read(&text.join("\n"))), "{key}");
        }
    }
}
