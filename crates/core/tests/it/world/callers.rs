//! Callers: they claim, wait, give up, ask, hold and release.

use super::{Behaviour, Content, Event, Moment, World};
use carom_core::pool::{Claimed, Outcome, Refusal, Request};
use carom_core::slot::SlotRef;
use carom_core::waiters::{Place, WaiterId};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Claim {
    pub(super) arrival: u64,
    /// When it must have ended; `None` never waits.
    pub(super) deadline: Option<Moment>,
    pub(super) request: Request,
    /// The server it avoids, and its life in the resolver's list.
    pub(super) avoids: Option<(usize, u32)>,
    pub(super) stage: Stage,
    /// It was granted something, if only to find it closed.
    pub(super) granted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    InLine(WaiterId),
    /// Something lies ready for it.
    Granted(WaiterId, SlotRef, usize),
    Refused(WaiterId),
    /// Sees whether a connection that idled is still open. If not, it claims again: in its place, if it has one.
    Asking(SlotRef, usize, Option<Place>),
    Holding(SlotRef, usize),
    Over,
}

impl World {
    pub(crate) fn caller_comes(&mut self) {
        let (least, most) = self.setting.patience;
        let timeout = if self.random.chance(0.02) { least } else { self.between(least, most) };
        let avoided = self.random.chance(self.setting.choosy).then(|| self.random.below(self.servers.len()));
        let avoid = avoided.and_then(|server| self.machine.find(&self.servers[server].backend));
        let request = Request { timeout, error_on_empty: self.random.chance(0.2), avoid };
        let waits = self.setting.gives_up == 0.0 || self.random.chance(0.85);
        let now = self.callers_now();
        let claim = self.claims.len();
        self.claims.push(Claim {
            arrival: claim as u64,
            deadline: waits.then_some(now - self.start + timeout),
            request,
            avoids: avoided.filter(|_| avoid.is_some()).map(|server| (server, self.servers[server].term)),
            stage: Stage::Over,
            granted: false,
        });
        if waits {
            self.later(timeout + self.setting.latency + Duration::from_micros(1), Event::ClaimIsOverdue(claim));
        }
        // Whoever has not read the clock cannot say since when it waits.
        let mut keeps_place = true;
        let claimed = if waits {
            let without_clock = avoid.is_none() && self.does_without_clock();
            let time = if without_clock { self.machine.time_for_claim() } else { None };
            keeps_place = time.is_none();
            self.machine.claim(time.unwrap_or(now), request)
        } else {
            self.machine.try_claim(now)
        };
        self.claim_began(claim, claimed, keeps_place);
        self.after_machine();
    }

    /// A caller reads the clock before it has the lock: others may have been told a slightly later time already.
    fn callers_now(&mut self) -> Instant {
        let behind = self.between(Duration::ZERO, Duration::from_micros(20));
        self.start + self.clock.saturating_sub(behind)
    }

    /// Most callers read the clock only if the machine needs it.
    fn does_without_clock(&mut self) -> bool {
        self.random.chance(0.8)
    }

    fn granted_at_once(&mut self, claim: usize, slot: SlotRef, place: Option<Place>) {
        self.promise_4_waiters_are_served_in_order(self.claims[claim].arrival, place.is_none());
        self.the_better_tier_goes_first(slot);
        let id = self.take_connection(slot);
        self.claims[claim].granted = true;
        self.claims[claim].stage = Stage::Asking(slot, id, place);
        if place.is_some() && self.random.chance(0.1) {
            // Others may come meanwhile.
            let asking = self.between(Duration::ZERO, 10 * self.setting.latency);
            self.later(asking, Event::CallerHasAsked(claim));
        } else {
            self.caller_has_asked(claim);
        }
    }

    fn claim_began(&mut self, claim: usize, claimed: Claimed, keeps_place: bool) {
        // Those in line may have been served first.
        self.hand_over();
        self.note(|_| format!("  claim {claim}: {claimed:?}"));
        match claimed {
            Claimed::Granted { slot, place } => {
                self.figures.served();
                self.granted_at_once(claim, slot, keeps_place.then_some(place));
            }
            Claimed::Waiting(waiter) => {
                assert!(self.claims[claim].deadline.is_some(), "try_claim waits");
                self.claims[claim].stage = Stage::InLine(waiter);
                self.line.insert(self.claims[claim].arrival, claim);
                let before = self.waiters.insert(waiter, claim);
                assert_eq!(before, None, "{waiter:?} was given twice");
                if self.random.chance(self.setting.gives_up) {
                    let after = self.between(Duration::ZERO, self.claims[claim].request.timeout);
                    self.later(after, Event::CallerGivesUp(claim));
                }
            }
            Claimed::Refused(refusal) => {
                self.claims[claim].stage = Stage::Over;
                self.figures.refused(refusal);
                self.refusal_is_true(claim, refusal);
            }
        }
    }

