//! What a gateway says when it has started: what it serves, where, and what to try.

use super::buses::Buses;
use super::feeds::Feeds;
use super::request::Request;
use crate::config::{Bus, Feed, KeysAt};
use crate::output::reachable;
use crate::units::several;
use carom_gateway::DEFAULT_LISTEN;
use std::fmt::Write as _;
use std::net::SocketAddr;

/// The key, for those whose keys are theirs to know.
const YOURS: &str = "YOUR_KEY";

/// What is served, and where.
pub(super) fn summary(request: &Request, at: SocketAddr, buses: &Buses, feeds: &Feeds) -> String {
    let mut text = format!("gateway: {}://{at} ({})\n", scheme(request), request.gateway.listen.origin);
    text += &Bus::summary(&request.gateway.bus, buses.local_addr());
    for (running, feed) in feeds.running.iter().zip(&request.feeds) {
        let _ = writeln!(text, "feed: {} at {} from {}", feed.user, feed.broker, running.upstream);
        if let Some(member) = &running.member {
            let _ = writeln!(text, "  shared with other gateways, which know this one as {member}");
        }
        if feed.is_connected() {
            let connections = several(feed.max_connections, "connection");
            let each = if feed.max_connections == 1 { "" } else { "each of " };
            let _ = writeln!(text, "  up to {} symbols on {each}{connections}", feed.max_topics_per_connection);
        }
    }
    match &request.gateway.keys {
        Some(keys) => {
            let _ = writeln!(text, "keys: {} ({})", request.keys.len(), keys.origin);
        }
        None => {
            for (identity, key) in &request.made {
                let _ = writeln!(text, "key of {} at {}: {}", identity.user, identity.broker, key.reveal());
            }
            text += "  made for this run, and shown once; `carom key new` makes one that lasts\n";
        }
    }
    text
}

/// What to do next.
pub(super) fn next(request: &Request, at: SocketAddr) -> String {
    match (&request.gateway.keys, request.feeds.first()) {
        (Some(keys), Some(feed)) if !request.serves_somebody() => to_begin(&keys.value, feed),
        _ => to_try(scheme(request), reachable(at), request),
    }
}

fn scheme(request: &Request) -> &'static str {
    if request.gateway.tls.is_some() { "wss" } else { "ws" }
}

/// Nobody could try anything yet.
fn to_begin(keys: &KeysAt, Feed { user, broker, .. }: &Feed) -> String {
    let (user, broker) = (typed(user), typed(broker));
    let into = match keys {
        KeysAt::File(file) => format!("--file {}", typed(&file.display().to_string())),
        // There are other tables in it, which are for somebody else to write.
        KeysAt::Config(file) => format!("2>> {}", typed(&file.display().to_string())),
    };
    let process = std::process::id();
    format!(
        "
Nobody has a key for any feed. To make one, and to have it known:
  carom key new --user {user} --broker {broker} {into}
  kill -HUP {process}
"
    )
}

/// As a shell takes it for one word.
pub(super) fn typed(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn to_try(scheme: &str, at: SocketAddr, request: &Request) -> String {
    let examples = request.feeds.first().map(|feed| feed.upstream.examples()).unwrap_or_default();
    let Some(first) = examples.first() else { return String::new() };
    let (exchange, symbol) = (first.exchange(), first.symbol());
    let symbols: Vec<String> = examples.iter().map(|example| typed(&example.to_string())).collect();
    let symbols = symbols.join(" ");
    let key = request.made.first().map_or(YOURS, |(_, key)| key.reveal());
    let url = format!("{scheme}://{at}");
    let mut options = String::new();
    if let Some((chain, _)) = &request.gateway.tls {
        let _ = write!(options, " --url {url} --ca {}", chain.display());
    } else if at != DEFAULT_LISTEN {
        let _ = write!(options, " --url {url}");
    }
    format!(
        "
To try it:
  CAROM_KEY={key} carom watch{options} {symbols}

or, with `pip install openalgo`:
  import time, openalgo
  client = openalgo.api(api_key=\"{key}\", ws_url=\"{url}\")
  client.connect()
  client.subscribe_ltp([{{\"exchange\": {exchange:?}, \"symbol\": {symbol:?}}}], on_data_received=print)
  time.sleep(60)
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole_in_a_shell() {
        assert_eq!((&*typed("/run/keys.toml"), &*typed("a b")), ("/run/keys.toml", "'a b'"));
        assert_eq!((&*typed("it's"), &*typed("")), ("'it'\\''s'", "''"));
    }
}
