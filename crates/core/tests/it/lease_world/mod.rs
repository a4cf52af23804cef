//! A simulated world around lease machines: members with clocks of their own, a register, and messages between them.
//!
//! Everything follows from one seed. The world knows the true time, and asks after every single event whether two members
//! hold the lease, or have connections because they did.
//!
//! ```text
//!   setting      what kind of world: options, clocks, how often things go wrong
//!   member       a process and its clock
//!   register     what it keeps and how it answers
//!   trouble      members stopped, killed, cut off, leaving; a register that forgets
//! ```

mod member;
mod register;
mod setting;
mod trouble;

pub(crate) use crate::schedules::{Trace, for_each_schedule};
pub(crate) use setting::{Setting, ms};

use carom_core::feed::lease::{Action, Entry, Machine, Mark, RequestId, Written};
use carom_core::random::Random;
use member::Member;
use register::Register;
use setting::one_of;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A moment, as true time since the world began.
pub(crate) type Moment = Duration;

/// A process: a member's place and which life it is.
type Process = (usize, u64);

/// What can happen.
#[derive(Clone, Debug)]
enum Event {
    /// A request reaches the register.
    Read(Process, RequestId),
    Write(Process, RequestId, u64, Mark),
    /// An answer reaches who asked.
    WasRead(Process, RequestId, Entry),
    WasWritten(Process, RequestId, Written),
    Changed(Process),
    Trouble,
    Starts(usize),
    Stops(Process),
    IsBack(usize),
}

pub(crate) struct World {
    pub(crate) setting: Setting,
    pub(crate) clock: Moment,
    random: Random,
    events: BTreeMap<(Moment, u64), Event>,
    sequence: u64,
    members: Vec<Member>,
    register: Register,
    lives: u64,
    /// From when on the next message may be lost, where one at a time is.
    loses_again: Moment,
    /// The latest hold.
    epoch: u64,
    /// How many holds there were.
    pub(crate) holds: usize,
    /// The first promise that was broken; the world stands still then.
    pub(crate) broken: Option<String>,
    trace: Trace,
}

impl World {
    pub(crate) fn new(setting: Setting, seed: u64, trace: &Trace) -> World {
        let mut random = Random::new(seed ^ 0x1ea5e);
        #[allow(clippy::disallowed_methods)]
        let start = Instant::now();
        let members = (0..setting.members)
            .map(|_| {
                let rate = one_of(&mut random, &[1.0 - setting.rate, 1.0, 1.0 + setting.rate]);
                let base = start + ms(random.below(100_000) as u64);
                let wall = ms(1_000_000) + setting.options.ttl.mul_f64(random.fraction() * 0.9);
                let (stopped_until, is_cut_off) = (Moment::ZERO, false);
                Member { machine: None, life: 0, rate, base, wall, stopped_until, is_cut_off, connected: None }
            })
            .collect();
        let mut world = World {
            clock: Moment::ZERO,
            random,
            events: BTreeMap::new(),
            sequence: 0,
            members,
            register: Register::new(setting.compares),
            lives: 0,
            loses_again: Moment::ZERO,
            epoch: 0,
            holds: 0,
            broken: None,
            trace: trace.clone(),
            setting,
        };
        for member in 0..world.members.len() {
            let soon = world.up_to(ms(2_000));
            world.after(soon, Event::Starts(member));
        }
        world.next_trouble();
        world
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = self.clock + time;
        self.run_until(end, |_| false);
    }

    /// Runs until something is so; panics if it is not within this time.
    pub(crate) fn expect(&mut self, within: Duration, what: &str, is_so: impl Fn(&World) -> bool) {
        let (start, end) = (self.clock, self.clock + within);
        self.run_until(end, &is_so);
        assert!(self.broken.is_some() || is_so(self), "{what}: not from {start:?} to {end:?}");
    }

    /// The member that holds the lease now.
    pub(crate) fn holder(&self) -> Option<usize> {
        self.members.iter().position(|member| member.holds(self.clock).is_some())
    }

    /// All that was promised has held.
    pub(crate) fn end(self) {
        assert_eq!(self.broken, None);
    }

    fn run_until(&mut self, end: Moment, stop: impl Fn(&World) -> bool) {
        while self.broken.is_none() && !stop(self) {
            let due = |member: usize| Some((self.members[member].next_timeout()?, member));
            let timeout = (0..self.members.len()).filter_map(due).min();
            let event = self.events.first_key_value().map(|((at, _), _)| *at);
            let next = timeout.map(|(at, _)| at).into_iter().chain(event).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.clock = self.clock.max(next);
            match timeout.filter(|(at, _)| event.is_none_or(|event| *at < event)) {
                Some((_, member)) => self.tell(member, |machine, now| machine.handle_timeout(now)),
                None => {
                    let ((_, _), event) = self.events.pop_first().expect("it is the next thing to happen");
                    self.happen(event);
                }
            }
            self.judge();
        }
        self.clock = self.clock.max(if self.broken.is_some() || stop(self) { self.clock } else { end });
    }

