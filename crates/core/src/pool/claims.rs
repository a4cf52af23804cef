//! Claims: asking, waiting, being served, coming back.

use super::membership::Record;
use super::{BackendId, Blame, Claimed, Delivery, Machine, Outcome, Refusal, Request, State as PoolState};
use crate::backend::Backend;
use crate::backends::Doubt;
use crate::idle::Idleness;
use crate::recovery::DAY;
use crate::slot::{Aside, Life, Phase, Report, Slot, SlotRef, State, Then};
use crate::waiters::{Avoid, Place, WaiterId};
use std::time::{Duration, Instant};

/// One in so many uses is timed.
const TIMED_USES: usize = 16;

/// A line that has not been empty for this long is a sign of overload, not of a burst.
const STANDING: Duration = Duration::from_millis(100);

/// How long a claim waits beside an idle connection of an unreliable backend.
const MOST_WAIT: Duration = Duration::from_millis(250);

/// Whether a claim has not waited for long.
fn can_wait(now: Instant, place: Place) -> bool {
    now < place.since + MOST_WAIT
}

impl Machine {
    /// A time that is exact enough for the next claim, if that avoids no backend: the latest one, when a connection is idle, the use is
    /// not timed, and a timeout is due within a moment. `None` if the clock must be read. Most claims and releases of a busy pool do
    /// without.
    #[inline]
    pub fn time_for_claim(&self) -> Option<Instant> {
        let is_granted = self.waiters.len() == 0 && !self.picker.loads.has_stalled() && self.picker.has_sound();
        (is_granted && !self.times_use(self.arrivals + 1) && self.is_ticking()).then_some(self.latest)
    }

    /// The same for the release of a connection.
    #[inline]
    pub fn time_for_release(&self, slot: SlotRef) -> Option<Instant> {
        let found = self.current(slot)?;
        let State::Busy { timed: false, .. } = found.state else { return None };
        if let Some((_, next)) = self.waiters.in_line().next() {
            let is_plain = self.options.target_delay.is_none() && next.avoid.is_none();
            if !is_plain
                || self.picker.loads.has_stalled()
                || self.picker.loads.has_failures()
                || self.times_use(self.arrivals)
            {
                return None;
            }
        }
        self.is_ticking().then_some(self.latest)
    }

    /// Whether the use that begins after so many arrivals is timed.
    fn times_use(&self, arrivals: u64) -> bool {
        let times_all = self.recycles || self.options.leak_after.is_some() || self.options.validate_every.is_some();
        times_all || arrivals > self.time_at && self.picker.is_curious()
    }

    /// Whether a timeout is due within a moment, so that the latest time is not far off.
    fn is_ticking(&self) -> bool {
        self.sample_at.is_some() || self.settle_at.is_some()
    }

    /// Asks for a connection: an idle one at once, otherwise a place in line.
    ///
    /// `now` may be [`time_for_claim`](Machine::time_for_claim).
    pub fn claim(&mut self, now: Instant, request: Request) -> Claimed {
        self.latest = self.latest.max(now);
        self.arrivals += 1;
        let place = Place { arrival: self.arrivals, since: now, avoid: self.avoid(now, &request) };
        // Claims that have avoided a backend until now may take an idle connection of it.
        self.serve_choosy(now);
        if let Some(ended) = self.refuse_or_grant(now, place) {
            return ended;
        }
        if request.error_on_empty && self.backends.known() == 0 {
            return self.refused(Refusal::NoBackends);
        }
        if self.options.max_waiters.is_some_and(|most| self.waiters.len() >= most) {
            return self.refused(Refusal::Full);
        }
        self.wait(now, place, request)
    }

