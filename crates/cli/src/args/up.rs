//! What can be typed after `carom up` and `carom check`.

use std::path::PathBuf;

/// Run what a config lists: proxies for services, the gateway; or a demonstration
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Config:
  [admin]                            # what is seen of it, below; without this table nobody listens
  listen = \"127.0.0.1:9464\"
  token_file = \"admin-token\"         # what everybody has to show [none]; needed where others than
                                     # this machine can connect
  hosts = [\"ops.example.com\"]        # names for browsers, besides localhost and addresses [none]

  [[service]]                        # requests to listen are answered by whoever serves the name
  name = \"api\"
  listen = \"127.0.0.1:8080\"
  protocol = \"http\"                  # or \"tcp\"
  resolve = \"_http._tcp.api.example.com\"
  spares = 4                         # connections that are open before anybody needs them [2]
  maximum = 32                       # connections in all [32; 256 for tcp], those
                                     # that were upgraded (WebSockets) included

  [[service]]
  name = \"db\"
  listen = \"127.0.0.1:5433\"
  protocol = \"tcp\"
  resolve = [\"10.0.0.1:5432\", \"10.0.0.2:5432\"]

  Further keys of a service, with what holds without them:
    nameservers = [\"10.0.0.53\"]      the system's; or the name that they are found under
    srv = true                       SRV records of _http._tcp, or _https._tcp with tls; of a
                                     tcp service only if its name begins with one
    default_port = 80                443 with tls; of backends whose port nobody else says
    tls = true                       false; or { ca = \"ca.pem\", server_name = \"NAME\",
                                     certificate = \"chain.pem\", key = \"key.pem\", insecure = true }
                                     http to addresses needs server_name here, or host
    claim_timeout = \"5s\"             for a connection to be had
    outage_wait = \"5s\"               of that, while every backend is dead; 0 to fail
    attempts = 3                     before a backend counts as dead, each with
    attempt_timeout = \"2s\"           this much time, doubled with each failure up to
    max_attempt_timeout = \"8s\"
    delay = \"100ms\"                  between attempts, doubled likewise up to
    max_delay = \"1s\"
    max_idle = \"60s\"                 of connections beyond spares that nobody uses
    ejection = true                  for http; tcp: false; or { consecutive = 5, time = \"10s\",
                                     max_ejected = 0.5 }, of requests that fail in a row
    slow_start = 0                   none; the share of a new or recovered backend grows from a
                                     tenth to the whole over this time
    max_clients = 10000
    drain_timeout = \"10s\"            for what is under way when the program stops or the
                                     service is removed
    check_interval = \"5s\"            with check, as below
    check_timeout = \"2s\"
  For http alone:
    http2 = \"negotiate\"              or \"only\", or \"off\"
    host = \"api.example.com\"         the name that was resolved; for addresses, the client's own
    check = \"/healthz\"               none; GET from every node, 200 to 399 pass; or \"grpc\", or
                                     \"grpc:SERVICE\" (grpc.health.v1). Two failed checks take a
                                     node out of use, two passed ones bring it back
    request_timeout = \"60s\"          until the head of the answer; 0 for none
    retry_stalled = true             send GET, HEAD and OPTIONS elsewhere when a backend stalls
    idle_timeout = \"60s\"             for a client to send or take more; 0 for none
  For tcp alone:
    idle_timeout = \"10m\"             none; a session in which nothing is said that long is ended
    check = \"connect\"                none; or check_send = \"PING\\r\\n\" and check_expect = \"+PONG\"
    half_close_timeout = \"30s\"       without a byte after one side has closed; 0 for never

  [gateway] and [[feed]]             as `carom gateway --help` has them

  Files are found from the config's folder. `carom check` says what is wrong with it.

Output:
  What runs and where. SIGHUP reads the config again: services with other nodes keep their
  connections and sessions; services that have changed otherwise take over their sockets, lose no
  request, and their open sessions go on until they end; keys and credentials of the gateway are
  read again; a config that makes no sense changes nothing. SIGINT and SIGTERM let
  what is under way finish, each service for its drain_timeout; told twice, it ends at once.
  A service manager is told as systemd has it (NOTIFY_SOCKET, WATCHDOG_USEC).

  At the admin address, with GET and HEAD; nothing can be changed there:
    /                a dashboard, for browsers
    /api/snapshot    everything that is seen, as JSON; /api/events, once a second, as server-sent
                     events. `carom top` shows it
    /metrics         for Prometheus
    /kang/snapshot   for kang, with /kang/types, /kang/objects/TYPE and /kang/obj/TYPE/ID
    /healthz         200 and JSON: \"ok\", \"unknown\" when no backend was connected to yet,
                     \"saturated\" when clients wait for a connection, or \"degraded\" when backends
                     do not work, nobody serves a name, a feed cannot connect or shares what no
                     gateway has, or the gateway waits for NATS; 503 \"unavailable\" when no backend
                     of a service can be used, and \"draining\" once it was told to end
  With a token_file, `Authorization: Bearer TOKEN` is wanted for all but the page itself and the
  mere status at /healthz. The token is the file's first line, of 16 characters or more.

Exit codes:
  0  it was stopped
  1  it cannot listen somewhere, or something else that it needs is not to be had
  2  the command line or the config makes no sense

Examples:
  carom up                           a demonstration that needs nothing, and what to try
  carom up -c carom.toml
  carom check -c carom.toml && kill -HUP PID")]
pub(crate) struct Up {
    /// The config file [default: none, for the demonstration; what can be in it is below]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Say whether a config makes sense, and what would run
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What can be in it is in `carom up --help` and `carom gateway --help`. Nothing is looked up, opened
or connected to, but files that it names are read.

Exit codes:
  0  it makes sense
  2  it does not: what is wrong, with file, line, key and what is accepted, is on stderr

Examples:
  carom check
  carom check -c /etc/carom/carom.toml")]
pub(crate) struct Check {
    /// The config file
    #[arg(short, long, value_name = "FILE", default_value = "carom.toml")]
    pub(crate) config: PathBuf,
}
