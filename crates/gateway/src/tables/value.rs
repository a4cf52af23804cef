//! Values of a TOML file: what they are, and what they are not.

use super::Table;
use std::fmt;
use std::time::Duration;

/// A value.
pub enum Value {
    /// `"text"`
    Text(String),
    /// `7`
    Whole(i64),
    /// `7.5`
    Number(f64),
    /// `true`
    Flag(bool),
    /// `2026-11-15`, as it is written.
    Moment(String),
    /// `[1, 2]`, or tables under `[[name]]`.
    List(Vec<Value>),
    /// `{ a = 1 }`, or what follows `[name]`.
    Table(Table),
    /// What nobody reads, and how it is called.
    Other(&'static str),
}

impl Value {
    /// A text.
    ///
    /// # Errors
    /// Says what it is instead.
    pub fn text(self) -> Result<String, String> {
        match self {
            Value::Text(text) => Ok(text),
            other => Err(format!("{} is no text", other.kind())),
        }
    }

    /// A number from 0 on.
    ///
    /// # Errors
    /// Says what it is instead.
    pub fn whole(self) -> Result<u64, String> {
        match self {
            Value::Whole(whole) => u64::try_from(whole).map_err(|_| format!("{whole} is below zero")),
            other => Err(format!("{} is no whole number", other.kind())),
        }
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// Says what it is instead.
    pub fn flag(self) -> Result<bool, String> {
        match self {
            Value::Flag(flag) => Ok(flag),
            other => Err(format!("{} is neither true nor false", other.kind())),
        }
    }

    /// A text with a unit, as in `"500ms"`, `"30s"`, `"5m"`; a bare `0` is none at all.
    ///
    /// # Errors
    /// Says what it is instead.
    pub fn time(self) -> Result<Duration, String> {
        let text = match self {
            Value::Text(text) => text,
            Value::Whole(0) => return Ok(Duration::ZERO),
            other => return Err(format!("{} is no time with a unit", other.kind())),
        };
        let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let unit = match unit {
            "ms" => Some(1),
            "s" => Some(1000),
            "m" => Some(60_000),
            _ => None,
        };
        let time = unit.and_then(|unit| digits.parse::<u64>().ok()?.checked_mul(unit)).map(Duration::from_millis);
        time.ok_or_else(|| format!("`{}` is no time with a unit", text.escape_debug()))
    }

    /// A list of whatever.
    ///
    /// # Errors
    /// Says what it is instead.
    pub fn list(self) -> Result<Vec<Value>, String> {
        match self {
            Value::List(values) => Ok(values),
            other => Err(format!("{} is no list", other.kind())),
        }
    }

    /// A list of texts.
    ///
    /// # Errors
    /// Says what it is instead.
    pub fn texts(self) -> Result<Vec<String>, String> {
        self.list()?.into_iter().map(Value::text).collect()
    }

    /// A table.
    ///
    /// # Errors
    /// Says what it is instead.
    pub fn table(self) -> Result<Table, String> {
        match self {
            Value::Table(table) => Ok(table),
            other => Err(format!("{} is no table", other.kind())),
        }
    }

    /// What it is, without saying which: it may be secret.
    fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a text",
            Value::Whole(_) => "an integer",
            Value::Number(_) => "a number with a point",
            Value::Flag(true) => "true",
            Value::Flag(false) => "false",
            Value::Moment(_) => "a date or time",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
            Value::Other(kind) => kind,
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let time = |text: &str| Value::Text(text.to_owned()).time();
        for (text, milliseconds) in [("0s", 0), ("500ms", 500), ("30s", 30_000), ("5m", 300_000)] {
            assert_eq!(time(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "5", "s", "1.5s", "5h", "5 s", "-1s", "99999999999999999999s", "9999999999999999999m"] {
            assert!(time(text).is_err(), "{text}");
        }
        assert_eq!(Value::Whole(0).time(), Ok(Duration::ZERO));
        assert_eq!(Value::Whole(30).time(), Err("an integer is no time with a unit".to_owned()));
    }
}