    /// Asks again after a connection that was granted turned out closed and was released as [`Outcome::Ended`]: place and
    /// deadline are those of the first time. What it avoids is named anew, since it may be gone meanwhile.
    pub fn claim_again(&mut self, now: Instant, place: Place, request: Request) -> Claimed {
        let place = Place { avoid: self.avoid(place.since, &request), ..place };
        // Claims that arrived meanwhile stand behind this one, so an idle connection is its to take.
        self.refuse_or_grant(now, place).unwrap_or_else(|| self.wait(now, place, request))
    }

    /// Ends a claim that need not wait.
    fn refuse_or_grant(&mut self, now: Instant, place: Place) -> Option<Claimed> {
        if let Some(refusal) = self.refuses_to_wait() {
            return Some(self.refused(refusal));
        }
        self.hasten_attempts();
        self.grant_idle(now, place, true)
    }

    /// Names a backend, for [`Request::avoid`]; `None` when it is not known.
    pub fn find(&self, backend: &Backend) -> Option<BackendId> {
        self.backends.find(backend).map(BackendId)
    }

    /// Asks for an idle connection without waiting.
    pub fn try_claim(&mut self, now: Instant) -> Claimed {
        self.latest = self.latest.max(now);
        self.arrivals += 1;
        let place = Place { arrival: self.arrivals, since: now, avoid: None };
        if let Some(refusal) = self.refuses() {
            self.hasten_attempts();
            return self.refused(refusal);
        }
        self.serve_choosy(now);
        let others_wait = self.waiters.len() > 0;
        self.grant_idle(now, place, others_wait).unwrap_or_else(|| self.refused(Refusal::Busy))
    }

    /// Asks for an idle connection of this backend without waiting, stalled or not.
    pub fn try_claim_of(&mut self, now: Instant, backend: BackendId) -> Claimed {
        self.latest = self.latest.max(now);
        if let Some(refusal) = self.refuses() {
            return self.refused(refusal);
        }
        let Some(index) = self.picker.choose_avoiding(|other| other != backend.0, &mut self.random) else {
            return self.refused(Refusal::Busy);
        };
        self.arrivals += 1;
        self.grant(now, Place { arrival: self.arrivals, since: now, avoid: None }, index)
    }

    /// The caller has taken what was delivered to it, or has given up: the waiter is no more. True if it was still in
    /// line. If it had been granted a slot, that must be released.
    pub fn forget_waiter(&mut self, waiter: WaiterId) -> bool {
        let gives_up = self.waiters.free(waiter);
        self.counters.given_up += u64::from(gives_up);
        gives_up
    }

    /// Somebody has come for what it was granted, after so long a wait. Only the caller can say: a connection that is passed
    /// on while it is warm is passed on without a look at the clock.
    pub fn note_wait(&mut self, waited: Duration) {
        self.counters.waited_for += waited;
    }

    /// The user of a connection reports a failed use of its backend, while the connection may be fine: the backend gets a penalty,
    /// and this counts towards its ejection at once, whatever becomes of the connection. When it comes back, that is no
    /// successful use.
    pub fn report_failure(&mut self, now: Instant, slot: SlotRef) {
        let Some(found) = self.slots.get_mut(slot.index()).filter(|found| found.epoch == slot.epoch) else { return };
        let State::Busy { report: report @ (Report::None | Report::Success | Report::Neutral), .. } = &mut found.state
        else {
            return;
        };
        *report = Report::Failure;
        let backend = found.backend;
        self.picker.fail(now, backend, true);
        self.attention |= self.waiters.len() > 0;
        if self.count_failure(now, backend) {
            self.leave_out(now, backend);
        }
    }

    /// The user of a connection reports a successful use of its backend, whatever becomes of the connection.
    pub fn report_success(&mut self, now: Instant, slot: SlotRef) {
        if let Some(Slot { backend, state: State::Busy { report, .. }, .. }) = self.current(slot)
            && report.allows_success()
        {
            let backend = *backend;
            self.succeed(now, backend);
        }
    }

