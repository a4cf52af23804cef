//! A witness: it is subscribed to everything at the exchange itself, and takes down what that says.

use crate::gateways::{Quote, Told};
use crate::{ms, until};
use carom::feed::{Feed, Mode, Topic};
use carom_gateway::credential::Credential;
use carom_gateway::simulated::{Exchange, Simulated};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinHandle;

/// See the [module](self). It has connections of its own at the exchange, for as long as it is there.
pub struct Witness {
    heard: Arc<Mutex<Told>>,
    task: JoinHandle<()>,
    _feed: Feed<Simulated>,
}

impl Witness {
    /// One who has heard of each of these symbols of the NSE that it is subscribed to.
    pub async fn of(exchange: &Exchange, token: &str, symbols: &[&str], topics_per_connection: usize) -> Witness {
        let adapter = Simulated::new(&exchange.url(), Credential::fixed(token)).expect("an address");
        let feed = Feed::builder(adapter).name("witness").max_topics_per_connection(topics_per_connection);
        let feed = feed.max_connections(Witness::connections(symbols.len(), topics_per_connection)).build();
        let feed = feed.expect("options that make sense");
        let (mut ticks, heard) = (feed.ticks(), Arc::new(Mutex::new(Told::new())));
        let noted = Arc::clone(&heard);
        let task = tokio::spawn(async move {
            while let Some(tick) = ticks.next().await {
                let said = serde_json::from_slice(&tick.payload).expect("JSON");
                let (volume, quote) = Quote::of(&said);
                let symbol = tick.instrument.symbol().to_owned();
                noted.lock().unwrap_or_else(PoisonError::into_inner).insert((symbol, volume), quote);
            }
        });
        for symbol in symbols {
            let placed = feed.subscribe(Topic::new("NSE", *symbol, Mode::Quote)).await.expect("it is listed");
            assert!(!placed.pending, "{symbol}");
        }
        Witness { heard, task, _feed: feed }
    }

    /// How many connections it needs for so many symbols.
    pub const fn connections(symbols: usize, topics_per_connection: usize) -> usize {
        symbols.div_ceil(topics_per_connection)
    }

    /// How many ticks it has heard after this moment, in milliseconds since 1970.
    pub fn heard_after(&self, moment: i64) -> usize {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.values().filter(|quote| quote.said > moment).count()
    }

    /// Waits until it has heard all of this itself: whoever was told anything else was told wrong.
    pub async fn confirms(&self, told: &Told) {
        until(ms(10_000), async || {
            let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            // Each connection has a time of its own.
            let is_wrong = |tick, quote: &Quote| heard.get(tick).is_none_or(|heard| heard.price != quote.price);
            match told.iter().find(|(tick, quote)| is_wrong(*tick, quote)) {
                None => Ok(()),
                Some((tick, quote)) => Err(format!("{tick:?} is {quote:?}, and not {:?}", heard.get(tick))),
            }
        })
        .await;
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.task.abort();
    }
}
