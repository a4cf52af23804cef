//! H1, H2, H5 and H7 of sets: which share of the leases a backend gets that fails its users, has recovered, or closes its connections.
//!
//! Seeded schedules, as in `set_simulation.rs`, but without a look at every figure after every event: shares need many leases.

use crate::schedules::for_each_schedule;
use crate::shares::{Fault, TIMEOUT, Traffic as _, has_its_share_again, let_callers_come};
use carom_core::backend::{Backend, BackendState};
use carom_core::ejection::Ejection;
use carom_core::random::Random;
use carom_core::recovery::{Policy, Recovery};
use carom_core::set::{Action, BackendGlance, ConnectionId, Delivery, Leased, Machine, Options, Want};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

enum Event {
    Comes,
    Dialled(ConnectionId, bool),
    UseEnds { id: ConnectionId, took: Duration, failed: bool },
}

struct Server {
    backend: Backend,
    fault: Fault,
    /// Its last dial failed.
    refused: bool,
    picks: usize,
}

/// A connection that was dialled.
struct Link {
    server: usize,
    is_up: bool,
    uses: usize,
}

/// Servers, callers and a driver around an eager set.
struct Traffic {
    machine: Machine,
    random: Random,
    start: Instant,
    clock: Duration,
    events: BTreeMap<(Duration, u64), Event>,
    sequence: u64,
    servers: Vec<Server>,
    links: BTreeMap<ConnectionId, Link>,
    takes: Duration,
    every: Option<Duration>,
    /// The first server closes its connections after so many uses.
    closes_after: Option<usize>,
}

