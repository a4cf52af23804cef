//! A small stage for the set: the machine, a clock that is moved by hand, and what it has asked for so far.
//!
//! Dials wait for the scenario to say how they end; what is shut or aborted is gone at once. Whatever the machine asks for
//! is held against what it may ask for, so every test checks the order of what is told about a connection.

pub(crate) use crate::time::ms;
use carom_core::backend::Backend;
use carom_core::idle::Idleness;
use carom_core::recovery::{Policy, Recovery};
use carom_core::set::{
    Action, CheckId, ConnectionId, Delivery, Glance, Leased, Machine, Options, Refusal, WaiterId, Want,
};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Exact delays: 2 attempts of 1 s, 100 ms apart, then each second when dead; idle for 10 s, looked at every 2 s.
pub(crate) fn lazy() -> Options {
    Options {
        max_idle: Some(ms(10_000)),
        idle_interval: Some(ms(2_000)),
        recovery: Recovery::from(policy(2)),
        lease_timeout: ms(60_000),
        decoherence: ms(86_400_000),
        ..Options::default()
    }
}

pub(crate) fn eager(target: usize, maximum: usize) -> Options {
    Options { eager: true, target: Some(target), maximum: Some(maximum), ..lazy() }
}

pub(crate) fn policy(attempts: u32) -> Policy {
    Policy::default()
        .attempts(attempts)
        .timeout(ms(1_000))
        .max_timeout(ms(1_000))
        .delay(ms(100))
        .max_delay(ms(1_000))
        .spread(0.0)
}

pub(crate) fn backend(number: u16) -> Backend {
    Backend::fixed(([10, 0, 0, 1], number).into())
}

pub(crate) fn to(number: u16) -> Want {
    Want::of(backend(number))
}

pub(crate) fn at(number: u16, place: usize) -> Want {
    Want { place: Some(place), ..to(number) }
}

pub(crate) fn within(want: Want, time: Duration) -> Want {
    Want { timeout: Some(time), ..want }
}

/// How far a connection is, by what has been told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Dialled,
    Added,
    Removed,
    Draining,
    Gone,
}

pub(crate) struct Stage {
    pub(crate) machine: Machine,
    pub(crate) start: Instant,
    pub(crate) now: Instant,
    /// Dials under way, with the number of their backend.
    /// Health checks that run, with the number of their backend.
    pub(crate) health_checks: Vec<(CheckId, u16)>,
    pub(crate) dials: Vec<(ConnectionId, u16)>,
    /// Dials so far.
    pub(crate) dialled: usize,
    pub(crate) timeouts: Vec<Duration>,
    pub(crate) told: BTreeMap<ConnectionId, Told>,
    /// What was asked for since somebody looked, dials aside.
    pub(crate) log: Vec<Action>,
    pub(crate) deliveries: Vec<Delivery>,
}

impl Stage {
    pub(crate) fn new(options: Options) -> Stage {
        Stage::seeded(options, 1)
    }

    #[allow(clippy::disallowed_methods)]
    pub(crate) fn seeded(options: Options, seed: u64) -> Stage {
        let start = Instant::now();
        Stage {
            machine: Machine::new(options, seed, start).unwrap(),
            start,
            now: start,
            dials: Vec::new(),
            health_checks: Vec::new(),
            dialled: 0,
            timeouts: Vec::new(),
            told: BTreeMap::new(),
            log: Vec::new(),
            deliveries: Vec::new(),
        }
    }

    /// It knows these.
    pub(crate) fn knowing(options: Options, numbers: &[u16]) -> Stage {
        let mut stage = Stage::new(options);
        stage.backends(numbers);
        stage
    }

    pub(crate) fn backends(&mut self, numbers: &[u16]) {
        let ranked: Vec<_> = numbers.iter().map(|&number| (number, 0)).collect();
        self.ranked(&ranked);
    }

    /// Backends by number and priority.
    pub(crate) fn ranked(&mut self, ranked: &[(u16, u16)]) {
        let rank = |&(number, priority): &(u16, u16)| backend(number).with_priority(priority, 0);
        let backends: Vec<Backend> = ranked.iter().map(rank).collect();
        self.machine.handle_backends(self.now, &backends);
        self.go();
    }

    /// Sees what the machine wants, without letting time pass.
    pub(crate) fn go(&mut self) {
        while let Some(action) = self.machine.poll_action() {
            self.perform(action);
        }
        self.deliveries.extend(std::iter::from_fn(|| self.machine.poll_delivery()));
        self.machine.check().unwrap();
    }

    fn perform(&mut self, action: Action) {
        match &action {
            Action::Dial { connection, backend, timeout } => {
                assert_eq!(self.told.insert(*connection, Told::Dialled), None, "a name is never used again");
                self.dials.push((*connection, backend.port()));
                self.dialled += 1;
                self.timeouts.push(*timeout);
                return;
            }
            Action::HealthCheck { check, backend } => {
                self.health_checks.push((*check, backend.port()));
                return;
            }
            Action::Abort(id) => {
                assert_eq!(self.told.insert(*id, Told::Gone), Some(Told::Dialled));
                self.dials.retain(|(dial, _)| dial != id);
            }
            Action::Added(id) => {
                assert_eq!(self.told.insert(*id, Told::Added), Some(Told::Dialled));
            }
            Action::Removed(id) => {
                assert_eq!(self.told.insert(*id, Told::Removed), Some(Told::Added), "removed once, after it was added");
            }
            Action::Drain(id) => {
                assert_eq!(self.told.insert(*id, Told::Draining), Some(Told::Removed), "told once");
            }
            Action::Shut(id) => {
                let told = self.told.insert(*id, Told::Gone);
                assert!(
                    matches!(told, Some(Told::Removed | Told::Draining)),
                    "shut once, after it was removed: {told:?}"
                );
            }
        }
        self.log.push(action);
    }