    /// The user of a connection reports a successful use of its backend, and its latency if that is known: the length of this use
    /// says nothing about the backend. The first report counts.
    pub fn report_success_in(&mut self, now: Instant, slot: SlotRef, latency: Option<Duration>) {
        let Some(found) = self.slots.get_mut(slot.index()).filter(|found| found.epoch == slot.epoch) else { return };
        let State::Busy { report: report @ Report::None, .. } = &mut found.state else { return };
        *report = Report::Success;
        let backend = found.backend;
        if let Some(latency) = latency {
            self.picker.loads.learn(now, backend, latency);
        }
        self.succeed(now, backend);
    }

    /// The user of a connection reports that this use is no evidence for or against the backend: no latency sample, and no effect on
    /// ejection when the connection comes back. A failure may still be reported.
    pub fn report_neutral(&mut self, slot: SlotRef) {
        let Some(found) = self.slots.get_mut(slot.index()).filter(|found| found.epoch == slot.epoch) else { return };
        if let State::Busy { report: report @ Report::None, .. } = &mut found.state {
            *report = Report::Neutral;
        }
    }

    /// A use is cut short after it has waited so long for the response head: a latency penalty for its backend, and nothing else.
    pub fn report_cut_short(&mut self, now: Instant, slot: SlotRef, waited: Duration) {
        let Some(found) = self.slots.get_mut(slot.index()).filter(|found| found.epoch == slot.epoch) else { return };
        let State::Busy { report: report @ Report::None, .. } = &mut found.state else { return };
        *report = Report::Neutral;
        self.picker.loads.learn(now, found.backend, waited);
    }

    /// A claim comes back. Returns what the end of its connection counts as.
    ///
    /// `now` may be [`time_for_release`](Machine::time_for_release) if the outcome is [`Outcome::Open`].
    pub fn release(&mut self, now: Instant, slot: SlotRef, outcome: Outcome) -> Blame {
        self.latest = self.latest.max(now);
        let Some(found) = self.current(slot) else { return Blame::None };
        let State::Busy { life, since, timed, unwanted, report } = found.state else { return Blame::None };
        let mut blame = Blame::None;
        let (index, backend, recycles) = (slot.index, found.backend, found.recycles);
        let took = now.saturating_duration_since(since);
        let was_short = timed && self.picker.loads.is_short(backend, took);
        let cannot_tell = recycles || self.options.validate_every.is_some();
        let outcome = if outcome == Outcome::Closed && cannot_tell && was_short { Outcome::Broken } else { outcome };
        let life = match outcome {
            // It turned out closed when it was granted: this was no use, and it may have been closed long before.
            Outcome::Ended => {
                self.unserved += 1;
                Life { uses: life.uses - 1, ..life }
            }
            // Whatever became of it: until now it had a user.
            Outcome::Open
            | Outcome::Failed
            | Outcome::Broken
            | Outcome::Discarded
            | Outcome::Closed
            | Outcome::Dropped
            | Outcome::Detached => life.seen_at(now),
        };
        // A good use forgives what went wrong before.
        let life =
            if outcome == Outcome::Open && report.allows_success() { Life { failures: 0, ..life } } else { life };
        self.picker.loads.end_use(backend);
        match outcome {
            Outcome::Open | Outcome::Detached if timed && report.allows_success() => {
                self.picker.loads.note_use_time(backend, took);
                if report == Report::None && self.options.learn_latency {
                    self.picker.loads.learn(now, backend, took);
                }
            }
            Outcome::Failed | Outcome::Broken if report != Report::Failure => self.fail_with(now, backend, life),
            // What ended by itself says nothing about how long uses take; least of all that they are quick.
            Outcome::Open
            | Outcome::Failed
            | Outcome::Broken
            | Outcome::Discarded
            | Outcome::Detached
            | Outcome::Ended
            | Outcome::Closed
            | Outcome::Dropped => {}
        }
        let checks = (recycles || self.must_validate(now, backend, life, was_short)) && !self.must_close(index);
        match outcome {
            // The connection has proved itself, the backend has not.
            Outcome::Open if !report.allows_success() => self.forget_setback(index, life),
            // Whether this was a successful use is for the check to show.
            Outcome::Open if checks => {}
            Outcome::Open => self.succeed(now, backend),
            Outcome::Ended
            | Outcome::Failed
            | Outcome::Broken
            | Outcome::Discarded
            | Outcome::Closed
            | Outcome::Dropped
            | Outcome::Detached => {}
        }
        match outcome {
            Outcome::Open if unwanted || self.is_retired(now, life) => self.close_slot_soon(now, index),
            Outcome::Open if checks && recycles => {
                self.recycle(now, index, life, Aside::AfterUse { report, was_short })
            }
            Outcome::Open if checks => self.validate(now, index, life, Aside::AfterUse { report, was_short }),
            Outcome::Open => self.offer(now, index, life),
            Outcome::Discarded => self.close_slot_soon(now, index),
            Outcome::Ended => {
                let (then, failed) = self.after_close(now, index, life);
                blame = if failed { Blame::FailedAttempt } else { Blame::None };
                self.follow(now, index, then);
            }
            Outcome::Failed | Outcome::Broken => {
                if outcome == Outcome::Broken {
                    self.suspect_siblings(now, index);
                }
                blame = if report == Report::Failure { Blame::None } else { Blame::FailedUse };
                let ejected = blame == Blame::FailedUse && self.count_failure(now, backend);
                let then = self.after_end(now, index, life, true);
                self.follow(now, index, then);
                if ejected {
                    self.leave_out(now, backend);
                }
            }
            Outcome::Closed | Outcome::Dropped => {
                let then = self.after_end(now, index, life, false);
                self.follow(now, index, then);
            }
            Outcome::Detached => self.follow(now, index, Then::Gone),
        }
        self.note_load(now);
        blame
    }

