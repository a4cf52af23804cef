//! Tables of a TOML file, taken apart key by key: what is wrong is said with file, line, key, and what would be right.
//!
//! Keys files and the program's config are read this way. A reader [takes](Table::read) what it knows; whatever is left when it
//! is [done](Table::finish) is a mistake.
//!
//! ```
//! use carom_gateway::tables::Table;
//!
//! let mut file = Table::parse("carom.toml", "[gateway]\nlisten = \"127.0.0.1:8765\"\nslow_aftr = \"30s\"\n")?;
//! let mut gateway = file.table("gateway")?.expect("it is there");
//! let listen = gateway.read("listen", "IP:PORT", |value| Ok(value.text()?.parse::<std::net::SocketAddr>().ok()));
//! assert_eq!(listen?, Some(Some(([127, 0, 0, 1], 8765).into())));
//! gateway.read("slow_after", "a time", |value| value.text())?;
//! let problem = gateway.finish().unwrap_err().to_string();
//! assert_eq!(problem, "carom.toml:3: gateway.slow_aftr: there is no such key; did you mean `slow_after`?");
//! # Ok::<(), carom_gateway::tables::TableError>(())
//! ```

mod nearest;
mod value;

pub(crate) use nearest::distance;
pub use nearest::{did_you_mean, nearest};
pub use value::Value;

use std::fmt;
use std::sync::Arc;
use toml::de::{DeTable, DeValue};

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct TableError {
    /// Where.
    pub place: Place,
    /// What, and what would be accepted.
    pub problem: String,
}

/// A key, and where it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as it was named.
    pub file: Arc<str>,
    /// Counted from 1.
    pub line: usize,
    /// With the tables it is in, as in `gateway.listen`; empty for what belongs to no key.
    pub key: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        if self.key.is_empty() { Ok(()) } else { write!(f, ": {}", self.key) }
    }
}

/// A table, less what has been taken out of it.
pub struct Table {
    place: Place,
    entries: Vec<(String, usize, Value)>,
    /// What was asked for, there or not.
    known: Vec<(&'static str, Option<usize>)>,
}

impl Table {
    /// The table that a whole file is.
    ///
    /// # Errors
    /// When it is no TOML.
    pub fn parse(file: &str, text: &str) -> Result<Table, TableError> {
        let place = Place { file: file.into(), line: 1, key: String::new() };
        let parsed = DeTable::parse(text).map_err(|error| {
            let line = line_at(text, error.span().map_or(0, |span| span.start));
            let problem = error.message().replace('\n', ", ");
            TableError { place: Place { line, ..place.clone() }, problem }
        })?;
        Ok(table(place, parsed.into_inner(), text))
    }

