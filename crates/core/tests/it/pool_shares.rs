//! H1 and H2: which share of the claims a backend gets that fails its users, and one that has recovered.
//!
//! Traffic is simulated over thousands of seeded schedules, as in `pool_simulation.rs`, but without a look at every figure after
//! every event: shares need many claims.

use crate::schedules::for_each_schedule;
use crate::shares::{Fault, TIMEOUT, Traffic as _, has_its_share_again, let_callers_come};
use carom_core::backend::{Backend, BackendState};
use carom_core::ejection::Ejection;
use carom_core::pool::{Action, Claimed, Delivery, Ending, Machine, Options, Outcome, Request};
use carom_core::random::Random;
use carom_core::recovery::{Policy, Recovery};
use carom_core::slot::SlotRef;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// What its users report of a failed use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reports {
    Nothing,
    Failure,
    /// The connection is given up as well.
    Fail,
}

#[derive(Debug)]
enum Event {
    Comes,
    Connected(SlotRef, bool),
    Checked(SlotRef, bool),
    Closed(SlotRef),
    UseEnds { slot: SlotRef, failed: bool },
}

struct Server {
    backend: Backend,
    fault: Fault,
    /// Its last connect failed.
    refused: bool,
}

/// Servers, callers and a driver around a pool.
struct Traffic {
    machine: Machine,
    random: Random,
    start: Instant,
    clock: Duration,
    events: BTreeMap<(Duration, u64), Event>,
    sequence: u64,
    servers: Vec<Server>,
    /// The server of each slot.
    slots: Vec<usize>,
    watched: Vec<SlotRef>,
    reports: Reports,
    /// How long a use of a healthy server takes on average.
    takes: Duration,
    /// How often callers come; `None` when each comes back as soon as its use ended.
    every: Option<Duration>,
    /// How often each server was picked or its connection handed over.
    picks: Vec<usize>,
}

