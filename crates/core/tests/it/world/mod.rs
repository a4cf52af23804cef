//! A simulated world around the pool machine: servers that misbehave, a driver, callers, a resolver, and a clock.
//!
//! Everything follows from one seed. The world keeps its own books of what every slot, connection and claim is doing and
//! holds the machine's figures against them after every single event; `promises.rs` says what must hold.
//!
//! ```text
//!   setting   what kind of world: sizes, policies, how often things go wrong
//!   servers   accept, refuse, hang, close soon, die; the resolver's list of them
//!   driver    does what the machine asks for, late, and tells it what came of it
//!   callers   claim, wait, give up, hold, release
//!   figures   what has happened so far, counted again
//! ```

mod callers;
mod driver;
mod figures;
mod promises;
mod servers;
mod setting;

pub(crate) use crate::schedules::{Trace, for_each_schedule};
pub(crate) use servers::Behaviour;
pub(crate) use setting::Setting;

use callers::{Claim, Stage};
use carom_core::backend::Backend;
use carom_core::pool::{CheckId, Claimed, Delivery, Ending, Machine, Outcome, Refusal, State};
use carom_core::random::Random;
use carom_core::slot::{Phase, SlotRef};
use carom_core::waiters::WaiterId;
use driver::Driver;
use figures::Figures;
use promises::Books;
use servers::{Connection, Server};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A moment, as time since the world began.
pub(crate) type Moment = Duration;

/// What can happen.
#[derive(Clone, Copy, Debug)]
enum Event {
    DriverWakes,
    /// A server accepts a dial; the driver hears of it a little later.
    Accepted(SlotRef),
    DialEnds(SlotRef, bool),
    /// `None` without a check.
    CheckEnds(SlotRef, Option<bool>),
    HealthChecked(CheckId, bool),
    CloseEnds(SlotRef),
    AbandonEnds {
        task: SlotRef,
        slot: SlotRef,
    },
    WatchEnds(SlotRef, Ending),
    ServerCloses(usize),
    WeatherTurns,
    BackendsChange,
    SizeChanges,
    CallerComes,
    CallerCollects(usize),
    CallerHasAsked(usize),
    CallerReleases(usize),
    CallerGivesUp(usize),
    ClaimIsOverdue(usize),
}

/// What the driver has for a slot, as far as the machine has asked.
#[derive(Clone, Copy, Debug)]
struct Seat {
    server: usize,
    /// The server's life in the resolver's list that the slot belongs to.
    term: u32,
    content: Content,
    /// When it was last dialled.
    dialled: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Nothing,
    Dialling,
    Idle(usize),
    Lent(usize),
    Checking(usize),
    Suspect(usize),
    Closing(Option<usize>),
}

pub(crate) struct World {
    pub(crate) machine: Machine,
    pub(crate) setting: Setting,
    pub(crate) random: Random,
    pub(crate) clock: Moment,
    start: Instant,
    events: BTreeMap<(Moment, u64), Event>,
    sequence: u64,
    driver: Driver,
    servers: Vec<Server>,
    connections: Vec<Connection>,
    /// Connections that are open and not detached.
    open: BTreeSet<usize>,
    seats: Vec<Seat>,
    claims: Vec<Claim>,
    /// Claims that wait, by arrival.
    line: BTreeMap<u64, usize>,
    waiters: BTreeMap<WaiterId, usize>,
    books: Books,
    figures: Figures,
    trace: Trace,
}