impl Traffic {
    #[allow(clippy::disallowed_methods)]
    fn new(random: &mut Random, seed: u64) -> Traffic {
        let start = Instant::now();
        let servers = 2 + random.below(4);
        let uneven = random.below(3) == 0;
        let server = |index: usize| {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, index as u16));
            let weight = if uneven { 1 + random.below(3) as u16 } else { 1 };
            Server {
                backend: Backend::new("", address).with_priority(0, weight),
                fault: Fault::None,
                refused: false,
                picks: 0,
            }
        };
        let servers: Vec<Server> = (0..servers).map(server).collect();
        let options = Options {
            eager: true,
            per_backend: 1 + random.below(2),
            ejection: random.chance(0.3).then(Ejection::default),
            recovery: Recovery::from(Policy::default().max_delay(Duration::from_secs(3))),
            ..Options::default()
        };
        let mut traffic = Traffic {
            machine: Machine::new(options, seed, start).expect("the options make sense"),
            random: Random::new(!seed),
            start,
            clock: Duration::ZERO,
            events: BTreeMap::new(),
            sequence: 0,
            servers,
            links: BTreeMap::new(),
            takes: Duration::from_micros(500 + random.below(20_000) as u64),
            every: None,
            closes_after: None,
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
                // As a handle does it: without a look at the clock where that is possible.
                let leased = match self.machine.lease_warm(None, None, None) {
                    Some(connection) => Leased::Granted(connection),
                    None => self.machine.lease(now, Want::any()),
                };
                match leased {
                    Leased::Granted(connection) => self.begin_use(connection),
                    Leased::Waiting(_) => {}
                    Leased::Refused(refusal) => panic!("{refusal:?}"),
                }
                let after = self.every.map(|every| every.mul_f64(2.0 * self.random.fraction()));
                after.into_iter().for_each(|after| self.later(after, Event::Comes));
            }
            Event::Dialled(id, accepted) => {
                let Some(link) = self.links.get_mut(&id) else { return };
                self.servers[link.server].refused = !accepted;
                if accepted {
                    link.is_up = true;
                    self.machine.handle_connected(now, id);
                } else {
                    self.links.remove(&id);
                    self.machine.handle_failed(now, id);
                }
            }
            Event::UseEnds { id, took, failed } => self.end_use(id, took, failed),
        }
    }

    /// What a server does at present.
    fn fault(&self, server: usize) -> Fault {
        match self.servers[server].fault {
            Fault::Flaps if (self.clock.as_millis() / 300).is_multiple_of(2) => Fault::None,
            fault => fault,
        }
    }

    fn begin_use(&mut self, id: ConnectionId) {
        let server = self.links[&id].server;
        self.servers[server].picks += 1;
        let usual = self.takes.mul_f64(0.5 + self.random.fraction());
        let (took, failed) = match self.fault(server) {
            Fault::None => (usual, false),
            Fault::FailsFast | Fault::Flaps => (usual / 100, true),
            Fault::Slow => (usual * 10, false),
            Fault::Hangs => (TIMEOUT, true),
            Fault::Down => (Duration::from_micros(10), true),
        };
        self.later(took, Event::UseEnds { id, took, failed });
    }

    fn end_use(&mut self, id: ConnectionId, took: Duration, failed: bool) {
        let now = self.now();
        // Of those on a connection that broke, the first was reported.
        let Some(link) = self.links.get_mut(&id) else { return self.machine.release(now, id) };
        link.uses += 1;
        let (server, uses) = (link.server, link.uses);
        let backend = self.servers[server].backend.clone();
        if failed {
            self.machine.report_failure(now, &backend);
        } else {
            self.machine.report_success(now, &backend, Some(took));
            self.machine.handle_served(now, &backend, id);
        }
        self.machine.release(now, id);
        if server == 0 && self.closes_after == Some(uses) {
            self.links.remove(&id);
            self.machine.handle_ended(now, id);
        }
    }

    fn break_connections(&mut self, server: usize) {
        let is_up = |(id, link): (&ConnectionId, &Link)| (link.server == server && link.is_up).then_some(*id);
        for id in self.links.iter().filter_map(is_up).collect::<Vec<_>>() {
            self.links.remove(&id);
            self.machine.report_failure(self.now(), &self.servers[server].backend.clone());
            self.machine.handle_ended(self.now(), id);
        }
        self.settle();
    }

    /// The driver does what it is asked to do, and callers get what they waited for.
    fn settle(&mut self) {
        loop {
            if let Some(delivery) = self.machine.poll_delivery() {
                let Delivery::Granted { connection, .. } = delivery else { panic!("{delivery:?}") };
                self.begin_use(connection);
                continue;
            }
            match self.machine.poll_action() {
                None => return,
                Some(Action::Dial { connection, backend, timeout }) => {
                    let soon = Duration::from_micros(100 + self.random.below(2_000) as u64);
                    let server = usize::from(backend.port());
                    self.links.insert(connection, Link { server, is_up: false, uses: 0 });
                    let (after, accepted) = match self.servers[server].fault {
                        Fault::Hangs => (timeout, false),
                        Fault::Down => (soon, false),
                        Fault::None | Fault::FailsFast | Fault::Slow | Fault::Flaps => (soon, true),
                    };
                    self.later(after, Event::Dialled(connection, accepted));
                }
                Some(Action::Abort(id) | Action::Shut(id)) => _ = self.links.remove(&id),
                Some(Action::Drain(_) | Action::HealthCheck { .. } | Action::Added(_) | Action::Removed(_)) => {}
            }
        }
    }

    fn backends(&self) -> BTreeMap<usize, BackendGlance> {
        let backends = self.machine.observe().backends.into_iter();
        backends.map(|backend| (usize::from(backend.backend.port()), backend)).collect()
    }

    /// Whether a lease of any backend may be of a server.
    fn is_connected(&self, server: usize) -> bool {
        let connections = self.machine.snapshot().connections;
        connections.iter().any(|glance| usize::from(glance.backend.port()) == server && !glance.draining)
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
        self.servers.iter().map(|server| server.picks).collect()
    }

    fn fair_shares(&self) -> Vec<f64> {
        let weight = |server: usize| f64::from(self.servers[server].backend.weight());
        let weights: Vec<f64> = (0..self.servers.len())
            .map(|server| if self.is_connected(server) { weight(server) } else { 0.0 })
            .collect();
        let all: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / all).collect()
    }

    fn is_known_to_serve(&self, server: usize) -> bool {
        let is_healthy = self.backends().get(&server).is_some_and(|backend| backend.state == BackendState::Healthy);
        is_healthy && !self.servers[server].refused && self.is_connected(server)
    }
}