impl Traffic {
    #[allow(clippy::disallowed_methods)]
    fn new(options: Options, weights: &[u16], seed: u64) -> Traffic {
        let start = Instant::now();
        let server = |(index, &weight): (usize, &u16)| {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, index as u16));
            Server { backend: Backend::new("", address).with_priority(0, weight), fault: Fault::None, refused: false }
        };
        let mut traffic = Traffic {
            machine: Machine::new(options, seed, start).expect("the options make sense"),
            random: Random::new(!seed),
            start,
            clock: Duration::ZERO,
            events: BTreeMap::new(),
            sequence: 0,
            servers: weights.iter().enumerate().map(server).collect(),
            slots: Vec::new(),
            watched: Vec::new(),
            reports: Reports::Nothing,
            takes: Duration::from_millis(1),
            every: None,
            picks: vec![0; weights.len()],
        };
        let backends: Vec<Backend> = traffic.servers.iter().map(|server| server.backend.clone()).collect();
        traffic.machine.handle_backends(start, &backends);
        traffic.settle();
        traffic
    }

    fn now(&self) -> Instant {
        self.start + self.clock
    }

    fn later(&mut self, after: Duration, event: Event) {
        self.sequence += 1;
        self.events.insert((self.clock + after, self.sequence), event);
    }

    fn happen(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Comes => {
                self.claim();
                if let Some(every) = self.every {
                    let after = every.mul_f64(2.0 * self.random.fraction());
                    self.later(after, Event::Comes);
                }
            }
            Event::Connected(slot, connected) if self.machine.is_current(slot) => {
                self.servers[self.slots[slot.index()]].refused = !connected;
                match connected {
                    true => self.machine.handle_connected(now, slot, false),
                    false => self.machine.handle_connect_failed(now, slot),
                }
            }
            Event::Connected(..) => {}
            Event::Checked(slot, passed) => {
                self.machine.handle_checked(now, slot, passed);
            }
            Event::Closed(slot) => self.machine.handle_closed(now, slot),
            Event::UseEnds { slot, failed } => self.end_use(slot, failed),
        }
    }

    fn claim(&mut self) {
        let request = Request { timeout: Duration::from_secs(600), error_on_empty: false, avoid: None };
        let now = self.machine.time_for_claim().unwrap_or_else(|| self.now());
        match self.machine.claim(now, request) {
            Claimed::Granted { slot, .. } => self.begin_use(slot),
            Claimed::Waiting(_) => {}
            Claimed::Refused(refusal) => panic!("{refusal:?}"),
        }
    }

    fn begin_use(&mut self, slot: SlotRef) {
        let server = self.slots[slot.index()];
        self.picks[server] += 1;
        let usual = self.takes.mul_f64(0.5 + self.random.fraction());
        let (takes, failed) = match self.fault(server) {
            Fault::None => (usual, false),
            Fault::FailsFast | Fault::Flaps => (usual / 100, true),
            Fault::Slow => (usual * 10, false),
            Fault::Hangs => (TIMEOUT, true),
            Fault::Down => (Duration::from_micros(10), true),
        };
        self.later(takes, Event::UseEnds { slot, failed });
    }

    /// Its idle connections end; those in use are found to have ended.
    fn break_connections(&mut self, server: usize) {
        for slot in std::mem::take(&mut self.watched) {
            if self.slots[slot.index()] == server {
                self.machine.handle_ended(self.now(), slot, Ending::Seen);
            } else {
                self.watched.push(slot);
            }
        }
        self.settle();
    }

    /// What it does at present.
    fn fault(&self, server: usize) -> Fault {
        match self.servers[server].fault {
            Fault::Flaps if (self.clock.as_millis() / 300).is_multiple_of(2) => Fault::None,
            fault @ (Fault::None | Fault::FailsFast | Fault::Slow | Fault::Hangs | Fault::Down | Fault::Flaps) => fault,
        }
    }

    fn end_use(&mut self, slot: SlotRef, failed: bool) {
        let now = self.now();
        let is_down = self.servers[self.slots[slot.index()]].fault == Fault::Down;
        let outcome = match self.reports {
            _ if is_down => Outcome::Closed,
            Reports::Fail if failed => Outcome::Failed,
            Reports::Failure if failed => {
                self.machine.report_failure(now, slot);
                Outcome::Open
            }
            Reports::Nothing | Reports::Failure | Reports::Fail => Outcome::Open,
        };
        let time = if outcome == Outcome::Open { self.machine.time_for_release(slot) } else { None };
        self.machine.release(time.unwrap_or(now), slot, outcome);
        if self.every.is_none() {
            self.later(Duration::ZERO, Event::Comes);
        }
    }

    /// The driver does what it is asked to do, and callers get what they waited for.
    fn settle(&mut self) {
        loop {
            if self.machine.take_attention() {
                self.machine.handle_timeout(self.now());
            }
            if let Some(action) = self.machine.poll_action() {
                self.act(action);
            } else if let Some(delivery) = self.machine.poll_delivery() {
                let Delivery::Grant { waiter, slot } = delivery else { panic!("{delivery:?}") };
                self.machine.forget_waiter(waiter);
                self.begin_use(slot);
            } else {
                return;
            }
        }
    }

    fn act(&mut self, action: Action) {
        let soon = Duration::from_micros(100 + self.random.below(2_000) as u64);
        match action {
            Action::Connect { slot, backend } => {
                let server = usize::from(backend.port());
                self.slots.resize(self.slots.len().max(slot.index() + 1), 0);
                self.slots[slot.index()] = server;
                match self.servers[server].fault {
                    Fault::Hangs => {}
                    Fault::Down => self.later(soon, Event::Connected(slot, false)),
                    Fault::None | Fault::FailsFast | Fault::Slow | Fault::Flaps => {
                        self.later(soon, Event::Connected(slot, true));
                    }
                }
            }
            Action::Check { slot, .. } | Action::Recycle { slot } => self.later(soon, Event::Checked(slot, true)),
            Action::Watch { slot } => {
                self.watched.retain(|watched| watched.index() != slot.index());
                self.watched.push(slot);
            }
            Action::Overdue { .. } | Action::HealthCheck { .. } | Action::Suspect { .. } => {}
            Action::Close { slot, .. } => self.later(soon, Event::Closed(slot)),
            Action::Abandon { slot, timed_out, .. } => {
                // Checks do not time out here.
                self.servers[self.slots[slot.index()]].refused |= timed_out.is_some();
                self.later(soon, Event::Closed(slot));
            }
        }
    }
}

impl crate::shares::Traffic for Traffic {
    fn servers(&self) -> usize {
        self.servers.len()
    }