    fn happen(&mut self, event: Event) {
        if self.trace.is_on() {
            self.trace.add(format!("{:?} {event:?}", self.clock));
        }
        match event {
            Event::Read(from, request) => {
                let entry = self.register.entry.clone();
                self.send(from, Event::WasRead(from, request, entry));
            }
            Event::Write(from, request, over, mark) => {
                let written = self.register.write(self.clock, over, mark);
                self.send(from, Event::WasWritten(from, request, written));
                if matches!(written, Written::Done(_)) {
                    self.tell_of_change();
                }
            }
            Event::WasRead(to, request, entry) => {
                self.reach(to, Event::WasRead(to, request, entry.clone()), |machine, now| {
                    machine.handle_read(now, request, Some(entry));
                });
            }
            Event::WasWritten(to, request, written) => {
                self.reach(to, Event::WasWritten(to, request, written), |machine, now| {
                    machine.handle_written(now, request, written);
                });
            }
            Event::Changed(to) => self.reach(to, Event::Changed(to), |machine, now| machine.handle_changed(now)),
            Event::Trouble => {
                self.trouble();
                self.next_trouble();
            }
            Event::Starts(member) => self.start(member),
            Event::Stops((member, life)) if self.members[member].life == life => {
                self.stop(member, self.setting.stops_for)
            }
            Event::Stops(_) => {}
            Event::IsBack(member) => self.members[member].is_cut_off = false,
        }
    }

    /// Tells a machine something, if its process still runs and is not stopped: then it hears of it when it goes on.
    fn reach(&mut self, (member, life): Process, event: Event, tell: impl FnOnce(&mut Machine, Instant)) {
        let Member { life: now_living, stopped_until, .. } = self.members[member];
        if now_living != life {
            return;
        }
        if stopped_until > self.clock {
            let left = stopped_until - self.clock;
            return self.after(left, event);
        }
        self.tell(member, tell);
    }

    fn tell(&mut self, index: usize, tell: impl FnOnce(&mut Machine, Instant)) {
        let member = &mut self.members[index];
        let (now, process, wall) = (member.clock(self.clock), (index, member.life), member.wall + self.clock);
        let Some(machine) = &mut member.machine else { return };
        machine.handle_wall_clock(wall);
        tell(machine, now);
        let actions: Vec<Action> = std::iter::from_fn(|| machine.poll_action()).collect();
        if machine.has_left() {
            self.end_life(index);
            let pause = self.up_to(ms(5_000));
            self.after(pause, Event::Starts(index));
        } else {
            // As a driver does with connections: it ends those of a hold that is over, and opens some for one that it has.
            member.connected = member.holds(self.clock);
        }
        for action in actions {
            self.send(
                process,
                match action {
                    Action::Read { request } => Event::Read(process, request),
                    Action::Write { request, over, mark } => Event::Write(process, request, over, mark),
                },
            );
        }
    }

    /// What must hold, after every event.
    fn judge(&mut self) {
        let holding: Vec<_> = self.members.iter().filter_map(|member| member.holds(self.clock)).collect();
        let connected: Vec<_> = self.members.iter().filter_map(|member| member.connected).collect();
        if holding.len() > 1 {
            self.broken = Some(format!("two hold the lease at {:?}: {holding:?}", self.clock));
        } else if connected.len() > 1 {
            self.broken = Some(format!("two have connections at {:?}: {connected:?}", self.clock));
        }
        for epoch in connected {
            if epoch < self.epoch {
                self.broken.get_or_insert(format!("epoch {epoch} comes after {} at {:?}", self.epoch, self.clock));
            }
            self.holds += usize::from(epoch != self.epoch);
            self.epoch = epoch;
        }
    }

    /// A message between a member and the register.
    fn send(&mut self, (member, _): Process, event: Event) {
        let setting = &self.setting;
        let lost = match setting.loses_one_every {
            Some(every) if self.clock >= self.loses_again && self.random.chance(0.3) => {
                self.loses_again = self.clock + every;
                true
            }
            Some(_) | None => self.random.chance(setting.loses),
        };
        if lost || self.members[member].is_cut_off {
            return;
        }
        let most = if self.random.chance(setting.slow) { setting.slow_for } else { setting.takes };
        let takes = self.up_to(most);
        self.after(takes, event);
    }

    fn tell_of_change(&mut self) {
        for member in 0..self.members.len() {
            let process = (member, self.members[member].life);
            self.send(process, Event::Changed(process));
        }
    }

    fn after(&mut self, time: Duration, event: Event) {
        self.sequence += 1;
        self.events.insert((self.clock + time, self.sequence), event);
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.random.fraction())
    }
}
