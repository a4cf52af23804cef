//! Reading Kite's list, line by line, within bounds.

use super::spelling;
use crate::kite::packet::Token;
use carom::feed::Instrument;
use csv::{ByteRecord, ErrorKind, ReaderBuilder};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Most instruments in a list; Kite's has a hundred thousand.
const MOST: usize = 500_000;

/// Longest list, in bytes.
const LONGEST: u64 = 256 * 1024 * 1024;

/// Longest name, in bytes.
pub(super) const LONGEST_NAME: usize = 128;

/// The columns that are looked at, in the order of [`Columns`].
const COLUMNS: [&str; 8] =
    ["instrument_token", "tradingsymbol", "name", "expiry", "strike", "instrument_type", "segment", "exchange"];

/// What people have instead, by how it begins: pages that say why there is no list, and the list of somebody else.
const OTHERS: [(&[u8], &str); 4] = [(b"<", "HTML"), (b"{", "JSON"), (b"[", "JSON"), (b"\x1f\x8b", "compressed (gzip)")];

/// Why something is not Kite's list of instruments.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstrumentsError {
    /// There is no such file, or none that can be read.
    #[error("the instruments cannot be read from {}", path.display())]
    #[non_exhaustive]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Reading failed.
    #[error("the instruments cannot be read")]
    Read(#[source] io::Error),
    /// It is something else altogether.
    #[error("that is {what}, and not a list in CSV")]
    #[non_exhaustive]
    Other {
        /// What it looks like.
        what: &'static str,
    },
    /// The first line does not name a column that is needed.
    #[error("the first line names no column `{name}`")]
    #[non_exhaustive]
    Column {
        /// Which.
        name: &'static str,
    },
    /// A line makes no sense.
    #[error("line {line}: {problem}")]
    #[non_exhaustive]
    Line {
        /// Which, counted from 1.
        line: u64,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// There are too many.
    #[error("there are more than {most} instruments")]
    #[non_exhaustive]
    TooMany {
        /// As many as can be.
        most: usize,
    },
    /// It is too long.
    #[error("the list of instruments is longer than {most} bytes")]
    #[non_exhaustive]
    TooLong {
        /// As long as it can be.
        most: u64,
    },
    /// There are none.
    #[error("there are no instruments in the list")]
    Empty,
}

/// A line.
pub(super) struct Row {
    pub(super) token: Token,
    /// As OpenAlgo's clients spell it.
    pub(super) instrument: Instrument,
    /// As Kite spells it, where that is different.
    pub(super) other: Option<Instrument>,
}

/// Where each of [`COLUMNS`] is.
type Columns = [usize; COLUMNS.len()];

pub(super) fn rows(list: impl io::Read) -> Result<Vec<Row>, InstrumentsError> {
    // One byte more than there may be, to tell one that is as long as it may be.
    let mut reader = ReaderBuilder::new().from_reader(io::Read::take(list, LONGEST + 1));
    let columns = columns(reader.byte_headers().map_err(unreadable)?)?;
    let mut exchanges = Exchanges::default();
    let (mut rows, mut record) = (Vec::new(), ByteRecord::new());
    while reader.read_byte_record(&mut record).map_err(unreadable)? {
        if reader.position().byte() > LONGEST {
            return Err(InstrumentsError::TooLong { most: LONGEST });
        }
        if rows.len() == MOST {
            return Err(InstrumentsError::TooMany { most: MOST });
        }
        let line = record.position().map_or(0, csv::Position::line);
        rows.push(row(&record, &columns, &mut exchanges).map_err(|problem| InstrumentsError::Line { line, problem })?);
    }
    if rows.is_empty() { Err(InstrumentsError::Empty) } else { Ok(rows) }
}

fn columns(header: &ByteRecord) -> Result<Columns, InstrumentsError> {
    let first = header.get(0).ok_or(InstrumentsError::Empty)?.trim_ascii_start();
    // None of it is shown: it may be a file with a secret.
    if let Some((_, what)) = OTHERS.iter().find(|(begins, _)| first.starts_with(begins)) {
        return Err(InstrumentsError::Other { what });
    }
    let mut columns = [0; COLUMNS.len()];
    for (at, name) in columns.iter_mut().zip(COLUMNS) {
        let found = header.iter().position(|column| column.trim_ascii() == name.as_bytes());
        *at = found.ok_or(InstrumentsError::Column { name })?;
    }
    Ok(columns)
}

fn row(record: &ByteRecord, columns: &Columns, exchanges: &mut Exchanges) -> Result<Row, &'static str> {
    let mut texts = [""; COLUMNS.len()];
    for (text, at) in texts.iter_mut().zip(columns) {
        let bytes = record.get(*at).unwrap_or_default();
        *text = std::str::from_utf8(bytes).map_err(|_| "that is not UTF-8")?.trim();
    }
    let [token, symbol, name, expiry, strike, kind, segment, exchange] = texts;
    let token = token.parse().ok().filter(|token| *token > 0).map(Token).ok_or("`instrument_token` is no number")?;
    is_name(symbol).then_some(()).ok_or("`tradingsymbol` is no name")?;
    is_name(exchange).then_some(()).ok_or("`exchange` is no name")?;
    let is_index = segment == "INDICES";
    let exchange = exchanges.named(exchange, is_index);
    let spelt = match kind {
        _ if is_index => Some(spelling::index(&exchange, symbol)),
        "FUT" => spelling::future(name, expiry),
        "CE" | "PE" => spelling::option(name, expiry, strike, kind),
        _ => None,
    };
    let own = Instrument::new(Arc::clone(&exchange), symbol);
    Ok(match spelt.filter(|spelt| spelt != symbol && is_name(spelt)) {
        Some(spelt) => Row { token, instrument: Instrument::new(exchange, spelt), other: Some(own) },
        None => Row { token, instrument: own, other: None },
    })
}

fn is_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len()) && !name.contains(char::is_control)
}

/// Names of exchanges: a few, shared by all who are traded there.
#[derive(Default)]
struct Exchanges(HashMap<String, [Option<Arc<str>>; 2]>);

impl Exchanges {
    fn named(&mut self, exchange: &str, is_index: bool) -> Arc<str> {
        if !self.0.contains_key(exchange) {
            self.0.insert(exchange.to_owned(), [None, None]);
        }
        let Some(names) = self.0.get_mut(exchange) else { return exchange.into() };
        let [plain, index] = names;
        Arc::clone(if is_index {
            index.get_or_insert_with(|| format!("{exchange}_INDEX").into())
        } else {
            plain.get_or_insert_with(|| exchange.into())
        })
    }
}

fn unreadable(error: csv::Error) -> InstrumentsError {
    let line = error.position().map_or(0, csv::Position::line);
    match error.into_kind() {
        ErrorKind::Io(error) => InstrumentsError::Read(error),
        ErrorKind::UnequalLengths { .. } => {
            InstrumentsError::Line { line, problem: "it has not as many columns as the first line" }
        }
        _ => InstrumentsError::Line { line, problem: "that is not CSV" },
    }
}
