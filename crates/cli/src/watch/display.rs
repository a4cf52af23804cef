//! How ticks are shown: a table on a terminal, lines or JSON elsewhere.

use super::message::{Tick, Welcome};
use super::quote::{Quote, percentage, signed};
use super::request::Request;
use super::table::Table;
use crate::args::ModeName;
use crate::failure::say;
use crate::output::{printable_json, printable_lines};
use crate::timestamp::Timestamp;
use std::collections::HashMap;
use std::env;
use std::fmt::Display as Shown;
use std::io::{self, IsTerminal};
use std::mem;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, Stdout};
use tokio::time::timeout;

/// As much waits to be written together, and no more.
const FULL: usize = 64 << 10;
/// For a reader that is slow, when everything is over.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// What has been shown so far, and where.
pub(super) struct Display {
    seen: u64,
    connected: bool,
    layout: Layout,
    /// What is not written yet.
    text: String,
    /// Written by a thread of its own: a reader that does not read is not to keep signals waiting.
    stdout: Stdout,
}

enum Layout {
    Json,
    Lines {
        mode: ModeName,
        /// The first price of each symbol.
        first: HashMap<String, f64>,
    },
    Table(Box<Table>),
}

impl Display {
    pub(super) fn new(request: &Request) -> Display {
        let draws = io::stdout().is_terminal() && env::var_os("TERM").is_none_or(|term| term != "dumb");
        let layout = if request.json {
            Layout::Json
        } else if draws {
            Layout::Table(Box::new(Table::new(request)))
        } else {
            Layout::Lines { mode: request.mode, first: HashMap::new() }
        };
        Display { seen: 0, connected: false, layout, text: String::new(), stdout: tokio::io::stdout() }
    }

    /// How many ticks were shown.
    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    /// Whether there ever was a connection.
    pub(super) fn connected(&self) -> bool {
        self.connected
    }

    /// A connection is up.
    pub(super) fn welcome(&mut self, welcome: &Welcome) {
        self.connected = true;
        if let Layout::Table(table) = &mut self.layout {
            table.note(format!("{} at {}", welcome.user, welcome.broker));
        }
    }

    /// Something other than a tick: in the table, or on stderr.
    pub(super) fn tell(&mut self, news: impl Shown) {
        match &mut self.layout {
            Layout::Table(table) if io::stderr().is_terminal() => {
                table.tell(printable_lines(&news.to_string()).into_owned());
            }
            Layout::Json | Layout::Lines { .. } | Layout::Table(_) => say(news),
        }
    }

    /// The connection is lost.
    pub(super) fn lost(&mut self, news: impl Shown) {
        if let Layout::Table(table) = &mut self.layout {
            table.note("not connected".to_owned());
        }
        self.tell(news);
    }

    /// Takes a tick, of which `text` is the message.
    pub(super) fn take(&mut self, tick: &Tick, text: &str) {
        self.seen += 1;
        match &mut self.layout {
            Layout::Json => self.text.extend([&*printable_json(text), "\n"]),
            Layout::Lines { mode, first } => {
                let quote = Quote::of(tick, first.get(&tick.name).copied());
                if let Some(value) = quote.value {
                    first.entry(tick.name.clone()).or_insert(value);
                }
                self.text += &line(&tick.name, &quote, *mode);
            }
            Layout::Table(table) => table.update(tick),
        }
    }

    /// Waits until there is something to draw. Cancelling it loses nothing.
    pub(super) async fn due(&mut self) {
        match &mut self.layout {
            Layout::Table(table) => table.due().await,
            Layout::Json | Layout::Lines { .. } if self.text.is_empty() => std::future::pending().await,
            Layout::Json | Layout::Lines { .. } => {}
        }
    }

    /// Whether that is so urgent that ticks have to wait.
    pub(super) fn is_overdue(&self) -> bool {
        match &self.layout {
            Layout::Table(table) => table.is_overdue(),
            Layout::Json | Layout::Lines { .. } => self.text.len() >= FULL,
        }
    }

    /// Draws all there is. Cancelled, it goes on by itself for as long as the program runs.
    pub(super) async fn draw(&mut self) -> io::Result<()> {
        if let Layout::Table(table) = &mut self.layout {
            self.text += &table.draw();
        }
        let text = mem::take(&mut self.text);
        self.stdout.write_all(text.as_bytes()).await?;
        self.stdout.flush().await
    }

    /// Draws what came last, if anybody still reads.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        match &self.layout {
            Layout::Table(table) if !table.is_begun() => Ok(()),
            Layout::Json | Layout::Lines { .. } | Layout::Table(_) => {
                timeout(FINISH_TIMEOUT, self.draw()).await.unwrap_or(Ok(()))
            }
        }
    }
}

fn line(name: &str, quote: &Quote, mode: ModeName) -> String {
    let time = quote.time.unwrap_or_else(Timestamp::now);
    let mut columns = vec![quote.price.clone(), signed(quote.change), percentage(quote.percent)];
    match mode {
        ModeName::Ltp => {}
        ModeName::Quote => columns.push(quote.volume.clone()),
        ModeName::Depth => columns.extend([quote.bid.clone(), quote.ask.clone()]),
    }
    let columns: Vec<_> = columns.into_iter().map(|column| column.unwrap_or_else(|| "-".to_owned())).collect();
    format!("{time} {name} {}\n", columns.join(" "))
}
