//! The upstream: what its connections really carry, and how they fail.

use super::{Event, Moment, World, ms};
use carom_core::feed::{Change, ConnectionId, Counters, End, Instrument, Level};
use carom_core::random::Random;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How the upstream treats those who connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Weather {
    #[default]
    Healthy,
    Refuses,
    /// Nothing is answered: no attempt, no write.
    Hangs,
    /// Accepts, and ends the connection at once.
    Fickle,
    /// Accepts, and ends the connection after a while, before it has lived for long.
    Brittle,
    /// Refuses the credential.
    Bars,
}

#[derive(Default)]
pub(crate) struct Upstream {
    pub(crate) weather: Weather,
    pub(crate) links: BTreeMap<ConnectionId, Link>,
    gone: Vec<ConnectionId>,
    pub(crate) opened: usize,
    pub(crate) ended: usize,
    /// What happened, as the machine should have counted it.
    pub(crate) counted: Counters,
    /// When the last attempt failed, if none has succeeded since.
    pub(crate) failed: Option<Moment>,
    /// When connections were opened lately, and when there was a reason for one more that is none of the upstream's doing.
    pub(crate) openings: VecDeque<Moment>,
    pub(crate) reasons: VecDeque<Moment>,
}

/// A connection as the upstream sees it, or an attempt to open one.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) up: bool,
    pub(crate) told_to_end: bool,
    silent: bool,
    /// When it last said anything.
    pub(crate) heard: Moment,
    pub(crate) carries: BTreeMap<Instrument, Level>,
    /// When what it carries ticks for the first time.
    begins: BTreeMap<Instrument, Moment>,
    pub(crate) writing: Option<Vec<Change>>,
    pub(crate) last_write: Option<Moment>,
}

impl Upstream {
    pub(super) fn told_to_end(&self) -> BTreeSet<ConnectionId> {
        self.links.iter().filter(|(_, link)| link.told_to_end).map(|(id, _)| *id).collect()
    }

    /// What is carried of an instrument by connections that nobody has told to end.
    pub(super) fn carried(&self, instrument: &Instrument) -> Vec<Level> {
        let links = self.links.values().filter(|link| link.up && !link.told_to_end);
        links.filter_map(|link| link.carries.get(instrument)).copied().collect()
    }

    /// Which connections tick an instrument, not only carry it, of those that nobody has told to end.
    pub(super) fn ticking(&self, instrument: &Instrument, clock: Moment) -> Vec<ConnectionId> {
        let links = self.links.iter().filter(|(_, link)| link.up && !link.told_to_end);
        let ticks = |link: &Link| link.begins.get(instrument).is_some_and(|begins| *begins <= clock);
        links.filter(|(_, link)| ticks(link)).map(|(id, _)| *id).collect()
    }

    fn some_gone(&self, random: &mut Random) -> Option<ConnectionId> {
        self.gone.get(random.below(self.gone.len())).copied()
    }
}

impl World {
    pub(super) fn open(&mut self, id: ConnectionId, timeout: Duration) {
        let link = Link {
            up: false,
            told_to_end: false,
            silent: false,
            heard: self.clock,
            carries: BTreeMap::new(),
            begins: BTreeMap::new(),
            writing: None,
            last_write: None,
        };
        assert!(self.upstream.links.insert(id, link).is_none(), "a name is never used again");
        self.upstream.opened += 1;
        self.upstream.counted.connects += 1;
        self.upstream.openings.push_back(self.clock);
        self.promise_connections_are_within_the_limit();
        self.promise_connections_are_not_opened_in_a_loop();
        let weather = self.upstream.weather;
        let at = match weather {
            Weather::Hangs => self.clock + timeout,
            Weather::Healthy | Weather::Refuses | Weather::Fickle | Weather::Brittle | Weather::Bars => {
                self.soon().min(self.clock + timeout)
            }
        };
        self.at(at, Event::Opened(id, weather));
    }

    pub(super) fn attempt_ends(&mut self, id: ConnectionId, weather: Weather) {
        let (now, clock) = (self.now(), self.clock);
        // One that was told to end meanwhile has its end coming.
        let Some(link) = self.upstream.links.get_mut(&id).filter(|link| !link.told_to_end) else { return };
        match weather {
            Weather::Healthy | Weather::Fickle | Weather::Brittle => {
                link.up = true;
                self.upstream.failed = None;
                self.upstream.counted.opened += 1;
                link.heard = clock;
                let silent = !self.calm && self.random.chance(self.setting.silent);
                link.silent = silent && self.setting.options.stall_after.is_some();
                let life = match weather {
                    Weather::Fickle => Some(ms(1)),
                    Weather::Brittle => None,
                    _ => (!self.calm && self.random.chance(self.setting.mortal)).then(|| ms(3_000)),
                };
                if weather == Weather::Brittle {
                    // A little longer than the shortest delay, and shorter than the longest.
                    let limits = self.setting.limits;
                    let life =
                        limits.delay.mul_f64(1.0 + self.random.fraction() / 2.0).min(limits.max_delay.mul_f64(0.9));
                    self.at(self.clock + life, Event::Ends(id));
                } else if let Some(life) = life {
                    let at = self.clock + life.mul_f64(self.random.fraction());
                    self.at(at, Event::Ends(id));
                }
                self.machine.handle_opened(now, id);
            }
            Weather::Refuses | Weather::Hangs => {
                self.upstream.failed = Some(clock);
                self.upstream.counted.connect_failures += 1;
                self.forget_link(id);
                self.machine.handle_ended(now, id, End::Lost);
            }
            Weather::Bars => {
                self.upstream.counted.connect_failures += 1;
                self.forget_link(id);
                self.machine.handle_ended(now, id, End::Credential);
            }
        }
    }

