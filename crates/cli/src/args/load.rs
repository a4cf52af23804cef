//! What can be typed after `carom load`.

use super::{Target, parse_time};
use std::time::Duration;

/// Ask a service over HTTP again and again, and report how that went
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Output:
  A report: how many requests and how many a second, which statuses came how often, failures by
  the step that failed, latencies and how they are spread, and which backend answered how many.
  A latency ends with the last byte of the body. It begins when the request could be made; with
  --rate, when it was due, whether there was a connection for it by then or not, so that a service
  which stalls is not spared the requests that it kept from being made. Latencies are of answered
  requests alone, whatever the status; they are right to 0.4 %. Redirects are not followed. After
  a failure there is a pause of 10 ms on that connection, unless there is a --rate.
  How far it is (on a terminal) and errors go to stderr.

Exit codes:
  0  there were answers; also when it was ended early by SIGINT or SIGTERM
  1  there was not one answer; with --fail: a request failed or its status was 400 or above; or
     the output could not be written
  2  the command line makes no sense, or a file that it names is of no use

Examples:
  carom load http://api.internal/                            10 connections for 10 seconds
  carom load -c 50 -d 1m http://api.internal/orders
  carom load --rate 2000 -c 100 http://api.internal/         2000 requests a second
  carom load -n 100000 --json http://api.internal/ | jq .latency_ms.p99")]
pub(crate) struct Load {
    #[command(flatten)]
    pub(crate) target: Target,

    /// The body of each request; @FILE is what the file has in it, @- stdin
    #[arg(long, value_name = "BODY")]
    pub(crate) data: Option<String>,

    /// How many requests there may be at a time, each on a connection of its own with HTTP/1.1
    #[arg(short, long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) connections: u16,

    /// For how long requests are made: 500ms, 5s, 1m; at most a day [default: 10s, unless --requests is given]
    #[arg(short, long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) duration: Option<Duration>,

    /// How many requests are made
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,

    /// How many requests a second are made, evenly spaced [default: as many as are answered]
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rate: Option<u32>,

    /// Print the report as one line of JSON
    ///
    /// url, method, protocols, connections, rate_wanted, seconds, requests, rate, answered, failed, unfinished, not_started,
    /// retried, statuses, failures (step, count, and the message of the first), body_bytes, latency_ms (min, mean, p50, p90,
    /// p99, p99_9, max; null without an answer), spread (up_to_ms, count), backends (name, address, port, key, count) and
    /// other_backends (answers of those beyond a thousand).
    #[arg(long)]
    pub(crate) json: bool,

    /// Take any failed request, and any status of 400 or above, for a failure of the whole
    #[arg(short, long)]
    pub(crate) fail: bool,
}