    /// Whether a key is there, and was not taken.
    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(name, ..)| name == key)
    }

    /// Takes the value of a key and makes something of it. `accepted` says what is, to whoever wrote something else.
    ///
    /// # Errors
    /// When `read` finds that it makes no sense.
    pub fn read<T>(
        &mut self,
        key: &'static str,
        accepted: &str,
        read: impl FnOnce(Value) -> Result<T, String>,
    ) -> Result<Option<T>, TableError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let wrong = |problem| self.wrong(key, format_args!("{problem}; accepted: {accepted}"));
        read(value).map(Some).map_err(wrong)
    }

    /// Takes a value that has to be there.
    ///
    /// # Errors
    /// When it is not, or makes no sense.
    pub fn require<T>(
        &mut self,
        key: &'static str,
        accepted: &str,
        read: impl FnOnce(Value) -> Result<T, String>,
    ) -> Result<T, TableError> {
        let value = self.read(key, accepted, read)?;
        value.ok_or_else(|| self.missing(key, accepted))
    }

    /// Takes the table `[key]`.
    ///
    /// # Errors
    /// When there is something else of that name.
    pub fn table(&mut self, key: &'static str) -> Result<Option<Table>, TableError> {
        self.read(key, &format!("a table, as in [{key}]"), Value::table)
    }

    /// Takes all tables `[[key]]`, in their order.
    ///
    /// # Errors
    /// When there is something else of that name.
    pub fn tables(&mut self, key: &'static str) -> Result<Vec<Table>, TableError> {
        let read = |value: Value| value.list()?.into_iter().map(Value::table).collect();
        Ok(self.read(key, &format!("tables, each under [[{key}]]"), read)?.unwrap_or_default())
    }

    /// Where a key is written; if it is not, where its table begins.
    pub fn place(&self, key: &'static str) -> Place {
        let taken = self.known.iter().rev().find(|(known, _)| *known == key).and_then(|(_, line)| *line);
        let there = || self.entries.iter().find(|(name, ..)| name == key).map(|(_, line, _)| *line);
        self.at(taken.or_else(there).unwrap_or(self.place.line), key)
    }

    /// That a key makes no sense.
    pub fn wrong(&self, key: &'static str, problem: impl fmt::Display) -> TableError {
        TableError { place: self.place(key), problem: problem.to_string() }
    }

    /// That a key is missing, which something that is there may have been meant to be.
    pub fn missing(&self, key: &'static str, accepted: impl fmt::Display) -> TableError {
        let near = |(name, line, _): &(String, usize, Value)| {
            did_you_mean(name, [key]).map(|_| format!(", unless `{name}` in line {line} is meant to be it"))
        };
        let meant = self.entries.iter().find_map(near).unwrap_or_default();
        self.wrong(key, format_args!("is missing{meant}; accepted: {accepted}"))
    }

    /// Nothing is left over.
    ///
    /// # Errors
    /// When something is: the first of it, and the names that come nearest.
    pub fn finish(self) -> Result<(), TableError> {
        let Some((key, line, _)) = self.entries.iter().min_by_key(|(_, line, _)| *line) else { return Ok(()) };
        let known: Vec<&str> = self.known.iter().map(|(known, _)| *known).collect();
        let problem = format!("there is no such key; {}", nearest(key, &known));
        Err(TableError { place: self.at(*line, key), problem })
    }

    fn take(&mut self, key: &'static str) -> Option<Value> {
        let at = self.entries.iter().position(|(name, ..)| name == key);
        let found = at.map(|at| self.entries.swap_remove(at));
        self.known.push((key, found.as_ref().map(|(_, line, _)| *line)));
        found.map(|(_, _, value)| value)
    }

    fn at(&self, line: usize, key: &str) -> Place {
        let dot = if self.place.key.is_empty() { "" } else { "." };
        Place { line, key: format!("{}{dot}{key}", self.place.key), file: Arc::clone(&self.place.file) }
    }
}

/// Names and no values: some are secret.
impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.entries.iter().map(|(key, ..)| key);
        f.debug_struct("Table").field("place", &self.place).field("keys", &keys.collect::<Vec<_>>()).finish()
    }
}

fn table(place: Place, parsed: DeTable<'_>, text: &str) -> Table {
    let mut table = Table { place, entries: Vec::new(), known: Vec::new() };
    for (key, parsed) in parsed {
        let (line, key) = (line_at(text, key.span().start), key.into_inner().into_owned());
        let own = line_at(text, parsed.span().start);
        let place = Place { line: own.max(line), ..table.at(line, &key) };
        let value = value(place, parsed.into_inner(), text);
        table.entries.push((key, line, value));
    }
    table
}

fn value(place: Place, parsed: DeValue<'_>, text: &str) -> Value {
    match parsed {
        DeValue::String(string) => Value::Text(string.into_owned()),
        DeValue::Boolean(flag) => Value::Flag(flag),
        DeValue::Integer(whole) => {
            i64::from_str_radix(whole.as_str(), whole.radix()).map_or(Value::Other("a huge number"), Value::Whole)
        }
        DeValue::Float(number) => number.as_str().parse().map_or(Value::Other("a number"), Value::Number),
        DeValue::Datetime(moment) => Value::Moment(moment.to_string()),
        DeValue::Array(parsed) => {
            let values = parsed.into_iter().map(|parsed| {
                let place = Place { line: line_at(text, parsed.span().start), ..place.clone() };
                value(place, parsed.into_inner(), text)
            });
            Value::List(values.collect())
        }
        DeValue::Table(parsed) => Value::Table(table(place, parsed, text)),
    }
}