impl World {
    /// A world of this kind; nothing has happened yet.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn new(setting: Setting, seed: u64, trace: &Trace) -> World {
        let mut random = Random::new(seed ^ 0x5eed_0f7e_3e75);
        let start = Instant::now();
        let machine = Machine::new(setting.options.clone(), random.bits(), start).expect("the setting makes sense");
        let mut world = World {
            machine,
            random,
            clock: Duration::ZERO,
            start,
            events: BTreeMap::new(),
            sequence: 0,
            driver: Driver::default(),
            servers: (0..setting.servers).map(Server::new).collect(),
            connections: Vec::new(),
            open: BTreeSet::new(),
            seats: Vec::new(),
            claims: Vec::new(),
            line: BTreeMap::new(),
            waiters: BTreeMap::new(),
            books: Books::new(setting.options.maximum),
            figures: Figures::default(),
            trace: trace.clone(),
            setting,
        };
        (0..world.servers.len()).for_each(|server| world.rank(server));
        world.note(|world| format!("{:?}", world.setting));
        world.after_machine();
        for (every, event) in world.setting.rhythm() {
            world.recur(every, event);
        }
        world
    }

    /// Lets things happen until then.
    pub(crate) fn run_until(&mut self, until: Moment) {
        while let Some((&(at, sequence), &event)) = self.events.first_key_value() {
            if at > until {
                break;
            }
            self.events.remove(&(at, sequence));
            self.clock = at;
            self.happen(event);
        }
        self.clock = self.clock.max(until);
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        self.run_until(self.clock + time);
    }

    /// Lets things happen until the condition holds; false if it has not by then.
    pub(crate) fn run_until_holds(&mut self, until: Moment, holds: impl Fn(&World) -> bool) -> bool {
        while !holds(self) {
            match self.events.first_key_value() {
                Some((&(at, _), _)) if at <= until => self.run_until(at),
                Some(_) | None => return false,
            }
        }
        true
    }

    /// Closes the pool, lets lent connections come back, and checks that nothing is left. No caller comes any more.
    pub(crate) fn end(mut self) {
        self.stop_the_rhythm();
        self.close();
        let longest_hold = self.setting.hold.max(self.setting.stuck.unwrap_or_default());
        let last_hold = self.clock + longest_hold + Duration::from_secs(1);
        self.run_until(last_hold);
        self.run_for(self.setting.options.check_timeout * 2);
        self.promise_6_every_connection_opened_is_closed_once();
        self.promise_7_nothing_is_left();
        assert_eq!(self.machine.state(), State::Stopped);
    }

    pub(crate) fn close(&mut self) {
        self.note(|_| "close".to_owned());
        let now = self.now();
        self.machine.close(now);
        self.books.closed_at.get_or_insert(self.clock);
        self.after_machine();
        self.promise_8_nothing_but_claims_and_goodbyes_outlasts_closing();
    }

    /// The driver's runtime ends: nothing the machine asks for is done any more.
    pub(crate) fn driver_dies(mut self) {
        self.note(|_| "the driver dies".to_owned());
        self.machine.abandon();
        assert!(self.machine.poll_action().is_none(), "there is nobody to do it");
        while let Some(delivery) = self.machine.poll_delivery() {
            let Delivery::Refuse { waiter, refusal: Refusal::Closed } = delivery else { panic!("{delivery:?}") };
            self.waiters.remove(&waiter).expect("promise 2: who is not waiting is told something");
        }
        assert!(self.waiters.is_empty(), "promise 2: somebody waits for ever");
        self.open.clear();
        self.driver = Driver::default();
        self.promise_7_nothing_is_left();
        assert_eq!(self.machine.state(), State::Stopped);
        let now = self.now();
        for claim in &self.claims {
            if let Stage::Holding(slot, _) = claim.stage {
                self.machine.release(now, slot, Outcome::Open);
            }
        }
        assert_eq!(self.machine.try_claim(now), Claimed::Refused(Refusal::Closed));
        self.promise_7_nothing_is_left();
        assert!(self.machine.poll_action().is_none(), "there is nobody to do it");
    }

    /// No more bad weather, changes and callers. What is under way goes on.
    pub(crate) fn stop_the_rhythm(&mut self) {
        self.events.retain(|_, event| match event {
            Event::WeatherTurns | Event::BackendsChange | Event::SizeChanges | Event::CallerComes => false,
            Event::DriverWakes
            | Event::Accepted(_)
            | Event::DialEnds(..)
            | Event::CheckEnds(..)
            | Event::HealthChecked(..)
            | Event::CloseEnds(_)
            | Event::AbandonEnds { .. }
            | Event::WatchEnds(..)
            | Event::ServerCloses(_)
            | Event::CallerCollects(_)
            | Event::CallerHasAsked(_)
            | Event::CallerReleases(_)
            | Event::CallerGivesUp(_)
            | Event::ClaimIsOverdue(_) => true,
        });
    }

    fn happen(&mut self, event: Event) {
        self.note(|_| format!("{event:?}"));
        match event {
            Event::DriverWakes => self.driver_wakes(),
            Event::Accepted(task) => self.accepted(task),
            Event::DialEnds(task, connected) => self.dial_ends(task, connected),
            Event::CheckEnds(task, passed) => self.check_ends(task, passed),
            Event::HealthChecked(check, passed) => {
                let now = self.now();
                self.machine.handle_health_checked(now, check, passed);
                self.after_driver_call();
            }
            Event::CloseEnds(task) => self.close_ends(task),
            Event::AbandonEnds { task, slot } => self.abandon_ends(task, slot),
            Event::WatchEnds(slot, ending) => self.watch_ends(slot, ending),
            Event::ServerCloses(connection) => self.server_closes(connection),
            Event::WeatherTurns => self.weather_turns(),
            Event::BackendsChange => self.backends_change(),
            Event::SizeChanges => self.size_changes(),
            Event::CallerComes => self.caller_comes(),
            Event::CallerCollects(claim) => self.caller_collects(claim),
            Event::CallerHasAsked(claim) => self.caller_has_asked(claim),
            Event::CallerReleases(claim) => self.caller_releases(claim),
            Event::CallerGivesUp(claim) => self.caller_gives_up(claim),
            Event::ClaimIsOverdue(claim) => self.promise_2_a_claim_has_ended_by_its_deadline(claim),
        }
        for (every, recurring) in self.setting.rhythm() {
            if std::mem::discriminant(&recurring) == std::mem::discriminant(&event) {
                self.recur(every, recurring);
            }
        }
    }

    fn size_changes(&mut self) {
        let maximum = 1 + self.random.below(8);
        let least = usize::from(self.setting.options.max_waiters == Some(0));
        let spares = self.random.below(maximum.min(5) + 1).max(least);
        self.note(|_| format!("resize {spares} {maximum}"));
        let now = self.now();
        self.books.allowed = self.books.allowed.max(maximum);
        self.machine.resize(now, spares, maximum).expect("the sizes make sense");
        let counts = self.machine.counts();
        // Of what is lent the plan says what is to be closed when it comes back.
        let unused = counts.total() - counts.of(Phase::Closing) - counts.of(Phase::Busy);
        assert!(unused <= maximum, "above a new maximum: {counts:?}");
        self.after_machine();
    }

    fn recur(&mut self, every: Duration, event: Event) {
        let after = self.between(Duration::ZERO, every * 2);
        self.later(after, event);
    }

    fn later(&mut self, after: Duration, event: Event) {
        self.sequence += 1;
        self.events.insert((self.clock + after, self.sequence), event);
    }

    fn now(&self) -> Instant {
        self.start + self.clock
    }

    fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + (most.saturating_sub(least)).mul_f64(self.random.fraction())
    }

    /// The little time it takes to be scheduled.
    fn latency(&mut self) -> Duration {
        self.between(Duration::ZERO, self.setting.latency)
    }

    fn is_draining(&self, server: usize, term: u32) -> bool {
        self.servers[server].term != term
    }

    fn server_of(&self, backend: &Backend) -> usize {
        backend.socket_addr().port() as usize
    }

    fn note(&self, what: impl FnOnce(&World) -> String) {
        if self.trace.is_on() {
            self.trace.add(format!("{:>12.6} {}", self.clock.as_secs_f64(), what(self)));
        }
    }
}
