//! A simulated world around the set machine: servers that misbehave, a driver, callers, a resolver, and a clock.
//!
//! Everything follows from one seed. The world keeps its own books of every dial, connection and lease and holds the
//! machine against them after every single event; `promises.rs` says what must hold.
//!
//! ```text
//!   setting   what kind of world: sizes, policies, how often things go wrong
//!   callers   lease, wait, give up, hold, release
//!   promises  the books, and what must hold
//!   figures   what has happened so far, counted again
//! ```

mod callers;
mod figures;
mod promises;
mod setting;

pub(crate) use crate::limits::ms;
pub(crate) use crate::schedules::{Trace, for_each_schedule};
pub(crate) use setting::Setting;

use crate::limits::one_of;
use callers::Caller;
use carom_core::backend::Backend;
use carom_core::random::Random;
use carom_core::set::{Action, ConnectionId, Machine, WaiterId};
use figures::Figures;
use promises::Books;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A moment, as time since the world began.
pub(crate) type Moment = Duration;

/// What can happen.
#[derive(Clone, Copy, Debug)]
enum Event {
    Dialled(ConnectionId, bool),
    Ends(ConnectionId),
    CallerComes,
    GivesUp(WaiterId),
    Releases(ConnectionId),
    WeatherTurns,
    BackendsChange,
    ClockJumps,
    /// Something is said of a connection that is gone.
    Stray,
}

/// How a server treats dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Healthy,
    Refuses,
    Hangs,
    /// Accepts, and ends the connection at once.
    Fickle,
}

pub(crate) struct World {
    pub(crate) machine: Machine,
    pub(crate) setting: Setting,
    pub(crate) random: Random,
    pub(crate) clock: Moment,
    start: Instant,
    events: BTreeMap<(Moment, u64), Event>,
    sequence: u64,
    behaviour: Vec<Behaviour>,
    /// Which servers the resolver knows, with their priorities.
    known: BTreeMap<usize, u16>,
    waiting: BTreeMap<WaiterId, Caller>,
    books: Books,
    figures: Figures,
    calm: bool,
    /// Since when a server has accepted connections after all were down.
    back_since: Option<Moment>,
    trace: Trace,
}

