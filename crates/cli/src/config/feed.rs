//! The tables `[[feed]]`: a user at a broker, and how the upstream is spoken to.

use super::File;
use super::environment::Environment;
use super::gateway::{count, time_or_none};
use super::recovery::Recovery;
use crate::failure::with_causes;
use carom_gateway::credential::Credential;
use carom_gateway::simulated::{Simulated, UrlError};
use carom_gateway::tables::{Table, TableError, Value};
use std::time::Duration;

const TOPICS: usize = 1000;
const CONNECTIONS: usize = 3;
/// More would be a slip of the hand.
pub(crate) const MOST_TOPICS: usize = 1_000_000;
pub(crate) const MOST_CONNECTIONS: usize = 10_000;

/// A user at a broker.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(crate) broker: String,
    pub(crate) user: String,
    pub(crate) upstream: Upstream,
    pub(crate) max_topics_per_connection: usize,
    pub(crate) max_connections: usize,
    pub(crate) linger: Duration,
    pub(crate) stall_after: Option<Duration>,
    pub(crate) recovery: Recovery,
}

/// Where ticks come from.
#[derive(Debug)]
pub(crate) enum Upstream {
    /// A simulated exchange that is started along with the gateway.
    Here { symbols: usize, rate: f64, seed: u64 },
    /// A simulated exchange that runs elsewhere.
    There { url: String, credential: Credential },
}

/// All feeds; without any, one that needs nothing.
pub(super) fn read(file: Option<&mut File<'_>>, environment: &Environment) -> Result<Vec<Feed>, TableError> {
    let Some(file) = file else { return Ok(vec![Feed::demonstration(environment)]) };
    let mut feeds: Vec<Feed> = Vec::new();
    for mut table in file.table.tables("feed")? {
        let feed = Feed::take(&mut table, file, environment)?;
        if feeds.iter().any(|other| (&other.broker, &other.user) == (&feed.broker, &feed.user)) {
            return Err(
                table.wrong("user", "has a feed at this broker already; accepted: one for each user and broker")
            );
        }
        table.finish()?;
        feeds.push(feed);
    }
    Ok(if feeds.is_empty() { vec![Feed::demonstration(environment)] } else { feeds })
}

impl Feed {
    fn demonstration(environment: &Environment) -> Feed {
        Feed {
            broker: "simulated".to_owned(),
            user: "demo".to_owned(),
            upstream: Upstream::Here { symbols: 3_000, rate: 1_000.0, seed: 1 },
            max_topics_per_connection: environment.max_topics_per_connection.as_ref().map_or(TOPICS, |set| set.value),
            max_connections: environment.max_connections.as_ref().map_or(CONNECTIONS, |set| set.value),
            linger: Duration::from_secs(5),
            stall_after: Some(Duration::from_secs(90)),
            recovery: Recovery::default(),
        }
    }

    fn take(table: &mut Table, file: &File<'_>, environment: &Environment) -> Result<Feed, TableError> {
        let mut feed = Feed::demonstration(environment);
        feed.broker = table.require("broker", "\"simulated\"", broker)?;
        feed.user = table.require("user", "the name of a user, as in the keys", name)?;
        feed.upstream = upstream(table, file)?;
        for (key, field, most) in [
            ("max_topics_per_connection", &mut feed.max_topics_per_connection, MOST_TOPICS),
            ("max_connections", &mut feed.max_connections, MOST_CONNECTIONS),
        ] {
            if let Some(value) = table.read(key, &format!("a number from 1 to {most}"), |value| up_to(most, value))? {
                *field = value;
            }
        }
        let accepted = "a time up to a day, such as \"5s\", or 0 for not at all";
        if let Some(linger) = table.read("linger", accepted, time_or_none)? {
            feed.linger = linger.unwrap_or_default();
        }
        let accepted = "a time up to a day, such as \"90s\", or 0 for never";
        if let Some(stall_after) = table.read("stall_after", accepted, time_or_none)? {
            feed.stall_after = stall_after;
        }
        feed.recovery = Recovery::take(table)?;
        Ok(feed)
    }
}

