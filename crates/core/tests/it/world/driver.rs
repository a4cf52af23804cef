//! The driver: does what the machine asks for, a little late, and tells it what came of it.

use super::servers::Behaviour;
use super::{Content, Event, Seat, Setting, World};
use carom_core::health_check::Schedule;
use carom_core::pool::{Action, Delivery, Ending};
use carom_core::slot::SlotRef;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct Driver {
    /// Asked for, not yet begun.
    asked: VecDeque<Action>,
    tasks: BTreeMap<SlotRef, Task>,
    /// When it wakes next.
    wakes_at: Option<Duration>,
    /// Whether that is because it was notified, not because time is up.
    notified: bool,
    /// What the machine asks for now follows from time having passed, and from the plan.
    has_its_turn: bool,
    /// Until when it sleeps, as the machine has been told.
    pub(super) armed: Option<std::time::Instant>,
}

#[derive(Debug)]
struct Task {
    kind: Kind,
    abandoned: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Dial { server: usize, term: u32, connection: Option<usize> },
    Check(usize),
    Close(usize),
}

impl World {
    /// Whether the driver has all it needs to know: it will wake by itself or has been notified.
    pub(super) fn driver_is_notified(&self) -> bool {
        self.driver.notified
    }

    pub(super) fn driver_has_work(&self) -> bool {
        !self.driver.asked.is_empty()
    }

    pub(super) fn no_task_is_left(&self) -> bool {
        self.driver.tasks.is_empty() && self.driver.asked.is_empty()
    }

    /// Takes what the machine asks for and hands out. To be called after every verb, whoever called it.
    pub(super) fn after_machine(&mut self) {
        while let Some(action) = self.machine.poll_action() {
            self.note(|_| format!("  asked for {action:?}"));
            self.enter_in_the_books(&action);
            self.driver.asked.push_back(action);
        }
        self.hand_over();
        if self.machine.take_attention() {
            self.driver.notified = true;
            let latency = self.latency();
            self.wake_driver_at(self.clock + latency);
        }
        self.check();
    }

    /// Callers get what they waited for.
    pub(super) fn hand_over(&mut self) {
        while let Some(delivery) = self.machine.poll_delivery() {
            self.note(|_| format!("  {delivery:?}"));
            match delivery {
                Delivery::Grant { waiter, slot } => {
                    self.figures.served();
                    self.deliver_grant(waiter, slot);
                }
                Delivery::Refuse { waiter, refusal } => self.deliver_refusal(waiter, refusal),
            }
        }
    }

    /// The driver itself has told the machine something. It may go on at once, or be held up.
    pub(super) fn after_driver_call(&mut self) {
        self.after_machine();
        if self.random.chance(0.5) {
            self.driver_works();
        }
    }

    fn wake_driver_at(&mut self, at: Duration) {
        if self.driver.wakes_at.is_none_or(|wakes_at| at < wakes_at) {
            self.driver.wakes_at = Some(at);
            self.later(at - self.clock, Event::DriverWakes);
        }
    }

    pub(super) fn driver_wakes(&mut self) {
        if self.driver.wakes_at == Some(self.clock) {
            self.driver_works();
        }
    }

    fn driver_works(&mut self) {
        self.driver.wakes_at = None;
        let now = self.now();
        self.driver.has_its_turn = true;
        self.machine.handle_timeout(now);
        self.after_machine();
        self.driver.has_its_turn = false;
        while let Some(action) = self.driver.asked.pop_front() {
            self.begin(action);
        }
        self.driver.notified = false;
        self.driver.wakes_at = None;
        self.driver.armed = self.machine.arm();
        if let Some(armed) = self.driver.armed {
            let latency = self.latency();
            self.wake_driver_at((armed - self.start).max(self.clock) + latency);
        }
        self.check();
        self.check_planned();
    }