    /// A connection is ready for whoever is next: the first in line, or to rest.
    pub(super) fn offer(&mut self, now: Instant, index: u32, life: Life) {
        if self.serve_or_idle(now, index, life, now) {
            self.picker.rest(index, self.slots[index as usize].backend);
            self.expect_settling(now);
        }
    }

    /// A connection comes back from a check, unused.
    pub(super) fn take_back(&mut self, now: Instant, index: u32, life: Life, last_used: Instant) {
        if self.is_retired(now, life) {
            self.close_slot_soon(now, index);
        } else if self.serve_or_idle(now, index, life, last_used) {
            self.picker.rest_last(index, self.slots[index as usize].backend);
            self.attend_idle(index);
        }
    }

    /// Lends a connection to a waiting claim. True if none takes it, so that it is idle: the picker has to be told.
    fn serve_or_idle(&mut self, now: Instant, index: u32, life: Life, last_used: Instant) -> bool {
        if self.must_close(index) {
            self.close_slot_soon(now, index);
            return false;
        }
        if self.serve_first(now, index, life) {
            return false;
        }
        if !self.is_withheld(self.slots[index as usize].backend, true) {
            self.waiters.note_idle();
        }
        self.enter(index, State::Idle { life, last_used, looked_at: now, idleness: Idleness::Using });
        if self.waiters.len() > 0 {
            self.relent_by(now + MOST_WAIT);
        }
        true
    }

    pub(super) fn expire_waiters(&mut self, now: Instant) {
        for (waiter, ahead) in self.waiters.serve_expired(now) {
            self.refuse(waiter, self.expired(ahead));
        }
    }

    /// A use failed together with its connection. All that were open at a failure that counted may end for the same reason, as when
    /// their node restarts: they add nothing to the penalty.
    pub(super) fn fail_with(&mut self, now: Instant, backend: u32, life: Life) {
        let blamed_at = &mut self.backends.get_mut(backend).blamed_at;
        let is_news = blamed_at.is_none_or(|at| life.checked > at);
        if is_news {
            *blamed_at = Some(now);
        }
        self.picker.fail(now, backend, is_news);
        // With one sound backend fewer, claims that wait for another may take what is idle.
        self.attention |= self.waiters.len() > 0;
    }

