//! The hub: who wants what, what was said last, and into whose mailbox a tick goes.
//!
//! One lock around all of it, held for one tick or one request at a time; nobody is woken and nothing is awaited under it. A
//! tick becomes text once for each mode that somebody wants, and all mailboxes share that text.

mod known;

use crate::frame;
use crate::mailbox::{Kind, Mailbox};
use crate::protocol::market::Market;
use crate::protocol::topic::{self, BusTopic};
use bytes::Bytes;
use carom::feed::bus::Message;
use carom_core::feed::interest::{ClientId, Interest, Joined, ScopeId};
use carom_core::feed::{Instrument, Mode, Topic};
use known::{Known, Number, Price};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Hub {
    /// How often an instrument's price is told at most.
    throttle: Option<Duration>,
    /// Whether the last known tick is sent to whoever subscribes.
    snapshot: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    interest: Interest,
    scopes: BTreeMap<ScopeId, Scope>,
    /// Mailboxes by the index of clients.
    seats: Vec<Option<Arc<Mailbox>>>,
    figures: Figures,
}

/// What is known of a user at a broker.
#[derive(Debug)]
struct Scope {
    broker: Arc<str>,
    user: Arc<str>,
    known: Known,
    /// Who wants to hear of orders.
    orders: BTreeSet<ClientId>,
}

/// What the hub has counted; clients that are gone included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Clients who have said who they are.
    pub(crate) authenticated: usize,
    /// Subscriptions, of each client each mode of each instrument.
    pub(crate) subscriptions: usize,
    /// Ticks that came.
    pub(crate) ticks: u64,
    /// Ticks and messages that gave their place to newer ones.
    pub(crate) conflated: u64,
    /// Messages that were lost because too many waited for one client.
    pub(crate) lost: u64,
    /// Messages of a bus that made no sense.
    pub(crate) malformed: u64,
}