    /// What the machine asks for is so from now on, whenever the driver comes to do it.
    fn enter_in_the_books(&mut self, action: &Action) {
        match action {
            Action::Connect { slot, backend } => {
                self.figures.connects += 1;
                let server = self.server_of(backend);
                let (term, index) = (self.servers[server].term, slot.index());
                if self.seats.len() <= index {
                    self.seats.resize(index + 1, Seat { server, term, content: Content::Nothing, dialled: self.clock });
                }
                assert_eq!(self.seats[index].content, Content::Nothing, "asked to connect what is in use: {slot:?}");
                self.seats[index] = Seat { server, term, content: Content::Dialling, dialled: self.clock };
            }
            Action::Check { slot, .. } | Action::Recycle { slot } => {
                let (Content::Idle(id) | Content::Suspect(id)) = self.seats[slot.index()].content else {
                    panic!("checks what is not idle")
                };
                self.seats[slot.index()].content = Content::Checking(id);
            }
            Action::HealthCheck { .. } => {}
            Action::Suspect { slot } => {
                let Content::Idle(id) = self.seats[slot.index()].content else { panic!("suspects what is not idle") };
                self.seats[slot.index()].content = Content::Suspect(id);
            }
            Action::Overdue { slot } => {
                let content = self.seats[slot.index()].content;
                assert!(matches!(content, Content::Lent(_)), "overdue, but {content:?}");
            }
            Action::Watch { slot } => {
                let content = self.seats[slot.index()].content;
                assert!(matches!(content, Content::Idle(_)), "watches what is {content:?}");
            }
            Action::Close { slot, goodbye } => {
                let content = self.seats[slot.index()].content;
                let (Content::Idle(id) | Content::Suspect(id)) = content else { panic!("closes what is not idle") };
                // A suspect closes for the sake of the one that replaces it.
                if *goodbye && self.driver.has_its_turn && content == Content::Idle(id) {
                    self.connection_is_let_go(*slot, id);
                }
                self.seats[slot.index()].content = Content::Closing(Some(id));
            }
            Action::Abandon { task, slot, timed_out } => {
                assert_eq!(task.index(), slot.index());
                let dials = self.seats[slot.index()].content == Content::Dialling;
                self.figures.connect_failures += u64::from(dials && timed_out.is_some());
                if dials && timed_out.is_some() {
                    self.was_tried(*slot);
                }
                self.went_wrong(self.seats[slot.index()].server);
                let seat = &mut self.seats[slot.index()];
                seat.content = match seat.content {
                    Content::Dialling => Content::Closing(None),
                    Content::Checking(id) => {
                        self.connections[id].doubtful = true;
                        Content::Closing(Some(id))
                    }
                    Content::Closing(id) => Content::Closing(id),
                    other @ (Content::Nothing | Content::Idle(_) | Content::Lent(_) | Content::Suspect(_)) => {
                        panic!("abandons {other:?}")
                    }
                };
            }
        }
    }

    /// An attempt has failed.
    fn was_tried(&mut self, slot: SlotRef) {
        let seat = self.seats[slot.index()];
        if !self.is_draining(seat.server, seat.term) {
            let server = &mut self.servers[seat.server];
            server.tried = server.tried.max(Some(seat.dialled));
        }
    }