    fn clock(&self) -> Duration {
        self.clock
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.clock + time;
        loop {
            let due = self.machine.next_timeout().map(|due| due.saturating_duration_since(self.start).max(self.clock));
            let next = self.events.first_key_value().map(|(&key, _)| key);
            match (next, due) {
                (Some((at, sequence)), due) if at <= until && due.is_none_or(|due| at <= due) => {
                    self.clock = at;
                    let event = self.events.remove(&(at, sequence)).expect("it is the first");
                    self.happen(event);
                }
                (_, Some(due)) if due <= until => {
                    self.clock = due;
                    self.machine.handle_timeout(self.now());
                }
                _ => break,
            }
            self.settle();
        }
        self.clock = until;
    }

    fn begin(&mut self, rate: f64) {
        self.every = Some(Duration::from_secs_f64(1.0 / rate));
        self.later(Duration::from_millis(100), Event::Comes);
    }

    fn takes(&self) -> Duration {
        self.takes
    }

    fn treat(&mut self, server: usize, fault: Fault) {
        self.servers[server].fault = fault;
        if fault == Fault::Down {
            self.break_connections(server);
        }
    }

    fn picks(&self) -> Vec<usize> {
        self.picks.clone()
    }

    fn fair_shares(&self) -> Vec<f64> {
        let snapshot = self.machine.snapshot();
        let mut weights = vec![0.0; self.servers.len()];
        for backend in snapshot.backends.iter().filter(|backend| backend.counts.total() > 0) {
            weights[usize::from(backend.backend.port())] = f64::from(backend.backend.weight());
        }
        let all: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / all).collect()
    }

    fn is_known_to_serve(&self, server: usize) -> bool {
        !self.servers[server].refused
            && self.machine.snapshot().backends.iter().any(|backend| {
                let is_it = usize::from(backend.backend.port()) == server;
                is_it && backend.state == BackendState::Healthy && backend.counts.working() > 0
            })
    }
}

/// Servers with such weights and a pool with eight connections for each, and how often callers come.
fn traffic(random: &mut Random, seed: u64) -> Traffic {
    traffic_with(random, seed, |random| random.chance(0.3).then(Ejection::default))
}

fn traffic_with(random: &mut Random, seed: u64, ejection: impl FnOnce(&mut Random) -> Option<Ejection>) -> Traffic {
    let servers = 2 + random.below(4);
    let weights: Vec<u16> = match random.below(3) {
        0 => (0..servers).map(|_| 1 + random.below(3) as u16).collect(),
        _ => vec![1; servers],
    };
    let maximum = 8 * servers;
    let ejection = ejection(random);
    let learn_latency = random.chance(0.8);
    // A backend at which connects fail keeps the connections that it has for this long.
    let recovery = Recovery::from(Policy::default().max_delay(Duration::from_secs(3)));
    let options = Options { spares: maximum, maximum, ejection, learn_latency, recovery, ..Options::default() };
    let mut traffic = Traffic::new(options, &weights, seed);
    traffic.takes = Duration::from_micros(500 + random.below(20_000) as u64);
    traffic.reports = [Reports::Nothing, Reports::Failure, Reports::Fail][random.below(3)];
    traffic
}

#[test]
fn h1_backend_has_its_share_again_soon_after_any_fault() {
    for_each_schedule(1_000, |seed, _| {
        let mut random = Random::new(seed);
        let mut traffic = traffic(&mut random, seed);
        let_callers_come(&mut traffic, &mut random);
        has_its_share_again(&mut traffic, &mut random);
    });
}

#[test]
fn h2_backends_whose_uses_fail_at_once_are_no_black_hole() {
    for_each_schedule(1_000, |seed, _| {
        let mut random = Random::new(seed);
        let mut traffic = traffic(&mut random, seed);
        let_callers_come(&mut traffic, &mut random);
        traffic.run_for(Duration::from_millis([0, random.below(5_000) as u64][random.below(2)]));
        // Without reports they look fast, and where they are as many as the others, those look slow.
        let servers = traffic.servers.len();
        let blind = traffic.reports == Reports::Nothing && traffic.machine.options().learn_latency;
        let failing = random.below(if blind { servers.div_ceil(2) } else { servers }).max(usize::from(!blind));
        (0..failing).for_each(|server| traffic.servers[server].fault = Fault::FailsFast);
        traffic.run_for(Duration::from_secs(1));
        let fair = traffic.fair_shares();
        let shares = traffic.shares(Duration::from_secs(5));
        for (share, fair) in shares.iter().zip(&fair).take(failing) {
            let most = if traffic.reports == Reports::Nothing { fair * 1.15 } else { 0.02 };
            assert!(*share < most, "H2: {shares:?} of {failing} failing, fair is {fair}: {:?}", traffic.reports);
        }
    });
}

