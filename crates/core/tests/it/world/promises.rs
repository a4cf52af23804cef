//! What must hold, by the names it has in the contract, and the books it is held against.

use super::callers::Stage;
use super::servers::{Connection, Server};
use super::{Content, Moment, Seat, World};
use carom_core::backend::BackendState;
use carom_core::idle::interval;
use carom_core::pool::{BackendSnapshot, Refusal, SlotGlance, Snapshot, State};
use carom_core::slot::{Counts, Phase, SlotRef};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// What the world remembers to judge by.
pub(super) struct Books {
    /// Most slots there may be: the maximum, or what is left from a larger one.
    pub(super) allowed: usize,
    /// Most probes that may run: as the maximum says, or what is left from an outage.
    probes_allowed: usize,
    pub(super) closed_at: Option<Moment>,
    pub(super) released_at: Moment,
    /// Dials that found no room.
    pub(super) turned_away: usize,
    /// The servers of which a connection was seen to be of no use.
    failure_seen: BTreeSet<usize>,
    state: State,
    has_run: bool,
    /// Since when every known backend has been dead.
    outage_since: Option<Moment>,
    /// How many slots each server had when last looked, and when the plan last gave it one or took one away.
    slots: BTreeMap<usize, usize>,
    changed_at: BTreeMap<usize, Moment>,
    /// Who was ejected when last looked, and until when.
    ejected: BTreeMap<usize, Instant>,
    /// Servers that were dead when last looked: an ejection ends when one of them works again.
    dead: BTreeSet<usize>,
}

impl Books {
    pub(super) fn new(maximum: usize) -> Books {
        Books {
            allowed: maximum,
            probes_allowed: maximum,
            closed_at: None,
            released_at: Duration::ZERO,
            turned_away: 0,
            failure_seen: BTreeSet::new(),
            state: State::Starting,
            has_run: false,
            outage_since: None,
            slots: BTreeMap::new(),
            changed_at: BTreeMap::new(),
            ejected: BTreeMap::new(),
            dead: BTreeSet::new(),
        }
    }
}

/// Callers read the clock before they have the lock.
const CLOCKS_DIFFER: Duration = Duration::from_micros(20);

const PHASES: usize = Phase::ALL.len();

impl World {
    /// Holds after every event.
    pub(super) fn check(&mut self) {
        let observation = self.machine.observe();
        self.figures_agree(&observation);
        let snapshot = observation.figures;
        self.promise_1_open_connections_never_exceed_maximum();
        self.promise_7_counts_are_exact(&snapshot);
        self.promise_8_closing_is_prompt(&snapshot);
        self.backends_are_what_they_are_said_to_be(&snapshot);
        self.few_are_ejected_at_a_time(&snapshot);
        self.servers_get_slots_one_by_one(&snapshot);
        self.states_follow_the_diagram();
        self.nobody_waits_for_what_is_idle();
        self.the_driver_knows_when_it_is_needed();
    }

    /// Holds whenever the driver has done all it was asked to do.
    pub(super) fn check_planned(&mut self) {
        let (counts, (dead, known)) = (self.machine.counts(), self.machine.dead_of_known());
        if self.books.closed_at.is_some() || known == 0 {
            return;
        }
        let unhurried = self.setting.options.churn_per_second.is_some();
        // Unhealthy backends are connected to again when their hold-off ends.
        let holds_off = dead < known && self.setting.options.replace_unused_after.is_some();
        if self.machine.state() == State::Failed && !unhurried && !holds_off {
            let probes = self.machine.snapshot().probes.total();
            assert!(counts.total() + probes > 0, "a failed pool has given up");
        }
        self.nobody_waits_for_a_worse_tier();
        // A backend that has refused further connections lately is left alone for a while.
        let long_ago = self.clock.checked_sub(self.setting.longest_attempt());
        let went_wrong_lately = |server: &Server| server.known && server.failed_at >= long_ago;
        let snapshot = self.machine.snapshot();
        self.who_is_ejected_comes_back_in_time(&snapshot);
        self.attempts_go_on_in_an_outage(&snapshot);
        self.another_can_serve(&snapshot);
        self.backends_are_probed_or_planned_for(&snapshot);
        let is_well = |state| matches!(state, BackendState::Healthy | BackendState::Unknown | BackendState::Removed);
        let all_well = snapshot.backends.iter().all(|backend| is_well(backend.state) && !backend.is_failing);
        if all_well && !unhurried && !self.servers.iter().any(went_wrong_lately) {
            // A hold-off delays spares, not waiting claims.
            let held_off = self.setting.options.replace_unused_after.map_or(0, |_| self.machine.options().spares);
            let least = self.machine.target().saturating_sub(held_off);
            assert!(counts.total() >= least, "less than the target: {counts:?}");
        }
    }

