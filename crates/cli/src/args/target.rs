//! What can be typed after both `carom get` and `carom load`: what is asked for, of whom, and how.

use super::parse_time;
use std::path::PathBuf;
use std::time::Duration;

/// A request, and how it gets there.
#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// What to ask for: http:// or https://, a host or address, and perhaps a port and a path
    ///
    /// Without a scheme it is http://. The host may be a service that many nodes answer to; it is looked up as `carom resolve`
    /// does it.
    #[arg(value_name = "URL")]
    pub(crate) url: String,

    /// The method [default: GET; POST with a body]
    #[arg(short = 'X', long, value_name = "METHOD")]
    pub(crate) method: Option<String>,

    /// A header of the request, as `Name: value`; may be repeated
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    pub(crate) headers: Vec<String>,

    /// How long the answer may take to begin, and then each part of its body: 500ms, 5s, 1m
    #[arg(short, long, value_name = "TIME", value_parser = parse_time, default_value = "30s")]
    pub(crate) timeout: Duration,

    /// Speak HTTP/1.1 alone
    #[arg(long, conflicts_with = "http2")]
    pub(crate) http1: bool,

    /// Speak HTTP/2 alone; with http:// without asking first [default for https://: what the server prefers]
    #[arg(long)]
    pub(crate) http2: bool,

    /// A file with the certificates (PEM) that vouch for an https:// server [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,

    /// Believe any certificate: whoever is in between can read and change everything
    #[arg(short = 'k', long, conflicts_with = "ca")]
    pub(crate) insecure: bool,

    /// The nameservers to ask: IP[:PORT][,...], or one NAME that they are found under [default: the system's]
    #[arg(short, long, value_name = "NAMESERVERS")]
    pub(crate) resolvers: Vec<String>,

    /// Look up addresses alone, not the SRV records of _http._tcp or _https._tcp
    #[arg(long)]
    pub(crate) no_srv: bool,
}
