//! What a connection carries: by contract, under which names, how much of it, and what is known of it.
//!
//! Two names may lead to one contract, and each be wanted in another mode: what the highest takes is subscribed to, once.

use super::asked::{Asked, Refusal};
use super::known::Known;
use super::message::{Channel, Message};
use crate::upstream::shown;
use carom::feed::{Instrument, Level, Mode, Tick};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::oneshot;

/// What the two halves of a connection share.
#[derive(Debug, Default)]
pub(super) struct Carried {
    /// As many as are subscribed to: only this side adds to it.
    contracts: HashMap<Arc<str>, Entry>,
    pub(super) asked: Asked,
    /// Whoever waits until everything that was asked for is answered.
    waiting: Option<oneshot::Sender<()>>,
}

/// A contract that is carried.
#[derive(Debug, Default)]
struct Entry {
    /// What it is subscribed to as; never empty.
    names: Vec<(Instrument, Level)>,
    known: Known,
}

/// What came of a message, beside ticks.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// A complaint that is about nothing that was asked for.
    pub(super) complaint: Option<String>,
    /// What counted as accepted, and is refused now.
    pub(super) late: Vec<Refusal>,
}

/// The channels that it takes to stream this much.
pub(super) fn channels(level: Option<Level>) -> &'static [Channel] {
    match level.map(|level| level.mode) {
        None => &[],
        Some(Mode::Ltp | Mode::Quote) => &[Channel::Ticker],
        // A book has no last price.
        Some(Mode::Depth) => &[Channel::Ticker, Channel::Book],
    }
}

impl Carried {
    /// How much of a contract is carried.
    pub(super) fn level(&self, symbol: &str) -> Option<Level> {
        self.contracts.get(symbol)?.level()
    }

    /// From now on so much of it is carried under this name, or nothing; how much it was. What is known of it stays, except for
    /// what will not be kept up to date.
    pub(super) fn set(&mut self, symbol: &Arc<str>, instrument: &Instrument, to: Option<Level>) -> Option<Level> {
        let entry = self.contracts.entry(Arc::clone(symbol)).or_default();
        let at = entry.names.iter().position(|(name, _)| name == instrument);
        let from = at.map(|at| entry.names.swap_remove(at).1);
        entry.names.extend(to.map(|level| (instrument.clone(), level)));
        if entry.names.is_empty() {
            self.contracts.remove(symbol);
        } else if !channels(entry.level()).contains(&Channel::Book) {
            entry.known.forget_book();
        }
        from
    }

    /// Tells when everything that was asked for is answered.
    pub(super) fn wait(&mut self) -> oneshot::Receiver<()> {
        let (tell, told) = oneshot::channel();
        self.waiting = Some(tell);
        self.tell();
        told
    }

    /// Takes in what the exchange says, and appends the ticks that come of it.
    pub(super) fn hear(&mut self, message: &Message<'_>, ticks: &mut Vec<Tick>) -> Heard {
        let mut complaint = None;
        match message {
            Message::Ticker(ticker) => {
                // What contracts are on is the name of one only if there are no others.
                let single = ticker.symbol.as_ref().filter(|_| ticker.contracts.len() == 1);
                for contract in ticker.contracts.iter().flatten() {
                    let Some(symbol) = contract.symbol.as_ref().or(single) else { continue };
                    let merge = |known: &mut Known| known.merge(contract, ticker.spot, ticker.micros);
                    self.said(Channel::Ticker, symbol, merge, ticks);
                }
            }
            Message::Book(book) => self.said(Channel::Book, &book.symbol, |known| known.merge_book(book), ticks),
            Message::Subscriptions(answer) => complaint = self.asked.answered(answer).map(shown),
            Message::Error(error) => {
                let reason = shown(error.words());
                complaint = (!self.asked.refuse_oldest(None, &reason)).then_some(reason);
            }
            Message::Life | Message::Other => return Heard::default(),
        }
        self.tell();
        Heard { complaint, late: self.asked.refused_late() }
    }

    /// Something is said of a contract. If it is not carried any more that was under way when it was dropped.
    fn said(&mut self, channel: Channel, symbol: &str, merge: impl FnOnce(&mut Known), ticks: &mut Vec<Tick>) {
        self.asked.accepted(channel, symbol);
        let Some(entry) = self.contracts.get_mut(symbol) else { return };
        if !channels(entry.level()).contains(&channel) {
            return;
        }
        merge(&mut entry.known);
        for (instrument, level) in entry.names.iter().filter(|(_, level)| channels(Some(*level)).contains(&channel)) {
            if let Some(mode) = entry.known.contains(level.mode) {
                let payload = entry.known.payload(instrument, Level { mode, ..*level });
                ticks.push(Tick { instrument: instrument.clone(), mode, payload: payload.into() });
            }
        }
    }

    fn tell(&mut self) {
        if self.asked.is_settled()
            && let Some(waiting) = self.waiting.take()
        {
            // A writer that is gone does not want to know.
            let _ = waiting.send(());
        }
    }
}

impl Entry {
    fn level(&self) -> Option<Level> {
        self.names.iter().map(|(_, level)| *level).max()
    }
}