    /// A worse tier is used only while nothing works of the better ones.
    fn nobody_waits_for_a_worse_tier(&self) {
        let snapshot = self.machine.snapshot();
        let works = |backend: &&BackendSnapshot| backend.state == BackendState::Healthy && backend.counts.working() > 0;
        let Some(best) = snapshot.backends.iter().filter(works).map(|found| found.backend.priority()).min() else {
            return;
        };
        for worse in snapshot.backends.iter().filter(|found| found.backend.priority() > best) {
            assert!(worse.counts.pending() == 0 || worse.state == BackendState::Removed, "{worse:?}, {best} works");
        }
    }

    /// When the faults have stopped and the pool has settled, the best tier serves and nothing is left to any other.
    pub(crate) fn only_the_best_tier_is_used(&self) {
        let snapshot = self.machine.snapshot();
        // A pool with room for one connection cannot watch what is dead, and without spares there is nothing to see.
        if snapshot.maximum == 1 || self.setting.options.max_idle.is_none() {
            return;
        }
        let best = snapshot.backends.iter().map(|found| found.backend.priority()).min();
        for found in snapshot.backends.iter().filter(|found| found.counts.total() > 0) {
            assert_eq!(Some(found.backend.priority()), best, "{found:?}");
        }
    }

    /// What is idle in the tier that serves goes first, unless its server is failing.
    pub(super) fn the_better_tier_goes_first(&self, slot: SlotRef) {
        if self.setting.choosy > 0.0 || self.driver_is_notified() {
            return;
        }
        let priority = |seat: &Seat| self.servers[seat.server].backend.priority();
        let known = self.seats.iter().filter(|seat| !self.is_draining(seat.server, seat.term));
        // A tier that has worked, with nothing known against it, serves even while its last connection is being closed: it
        // gets another at once. Those behind it are lent only until then, and among them there is no order: there are those
        // that serve and the others, which keeps choosing cheap.
        // So does one whose ejection has just ended.
        let snapshot = self.machine.snapshot();
        let is_alive = |server: usize| {
            let found = snapshot.backends.iter().find(|backend| self.server_of(&backend.backend) == server);
            found.is_some_and(|backend| backend.state == BackendState::Healthy && !backend.is_failing)
        };
        let works = |seat: &&Seat| match seat.content {
            Content::Nothing => false,
            Content::Dialling => is_alive(seat.server),
            Content::Idle(_) | Content::Lent(_) | Content::Checking(_) | Content::Suspect(_) | Content::Closing(_) => {
                true
            }
        };
        let Some(best) = known.clone().filter(works).map(priority).min() else { return };
        let failing = self.failing_servers(&self.machine.snapshot());
        let is_idle = |seat: &&Seat| {
            matches!(seat.content, Content::Idle(_)) && priority(seat) == best && !failing.contains(&seat.server)
        };
        let better = known.clone().find(is_idle).filter(|_| priority(&self.seats[slot.index()]) > best);
        assert!(better.is_none(), "{better:?} was idle, but {slot:?} was lent");
    }

    fn promise_1_open_connections_never_exceed_maximum(&mut self) {
        let open = self.open.iter().map(|&id| &self.connections[id]);
        let open = open.filter(|connection| !self.is_draining(connection.server, connection.term)).count();
        let (slots, probes) = (self.machine.counts().total(), self.machine.snapshot().probes);
        let (connecting, closing) = (probes.of(Phase::Connecting), probes.of(Phase::Closing));
        let allowed = self.books.allowed + connecting + closing;
        assert!(open <= allowed, "promise 1: {open} open, {allowed} allowed");
        assert!(slots <= self.books.allowed, "promise 1: {slots} slots, {} allowed", self.books.allowed);
        self.books.allowed = self.books.allowed.min(slots).max(self.machine.options().maximum);
    }

    pub(super) fn promise_2_a_claim_has_ended_by_its_deadline(&mut self, claim: usize) {
        let stage = self.claims[claim].stage;
        assert!(!matches!(stage, Stage::InLine(_)), "promise 2: claim {claim} waits beyond its deadline");
    }

    pub(super) fn promise_3_nothing_is_lent_twice_or_in_doubt(&self, slot: SlotRef, id: usize) {
        assert!(self.machine.is_current(slot), "promise 3: granted in the past");
        let lent = self.seats.iter().filter(|seat| seat.content == Content::Lent(id)).count();
        assert_eq!(lent, 0, "promise 3: connection {id} is lent already");
        let connection = &self.connections[id];
        assert!(!connection.doubtful, "promise 3: connection {id} is of unknown state");
        assert!(connection.open && !connection.detached, "promise 3: connection {id} is closed");
    }

