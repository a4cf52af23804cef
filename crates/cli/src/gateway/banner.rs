//! What a gateway says when it has started: what it serves, where, and what to try.

use super::feeds::Feeds;
use super::request::Request;
use crate::config::{Feed, KeysAt};
use crate::output::reachable;
use carom_gateway::DEFAULT_LISTEN;
use std::fmt::Write as _;
use std::net::SocketAddr;

/// The key, for those whose keys are theirs to know.
const YOURS: &str = "YOUR_KEY";

pub(super) fn of(request: &Request, at: SocketAddr, feeds: &Feeds) -> String {
    let scheme = if request.config.gateway.tls.is_some() { "wss" } else { "ws" };
    let mut text = format!("gateway: {scheme}://{at} ({})\n", request.config.gateway.listen.origin);
    for (running, feed) in feeds.running.iter().zip(&request.config.feeds) {
        let _ = writeln!(text, "feed: {} at {} from {}", feed.user, feed.broker, running.upstream);
        let (most, connections) = (feed.max_topics_per_connection, feed.max_connections);
        let _ = writeln!(text, "  up to {most} symbols on each of {connections} connections");
    }
    match &request.config.gateway.keys {
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
    match (&request.config.gateway.keys, request.config.feeds.first()) {
        (Some(keys), Some(feed)) if !request.serves_somebody() => text + &to_begin(&keys.value, feed),
        _ => text + &to_try(scheme, reachable(at), request),
    }
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
fn typed(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn to_try(scheme: &str, at: SocketAddr, request: &Request) -> String {
    let key = request.made.first().map_or(YOURS, |(_, key)| key.reveal());
    let url = format!("{scheme}://{at}");
    let mut options = String::new();
    if let Some((chain, _)) = &request.config.gateway.tls {
        let _ = write!(options, " --url {url} --ca {}", chain.display());
    } else if at != DEFAULT_LISTEN {
        let _ = write!(options, " --url {url}");
    }
    format!(
        "
To try it:
  CAROM_KEY={key} carom watch{options} NSE:SBIN NSE:RELIANCE

or, with `pip install openalgo`:
  import time, openalgo
  client = openalgo.api(api_key=\"{key}\", ws_url=\"{url}\")
  client.connect()
  client.subscribe_ltp([{{\"exchange\": \"NSE\", \"symbol\": \"SBIN\"}}], on_data_received=print)
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
