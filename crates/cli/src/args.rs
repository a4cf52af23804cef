//! What can be typed. What it means is none of this file's business.

mod exchange;
mod gateway;
mod get;
mod key;
mod ledger;
mod load;
mod target;
mod top;
mod up;
mod watch;

pub(crate) use exchange::Exchange;
pub(crate) use gateway::Gateway;
pub(crate) use get::Get;
pub(crate) use key::{Key, KeyVerb, NewKey};
pub(crate) use ledger::{Ledger, LedgerName, Question};
pub(crate) use load::Load;
pub(crate) use target::Target;
pub(crate) use top::Top;
pub(crate) use up::{Check, Up};
pub(crate) use watch::{ModeName, Watch};

use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;
use std::time::Duration;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

/// Connections to services that run on many nodes.
#[derive(Debug, Parser)]
#[command(name = "carom", version, arg_required_else_help = true, disable_help_subcommand = true)]
#[command(after_help = "\
`carom COMMAND --help` says more about a command.

The variable CAROM_LOG sets what is logged to stderr: error, warn (the default of most), info,
debug, trace or off, also for parts of the program, as in CAROM_LOG=warn,carom::dns=debug.")]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(Up),
    Check(Check),
    Top(Top),
    Resolve(Resolve),
    Get(Get),
    Load(Load),
    Ledger(Ledger),
    Gateway(Gateway),
    Watch(Watch),
    Key(Key),
    Exchange(Exchange),
    /// Print the completions of a shell, to be sourced by it
    #[command(after_help = "\
Examples:
  carom completions bash > ~/.local/share/bash-completion/completions/carom
  carom completions zsh > ~/.zfunc/_carom
  carom completions fish > ~/.config/fish/completions/carom.fish")]
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Print a manual page
    #[command(after_help = "\
Examples:
  carom man | man -l -
  carom man resolve > /usr/local/share/man/man1/carom-resolve.1
  carom man ledger get-txn | man -l -")]
    Man {
        /// The command that it is about; without one, carom as a whole
        command: Vec<String>,
    },
}

/// What becomes of backends.
const BACKENDS: &str = "carom::telling";
/// The end of outages of feeds.
const FEEDS: &str = "carom::feed::recovered";
/// Its client. What it has to say is told by the bus, and not as often.
const NATS: &str = "async_nats";

impl Command {
    /// What is logged when nobody says. A failure that a command reports itself is not to be told twice.
    /// Whoever reads the log of a sidecar is to see the end of an outage, and not its beginning alone.
    pub(crate) fn usual_log(&self) -> Targets {
        let from = |level: LevelFilter| Targets::new().with_default(level);
        match self {
            Command::Get(_) | Command::Load(_) => from(LevelFilter::ERROR),
            // A line of it would be in the middle of the screen.
            Command::Top(_) => from(LevelFilter::OFF),
            Command::Up(Up { config: Some(_) }) => {
                let states = ["carom::pool", "carom::set", BACKENDS, FEEDS].map(|target| (target, LevelFilter::INFO));
                from(LevelFilter::WARN).with_targets(states).with_target(NATS, LevelFilter::OFF)
            }
            Command::Gateway(_) => {
                from(LevelFilter::WARN).with_target(FEEDS, LevelFilter::INFO).with_target(NATS, LevelFilter::OFF)
            }
            // These tell by themselves what fails, in full.
            Command::Ledger(_) => from(LevelFilter::WARN).with_target("carom::window", LevelFilter::ERROR),
            Command::Resolve(_) => from(LevelFilter::WARN).with_target("carom::resolver", LevelFilter::ERROR),
            _ => from(LevelFilter::WARN),
        }
    }
}

/// Print who serves a name, by DNS: SRV records first, then addresses
#[derive(Debug, clap::Args)]
#[command(override_usage = "carom resolve [OPTIONS] NAME[:PORT]\n       carom resolve [OPTIONS] --static IP[:PORT]...")]
#[command(after_help = "\
Output:
  For each backend a line: its address, port and key; by SRV priority, name, port and address.
  With --follow: a time (UTC), `added` or `removed`, address:port, and the key in brackets.
  What is looked up, warnings and errors go to stderr.

Exit codes:
  0  there are backends; with --follow: ended by SIGINT, SIGTERM or its reader
  1  the name could not be resolved, or the output could not be written
  2  the command line makes no sense

Examples:
  carom resolve api.example.com                    its _http._tcp service, or else its addresses
  carom resolve _ldap._tcp.example.com             another service
  carom resolve -p 5432 -r 10.0.0.53 db.internal   of a nameserver of your choice
  carom resolve -r binder.internal db.internal     of the nameservers that a name stands for
  carom resolve -f --json api.example.com | jq .   every change, as it comes
  carom resolve -f --kang-port 0 api.example.com   what it asks and when, for kang
  carom resolve -S 127.0.0.1:2020                  the key of an address")]
