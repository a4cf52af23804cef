//! What the hub's lock protects, and the way of a tick through it.

use super::known::{Held, Known, Number, Price};
use super::senseless::Senseless;
use super::words::Spelling;
use crate::frame;
use crate::mailbox::{Mailbox, Ticked};
use crate::protocol::market::{self, Market};
use crate::protocol::topic::{self, BusTopic};
use bytes::Bytes;
use carom_core::feed::interest::{ClientId, Interest, ScopeId};
use carom_core::feed::outbox::Put;
use carom_core::feed::{Instrument, Mode, Topic};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) interest: Interest,
    pub(super) scopes: BTreeMap<ScopeId, Scope>,
    /// Mailboxes by the index of clients.
    pub(super) seats: Vec<Option<Arc<Mailbox>>>,
    pub(super) figures: Figures,
}

/// What is known of a user at a broker.
#[derive(Debug)]
pub(super) struct Scope {
    pub(super) broker: Arc<str>,
    pub(super) user: Arc<str>,
    pub(super) known: Known,
    /// Who wants to hear of orders.
    pub(super) orders: BTreeSet<ClientId>,
    pub(super) heard: Heard,
}

/// What came over the bus of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// Ticks, those included that gave their place to newer ones.
    pub(crate) ticks: u64,
    /// When the last one came; of those that make sense, as far as somebody looked.
    pub(crate) last: Option<Instant>,
}

/// A tick as it came over a bus.
#[derive(Debug)]
pub(super) struct Said<'a> {
    pub(super) topic: &'a str,
    /// What the topic is about, as it is written.
    pub(super) instrument: Instrument,
    pub(super) mode: Mode,
    pub(super) payload: Bytes,
}

/// What the hub has counted; clients that are gone included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Clients who have said who they are.
    pub(crate) authenticated: usize,
    /// Subscriptions, of each client each mode of each instrument.
    pub(crate) subscriptions: usize,
    /// Ticks that came, those included that gave their place to newer ones.
    pub(crate) ticks: u64,
    /// Ticks that gave their place to newer ones: on the way here, held back by the throttle, and waiting for each client.
    pub(crate) conflated: u64,
    /// Messages that were lost because too many waited for one client.
    pub(crate) lost: u64,
    /// Messages of a bus that made no sense.
    pub(crate) malformed: u64,
}

impl Figures {
    /// A tick went to a client. Who is to be woken.
    pub(super) fn ticked(&mut self, Ticked { waker, put }: Ticked) -> Option<Waker> {
        let Put { conflated, lost } = put;
        self.conflated += conflated;
        self.lost += lost;
        waker
    }
}

