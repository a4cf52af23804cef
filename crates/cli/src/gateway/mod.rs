//! `carom gateway`: OpenAlgo's clients served from a few connections to each broker.

mod banner;
mod buses;
mod descriptors;
mod feeds;
mod request;
mod roles;
mod starting;
mod upstreams;

pub(crate) use descriptors::raise as raise_open_files;
pub(crate) use request::Request;
pub(crate) use starting::Starting;

use crate::admin::Keeper;
use crate::args;
use crate::config::Admin;
use crate::failure::{Failure, say, with_causes};
use crate::orders::{Order, Orders};
use crate::output::announce;
use crate::up::Board;
use buses::Buses;
use carom_gateway::{Gateway, Snapshot, StartError};
use feeds::Feeds;
use starting::Unstarted;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::time::Instant;

pub(crate) fn run(args: args::Gateway) -> Result<(), Failure> {
    let (request, admin) = Request::new(args)?;
    raise_open_files(request.gateway.limits.clients, "limits.clients is");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    crate::block_on(runtime.map_err(crate::cannot_start)?, serve(request, admin))
}

async fn serve(request: Request, admin: Option<Admin>) -> Result<(), Failure> {
    // First of all: a signal that comes early is not to find nobody.
    let mut orders = Orders::watch()?;
    let board = Arc::new(Board::new("carom gateway"));
    let mut keeper = Keeper::new(Arc::clone(&board));
    keeper.measure(admin.as_ref())?;
    let mut starting = Starting::new(Arc::clone(&board), |serving| serving.summary() + &serving.next());
    tokio::select! {
        started = starting.start(request) => started?,
        // NATS may take its time to answer.
        () = orders.stop() => return Ok(()),
    }
    keeper.change(keeper.prepare(admin.as_ref())?);
    let asked = keeper.summary(admin.as_ref());
    announce(&board.gateway().map_or(asked.clone(), |serving| serving.summary() + &asked + &serving.next()));
    // What is to be read again, and has not started.
    let mut missed = false;
    loop {
        tokio::select! {
            order = orders.next() => match order {
                Order::Reload => {
                    missed = board.gateway().map(|serving| serving.reload()).is_none();
                    keeper.read_again(admin.as_ref());
                }
                Order::Stop => break,
            },
            () = starting.comes() => if missed && let Some(serving) = board.gateway() {
                serving.reload();
            },
        }
    }
    say("stopping");
    starting.end().await;
    board.stop();
    tokio::select! {
        () = stop(&board, keeper) => {}
        // Whoever says it twice means now.
        () = orders.stop() => {}
    }
    Ok(())
}

async fn stop(board: &Board, admin: Keeper) {
    if let Some(serving) = board.take_gateway() {
        serving.stop().await;
    }
    admin.close().await;
}

/// A gateway that runs, with its feeds.
pub(crate) struct Serving {
    request: Arc<Request>,
    feeds: Feeds,
    buses: Buses,
    gateway: Gateway,
}

impl Serving {
    /// One attempt.
    async fn start(request: Arc<Request>) -> Result<Serving, Unstarted> {
        let config = &request.gateway;
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
        let buses = Buses::open(&config.bus).await?;
        let mut feeds = Feeds::start(&request.feeds, &buses).await?;
        let started = feeds.serve(builder).start().await;
        let gateway = started.map_err(|error| trouble(error, config.listen.value, &config.listen.origin))?;
        Ok(Serving { request, feeds, buses, gateway })
    }

    /// What is served, and where.
    pub(crate) fn summary(&self) -> String {
        banner::summary(&self.request, self.gateway.local_addr(), &self.buses, &self.feeds)
    }

    /// What to do next.
    fn next(&self) -> String {
        banner::next(&self.request, self.gateway.local_addr())
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.gateway.local_addr()
    }

    /// The first key that was made for this run.
    pub(crate) fn made_key(&self) -> Option<&str> {
        self.request.made.first().map(|(_, key)| key.reveal())
    }

    /// Whether it would be the same if it were started with this, but for keys and credentials.
    pub(crate) fn is_as(&self, request: &Request) -> bool {
        let (own, feeds) = (&self.request, &request.feeds);
        let same_feeds =
            own.feeds.len() == feeds.len() && own.feeds.iter().zip(feeds).all(|(own, other)| own.means_the_same(other));
        same_feeds && own.gateway.means_the_same(&request.gateway)
    }

    /// A copy of its state for people.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.gateway.snapshot()
    }

    /// Reads the keys again, and what brokers list, and tries credentials again that were refused.
    pub(crate) fn reload(&self) {
        reload(&self.request);
        self.feeds.relist();
        self.feeds.resume();
    }

    /// Says goodbye to everybody, for as long as the config allows. Cancelled, it ends without.
    pub(crate) async fn stop(mut self) {
        self.feeds.hush();
        let deadline = Instant::now() + self.request.gateway.stop_timeout;
        let cut = self.gateway.stop(deadline).await;
        if cut > 0 {
            say(format_args!("warning: {cut} subscriptions were cut short"));
        }
        self.feeds.stop().await;
    }
}

fn reload(request: &Request) {
    if request.gateway.keys.is_none() {
        return say("the keys were made for this run, and stay as they are");
    }
    match request.keys.reload() {
        Ok(count) => {
            say(format_args!("keys were read again: there are {count}"));
            request.warn_of_keys();
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
