//! The pool machine: lends the connections of a service's backends, one user at a time.
//!
//! The machine owns slots, waiters and the plan; it never sees a connection. Its driver tells it what happened (a
//! connect succeeded, a claim came back, time passed) and does what it asks for: [`Action`]s are for the driver,
//! [`Delivery`]s for waiting callers, whoever calls may hand them over.
//!
//! ```text
//!            first connection                       every backend dead or unhealthy, nothing works
//!  Starting -----------------> Running <-------------------------------> Failed
//!     ^  the same, or no backend and the resolver failed                    ^
//!     +--------------------------------------------------------------------+
//!                 the resolver says that there is no backend: back to where it was
//!  any -- close --> Stopping -- last slot gone --> Stopped
//! ```

mod claims;
mod dials;
mod hold_off;
mod membership;
mod observation;
mod options;
mod outage;
mod outliers;
mod probes;
mod ready;
mod resting;
mod sizing;
mod slots;
mod snapshot;
mod stalled;
mod suspects;
mod tiers;
mod told;

pub use crate::backends::{BackendId, CheckCounts, CheckId, Readiness};
pub use observation::{Counters, Observation, SlotGlance};
pub use options::Options;
pub use snapshot::{BackendSnapshot, Lent, Snapshot};
pub use told::{Action, Blame, Claimed, Delivery, Ending, Outcome, Refusal, Request};

use crate::backends::{Backends, Outage};
use crate::filter::LowPass;
use crate::news::News;
use crate::options::OptionsError;
use crate::pick::Picker;
use crate::random::Random;
use crate::slot::{Counts, Slot, SlotRef};
use crate::timers::Timers;
use crate::waiters::Waiters;
use membership::BackendSlots;
use std::collections::VecDeque;
use std::time::Instant;

/// Where a pool is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// No connection has been made yet.
    Starting,
    /// At least one backend is thought to work.
    Running,
    /// Every known backend is dead or unhealthy, and no connection works: claims wait for up to `outage_wait` while connects are attempted at least every second.
    /// Or no backend is known and the resolver has failed: claims fail at once. One connection ends this, and so does the
    /// resolver when it says that there are no backends.
    Failed,
    /// Closed; waits for what is still lent.
    Stopping,
    /// Nothing is left.
    Stopped,
}

/// The pool without its connections. See the [module](self).
#[derive(Debug)]
pub struct Machine {
    options: Options,
    state: State,
    /// A connection has been made.
    has_run: bool,
    random: Random,
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    /// Slots of known backends by phase.
    counts: Counts,
    /// Slots of removed backends by phase.
    draining: Counts,
    /// Probes of dead backends by phase. They are no slots of the pool.
    probes: Counts,
    /// Probes that wait for their turn to connect, oldest first; some may have moved on.
    held_probes: VecDeque<u32>,
    backends: Backends<BackendSlots>,
    picker: Picker,
    waiters: Waiters,
    arrivals: u64,
    /// The use of the next arrival is timed.
    time_at: u64,
    /// Connections are cleaned after use. A use that was very short may have failed, so each is timed.
    recycles: bool,
    filter: LowPass,
    timers: Timers<SlotRef>,
    /// The latest time it was told.
    latest: Instant,
    /// When the next generation of resting connections begins.
    settle_at: Option<Instant>,
    sample_at: Option<Instant>,
    decohere_at: Option<Instant>,
    /// When surplus idle connections, or backends at rest, are looked at again.
    look_at: Option<Instant>,
    /// When somebody in line stops avoiding a backend.
    relent_at: Option<Instant>,
    /// Every known backend is dead or unhealthy, and no connection works.
    outage: Option<Outage>,
    /// A claim has arrived in it: the next attempts are brought forward.
    hasten: bool,
    /// When the last outage ended.
    outage_ended: Option<Instant>,
    /// The size of the last plan.
    planned: usize,
    /// When that was.
    planned_at: Option<Instant>,
    counters: Counters,
    /// Claims that are counted as served and will be again, since what they got was closed.
    unserved: u64,
    /// Backends differ in priority.
    has_tiers: bool,
    /// When the last hold-off of a backend ends.
    held_off_until: Option<Instant>,
    /// Something changed that a plan must answer.
    stale_plan: bool,
    /// Busy slots that the last plan wants closed when they come back.
    unwanted: Vec<SlotRef>,
    /// Until when the driver sleeps, as far as it has been told.
    armed: Option<Instant>,
    /// The driver has something to do before that.
    attention: bool,
    actions: VecDeque<Action>,
    deliveries: VecDeque<Delivery>,
}

