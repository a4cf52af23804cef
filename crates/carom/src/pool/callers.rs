//! Callers that wait: what each was given, and who is to be woken.

use super::table::Held;
use crate::connect::Connect;
use carom_core::pool::Refusal;
use carom_core::waiters::WaiterId;
use std::mem;
use std::panic::Location;
use std::task::Waker;

/// Everybody who waits, by waiter.
pub(super) struct Callers<C: Connect>(Vec<Caller<C>>);

/// A waiting caller.
enum Caller<C: Connect> {
    Nobody,
    Waiting { waker: Waker, site: &'static Location<'static> },
    Granted(Box<Held<C>>),
    Refused(Refusal),
}

/// What a waiting caller finds. Wakers are handed out: dropping one may run code that is not ours, not under the lock.
pub(crate) enum Collected<C: Connect> {
    Nothing(#[allow(dead_code, reason = "dropped after the lock is let go")] Option<Waker>),
    Granted(Box<Held<C>>),
    Refused(Refusal),
}

/// What a caller who gives up leaves behind.
pub(crate) enum Withdrawn<C: Connect> {
    Nothing,
    Waiting(#[allow(dead_code, reason = "dropped after the lock is let go")] Waker),
    Granted(Box<Held<C>>),
}

impl<C: Connect> Callers<C> {
    pub(super) fn new() -> Callers<C> {
        Callers(Vec::new())
    }

    /// One more waits.
    pub(super) fn wait(&mut self, waiter: WaiterId, waker: Waker, site: &'static Location<'static>) {
        if self.0.len() <= waiter.index() {
            self.0.resize_with(waiter.index() + 1, || Caller::Nobody);
        }
        self.0[waiter.index()] = Caller::Waiting { waker, site };
    }

    /// Where a caller asked, if it waits.
    pub(super) fn site(&self, waiter: WaiterId) -> Option<&'static Location<'static>> {
        match &self.0[waiter.index()] {
            Caller::Waiting { site, .. } => Some(site),
            Caller::Nobody | Caller::Granted(_) | Caller::Refused(_) => None,
        }
    }

    /// Puts a connection into the hands of a caller, who is to be woken if it waits.
    pub(super) fn grant(&mut self, waiter: WaiterId, held: Box<Held<C>>) -> Option<Waker> {
        self.answer(waiter, Caller::Granted(held))
    }

    /// Tells a caller that it gets none.
    pub(super) fn refuse(&mut self, waiter: WaiterId, refusal: Refusal) -> Option<Waker> {
        self.answer(waiter, Caller::Refused(refusal))
    }

    /// What a caller was given; if nothing yet, it is woken again through `waker`.
    pub(super) fn collect(&mut self, waiter: WaiterId, waker: &Waker) -> Collected<C> {
        let caller = &mut self.0[waiter.index()];
        if let Caller::Waiting { waker: before, .. } = caller {
            let replaced = (!before.will_wake(waker)).then(|| mem::replace(before, waker.clone()));
            return Collected::Nothing(replaced);
        }
        match mem::replace(caller, Caller::Nobody) {
            Caller::Granted(held) => Collected::Granted(held),
            Caller::Refused(refusal) => Collected::Refused(refusal),
            Caller::Waiting { .. } | Caller::Nobody => unreachable!("a caller collects once"),
        }
    }

    /// A caller gives up.
    pub(super) fn withdraw(&mut self, waiter: WaiterId) -> Withdrawn<C> {
        match mem::replace(&mut self.0[waiter.index()], Caller::Nobody) {
            Caller::Granted(held) => Withdrawn::Granted(held),
            Caller::Waiting { waker, .. } => Withdrawn::Waiting(waker),
            Caller::Nobody | Caller::Refused(_) => Withdrawn::Nothing,
        }
    }

    fn answer(&mut self, waiter: WaiterId, outcome: Caller<C>) -> Option<Waker> {
        match mem::replace(&mut self.0[waiter.index()], outcome) {
            Caller::Waiting { waker, .. } => Some(waker),
            Caller::Nobody | Caller::Granted(_) | Caller::Refused(_) => None,
        }
    }
}

/// Callers to be woken after the lock is let go: nearly always none or one, which costs no allocation.
#[derive(Default)]
pub(super) struct Wakers {
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Wakers {
    #[inline]
    pub(super) fn extend(&mut self, waker: Option<Waker>) {
        if self.first.is_none() {
            self.first = waker;
        } else {
            self.others.extend(waker);
        }
    }

    #[inline]
    pub(super) fn wake(self) {
        if let Some(first) = self.first {
            first.wake();
            self.others.into_iter().for_each(Waker::wake);
        }
    }
}
