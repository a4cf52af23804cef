//! A simulated world around the feed machine: an upstream that misbehaves, a driver, subscribers, and a clock.
//!
//! Everything follows from one seed. The world keeps its own books of what every connection really carries and of what is
//! really wanted, and holds the machine against them after every single event; `promises.rs` says what must hold.
//!
//! ```text
//!   setting      what kind of world: sizes, policies, how often things go wrong
//!   upstream     what connections carry, and how they fail
//!   subscribers  come, wait, give up, leave
//!   promises     what must hold
//! ```

mod promises;
mod setting;
mod subscribers;
mod upstream;

pub(crate) use crate::limits::ms;
pub(crate) use crate::schedules::{Trace, for_each_schedule};
pub(crate) use setting::Setting;

use crate::limits::one_of;
use carom_core::feed::{Action, ConnectionId, Machine, State, WaiterId};
use carom_core::random::Random;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use subscribers::Subscribers;
use upstream::Upstream;
pub(crate) use upstream::Weather;

/// A moment, as time since the world began.
pub(crate) type Moment = Duration;

/// What can happen.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// An attempt to open a connection is over.
    Opened(ConnectionId, Weather),
    Written(ConnectionId),
    /// A connection ends by itself, or because it was told to.
    Ends(ConnectionId),
    SubscriberComes,
    GivesUp(WaiterId),
    WeatherTurns,
    /// Every connection that is not silent says something: a tick of everything it carries.
    Ticks,
    NewCredential,
    EverythingUnsubscribed,
    ClockJumps,
    /// Something is said of a connection that is gone.
    Stray,
}

pub(crate) struct World {
    pub(crate) machine: Machine,
    pub(crate) setting: Setting,
    pub(crate) random: Random,
    pub(crate) clock: Moment,
    start: Instant,
    events: BTreeMap<(Moment, u64), Event>,
    sequence: u64,
    upstream: Upstream,
    subscribers: Subscribers,
    closing: bool,
    abandoned: bool,
    calm: bool,
    steps: (Moment, usize),
    trace: Trace,
}

