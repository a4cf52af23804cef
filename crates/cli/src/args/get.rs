//! What can be typed after `carom get`.

use super::Target;
use std::path::PathBuf;

/// Ask a service over HTTP, and say which node answered and what took how long
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Output:
  The body, as it comes. On stderr: the status, which backend answered, over which protocol, on
  a fresh or a reused connection, in how many attempts if there was more than one; and how long
  it took to resolve, to claim a connection, to connect, for the TLS handshake, until the first
  byte of the answer, for the body, and in all. Of a connection that was there, there is no
  connecting to tell. A redirect is shown and not followed. A body that is no text is not
  printed on a terminal, unless it is asked for with `-o -`.

Exit codes:
  0  there was an answer, whatever its status
  1  there was none, and the error names the step that failed: request, resolve, claim, connect,
     tls, send, receive or timeout; with --fail: its status was 400 or above; or the output
     could not be written
  2  the command line makes no sense, or a file that it names is of no use

Examples:
  carom get http://api.example.com/orders
  carom get -i -H 'accept: application/json' https://api.example.com/orders/7
  carom get -d @order.json -H 'content-type: application/json' http://api.example.com/orders
  carom get -n 5 -o /dev/null -r 10.0.0.53 http://api.internal/    what a reused connection saves
  carom get --json http://api.internal/ | jq .timings")]
pub(crate) struct Get {
    #[command(flatten)]
    pub(crate) target: Target,

    /// The body of the request; @FILE is what the file has in it, @- stdin
    ///
    /// Nothing is said of what it is: a Content-Type is sent where --header has one.
    #[arg(short, long, value_name = "BODY")]
    pub(crate) data: Option<String>,

    /// Print the status and the headers of the answer before its body
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) include: bool,

    /// Write the body there, and not to stdout; - is stdout, also when the body is no text
    ///
    /// The file is made when an answer has begun. With --times it has the body of the last one.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Print a JSON object per request, and not the body; stderr has nothing but errors
    ///
    /// url, method, status, protocol, reused, attempts, backend (name, address, port, key), headers (pairs of name and
    /// value), body_bytes, and timings in milliseconds: resolve, claim, connect, tls, first_byte, body, total (null where there
    /// was nothing to do). Of a failure: url, method and error (step, message).
    #[arg(long)]
    pub(crate) json: bool,

    /// Say nothing on stderr but what went wrong
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Take a status of 400 or above for a failure; the body is printed all the same
    #[arg(short, long)]
    pub(crate) fail: bool,

    /// Ask so many times, one after the other, over the same connections
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) times: u64,
}
