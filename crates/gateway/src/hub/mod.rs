//! The hub: who wants what, what was said last, and into whose mailbox a tick goes.
//!
//! One lock around all of it, held for one tick or a few topics of a request at a time; nobody is woken and nothing is awaited
//! under it. A tick becomes text once for each mode that somebody wants, and all mailboxes share that text.

mod expected;
mod known;
mod last_word;
mod senseless;
mod state;
mod superseded;
mod words;

pub(crate) use senseless::Senseless;
pub(crate) use state::{Figures, Heard};
pub(crate) use superseded::drop_superseded;

use crate::bus::Message;
use crate::mailbox::Mailbox;
use crate::protocol::topic::{self, BusTopic};
use bytes::Bytes;
use carom_core::feed::interest::{ClientId, ScopeId};
use carom_core::feed::{Instrument, Mode, Topic};
use known::Known;
use last_word::{LastWord, Told};
use state::{Said, Scope, State};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

/// A request's topics are seen to so many at a time, and ticks have their turn in between.
const STRETCH: usize = 64;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Hub {
    /// How often an instrument's price is told at most.
    throttle: Option<Duration>,
    /// Whether the last known tick is sent to whoever subscribes.
    snapshot: bool,
    state: Mutex<State>,
}

/// What is to be done after messages of a bus were carried.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    /// Clients to be woken.
    pub(crate) wakers: Vec<Waker>,
    /// Whether the credential is another one now.
    pub(crate) invalidated: bool,
    /// Messages that made no sense, by their topics.
    pub(crate) senseless: Vec<(Senseless, Arc<str>)>,
}

impl Hub {
    pub(crate) fn new(throttle: Option<Duration>, snapshot: bool) -> Hub {
        Hub { throttle, snapshot, state: Mutex::default() }
    }

    /// The scope of this user at this broker.
    pub(crate) fn scope(&self, broker: &Arc<str>, user: &Arc<str>) -> ScopeId {
        let mut state = self.lock();
        let id = state.interest.scope(broker, user);
        state.scopes.entry(id).or_insert_with(|| Scope {
            broker: Arc::clone(broker),
            user: Arc::clone(user),
            known: Known::default(),
            orders: BTreeSet::new(),
            heard: Heard::default(),
        });
        id
    }

    /// A client has said who it is.
    pub(crate) fn connect(&self, scope: ScopeId, mailbox: &Arc<Mailbox>) -> ClientId {
        let mut state = self.lock();
        let client = state.interest.connect(scope);
        if state.seats.len() <= client.index() {
            state.seats.resize(client.index() + 1, None);
        }
        state.seats[client.index()] = Some(Arc::clone(mailbox));
        client
    }

    /// A client is gone, or is somebody else from now on. What it wanted until now, to be given back to the feed.
    pub(crate) fn disconnect(&self, now: Instant, client: ClientId) -> Vec<Topic> {
        let mut state = self.lock();
        let Some(id) = state.interest.scope_of(client) else { return Vec::new() };
        let left = state.interest.disconnect(client);
        let mailbox = state.seats.get_mut(client.index()).and_then(Option::take);
        state.left(now, id, mailbox.as_deref(), &left);
        if let Some(scope) = state.scopes.get_mut(&id) {
            scope.orders.remove(&client);
        }
        left
    }

    /// Whether a client has exactly this.
    pub(crate) fn has(&self, client: ClientId, topic: &Topic) -> bool {
        self.lock().interest.depth_of(client, &topic.instrument, topic.mode()) == Some(topic.level.depth)
    }

    /// How many subscriptions a client has.
    pub(crate) fn count_of(&self, client: ClientId) -> usize {
        self.lock().interest.count_of(client)
    }

    /// How many subscriptions a client would have with these, which are not too many.
    pub(crate) fn count_with(&self, client: ClientId, topics: &BTreeSet<Topic>) -> usize {
        let mut count = self.lock().interest.count_of(client);
        let topics: Vec<&Topic> = topics.iter().collect();
        for stretch in topics.chunks(STRETCH) {
            let state = self.lock();
            let has = |topic: &Topic| state.interest.depth_of(client, &topic.instrument, topic.mode()).is_some();
            count += stretch.iter().filter(|topic| !has(topic)).count();
        }
        count
    }

    /// A client gets these from now on, after `reply`; then the last known tick of each that is new to it. What the feed is to
    /// have back: what the client had at another depth, or had already.
    pub(crate) fn join(
        &self,
        now: Instant,
        client: ClientId,
        topics: &[Topic],
        reply: Bytes,
    ) -> (Vec<Topic>, Vec<Waker>) {
        let mut wakers = Vec::new();
        match self.lock().mailbox(client) {
            Some(mailbox) => wakers.extend(mailbox.reply(now, reply)),
            None => return (topics.to_vec(), wakers),
        }
        let mut back = Vec::new();
        for stretch in topics.chunks(STRETCH) {
            let last_words = self.lock().join(now, client, stretch, &mut back);
            if self.snapshot {
                let told: Vec<Told> = last_words.into_iter().filter_map(LastWord::into_text).collect();
                self.lock().tell(now, client, told, &mut wakers);
            }
        }
        (back, wakers)
    }

