//! What can be typed after `carom watch`.

use super::parse_time;
use crate::secret::Secret;
use clap::ValueEnum;
use std::path::PathBuf;
use std::time::Duration;

/// Show what a gateway says of symbols, as it comes
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Output:
  On a terminal a table that is drawn in place; otherwise a line for each tick: time (UTC),
  symbol, price, change and change in percent (since the close that the tick names, or else
  since the first price seen), and with --mode quote the volume, with --mode depth the best bid
  and ask, each as price and quantity. What is not known is a `-`. Refused symbols, notes on
  those that have to wait, lost connections and errors go to stderr. Colours stay away when NO_COLOR is set.

Exit codes:
  0  ended by --count, --for, SIGINT, SIGTERM or its reader
  1  the gateway cannot be reached, or refuses the key or all symbols; --for was over before
     --count or before there was a connection; or the output could not be written
  2  the command line makes no sense

Examples:
  CAROM_KEY=9f86d0... carom watch NSE:SBIN NSE:RELIANCE
  carom watch --key-file laptop.key --mode depth NSE:SBIN
  carom watch --key-file laptop.key --json --count 100 NSE:SBIN | jq .data.ltp
  carom watch --key-file laptop.key --url wss://gateway.internal:8765 --ca ca.pem NSE:SBIN")]
pub(crate) struct Watch {
    /// What to watch, as EXCHANGE:SYMBOL
    #[arg(value_name = "EXCHANGE:SYMBOL", required = true)]
    pub(crate) symbols: Vec<String>,

    /// Where the gateway is: ws:// or wss://, a host and perhaps a port
    #[arg(short, long, value_name = "URL", default_value = "ws://127.0.0.1:8765")]
    pub(crate) url: String,

    /// The key; others on this machine can see it, so that CAROM_KEY or --key-file is better
    #[arg(short, long, value_name = "KEY", conflicts_with = "key_file")]
    pub(crate) key: Option<Secret>,

    /// A file with the key in it; - is stdin [default: the variable CAROM_KEY]
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,

    /// How much of each: the last price, a quote, or the order book
    #[arg(short, long, value_enum, default_value_t, hide_possible_values = true)]
    #[arg(help = "How much of each: ltp (the last price), quote or depth (the order book)")]
    pub(crate) mode: ModeName,

    /// How many levels of the order book
    #[arg(long, value_name = "LEVELS", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) depth: u16,

    /// End after so many ticks
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,

    /// End after this time: 500 or 500ms, 5s, 1m; at most a day
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    pub(crate) time: Option<Duration>,

    /// Print ticks as the gateway sends them: a JSON object per line
    #[arg(long)]
    pub(crate) json: bool,

    /// A file with the certificates (PEM) that vouch for a wss:// gateway [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeName {
    #[default]
    Ltp,
    Quote,
    Depth,
}