    /// A connection is seen to be of no use.
    pub(super) fn failure_was_seen(&mut self, id: usize) {
        let server = self.connections[id].server;
        self.books.failure_seen.insert(server);
    }

    /// Once a failure is seen, nothing that ended before is lent any more.
    pub(super) fn h8_nothing_is_lent_that_broke_before_a_failure_was_seen(&self, id: usize) {
        let Connection { server, alive, .. } = self.connections[id];
        let was_seen = self.setting.restarts && self.books.failure_seen.contains(&server);
        assert!(alive || !was_seen, "H8: connection {id} broke with the others, and is lent");
    }

    /// Every suspect has been checked or replaced by now.
    pub(crate) fn no_suspect_is_left(&self) {
        assert_eq!(self.machine.counts().suspects(), 0, "H8: suspects are left");
    }

    pub(super) fn promise_4_waiters_are_served_in_order(&self, arrival: u64, cannot_wait: bool) {
        if self.setting.choosy > 0.0 {
            return;
        }
        // A claim that asks again keeps its place. One that cannot wait has none: it comes after all that wait.
        let overtaken = self.line.range(..if cannot_wait { u64::MAX } else { arrival }).count();
        assert_eq!(overtaken, 0, "promise 4: claim {arrival} overtook {overtaken}");
    }

    /// Promise 5: everything the present load asks for works, and really does.
    pub(crate) fn is_at_target(&self) -> bool {
        let works = |seat: &&Seat| match seat.content {
            Content::Idle(id) | Content::Checking(id) => self.connections[id].alive,
            Content::Lent(_) => true,
            Content::Nothing | Content::Dialling | Content::Suspect(_) | Content::Closing(_) => false,
        };
        let known = self.seats.iter().filter(|seat| !self.is_draining(seat.server, seat.term));
        self.machine.state() != State::Failed && known.filter(works).count() >= self.machine.target()
    }

    /// Promise 5: how long it may take. An attempt that hangs has to time out, and the delay after it to pass; a dead
    /// connection is noticed once it has settled; a check or a close that hangs is cut short; a hold-off has to end.
    pub(crate) fn recovery_bound(&self) -> Duration {
        let settled = Duration::from_millis(500) + self.setting.options.replace_unused_after.unwrap_or_default();
        let trifles = 20 * self.setting.latency + 2 * self.setting.dial;
        settled + self.setting.options.check_timeout + self.setting.longest_attempt() + trifles
    }

    /// How long a pool without load takes to forget that there was any.
    pub(crate) fn quiet_bound(&self) -> Duration {
        let window = Duration::from_millis(200) * 129;
        let idle = self.setting.options.max_idle.map_or(Duration::ZERO, |idle| idle + 2 * interval(idle));
        let closing = self.setting.options.check_timeout + self.setting.longest_attempt();
        let held_off = self.setting.options.replace_unused_after.unwrap_or_default();
        self.setting.hold + window + idle + closing + held_off + 50 * self.setting.latency
    }

    /// Without load there are the spares and nothing else, all of them connected.
    pub(crate) fn pool_is_quiet(&self) {
        let (counts, spares) = (self.machine.counts(), self.machine.options().spares);
        assert_eq!(self.machine.target(), spares.max(usize::from(self.machine.state() == State::Failed)));
        if self.setting.options.max_idle.is_some() {
            assert_eq!(counts.total(), spares, "more or less than the spares: {counts:?}");
        }
        assert!(counts.working() >= spares, "less than the spares: {counts:?}");
    }

    pub(super) fn promise_6_every_connection_opened_is_closed_once(&self) {
        // That none is closed twice is seen to when it is closed.
        for (id, connection) in self.connections.iter().enumerate() {
            assert_eq!(connection.open, connection.detached, "promise 6: connection {id} was never closed");
        }
    }

