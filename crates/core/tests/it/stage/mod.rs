//! A small stage for scenarios: the machine, a clock that is moved by hand, and backends that do as they are told.
//!
//! What the machine asks for is done at once where it cannot matter (closing, giving up); connects and checks wait for
//! the scenario to say how they end.

pub(crate) use crate::time::ms;
use carom_core::backend::Backend;
use carom_core::pool::{Action, CheckId, Claimed, Delivery, Ending, Machine, Options, Outcome, Refusal, Request};
use carom_core::recovery::{Policy, Recovery};
use carom_core::slot::{Counts, Phase, SlotRef};
use carom_core::waiters::WaiterId;
use std::time::{Duration, Instant};

/// Exact delays, quick failures, and none of the timers that a scenario does not ask for.
pub(crate) fn options(spares: usize, maximum: usize) -> Options {
    Options {
        spares,
        maximum,
        recovery: recovery(1),
        max_lifetime: None,
        decoherence: ms(86_400_000),
        ..Options::default()
    }
}

/// So many attempts, timeout 500 ms, delay 0, tried each second when dead.
pub(crate) fn recovery(attempts: u32) -> Recovery {
    Recovery::from(policy(attempts))
}

pub(crate) fn policy(attempts: u32) -> Policy {
    Policy::default()
        .attempts(attempts)
        .timeout(ms(500))
        .max_timeout(ms(500))
        .delay(ms(0))
        .max_delay(ms(1_000))
        .spread(0.0)
}

pub(crate) struct Stage {
    pub(crate) machine: Machine,
    pub(crate) start: Instant,
    pub(crate) now: Instant,
    /// Connections are cleaned after use.
    pub(crate) recycles: bool,
    /// Connects under way, with the number of their backend.
    pub(crate) dials: Vec<(SlotRef, u16)>,
    pub(crate) checks: Vec<SlotRef>,
    pub(crate) watches: Vec<SlotRef>,
    pub(crate) overdue: Vec<SlotRef>,
    /// Health checks that run, with the number of their backend.
    pub(crate) health_checks: Vec<(CheckId, u16)>,
    /// Closes asked for so far.
    pub(crate) closed: usize,
    /// What waiting callers were given, in order.
    pub(crate) deliveries: Vec<Delivery>,
}

impl Stage {
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn new(options: Options) -> Stage {
        Stage::seeded(options, 1)
    }

    #[allow(clippy::disallowed_methods)]
    pub(crate) fn seeded(options: Options, seed: u64) -> Stage {
        let start = Instant::now();
        let mut stage = Stage {
            machine: Machine::new(options, seed, start).unwrap(),
            start,
            now: start,
            recycles: false,
            dials: Vec::new(),
            checks: Vec::new(),
            watches: Vec::new(),
            overdue: Vec::new(),
            health_checks: Vec::new(),
            closed: 0,
            deliveries: Vec::new(),
        };
        stage.go();
        stage
    }

    /// With these backends, all of them connected as far as the plan wants.
    pub(crate) fn connected(options: Options, backends: &[u16]) -> Stage {
        Stage::recycling(options, false, backends)
    }

    /// The same, with connections that are cleaned after use, or not.
    pub(crate) fn recycling(options: Options, recycles: bool, backends: &[u16]) -> Stage {
        let mut stage = Stage::new(options);
        stage.recycles = recycles;
        stage.backends(backends);
        stage.accept_all();
        stage
    }

    pub(crate) fn backends(&mut self, numbers: &[u16]) {
        let backends: Vec<Backend> = numbers.iter().copied().map(backend).collect();
        self.machine.handle_backends(self.now, &backends);
        self.go();
    }

    /// Backends by number, priority and weight.
    pub(crate) fn ranked(&mut self, ranked: &[(u16, u16, u16)]) {
        let rank = |&(number, priority, weight): &(u16, u16, u16)| backend(number).with_priority(priority, weight);
        let backends: Vec<Backend> = ranked.iter().map(rank).collect();
        self.machine.handle_backends(self.now, &backends);
        self.go();
    }