    /// A client does not want this any more, in this mode or in any. What the feed is to have back.
    pub(crate) fn leave(
        &self,
        now: Instant,
        client: ClientId,
        instrument: &Instrument,
        mode: Option<Mode>,
    ) -> Vec<Topic> {
        let mut state = self.lock();
        let modes = Mode::ALL.into_iter().filter(|each| mode.is_none_or(|mode| mode == *each));
        let left: Vec<Topic> = modes.filter_map(|mode| state.interest.unsubscribe(client, instrument, mode)).collect();
        state.left_by(now, client, &left);
        left
    }

    /// A client wants nothing any more. What the feed is to have back.
    pub(crate) fn leave_all(&self, now: Instant, client: ClientId) -> Vec<Topic> {
        let mut state = self.lock();
        let left = state.interest.unsubscribe_all(client);
        state.left_by(now, client, &left);
        left
    }

    /// Whether a client wants to hear of orders.
    pub(crate) fn set_orders(&self, client: ClientId, wanted: bool) {
        let mut state = self.lock();
        let Some(id) = state.interest.scope_of(client) else { return };
        let Some(scope) = state.scopes.get_mut(&id) else { return };
        match wanted {
            true => scope.orders.insert(client),
            false => scope.orders.remove(&client),
        };
    }

    /// What a client has.
    pub(crate) fn subscriptions_of(&self, client: ClientId) -> Vec<Topic> {
        self.lock().interest.subscriptions_of(client)
    }

    /// What is wanted in a scope, and by how many in each mode; what changes meanwhile may be as it was, or as it is.
    pub(crate) fn wanted(&self, scope: ScopeId) -> Vec<(Instrument, [usize; 3])> {
        let copy = |(instrument, counts): (&Instrument, [usize; 3])| (instrument.clone(), counts);
        let mut wanted: Vec<_> = self.lock().interest.topics(scope).take(STRETCH).map(copy).collect();
        while let Some((last, _)) = wanted.last().cloned() {
            let before = wanted.len();
            wanted.extend(self.lock().interest.topics_after(scope, &last).take(STRETCH).map(copy));
            if wanted.len() == before {
                break;
            }
        }
        wanted
    }

    /// So many ticks of this scope came, and gave their place to newer ones before anybody looked at them.
    pub(crate) fn superseded(&self, scope: ScopeId, count: u64) {
        let mut state = self.lock();
        state.figures.ticks += count;
        state.figures.conflated += count;
        if let Some(scope) = state.scopes.get_mut(&scope) {
            scope.heard.ticks += count;
        }
    }

    /// What came over the bus of a scope.
    pub(crate) fn heard(&self, scope: ScopeId) -> Heard {
        self.lock().scopes.get(&scope).map_or_else(Heard::default, |scope| scope.heard)
    }

    /// Messages of a scope's bus, in their order. Empties `messages`.
    pub(crate) fn carry(&self, now: Instant, scope: ScopeId, messages: &mut Vec<Message>) -> Carried {
        let mut carried = Carried::default();
        for message in messages.drain(..) {
            let made_sense = match topic::parse(&message.topic) {
                Some(BusTopic::Tick { exchange, symbol, mode }) => {
                    let instrument = Instrument::new(exchange, symbol);
                    let said = Said { topic: &message.topic, instrument, mode, payload: message.payload };
                    self.lock().tick(now, self.throttle, scope, said, &mut carried.wakers)
                }
                Some(BusTopic::Orders) => self.lock().order(now, scope, &message.payload, &mut carried.wakers),
                Some(BusTopic::CacheInvalidate { user }) => {
                    let invalidated = self.lock().invalidated(scope, user, &message.payload);
                    invalidated.map(|invalidated| carried.invalidated |= invalidated)
                }
                Some(BusTopic::Ignored) => Ok(()),
                None => Err(Senseless::Topic),
            };
            if let Err(why) = made_sense {
                self.malformed();
                carried.senseless.push((why, message.topic));
            }
        }
        let mut state = self.lock();
        // Whoever carries all the time never comes to wait until a price is due.
        state.release(now, scope, &mut carried.wakers);
        if let Some(found) = state.scopes.get_mut(&scope) {
            found.known.sweep(now);
        }
        carried
    }

    /// When a price of this scope that was held back may be told.
    pub(crate) fn next_due(&self, scope: ScopeId) -> Option<Instant> {
        self.lock().scopes.get(&scope)?.known.next_due()
    }

    /// Tells the prices of this scope whose time has come. Who is to be woken.
    pub(crate) fn release(&self, now: Instant, scope: ScopeId) -> Vec<Waker> {
        let mut wakers = Vec::new();
        self.lock().release(now, scope, &mut wakers);
        wakers
    }

    /// A message that was lost, or made no sense, before it came here.
    pub(crate) fn malformed(&self) {
        self.lock().figures.malformed += 1;
    }

    /// What was counted; no mailbox is looked into for it.
    pub(crate) fn figures(&self) -> Figures {
        let state = self.lock();
        let (authenticated, subscriptions) = (state.interest.clients(), state.interest.subscriptions());
        Figures { authenticated, subscriptions, ..state.figures }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