    /// Lets time pass, stopping wherever the machine wants to.
    pub(crate) fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        let mut turns = 0;
        while let Some(next) = self.machine.next_timeout().filter(|&next| next <= until) {
            self.now = self.now.max(next);
            self.machine.handle_timeout(self.now);
            self.go();
            turns += 1;
            assert!(turns < 100_000, "the machine wants something, but not that time passes");
        }
        self.now = until;
    }

    pub(crate) fn lease(&mut self, want: Want) -> Leased {
        let leased = self.machine.lease(self.now, want);
        self.go();
        leased
    }

    /// A lease that is granted at once.
    pub(crate) fn take(&mut self, want: Want) -> ConnectionId {
        match self.lease(want) {
            Leased::Granted(connection) => connection,
            other @ (Leased::Waiting(_) | Leased::Refused(_)) => panic!("{other:?}"),
        }
    }

    /// A lease that has to wait.
    pub(crate) fn wait(&mut self, want: Want) -> WaiterId {
        match self.lease(want) {
            Leased::Waiting(waiter) => waiter,
            other @ (Leased::Granted(_) | Leased::Refused(_)) => panic!("{other:?}"),
        }
    }

    /// A lease that is dialled for, successfully.
    pub(crate) fn connect(&mut self, want: Want) -> ConnectionId {
        let waiter = self.wait(want);
        let (dial, _) = *self.dials.last().expect("it is dialled");
        self.connected(dial);
        self.granted(waiter).expect("the dial was for this one")
    }

    pub(crate) fn release(&mut self, connection: ConnectionId) {
        self.machine.release(self.now, connection);
        self.go();
    }

    pub(crate) fn retire(&mut self, connection: ConnectionId) {
        self.machine.retire(self.now, connection);
        self.go();
    }

    pub(crate) fn cancel(&mut self, waiter: WaiterId) -> bool {
        let was_waiting = self.machine.forget_waiter(self.now, waiter);
        self.go();
        was_waiting
    }

    pub(crate) fn connected(&mut self, id: ConnectionId) {
        self.dials.retain(|(dial, _)| *dial != id);
        self.machine.handle_connected(self.now, id);
        self.go();
    }

    pub(crate) fn failed(&mut self, id: ConnectionId) {
        self.dials.retain(|(dial, _)| *dial != id);
        self.machine.handle_failed(self.now, id);
        self.go();
    }

    pub(crate) fn ended(&mut self, id: ConnectionId) {
        self.machine.handle_ended(self.now, id);
        self.go();
    }

    /// A use of a connection to a backend succeeded.
    pub(crate) fn served(&mut self, number: u16, id: ConnectionId) {
        self.machine.handle_served(self.now, &backend(number), id);
        self.go();
    }

    /// The dial to a backend succeeds.
    pub(crate) fn accept(&mut self, number: u16) -> ConnectionId {
        let id = self.dial_to(number);
        self.connected(id);
        id
    }

    /// The dial to a backend fails.
    pub(crate) fn refuse(&mut self, number: u16) {
        let id = self.dial_to(number);
        self.failed(id);
    }

    /// Every dial to the backend fails, until its attempts have run out.
    pub(crate) fn kill(&mut self, number: u16) {
        self.refuse(number);
        self.pass(ms(100));
        self.refuse(number);
    }

    pub(crate) fn dial_to(&self, number: u16) -> ConnectionId {
        self.dials.iter().find(|(_, to)| *to == number).expect("it is being dialled").0
    }

    /// The backends being dialled, in order.
    pub(crate) fn dialling(&self) -> Vec<u16> {
        self.dials.iter().map(|(_, number)| *number).collect()
    }

    pub(crate) fn granted(&self, waiter: WaiterId) -> Option<ConnectionId> {
        self.deliveries.iter().find_map(|delivery| match delivery {
            Delivery::Granted { waiter: who, connection } if *who == waiter => Some(*connection),
            Delivery::Granted { .. } | Delivery::Refused { .. } => None,
        })
    }

    pub(crate) fn refused(&self, waiter: WaiterId) -> Option<Refusal> {
        self.deliveries.iter().find_map(|delivery| match delivery {
            Delivery::Refused { waiter: who, refusal } if *who == waiter => Some(refusal.clone()),
            Delivery::Granted { .. } | Delivery::Refused { .. } => None,
        })
    }

    /// Neither granted nor refused yet.
    pub(crate) fn waits(&self, waiter: WaiterId) -> bool {
        self.granted(waiter).is_none() && self.refused(waiter).is_none()
    }

    pub(crate) fn glance(&self, id: ConnectionId) -> Glance {
        self.machine.glance(id).expect("it is there")
    }

    pub(crate) fn idleness(&self, id: ConnectionId) -> Idleness {
        self.glance(id).idleness
    }

    pub(crate) fn is_up(&self, id: ConnectionId) -> bool {
        self.machine.glance(id).is_some()
    }

    pub(crate) fn is_draining(&self, id: ConnectionId) -> bool {
        self.glance(id).draining
    }

    /// Backends with a connection that takes leases, in order of their numbers.
    pub(crate) fn serving(&self) -> Vec<u16> {
        let snapshot = self.machine.snapshot();
        let mut numbers: Vec<u16> =
            snapshot.connections.iter().filter(|c| !c.draining).map(|c| c.backend.port()).collect();
        numbers.sort_unstable();
        numbers
    }

    pub(crate) fn up(&self) -> usize {
        self.machine.snapshot().connections.len()
    }

    pub(crate) fn sockets(&self) -> usize {
        self.up() + self.dials.len()
    }

    /// What was asked for since this was asked last, dials aside.
    pub(crate) fn news(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.log)
    }
}
