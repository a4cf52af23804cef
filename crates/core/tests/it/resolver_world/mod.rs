//! A simulated world around the resolver machine: a zone that changes, nameservers that fail, a driver, and a clock.
//!
//! Everything follows from one seed. What was asked, answered and published is kept in books of the world's own, which
//! are held against the machine after every single event; `promises.rs` says what must hold.
//!
//! ```text
//!   setting   what kind of world: policies, TTLs, how often things change and go wrong
//!   zone      what is true: targets, addresses, TTLs, and how nameservers answer for them
//!   promises  the books, and what must hold
//!   figures   what people are shown, held against the books
//! ```

mod figures;
mod promises;
mod setting;
mod zone;

pub(crate) use crate::schedules::{Trace, for_each_schedule};
pub(crate) use setting::Setting;

use carom_core::random::Random;
use carom_core::resolver::{Action, Answer, AskId, Machine, Question, Resolution};
use figures::Tally;
use promises::Books;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use zone::Zone;

/// A moment, as time since the world began.
pub(crate) type Moment = Duration;

/// What can happen.
#[derive(Clone, Debug)]
enum Event {
    /// A nameserver has the question, and says what it knows at that moment.
    Served(AskId),
    Answered(AskId, Answer),
    ZoneChanges,
    WeatherTurns,
    Ipv6Turns,
    NameserversAreBack,
}

/// A question under way.
#[derive(Clone, Debug)]
struct Flight {
    question: Question,
    asked: Moment,
    timeout: Duration,
}

pub(crate) struct World {
    pub(crate) machine: Machine,
    pub(crate) setting: Setting,
    random: Random,
    clock: Moment,
    start: Instant,
    events: BTreeMap<(Moment, u64), Event>,
    sequence: u64,
    zone: Zone,
    /// As far as the driver knows.
    flights: BTreeMap<AskId, Flight>,
    /// Asked, and cancelled or answered since: late answers may come.
    ended: Vec<(AskId, Question)>,
    books: Books,
    tally: Tally,
    /// How each question ended last.
    last: BTreeMap<Question, Answer>,
    calm: bool,
    trace: Trace,
}