    pub(super) fn write(&mut self, id: ConnectionId, changes: Vec<Change>) {
        self.promise_a_write_makes_sense(id, &changes);
        let (clock, hangs) = (self.clock, self.upstream.weather == Weather::Hangs && !self.calm);
        let link = self.upstream.links.get_mut(&id).expect("it was just seen");
        link.writing = Some(changes);
        link.last_write = Some(clock);
        if !hangs {
            let at = self.soon();
            self.at(at, Event::Written(id));
        }
    }

    pub(super) fn write_ends(&mut self, id: ConnectionId) {
        let Some(link) = self.upstream.links.get_mut(&id).filter(|link| !link.told_to_end) else { return };
        let changes = link.writing.take().expect("one write at a time");
        let mut refused = Vec::new();
        for (at, change) in changes.iter().enumerate() {
            let refuse = !self.calm && self.random.chance(self.setting.refuses);
            match change.to {
                // What was to be dropped is gone even if the upstream says that it never was.
                None => {
                    link.carries.remove(&change.instrument);
                    link.begins.remove(&change.instrument);
                }
                Some(level) if !refuse => {
                    link.carries.insert(change.instrument.clone(), level);
                    let begins = self.clock + self.setting.begins.mul_f64(self.random.fraction());
                    link.begins.entry(change.instrument.clone()).or_insert(begins);
                }
                Some(_) => {}
            }
            if refuse {
                refused.push((at, Arc::from("no such symbol")));
                self.subscribers.refused(&change.instrument);
            } else if let Some(level) = change.to {
                self.subscribers.accepted(&change.instrument, level);
            }
        }
        self.machine.handle_written(self.now(), id, &refused);
    }

    pub(super) fn told_to_end(&mut self, id: ConnectionId, goodbye: bool) {
        self.promise_only_the_living_get_a_goodbye(id, goodbye);
        if goodbye {
            self.upstream.reasons.push_back(self.clock);
        }
        let link = self.upstream.links.get_mut(&id).expect("only what is there is closed");
        assert!(!link.told_to_end, "told to end once");
        // Those that get no goodbye have stalled, or everything ends.
        self.upstream.counted.lost += u64::from(!goodbye && !self.abandoned);
        link.told_to_end = true;
        self.subscribers.lost(link.carries.keys());
        let at = self.soon();
        self.at(at, Event::Ends(id));
    }

    pub(super) fn connection_ends(&mut self, id: ConnectionId) {
        let Some(link) = self.upstream.links.get(&id) else { return };
        let bars = !link.told_to_end && self.upstream.weather == Weather::Bars;
        self.upstream.counted.lost += u64::from(!link.told_to_end);
        self.forget_link(id);
        let end = if bars { End::Credential } else { End::Lost };
        self.machine.handle_ended(self.now(), id, end);
    }

    /// Every connection that is not silent ticks everything that it carries.
    pub(super) fn ticks(&mut self) {
        let now = self.now();
        let mut admitted: BTreeMap<Instrument, usize> = BTreeMap::new();
        let quiet = |link: &Link| !link.up || (link.silent && !self.calm);
        let links: Vec<_> = self.upstream.links.iter().filter(|(_, link)| !quiet(link)).collect();
        let mut heard = Vec::new();
        for (id, link) in links {
            let Some(line) = self.machine.handle_heard(now, *id) else { continue };
            heard.push(*id);
            let ticking = link.begins.iter().filter(|(_, begins)| **begins <= self.clock);
            for (instrument, _) in ticking {
                let count = admitted.entry(instrument.clone()).or_default();
                if self.machine.admit(now, line, instrument) {
                    *count += 1;
                    self.upstream.counted.ticks += 1;
                    self.subscribers.ticked(instrument, *id);
                }
            }
        }
        for id in heard {
            self.upstream.links.get_mut(&id).expect("it was just seen").heard = self.clock;
        }
        self.promise_ticks_come_once(&admitted);
    }

    /// Something late is said of what is gone: it changes nothing.
    pub(super) fn stray(&mut self) {
        let Some(id) = self.upstream.some_gone(&mut self.random) else { return };
        let (now, kind) = (self.now(), self.random.below(5));
        let before = format!("{:?}", self.machine);
        match kind {
            0 => self.machine.handle_opened(now, id),
            1 => self.machine.handle_ended(now, id, End::Lost),
            2 => self.machine.handle_ended(now, id, End::Credential),
            3 => self.machine.handle_written(now, id, &[]),
            _ => assert_eq!(self.machine.handle_heard(now, id), None),
        }
        assert_eq!(format!("{:?}", self.machine), before, "something was made of a word about what is gone");
    }

    fn forget_link(&mut self, id: ConnectionId) {
        if let Some(link) = self.upstream.links.remove(&id) {
            self.subscribers.lost(link.carries.keys());
        }
        self.upstream.gone.push(id);
        self.upstream.ended += 1;
    }
}
