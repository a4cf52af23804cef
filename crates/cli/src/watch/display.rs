//! How ticks are shown: a table on a terminal, lines or JSON elsewhere.

use super::message::{Tick, Welcome};
use super::quote::{Quote, percentage, signed};
use super::request::Request;
use super::table::Table;
use crate::args::ModeName;
use crate::failure::say;
use crate::output::print;
use crate::timestamp::Timestamp;
use std::collections::HashMap;
use std::env;
use std::fmt::Display as Shown;
use std::io::{self, IsTerminal};

/// What has been shown so far, and where.
pub(super) struct Display {
    seen: u64,
    layout: Layout,
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
        Display { seen: 0, layout }
    }

    /// How many ticks were shown.
    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    /// A connection is up.
    pub(super) fn welcome(&mut self, welcome: &Welcome) -> io::Result<()> {
        match &mut self.layout {
            Layout::Table(table) => table.note(format!("{} at {}", welcome.user, welcome.broker)),
            Layout::Json | Layout::Lines { .. } => Ok(()),
        }
    }

    /// Something other than a tick: in the table, or on stderr.
    pub(super) fn tell(&mut self, news: impl Shown) -> io::Result<()> {
        match &mut self.layout {
            Layout::Table(table) if io::stderr().is_terminal() => table.tell(news.to_string()),
            Layout::Json | Layout::Lines { .. } | Layout::Table(_) => {
                say(news);
                Ok(())
            }
        }
    }

    /// The connection is lost.
    pub(super) fn lost(&mut self, news: impl Shown) -> io::Result<()> {
        if let Layout::Table(table) = &mut self.layout {
            table.note("not connected".to_owned())?;
        }
        self.tell(news)
    }

    /// Shows a tick, of which `text` is the message.
    pub(super) fn show(&mut self, tick: &Tick, text: &str) -> io::Result<()> {
        self.seen += 1;
        match &mut self.layout {
            Layout::Json => print(&format!("{text}\n")),
            Layout::Lines { mode, first } => {
                let quote = Quote::of(tick, first.get(&tick.name).copied());
                if let Some(value) = quote.value {
                    first.entry(tick.name.clone()).or_insert(value);
                }
                print(&line(&tick.name, &quote, *mode))
            }
            Layout::Table(table) => {
                table.update(tick);
                Ok(())
            }
        }
    }

    /// Waits until there is something to draw. Cancelling it loses nothing.
    pub(super) async fn due(&mut self) {
        match &mut self.layout {
            Layout::Table(table) => table.due().await,
            Layout::Json | Layout::Lines { .. } => std::future::pending().await,
        }
    }

    /// Draws what is due.
    pub(super) fn draw(&mut self) -> io::Result<()> {
        match &mut self.layout {
            Layout::Table(table) => table.draw(),
            Layout::Json | Layout::Lines { .. } => Ok(()),
        }
    }

    /// Leaves the terminal as it was found, with what came last.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match &mut self.layout {
            Layout::Table(table) => table.finish(),
            Layout::Json | Layout::Lines { .. } => Ok(()),
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
