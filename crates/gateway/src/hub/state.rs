//! What the hub's lock protects, and the way of a tick through it.

use super::known::{Known, Number, Price};
use crate::frame;
use crate::mailbox::{Kind, Mailbox};
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
        let mut recipients = interest.recipients(id, instrument, mode).peekable();
        let wanted = recipients.peek().is_some();
        if !wanted && scope.known.number(instrument).is_none() {
            return;
        }
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

    pub(super) fn sweep(&mut self, now: Instant, id: ScopeId) {
        let State { interest, scopes, .. } = self;
        if let Some(scope) = scopes.get_mut(&id) {
            scope.known.sweep(now, |instrument| interest.counts(id, instrument) != [0; 3]);
        }
    }

    pub(super) fn forget(&mut self, client: ClientId, left: &[Topic]) {
        let Some(scope) = self.interest.scope_of(client).and_then(|id| self.scopes.get(&id)) else { return };
        if let Some(Some(mailbox)) = self.seats.get(client.index()) {
            mailbox.forget(scope.kinds(left));
        }
    }
}

impl Scope {
    /// The last known tick of a topic, as it is told to whoever subscribes.
    pub(super) fn last_word(&self, topic: &Topic) -> Option<(Kind, Bytes)> {
        let (number, payload) = self.known.latest(&topic.instrument, topic.mode())?;
        let text = Market::read(&payload).ok()?.message(&topic.instrument, topic.mode(), &self.broker, true);
        Some((number.kind(topic.mode()), frame::text(&text)))
    }

    pub(super) fn kinds<'a>(&'a self, topics: &'a [Topic]) -> impl Iterator<Item = Kind> + 'a {
        let number = |topic: &Topic| self.known.number(&topic.instrument).map(|number: Number| (number, topic.mode()));
        topics.iter().filter_map(number).map(|(number, mode)| number.kind(mode))
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
