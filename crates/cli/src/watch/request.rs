//! What a command line for `carom watch` means: which gateway, with which key, what to watch, until when, and how to show it.

use crate::args::{self, ModeName};
use crate::failure::{Failure, with_causes};
use crate::files;
use crate::secret::Secret;
use carom::tls::Tls;
use carom_gateway::address::{Address, AddressError};
use std::env;
use std::time::Duration;

/// The key, when no option says otherwise.
const VARIABLE: &str = "CAROM_KEY";
/// No key comes near.
const LONGEST_KEY: u64 = 4096;
const LONGEST_PEM: u64 = 16 << 20;

/// What is to be done.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) address: Address,
    /// For wss:// alone.
    pub(super) tls: Option<Tls>,
    pub(super) key: Secret,
    /// Exchange and symbol, each once.
    pub(super) symbols: Vec<(String, String)>,
    pub(super) mode: ModeName,
    pub(super) depth: u16,
    pub(super) count: Option<u64>,
    pub(super) time: Option<Duration>,
    pub(super) json: bool,
}

impl Request {
    pub(super) fn new(args: args::Watch) -> Result<Request, Failure> {
        let args::Watch { symbols: typed, url, key, key_file, mode, depth, count, time, json, ca } = args;
        let mut symbols = Vec::new();
        for symbol in &typed {
            let symbol = parse_symbol(symbol).map_err(Failure::Usage)?;
            if !symbols.contains(&symbol) {
                symbols.push(symbol);
            }
        }
        let address: Address =
            url.parse().map_err(|error: AddressError| Failure::Usage(format!("--url: {}", with_causes(&error))))?;
        if ca.is_some() && !address.is_secure() {
            return Err(Failure::Usage(format!("--ca is for wss://, and --url is {url}")));
        }
        let key = match (key, key_file) {
            (Some(key), _) => key,
            (None, Some(file)) => secret(&files::read(&file, LONGEST_KEY)?),
            (None, None) => secret(&from_environment()?),
        };
        if key.reveal().is_empty() {
            return Err(Failure::Usage("the key is empty".to_owned()));
        }
        let tls = if address.is_secure() { Some(tls(&address, ca)?) } else { None };
        Ok(Request { address, tls, key, symbols, mode, depth, count, time, json })
    }
}

/// `NSE:SBIN`. What follows the first colon is the symbol, which may have others.
fn parse_symbol(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once(':').filter(|(exchange, symbol)| !exchange.is_empty() && !symbol.is_empty());
    match parts {
        Some((exchange, symbol)) if !text.contains(|c: char| c.is_control() || c.is_whitespace()) => {
            Ok((exchange.to_owned(), symbol.to_owned()))
        }
        _ => Err(format!("`{}` is no EXCHANGE:SYMBOL, such as NSE:SBIN", text.escape_debug())),
    }
}

fn from_environment() -> Result<String, Failure> {
    env::var(VARIABLE).map_err(|error| match error {
        env::VarError::NotPresent => {
            Failure::Usage(format!("a key is missing: --key-file FILE, the variable {VARIABLE}, or --key KEY"))
        }
        env::VarError::NotUnicode(_) => Failure::Usage(format!("{VARIABLE} is not UTF-8")),
    })
}

fn secret(text: &str) -> Secret {
    let Ok(secret) = text.trim().parse();
    secret
}

fn tls(address: &Address, ca: Option<std::path::PathBuf>) -> Result<Tls, Failure> {
    let builder = Tls::builder().server_name(address.host());
    let Some(file) = ca else {
        return builder.build().map_err(|error| Failure::Unavailable(with_causes(&error)));
    };
    let builder = builder.roots_pem(files::read(&file, LONGEST_PEM)?);
    builder.build().map_err(|error| Failure::Input(files::of_no_use(&file, with_causes(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_may_have_colons_but_need_an_exchange() {
        assert_eq!(parse_symbol("NSE:SBIN"), Ok(("NSE".to_owned(), "SBIN".to_owned())));
        assert_eq!(parse_symbol("NFO:TCS:20"), Ok(("NFO".to_owned(), "TCS:20".to_owned())));
        for text in ["", "SBIN", ":SBIN", "NSE:", "NSE: SBIN", "NSE:\u{1b}[2J"] {
            assert!(parse_symbol(text).is_err(), "{text}");
        }
    }
}