/// As when a database behind all of them fails.
#[test]
fn h1_h2_h7_backends_that_all_fail_at_once_are_ejected_and_used_in_a_panic_until_they_recover() {
    for_each_schedule(500, |seed, _| {
        let mut random = Random::new(seed);
        let ejection = |random: &mut Random| {
            let ejection = Ejection::default().consecutive(1 + random.below(5) as u32).time(Duration::from_millis(500));
            Some(ejection.max_ejected([0.1, 0.5, 1.0][random.below(3)]))
        };
        let mut traffic = traffic_with(&mut random, seed, ejection);
        traffic.reports = Reports::Failure;
        let_callers_come(&mut traffic, &mut random);
        traffic.run_for(Duration::from_secs(1 + random.below(3) as u64));
        traffic.servers.iter_mut().for_each(|server| server.fault = Fault::FailsFast);
        traffic.run_for(Duration::from_secs(1));
        let failing_since = traffic.now() - Duration::from_millis(500);
        for _ in 0..1 + random.below(10) {
            let fair = traffic.fair_shares();
            let shares = traffic.shares(Duration::from_millis(700));
            let snapshot = traffic.machine.snapshot();
            assert!(snapshot.is_panic, "H7: all fail");
            for backend in &snapshot.backends {
                assert_eq!((backend.state, backend.is_out), (BackendState::Ejected, false), "H7: {backend:?}");
                assert!(backend.last_success.is_none_or(|at| at < failing_since), "H7: no use succeeds");
            }
            for (share, fair) in shares.iter().zip(&fair) {
                assert!(*share < 2.0 * fair && *share > fair / 4.0, "H2: {shares:?} in a panic, not {fair}");
            }
        }
        traffic.servers.iter_mut().for_each(|server| server.fault = Fault::None);
        let until = |traffic: &Traffic| {
            traffic.machine.snapshot().backends.iter().filter_map(|backend| backend.ejected_until).max()
        };
        while let Some(until) = until(&traffic) {
            traffic.run_for(until - traffic.now() + Duration::from_millis(1));
            assert!(traffic.clock < Duration::from_secs(60), "H1: the ejections do not end");
        }
        for (wait, part) in [(5, 0.5), (6, 0.9)] {
            traffic.run_for(Duration::from_secs(wait));
            let fair = traffic.fair_shares();
            let shares = traffic.shares(Duration::from_secs(4));
            let enough = shares.iter().zip(&fair).all(|(share, fair)| *share >= part * fair);
            assert!(enough, "H1: {shares:?}, not {part} of {fair:?}");
        }
        let snapshot = traffic.machine.snapshot();
        assert!(!snapshot.is_panic, "H7: all have recovered");
        let lately = traffic.now() - Duration::from_secs(1);
        for backend in &snapshot.backends {
            assert_eq!((backend.state, backend.is_out), (BackendState::Healthy, false), "H7: {backend:?}");
            assert!(backend.last_success.is_some_and(|at| at > lately), "H7: {backend:?}");
        }
    });
}

/// More callers than connections, each of which comes back at once: every connection that is returned is handed over.
#[test]
fn h2_connections_of_failing_backends_are_not_handed_over() {
    for_each_schedule(1_000, |seed, _| {
        let mut random = Random::new(seed);
        let mut traffic = traffic(&mut random, seed);
        traffic.reports = [Reports::Failure, Reports::Fail][random.below(2)];
        let callers = traffic.servers.len() * (8 + random.below(10));
        (0..callers).for_each(|_| traffic.later(Duration::from_millis(100), Event::Comes));
        traffic.run_for(Duration::from_millis(100 + random.below(3_000) as u64));
        let failing = 1 + random.below(traffic.servers.len() - 1);
        (0..failing).for_each(|server| traffic.servers[server].fault = Fault::FailsFast);
        traffic.run_for(Duration::from_secs(1));
        let shares = traffic.shares(Duration::from_secs(4));
        assert!(shares.iter().take(failing).all(|&share| share < 0.02), "H2: {shares:?} of {failing} failing");
        // They have their share again.
        (0..failing).for_each(|server| traffic.servers[server].fault = Fault::None);
        traffic.run_for(Duration::from_secs(15));
        let snapshot = traffic.machine.snapshot();
        // An ejection may last longer.
        assert!(!snapshot.backends.iter().any(|backend| backend.failing && !backend.is_out), "{snapshot:?}");
    });
}
