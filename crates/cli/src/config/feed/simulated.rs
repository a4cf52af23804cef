//! Feeds of a simulated exchange: one that is started along with the gateway, or one that runs elsewhere.

use super::super::File;
use super::super::values::{number, up_to};
use super::credential;
use crate::failure::with_causes;
use carom_gateway::credential::Credential;
use carom_gateway::simulated::{self, UrlError};
use carom_gateway::tables::{Table, TableError, Value};

/// Which exchange.
#[derive(Debug)]
pub(crate) enum Simulated {
    /// One that is started along with the gateway.
    Here { symbols: usize, rate: f64, seed: u64 },
    /// One that runs elsewhere.
    There { url: String, credential: Credential },
}

impl Simulated {
    /// One that needs nothing.
    pub(super) const DEMONSTRATION: Simulated = Simulated::Here { symbols: 3_000, rate: 1_000.0, seed: 1 };

    pub(super) fn take(table: &mut Table, file: &File<'_>) -> Result<Simulated, TableError> {
        let url = table.read("url", "where an exchange is, such as \"ws://127.0.0.1:7001\"", url)?;
        let credential = credential::take(table, file)?;
        let symbols = table.read("symbols", "a number from 1 to 1000000", |value| up_to(1_000_000, value))?;
        let rate = table.read("rate", "ticks per second, from 0 to 1000000", rate)?;
        let seed = table.read("seed", "a number from 0 on", Value::whole)?;
        let Some(url) = url else {
            if let Some((key, _)) = credential {
                return Err(table.wrong(key, "is for an exchange that runs elsewhere; accepted: with a url"));
            }
            let (symbols, rate) = (symbols.unwrap_or(3_000), rate.unwrap_or(1_000.0));
            return Ok(Simulated::Here { symbols, rate, seed: seed.unwrap_or(1) });
        };
        for (key, given) in [("symbols", symbols.is_some()), ("rate", rate.is_some()), ("seed", seed.is_some())] {
            if given {
                return Err(table.wrong(key, "is for an exchange that is started here; accepted: without a url"));
            }
        }
        let credential = credential.map_or_else(|| Credential::fixed(""), |(_, credential)| credential);
        Ok(Simulated::There { url, credential })
    }

    /// Whether it is the same exchange; credentials are read again in any case.
    pub(super) fn means_the_same(&self, other: &Simulated) -> bool {
        match (self, other) {
            (
                Simulated::Here { symbols, rate, seed },
                Simulated::Here { symbols: others, rate: other, seed: another },
            ) => (symbols, rate, seed) == (others, other, another),
            (Simulated::There { url, .. }, Simulated::There { url: other, .. }) => url == other,
            (Simulated::Here { .. }, Simulated::There { .. }) | (Simulated::There { .. }, Simulated::Here { .. }) => {
                false
            }
        }
    }
}

fn url(value: Value) -> Result<String, String> {
    let url = value.text()?;
    match simulated::Simulated::new(&url, Credential::fixed("")) {
        Ok(_) => Ok(url),
        // What is accepted is said by whoever reads the table; what was typed may have a password in it.
        Err(UrlError::Address(error)) => Err(with_causes(&error)),
        Err(UrlError::Secure { url, .. }) => Err(format!("`{url}` asks for TLS, which exchanges do not speak")),
        Err(error) => Err(with_causes(&error)),
    }
}

fn rate(value: Value) -> Result<f64, String> {
    let rate = number(value)?;
    if (0.0..=1e6).contains(&rate) { Ok(rate) } else { Err(format!("{rate} is out of bounds")) }
}
