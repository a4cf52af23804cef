//! What a gateway says when it has started: what it serves, where, and what to try.

use super::feeds::Feeds;
use super::request::Request;
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
    text + &to_try(scheme, reachable(at), request)
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
