//! What can be typed after `carom top`.

use std::path::PathBuf;

/// Show what a running carom holds and why, on a terminal
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Output:
  A screen that is kept up to date: services, pools and sets with a strip of their slots and how
  long claims wait, dead backends with the reason and the next attempt, resolvers with what they
  know for how long, windows, feeds and how full they are, gateways and their slowest clients.
  `?` lists the keys and what the letters of a strip stand for. When the connection is lost, what
  was known stays, with its time, until there is another one. Where too many follow it already, it is
  asked every 3 s. Colours stay away when NO_COLOR is set.
  With --once the same as text, and with --once --json as the admin address says it: one line.

Exit codes:
  0  it was left with q, Ctrl-C, SIGINT, SIGTERM or SIGHUP; with --once: what is seen was printed,
     whatever it is
  1  the admin address cannot be reached, refuses, or is none of carom's; or the output could
     not be written
  2  the command line makes no sense, or there is no terminal and no --once

Examples:
  carom top
  carom top --token-file admin.token http://10.0.0.7:9464
  carom top --once | less
  carom top --once --json | jq -r '.monitor.objects[] | select(.dead > 0) | .name'")]
pub(crate) struct Top {
    /// The admin address: http:// or https://, a host and perhaps a port; a host alone is http:// at port 9464
    #[arg(value_name = "URL", default_value = "http://127.0.0.1:9464")]
    pub(crate) url: String,

    /// A file with the token that the admin address wants, in its first line; - is stdin, with --once [default: CAROM_ADMIN_TOKEN]
    ///
    /// When that token is refused later on, the file is read again: a new one may be there.
    /// There is no option for the token itself: others on this machine can see what is typed.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Print what is seen now, as text, and end
    #[arg(long)]
    pub(crate) once: bool,

    /// With --once: print it as one line of JSON
    ///
    /// program (name, version, host, pid, started_at_ms), status, services, leaving, history and monitor (taken_at_ms and objects).
    #[arg(long, requires = "once")]
    pub(crate) json: bool,

    /// A file with the certificates (PEM) that vouch for an https:// server [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}