pub(crate) struct Resolve {
    /// A name, [_service._proto.]NAME[:PORT], with a dot at its end to rule out the search list; or an address
    ///
    /// A port that is given here is that of backends which no SRV record names; it goes before --port.
    #[arg(value_name = "NAME", required = true)]
    pub(crate) inputs: Vec<String>,

    /// Take the arguments for IP addresses, and look nothing up
    #[arg(short = 'S', long = "static")]
    pub(crate) fixed: bool,

    /// Keep running, and print every change
    ///
    /// Trouble is told on stderr when it begins and when it is over. Each question gets three attempts before it counts as
    /// failed, and is asked again for as long as the program runs; without --follow it gets one.
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// While it runs, show at http://127.0.0.1:PORT/kang/snapshot what the resolver holds; 0 is a free port
    ///
    /// With --follow. Which port it is, is told on stderr. kang's other paths are there as well: /kang/types, /kang/objects/TYPE and
    /// /kang/obj/TYPE/ID. Nobody but this machine can connect.
    #[arg(long, value_name = "PORT", requires = "follow")]
    pub(crate) kang_port: Option<u16>,

    /// The port of backends that no SRV record names [default: 80; 443 for the service _https._tcp]
    #[arg(short, long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,

    /// The nameservers to ask: IP[:PORT][,...], or one NAME that they are found under [default: the system's]
    ///
    /// May be repeated. A NAME[:PORT] is looked up through the system's nameservers: its _dns._udp SRV records, or its
    /// addresses.
    #[arg(short, long, value_name = "NAMESERVERS")]
    pub(crate) resolvers: Vec<String>,

    /// The SRV service of a name that does not begin with one [default: _http._tcp]
    #[arg(short, long, value_name = "SERVICE")]
    pub(crate) service: Option<String>,

    /// How long an attempt to get an answer may take: 500 or 500ms, 5s, 1m; at most a day [default: 5s]
    ///
    /// This holds for each question and each attempt at it. Several questions in a row, as for SRV records and then for the
    /// addresses of their targets, can take a multiple of it.
    #[arg(short, long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) timeout: Option<Duration>,

    /// Print a JSON object per line, with everything that is known
    ///
    /// name, address, port, key, priority, weight, ttl (in seconds; null where there is none) and source: `srv`,
    /// `additional` (an SRV answer that brought the address along), `domain` (an address of the name itself) or `static`. With
    /// --follow also time and event: `added`, `removed`, or `changed` when nothing but priority or weight did.
    #[arg(long)]
    pub(crate) json: bool,

    /// Whether to ask for IPv6 addresses
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, hide_possible_values = true)]
    #[arg(help = "Whether to ask for IPv6 addresses: always, never, or auto, when this host has one")]
    pub(crate) ipv6: When,

    /// Where the system's nameservers are listed
    #[arg(long, value_name = "PATH", default_value = "/etc/resolv.conf", help_heading = "The system")]
    pub(crate) resolv_conf: PathBuf,

    /// The port of the system's nameservers
    #[arg(long, value_name = "PORT", default_value_t = 53, help_heading = "The system")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) nameserver_port: u16,

    /// Where the system keeps names of its own
    #[arg(long, value_name = "PATH", default_value = "/etc/hosts", help_heading = "The system")]
    pub(crate) hosts: PathBuf,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum When {
    #[default]
    Auto,
    Always,
    Never,
}

/// `500`, `500ms`, `5s`, `1m`.
fn parse_time(text: &str) -> Result<Duration, String> {
    const DAY: Duration = Duration::from_secs(86_400);
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let milliseconds: u64 = match unit {
        "" | "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        _ => return Err("a time is a number and ms, s or m, as in 500ms, 5s or 1m".to_owned()),
    };
    if digits.is_empty() || digits.starts_with('0') {
        return Err("a time is a number above zero that does not begin with a 0, and ms, s or m".to_owned());
    }
    // What is too long to be a number is too long a time.
    let time = digits.parse().ok().and_then(|n: u64| n.checked_mul(milliseconds)).map(Duration::from_millis);
    time.filter(|time| *time <= DAY).ok_or_else(|| "longer than a day".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn times_have_units_and_bounds() {
        for (text, milliseconds) in [
            ("1", 1),
            ("500", 500),
            ("500ms", 500),
            ("5s", 5000),
            ("1m", 60_000),
            ("86400000", 86_400_000),
            ("1440m", 86_400_000),
        ] {
            assert_eq!(parse_time(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        let too_long = "9".repeat(100);
        for text in
            ["", "0", "05s", "s", "-1", "+1", "1.5s", "1h", "5 s", "5S", "ms", "1441m", "86400001", &too_long, "٣s"]
        {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
