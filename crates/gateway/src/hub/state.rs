//! What the hub's lock protects, and the way of a tick through it.

use super::known::{Held, Known, Price};
use crate::frame;
use crate::mailbox::Mailbox;
use crate::protocol::market::Market;
use bytes::Bytes;
use carom_core::feed::interest::{ClientId, Interest, ScopeId};
use carom_core::feed::{Instrument, Mode, Topic};
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

impl State {
    #[expect(clippy::too_many_arguments, reason = "they are a tick, and where it goes")]
    pub(super) fn tick(
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
        let Some(number) = scope.known.number(instrument) else { return };
        let Ok(market) = Market::read(&payload) else {
            figures.malformed += 1;
            return;
        };
        scope.known.heard(now, number, mode, payload.clone());
        // What each mode's clients are told; `Some(None)`: nothing for now.
        let mut texts: [Option<Option<Bytes>>; 3] = [None, None, None];
        for (client, mode) in interest.recipients(id, instrument, mode) {
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

    /// Tells the prices of a scope whose time has come, but not to those who know them.
    pub(super) fn release(&mut self, now: Instant, id: ScopeId, wakers: &mut Vec<Waker>) {
        let State { interest, scopes, seats, .. } = self;
        let Some(scope) = scopes.get_mut(&id) else { return };
        for (number, instrument, Held { text, known_to }) in scope.known.release(now) {
            let recipients = interest.recipients(id, &instrument, Mode::Ltp).map(|(client, _)| client);
            for client in recipients.filter(|client| !known_to.contains(client)) {
                if let Some(Some(mailbox)) = seats.get(client.index()) {
                    wakers.extend(mailbox.tick(now, number.kind(Mode::Ltp), text.clone()));
                }
            }
        }
    }

    /// What became of an order: for all clients of its user who asked for that.
    pub(super) fn order(&mut self, now: Instant, id: ScopeId, payload: Bytes, wakers: &mut Vec<Waker>) {
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

fn is_order_of(user: &str, payload: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Order<'a> {
        #[serde(borrow, default)]
        user_id: Option<std::borrow::Cow<'a, str>>,
    }
    serde_json::from_str::<Order<'_>>(payload).is_ok_and(|order| order.user_id.is_none_or(|named| named == user))
}
