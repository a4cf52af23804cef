//! The last known tick of a topic, on its way to whoever subscribes: found under the hub's lock, written without it.

use super::known::Latest;
use super::state::State;
use crate::frame;
use crate::protocol::market::Market;
use bytes::Bytes;
use carom_core::feed::interest::{ClientId, Joined};
use carom_core::feed::{Mode, Topic};
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

/// A tick that somebody who is new is to be told.
#[derive(Debug)]
pub(super) struct LastWord<'a> {
    topic: &'a Topic,
    broker: Arc<str>,
    latest: Latest,
}

/// A tick that was put in words for one client.
#[derive(Debug)]
pub(super) struct Told {
    latest: Latest,
    mode: Mode,
    text: Bytes,
}

impl LastWord<'_> {
    /// Nothing if it makes no sense.
    pub(super) fn into_text(self) -> Option<Told> {
        let LastWord { topic, broker, latest } = self;
        let text = Market::read(&latest.payload).ok()?.message(&topic.instrument, topic.mode(), &broker, true);
        Some(Told { latest, mode: topic.mode(), text: frame::text(&text) })
    }
}

impl State {
    /// A client gets these from now on. What was last said of those that are new to it; what the feed is to have back goes to
    /// `back`.
    pub(super) fn join<'a>(
        &mut self,
        now: Instant,
        client: ClientId,
        topics: &'a [Topic],
        back: &mut Vec<Topic>,
    ) -> Vec<LastWord<'a>> {
        let State { interest, scopes, .. } = self;
        let mut last_words = Vec::new();
        let Some((id, scope)) = interest.scope_of(client).and_then(|id| Some((id, scopes.get_mut(&id)?))) else {
            back.extend_from_slice(topics);
            return last_words;
        };
        scope.known.sweep(now);
        for topic in topics {
            let joined = interest.subscribe(client, topic);
            scope.known.want(now, &topic.instrument, interest.greatest(id, &topic.instrument));
            match joined {
                Joined::New => {
                    let word = |latest| LastWord { topic, broker: Arc::clone(&scope.broker), latest };
                    last_words.extend(scope.known.latest(now, topic).map(word));
                }
                Joined::Instead(old) => back.push(old),
                Joined::Already | Joined::Unknown => back.push(topic.clone()),
            }
        }
        last_words
    }

    /// Tells a client what was last said, where nothing was said since: that it was told as it came.
    pub(super) fn tell(&mut self, now: Instant, client: ClientId, told: Vec<Told>, wakers: &mut Vec<Waker>) {
        let State { interest, scopes, seats, figures } = self;
        let Some(scope) = interest.scope_of(client).and_then(|id| scopes.get_mut(&id)) else { return };
        let Some(Some(mailbox)) = seats.get(client.index()) else { return };
        for Told { latest, mode, text } in told {
            if scope.known.is_latest(&latest, mode) {
                wakers.extend(figures.ticked(mailbox.tick(now, latest.number.kind(mode), text)));
                if mode == Mode::Ltp {
                    scope.known.told(latest.number, client);
                }
            }
        }
    }
}