fn upstream(table: &mut Table, file: &File<'_>) -> Result<Upstream, TableError> {
    let url = table.read("url", "where an exchange is, such as \"ws://127.0.0.1:7001\"", url)?;
    let credential = credential(table, file)?;
    let symbols = table.read("symbols", "a number from 1 to 1000000", |value| up_to(1_000_000, value))?;
    let rate = table.read("rate", "ticks per second, from 0 to 1000000", rate)?;
    let seed = table.read("seed", "a number from 0 on", Value::whole)?;
    let Some(url) = url else {
        if let Some((key, _)) = credential {
            return Err(table.wrong(key, "is for an exchange that runs elsewhere; accepted: with a url"));
        }
        let (symbols, rate) = (symbols.unwrap_or(3_000), rate.unwrap_or(1_000.0));
        return Ok(Upstream::Here { symbols, rate, seed: seed.unwrap_or(1) });
    };
    for (key, given) in [("symbols", symbols.is_some()), ("rate", rate.is_some()), ("seed", seed.is_some())] {
        if given {
            return Err(table.wrong(key, "is for an exchange that is started here; accepted: without a url"));
        }
    }
    let credential = credential.map_or_else(|| Credential::fixed(""), |(_, credential)| credential);
    Ok(Upstream::There { url, credential })
}

/// Which key says where it is found, and where that is.
fn credential(table: &mut Table, file: &File<'_>) -> Result<Option<(&'static str, Credential)>, TableError> {
    let fixed = table.read("credential", "a text", name)?.map(Credential::fixed);
    let path =
        table.read("credential_file", "the name of a file", name)?.map(|name| Credential::file(file.beside(name)));
    let accepted = "a program and its arguments, such as [\"get-token\", \"--today\"]";
    let command = table.read("credential_command", accepted, command)?.map(Credential::command);
    let given = [("credential", fixed), ("credential_file", path), ("credential_command", command)];
    let mut given = given.into_iter().filter_map(|(key, credential)| Some((key, credential?)));
    let first = given.next();
    match (first, given.next()) {
        (Some((first, _)), Some((second, _))) => {
            Err(table.wrong(second, format_args!("there is {first} too; accepted: one of them")))
        }
        (first, _) => Ok(first),
    }
}

fn broker(value: Value) -> Result<String, String> {
    let text = value.text()?;
    if text == "simulated" { Ok(text) } else { Err(format!("`{}` is no broker that is known", text.escape_debug())) }
}

fn name(value: Value) -> Result<String, String> {
    let text = value.text()?;
    if text.trim().is_empty() { Err("it is empty".to_owned()) } else { Ok(text) }
}

fn command(value: Value) -> Result<Vec<String>, String> {
    let argv = value.texts()?;
    if argv.first().is_none_or(|program| program.is_empty()) { Err("no program is named".to_owned()) } else { Ok(argv) }
}

fn up_to(most: usize, value: Value) -> Result<usize, String> {
    let count = count(value)?;
    if count > most { Err(format!("{count} are too many")) } else { Ok(count) }
}

fn url(value: Value) -> Result<String, String> {
    let url = value.text()?;
    match Simulated::new(&url, Credential::fixed("")) {
        Ok(_) => Ok(url),
        // What is accepted is said by whoever reads the table; what was typed may have a password in it.
        Err(UrlError::Address(error)) => Err(with_causes(&error)),
        Err(UrlError::Secure { url, .. }) => Err(format!("`{url}` asks for TLS, which exchanges do not speak")),
        Err(error) => Err(with_causes(&error)),
    }
}

fn rate(value: Value) -> Result<f64, String> {
    let rate = match value {
        Value::Number(rate) => rate,
        value => value.whole()? as f64,
    };
    if (0.0..=1e6).contains(&rate) { Ok(rate) } else { Err(format!("{rate} is out of bounds")) }
}
