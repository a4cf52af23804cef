//! What was asked for and is not answered yet.
//!
//! Answers have no number that would say which request they belong to. They name contracts, though: whatever is listed as
//! subscribed, or says something, is accepted. A refusal that names none is that of the oldest request, of its channel if it has one;
//! if that was to drop something, nothing is refused by it. Some answers are late: what was waited for in vain counts as accepted,
//! and can be refused all the same.

use super::message::{Channel, Request, Subscribed, Subscriptions};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// Most requests that are remembered: some exchange may never answer.
const MOST: usize = 1_000;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// Contracts that there is no answer for, by channel.
    open: [HashSet<Arc<str>>; 2],
    /// Those that nobody waits for any more.
    late: [HashSet<Arc<str>>; 2],
    /// Requests in the order in which they were made; what was answered of them meanwhile is in them all the same.
    requests: VecDeque<(Request, Vec<Arc<str>>)>,
    refused: Vec<Refusal>,
    refused_late: Vec<Refusal>,
}

/// A channel of a contract that the exchange refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) symbol: Arc<str>,
    pub(super) channel: Channel,
    /// What the exchange said.
    pub(super) reason: String,
    /// Whether it has named the contract. Otherwise something else may have been meant.
    pub(super) named: bool,
}

impl Asked {
    /// A request is made, about these contracts.
    pub(super) fn ask(&mut self, request: Request, symbols: &[Arc<str>]) {
        match request {
            Request::Subscribe(channel) => self.open[channel as usize].extend(symbols.iter().cloned()),
            Request::Unsubscribe(channel) => symbols.iter().for_each(|symbol| self.accepted(channel, symbol)),
        }
        self.requests.push_back((request, symbols.to_vec()));
    }

    /// This contract is subscribed to, or not wanted any more.
    pub(super) fn accepted(&mut self, channel: Channel, symbol: &str) {
        self.open[channel as usize].remove(symbol);
        self.late[channel as usize].remove(symbol);
    }

    /// The exchange says what is subscribed to, and what is not. A refusal of something that was not asked for, if there is one.
    pub(super) fn answered<'a>(&mut self, Subscriptions { channels }: &'a Subscriptions<'_>) -> Option<&'a str> {
        if channels.iter().all(|channel| channel.error.is_none()) {
            self.dropped();
        }
        let mut unasked = None;
        for channel in channels {
            if !self.told(channel) {
                unasked = channel.error.as_deref();
            }
        }
        unasked
    }

    /// The exchange refuses something, and does not say what: the oldest request, of this channel if there is one named. Whether
    /// there was any.
    pub(super) fn refuse_oldest(&mut self, channel: Option<Channel>, reason: &str) -> bool {
        loop {
            let mut requests = self.requests.iter();
            let at = requests.position(|(asked, _)| channel.is_none_or(|channel| channel == asked.channel()));
            match at.and_then(|at| self.requests.remove(at)) {
                None => return false,
                // It is dropped on this side either way.
                Some((Request::Unsubscribe(_), _)) => return true,
                Some((Request::Subscribe(channel), symbols)) => {
                    let refused = symbols.iter().filter(|symbol| self.refuse(channel, symbol, reason, false)).count();
                    // One that was answered otherwise is not meant.
                    if refused > 0 {
                        return true;
                    }
                }
            }
        }
    }

    /// Whether everything is answered that is waited for.
    pub(super) fn is_settled(&self) -> bool {
        self.open.iter().all(HashSet::is_empty)
    }

    /// What was refused. What is not answered yet is not waited for any longer.
    pub(super) fn finish(&mut self) -> Vec<Refusal> {
        for (late, open) in self.late.iter_mut().zip(&mut self.open) {
            late.extend(open.drain());
        }
        let Asked { late, requests, .. } = self;
        requests.retain(|(request, symbols)| match request {
            Request::Subscribe(channel) => symbols.iter().any(|symbol| late[*channel as usize].contains(symbol)),
            Request::Unsubscribe(_) => true,
        });
        requests.drain(..requests.len().saturating_sub(MOST));
        std::mem::take(&mut self.refused)
    }

    /// What was refused when nobody waited for it any more.
    pub(super) fn refused_late(&mut self) -> Vec<Refusal> {
        std::mem::take(&mut self.refused_late)
    }