impl Machine {
    /// A pool that knows no backends yet. The same seed and events give the same actions.
    ///
    /// # Errors
    /// When an option makes no sense.
    pub fn new(options: Options, seed: u64, now: Instant) -> Result<Machine, OptionsError> {
        options.validate()?;
        let mut machine = Machine {
            state: State::Starting,
            has_run: false,
            random: Random::new(seed),
            slots: Vec::new(),
            free_slots: Vec::new(),
            counts: Counts::default(),
            draining: Counts::default(),
            probes: Counts::default(),
            held_probes: VecDeque::new(),
            backends: Backends::default(),
            picker: Picker::new(options.pick, options.slow_start, now),
            waiters: Waiters::new(),
            arrivals: 0,
            time_at: 0,
            recycles: false,
            filter: LowPass::new(),
            timers: Timers::new(),
            latest: now,
            settle_at: None,
            sample_at: Some(now + LowPass::INTERVAL),
            decohere_at: None,
            look_at: None,
            relent_at: None,
            outage: None,
            hasten: false,
            outage_ended: None,
            planned: 0,
            planned_at: None,
            counters: Counters::default(),
            unserved: 0,
            has_tiers: false,
            held_off_until: None,
            stale_plan: true,
            unwanted: Vec::new(),
            armed: None,
            attention: true,
            actions: VecDeque::new(),
            deliveries: VecDeque::new(),
            options,
        };
        machine.arrange_decoherence(now);
        Ok(machine)
    }

    /// Where it is in its life.
    pub fn state(&self) -> State {
        self.state
    }

    /// The options in force; [`Machine::resize`] changes two of them.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The next thing for the driver to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether something is to be handed to a waiting caller.
    #[inline]
    pub fn has_deliveries(&self) -> bool {
        !self.deliveries.is_empty()
    }

    /// The next thing to be handed to a waiting caller.
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }

    /// What has become of a backend, for logs; nothing depends on it.
    pub fn poll_news(&mut self) -> Option<News> {
        self.backends.take_news()
    }

    /// When [`Machine::handle_timeout`] must be called at the latest.
    pub fn next_timeout(&self) -> Option<Instant> {
        let times = [
            self.timers.next(),
            self.waiters.next_deadline(),
            self.outage.and_then(|outage| outage.next_failure()),
            self.settle_at,
            self.sample_at,
            self.decohere_at,
            self.look_at,
            self.relent_at,
            self.next_health_check(),
        ];
        times.into_iter().flatten().min()
    }

    /// Time has passed, or something needs attention: does what is due and plans if a plan is stale.
    pub fn handle_timeout(&mut self, now: Instant) {
        // The driver is awake and will ask for the next timeout: nothing needs to wake it meanwhile.
        self.armed = Some(now);
        self.latest = now;
        self.picker.loads.pass(now);
        self.run_slot_timers(now);
        self.settle_idle(now);
        self.expire_waiters(now);
        self.fail_waiting(now);
        self.run_hastened(now);
        self.take_sample(now);
        self.decohere(now);
        self.start_health_checks(now);
        if self.look_at.is_some_and(|at| at <= now) {
            self.look_at = None;
            self.stale_plan = true;
        }
        if self.stale_plan {
            self.replan(now);
        }
        self.relent(now);
    }

    /// The driver is about to sleep until the time this returns, having taken all actions.
    pub fn arm(&mut self) -> Option<Instant> {
        self.armed = self.next_timeout();
        self.attention = false;
        self.armed
    }

    /// Whether the driver must be woken: there are actions, or something is due before it would wake.
    pub fn take_attention(&mut self) -> bool {
        std::mem::take(&mut self.attention)
    }

    /// No more claims: waiters are refused, everything not in use is closed, the rest when it comes back.
    pub fn close(&mut self, now: Instant) {
        match self.state {
            State::Starting | State::Running | State::Failed => {}
            State::Stopping | State::Stopped => return,
        }
        self.state = State::Stopping;
        self.settle_at = None;
        self.sample_at = None;
        self.decohere_at = None;
        self.look_at = None;
        self.relent_at = None;
        self.outage = None;
        self.attention = true;
        self.refuse_all(Refusal::Closed);
        for index in 0..self.slots.len() as u32 {
            self.stop(now, index);
        }
        self.notice_end();
    }

    /// The driver is gone: nothing will be closed or delivered any more. What comes back later is ignored.
    pub fn abandon(&mut self) {
        self.refuse_all(Refusal::Closed);
        self.state = State::Stopped;
        for index in 0..self.slots.len() as u32 {
            self.vacate(index);
        }
        self.actions.clear();
    }

    fn is_closed(&self) -> bool {
        match self.state {
            State::Starting | State::Running | State::Failed => false,
            State::Stopping | State::Stopped => true,
        }
    }

    fn act(&mut self, action: Action) {
        self.actions.push_back(action);
        self.attention = true;
    }

    /// Something is due at `at`: the driver must be up by then.
    fn due(&mut self, at: Instant) {
        if self.armed.is_none_or(|armed| at < armed) {
            self.attention = true;
        }
    }

    fn notice_end(&mut self) {
        if self.state == State::Stopping && self.counts.total() + self.draining.total() + self.probes.total() == 0 {
            self.state = State::Stopped;
            self.attention = true;
        }
    }

    /// No backend is known, and the resolver has failed.
    fn fail(&mut self) {
        self.state = State::Failed;
        self.stale_plan = true;
        self.attention = true;
        self.refuse_all(self.failed());
    }

    /// Where nobody is known nobody is dead: there is someone to wait for.
    fn recover_if_none_known(&mut self) {
        if self.state == State::Failed && self.backends.known() == 0 {
            self.state = if self.has_run { State::Running } else { State::Starting };
            self.plan_soon();
        }
    }

    fn refuse_all(&mut self, refusal: Refusal) {
        while let Some((waiter, _)) = self.waiters.serve_first() {
            self.refuse(waiter, refusal);
        }
    }
}