    /// A use of the backend succeeded: what failed before was not in a row.
    pub(super) fn succeed(&mut self, now: Instant, backend: u32) {
        self.backends.get_mut(backend).forgive(now);
        if self.picker.succeed(backend) {
            self.serve_choosy(now);
        }
    }

    /// A claim ends before it has begun to wait.
    fn refused(&mut self, refusal: Refusal) -> Claimed {
        self.counters.refused(refusal);
        Claimed::Refused(refusal)
    }

    /// A claim that waited ends.
    pub(super) fn refuse(&mut self, waiter: WaiterId, refusal: Refusal) {
        self.counters.refused(refusal);
        self.deliveries.push_back(Delivery::Refuse { waiter, refusal });
    }

    fn refuses(&self) -> Option<Refusal> {
        match self.state {
            PoolState::Starting | PoolState::Running => None,
            PoolState::Failed => Some(self.failed()),
            PoolState::Stopping | PoolState::Stopped => Some(Refusal::Closed),
        }
    }

    /// Why a claim fails at once that would wait: a failed pool that knows a backend is waited for.
    fn refuses_to_wait(&self) -> Option<Refusal> {
        self.refuses().filter(|_| self.is_closed() || self.backends.known() == 0)
    }

    /// While anyone waits nothing is idle that it would take, so nobody is overtaken here.
    fn grant_idle(&mut self, now: Instant, place: Place, can_wait: bool) -> Option<Claimed> {
        let index = self.choose(now, place, can_wait)?;
        Some(self.grant(now, place, index))
    }

    fn grant(&mut self, now: Instant, place: Place, index: u32) -> Claimed {
        let State::Idle { life, .. } = self.slots[index as usize].state else {
            unreachable!("the picker holds idle slots only")
        };
        let slot = self.lend(now, index, life);
        self.note_load(now);
        Claimed::Granted { slot, place }
    }

    fn lend(&mut self, now: Instant, index: u32, life: Life) -> SlotRef {
        match self.unserved.checked_sub(1) {
            Some(left) => self.unserved = left,
            None => self.counters.claims += 1,
        }
        let life = Life { uses: life.uses + 1, ..life };
        let timed = self.times_use(self.arrivals);
        if timed {
            self.time_at = self.arrivals + self.random.below(2 * TIMED_USES) as u64;
        }
        let slot = self.enter(index, State::Busy { life, since: now, timed, unwanted: false, report: Report::None });
        self.picker.loads.begin_use(self.slots[index as usize].backend);
        if let Some(leak_after) = self.options.leak_after {
            self.set_timer(now + leak_after, slot);
        }
        slot
    }

    fn wait(&mut self, now: Instant, place: Place, request: Request) -> Claimed {
        let latest = place.since + DAY * 365;
        let deadline = place.since.checked_add(request.timeout).map_or(latest, |deadline| deadline.min(latest));
        if deadline <= now {
            return self.refused(self.expired(self.waiters.len()));
        }
        let waiter = self.waiters.join(now, place, deadline);
        self.due(deadline);
        self.expect_failure(place.since);
        if self.picker.has_idle() && !self.withholds_idle() {
            self.waiters.note_idle();
        }
        if let Some(Avoid { until, .. }) = place.avoid.filter(|avoid| avoid.until > now) {
            self.relent_by(until);
        }
        if self.picker.has_idle() {
            self.relent_by(now + MOST_WAIT);
        }
        self.note_load(now);
        self.connect_for_waiter(now);
        Claimed::Waiting(waiter)
    }

