//! What can be typed after `carom gateway`.

use crate::config::{MOST_CONNECTIONS, MOST_TOPICS, address};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve market data to OpenAlgo's clients, from a few connections to each broker
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Config:
  [gateway]                          # all of it may be left out; files are found from this one
  listen = \"127.0.0.1:8765\"
  bus = \"memory\"                     # or \"zeromq\", or \"nats\": see Buses
  keys = \"keys.toml\"                 # of `carom key new`; or [[key]] here
  tls_certificate = \"chain.pem\"      # and tls_key: both or none
  tls_key = \"key.pem\"
  snapshot = true                    # send the last known tick on subscribe
  ltp_throttle = 0                   # or \"50ms\": at most one price per symbol in that time
  slow_after = \"30s\"                 # for clients that do not read
  auth_grace = \"15s\"                 # for clients that do not say who they are
  ping_interval = \"20s\"
  ping_timeout = \"20s\"
  stop_timeout = \"10s\"               # for goodbyes, when it is stopped

  [gateway.limits]
  message_size = 1048576
  topics_per_client = 5000
  clients_per_address = 1000
  clients = 10000                    # the limit of open files is raised as far as that goes
  strangers = 2500                   # clients that have not authenticated
  strangers_per_address = 250
  subscribe_rate = 1000              # topics per second and client
  subscribe_burst = 10000

  [[feed]]                           # one for each user and broker; without any, this one:
  broker = \"simulated\"
  user = \"demo\"
  symbols = 3000                     # of an exchange that is started along with the gateway
  rate = 1000
  seed = 1
  max_topics_per_connection = 1000
  max_connections = 3
  linger = \"5s\"                      # what nobody wants any more stays that long
  stall_after = \"90s\"                # a connection that says nothing is dead
  attempt_timeout = \"2s\"             # for a connection to open; doubles with each failure,
  max_attempt_timeout = \"8s\"         # up to this
  delay = \"100ms\"                    # from a failure to the next attempt; doubles likewise,
  max_delay = \"10s\"                  # up to this

  [[feed]]
  broker = \"simulated\"
  user = \"asha\"
  url = \"ws://127.0.0.1:7001\"        # a `carom exchange` that runs
  credential_file = \"token\"          # or credential = \"TEXT\",
                                     # or credential_command = [\"PROGRAM\", \"ARGUMENT\"],
                                     # found in PATH, or from the working directory

  [admin]                            # a dashboard, metrics and more, as `carom up --help` has it
  listen = \"127.0.0.1:9464\"