    /// What the machine counts is what the world has, for the pool and for each backend.
    fn promise_7_counts_are_exact(&self, snapshot: &Snapshot) {
        assert_eq!(snapshot.counts, self.machine.counts());
        let (mut known, mut draining) = ([0; PHASES], [0; PHASES]);
        let mut of_servers = vec![[0; PHASES]; self.servers.len()];
        for seat in &self.seats {
            let Some(phase) = seat.content.phase() else { continue };
            if self.is_draining(seat.server, seat.term) {
                draining[phase as usize] += 1;
            } else {
                known[phase as usize] += 1;
                of_servers[seat.server][phase as usize] += 1;
            }
        }
        assert_eq!(visible(&[snapshot.counts, snapshot.probes]), known, "promise 7: the pool");
        assert_eq!(visible(&[snapshot.draining]), draining, "promise 7: what drains");
        let (mut sum_known, mut sum_draining, mut dead) = ([0; PHASES], [0; PHASES], 0);
        for backend in &snapshot.backends {
            if backend.state == BackendState::Removed {
                sum_draining = add(sum_draining, &backend.counts);
            } else {
                let server = self.server_of(&backend.backend);
                assert_eq!(
                    visible(&[backend.counts, backend.probes]),
                    of_servers[server],
                    "promise 7: server {server}"
                );
                sum_known = add(sum_known, &backend.counts);
                dead += usize::from(backend.state == BackendState::Dead);
            }
        }
        assert_eq!(sum_known, add([0; PHASES], &snapshot.counts), "promise 7: backends and pool differ");
        assert_eq!(sum_draining, add([0; PHASES], &snapshot.draining), "promise 7: backends and pool differ");
        assert_eq!((snapshot.dead, snapshot.known), (dead, self.servers.iter().filter(|server| server.known).count()));
        assert_eq!(snapshot.waiting, self.line.len(), "promise 7: waiters");
    }

    pub(super) fn promise_7_nothing_is_left(&self) {
        let snapshot = self.machine.snapshot();
        assert_eq!(snapshot.counts.total() + snapshot.draining.total(), 0, "promise 7: slots are left");
        assert_eq!(snapshot.waiting, 0, "promise 7: waiters are left");
        assert!(self.waiters.is_empty() && self.open.is_empty(), "promise 7: something is left");
        assert!(self.no_task_is_left(), "promise 7: tasks are left");
        for backend in &snapshot.backends {
            assert!(backend.state != BackendState::Removed, "promise 7: {backend:?} is left");
        }
    }

    pub(super) fn promise_8_nothing_but_claims_and_goodbyes_outlasts_closing(&self) {
        let snapshot = self.machine.snapshot();
        for counts in [snapshot.counts, snapshot.draining] {
            let others = counts.total() - counts.of(Phase::Busy) - counts.of(Phase::Closing);
            assert_eq!(others, 0, "promise 8: {counts:?} after closing");
        }
    }

    fn promise_8_closing_is_prompt(&self, snapshot: &Snapshot) {
        let Some(closed_at) = self.books.closed_at else { return };
        let lent = snapshot.counts.of(Phase::Busy) + snapshot.draining.of(Phase::Busy);
        let since = closed_at.max(self.books.released_at);
        // The driver begins the goodbye late, notices its timeout late, and is told late that it was cut short.
        let bound = self.setting.options.check_timeout + 4 * self.setting.latency + Duration::from_millis(1);
        if lent == 0 && snapshot.state != State::Stopped {
            assert!(self.clock <= since + bound, "promise 8: not stopped {:?} after that", self.clock - since);
        }
    }

    pub(super) fn promise_9_nothing_is_lent_from_a_removed_backend(&self, slot: SlotRef) {
        let seat = self.seats[slot.index()];
        assert!(!self.is_draining(seat.server, seat.term), "promise 9: server {} was removed", seat.server);
    }

    fn backends_are_what_they_are_said_to_be(&mut self, snapshot: &Snapshot) {
        let limit = self.setting.options.connecting_per_backend;
        self.few_probes_run(snapshot);
        for backend in &snapshot.backends {
            let (counts, probes) = (backend.counts, backend.probes);
            assert!(counts.of(Phase::Connecting) + probes.of(Phase::Connecting) <= limit, "{backend:?}");
            match backend.state {
                BackendState::Unknown => {
                    assert_eq!(counts.working(), 0, "{backend:?}");
                    // Checks may have ended an outage in which attempts hung.
                    let is_one = counts.of(Phase::Connecting) + counts.of(Phase::Backoff) <= 1;
                    assert!(is_one || self.setting.options.health_check.is_some(), "{backend:?}");
                }
                BackendState::Dead => {
                    assert_eq!(counts.working(), 0, "{backend:?}");
                }
                BackendState::Removed => {
                    let drains = counts.of(Phase::Busy) + counts.of(Phase::Closing);
                    assert_eq!(counts.total(), drains, "{backend:?}");
                    assert!(drains > 0, "{backend:?} is remembered");
                }
                BackendState::Healthy | BackendState::Unhealthy | BackendState::Ejected => {}
            }
            self.hold_off_is_for_backends_that_accept(backend);
            assert_eq!(probes.working(), 0, "{backend:?}");
        }
    }