    /// Gives a connection to the first in line who takes it; false when nobody does.
    fn serve_first(&mut self, now: Instant, index: u32, life: Life) -> bool {
        let backend = self.slots[index as usize].backend;
        while let Some((waiter, place)) = self.first_who_takes(now, backend) {
            if self.serve(now, waiter, place, index, life) {
                return true;
            }
        }
        false
    }

    /// Gives a connection to one in line, unless that has waited for too long; false when it is refused instead.
    fn serve(&mut self, now: Instant, waiter: WaiterId, place: Place, index: u32, life: Life) -> bool {
        let standing_since = self.waiters.standing_since();
        self.waiters.serve(waiter);
        if self.is_shed(now, place, standing_since) {
            self.refuse(waiter, Refusal::Shed);
            return false;
        }
        let slot = self.lend(now, index, life);
        self.counters.waited += 1;
        self.deliveries.push_back(Delivery::Grant { waiter, slot });
        true
    }

    /// Nearly always the first in line; only those who avoid this very backend let others go ahead.
    fn first_who_takes(&self, now: Instant, backend: u32) -> Option<(WaiterId, Place)> {
        let first = self.waiters.in_line().next()?;
        if self.is_withheld(backend, can_wait(now, first.1)) {
            return None;
        }
        self.waiters.in_line().find(|(_, place)| self.takes(now, *place, backend))
    }

    /// A claim waits for another backend than the one it avoids while there is hope, and for half its time or the target
    /// delay at most; then it takes what there is.
    fn avoid(&self, since: Instant, request: &Request) -> Option<Avoid> {
        let BackendId(backend) = request.avoid?;
        let patience = (request.timeout / 2).min(self.options.target_delay.unwrap_or(Duration::MAX));
        Some(Avoid { backend, until: since + patience.min(DAY * 365) })
    }

    /// Whether a backend that is not avoided has a connection that will be lent again, or is about to have one.
    pub(super) fn another_can_serve(&self, avoids: impl Fn(u32) -> bool) -> bool {
        let has_room = self.counts.total() < self.options.maximum;
        let lends = |&slot: &u32| {
            let state = &self.slots[slot as usize].state;
            state.life().is_some() && !matches!(state, State::Busy { unwanted: true, .. })
        };
        let can_serve = |other: u32, record: &Record| {
            // Of one that hangs or fails, and has nothing that works, nothing is to be expected.
            let is_about_to =
                record.health.doubt() == Some(Doubt::None) && (has_room || record.counts.of(Phase::Connecting) > 0);
            !self.is_out(other) && (is_about_to || record.slots.iter().any(lends))
        };
        self.backends.order().iter().any(|&other| !avoids(other) && can_serve(other, self.backends.get(other)))
    }

    /// Controlled delay: a standing line is kept short, a burst is let through.
    fn is_shed(&self, now: Instant, place: Place, standing_since: Option<Instant>) -> bool {
        let Some(target) = self.options.target_delay else { return false };
        let standing = standing_since.is_some_and(|since| now.saturating_duration_since(since) > STANDING);
        let limit = if standing { target } else { target.saturating_mul(10) };
        // Time spent in an outage is no sign of overload.
        let since = self.outage_ended.map_or(place.since, |ended| ended.max(place.since));
        now.saturating_duration_since(since) > limit
    }

    fn choose(&mut self, now: Instant, place: Place, may_wait: bool) -> Option<u32> {
        let can_wait = may_wait && can_wait(now, place);
        self.picker.loads.pass(now);
        let avoided = self.avoided(now, place);
        let index = if avoided.is_nothing() {
            self.picker.choose(&mut self.random)
        } else {
            let loads = &self.picker.loads;
            self.picker.choose_avoiding(|backend| avoided.includes(backend, loads), &mut self.random)
        };
        if index.is_none_or(|index| !self.is_withheld(self.slots[index as usize].backend, can_wait)) {
            return index;
        }
        let order = self.backends.order().iter().copied();
        let withheld: Vec<u32> = order.filter(|&backend| self.is_withheld(backend, can_wait)).collect();
        let avoids = |backend| withheld.contains(&backend) || avoided.includes(backend, &self.picker.loads);
        self.picker.choose_avoiding(avoids, &mut self.random)
    }