    /// An answer that complains of nothing: if the oldest request was to drop something, that is done.
    fn dropped(&mut self) {
        while let Some((request, symbols)) = self.requests.front() {
            match request {
                Request::Subscribe(channel) if symbols.iter().any(|symbol| self.is_open(*channel, symbol)) => return,
                Request::Subscribe(_) => drop(self.requests.pop_front()),
                Request::Unsubscribe(_) => return drop(self.requests.pop_front()),
            }
        }
    }

    /// Takes in what is said of a channel; whether that was about something that was asked for.
    fn told(&mut self, Subscribed { name, symbols, error }: &Subscribed<'_>) -> bool {
        let Some(channel) = Channel::from_name(name) else { return error.is_none() };
        let Some(reason) = error else {
            symbols.iter().for_each(|symbol| self.accepted(channel, symbol));
            return true;
        };
        if symbols.is_empty() {
            return self.refuse_oldest(Some(channel), reason);
        }
        // Each of them is to be refused, whatever the others are.
        symbols.iter().filter(|symbol| !self.refuse(channel, symbol, reason, true)).count() == 0
    }

    fn is_open(&self, channel: Channel, symbol: &str) -> bool {
        self.open[channel as usize].contains(symbol) || self.late[channel as usize].contains(symbol)
    }