fn line_at(text: &str, byte: usize) -> usize {
    1 + text.as_bytes().iter().take(byte).filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
top = 1

[gateway]
listen = \"x\"
nested = { deep = true }

[[feed]]
user = \"a\"

[[feed]]
user = 7
";

    fn parse() -> Table {
        Table::parse("f.toml", TEXT).unwrap()
    }

    #[test]
    fn every_mistake_has_its_line_and_key() {
        let mut file = parse();
        let wrong = |table: &mut Table, key| table.read(key, "nothing", |_| Err::<(), _>("no".to_owned())).unwrap_err();
        let mut gateway = file.table("gateway").unwrap().unwrap();
        assert_eq!(wrong(&mut gateway, "listen").to_string(), "f.toml:4: gateway.listen: no; accepted: nothing");
        let mut nested = gateway.table("nested").unwrap().unwrap();
        assert_eq!(wrong(&mut nested, "deep").to_string(), "f.toml:5: gateway.nested.deep: no; accepted: nothing");
        let mut feeds = file.tables("feed").unwrap();
        assert_eq!(feeds.len(), 2);
        let user = |feed: &mut Table| feed.require("user", "a text", Value::text).map_err(|error| error.to_string());
        assert_eq!(user(&mut feeds[0]).as_deref(), Ok("a"));
        assert_eq!(
            user(&mut feeds[1]),
            Err("f.toml:11: feed.user: an integer is no text; accepted: a text".to_owned())
        );
        let missing = feeds[1].require("broker", "a text", Value::text).unwrap_err();
        assert_eq!((missing.place.line, &*missing.place.key), (10, "feed.broker"), "{missing}");
        let missing = feeds[0].require("users", "a text", Value::text).unwrap_err().to_string();
        assert_eq!(missing, "f.toml:7: feed.users: is missing; accepted: a text", "it was taken for what it is");
        let mut typed = Table::parse("f.toml", "\ninstrument = 1").unwrap();
        let missing = typed.require("instruments", "a file", Value::text).unwrap_err().to_string();
        let problem = "is missing, unless `instrument` in line 2 is meant to be it; accepted: a file";
        assert_eq!(missing, format!("f.toml:1: instruments: {problem}"));
        assert_eq!(wrong(&mut file, "top").place.line, 1);
        assert_eq!(file.finish(), Ok(()));
    }

    #[test]
    fn what_is_left_over_is_named_with_what_was_meant() {
        let mut file = parse();
        assert!(file.has("gateway") && file.has("top") && !file.has("gatewy"));
        assert!(file.table("gatewy").unwrap().is_none());
        file.tables("feed").unwrap();
        file.read("top", "a number", Value::whole).unwrap();
        assert!(!file.has("top"), "it was taken");
        let error = file.finish().unwrap_err();
        assert_eq!(error.to_string(), "f.toml:3: gateway: there is no such key; did you mean `gatewy`?");
    }

    #[test]
    fn what_is_no_toml_has_its_line() {
        let error = Table::parse("f.toml", "a = 1\nb = \n").unwrap_err();
        assert_eq!((error.place.line, error.place.key.is_empty()), (2, true), "{error}");
        assert!(Table::parse("f.toml", "a = 1\na = 2\n").unwrap_err().to_string().starts_with("f.toml:2: "));
    }

    #[test]
    fn nothing_shows_what_may_be_secret() {
        let mut file = Table::parse("f.toml", "credential = \"hush\"").unwrap();
        assert!(!format!("{file:?}").contains("hush"));
        let error = file.read("credential", "a text", Value::whole).unwrap_err();
        assert!(!error.to_string().contains("hush"), "{error}");
    }
}
