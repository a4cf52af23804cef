//! What can be typed after `carom gateway`.

use crate::config::address;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve market data to OpenAlgo's clients, from a few connections to each broker
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Config:
  [gateway]                          all of it may be left out; names of files are found from the config file
  listen = \"127.0.0.1:8765\"          bus = \"memory\"
  keys = \"keys.toml\"                 from `carom key new --file keys.toml`; or tables [[key]] here
  tls_certificate = \"chain.pem\"      tls_key = \"key.pem\"
  snapshot = true                    send the last known tick on subscribe
  ltp_throttle = 0                   or \"50ms\": at most one price per symbol in that time
  slow_after = \"30s\"                 auth_grace = \"15s\"
  ping_interval = \"20s\"              ping_timeout = \"20s\"
  stop_timeout = \"10s\"               for goodbyes, when it is stopped

  [gateway.limits]
  message_size = 1048576             topics_per_client = 5000
  clients_per_address = 1000         clients = 10000
  subscribe_rate = 1000              subscribe_burst = 10000

  [[feed]]                           one for each user and broker; without any, demo at simulated
  broker = \"simulated\"               user = \"demo\"
  url = \"ws://127.0.0.1:7001\"        a `carom exchange` that runs; without it one is started inside:
  symbols = 3000                     rate = 1000                        seed = 1
  credential = \"...\"                 or credential_file = \"FILE\", or credential_command = [\"PROGRAM\", \"ARGUMENT\"]
  max_topics_per_connection = 1000   max_connections = 3
  linger = \"5s\"                      stall_after = \"90s\"

  Below the config file are the variables WEBSOCKET_HOST, WEBSOCKET_PORT, MAX_SYMBOLS_PER_WEBSOCKET and
  MAX_WEBSOCKET_CONNECTIONS, and below these the same names in a file .env in the working directory.

Output:
  What is served and where, the key if one was made for this run, and what to try. CAROM_LOG=info logs milestones
  to stderr. SIGHUP reads the keys again; SIGINT and SIGTERM let clients and upstreams know and end it.

Exit codes:
  0  it was stopped
  1  it cannot listen there, or something else that it needs is not to be had
  2  the command line or the config makes no sense

Examples:
  carom gateway                                    a simulated exchange, a key, and what to try
  carom gateway --keys keys.toml --listen 0.0.0.0:8765
  carom gateway -c carom.toml")]
pub(crate) struct Gateway {
    /// The config file [default: none; see above for what is in it]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Where clients connect to; port 0 is one that the system chooses [default: 127.0.0.1:8765]
    #[arg(short, long, value_name = "IP:PORT", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,

    /// The file with the keys of clients [default: a key is made for this run and shown once]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) keys: Option<PathBuf>,
}
