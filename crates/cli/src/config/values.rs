//! Values that several tables have: counts, times, names and files, and what is accepted of each.

use super::File;
use crate::files;
use carom_gateway::tables::{Table, Value};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const TIME: &str = "a time from 1ms to a day, such as \"30s\" or \"500ms\"";
pub(super) const COUNT: &str = "a number from 1 on";
pub(super) const LISTEN: &str = "an IP address or localhost, and a port, such as \"127.0.0.1:8765\"";
pub(super) const FLAG: &str = "true or false";
const DAY: Duration = Duration::from_secs(86_400);
/// No certificates come near.
const LONGEST_PEM: u64 = 4 << 20;

/// From 1 on.
pub(super) fn count(value: Value) -> Result<usize, String> {
    let count = usize::try_from(value.whole()?).map_err(|error| error.to_string())?;
    if count == 0 { Err("0 is too few".to_owned()) } else { Ok(count) }
}

/// From 1 to the most that makes sense.
pub(super) fn up_to(most: usize, value: Value) -> Result<usize, String> {
    let count = count(value)?;
    if count > most { Err(format!("{count} are too many")) } else { Ok(count) }
}

pub(super) fn time(value: Value) -> Result<Duration, String> {
    time_or_none(value)?.ok_or_else(|| "no time at all is out of bounds".to_owned())
}

/// Zero is none.
pub(super) fn time_or_none(value: Value) -> Result<Option<Duration>, String> {
    let time = value.time()?;
    if time > DAY { Err(format!("{time:?} is out of bounds")) } else { Ok(Some(time).filter(|time| !time.is_zero())) }
}

/// A text with something in it.
pub(super) fn name(value: Value) -> Result<String, String> {
    let text = value.text()?;
    if text.trim().is_empty() { Err("it is empty".to_owned()) } else { Ok(text) }
}

/// A number, with a point or without.
pub(super) fn number(value: Value) -> Result<f64, String> {
    match value {
        Value::Number(number) => Ok(number),
        value => Ok(value.whole()? as f64),
    }
}

/// What is turned on, with or without saying how.
pub(super) enum Switch {
    Off,
    On,
    Table(Table),
}

/// `true`, `false`, or a table.
pub(super) fn switch(value: Value) -> Result<Switch, String> {
    match value {
        Value::Table(table) => Ok(Switch::Table(table)),
        value => value.flag().map(|on| if on { Switch::On } else { Switch::Off }),
    }
}

/// What a PEM file holds, so that it is another one when it holds something else.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Pem {
    pub(crate) file: PathBuf,
    pub(crate) text: String,
}

impl Pem {
    /// Reads the file of this name, found from the config.
    pub(super) fn read(file: &File<'_>, value: Value) -> Result<Pem, String> {
        let file = file.beside(name(value)?);
        let text = files::read(&file, LONGEST_PEM).map_err(|failure| failure.to_string())?;
        Ok(Pem { file, text })
    }
}

/// What it holds may be secret.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}