    fn refuse(&mut self, channel: Channel, symbol: &str, reason: &str, named: bool) -> bool {
        let (symbol, refused) = if let Some(symbol) = self.open[channel as usize].take(symbol) {
            (symbol, &mut self.refused)
        } else if let Some(symbol) = self.late[channel as usize].take(symbol) {
            (symbol, &mut self.refused_late)
        } else {
            return false;
        };
        refused.push(Refusal { symbol, channel, reason: reason.to_owned(), named });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contract(number: usize) -> Arc<str> {
        format!("C{number}").into()
    }

    /// The exchange answers; whether that is about what was asked for.
    fn answered(asked: &mut Asked, channel: Channel, symbols: &[&str], error: Option<&str>) -> bool {
        let symbols = symbols.iter().map(|symbol| (*symbol).into()).collect();
        let channels = vec![Subscribed { name: channel.name().into(), symbols, error: error.map(Into::into) }];
        asked.answered(&Subscriptions { channels }).is_none()
    }

    fn named(refusals: Vec<Refusal>) -> Vec<(String, Channel)> {
        refusals.into_iter().map(|refusal| (refusal.symbol.to_string(), refusal.channel)).collect()
    }

    fn refused(asked: &mut Asked) -> Vec<(String, Channel)> {
        named(asked.finish())
    }

    #[test]
    fn whatever_is_listed_or_says_something_is_accepted() {
        let mut asked = Asked::default();
        assert!(asked.is_settled());
        asked.ask(Request::Subscribe(Channel::Ticker), &[contract(0), contract(1), contract(2)]);
        asked.ask(Request::Subscribe(Channel::Book), &[contract(1)]);
        assert!(answered(&mut asked, Channel::Ticker, &["OLD", "C0", "C1"], None));
        asked.accepted(Channel::Ticker, "C2");
        assert!(!asked.is_settled(), "the book is another matter");
        assert!(answered(&mut asked, Channel::Book, &["C1"], None));
        assert!(asked.is_settled());
        assert_eq!(refused(&mut asked), []);
    }

    #[test]
    fn a_refusal_is_of_what_it_names_or_of_the_oldest_request() {
        let mut asked = Asked::default();
        asked.ask(Request::Subscribe(Channel::Ticker), &[contract(0), contract(1)]);
        for number in 0..3 {
            asked.ask(Request::Subscribe(Channel::Book), &[contract(number)]);
        }
        assert!(answered(&mut asked, Channel::Ticker, &["C1"], Some("no")));
        assert!(answered(&mut asked, Channel::Book, &["C0"], None));
        assert!(answered(&mut asked, Channel::Book, &[], Some("no")), "that of the second book");
        assert!(asked.refuse_oldest(None, "no"), "what is left of the tickers");
        assert!(!asked.is_settled());
        let expected = [("C1", Channel::Ticker), ("C1", Channel::Book), ("C0", Channel::Ticker)];
        assert_eq!(refused(&mut asked), expected.map(|(symbol, channel)| (symbol.to_owned(), channel)));
        assert!(asked.is_settled(), "what was not answered is not waited for");
    }

    #[test]
    fn refusals_of_what_was_not_asked_for_are_known_as_such() {
        let mut asked = Asked::default();
        asked.ask(Request::Subscribe(Channel::Book), &[contract(0)]);
        assert!(!answered(&mut asked, Channel::Book, &["C7"], Some("no")));
        assert!(!answered(&mut asked, Channel::Ticker, &[], Some("no")));
        let other = Subscribed { name: "orders".into(), symbols: Vec::new(), error: Some("no".into()) };
        assert_eq!(asked.answered(&Subscriptions { channels: vec![other] }), Some("no"));
        assert!(!asked.is_settled());
    }

    #[test]
    fn all_that_a_refusal_names_is_refused() {
        let mut asked = Asked::default();
        asked.ask(Request::Subscribe(Channel::Ticker), &[contract(1), contract(2), contract(3)]);
        assert!(!answered(&mut asked, Channel::Ticker, &["C0", "C1", "C2"], Some("no")), "nobody asked for the first");
        assert!(!asked.is_settled());
        assert_eq!(refused(&mut asked), [("C1".to_owned(), Channel::Ticker), ("C2".to_owned(), Channel::Ticker)]);
    }

    #[test]
    fn what_the_exchange_says_to_dropping_something_refuses_nothing() {
        let mut asked = Asked::default();
        asked.ask(Request::Unsubscribe(Channel::Ticker), &[contract(0)]);
        asked.ask(Request::Unsubscribe(Channel::Book), &[contract(0)]);
        asked.ask(Request::Subscribe(Channel::Ticker), &[contract(1), contract(2)]);
        assert!(asked.refuse_oldest(None, "not now"));
        assert!(answered(&mut asked, Channel::Book, &[], Some("no")));
        assert!(!asked.is_settled());
        assert!(asked.refuse_oldest(None, "no"), "this is about what was asked for");
        assert_eq!(refused(&mut asked).len(), 2);

        asked.ask(Request::Unsubscribe(Channel::Ticker), &[contract(0)]);
        asked.ask(Request::Subscribe(Channel::Ticker), &[contract(1)]);
        assert!(answered(&mut asked, Channel::Ticker, &[], None), "that is done");
        assert!(answered(&mut asked, Channel::Ticker, &[], Some("no")));
        assert_eq!(refused(&mut asked).len(), 1);
        assert!(asked.requests.is_empty());
    }

    #[test]
    fn late_refusals_are_of_what_they_were_late_for() {
        let mut asked = Asked::default();
        asked.ask(Request::Subscribe(Channel::Ticker), &[contract(0), contract(1)]);
        asked.ask(Request::Subscribe(Channel::Book), &[contract(0)]);
        assert_eq!(refused(&mut asked), []);
        asked.ask(Request::Subscribe(Channel::Ticker), &[contract(2)]);
        assert!(answered(&mut asked, Channel::Ticker, &["C0"], Some("no")));
        assert!(asked.refuse_oldest(None, "no"), "that of what is left of the first request");
        let expected = [("C0", Channel::Ticker), ("C1", Channel::Ticker)];
        assert_eq!(named(asked.refused_late()), expected.map(|(symbol, channel)| (symbol.to_owned(), channel)));
        asked.ask(Request::Unsubscribe(Channel::Book), &[contract(0)]);
        assert!(!answered(&mut asked, Channel::Book, &["C0"], Some("no")), "nobody wants it any more");
        assert!(answered(&mut asked, Channel::Ticker, &["C2"], None));
        assert_eq!((refused(&mut asked), asked.refused_late()), (Vec::new(), Vec::new()));
    }

    #[test]
    fn an_exchange_that_never_answers_is_not_remembered_for_ever() {
        let mut asked = Asked::default();
        for number in 0..3 * MOST {
            asked.ask(Request::Unsubscribe(Channel::Ticker), &[contract(number)]);
            asked.finish();
        }
        assert_eq!(asked.requests.len(), MOST);
    }
}