    /// The driver's turn, for as long as it has something to do.
    pub(crate) fn go(&mut self) {
        loop {
            self.machine.handle_timeout(self.now);
            while let Some(action) = self.machine.poll_action() {
                self.perform(action);
            }
            self.deliveries.extend(std::iter::from_fn(|| self.machine.poll_delivery()));
            if !self.machine.take_attention() {
                break;
            }
        }
        self.machine.arm();
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Connect { slot, backend } => self.dials.push((slot, backend.port())),
            Action::Check { slot, .. } | Action::Recycle { slot } => self.checks.push(slot),
            Action::Suspect { .. } => {}
            Action::Watch { slot } => self.watches.push(slot),
            Action::Overdue { slot } => self.overdue.push(slot),
            Action::HealthCheck { check, backend } => self.health_checks.push((check, backend.port())),
            Action::Close { slot, .. } => {
                self.closed += 1;
                self.machine.handle_closed(self.now, slot);
            }
            Action::Abandon { task, slot, .. } => {
                self.dials.retain(|(dial, _)| *dial != task);
                self.checks.retain(|check| *check != task);
                self.machine.handle_closed(self.now, slot);
            }
        }
    }

    /// Lets time pass, stopping wherever the machine wants to.
    pub(crate) fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        let mut turns = 0;
        while let Some(next) = self.machine.next_timeout().filter(|&next| next <= until) {
            self.now = self.now.max(next);
            self.go();
            turns += 1;
            assert!(turns < 1_000_000, "the machine wants something, but not that time passes");
        }
        self.now = until;
    }

    /// Lets time pass, in steps of 10 ms, until it is so.
    pub(crate) fn pass_until(&mut self, is_so: impl Fn(&Stage) -> bool) {
        while !is_so(self) {
            self.pass(ms(10));
            assert!(self.elapsed() < Duration::from_secs(3_600), "it never is");
        }
    }

    /// How many connects are under way to a backend.
    pub(crate) fn dialling(&self, number: u16) -> usize {
        self.dials.iter().filter(|(_, to)| *to == number).count()
    }

    /// Ends one connect to the backend.
    pub(crate) fn end_dial(&mut self, number: u16, accepted: bool) {
        let at = self.dials.iter().position(|(_, to)| *to == number).expect("it is being dialled");
        let (slot, _) = self.dials.remove(at);
        if accepted {
            self.machine.handle_connected(self.now, slot, self.recycles);
        } else {
            self.machine.handle_connect_failed(self.now, slot);
        }
        self.go();
    }

    pub(crate) fn accept(&mut self, number: u16) {
        self.end_dial(number, true);
    }

    pub(crate) fn refuse(&mut self, number: u16) {
        self.end_dial(number, false);
    }

    /// Accepts everything under way and whatever follows from that.
    pub(crate) fn accept_all(&mut self) {
        while let Some(&(_, number)) = self.dials.first() {
            self.accept(number);
        }
    }

    /// Accepts every connect to one backend, under way or following.
    pub(crate) fn accept_all_of(&mut self, number: u16) {
        while self.dialling(number) > 0 {
            self.accept(number);
        }
    }

    /// The far side closes so many idle connections, once they are old enough for that to be no failed attempt. They may be
    /// replaced after the least delay.
    pub(crate) fn end_idle(&mut self, many: usize) {
        self.pass(ms(1_000));
        self.end_watched(many, Ending::Seen);
        self.pass(ms(1));
    }

    /// So many idle connections that have begun to be watched end, or are found to have ended.
    pub(crate) fn end_watched(&mut self, many: usize, ending: Ending) {
        let current = |slot: &SlotRef| self.machine.is_current(*slot);
        let watched: Vec<SlotRef> = self.watches.iter().copied().filter(current).take(many).collect();
        assert_eq!(watched.len(), many, "idle connections are watched");
        for slot in watched {
            self.machine.handle_ended(self.now, slot, ending);
            self.go();
        }
    }

    pub(crate) fn claim(&mut self, within: Duration) -> Claimed {
        let claimed = self.machine.claim(self.now, Request::within(within));
        self.go();
        claimed
    }

    /// A claim that is granted at once.
    pub(crate) fn take(&mut self) -> SlotRef {
        match self.claim(ms(60_000)) {
            Claimed::Granted { slot, .. } => slot,
            other @ (Claimed::Waiting(_) | Claimed::Refused(_)) => panic!("{other:?}"),
        }
    }

    /// A claim that is granted something in the end: whatever is being dialled is accepted.
    pub(crate) fn take_connecting(&mut self) -> SlotRef {
        match self.claim(ms(60_000)) {
            Claimed::Granted { slot, .. } => slot,
            Claimed::Waiting(waiter) => {
                self.accept_all();
                self.granted(waiter).expect("something was connected")
            }
            Claimed::Refused(refusal) => panic!("{refusal:?}"),
        }
    }

    /// A claim that has to wait.
    pub(crate) fn wait(&mut self, within: Duration) -> WaiterId {
        match self.claim(within) {
            Claimed::Waiting(waiter) => waiter,
            other @ (Claimed::Granted { .. } | Claimed::Refused(_)) => panic!("{other:?}"),
        }
    }

    pub(crate) fn release(&mut self, slot: SlotRef, outcome: Outcome) {
        self.machine.release(self.now, slot, outcome);
        self.go();
    }

    /// What a waiter was given, if anything yet.
    pub(crate) fn granted(&self, waiter: WaiterId) -> Option<SlotRef> {
        self.deliveries.iter().find_map(|delivery| match delivery {
            Delivery::Grant { waiter: who, slot } if *who == waiter => Some(*slot),
            Delivery::Grant { .. } | Delivery::Refuse { .. } => None,
        })
    }

    pub(crate) fn refused(&self, waiter: WaiterId) -> Option<Refusal> {
        self.deliveries.iter().find_map(|delivery| match delivery {
            Delivery::Refuse { waiter: who, refusal } if *who == waiter => Some(*refusal),
            Delivery::Grant { .. } | Delivery::Refuse { .. } => None,
        })
    }

    /// The number of the backend that a lent slot is connected to.
    pub(crate) fn lent_from(&self, slot: SlotRef) -> u16 {
        let lent = self.machine.lent().find(|lent| lent.slot == slot).expect("it is lent");
        lent.backend.port()
    }

    /// How many plans it has taken so far.
    pub(crate) fn plans(&self) -> u64 {
        self.machine.snapshot().plans
    }

    pub(crate) fn counts(&self) -> Counts {
        self.machine.counts()
    }

    pub(crate) fn of(&self, phase: Phase) -> usize {
        self.machine.counts().of(phase)
    }

    /// Slots of a backend.
    pub(crate) fn slots_of(&self, number: u16) -> usize {
        self.counts_of(number).total()
    }

    pub(crate) fn counts_of(&self, number: u16) -> Counts {
        let snapshot = self.machine.snapshot();
        let found = snapshot.backends.iter().find(|found| found.backend.port() == number);
        found.map(|found| found.counts).unwrap_or_default()
    }

    /// Time since the stage was set.
    pub(crate) fn elapsed(&self) -> Duration {
        self.now - self.start
    }
}

pub(crate) fn backend(number: u16) -> Backend {
    Backend::fixed(([10, 0, 0, 1], number).into())
}