    /// A backend that cannot be connected to has no slots for attempts, and one that works has no probes.
    fn backends_are_probed_or_planned_for(&self, snapshot: &Snapshot) {
        for backend in &snapshot.backends {
            let is_down = backend.state == BackendState::Dead || backend.is_failing;
            assert!(!is_down || backend.counts.pending() == 0, "it is not probed, but has slots: {backend:?}");
            assert!(backend.counts.working() == 0 || backend.probes.pending() == 0, "probed, but works: {backend:?}");
        }
    }

    /// No backend is held off that is dead, or that has refused a connect since.
    fn hold_off_is_for_backends_that_accept(&self, backend: &BackendSnapshot) {
        let (Some(until), Some(lasts)) = (backend.held_off_until, self.setting.options.replace_unused_after) else {
            return assert_eq!(backend.held_off_until, None, "there are no hold-offs");
        };
        assert!(backend.state != BackendState::Dead && until <= self.now() + lasts, "{backend:?}");
        if backend.state != BackendState::Removed {
            let server = &self.servers[self.server_of(&backend.backend)];
            let refused = server.refused_at.map(|at| self.start + at);
            assert!(refused.is_none_or(|at| until >= at + lasts), "refused {refused:?}, and still {backend:?}");
        }
    }

    /// While others serve, at most `min(maximum, 16)` run at a time; those that are left from an outage may be more.
    fn few_probes_run(&mut self, snapshot: &Snapshot) {
        let running = snapshot.probes.of(Phase::Connecting) + snapshot.probes.of(Phase::Closing);
        let most = self.machine.options().maximum.min(16);
        let allowed = if self.is_outage() { usize::MAX } else { self.books.probes_allowed };
        assert!(running <= allowed.max(most), "{running} probes run, {most} may: {snapshot:?}");
        self.books.probes_allowed = allowed.min(running).max(most);
    }

    /// With churn limited, a server is given no second slot before its time. What it loses it may lose for many reasons.
    fn servers_get_slots_one_by_one(&mut self, snapshot: &Snapshot) {
        let is_known = |backend: &&BackendSnapshot| backend.state != BackendState::Removed;
        let now_has = |backend: &BackendSnapshot| (self.server_of(&backend.backend), backend.counts.total());
        let slots: BTreeMap<usize, usize> = snapshot.backends.iter().filter(is_known).map(now_has).collect();
        for (&server, &has) in &slots {
            let had = self.books.slots.get(&server).copied().unwrap_or(0);
            if has > had && self.setting.options.churn_per_second.is_some() {
                assert_eq!(has, had + 1, "server {server} is given several at once");
                self.plan_changes(server);
            }
        }
        // One that left the resolver's list and came back is another one.
        self.books.changed_at.retain(|server, _| slots.contains_key(server));
        self.books.slots = slots;
    }

    /// The plan gives a server a slot, or takes a connection from it, and has not done so lately.
    fn plan_changes(&mut self, server: usize) {
        let Some(churn) = self.setting.options.churn_per_second else { return };
        if let Some(before) = self.books.changed_at.insert(server, self.clock) {
            // Rounded down to the nanosecond.
            let between = self.clock - before + Duration::from_nanos(1);
            let least = Duration::from_secs_f64(1.0 / churn);
            assert!(between >= least, "server {server} changes after {between:?}, not {least:?}");
        }
    }

    /// The driver's turn ends a connection in an orderly way: by the plan, unless there is another reason.
    pub(super) fn connection_is_let_go(&mut self, slot: SlotRef, id: usize) {
        let connection = &self.connections[id];
        let (server, age) = (connection.server, self.clock - connection.born);
        let may_be_old = self.setting.options.max_lifetime.is_some_and(|most| age >= most.mul_f64(0.79));
        let seat = self.seats[slot.index()];
        let is_out = self
            .machine
            .snapshot()
            .backends
            .iter()
            .any(|backend| self.server_of(&backend.backend) == server && backend.is_out);
        let above = self.machine.counts().total() > self.machine.options().maximum;
        if !may_be_old && !is_out && !above && !self.is_draining(server, seat.term) {
            self.plan_changes(server);
        }
    }

