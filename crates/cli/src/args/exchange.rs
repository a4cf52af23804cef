//! What can be typed after `carom exchange`.

use super::parse_time;
use crate::config::address;
use crate::secret::Secret;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Run a simulated exchange, for gateways to be tried with
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Output:
  Where it is, and the table that makes it the upstream of a gateway. SIGHUP reads --token-file
  again, and ends connections that came in with another token, as brokers do each morning.
  SIGINT and SIGTERM end it. With --list the symbols alone, a line each, as `carom watch` takes them.

Exit codes:
  0  it was stopped, or has listed its symbols
  1  it cannot listen there
  2  the command line or the token makes no sense

Examples:
  carom exchange --rate 5000
  carom exchange --list | grep -c ^NSE:
  carom exchange --listen 127.0.0.1:7001 --token-file token --max-connections 2
  carom exchange --kill-every 30s --ack-delay 200ms")]
pub(crate) struct Exchange {
    /// Where it listens; port 0 is one that the system chooses
    #[arg(short, long, value_name = "IP:PORT", value_parser = address, default_value = "127.0.0.1:7001")]
    pub(crate) listen: SocketAddr,

    /// How many symbols it lists: well-known names first, then made-up ones
    #[arg(short, long, value_name = "N", default_value_t = 3000)]
    pub(crate) symbols: usize,

    /// Print EXCHANGE:SYMBOL of each symbol, and end
    #[arg(long)]
    pub(crate) list: bool,

    /// Ticks per second in all, shared by the symbols that are subscribed to; each gets about 100 at most
    #[arg(short, long, value_name = "TICKS", default_value_t = 1000.0)]
    pub(crate) rate: f64,

    /// What all prices follow from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// What connections must present; others on this machine can see it [default: they are all let in]
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    pub(crate) token: Option<Secret>,

    /// A file with what connections must present; - is stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Most connections at a time
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) max_connections: usize,

    /// Most symbols on one connection
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) max_topics_per_connection: usize,

    /// How long requests wait for their answers: 500 or 500ms, 5s, 1m [default: not at all]
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Faults")]
    pub(crate) ack_delay: Option<Duration>,

    /// Cut a connection, chosen by chance, this often [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Faults")]
    pub(crate) kill_every: Option<Duration>,
}