#[test]
fn h1_backend_has_its_share_of_the_leases_again_soon_after_any_fault() {
    for_each_schedule(600, |seed, _| {
        let mut random = Random::new(seed);
        let mut traffic = Traffic::new(&mut random, seed);
        let_callers_come(&mut traffic, &mut random);
        has_its_share_again(&mut traffic, &mut random);
    });
}

/// Their failures are reported. H7: what is shown is what leases go by.
#[test]
fn h2_h7_backends_whose_uses_fail_at_once_get_almost_no_leases_and_are_shown_as_unreliable() {
    for_each_schedule(600, |seed, _| {
        let mut random = Random::new(seed);
        let mut traffic = Traffic::new(&mut random, seed);
        let_callers_come(&mut traffic, &mut random);
        traffic.run_for(Duration::from_millis([0, random.below(5_000) as u64][random.below(2)]));
        let failing = 1 + random.below(traffic.servers.len() - 1);
        (0..failing).for_each(|server| traffic.treat(server, Fault::FailsFast));
        traffic.run_for(Duration::from_secs(1));
        let shares = traffic.shares(Duration::from_secs(5));
        assert!(shares.iter().take(failing).all(|share| *share < 0.02), "H2: {shares:?} of {failing} failing");
        for (server, backend) in traffic.backends() {
            assert_eq!(backend.unreliable, server < failing, "H7: {backend:?}");
        }
    });
}

#[test]
fn h5_backend_that_closes_its_connections_after_use_keeps_its_share_of_the_leases() {
    for_each_schedule(400, |seed, _| {
        let mut random = Random::new(seed);
        let mut traffic = Traffic::new(&mut random, seed);
        traffic.closes_after = Some(1 + random.below(50));
        let_callers_come(&mut traffic, &mut random);
        traffic.run_for(Duration::from_secs(1));
        let (mut connected, mut looks) = (0_usize, 0_usize);
        let before = traffic.picks();
        while looks < 4_000 {
            traffic.run_for(Duration::from_millis(1));
            looks += 1;
            connected += usize::from(traffic.is_connected(0));
            let backend = &traffic.backends()[&0];
            assert!(!backend.unreliable && backend.state == BackendState::Healthy, "H5: {backend:?}");
        }
        let picks: Vec<usize> = traffic.picks().iter().zip(before).map(|(after, before)| after - before).collect();
        let all: f64 = traffic.servers.iter().map(|server| f64::from(server.backend.weight())).sum();
        let fair = f64::from(traffic.servers[0].backend.weight()) / all * connected as f64 / looks as f64;
        let share = picks[0] as f64 / picks.iter().sum::<usize>() as f64;
        assert!(share > 0.85 * fair, "H5: {share} of {picks:?}, not {fair}");
    });
}

#[test]
fn h2_without_callers_for_a_while_a_backend_is_not_shown_as_unreliable_for_ever() {
    let mut random = Random::new(1);
    let mut traffic = Traffic::new(&mut random, 1);
    traffic.run_for(Duration::from_secs(1));
    for _ in 0..2 {
        traffic.machine.report_failure(traffic.now(), &traffic.servers[0].backend.clone());
    }
    assert!(traffic.backends()[&0].unreliable);
    traffic.run_for(Duration::from_secs(4));
    assert!(!traffic.backends()[&0].unreliable);
}