    pub(super) fn deliver_grant(&mut self, waiter: WaiterId, slot: SlotRef) {
        let claim = self.leaves_line(waiter);
        self.figures.waited += 1;
        self.promise_4_waiters_are_served_in_order(self.claims[claim].arrival, false);
        let id = self.take_connection(slot);
        self.claims[claim].granted = true;
        self.claims[claim].stage = Stage::Granted(waiter, slot, id);
        let latency = self.latency();
        self.later(latency, Event::CallerCollects(claim));
        if self.random.chance(self.setting.gives_up * 0.3) {
            self.later(latency / 2, Event::CallerGivesUp(claim));
        }
    }

    pub(super) fn deliver_refusal(&mut self, waiter: WaiterId, refusal: Refusal) {
        let claim = self.leaves_line(waiter);
        if let Refusal::TimedOut { ahead } = refusal {
            // Those who time out together were ahead of each other.
            assert!(ahead >= self.line.range(..self.claims[claim].arrival).count(), "wrong number ahead");
        }
        self.figures.refused(refusal);
        self.refusal_is_true(claim, refusal);
        self.claims[claim].stage = Stage::Refused(waiter);
        let latency = self.latency();
        self.later(latency, Event::CallerCollects(claim));
    }

    fn leaves_line(&mut self, waiter: WaiterId) -> usize {
        let claim = self.waiters.remove(&waiter).expect("promise 2: who is not waiting is told something");
        assert_eq!(self.claims[claim].stage, Stage::InLine(waiter), "promise 2: a claim ends twice");
        self.line.remove(&self.claims[claim].arrival);
        claim
    }

    pub(super) fn caller_collects(&mut self, claim: usize) {
        match self.claims[claim].stage {
            Stage::Granted(waiter, slot, id) => {
                assert!(!self.machine.forget_waiter(waiter), "served and still in line");
                self.hold(claim, slot, id);
            }
            Stage::Refused(waiter) => {
                assert!(!self.machine.forget_waiter(waiter), "refused and still in line");
                self.claims[claim].stage = Stage::Over;
            }
            Stage::Over => return,
            Stage::InLine(_) | Stage::Asking(..) | Stage::Holding(..) => panic!("nothing to collect"),
        }
        self.after_machine();
    }

    pub(super) fn caller_gives_up(&mut self, claim: usize) {
        match self.claims[claim].stage {
            Stage::InLine(waiter) => {
                assert!(self.machine.forget_waiter(waiter), "in line, but not for the machine");
                assert!(!self.machine.forget_waiter(waiter), "gone, but still in line");
                self.figures.given_up += 1;
                self.waiters.remove(&waiter);
                self.line.remove(&self.claims[claim].arrival);
                self.claims[claim].stage = Stage::Over;
                self.after_machine();
            }
            Stage::Granted(waiter, slot, id) => {
                assert!(!self.machine.forget_waiter(waiter), "served and still in line");
                self.release(claim, slot, id, Outcome::Open);
            }
            Stage::Refused(_) | Stage::Asking(..) | Stage::Holding(..) | Stage::Over => {}
        }
    }

    pub(super) fn caller_has_asked(&mut self, claim: usize) {
        let Stage::Asking(slot, id, place) = self.claims[claim].stage else { panic!("did not ask") };
        if self.connections[id].alive || !self.setting.liveness {
            return self.hold(claim, slot, id);
        }
        self.breaks(slot, id);
        self.release(claim, slot, id, Outcome::Ended);
        let avoided = self.avoided_by(claim);
        self.claims[claim].request.avoid = avoided.and_then(|server| self.machine.find(&self.servers[server].backend));
        let now = self.callers_now();
        let request = self.claims[claim].request;
        let claimed = match (self.claims[claim].deadline, place) {
            (Some(_), Some(place)) => self.machine.claim_again(now, place, request),
            // It has read no clock yet.
            (Some(_), None) => self.machine.claim(self.start + self.clock, request),
            (None, _) => self.machine.try_claim(now),
        };
        self.claim_began(claim, claimed, true);
        self.after_machine();
    }

