//! The feeds of a gateway, and the exchanges that are started along with them.

use crate::config::{self, Upstream};
use crate::failure::{Failure, say, with_causes};
use carom::feed::{Feed, State};
use carom_gateway::credential::{Credential, Watcher};
use carom_gateway::keys::{Identity, NewKey};
use carom_gateway::simulated::{Exchange, Options, Simulated};

/// Everything that runs besides the gateway itself.
pub(super) struct Feeds {
    pub(super) running: Vec<Running>,
}

/// A feed that runs.
pub(super) struct Running {
    pub(super) identity: Identity,
    pub(super) feed: Feed<Simulated>,
    /// Where its ticks come from, for people.
    pub(super) upstream: String,
    exchange: Option<Exchange>,
    /// Looks for another credential when one is refused, for as long as this is held.
    watcher: Watcher,
}

impl Feeds {
    pub(super) async fn start(configured: &[config::Feed]) -> Result<Feeds, Failure> {
        let mut running = Vec::new();
        for feed in configured {
            running.push(Running::start(feed).await?);
        }
        Ok(Feeds { running })
    }

    /// Lets feeds go on whose credential was refused: whoever says so may know that it is accepted now.
    pub(super) fn resume(&self) {
        for Running { identity, feed, watcher, .. } in &self.running {
            if feed.state() == State::Refused {
                watcher.resume();
                say(format_args!("the feed of {} at {} tries its credential again", identity.user, identity.broker));
            }
        }
    }

    /// Ends the exchanges; the gateway has closed the feeds.
    pub(super) async fn stop(self) {
        for exchange in self.running.into_iter().filter_map(|running| running.exchange) {
            exchange.stop().await;
        }
    }
}

impl Running {
    async fn start(config: &config::Feed) -> Result<Running, Failure> {
        let identity = Identity::new(&*config.broker, &*config.user);
        let (exchange, url, credential, upstream) = match &config.upstream {
            Upstream::Here { symbols, rate, seed } => {
                let (exchange, credential) = here(config, *symbols, *rate, *seed).await?;
                let url = exchange.url();
                let upstream =
                    format!("an exchange started here, {url}: {symbols} symbols, {rate} ticks/s, seed {seed}");
                (Some(exchange), url, credential, upstream)
            }
            Upstream::There { url, credential } => (None, url.clone(), credential.clone(), url.clone()),
        };
        let adapter = Simulated::new(&url, credential.clone()).map_err(|error| Failure::Input(with_causes(&error)))?;
        let feed = Feed::builder(adapter)
            .name(format!("{}/{}", config.broker, config.user))
            .max_topics_per_connection(config.max_topics_per_connection)
            .max_connections(config.max_connections)
            .linger(config.linger)
            .stall_after(config.stall_after)
            .recovery(config.recovery.policy())
            .build()
            .map_err(|error| Failure::Input(format!("the feed of {}: {}", config.user, with_causes(&error))))?;
        let watcher = credential.watch(&feed);
        Ok(Running { identity, feed, upstream, exchange, watcher })
    }
}

/// Starts an exchange for this feed alone, known to nobody else.
async fn here(config: &config::Feed, symbols: usize, rate: f64, seed: u64) -> Result<(Exchange, Credential), Failure> {
    let token = NewKey::generate().map_err(|error| Failure::Unavailable(with_causes(&error)))?.reveal().to_owned();
    let options = Options::default()
        .symbols(symbols)
        .rate(rate)
        .seed(seed)
        .token(token.clone())
        .max_connections(config.max_connections)
        .max_topics_per_connection(config.max_topics_per_connection);
    let exchange = Exchange::start(options)
        .await
        .map_err(|error| Failure::Unavailable(format!("the exchange of {}: {}", config.user, with_causes(&error))))?;
    Ok((exchange, Credential::fixed(token)))
}