    /// Uses of a failing backend would end at once and take claim after claim: while another can serve, it gets one use a second.
    /// So does an unreliable one, as long as the claim can wait and a connection of another backend comes back soon.
    fn is_withheld(&self, backend: u32, can_wait: bool) -> bool {
        let is_worse_than_waiting =
            can_wait && self.picker.is_unreliable(backend) && self.another_comes_back_soon(backend);
        (self.picker.is_failing(backend) || is_worse_than_waiting)
            && !self.picker.loads.is_due(backend)
            && self.another_is_sound(backend)
    }

    /// Whether uses are short, and fewer claims wait than connections of other backends are in use.
    fn another_comes_back_soon(&self, backend: u32) -> bool {
        let busy = self.counts.of(Phase::Busy).saturating_sub(self.backends.get(backend).counts.of(Phase::Busy));
        self.waiters.len() < busy && self.picker.loads.uses_end_soon()
    }

    /// Whether a backend other than this one can serve that is neither failing, unreliable nor stalled.
    fn another_is_sound(&self, backend: u32) -> bool {
        self.another_can_serve(|other| {
            let fails = self.picker.is_failing(other) || self.picker.is_unreliable(other);
            other == backend || fails || self.picker.loads.is_stalled(other)
        })
    }

    /// Nothing is idle but what is withheld.
    fn withholds_idle(&self) -> bool {
        self.picker.only_failing().is_some_and(|mut failing| failing.all(|backend| self.is_withheld(backend, true)))
    }

    /// Those who avoid a backend may stand in line while something of it is idle, and all do beside what is withheld. When no
    /// other can serve any more, or they have waited long enough for one, they take it.
    pub(super) fn serve_choosy(&mut self, now: Instant) {
        if self.waiters.len() == 0 || !self.picker.has_idle() || self.is_closed() {
            return;
        }
        // A backend may be due by now: those in line come before whoever asks next.
        self.picker.loads.pass(now);
        if self.withholds_idle() {
            return;
        }
        let choosy: Vec<(WaiterId, Place)> = self.waiters.in_line().collect();
        for (waiter, place) in choosy {
            let Some(index) = self.choose(now, place, true) else { continue };
            let State::Idle { life, .. } = self.slots[index as usize].state else { continue };
            self.serve(now, waiter, place, index, life);
        }
    }

    /// Those who have avoided a backend for long enough do so no more.
    pub(super) fn relent(&mut self, now: Instant) {
        if self.relent_at.is_some_and(|at| at <= now) {
            self.relent_at = self.waiters.next_to_relent(now);
        }
        self.serve_choosy(now);
        // What is withheld from them may be due, or lent after all, a moment later.
        if self.waiters.len() > 0 && self.picker.has_idle() && !self.is_closed() {
            self.relent_by(now + MOST_WAIT);
        }
    }

    fn relent_by(&mut self, at: Instant) {
        self.relent_at = Some(self.relent_at.map_or(at, |earlier| earlier.min(at)));
        self.due(at);
    }

    /// Whatever the last plan thought of it: nothing of a closed pool or a removed backend is lent again.
    fn must_close(&self, index: u32) -> bool {
        self.is_closed() || self.backends.get(self.slots[index as usize].backend).health.is_removed()
    }

    fn is_retired(&self, now: Instant, life: Life) -> bool {
        life.expires.is_some_and(|expires| expires <= now)
            || self.options.max_uses.is_some_and(|most| life.uses >= most)
    }

    /// Closes a slot, and has the plan see whether another is needed.
    fn close_slot_soon(&mut self, now: Instant, index: u32) {
        self.close_slot(now, index);
        self.plan_soon();
    }
}