impl World {
    /// A world of this kind; the first question has been asked.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn new(setting: Setting, seed: u64, trace: &Trace) -> World {
        let mut random = Random::new(seed ^ 0x0d15_c0de);
        let start = Instant::now();
        let machine = Machine::new(setting.options.clone(), random.bits(), start).expect("the setting makes sense");
        let mut world = World {
            machine,
            clock: Duration::ZERO,
            start,
            events: BTreeMap::new(),
            sequence: 0,
            zone: Zone::new(&setting, &mut random),
            random,
            flights: BTreeMap::new(),
            ended: Vec::new(),
            books: Books::new(&setting),
            tally: Tally::default(),
            last: BTreeMap::new(),
            calm: false,
            trace: trace.clone(),
            setting,
        };
        world.note(|world| format!("{:?}", world.setting));
        world.note(|world| format!("{:?}", world.zone));
        world.after_machine();
        for event in [Event::ZoneChanges, Event::WeatherTurns, Event::Ipv6Turns, Event::NameserversAreBack] {
            world.recur(event);
        }
        world
    }

    /// Lets things happen until then.
    pub(crate) fn run_for(&mut self, time: Duration) {
        let until = self.clock + time;
        while self.step(until) {}
        self.clock = until;
    }

    /// Lets things happen until the condition holds; false if it has not by then.
    pub(crate) fn run_until_holds(&mut self, time: Duration, holds: impl Fn(&World) -> bool) -> bool {
        let until = self.clock + time;
        while !holds(self) {
            if !self.step(until) {
                return false;
            }
        }
        true
    }

    /// How often something was published.
    pub(crate) fn published(&self) -> u64 {
        self.books.published
    }

    /// Nothing changes or fails any more, and there is somebody to be found.
    pub(crate) fn calm_down(&mut self) {
        self.calm = true;
        self.events.retain(|_, event| matches!(event, Event::Served(_) | Event::Answered(..)));
        self.zone.calm_down(self.machine.options(), &mut self.random);
        self.note(|world| format!("calm: {:?}", world.zone));
    }

    /// What happens next, if it does by then.
    fn step(&mut self, until: Moment) -> bool {
        let wake = self.machine.next_timeout().map(|at| (at - self.start).max(self.clock) + self.setting.late);
        let event = self.events.first_key_value().map(|(key, _)| *key);
        match (wake, event) {
            (Some(wake), event) if event.is_none_or(|(at, _)| wake < at) => {
                if wake > until {
                    return false;
                }
                self.clock = wake;
                self.note(|_| "wake".to_owned());
                self.machine.handle_timeout(self.now());
                self.after_machine();
                self.promise_8_timeouts_are_in_the_future();
            }
            (_, Some(key)) if key.0 <= until => {
                self.clock = key.0;
                let event = self.events.remove(&key).expect("it was just seen");
                self.happen(event);
                self.after_machine();
            }
            (Some(_) | None, Some(_) | None) => return false,
        }
        true
    }

    fn happen(&mut self, event: Event) {
        self.note(|_| format!("{event:?}"));
        match event {
            Event::Served(id) => self.serve(id),
            Event::Answered(id, answer) => self.answer(id, answer),
            Event::ZoneChanges => {
                self.zone.change(&self.setting, &mut self.random);
                self.note(|world| format!("{:?}", world.zone));
                self.recur(Event::ZoneChanges);
            }
            Event::WeatherTurns => {
                self.zone.turn_weather(&self.setting, &mut self.random);
                self.recur(Event::WeatherTurns);
            }
            Event::Ipv6Turns => {
                let ipv6 = !self.machine.options().ipv6;
                self.books.ipv6_turned(ipv6);
                self.machine.set_ipv6(self.now(), ipv6);
                self.recur(Event::Ipv6Turns);
            }
            Event::NameserversAreBack => {
                self.books.restored();
                self.machine.handle_restored(self.now());
                self.recur(Event::NameserversAreBack);
            }
        }
    }

    /// The answer is what is true when the question arrives; it travels for a while, or gets lost.
    fn serve(&mut self, id: AskId) {
        let Some(flight) = self.flights.get(&id) else {
            // Cancelled on the way; some nameservers answer for all that.
            let Some((_, question)) = self.ended.iter().find(|(other, _)| *other == id) else { return };
            let answer = self.zone.answer(question, &mut self.random);
            self.machine.handle_answer(self.now(), id, answer);
            return;
        };
        let deadline = flight.asked + flight.timeout;
        let lost = !self.calm && self.random.chance(self.setting.loses);
        if lost || self.zone.is_silent(flight.question.kind) {
            self.at(deadline, Event::Answered(id, Answer::Trouble));
            return;
        }
        let answer = self.zone.answer(&flight.question, &mut self.random);
        let way = (deadline - self.clock).mul_f64(self.random.fraction() * self.setting.slowness);
        self.at(self.clock + way, Event::Answered(id, answer.clone()));
        if self.random.chance(0.05) {
            self.at(self.clock + way * 3, Event::Answered(id, answer));
        }
    }

    fn answer(&mut self, id: AskId, answer: Answer) {
        if let Some(flight) = self.flights.remove(&id) {
            self.books.answered(self.clock, &flight.question, &answer, self.machine.options());
            self.tally.ended(&answer);
            self.last.insert(flight.question.clone(), answer.clone());
            self.ended.push((id, flight.question));
        }
        self.machine.handle_answer(self.now(), id, answer);
    }

    /// Does what the machine asks for, and looks at what it says.
    fn after_machine(&mut self) {
        let published = self.books.published;
        while let Some(action) = self.machine.poll_action() {
            self.note(|_| format!("  {action:?}"));
            match action {
                Action::Ask { id, question, timeout } => {
                    self.promises_2_5_9_a_question_is_due(&question);
                    self.tally.asked();
                    let way = timeout.mul_f64(self.random.fraction() * self.setting.slowness);
                    self.at(self.clock + way, Event::Served(id));
                    self.flights.insert(id, Flight { question, asked: self.clock, timeout });
                    self.promise_1_questions_are_bounded();
                }
                Action::Cancel(id) => {
                    let flight = self.flights.remove(&id).expect("what is cancelled is under way");
                    self.ended.push((id, flight.question));
                }
                Action::Publish => {
                    self.note(World::said);
                    self.books.published += 1;
                }
            }
        }
        if self.ended.len() > 20 {
            self.ended.drain(..10);
        }
        self.promises_3_4_7_10_11_what_is_published(self.books.published > published);
        self.promise_9_nobody_asks_for_what_is_gone();
        self.promise_12_figures_are_what_happened();
    }

    fn recur(&mut self, event: Event) {
        let every = match event {
            Event::ZoneChanges => self.setting.zone_every,
            Event::WeatherTurns => self.setting.weather_every,
            Event::Ipv6Turns => self.setting.ipv6_every,
            Event::NameserversAreBack => self.setting.back_every,
            Event::Served(_) | Event::Answered(..) => None,
        };
        if let Some(every) = every {
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

    fn said(&self) -> String {
        let Resolution { state, backends, stale_since, troubles, complete, .. } = self.machine.resolution();
        let stale = stale_since.map(|since| since - self.start);
        format!("  {state:?} {backends:?} stale since {stale:?}, troubles {troubles:?}, complete: {complete}")
    }

    fn note(&self, line: impl FnOnce(&World) -> String) {
        if self.trace.is_on() {
            self.trace.add(format!("{:>12.6} {}", self.clock.as_secs_f64(), line(self)));
        }
    }
}
