//! The feeds of a gateway, whatever their adapters, and the exchanges that are started along with them.

use super::buses::Buses;
use super::starting::Unstarted;
use super::{roles, upstreams};
use crate::config;
use crate::failure::{Failure, say, with_causes};
use carom::feed::{Adapter, Feed, State};
use carom_gateway::Builder;
use carom_gateway::bus::Bus;
use carom_gateway::cluster::ShareError;
use carom_gateway::credential::{Credential, Watcher};
use carom_gateway::keys::Identity;
use carom_gateway::simulated::Exchange;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Everything that runs besides the gateway itself.
pub(super) struct Feeds {
    pub(super) running: Vec<Running>,
}

/// A feed that runs.
pub(super) struct Running {
    identity: Identity,
    state: watch::Receiver<State>,
    /// Has a gateway serve it, which needs to be done once.
    serve: Option<Serve>,
    /// Where its ticks come from, for people.
    pub(super) upstream: String,
    /// Looks for another credential when one is refused, for as long as this is held.
    watcher: Option<Watcher>,
    /// What is started along with it.
    pub(super) exchange: Option<Exchange>,
    pub(super) relist: Option<Relist>,
    /// What this gateway is called by others that share it.
    pub(super) member: Option<Arc<str>>,
    /// Tells when it changes hands, if it does.
    telling: JoinSet<()>,
}

type Serve = Box<dyn FnOnce(Builder) -> Builder + Send + Sync>;

/// Reads what the broker lists again, and says how much it is, or why it stays as it was.
pub(super) type Relist = Box<dyn Fn() -> Result<usize, String> + Send + Sync>;

impl Feeds {
    pub(super) async fn start(configured: &[config::Feed], buses: &Buses) -> Result<Feeds, Unstarted> {
        let mut running = Vec::new();
        for feed in configured {
            running.push(upstreams::start(feed, buses).await?);
        }
        Ok(Feeds { running })
    }

    /// Has the gateway serve all of them.
    pub(super) fn serve(&mut self, builder: Builder) -> Builder {
        let serves = self.running.iter_mut().filter_map(|running| running.serve.take());
        serves.fold(builder, |builder, serve| serve(builder))
    }

    /// Reads again what brokers list: they trade something else every day.
    pub(super) fn relist(&self) {
        for Running { identity: Identity { broker, user, .. }, relist, .. } in &self.running {
            let Some(relist) = relist else { continue };
            // There may be a hundred thousand, and clients are served meanwhile.
            match tokio::task::block_in_place(relist) {
                Ok(count) => {
                    say(format_args!("the instruments of {user} at {broker} were read again: there are {count}"));
                }
                Err(problem) => {
                    say(format_args!("warning: the instruments of {user} at {broker} stay as they were: {problem}"));
                }
            }
        }
    }

    /// Lets feeds go on whose credential was refused: whoever says so may know that it is accepted now. So it is with those that
    /// go on with what another gateway has.
    pub(super) fn resume(&self) {
        for Running { identity, state, watcher, .. } in &self.running {
            if let Some(watcher) = watcher
                && (*state.borrow() == State::Refused || watcher.awaits_another())
            {
                watcher.resume();
                say(format_args!("the feed of {} at {} tries its credential again", identity.user, identity.broker));
            }
        }
    }

    /// Tells no more who owns what: that nobody does is no news when it is given back.
    pub(super) fn hush(&mut self) {
        self.running.iter_mut().for_each(|running| running.telling.abort_all());
    }

    /// Ends the exchanges; the gateway has closed the feeds.
    pub(super) async fn stop(self) {
        for exchange in self.running.into_iter().filter_map(|running| running.exchange) {
            exchange.stop().await;
        }
    }
}

impl Running {
    /// Starts a feed on this adapter, as the config has it otherwise; `upstream` says to people where ticks come from. Gateways
    /// that share a bus share the upstream too.
    pub(super) async fn new<A: Adapter>(
        config: &config::Feed,
        buses: &Buses,
        adapter: A,
        credential: Option<&Credential>,
        upstream: String,
    ) -> Result<Running, Unstarted> {
        let Buses::Nats { nats, origin } = buses else {
            let bus = buses.of(&config.broker, &config.user);
            return Ok(Running::alone(config, bus, adapter, credential, upstream)?);
        };
        let share = nats.share(&config.broker, &config.user).await;
        let share = share.map_err(|error| {
            let problem = format!("{origin}: {}", trouble(config, &with_causes(&error)));
            match error {
                // A cluster that has just started has nobody yet who could answer.
                ShareError::Unanswered { .. } | ShareError::NotConnected => Unstarted::Waiting(problem),
                _ => Failure::Unavailable(problem).into(),
            }
        })?;
        let feed = feed(config, share.elected(adapter))?;
        let mut running = Running::of(config, &feed, credential, upstream);
        running.member = Some(Arc::clone(share.member()));
        running.telling.spawn(roles::tell(running.identity.clone(), share.roles()));
        running.serve = Some(Box::new(|builder| builder.shared_feed(share, feed)));
        Ok(running)
    }

    /// The same for a feed that is this gateway's alone.
    pub(super) fn alone<A: Adapter>(
        config: &config::Feed,
        bus: Bus,
        adapter: A,
        credential: Option<&Credential>,
        upstream: String,
    ) -> Result<Running, Failure> {
        let feed = feed(config, adapter)?;
        let mut running = Running::of(config, &feed, credential, upstream);
        let Identity { broker, user, .. } = running.identity.clone();
        running.serve = Some(Box::new(|builder| builder.feed_on(broker, user, feed, bus)));
        Ok(running)
    }

    fn of<A: Adapter>(
        config: &config::Feed,
        feed: &Feed<A>,
        credential: Option<&Credential>,
        upstream: String,
    ) -> Running {
        Running {
            identity: Identity::new(&*config.broker, &*config.user),
            state: feed.states(),
            serve: None,
            upstream,
            watcher: credential.map(|credential| credential.watch(feed)),
            exchange: None,
            relist: None,
            member: None,
            telling: JoinSet::new(),
        }
    }
}

fn feed<A: Adapter>(config: &config::Feed, adapter: A) -> Result<Feed<A>, Failure> {
    Feed::builder(adapter)
        .name(format!("{}/{}", config.broker, config.user))
        .max_topics_per_connection(config.max_topics_per_connection)
        .max_connections(config.max_connections)
        .linger(config.linger)
        .stall_after(config.stall_after)
        .recovery(config.recovery.policy())
        .build()
        .map_err(|error| Failure::Input(trouble(config, &with_causes(&error))))
}

fn trouble(config: &config::Feed, problem: &str) -> String {
    format!("the feed of {}: {problem}", config.user)
}
