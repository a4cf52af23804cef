//! Carriers: two tasks for each feed, one from the feed to its bus, one from the bus to the hub.

use crate::bus::{Bus, Message, Subscription};
use crate::hub::{Carried, Senseless};
use crate::nonsense::{Nonsense, shown_topic};
use crate::protocol::topic;
use crate::resuming::Resuming;
use crate::shared::{Scope, Shared};
use carom::feed::{Tick, Ticks};
use futures_util::FutureExt;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

/// How many messages wait on a bus: enough for every topic of a large feed a few times over, as a burst must not push out the
/// only tick of something that is seldom traded.
const BACKLOG: usize = 32_768;

/// Ticks that were taken from the bus this long ago, and not carried, give way to newer ones.
const BEHIND: Duration = Duration::from_millis(250);

/// With so many waiting, ticks give way to newer ones at once: the bus would lose some before long.
const CROWDED: usize = BACKLOG / 2;

/// After so many messages clients have their turn.
const STRETCH: usize = 64;

/// Whether the gateway stops, and until when.
type Stop = watch::Receiver<Option<Instant>>;

/// Starts both tasks of a scope that has a feed. They end when the gateway stops, the feed has stopped, and all that was said on
/// the bus until then was carried.
pub(crate) fn start(tasks: &mut JoinSet<()>, shared: &Arc<Shared>, scope: &Arc<Scope>, stop: &Stop) {
    let Some(supply) = &scope.supply else { return };
    let messages = supply.bus.subscribe_with_backlog("", BACKLOG);
    let (published, all_published) = watch::channel(());
    tasks.spawn(publish(Arc::clone(shared), Arc::clone(scope), supply.source.ticks(), supply.bus.clone(), published));
    tasks.spawn(carry(Arc::clone(shared), Arc::clone(scope), messages, all_published, stop.clone()));
}

/// From a feed to its bus; `_published` is dropped when that is done.
async fn publish(shared: Arc<Shared>, scope: Arc<Scope>, mut ticks: Ticks, bus: Bus, _published: watch::Sender<()>) {
    let (mut heard, mut missed, mut nonsense) = (Vec::new(), 0, Nonsense::default());
    while ticks.next_many(&mut heard).await {
        for Tick { instrument, mode, payload } in heard.drain(..) {
            match topic::name(instrument.exchange(), instrument.symbol(), mode) {
                Some(name) => bus.publish(name, payload),
                None => {
                    shared.hub.malformed();
                    tell(&scope, &mut nonsense, Senseless::Instrument, &instrument.to_string());
                }
            }
        }
        let before = std::mem::replace(&mut missed, ticks.missed());
        shared.counters.missed.add(missed - before);
        tokio::task::yield_now().await;
    }
}

/// From a bus to the hub. A feed that has stopped is no reason to end: others may publish on its bus as well.
async fn carry(
    shared: Arc<Shared>,
    scope: Arc<Scope>,
    mut messages: Subscription,
    mut all_published: watch::Receiver<()>,
    mut stop: Stop,
) {
    // Errors are ends too: whoever would have said so is gone.
    let mut over = pin!(async {
        let _ = all_published.changed().await;
        let _ = stop.wait_for(Option::is_some).await;
    });
    let (mut batch, mut missed, mut last) = (Vec::new(), 0, false);
    let (mut resuming, mut nonsense) = (Resuming::default(), Nonsense::default());
    while !last {
        let due = shared.hub.next_due(scope.id).into_iter().chain(resuming.due(Instant::now())).min();
        let held_back = async {
            match due {
                Some(at) => sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            more = messages.next_many(&mut batch) => last = !more,
            () = held_back => {
                resume(&scope, &mut resuming);
                let wakers = shared.hub.release(Instant::now(), scope.id);
                wakers.into_iter().for_each(Waker::wake);
                continue;
            }
            () = &mut over => {
                messages.next_many(&mut batch).now_or_never();
                last = true;
            }
        }
        let before = std::mem::replace(&mut missed, messages.missed());
        shared.counters.missed.add(missed - before);
        deliver(&shared, &scope, &mut batch, &mut resuming, &mut nonsense).await;
    }
}

/// Tries the credential again, if somebody asks and it is time.
fn resume(scope: &Scope, resuming: &mut Resuming) {
    if resuming.take(Instant::now())
        && let Some(supply) = &scope.supply
    {
        supply.source.resume();
    }
}

async fn deliver(
    shared: &Shared,
    scope: &Scope,
    batch: &mut Vec<Message>,
    resuming: &mut Resuming,
    nonsense: &mut Nonsense<Senseless>,
) {
    let (taken, mut every) = (Instant::now(), true);
    let mut stretch = Vec::with_capacity(STRETCH);
    let mut waiting = VecDeque::from(std::mem::take(batch));
    while !waiting.is_empty() {
        if every && (waiting.len() > CROWDED || taken.elapsed() > BEHIND) {
            every = false;
            let mut rest = Vec::from(waiting);
            shared.hub.superseded(scope.id, crate::hub::drop_superseded(&mut rest));
            waiting = rest.into();
        }
        stretch.extend(waiting.drain(..STRETCH.min(waiting.len())));
        let Carried { wakers, invalidated, senseless } = shared.hub.carry(Instant::now(), scope.id, &mut stretch);
        wakers.into_iter().for_each(Waker::wake);
        senseless.into_iter().for_each(|(why, topic)| tell(scope, nonsense, why, &topic));
        if invalidated {
            resuming.ask();
        }
        resume(scope, resuming);
        tokio::task::yield_now().await;
    }
    // For its memory.
    *batch = waiting.into();
}

/// A message with this topic, or of this instrument, made no sense.
fn tell(scope: &Scope, nonsense: &mut Nonsense<Senseless>, why: Senseless, topic: &str) {
    if let Some(count) = nonsense.happened(why, Instant::now()) {
        let (broker, user, topic) = (&*scope.broker, &*scope.user, shown_topic(topic.as_bytes()));
        tracing::warn!(broker, user, %why, topic, count, "messages on a bus make no sense");
    }
}
