//! Refusals that came when nobody waited for them any more.
//!
//! A feed hears of refusals in answer to what it writes, and at no other time. So the connection ends, and the next one is asked for
//! everything again: what was refused too late is refused there, without asking and once, so that it ends no connection again.

use super::carried::channels;
use super::message::Channel;
use carom::feed::Level;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What all connections of an adapter know. There is no more in it than was ever listed.
#[derive(Clone, Debug, Default)]
pub(super) struct Late(Arc<Mutex<Reasons>>);

type Reasons = BTreeMap<(Arc<str>, Channel), String>;

impl Late {
    /// This was refused, for this reason.
    pub(super) fn note(&self, symbol: &Arc<str>, channel: Channel, reason: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((Arc::clone(symbol), channel), reason);
    }

    /// The contract, or why so much of it is not to be asked for.
    pub(super) fn check(&self, symbol: Arc<str>, to: Option<Level>) -> Result<Arc<str>, String> {
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.is_empty() {
            return Ok(symbol);
        }
        let reasons = channels(to).iter().filter_map(|channel| refused.remove(&(Arc::clone(&symbol), *channel)));
        reasons.last().map_or(Ok(symbol), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carom::feed::Mode;

    #[test]
    fn what_was_refused_late_is_refused_once() {
        let (late, symbol) = (Late::default(), Arc::<str>::from("BTCUSD"));
        late.note(&symbol, Channel::Book, "no".to_owned());
        let check = |mode| late.check(Arc::clone(&symbol), Some(Level { mode, depth: 5 }));
        assert!(check(Mode::Quote).is_ok(), "the book is another matter");
        assert_eq!(check(Mode::Depth), Err("no".to_owned()));
        assert!(check(Mode::Depth).is_ok());
    }
}
