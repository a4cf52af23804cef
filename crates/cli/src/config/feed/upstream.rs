//! Where the ticks of a feed come from, by its adapter.

use super::super::File;
use super::adapter::Adapter;
use super::{Delta, Kite, Listed, MOST_TOPICS, Simulated, Socket};
use crate::units::several;
use carom::feed::Instrument;
use carom_gateway::credential::Credential;
use carom_gateway::tables::{Table, TableError};
use carom_gateway::{delta, kite};
use std::borrow::Cow;
use std::fmt;

/// Where ticks come from.
#[derive(Debug)]
pub(crate) enum Upstream {
    Simulated(Simulated),
    Kite(Kite),
    Delta(Delta),
    /// Whoever publishes on the bus.
    Outside,
}

impl Upstream {
    pub(super) fn take(adapter: Adapter, table: &mut Table, file: &File<'_>) -> Result<Upstream, TableError> {
        Ok(match adapter {
            Adapter::Simulated => Upstream::Simulated(Simulated::take(table, file)?),
            Adapter::Kite => Upstream::Kite(Kite::take(table, file)?),
            Adapter::Delta => Upstream::Delta(Delta::take(table, file)?),
            Adapter::Outside => Upstream::Outside,
        })
    }

    /// Symbols on a connection, and connections, where nobody says how many.
    pub(super) fn usual_limits(&self) -> (usize, usize) {
        match self {
            Upstream::Simulated(_) | Upstream::Delta(_) => (1000, 3),
            Upstream::Kite(_) => (kite::MOST_INSTRUMENTS, kite::MOST_CONNECTIONS),
            // Nobody is connected to.
            Upstream::Outside => (MOST_TOPICS, 1),
        }
    }

    /// Symbols on a connection, and connections, that the broker allows, where that is known.
    pub(super) fn allowed(&self) -> Option<(usize, usize)> {
        match self {
            Upstream::Kite(_) => Some((kite::MOST_INSTRUMENTS, kite::MOST_CONNECTIONS)),
            Upstream::Simulated(_) | Upstream::Delta(_) | Upstream::Outside => None,
        }
    }

    /// What is presented there, where something is.
    pub(super) fn credential(&self) -> Option<&Credential> {
        match self {
            Upstream::Simulated(Simulated::There { credential, .. }) | Upstream::Kite(Kite { credential, .. }) => {
                Some(credential)
            }
            Upstream::Simulated(Simulated::Here { .. }) | Upstream::Delta(_) | Upstream::Outside => None,
        }
    }

    /// One or two that are listed, for people to try; those that people know, if they are among them.
    pub(crate) fn examples(&self) -> Vec<Instrument> {
        let known = |exchange, symbols: [&str; 2]| symbols.map(|symbol| Instrument::new(exchange, symbol)).into_iter();
        let at_nse = || known("NSE", ["SBIN", "RELIANCE"]);
        match self {
            Upstream::Simulated(Simulated::Here { symbols, .. }) => at_nse().take(*symbols).collect(),
            Upstream::Simulated(Simulated::There { .. }) | Upstream::Outside => at_nse().collect(),
            Upstream::Kite(Kite { listed: Listed { instruments, .. }, .. }) => {
                let known: Vec<_> = at_nse().filter(|known| instruments.token(known).is_some()).collect();
                if known.is_empty() { instruments.names().take(2).cloned().collect() } else { known }
            }
            Upstream::Delta(Delta { listed: Listed { instruments, .. }, .. }) => {
                let known = known(delta::EXCHANGE, ["BTCUSD", "ETHUSD"]);
                let known: Vec<_> = known.filter(|known| instruments.get(known.symbol()).is_some()).collect();
                let first = instruments.symbols().take(2).map(|symbol| Instrument::new(delta::EXCHANGE, symbol));
                if known.is_empty() { first.collect() } else { known }
            }
        }
    }

    /// Whether the same is spoken to in the same way; what is read again in any case does not count.
    pub(super) fn means_the_same(&self, other: &Upstream) -> bool {
        match (self, other) {
            (Upstream::Simulated(one), Upstream::Simulated(other)) => one.means_the_same(other),
            (Upstream::Kite(one), Upstream::Kite(other)) => one.means_the_same(other),
            (Upstream::Delta(one), Upstream::Delta(other)) => one.means_the_same(other),
            (Upstream::Outside, Upstream::Outside) => true,
            (Upstream::Simulated(_) | Upstream::Kite(_) | Upstream::Delta(_) | Upstream::Outside, _) => false,
        }
    }
}

/// For people. What may be a key stays where it was written; there is no password in an address: that is refused.
impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Upstream::Simulated(Simulated::Here { .. }) => f.write_str("an exchange started here"),
            Upstream::Simulated(Simulated::There { url, .. }) => f.write_str(&without_query(url)),
            Upstream::Kite(Kite { socket, listed, .. }) => at_broker(f, socket, "kite", listed),
            Upstream::Delta(Delta { socket, listed }) => at_broker(f, socket, "delta", listed),
            Upstream::Outside => f.write_str("whoever publishes on the bus"),
        }
    }
}

fn at_broker<I>(f: &mut fmt::Formatter<'_>, socket: &Socket, adapter: &str, listed: &Listed<I>) -> fmt::Result {
    write!(f, "{} ({adapter}, {})", without_query(&socket.url), several(listed.count, "instrument"))
}

fn without_query(url: &str) -> Cow<'_, str> {
    match url.find(['?', '#']) {
        Some(at) => format!("{}..", &url[..=at]).into(),
        None => url.into(),
    }
}
