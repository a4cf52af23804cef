//! Callers: they ask for leases, wait or give up, hold them, and let go.

use super::{Event, Moment, World, backend, ms, number};
use carom_core::set::{ConnectionId, Delivery, Leased, Refusal, WaiterId, Want};
use std::time::Duration;

/// Somebody who waits.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) want: Want,
    pub(super) came: Moment,
    pub(super) timeout: Duration,
    pub(super) deadline: Moment,
}

impl World {
    /// Somebody asks for this, and has so long.
    pub(crate) fn ask(&mut self, want: Want, timeout: Duration) {
        self.note(|_| format!("  {want:?} within {timeout:?}"));
        let leased = self.machine.lease(self.now(), Want { timeout: Some(timeout), ..want.clone() });
        self.books.asked += 1;
        self.note(|_| format!("  {leased:?}"));
        match leased {
            Leased::Granted(connection) => {
                self.promise_the_least_used_is_leased(&want, connection);
                self.granted(&want, connection);
            }
            Leased::Waiting(waiter) => {
                let caller = Caller { want, came: self.clock, timeout, deadline: self.clock + timeout };
                assert!(self.waiting.insert(waiter, caller).is_none(), "a waiter's name is its own");
                if self.random.chance(self.setting.gives_up) && !self.calm {
                    let after = timeout.mul_f64(self.random.fraction());
                    self.at(self.clock + after, Event::GivesUp(waiter));
                }
            }
            Leased::Refused(refusal) => {
                self.books.refused += 1;
                self.figures.refused(&refusal);
                match refusal {
                    Refusal::Closed => assert!(self.books.closing, "it is not closed"),
                    Refusal::Failed { dead: 0, known: 0 } => assert!(self.known.is_empty(), "somebody is known"),
                    Refusal::Failed { .. }
                    | Refusal::Unreachable(_)
                    | Refusal::TimedOut { .. }
                    | Refusal::NoSuchPlace { .. } => {
                        panic!("refused at once: {refusal:?}")
                    }
                }
            }
        }
        self.after_machine();
    }

    pub(super) fn caller_comes(&mut self) {
        let want = if self.random.chance(self.setting.names) {
            let place = self
                .random
                .chance(self.setting.places)
                .then(|| self.random.below(self.setting.options.per_backend.max(1)));
            Want { place, ..Want::of(backend(self.random.below(self.setting.servers))) }
        } else {
            let avoid = self.random.chance(0.2).then(|| backend(self.random.below(self.setting.servers)));
            Want { avoid, ..Want::any() }
        };
        let (least, most) = self.setting.patience;
        let timeout = least + (most - least).mul_f64(self.random.fraction());
        self.ask(want, timeout);
    }

    pub(super) fn give_up(&mut self, waiter: WaiterId) {
        let was_waiting = self.machine.forget_waiter(self.now(), waiter);
        assert_eq!(was_waiting, self.waiting.remove(&waiter).is_some(), "it waits until it is told otherwise");
        self.books.given_up += usize::from(was_waiting);
        self.figures.given_up += u64::from(was_waiting);
    }

    pub(super) fn deliver(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Granted { waiter, connection } => {
                let caller = self.waiting.remove(&waiter).expect("a waiter is told once");
                self.figures.waited += 1;
                let waited = self.clock - caller.came;
                self.figures.waited_for += waited;
                self.books.longest_wait = self.books.longest_wait.max(waited);
                self.granted(&caller.want, connection);
            }
            Delivery::Refused { waiter, refusal } => {
                let caller = self.waiting.remove(&waiter).expect("a waiter is told once");
                self.books.refused += 1;
                self.figures.refused(&refusal);
                self.promise_refusals_are_true(&caller, &refusal);
            }
        }
    }

    fn granted(&mut self, want: &Want, connection: ConnectionId) {
        self.promise_a_lease_is_of_something_that_works(want, connection);
        self.books.leased(connection);
        self.figures.leases += 1;
        if self.random.chance(self.setting.limits_leases) {
            let capacity = self.random.below(4);
            self.note(|_| format!("  {connection:?} serves {capacity} at a time"));
            self.books.limited(connection, capacity);
            self.machine.set_capacity(connection, capacity);
        }
        let hold = ms(1) + self.setting.hold.mul_f64(self.random.fraction());
        self.at(self.clock + hold, Event::Releases(connection));
    }

    pub(super) fn promise_refusals_are_true(&self, caller: &Caller, refusal: &Refusal) {
        match refusal {
            Refusal::Closed => assert!(self.books.closing, "it is not closed"),
            Refusal::NoSuchPlace { .. } => panic!("nobody waits for what is not there"),
            Refusal::TimedOut { after } => {
                assert_eq!(*after, caller.timeout);
                let outage = self.is_outage();
                assert!(caller.want.backend.is_some() || !outage, "timed out in an outage");
                assert!(self.clock >= caller.deadline, "before its time was over");
            }
            Refusal::Unreachable(unreachable) => {
                assert_eq!(caller.want.backend.as_ref(), Some(&**unreachable));
                let failed = self.books.last_failure(number(unreachable));
                assert_eq!(failed, Some(self.clock), "refused without an attempt that failed");
            }
            Refusal::Failed { dead, known } => {
                assert_eq!(caller.want.backend, None);
                // Alone at a backend it may fail where others have succeeded.
                assert!(dead == known || self.setting.options.per_backend == 0, "not all are dead");
                assert_eq!(*known, self.known.len());
                if dead == known && *known > 0 {
                    self.promise_it_failed_in_time(caller);
                }
            }
        }
    }
}