    fn begin(&mut self, action: Action) {
        match action {
            Action::Connect { slot, backend } => {
                let server = self.server_of(&backend);
                let term = self.seats[slot.index()].term;
                self.begin_task(slot, Kind::Dial { server, term, connection: None });
                self.dialled(slot, server);
            }
            Action::Check { slot, .. } | Action::Recycle { slot } => {
                let (Content::Checking(id) | Content::Closing(Some(id))) = self.seats[slot.index()].content else {
                    panic!("nothing to check")
                };
                self.begin_task(slot, Kind::Check(id));
                let stalls = self.setting.stalls;
                let Setting { liveness, checks, .. } = self.setting;
                let alive = self.connections[id].alive;
                let (has_round_trip, passes) = match action {
                    Action::Check { suspect: true, .. } if liveness && !alive => (false, Some(false)),
                    Action::Check { suspect, .. } if !checks => (false, (suspect && liveness).then_some(true)),
                    _ => (true, Some(alive)),
                };
                let hangs = self.hangs(self.connections[id].server);
                if !has_round_trip {
                    let latency = self.latency();
                    self.later(latency, Event::CheckEnds(slot, passes));
                } else if !hangs && !self.random.chance(stalls) {
                    let after = self.between(Duration::ZERO, self.round_trip());
                    self.later(after, Event::CheckEnds(slot, passes));
                }
            }
            Action::Watch { slot } => {
                if let (Content::Idle(id), true) = (self.seats[slot.index()].content, self.machine.is_current(slot)) {
                    if self.connections[id].alive || !self.setting.liveness {
                        self.connections[id].watchers.push(slot);
                    } else {
                        let latency = self.latency();
                        self.later(latency, Event::WatchEnds(slot, Ending::Found));
                    }
                }
            }
            Action::Close { slot, goodbye } => {
                let Content::Closing(Some(id)) = self.seats[slot.index()].content else { panic!("nothing to close") };
                self.begin_task(slot, Kind::Close(id));
                let stalls = self.setting.stalls;
                if !goodbye || !self.random.chance(stalls) {
                    let after = if goodbye { self.between(Duration::ZERO, self.round_trip()) } else { self.latency() };
                    self.later(after, Event::CloseEnds(slot));
                }
            }
            Action::HealthCheck { check, backend } => {
                let server = self.server_of(&backend);
                let passes = self.servers[server].behaviour == Behaviour::Healthy || self.random.chance(0.3);
                let timeout =
                    self.setting.options.health_check.as_ref().map(Schedule::check_timeout).unwrap_or_default();
                let after = if self.hangs(server) { timeout } else { self.between(Duration::ZERO, self.round_trip()) };
                self.later(after.min(timeout), Event::HealthChecked(check, passes && !self.hangs(server)));
            }
            Action::Overdue { .. } | Action::Suspect { .. } => {}
            Action::Abandon { task, slot, .. } => {
                if let Some(running) = self.driver.tasks.get_mut(&task) {
                    running.abandoned = true;
                }
                let latency = self.latency();
                self.later(latency, Event::AbandonEnds { task, slot });
            }
        }
    }

    /// What a check or a goodbye takes at most, if it does not hang.
    fn round_trip(&self) -> Duration {
        self.setting.dial.min(self.setting.options.check_timeout / 2)
    }

    fn begin_task(&mut self, slot: SlotRef, kind: Kind) {
        let before = self.driver.tasks.insert(slot, Task { kind, abandoned: false });
        assert!(before.is_none(), "{slot:?} was asked for twice");
    }

    /// Who is dialled by a task that is still there, abandoned or not.
    pub(super) fn dialling(&self, task: SlotRef) -> Option<(usize, u32)> {
        match self.driver.tasks.get(&task)?.kind {
            Kind::Dial { server, term, .. } => Some((server, term)),
            Kind::Check(_) | Kind::Close(_) => None,
        }
    }

    /// How many dials were accepted so far.
    pub(crate) fn dials(&self) -> usize {
        self.connections.len()
    }

    /// How many dials a server has accepted so far.
    pub(crate) fn dials_to(&self, server: usize) -> usize {
        self.connections.iter().filter(|connection| connection.server == server).count()
    }

    pub(super) fn give_dial(&mut self, task: SlotRef, id: usize) {
        if let Some(Task { kind: Kind::Dial { connection, .. }, .. }) = self.driver.tasks.get_mut(&task) {
            *connection = Some(id);
        }
    }

    /// A task's result reaches the driver: what is left of it, unless it was abandoned. Such a result goes nowhere.
    fn result_of(&mut self, slot: SlotRef) -> Option<Kind> {
        let abandoned = self.driver.tasks.get(&slot)?.abandoned;
        if abandoned {
            assert!(!self.machine.is_current(slot) || self.is_closing(slot), "abandoned and still waited for");
            return None;
        }
        self.driver.tasks.remove(&slot).map(|task| task.kind)
    }