impl World {
    /// A world of this kind; nothing has happened yet.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn new(setting: Setting, seed: u64, trace: &Trace) -> World {
        let mut random = Random::new(seed ^ 0xfeed_feed);
        let machine = Machine::new(setting.options.clone(), random.bits()).expect("the setting makes sense");
        let mut world = World {
            machine,
            random,
            clock: Duration::ZERO,
            start: Instant::now(),
            events: BTreeMap::new(),
            sequence: 0,
            upstream: Upstream::default(),
            subscribers: Subscribers::default(),
            closing: false,
            abandoned: false,
            calm: false,
            steps: (Duration::ZERO, 0),
            trace: trace.clone(),
            setting,
        };
        world.note(|world| format!("{:?}", world.setting));
        for event in [
            Event::SubscriberComes,
            Event::WeatherTurns,
            Event::Ticks,
            Event::NewCredential,
            Event::EverythingUnsubscribed,
            Event::ClockJumps,
            Event::Stray,
        ] {
            world.recur(event);
        }
        world
    }

    /// Nothing fails any more, and nobody comes or goes.
    pub(crate) fn calm_down(&mut self) {
        self.calm = true;
        self.upstream.weather = Weather::Healthy;
        let kept = |event: &Event| match event {
            Event::Opened(..) | Event::Written(_) | Event::GivesUp(_) | Event::Ticks => true,
            Event::Ends(_) | Event::SubscriberComes | Event::WeatherTurns | Event::NewCredential => false,
            Event::EverythingUnsubscribed | Event::ClockJumps | Event::Stray => false,
        };
        let told_to_end = self.upstream.told_to_end();
        self.events.retain(|_, event| kept(event) || matches!(event, Event::Ends(id) if told_to_end.contains(id)));
        self.note(|_| "calm".to_owned());
        self.resume();
        self.after_machine();
    }

    fn resume(&mut self) {
        let lines = self.setting.options.max_connections;
        self.upstream.reasons.extend(std::iter::repeat_n(self.clock, lines));
        self.upstream.failed = None;
        self.machine.resume(self.now());
    }

    /// The upstream treats those who connect like this from now on.
    pub(crate) fn set_weather(&mut self, weather: Weather) {
        self.upstream.weather = weather;
    }

    /// Every connection is cut, and none is accepted from now on.
    pub(crate) fn cut(&mut self) {
        self.note(|_| "cut".to_owned());
        self.set_weather(Weather::Refuses);
        for id in self.upstream.links.keys().copied().collect::<Vec<_>>() {
            self.connection_ends(id);
            self.after_machine();
        }
    }

    pub(crate) fn close(&mut self) {
        self.note(|_| "close".to_owned());
        self.closing = true;
        self.subscribers.everything_gone();
        self.machine.close(self.now());
        self.after_machine();
    }

    pub(crate) fn abandon(&mut self) {
        self.note(|_| "abandon".to_owned());
        self.closing = true;
        self.abandoned = true;
        self.subscribers.everything_gone();
        self.machine.abandon(self.now());
        self.after_machine();
        assert_eq!(self.machine.state(), State::Stopped);
    }

    /// Lets things happen for so long.
    pub(crate) fn run_for(&mut self, time: Duration) {
        let until = self.clock + time;
        while self.step(until) {}
        self.clock = self.clock.max(until);
    }

    /// Closes the feed, lets the upstream do its part, and sees that nothing is left.
    pub(crate) fn end(&mut self) {
        self.close();
        self.calm_down();
        self.run_for(self.setting.recovery_bound());
        self.promise_nothing_is_left();
    }

    fn step(&mut self, until: Moment) -> bool {
        self.promise_time_goes_on();
        let late = self.setting.late.mul_f64(self.random.fraction());
        let wake =
            self.machine.next_timeout().map(|at| at.saturating_duration_since(self.start).max(self.clock) + late);
        let event = self.events.first_key_value().map(|(key, _)| *key);
        match (wake, event) {
            (Some(wake), event) if event.is_none_or(|(at, _)| wake <= at) => {
                if wake > until {
                    return false;
                }
                self.clock = wake;
                self.note(|_| "wake".to_owned());
                self.machine.handle_timeout(self.now());
                self.after_machine();
                self.promise_everything_due_is_done();
            }
            (_, Some(key)) if key.0 <= until => {
                self.clock = self.clock.max(key.0);
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
        let now = self.now();
        match event {
            Event::Opened(id, weather) => self.attempt_ends(id, weather),
            Event::Written(id) => self.write_ends(id),
            Event::Ends(id) => self.connection_ends(id),
            Event::SubscriberComes => {
                self.somebody_comes_or_goes();
                self.recur(event);
            }
            Event::GivesUp(waiter) => self.give_up(waiter),
            Event::WeatherTurns => {
                let weathers = [
                    Weather::Healthy,
                    Weather::Healthy,
                    Weather::Refuses,
                    Weather::Hangs,
                    Weather::Fickle,
                    Weather::Brittle,
                    Weather::Bars,
                ];
                self.upstream.weather = one_of(&mut self.random, &weathers);
                self.note(|world| format!("  {:?}", world.upstream.weather));
                self.recur(event);
            }
            Event::Ticks => {
                self.ticks();
                self.recur(event);
            }
            Event::NewCredential => {
                self.resume();
                self.recur(event);
            }
            Event::EverythingUnsubscribed => {
                self.subscribers.everything_gone();
                self.machine.unsubscribe_all(now);
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

    fn after_machine(&mut self) {
        // Whoever was refused does not want it any more: writes are judged by that.
        while let Some(delivery) = self.machine.poll_delivery() {
            self.note(|_| format!("  {delivery:?}"));
            self.delivered(delivery);
        }
        while let Some(action) = self.machine.poll_action() {
            self.note(|_| format!("  {action:?}"));
            match action {
                Action::Open { connection, timeout } => self.open(connection, timeout),
                Action::Write { connection, changes } => self.write(connection, changes),
                Action::Close { connection, goodbye } => self.told_to_end(connection, goodbye),
                Action::Tell(_) => {}
            }
        }
        self.promise_books_agree();
    }

    fn recur(&mut self, event: Event) {
        let every = match event {
            Event::SubscriberComes => Some(self.setting.caller_every),
            Event::WeatherTurns => self.setting.weather_every,
            Event::Ticks => Some(self.setting.tick_every),
            Event::NewCredential => Some(ms(1_500)),
            Event::EverythingUnsubscribed => Some(ms(20_000)),
            Event::ClockJumps => self.setting.jump_every,
            Event::Stray => self.setting.stray_every,
            Event::Opened(..) | Event::Written(_) | Event::Ends(_) | Event::GivesUp(_) => None,
        };
        if let Some(every) = every {
            let after = every.mul_f64(0.5 + self.random.fraction()).max(ms(1));
            self.at(self.clock + after, event);
        }
    }

    fn at(&mut self, moment: Moment, event: Event) {
        self.sequence += 1;
        self.events.insert((moment, self.sequence), event);
    }

    /// Some time that the upstream takes.
    fn soon(&mut self) -> Moment {
        self.clock + self.setting.takes.mul_f64(self.random.fraction())
    }

    fn now(&self) -> Instant {
        self.start + self.clock
    }

    fn note(&self, line: impl FnOnce(&World) -> String) {
        if self.trace.is_on() {
            self.trace.add(format!("{:>9.3?} {}", self.clock, line(self)));
        }
    }
}