impl State {
    pub(super) fn tick(
        &mut self,
        now: Instant,
        throttle: Option<Duration>,
        id: ScopeId,
        Said { topic, instrument, mode, payload }: Said<'_>,
        wakers: &mut Vec<Waker>,
    ) -> Result<(), Senseless> {
        let State { interest, scopes, seats, figures } = self;
        let Some(scope) = scopes.get_mut(&id) else { return Ok(()) };
        figures.ticks += 1;
        scope.heard.ticks += 1;
        let Some((instrument, number, spelling)) = scope.meant(topic, instrument) else {
            scope.heard.last = Some(now);
            return Ok(());
        };
        let market = Market::read(&payload).map_err(|_| Senseless::Tick)?;
        if !market.has_price() {
            // It must not take the place of one that has.
            return Err(Senseless::NoPrice);
        }
        scope.heard.last = Some(now);
        let Some(serves) = scope.known.heard(now, number, mode, spelling, &payload) else { return Ok(()) };
        // What each mode's clients are told; `Some(None)`: nothing for now.
        let mut texts: [Option<Option<Bytes>>; 3] = [None, None, None];
        let recipients = interest.recipients(id, &instrument, mode);
        for (client, mode) in recipients.filter(|(_, wanted)| serves.mode(*wanted)) {
            let text = texts[usize::from(mode.number() - 1)].get_or_insert_with(|| {
                let text = frame::text(&market.message(&instrument, mode, &scope.broker, false));
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
                wakers.extend(figures.ticked(mailbox.tick(now, number.kind(mode), text.clone())));
            }
        }
        Ok(())
    }

    /// Tells the prices of a scope whose time has come, but not to those who know them.
    pub(super) fn release(&mut self, now: Instant, id: ScopeId, wakers: &mut Vec<Waker>) {
        let State { interest, scopes, seats, figures } = self;
        let Some(scope) = scopes.get_mut(&id) else { return };
        for (number, instrument, Held { text, known_to }) in scope.known.release(now) {
            let recipients = interest.recipients(id, &instrument, Mode::Ltp).map(|(client, _)| client);
            for client in recipients.filter(|client| !known_to.contains(client)) {
                if let Some(Some(mailbox)) = seats.get(client.index()) {
                    wakers.extend(figures.ticked(mailbox.tick(now, number.kind(Mode::Ltp), text.clone())));
                }
            }
        }
    }

    /// What became of an order: for all clients of its user who asked for that.
    pub(super) fn order(
        &mut self,
        now: Instant,
        id: ScopeId,
        payload: &[u8],
        wakers: &mut Vec<Waker>,
    ) -> Result<(), Senseless> {
        let State { scopes, seats, .. } = self;
        let Some(scope) = scopes.get(&id) else { return Ok(()) };
        let order = market::json(payload).map_err(|_| Senseless::Order)?;
        // A bus belongs to one user; a payload that names another, or nobody, was published on the wrong one.
        match named(&order).ok_or(Senseless::Order)? {
            None => return Err(Senseless::NobodysOrder),
            Some(user) if *user != *scope.user => return Err(Senseless::StrangeOrder),
            Some(_) => {}
        }
        let text = frame::text(&order);
        for client in &scope.orders {
            if let Some(Some(mailbox)) = seats.get(client.index()) {
                wakers.extend(mailbox.reply(now, text.clone()));
            }
        }
        Ok(())
    }

    /// Whether it is this scope's user whose credentials are not what they were. The payload need not say whose they are, but must
    /// not say something else.
    pub(super) fn invalidated(&self, id: ScopeId, user: &str, payload: &[u8]) -> Result<bool, Senseless> {
        let said = market::json(payload).map_err(|_| Senseless::Credentials)?;
        let named = named(&said).ok_or(Senseless::Credentials)?;
        if named.is_some_and(|named| named != user) {
            return Err(Senseless::StrangeCredentials);
        }
        Ok(self.scopes.get(&id).is_some_and(|scope| &*scope.user == user))
    }

    pub(super) fn mailbox(&self, client: ClientId) -> Option<&Arc<Mailbox>> {
        self.seats.get(client.index())?.as_ref()
    }

    /// A client does not want this any more.
    pub(super) fn left_by(&mut self, now: Instant, client: ClientId, left: &[Topic]) {
        let mailbox = self.mailbox(client).cloned();
        if let Some(id) = self.interest.scope_of(client) {
            self.left(now, id, mailbox.as_deref(), left);
        }
    }

    /// Somebody in this scope does not want this any more, and what waits of it in its mailbox is gone.
    pub(super) fn left(&mut self, now: Instant, id: ScopeId, mailbox: Option<&Mailbox>, left: &[Topic]) {
        let State { interest, scopes, .. } = self;
        let Some(scope) = scopes.get_mut(&id) else { return };
        let mut kinds = Vec::with_capacity(left.len());
        for topic in left {
            let greatest = interest.greatest(id, &topic.instrument);
            let number = scope.known.want(now, &topic.instrument, greatest);
            kinds.extend(number.map(|number| number.kind(topic.mode())));
        }
        if let Some(mailbox) = mailbox {
            mailbox.forget(kinds);
        }
    }
}

impl Scope {
    /// Which instrument a topic is about, if it is one that is known: as it is written, or else without the broker's name in front.
    fn meant(&self, topic: &str, instrument: Instrument) -> Option<(Instrument, Number, Spelling)> {
        if let Some(number) = self.known.number(&instrument) {
            return Some((instrument, number, Spelling::Plain));
        }
        let Some(BusTopic::Tick { exchange, symbol, .. }) = topic::without_broker(topic, &self.broker) else {
            return None;
        };
        let instrument = Instrument::new(exchange, symbol);
        self.known.number(&instrument).map(|number| (instrument, number, Spelling::WithBroker))
    }
}

/// The user that an object names, if it names one; `None` if it is no object.
fn named(payload: &str) -> Option<Option<Cow<'_, str>>> {
    #[derive(serde::Deserialize)]
    struct Named<'a> {
        #[serde(borrow, default)]
        user_id: Option<Cow<'a, str>>,
    }
    // An array of one would do as well otherwise.
    let object = payload.starts_with('{');
    serde_json::from_str::<Named<'_>>(payload).ok().filter(|_| object).map(|named| named.user_id)
}