    fn hold(&mut self, claim: usize, slot: SlotRef, id: usize) {
        let life = self.machine.life(slot).expect("what is lent has a life");
        let most = self.setting.options.max_uses.unwrap_or(u64::MAX);
        assert!(life.uses() >= 1 && life.uses() <= most, "used {} times, {most} allowed", life.uses());
        self.claims[claim].stage = Stage::Holding(slot, id);
        let stuck = self.setting.stuck.filter(|_| self.hangs(self.connections[id].server));
        let hold = stuck.unwrap_or_else(|| self.between(Duration::ZERO, self.setting.hold));
        self.later(hold, Event::CallerReleases(claim));
    }

    pub(super) fn caller_releases(&mut self, claim: usize) {
        let Stage::Holding(slot, id) = self.claims[claim].stage else { panic!("holds nothing") };
        let (spoils, fails) = (self.setting.spoils, self.setting.fails);
        let served_badly = self.random.chance(fails);
        if self.servers[self.connections[id].server].behaviour == Behaviour::FailsUses {
            let outcome = [Outcome::Failed, Outcome::Broken][self.random.below(2)];
            return self.release(claim, slot, id, outcome);
        }
        // A report needs an answer.
        let outcome = if served_badly && self.connections[id].alive && self.random.chance(0.5) {
            let now = self.callers_now();
            self.machine.report_failure(now, slot);
            self.after_machine();
            if self.random.chance(0.8) { Outcome::Open } else { Outcome::Discarded }
        } else if served_badly {
            Outcome::Failed
        } else if self.random.chance(spoils) {
            [Outcome::Dropped, Outcome::Failed, Outcome::Discarded, Outcome::Dropped, Outcome::Detached]
                [self.random.below(5)]
        } else if !self.connections[id].alive && self.setting.liveness && self.random.chance(0.8) {
            if self.connections[id].broken { Outcome::Broken } else { Outcome::Closed }
        } else if !self.connections[id].alive && !self.setting.liveness && self.random.chance(0.5) {
            // The user has noticed.
            self.breaks(slot, id);
            Outcome::Failed
        } else {
            Outcome::Open
        };
        self.release(claim, slot, id, outcome);
    }

    fn release(&mut self, claim: usize, slot: SlotRef, id: usize, outcome: Outcome) {
        self.figures.came_back(outcome);
        self.note(|_| format!("  claim {claim} releases {slot:?} {outcome:?}"));
        self.seats[slot.index()].content = match outcome {
            Outcome::Open | Outcome::Discarded => Content::Idle(id),
            Outcome::Ended | Outcome::Failed | Outcome::Broken | Outcome::Closed | Outcome::Dropped => {
                self.drop_connection(id);
                Content::Nothing
            }
            Outcome::Detached => {
                self.detach_connection(id);
                Content::Nothing
            }
        };
        self.claims[claim].stage = Stage::Over;
        self.books.released_at = self.clock;
        let without_clock = outcome == Outcome::Open && self.does_without_clock();
        let time = if without_clock { self.machine.time_for_release(slot) } else { None };
        let now = time.unwrap_or_else(|| self.callers_now());
        self.machine.release(now, slot, outcome);
        self.after_machine();
    }

    /// The server that a claim avoids, if it is still known.
    pub(super) fn avoided_by(&self, claim: usize) -> Option<usize> {
        let (server, term) = self.claims[claim].avoids?;
        (self.servers[server].known && self.servers[server].term == term).then_some(server)
    }

    fn take_connection(&mut self, slot: SlotRef) -> usize {
        let Content::Idle(id) = self.seats[slot.index()].content else {
            panic!("promise 3: lent what is {:?}", self.seats[slot.index()].content)
        };
        self.promise_3_nothing_is_lent_twice_or_in_doubt(slot, id);
        self.promise_9_nothing_is_lent_from_a_removed_backend(slot);
        self.h8_nothing_is_lent_that_broke_before_a_failure_was_seen(id);
        self.nothing_is_lent_from_an_ejected_backend(slot);
        self.seats[slot.index()].content = Content::Lent(id);
        id
    }

    /// How many claims have been made.
    pub(crate) fn claims_so_far(&self) -> usize {
        self.claims.len()
    }

    /// How many claims, from this one on, have ended without ever being granted anything.
    pub(crate) fn refused_from(&self, first: usize) -> usize {
        let ended = self.claims[first..].iter().filter(|claim| !matches!(claim.stage, Stage::InLine(_)));
        ended.filter(|claim| !claim.granted).count()
    }

    /// How many claims have ended without ever being granted anything.
    pub(crate) fn refused_claims(&self) -> usize {
        self.refused_from(0)
    }
}