    /// Backends out of rotation are left at once, and only while enough others are healthy.
    fn few_are_ejected_at_a_time(&mut self, snapshot: &Snapshot) {
        let is_out = |backend: &&BackendSnapshot| backend.is_out;
        for backend in snapshot.backends.iter().filter(is_out) {
            let ends = backend.counts.of(Phase::Busy) + backend.counts.of(Phase::Closing);
            assert_eq!(backend.counts.total(), ends, "ejected, and still in use: {backend:?}");
            assert!(backend.state != BackendState::Removed, "{backend:?} is out twice");
        }
        let until = |backend: &BackendSnapshot| Some((self.server_of(&backend.backend), backend.ejected_until?));
        let out: BTreeMap<usize, Instant> = snapshot.backends.iter().filter_map(until).collect();
        let before = std::mem::replace(&mut self.books.ejected, out);
        let is_dead = |backend: &&BackendSnapshot| backend.state == BackendState::Dead;
        let dead: BTreeSet<usize> =
            snapshot.backends.iter().filter(is_dead).map(|backend| self.server_of(&backend.backend)).collect();
        let were_dead = std::mem::replace(&mut self.books.dead, dead);
        if self.books.ejected.keys().any(|server| !before.contains_key(server)) {
            let (out, most) = (self.books.ejected.len(), self.most_ejected());
            assert!(snapshot.is_panic || out <= most, "{out} of {} are left out, {most} may be", snapshot.known);
        }
        let now = self.now();
        for (&server, &until) in before.iter().filter(|(server, _)| !self.books.ejected.contains_key(server)) {
            // Checks that pass end an ejection as well.
            let may_be_back = self.setting.options.health_check.is_some() || were_dead.contains(&server);
            let in_time = until <= now || !self.servers[server].known || may_be_back;
            assert!(in_time, "server {server} is back too early");
        }
    }

    fn who_is_ejected_comes_back_in_time(&self, snapshot: &Snapshot) {
        let (now, wakes) = (self.now(), self.machine.next_timeout());
        for until in snapshot.backends.iter().filter_map(|backend| backend.ejected_until) {
            assert!(until > now, "its time is over, but it is ejected");
            assert!(wakes.is_some_and(|wakes| wakes <= until), "nobody sees to it that it comes back");
        }
        let some_are_unhealthy = snapshot.backends.iter().any(|backend| backend.is_unhealthy);
        let some_are_out = !self.books.ejected.is_empty() || some_are_unhealthy;
        let is_panic = some_are_out && self.is_panic(snapshot, &self.books.ejected);
        assert_eq!(snapshot.is_panic, is_panic, "panic");
    }

    fn most_ejected(&self) -> usize {
        let known = self.servers.iter().filter(|server| server.known).count();
        // Without ejection, half of the backends may be unhealthy.
        let share = self.setting.options.ejection.as_ref().map_or(0.5, |_| self.setting.max_ejected);
        (known as f64 * share + 0.000_001).floor() as usize
    }

    /// Whether too few are neither dead nor ejected, should these be.
    fn is_panic(&self, snapshot: &Snapshot, ejected: &BTreeMap<usize, Instant>) -> bool {
        let is_healthy = |backend: &&BackendSnapshot| match backend.state {
            BackendState::Dead | BackendState::Unhealthy | BackendState::Removed => false,
            _ => !ejected.contains_key(&self.server_of(&backend.backend)),
        };
        let healthy = snapshot.backends.iter().filter(is_healthy).count();
        healthy == 0 || healthy < snapshot.known - self.most_ejected()
    }

    pub(super) fn nothing_is_lent_from_an_ejected_backend(&self, slot: SlotRef) {
        if self.setting.options.ejection.is_some() {
            let snapshot = self.machine.snapshot();
            let server = self.seats[slot.index()].server;
            let lends = |backend: &&BackendSnapshot| {
                backend.state != BackendState::Removed && self.server_of(&backend.backend) == server
            };
            let found = snapshot.backends.iter().find(lends);
            assert!(found.is_none_or(|backend| !backend.is_out), "server {server} is out of rotation");
        }
    }

    fn states_follow_the_diagram(&mut self) {
        self.books.outage_since = self.is_outage().then(|| self.books.outage_since.unwrap_or(self.clock));
        let (before, after) = (self.books.state, self.machine.state());
        let allowed = match before {
            State::Starting => true,
            State::Running => after != State::Starting,
            // Only one that has never run, and knows nobody, starts again.
            State::Failed => after != State::Starting || (self.machine.dead_of_known().1 == 0 && !self.books.has_run),
            State::Stopping => after == State::Stopping || after == State::Stopped,
            State::Stopped => after == State::Stopped,
            other => panic!("a state this test does not know: {other:?}"),
        };
        assert!(allowed, "{before:?} to {after:?}");
        self.books.state = after;
        self.books.has_run |= after == State::Running;
        let (dead, known) = self.machine.dead_of_known();
        if after == State::Failed && before != State::Failed {
            let is_outage = if known > 0 { self.is_outage() } else { before == State::Starting };
            assert!(is_outage, "failed with {dead} of {known} dead");
        }
        match after {
            State::Starting | State::Running => assert!(known == 0 || dead < known, "all dead and not failed"),
            State::Failed => {
                assert!(known > 0 || self.machine.waiting() == 0, "waits for a failed pool that knows no backend");
            }
            State::Stopping | State::Stopped => {
                assert_eq!(self.machine.waiting(), 0, "waits for a pool that is {after:?}");
            }
            other => panic!("a state this test does not know: {other:?}"),
        }
    }