Brokers:
  [[feed]]
  broker = \"zerodha\"                 # or any name, with adapter = \"kite\"
  user = \"asha\"
  api_key = \"KEY\"                    # of an app at Kite Connect
  credential_file = \"access_token\"   # the token of the day, or one of the other two; read again
                                     # when Kite refuses it
  instruments = \"instruments.csv\"    # curl -o instruments.csv https://api.kite.trade/instruments
  max_topics_per_connection = 3000   # as Kite allows, unless the environment says otherwise
  max_connections = 3

  [[feed]]
  broker = \"deltaexchange\"           # or any name, with adapter = \"delta\"
  user = \"asha\"
  instruments = \"products.json\"      # curl -o products.json \\
                                     #   https://api.india.delta.exchange/v2/products

  Symbols are those of OpenAlgo: NSE:SBIN, NSE_INDEX:NIFTY, CRYPTO:BTCUSD. Both take url (wss://, or
  ws://) and ca, a PEM file of certificates to trust besides the system's. All other keys are as
  above. SIGHUP reads the instruments of both again.

Buses:
  bus = \"zeromq\" in [gateway]: OpenAlgo's own, for one [[feed]], as its topics name no user.
  [gateway.zeromq]
  bind = \"sub\"                       # OpenAlgo's adapters connect and publish;
                                     # or \"pub\": programs that subscribe connect,
                                     # and get what WebSocket clients have
  host = \"127.0.0.1\"                 # whoever can connect is believed
  port = 5555                        # one that is taken is an error

  bus = \"nats\" in [gateway]: gateways on several machines. One of them at a time is connected to
  each broker, the others get its ticks; when it ends, another takes over, and no client notices.
  NATS needs JetStream (nats-server -js). Feeds are to be the same everywhere. A NATS that cannot be
  reached is waited for.
  [gateway.nats]
  url = \"nats://127.0.0.1:4222\"      # or a list of them; tls:// insists on TLS
  prefix = \"carom\"                   # of all subjects
  token_file = \"nats-token\"          # or user and password_file, or credentials_file, of `nsc`;
                                     # none by default. All but the last are read again with
                                     # each connection
  ca = \"ca.pem\"                      # certificates to trust besides the system's; insists on TLS

  [[feed]] with adapter = \"outside\": its ticks come from whoever publishes on the bus, \"zeromq\"
  with bind = \"sub\", or \"nats\". It has a broker and a user, and no other keys. What to publish
  where is in docs/buses.md.

Further:
  A certificate for trying TLS, which clients take as `--ca chain.pem` too:
    openssl req -x509 -newkey rsa:2048 -nodes -days 365 -keyout key.pem -out chain.pem \\
      -subj /CN=carom -addext basicConstraints=critical,CA:FALSE \\
      -addext subjectAltName=IP:127.0.0.1

  Connections to a broker are opened again for as long as it takes. An outage is over for clients
  after about twice its length, and at most max_delay and a tenth of it after the broker is back;
  one attempt_timeout later if an attempt hangs just then.

  Options of the command line go over the config file. Below it are the variables
  WEBSOCKET_HOST, WEBSOCKET_PORT, MAX_SYMBOLS_PER_WEBSOCKET and MAX_WEBSOCKET_CONNECTIONS, and
  below these the same names in a file .env in the working directory. ZMQ_HOST and ZMQ_PORT are
  used with bus = \"zeromq\", below [gateway.zeromq].

Output:
  What is served and where, the key if one was made for this run, and what to try. Milestones
  go to stderr with CAROM_LOG=info. SIGHUP reads the keys, the token of [admin] and all lists of
  instruments again, and tries credentials again that brokers have refused; clients whose key is
  gone are closed (4401 \"key revoked\"), and the others stay. With bus = \"nats\" stderr says who
  is connected to each broker, whenever that changes; a gateway that finds no NATS says so, and
  starts as soon as it is there. SIGINT and SIGTERM end it, after clients and upstreams were told.

Exit codes:
  0  it was stopped
  1  it cannot listen there, or something else that it needs is not to be had
  2  the command line or the config makes no sense

Examples:
  carom gateway                                    a simulated exchange, a key, and what to try
  carom gateway --keys keys.toml --listen 0.0.0.0:8765
  carom gateway -c carom.toml")]
pub(crate) struct Gateway {
    /// The config file [default: none; what can be in it is below]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Where clients connect to; port 0 is one that the system chooses [default: 127.0.0.1:8765]
    #[arg(short, long, value_name = "IP:PORT", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,

    /// Where it can be asked how it is doing, as `carom up` has it [default: that of [admin] in the config, or nowhere]
    ///
    /// A dashboard at /, /api/snapshot and /api/events for `carom top`, /metrics, /kang/snapshot, /healthz. An address that can be
    /// reached from elsewhere needs a token_file in the config's [admin].
    #[arg(long, value_name = "IP:PORT", value_parser = address)]
    pub(crate) admin: Option<SocketAddr>,

    /// The file with the keys of clients [default: a key is made for this run and shown once]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) keys: Option<PathBuf>,

    /// The certificate chain (PEM) to serve TLS with [default: no TLS]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,

    /// The key (PEM) of that certificate
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Most symbols on one connection to a broker, for every feed [default: 1000]
    #[arg(long, value_name = "N", value_parser = up_to::<MOST_TOPICS>)]
    pub(crate) max_topics_per_connection: Option<usize>,

    /// Most connections to a broker, for every feed [default: 3]
    #[arg(long, value_name = "N", value_parser = up_to::<MOST_CONNECTIONS>)]
    pub(crate) max_connections: Option<usize>,
}

/// From 1 on.
fn up_to<const MOST: usize>(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=MOST).contains(count));
    count.ok_or_else(|| format!("accepted: a number from 1 to {MOST}"))
}