    fn is_closing(&self, slot: SlotRef) -> bool {
        matches!(self.seats[slot.index()].content, Content::Closing(_))
    }

    pub(super) fn dial_ends(&mut self, slot: SlotRef, connected: bool) {
        let Some(Kind::Dial { connection, .. }) = self.result_of(slot) else { return };
        let now = self.now();
        match connection.filter(|_| connected) {
            // Whoever abandoned it has not come round to saying so: the result is dropped, whatever it is.
            Some(id) if !self.machine.is_current(slot) => {
                self.drop_connection(id);
                self.machine.handle_connected(now, slot, self.setting.recycles);
            }
            Some(id) => {
                self.seats[slot.index()].content = Content::Idle(id);
                self.machine.handle_connected(now, slot, self.setting.recycles);
            }
            None => {
                if self.machine.is_current(slot) {
                    self.figures.connect_failures += 1;
                    self.was_tried(slot);
                    let server = self.seats[slot.index()].server;
                    self.went_wrong(server);
                    self.servers[server].refused_at = Some(self.clock);
                    self.seats[slot.index()].content = Content::Nothing;
                }
                self.machine.handle_connect_failed(now, slot);
            }
        }
        self.after_driver_call();
    }

    pub(super) fn check_ends(&mut self, slot: SlotRef, passed: Option<bool>) {
        let Some(Kind::Check(id)) = self.result_of(slot) else { return };
        let now = self.now();
        if !self.machine.is_current(slot) {
            self.drop_connection(id);
        } else if passed != Some(false) {
            self.seats[slot.index()].content = Content::Idle(id);
        } else {
            self.failure_was_seen(id);
            self.drop_connection(id);
            self.seats[slot.index()].content = Content::Nothing;
        }
        match passed {
            Some(passed) => {
                self.machine.handle_checked(now, slot, passed);
            }
            None => self.machine.handle_unchecked(now, slot),
        }
        self.after_driver_call();
    }

    pub(super) fn close_ends(&mut self, slot: SlotRef) {
        let Some(Kind::Close(id)) = self.result_of(slot) else { return };
        self.drop_connection(id);
        self.seats[slot.index()].content = Content::Nothing;
        let now = self.now();
        self.machine.handle_closed(now, slot);
        self.after_driver_call();
    }

    /// What was abandoned has really ended; only now is the connection it may have had closed.
    pub(super) fn abandon_ends(&mut self, task: SlotRef, slot: SlotRef) {
        if let Some(ended) = self.driver.tasks.remove(&task) {
            match ended.kind {
                Kind::Dial { connection, .. } => connection.into_iter().for_each(|id| self.drop_connection(id)),
                Kind::Check(id) | Kind::Close(id) => self.drop_connection(id),
            }
        }
        if self.machine.is_current(slot) {
            self.seats[slot.index()].content = Content::Nothing;
        }
        let now = self.now();
        self.machine.handle_closed(now, slot);
        self.after_driver_call();
    }

    /// The machine hears of a connection that it has broken, if so it has.
    pub(super) fn breaks(&mut self, slot: SlotRef, id: usize) {
        if self.connections[id].broken {
            self.failure_was_seen(id);
            let now = self.now();
            self.machine.handle_broken(now, slot);
            self.after_machine();
        }
    }

    pub(super) fn watch_ends(&mut self, slot: SlotRef, ending: Ending) {
        let now = self.now();
        if self.machine.is_current(slot) {
            // The connection may have ended long before this was noticed.
            self.went_wrong(self.seats[slot.index()].server);
            if let Content::Idle(id) = self.seats[slot.index()].content {
                self.breaks(slot, id);
            }
        }
        self.machine.handle_ended(now, slot, ending);
        self.after_driver_call();
    }
}
