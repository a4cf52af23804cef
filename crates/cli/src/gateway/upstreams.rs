//! Where the ticks of a feed come from: the adapter that its config asks for, and what has to run for it.

use super::buses::Buses;
use super::feeds::{Relist, Running};
use super::starting::Unstarted;
use crate::config::{self, Delta, Kite, Simulated, Upstream};
use crate::failure::{Failure, with_causes};
use crate::files::of_no_use;
use carom_gateway::bus::Outside;
use carom_gateway::credential::Credential;
use carom_gateway::keys::NewKey;
use carom_gateway::simulated::{self, Exchange, Options};
use carom_gateway::upstream::Listing;
use carom_gateway::{delta, kite};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Starts a feed of whatever adapter.
pub(super) async fn start(config: &config::Feed, buses: &Buses) -> Result<Running, Unstarted> {
    match &config.upstream {
        Upstream::Simulated(Simulated::Here { symbols, rate, seed }) => {
            here(config, buses, *symbols, *rate, *seed).await
        }
        Upstream::Simulated(Simulated::There { url, credential }) => {
            simulated(config, buses, url, credential, config.upstream.to_string()).await
        }
        Upstream::Kite(upstream) => at_kite(config, buses, upstream).await,
        Upstream::Delta(upstream) => at_delta(config, buses, upstream).await,
        // Nobody is connected to, so there is nobody to be elected.
        Upstream::Outside => {
            let bus = buses.of(&config.broker, &config.user);
            Ok(Running::alone(config, bus, Outside, None, config.upstream.to_string())?)
        }
    }
}

/// A feed of an exchange that is started for it alone, and known to nobody else.
async fn here(
    config: &config::Feed,
    buses: &Buses,
    symbols: usize,
    rate: f64,
    seed: u64,
) -> Result<Running, Unstarted> {
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
    let url = exchange.url();
    let upstream = format!("{}, {url}: {symbols} symbols, {rate} ticks/s, seed {seed}", config.upstream);
    let mut running = simulated(config, buses, &url, &Credential::fixed(token), upstream).await?;
    running.exchange = Some(exchange);
    Ok(running)
}

async fn simulated(
    config: &config::Feed,
    buses: &Buses,
    url: &str,
    credential: &Credential,
    upstream: String,
) -> Result<Running, Unstarted> {
    let adapter = simulated::Simulated::new(url, credential.clone()).map_err(|error| wrong(config, &error))?;
    Running::new(config, buses, adapter, Some(credential), upstream).await
}

async fn at_kite(config: &config::Feed, buses: &Buses, upstream: &Kite) -> Result<Running, Unstarted> {
    let Kite { api_key, credential, listed, socket } = upstream;
    let mut builder = kite::Kite::builder(api_key.reveal(), credential.clone(), Arc::clone(&listed.instruments));
    builder = builder.url(&socket.url);
    if let Some(ca) = &socket.ca {
        builder = builder.extra_roots(&*ca.text);
    }
    let adapter = builder.build().map_err(|error| wrong(config, &error))?;
    let (listing, file) = (adapter.listing(), listed.file.clone());
    let mut running = Running::new(config, buses, adapter, Some(credential), config.upstream.to_string()).await?;
    running.relist = Some(relist(listing, file, |file| kite::Instruments::from_file(file), kite::Instruments::len));
    Ok(running)
}

async fn at_delta(config: &config::Feed, buses: &Buses, upstream: &Delta) -> Result<Running, Unstarted> {
    let Delta { listed, socket } = upstream;
    let mut builder = delta::Delta::builder(Arc::clone(&listed.instruments)).url(&socket.url);
    if let Some(ca) = &socket.ca {
        builder = builder.extra_roots(&*ca.text);
    }
    let adapter = builder.build().map_err(|error| wrong(config, &error))?;
    let (listing, file) = (adapter.listing(), listed.file.clone());
    let mut running = Running::new(config, buses, adapter, None, config.upstream.to_string()).await?;
    running.relist = Some(relist(listing, file, |file| delta::Instruments::from_file(file), delta::Instruments::len));
    Ok(running)
}

/// How what is listed is read again.
fn relist<I: Send + Sync + 'static, E: Error + 'static>(
    listing: Listing<I>,
    file: PathBuf,
    read: fn(&Path) -> Result<I, E>,
    count: fn(&I) -> usize,
) -> Relist {
    Box::new(move || {
        let instruments = read(&file).map_err(|error| of_no_use(&file, with_causes(&error)))?;
        let counted = count(&instruments);
        listing.replace(Arc::new(instruments));
        Ok(counted)
    })
}

fn wrong(config: &config::Feed, error: &dyn Error) -> Failure {
    Failure::Input(format!("the feed of {}: {}", config.user, with_causes(error)))
}
