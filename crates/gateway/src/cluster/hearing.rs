//! Hearing: what the owner says of what a session has, passed on to the feed that has it.

use super::message::{Stands, Turned};
use super::relay::RelayError;
use crate::upstream::shown;
use carom::feed::{Change, Instrument, Pending, Refused, Withholding};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the [module](self). One for each session; clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Hearing {
    withholding: Withholding,
    /// In which turn something was last said of each that was asked for.
    turns: Arc<Mutex<BTreeMap<Instrument, u64>>>,
}

impl Hearing {
    pub(super) fn withholding(&self) -> Withholding {
        self.withholding.clone()
    }

    /// These are about to be asked for: what is said of others is not heard.
    pub(super) fn await_word(&self, changes: &[Change]) {
        let mut turns = self.lock();
        for wanted in changes.iter().filter(|change| change.to.is_some()) {
            turns.entry(wanted.instrument.clone()).or_default();
        }
    }

    /// The owner says how things stand.
    pub(super) fn hear(&self, owner: &Arc<str>, Stands { turn, turned, reason, .. }: Stands) {
        let (mut turns, mut lacks) = (self.lock(), false);
        for (instrument, pending) in turned.into_iter().filter_map(Turned::meant) {
            // Answers may overtake each other, and what was said later is so.
            let Some(latest) = turns.get_mut(&instrument) else { continue };
            if turn >= *latest {
                *latest = turn;
                lacks |= pending.is_some_and(|pending| pending != Pending::Unanswered);
                self.withholding.say(instrument, pending);
            }
        }
        if let Some(reason) = reason.filter(|_| lacks) {
            let reason = shown(&reason);
            self.withholding.because(RelayError::Withheld { owner: Arc::clone(owner), reason });
        }
    }

    /// Nothing more is to be heard of those that were given back, or are not to be had at all.
    pub(super) fn forget(&self, changes: &[Change], refused: &[Refused]) {
        let refused = refused.iter().filter_map(|refused| changes.get(refused.position));
        let not_had = refused.filter(|change| change.from.is_none());
        let mut turns = self.lock();
        for gone in changes.iter().filter(|change| change.to.is_none()).chain(not_had) {
            turns.remove(&gone.instrument);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Instrument, u64>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carom::feed::{Level, Mode};

    fn change(symbol: &str, to: Option<Mode>) -> Change {
        let to = to.map(|mode| Level { mode, depth: 0 });
        Change { instrument: Instrument::new("NSE", symbol), from: None, to }
    }

    fn says(hearing: &Hearing, turn: u64, symbol: &str, pending: Option<Pending>) {
        let turned = vec![Turned::new(&Instrument::new("NSE", symbol), pending)];
        let reason = Some("a\nreason ".repeat(1_000));
        hearing.hear(&"owner".into(), Stands { turn, turned, reason, ..Stands::default() });
    }

    fn unheard(hearing: &Hearing) -> String {
        format!("{:?}", hearing.withholding())
    }

    #[test]
    fn what_is_said_earlier_and_heard_later_does_not_count() {
        let hearing = Hearing::default();
        hearing.await_word(&[change("SBIN", Some(Mode::Ltp))]);
        says(&hearing, 2, "SBIN", None);
        says(&hearing, 1, "SBIN", Some(Pending::Down));
        assert_eq!(unheard(&hearing), "Withholding { unheard: 1 }");
        says(&hearing, 3, "SBIN", Some(Pending::Down));
        assert_eq!(unheard(&hearing), "Withholding { unheard: 2 }");
    }

    #[test]
    fn what_nobody_asked_for_is_not_heard() {
        let hearing = Hearing::default();
        hearing.await_word(&[change("SBIN", Some(Mode::Ltp)), change("INFY", None)]);
        says(&hearing, 1, "INFY", Some(Pending::Down));
        says(&hearing, 1, "TCS", Some(Pending::Down));
        assert_eq!(unheard(&hearing), "Withholding { unheard: 0 }");
        // An answer that was under way when it was given back.
        hearing.forget(&[change("SBIN", None)], &[]);
        says(&hearing, 2, "SBIN", Some(Pending::Down));
        assert_eq!(unheard(&hearing), "Withholding { unheard: 0 }");
        let wanted = [change("WIPRO", Some(Mode::Ltp))];
        hearing.await_word(&wanted);
        hearing.forget(&wanted, &[Refused { position: 0, reason: "no".into() }]);
        assert!(hearing.lock().is_empty());
    }
}