    /// Idle connections of a failing server do not count: they are withheld while another can serve.
    fn nobody_waits_for_what_is_idle(&self) {
        if self.line.is_empty() || self.machine.counts().of(Phase::Idle) == 0 {
            return;
        }
        let failing = self.failing_servers(&self.machine.snapshot());
        let is_idle = |seat: &&Seat| matches!(seat.content, Content::Idle(_)) && !failing.contains(&seat.server);
        let idle: Vec<usize> = self.seats.iter().filter(is_idle).map(|seat| seat.server).collect();
        for &claim in self.line.values().filter(|_| !idle.is_empty()) {
            let avoided = self.avoided_by(claim);
            let idle = idle.iter().filter(|&&server| Some(server) != avoided).count();
            assert_eq!(idle, 0, "claim {claim} waits while {idle} are idle that it would take");
            let late = self.clock.saturating_sub(self.relents_at(claim));
            assert!(late <= 4 * self.setting.latency, "claim {claim} is still choosy {late:?} too late");
        }
    }

    pub(super) fn failing_servers(&self, snapshot: &Snapshot) -> Vec<usize> {
        let failing = snapshot.backends.iter().filter(|backend| backend.failing || backend.unreliable);
        failing.map(|backend| self.server_of(&backend.backend)).collect()
    }

    /// When a claim takes whatever there is.
    fn relents_at(&self, claim: usize) -> Moment {
        let timeout = self.claims[claim].request.timeout;
        let came = self.claims[claim].deadline.expect("who waits has a deadline") - timeout;
        came + (timeout / 2).min(self.setting.options.target_delay.unwrap_or(Duration::MAX))
    }

    /// Who waits beside something idle avoids it for good reason, or it is withheld for one.
    fn another_can_serve(&self, snapshot: &Snapshot) {
        let has_room = snapshot.counts.total() < snapshot.maximum;
        let can_serve = |backend: &BackendSnapshot| match backend.state {
            BackendState::Dead | BackendState::Removed => false,
            _ if backend.is_out => false,
            _ => {
                let counts = backend.counts;
                has_room || counts.working() + counts.suspects() + counts.of(Phase::Connecting) > 0
            }
        };
        for &claim in self.line.values().filter(|_| snapshot.counts.of(Phase::Idle) > 0) {
            let mut idle = snapshot.backends.iter().filter(|backend| backend.counts.of(Phase::Idle) > 0);
            let withheld = idle.all(|backend| backend.failing || backend.unreliable);
            let is_avoided =
                |backend: &BackendSnapshot| Some(self.server_of(&backend.backend)) == self.avoided_by(claim);
            let others = |backend: &&BackendSnapshot| !backend.failing && (withheld || !is_avoided(backend));
            let another = snapshot.backends.iter().filter(others).any(can_serve);
            assert!(another, "claim {claim} waits for nobody, beside something idle");
            assert!(withheld || self.clock < self.relents_at(claim), "claim {claim} is still choosy");
        }
    }

    /// Unless it was notified, the driver sleeps until the time it was told: there must be nothing for it to do before.
    fn the_driver_knows_when_it_is_needed(&self) {
        if self.driver_is_notified() {
            return;
        }
        assert!(!self.driver_has_work(), "the driver was not told of its work");
        let (next, armed) = (self.machine.next_timeout(), self.driver.armed);
        let earlier = next.is_some_and(|next| armed.is_none_or(|armed| next < armed));
        assert!(!earlier, "due at {next:?}, but the driver sleeps until {armed:?}");
    }

    /// Every known backend is dead or unhealthy, and no connection works; as far as the machine has noticed.
    fn is_outage(&self) -> bool {
        let (dead, known) = self.machine.dead_of_known();
        let all_dead = dead == known && known > 0;
        all_dead || self.machine.state() == State::Failed && self.all_are_down(&self.machine.snapshot())
    }

    fn all_are_down(&self, snapshot: &Snapshot) -> bool {
        let is_down = |backend: &&BackendSnapshot| backend.state == BackendState::Dead || backend.is_unhealthy;
        let is_known = |backend: &&BackendSnapshot| backend.state != BackendState::Removed;
        let down = snapshot.backends.iter().filter(is_known).filter(is_down).count();
        snapshot.known > 0 && down == snapshot.known && snapshot.counts.working() == 0
    }

