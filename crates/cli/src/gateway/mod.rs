//! `carom gateway`: OpenAlgo's clients served from a few connections to each broker.

mod banner;
mod descriptors;
mod feeds;
mod request;

use crate::args;
use crate::failure::{Failure, say, with_causes};
use crate::orders::{Order, Orders};
use crate::output::announce;
use carom_gateway::{Gateway, StartError};
use feeds::Feeds;
use request::Request;
use std::net::SocketAddr;
use tokio::time::Instant;

pub(crate) fn run(args: args::Gateway) -> Result<(), Failure> {
    let request = Request::new(args)?;
    descriptors::raise(request.config.gateway.limits.clients);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    crate::block_on(runtime.map_err(crate::cannot_start)?, serve(request))
}

async fn serve(request: Request) -> Result<(), Failure> {
    // First of all: a signal that comes early is not to find nobody.
    let mut orders = Orders::watch()?;
    let (feeds, gateway) = start(&request).await?;
    announce(&banner::of(&request, gateway.local_addr(), &feeds));
    while orders.next().await == Order::Reload {
        reload(&request);
        feeds.resume();
    }
    say("stopping");
    let deadline = Instant::now() + request.config.gateway.stop_timeout;
    tokio::select! {
        cut = gateway.stop(deadline) => {
            if cut > 0 {
                say(format_args!("warning: {cut} subscriptions were cut short"));
            }
        }
        // Whoever says it twice means now.
        () = again(&mut orders) => {}
    }
    feeds.stop().await;
    Ok(())
}

async fn start(request: &Request) -> Result<(Feeds, Gateway), Failure> {
    let config = &request.config.gateway;
    let mut builder = Gateway::builder()
        .listen(config.listen.value)
        .keys(request.keys.clone())
        .limits(config.limits)
        .snapshot_on_subscribe(config.snapshot)
        .ltp_throttle(config.ltp_throttle)
        .slow_after(config.slow_after)
        .auth_grace(config.auth_grace)
        .ping(config.ping_interval, config.ping_timeout);
    if let Some((certificate, key)) = &config.tls {
        builder = builder.tls(certificate, key);
    }
    let feeds = Feeds::start(&request.config.feeds).await?;
    for feed in &feeds.running {
        builder = builder.feed(&*feed.identity.broker, &*feed.identity.user, feed.feed.clone());
    }
    let gateway = builder.start().await.map_err(|error| trouble(error, config.listen.value, &config.listen.origin))?;
    Ok((feeds, gateway))
}

/// To end, once more.
async fn again(orders: &mut Orders) {
    while orders.next().await != Order::Stop {}
}

fn reload(request: &Request) {
    if request.config.gateway.keys.is_none() {
        return say("the keys were made for this run, and stay as they are");
    }
    match request.keys.reload() {
        Ok(count) => {
            say(format_args!("keys were read again: there are {count}"));
            request.warn();
        }
        Err(error) => say(format_args!("warning: the keys stay as they were: {}", with_causes(&error))),
    }
}

fn trouble(error: StartError, listen: SocketAddr, origin: &str) -> Failure {
    match &error {
        StartError::Listen { source, .. } => {
            Failure::Unavailable(format!("cannot listen on {listen} ({origin}): {source}"))
        }
        StartError::Option(_) => Failure::Input(with_causes(&error)),
        _ => Failure::Unavailable(with_causes(&error)),
    }
}