/// What is to be done after messages of a bus were carried.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    /// Clients to be woken.
    pub(crate) wakers: Vec<Waker>,
    /// Whether the credential is another one now.
    pub(crate) invalidated: bool,
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
    pub(crate) fn disconnect(&self, client: ClientId) -> Vec<Topic> {
        let mut state = self.lock();
        let scope = state.interest.scope_of(client);
        let left = state.interest.disconnect(client);
        let mailbox = state.seats.get_mut(client.index()).and_then(Option::take);
        let Some((scope, mailbox)) = scope.and_then(|id| state.scopes.get_mut(&id)).zip(mailbox) else { return left };
        scope.orders.remove(&client);
        mailbox.forget(scope.kinds(&left));
        let (conflated, lost) = mailbox.take_figures();
        state.figures.conflated += conflated;
        state.figures.lost += lost;
        left
    }

    /// Whether a client has exactly this.
    pub(crate) fn has(&self, client: ClientId, topic: &Topic) -> bool {
        self.lock().interest.depth_of(client, &topic.instrument, topic.mode()) == Some(topic.level.depth)
    }

    /// How many subscriptions a client would have with these.
    pub(crate) fn count_with(&self, client: ClientId, topics: &[Topic]) -> usize {
        let state = self.lock();
        let had = |topic: &&Topic| state.interest.depth_of(client, &topic.instrument, topic.mode()).is_some();
        let new: BTreeSet<_> =
            topics.iter().filter(|topic| !had(topic)).map(|topic| (&topic.instrument, topic.mode())).collect();
        state.interest.count_of(client) + new.len()
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
        let mut state = self.lock();
        let State { interest, scopes, seats, .. } = &mut *state;
        let seat = seats.get(client.index()).and_then(Option::as_ref);
        let found = interest.scope_of(client).and_then(|id| scopes.get_mut(&id)).zip(seat);
        let Some((scope, mailbox)) = found else { return (topics.to_vec(), Vec::new()) };
        let mut wakers: Vec<Waker> = mailbox.reply(now, reply).into_iter().collect();
        let mut back = Vec::new();
        for topic in topics {
            match interest.subscribe(client, topic) {
                Joined::New => {
                    if self.snapshot
                        && let Some((kind, text)) = scope.last_word(topic)
                    {
                        wakers.extend(mailbox.tick(now, kind, text));
                    }
                }
                Joined::Instead(old) => back.push(old),
                Joined::Already | Joined::Unknown => back.push(topic.clone()),
            }
        }
        (back, wakers)
    }

    /// A client does not want this any more, in this mode or in any. What the feed is to have back.
    pub(crate) fn leave(&self, client: ClientId, instrument: &Instrument, mode: Option<Mode>) -> Vec<Topic> {
        let mut state = self.lock();
        let modes = Mode::ALL.into_iter().filter(|each| mode.is_none_or(|mode| mode == *each));
        let left: Vec<Topic> = modes.filter_map(|mode| state.interest.unsubscribe(client, instrument, mode)).collect();
        state.forget(client, &left);
        left
    }

    /// A client wants nothing any more. What the feed is to have back.
    pub(crate) fn leave_all(&self, client: ClientId) -> Vec<Topic> {
        let mut state = self.lock();
        let left = state.interest.unsubscribe_all(client);
        state.forget(client, &left);
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

    /// What is wanted in a scope, and by how many in each mode.
    pub(crate) fn wanted(&self, scope: ScopeId) -> Vec<(Instrument, [usize; 3])> {
        self.lock().interest.topics(scope).map(|(instrument, counts)| (instrument.clone(), counts)).collect()
    }

    /// So many ticks gave their place to newer ones before they came here.
    pub(crate) fn superseded(&self, count: u64) {
        self.lock().figures.conflated += count;
    }

    /// Messages of a scope's bus, in their order. Empties `messages`.
    pub(crate) fn carry(&self, now: Instant, scope: ScopeId, messages: &mut Vec<Message>) -> Carried {
        let mut carried = Carried::default();
        for message in messages.drain(..) {
            match topic::parse(&message.topic) {
                Some(BusTopic::Tick { exchange, symbol, mode }) => {
                    let instrument = Instrument::new(exchange, symbol);
                    self.lock().tick(
                        now,
                        self.throttle,
                        scope,
                        &instrument,
                        mode,
                        message.payload,
                        &mut carried.wakers,
                    );
                }
                Some(BusTopic::Orders) => self.lock().order(now, scope, message.payload, &mut carried.wakers),
                Some(BusTopic::CacheInvalidate) => carried.invalidated = true,
                Some(BusTopic::Ignored) => {}
                None => self.lock().figures.malformed += 1,
            }
        }
        self.lock().sweep(now, scope);
        carried
    }

    /// When a price of this scope that was held back may be told.
    pub(crate) fn next_due(&self, scope: ScopeId) -> Option<Instant> {
        self.lock().scopes.get(&scope)?.known.next_due()
    }

    /// Tells the prices of this scope whose time has come. Who is to be woken.
    pub(crate) fn release(&self, now: Instant, scope: ScopeId) -> Vec<Waker> {
        let mut state = self.lock();
        let State { interest, scopes, seats, .. } = &mut *state;
        let mut wakers = Vec::new();
        for (number, instrument, text) in
            scopes.get_mut(&scope).map(|found| found.known.release(now)).unwrap_or_default()
        {
            for (client, _) in interest.recipients(scope, &instrument, Mode::Ltp) {
                if let Some(Some(mailbox)) = seats.get(client.index()) {
                    wakers.extend(mailbox.tick(now, number.kind(Mode::Ltp), text.clone()));
                }
            }
        }
        wakers
    }

    /// A message that was lost, or made no sense, before it came here.
    pub(crate) fn malformed(&self) {
        self.lock().figures.malformed += 1;
    }

    /// What was counted.
    pub(crate) fn figures(&self) -> Figures {
        let state = self.lock();
        let mut figures = state.figures;
        figures.authenticated = state.interest.clients();
        figures.subscriptions = state.interest.subscriptions();
        for mailbox in state.seats.iter().flatten() {
            let (conflated, lost) = mailbox.figures();
            figures.conflated += conflated;
            figures.lost += lost;
        }
        figures
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    #[expect(clippy::too_many_arguments, reason = "they are a tick, and where it goes")]
    fn tick(
        &mut self,
        now: Instant,
        throttle: Option<Duration>,
        id: ScopeId,
        instrument: &Instrument,
        mode: Mode,
        payload: Bytes,
        wakers: &mut Vec<Waker>,
    ) {
        let State { interest, scopes, seats, figures } = self;
        let Some(scope) = scopes.get_mut(&id) else { return };
        figures.ticks += 1;
        let mut recipients = interest.recipients(id, instrument, mode).peekable();
        let wanted = recipients.peek().is_some();
        let Ok(market) = Market::read(&payload) else {
            figures.malformed += 1;
            return;
        };
        let Some(number) = scope.known.heard(now, instrument, mode, payload.clone(), wanted) else { return };
        // What each mode's clients are told; `Some(None)`: nothing for now.
        let mut texts: [Option<Option<Bytes>>; 3] = [None, None, None];
        for (client, mode) in recipients {
            let text = texts[usize::from(mode.number() - 1)].get_or_insert_with(|| {
                let text = frame::text(&market.message(instrument, mode, &scope.broker, false));
                match throttle.filter(|_| mode == Mode::Ltp) {
                    None => Some(text),
                    Some(interval) => match scope.known.throttle(now, number, interval, text) {
                        Price::Tell(text) => Some(text),
                        Price::Held { replaced } => {
                            figures.conflated += u64::from(replaced);
                            None
                        }
                    },
                }
            });
            if let Some(text) = text
                && let Some(Some(mailbox)) = seats.get(client.index())
            {
                wakers.extend(mailbox.tick(now, number.kind(mode), text.clone()));
            }
        }
    }

    /// What became of an order: for all clients of its user who asked for that.
    fn order(&mut self, now: Instant, id: ScopeId, payload: Bytes, wakers: &mut Vec<Waker>) {
        let State { scopes, seats, figures, .. } = self;
        let Some(scope) = scopes.get(&id) else { return };
        // A bus belongs to one user; a payload that names another was published on the wrong one.
        let Some(text) = str::from_utf8(&payload).ok().filter(|text| is_order_of(&scope.user, text)) else {
            figures.malformed += 1;
            return;
        };
        let text = frame::text(text);
        for client in &scope.orders {
            if let Some(Some(mailbox)) = seats.get(client.index()) {
                wakers.extend(mailbox.reply(now, text.clone()));
            }
        }
    }

    fn sweep(&mut self, now: Instant, id: ScopeId) {
        let State { interest, scopes, .. } = self;
        if let Some(scope) = scopes.get_mut(&id) {
            scope.known.sweep(now, |instrument| interest.counts(id, instrument) != [0; 3]);
        }
    }

    fn forget(&mut self, client: ClientId, left: &[Topic]) {
        let Some(scope) = self.interest.scope_of(client).and_then(|id| self.scopes.get(&id)) else { return };
        if let Some(Some(mailbox)) = self.seats.get(client.index()) {
            mailbox.forget(scope.kinds(left));
        }
    }
}

impl Scope {
    /// The last known tick of a topic, as it is told to whoever subscribes.
    fn last_word(&self, topic: &Topic) -> Option<(Kind, Bytes)> {
        let (number, payload) = self.known.latest(&topic.instrument, topic.mode())?;
        let text = Market::read(&payload).ok()?.message(&topic.instrument, topic.mode(), &self.broker, true);
        Some((number.kind(topic.mode()), frame::text(&text)))
    }

    fn kinds<'a>(&'a self, topics: &'a [Topic]) -> impl Iterator<Item = Kind> + 'a {
        let number = |topic: &Topic| self.known.number(&topic.instrument).map(|number: Number| (number, topic.mode()));
        topics.iter().filter_map(number).map(|(number, mode)| number.kind(mode))
    }
}

/// Leaves of several ticks with one name only the last. How many are gone.
///
/// The others stay in their order: a price that is newer than an order book must not be told before it.
pub(crate) fn drop_superseded(messages: &mut Vec<Message>) -> u64 {
    if messages.len() < 2 {
        return 0;
    }
    let before = messages.len();
    let mut last = HashMap::with_capacity(before);
    for (at, message) in messages.iter().enumerate() {
        last.insert(Arc::clone(&message.topic), at);
    }
    if last.len() == before {
        return 0;
    }
    let mut at = 0;
    messages.retain(|message| {
        let keep = last.get(&message.topic) == Some(&at) || !is_tick(&message.topic);
        at += 1;
        keep
    });
    (before - messages.len()) as u64
}

fn is_tick(name: &str) -> bool {
    matches!(topic::parse(name), Some(BusTopic::Tick { .. }))
}

fn is_order_of(user: &str, payload: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Order<'a> {
        #[serde(borrow, default)]
        user_id: Option<std::borrow::Cow<'a, str>>,
    }
    serde_json::from_str::<Order<'_>>(payload).is_ok_and(|order| order.user_id.is_none_or(|named| named == user))
}