    /// A claim fails in an outage: at its deadline, after `outage_wait`, or when an attempt that began later failed at every backend.
    fn failed_in_time(&self, deadline: Moment, came: Moment) {
        assert!(self.is_outage(), "failed, but some backend is neither dead nor unhealthy");
        let began = self.books.outage_since.unwrap_or(self.clock);
        let wait = self.setting.options.outage_wait;
        let tried_all = self.servers.iter().filter(|server| server.known).all(|server| server.tried >= Some(came));
        let is_over = if wait.is_zero() { tried_all } else { self.clock + CLOCKS_DIFFER >= came.max(began) + wait };
        assert!(deadline <= self.clock || is_over, "failed too early: came at {came:?}, outage since {began:?}");
    }

    /// In an outage every backend with a slot is tried within a second; an attempt that hangs does not keep others from it.
    fn attempts_go_on_in_an_outage(&self, snapshot: &Snapshot) {
        if !self.is_outage() {
            return;
        }
        let second = Duration::from_secs(1);
        let limit = self.setting.options.connecting_per_backend;
        for backend in &snapshot.backends {
            if let Some(at) = backend.next_attempt {
                assert!(at <= self.now() + second, "tried too late: {backend:?}");
            }
        }
        for (backend, slots) in self.machine.observe().backends() {
            let (counts, now) = (backend.probes, self.now());
            let hangs = |slot: &&SlotGlance| slot.at.is_some_and(|began| began + second < now);
            let connecting = slots.iter().filter(|slot| slot.phase == Phase::Connecting);
            let all_hang = counts.of(Phase::Connecting) > 0 && connecting.clone().all(|slot| hangs(&slot));
            let is_next = counts.total() > counts.of(Phase::Connecting) || counts.of(Phase::Connecting) == limit;
            assert!(!all_hang || is_next, "nothing is tried beside what hangs: {backend:?}");
        }
    }

    pub(super) fn refusal_is_true(&self, claim: usize, refusal: Refusal) {
        let claim = &self.claims[claim];
        let state = self.machine.state();
        match refusal {
            Refusal::TimedOut { .. } => {
                // It may have begun just now.
                assert!(self.books.outage_since.is_none(), "timed out in an outage");
                assert!(claim.deadline.is_some_and(|deadline| deadline <= self.clock), "timed out too early");
            }
            Refusal::Shed => {
                let target = self.setting.options.target_delay.expect("shed without a target");
                let came = claim.deadline.expect("only those who wait are shed") - claim.request.timeout;
                assert!(self.clock - came >= target, "shed too early");
            }
            Refusal::NoBackends => assert!(claim.request.error_on_empty && self.machine.dead_of_known().1 == 0),
            Refusal::Failed { dead, known } => {
                assert_eq!(state, State::Failed);
                assert_eq!((dead, known), self.machine.dead_of_known());
                if let (Some(deadline), true) = (claim.deadline, known > 0) {
                    self.failed_in_time(deadline, deadline - claim.request.timeout);
                }
            }
            Refusal::Full => {
                let most = self.setting.options.max_waiters.expect("full without a limit");
                assert!(self.line.len() >= most, "full, but it is not");
            }
            Refusal::Busy => {
                let snapshot = self.machine.snapshot();
                let idle = snapshot.backends.iter().filter(|backend| backend.counts.of(Phase::Idle) > 0);
                // It does not overtake those who wait rather than take what an unreliable server has.
                let withheld =
                    |backend: &BackendSnapshot| backend.failing || backend.unreliable && !self.line.is_empty();
                assert!(idle.into_iter().all(withheld), "busy, but something is idle");
                assert_eq!(claim.deadline, None);
            }
            Refusal::Closed => assert!(matches!(state, State::Stopping | State::Stopped)),
        }
    }
}

impl Content {
    fn phase(self) -> Option<Phase> {
        match self {
            Content::Nothing => None,
            Content::Dialling => Some(Phase::Connecting),
            Content::Idle(_) => Some(Phase::Idle),
            Content::Lent(_) => Some(Phase::Busy),
            Content::Checking(_) | Content::Suspect(_) => Some(Phase::Checking),
            Content::Closing(_) => Some(Phase::Closing),
        }
    }
}

/// Of a slot that is held or backs off nothing shows outside.
fn visible(counts: &[Counts]) -> [usize; PHASES] {
    Phase::ALL.map(|phase| match phase {
        Phase::Held | Phase::Backoff => 0,
        _ => counts.iter().map(|counts| counts.of(phase)).sum(),
    })
}

fn add(sum: [usize; PHASES], counts: &Counts) -> [usize; PHASES] {
    std::array::from_fn(|at| sum[at] + counts.of(Phase::ALL[at]))
}