impl World {
    /// A world of this kind; nothing has happened yet.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn new(setting: Setting, seed: u64, trace: &Trace) -> World {
        let mut random = Random::new(seed ^ 0x5e7_5e7);
        let start = Instant::now();
        let machine = Machine::new(setting.options.clone(), random.bits(), start).expect("the setting makes sense");
        let mut world = World {
            machine,
            random,
            clock: Duration::ZERO,
            start,
            events: BTreeMap::new(),
            sequence: 0,
            behaviour: vec![Behaviour::Healthy; setting.servers],
            known: BTreeMap::new(),
            waiting: BTreeMap::new(),
            books: Books::default(),
            figures: Figures::default(),
            calm: false,
            back_since: None,
            trace: trace.clone(),
            setting,
        };
        world.note(|world| format!("{:?}", world.setting));
        for event in [Event::CallerComes, Event::WeatherTurns, Event::BackendsChange, Event::ClockJumps, Event::Stray] {
            world.recur(event);
        }
        world
    }

    /// The resolver knows all servers.
    pub(crate) fn publish_all(&mut self) {
        self.known = (0..self.setting.servers).map(|server| (server, 0)).collect();
        for priority in self.known.values_mut() {
            *priority = self.random.below(self.setting.priorities) as u16;
        }
        self.publish();
    }

    pub(crate) fn behave(&mut self, server: usize, behaviour: Behaviour) {
        self.behaviour[server] = behaviour;
    }

    /// The connections to a server end.
    pub(crate) fn cut_off(&mut self, server: usize) {
        for id in self.books.connections_to(server) {
            self.note(|_| format!("{id:?} is cut off"));
            self.books.ended_by_itself(self.clock, id, &self.setting);
            self.machine.handle_ended(self.now(), id);
            self.after_machine();
        }
    }

    /// A server accepts connections again after all were down.
    pub(crate) fn come_back(&mut self, server: usize) {
        self.behave(server, Behaviour::Healthy);
        self.back_since = Some(self.clock);
        self.note(|_| format!("{server} is back"));
    }

    /// Nothing fails or changes any more, and callers stay away.
    pub(crate) fn calm_down(&mut self) {
        self.calm = true;
        self.behaviour.fill(Behaviour::Healthy);
        let kept = |event: &Event| matches!(event, Event::Dialled(..) | Event::Releases(_) | Event::GivesUp(_));
        self.events.retain(|_, event| kept(event));
        self.note(|_| "calm".to_owned());
    }

    /// No more callers on their own account.
    pub(crate) fn stop_calling(&mut self) {
        self.events.retain(|_, event| !matches!(event, Event::CallerComes));
    }

    pub(crate) fn close(&mut self) {
        self.note(|_| "close".to_owned());
        self.books.closing = true;
        self.machine.close(self.now());
        self.after_machine();
    }

    pub(crate) fn abandon(&mut self) {
        self.note(|_| "abandon".to_owned());
        (self.books.closing, self.books.abandoned) = (true, true);
        self.machine.abandon(self.now());
        self.after_machine();
    }

    /// Lets things happen for so long.
    pub(crate) fn run_for(&mut self, time: Duration) {
        let until = self.clock + time;
        while self.step(until) {}
        self.clock = self.clock.max(until);
    }

    /// Closes the set, lets every holder let go, and sees that nothing is left.
    pub(crate) fn end(&mut self) {
        self.close();
        self.calm_down();
        self.run_for(self.setting.hold * 2 + ms(1));
        self.promise_nothing_is_left();
    }

    fn step(&mut self, until: Moment) -> bool {
        self.promise_time_goes_on();
        let late = self.setting.late.mul_f64(self.random.fraction());
        let wake = self.machine.next_timeout().map(|at| (at - self.start).max(self.clock) + late);
        let event = self.events.first_key_value().map(|(key, _)| *key);
        match (wake, event) {
            (Some(wake), event) if event.is_none_or(|(at, _)| wake <= at) => {
                if wake > until {
                    return false;
                }
                self.clock = wake;
                self.note(|_| "wake".to_owned());
                self.machine.handle_timeout(self.now());
                self.figures.time_passes = true;
                self.after_machine();
                self.figures.time_passes = false;
                self.promise_no_busy_loop();
                self.promise_everything_due_is_done();
            }
            (_, Some(key)) if key.0 <= until => {
                self.clock = self.clock.max(key.0);
                let event = self.events.remove(&key).expect("it was just seen");
                self.happen(event);
                self.after_machine();
                self.books.wakes = 0;
            }
            (Some(_) | None, Some(_) | None) => return false,
        }
        true
    }

    fn happen(&mut self, event: Event) {
        self.note(|_| format!("{event:?}"));
        let now = self.now();
        match event {
            Event::Dialled(id, accepted) => self.dial_ends(id, accepted),
            Event::Ends(id) => {
                self.books.ended_by_itself(self.clock, id, &self.setting);
                self.machine.handle_ended(now, id);
            }
            Event::CallerComes => {
                self.caller_comes();
                self.recur(event);
            }
            Event::GivesUp(waiter) => self.give_up(waiter),
            Event::Releases(id) => {
                self.judge(id);
                if self.random.chance(self.setting.retires) {
                    self.note(|_| "  retires it".to_owned());
                    self.books.retired(self.clock, id, &self.setting);
                    self.machine.retire(now, id);
                    self.after_machine();
                }
                self.books.released(self.clock, id);
                self.machine.release(now, id);
                if self.setting.closes_after.is_some_and(|uses| self.books.uses(id) == uses) {
                    self.after_machine();
                    self.note(|_| format!("  {id:?} is closed after use"));
                    self.books.ended_by_itself(self.clock, id, &self.setting);
                    self.machine.handle_ended(now, id);
                }
            }
            Event::WeatherTurns => {
                let server = self.random.below(self.behaviour.len());
                let weathers = [Behaviour::Healthy, Behaviour::Refuses, Behaviour::Hangs, Behaviour::Fickle];
                self.behaviour[server] = one_of(&mut self.random, &weathers);
                self.note(|world| format!("  {:?}", world.behaviour));
                self.recur(event);
            }
            Event::BackendsChange => {
                self.change_backends();
                self.recur(event);
            }
            Event::ClockJumps => {
                self.clock += one_of(&mut self.random, &[ms(100), ms(2_000), ms(30_000)]);
                self.recur(event);
            }
            Event::Stray => {
                self.stray();
                self.recur(event);
            }
        }
    }

    /// Somebody who had a lease says how it was served.
    fn judge(&mut self, id: ConnectionId) {
        let Some(server) = self.books.server_of(id) else { return };
        if self.random.chance(self.setting.reports_failure) && !self.calm {
            self.note(|_| format!("  reports a failure of {server}"));
            self.books.failure_reported.insert(server, self.clock);
            self.machine.report_failure(self.now(), &backend(server));
            self.after_machine();
        } else {
            self.machine.report_success(self.now(), &backend(server), None);
            if self.random.chance(self.setting.reports) {
                self.note(|_| format!("  reports a use of {id:?}"));
                self.books.reported(id, server);
                self.machine.handle_served(self.now(), &backend(server), id);
                self.after_machine();
            }
        }
    }

    fn change_backends(&mut self) {
        if self.random.chance(0.02) {
            self.note(|_| "  the resolver has failed".to_owned());
            self.machine.handle_resolver_failed();
            self.after_machine();
        }
        let server = self.random.below(self.setting.servers);
        if self.random.chance(0.1) {
            self.known.clear();
        } else if self.known.contains_key(&server) && self.random.chance(0.7) {
            self.known.remove(&server);
        } else {
            self.known.insert(server, self.random.below(self.setting.priorities) as u16);
        }
        self.publish();
    }

    fn publish(&mut self) {
        self.note(|world| format!("  known: {:?}", world.known));
        let rank = |(&server, &priority): (&usize, &u16)| backend(server).with_priority(priority, 0);
        let backends: Vec<Backend> = self.known.iter().map(rank).collect();
        let known = self.known.keys().copied().collect();
        self.books.published(self.clock, known, &self.setting);
        self.machine.handle_backends(self.now(), &backends);
        self.after_machine();
    }

    fn dial_ends(&mut self, id: ConnectionId, accepted: bool) {
        let now = self.now();
        let Some(server) = self.books.dial_of(id) else {
            // Aborted meanwhile; the driver had not heard of it.
            self.promise_strays_change_nothing(|machine| {
                if accepted { machine.handle_connected(now, id) } else { machine.handle_failed(now, id) }
            });
            return;
        };
        if !accepted {
            self.books.dial_failed(self.clock, id, &self.setting);
            self.figures.connect_failures += 1;
            self.machine.handle_failed(now, id);
            return;
        }
        self.books.connected(self.clock, id);
        self.machine.handle_connected(now, id);
        let fickle = self.behaviour[server] == Behaviour::Fickle;
        if fickle || (!self.calm && self.random.chance(self.setting.mortal)) {
            let life = if fickle { ms(1) } else { one_of(&mut self.random, &[ms(1), ms(100), ms(3_000)]) };
            let ends = self.clock + life.mul_f64(self.random.fraction());
            self.at(ends, Event::Ends(id));
        }
    }

    /// Something late is said of what is gone: it changes nothing.
    fn stray(&mut self) {
        let Some(id) = self.books.some_gone(&mut self.random) else { return };
        let (now, kind) = (self.now(), self.random.below(5));
        self.promise_strays_change_nothing(|machine| match kind {
            0 => machine.handle_connected(now, id),
            1 => machine.handle_failed(now, id),
            2 => machine.handle_ended(now, id),
            3 => machine.retire(now, id),
            _ => machine.release(now, id),
        });
    }

    fn after_machine(&mut self) {
        // As in a driver: callers have their leases before anything is done to a connection.
        while let Some(delivery) = self.machine.poll_delivery() {
            self.note(|_| format!("  {delivery:?}"));
            self.deliver(delivery);
        }
        while let Some(action) = self.machine.poll_action() {
            self.note(|_| format!("  {action:?}"));
            self.promise_actions(&action);
            if let Action::Dial { connection, backend, timeout } = action {
                self.figures.connects += 1;
                let server = number(&backend);
                let behaviour = self.behaviour[server];
                let takes = self.setting.dial.mul_f64(self.random.fraction());
                let (after, accepted) = match behaviour {
                    Behaviour::Healthy | Behaviour::Fickle => (takes, true),
                    Behaviour::Refuses => (takes, false),
                    Behaviour::Hangs => (timeout, false),
                };
                self.at(self.clock + after.min(timeout), Event::Dialled(connection, accepted));
            }
        }
        self.check();
    }

    fn recur(&mut self, event: Event) {
        let every = match event {
            Event::CallerComes => Some(self.setting.caller_every),
            Event::WeatherTurns => self.setting.weather_every,
            Event::BackendsChange => self.setting.backends_every,
            Event::ClockJumps => self.setting.jump_every,
            Event::Stray => self.setting.stray_every,
            Event::Dialled(..) | Event::Ends(_) | Event::GivesUp(_) | Event::Releases(_) => None,
        };
        if let Some(every) = every.filter(|_| !self.calm) {
            let after = every.mul_f64(self.random.fraction() * 2.0);
            self.at(self.clock + after, event);
        }
    }

    fn at(&mut self, at: Moment, event: Event) {
        self.sequence += 1;
        self.events.insert((at, self.sequence), event);
    }

    fn now(&self) -> Instant {
        self.start + self.clock
    }

    fn note(&self, line: impl FnOnce(&World) -> String) {
        if self.trace.is_on() {
            self.trace.add(format!("{:>12.6} {}", self.clock.as_secs_f64(), line(self)));
        }
    }
}

pub(crate) fn backend(server: usize) -> Backend {
    Backend::fixed(([10, 0, 0, 1], server as u16 + 1).into())
}

pub(crate) fn number(backend: &Backend) -> usize {
    usize::from(backend.port()) - 1
}
