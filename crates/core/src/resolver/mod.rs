//! The resolver: from a name to backends, and from answers that age, fail and contradict each other to one set.
//!
//! A service is asked for with SRV, then each target with AAAA and A; without a service, or where there are no SRV
//! records, the addresses of the domain itself serve. Every question is a lookup of its own, with its own TTL and its own
//! attempts. What comes of them all is one [`Resolution`], and the rules that make it dependable are here:
//!
//! - A set is never emptied by trouble. What was found stays until a better answer, marked stale. Only a successful answer
//!   that is not empty takes a backend away: an SRV answer without a target, an address answer without an address, or
//!   "no data" for one family of a host whose other family answered last time.
//! - Nothing is published while a question that could add to it has not been tried once, so that a new set replaces the old
//!   one whole; but no news waits longer than one `dns` timeout, so that silent questions do not hold up the others.
//! - Silence holds up nobody else: questions that were in trouble last get half of the room at most.
//! - Addresses that come along with an SRV answer save their questions. Where there may have been no room for all of them, the
//!   family of a target that did not come is asked for.
//! - Nothing is asked without end: a TTL is at least `min_ttl`, attempts are those of the recovery policy, and questions under
//!   way are at most `concurrency`.
//!
//! | answer | SRV | AAAA | A |
//! |---|---|---|---|
//! | records | targets; again after the TTL | addresses; again after the TTL | the same |
//! | NXDOMAIN, no data | addresses of the domain; again after the negative TTL | none; again after the negative TTL | the same |
//! | NOTIMP | addresses of the domain; again in 1 h | none; again in 60 s | as a failure |
//! | REFUSED | as a failure, but no further attempt | the same | the same |
//! | failure, timeout | further attempts, then below | the same | the same |
//!
//! Out of attempts: SRV that has worked keeps its backends and asks again after its TTL, and meanwhile asks for the addresses
//! that came along with it; SRV that never worked falls back to the domain's addresses and asks again in 60 s, in 15 min once
//! addresses are known. Addresses that are known stay and are asked for again after their TTL, at the latest in 60 s; AAAA that
//! never worked beside an A that does, in 1 h; otherwise after the longest delay of the policy. The negative TTL is the answer's
//! (SOA), or 60 s. All waits are spread forward.
//!
//! ```
//! use carom_core::resolver::{Action, Answer, Machine, Options};
//! use std::time::{Duration, Instant};
//!
//! # #[allow(clippy::disallowed_methods)]
//! let start = Instant::now();
//! let options = Options { ipv6: false, default_port: 5432, ..Options::new("db.example.com") };
//! let mut resolver = Machine::new(options, 7, start).unwrap();
//!
//! // A driver would ask a nameserver and say what came back.
//! let Some(Action::Ask { id, question, .. }) = resolver.poll_action() else { panic!() };
//! assert_eq!(question.to_string(), "A db.example.com");
//! let addresses = vec!["10.0.0.1".parse().unwrap()];
//! resolver.handle_answer(start, id, Answer::Addresses { addresses, ttl: Duration::from_secs(30) });
//!
//! assert_eq!(resolver.poll_action(), Some(Action::Publish));
//! assert_eq!(resolver.resolution().backends[0].to_string(), "db.example.com (10.0.0.1:5432)");
//! assert!(resolver.next_timeout().unwrap() >= start + Duration::from_secs(30));
//! ```

mod answers;
mod glance;
mod hosts;
mod lookup;
mod options;
mod publish;
mod question;

pub use glance::{Counters, Glance, Standing};
pub use options::Options;
pub use publish::{Detail, Resolution, State, Via};
pub use question::{Answer, AskId, Kind, Question, Target};

use crate::options::OptionsError;
use crate::random::Random;
use crate::recovery::{Policy, Tries};
use crate::timers::Timers;
use hosts::Host;
use lookup::Lookup;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask, and say what came back with [`Machine::handle_answer`], at the latest after `timeout`, then as trouble.
    Ask {
        /// How to name it in the answer.
        id: AskId,
        /// What to ask.
        question: Question,
        /// How long it may take.
        timeout: Duration,
    },
    /// Nobody waits for this answer any more.
    Cancel(AskId),
    /// [`Machine::resolution`] has changed.
    Publish,
}

/// Names a lookup.
type LookupId = u32;

/// Whose addresses are the backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// Not known until SRV has been asked for.
    Undecided,
    /// The targets of the SRV records.
    Service,
    /// The domain itself.
    Domain,
}

/// The machine behind a DNS resolver.
#[derive(Debug)]
pub struct Machine {
    options: Options,
    random: Random,
    source: Source,
    srv: Option<LookupId>,
    /// Whose addresses are wanted, in the order of publishing.
    targets: Vec<Target>,
    /// The names of the targets, each with its two lookups.
    hosts: BTreeMap<Arc<str>, Host>,
    lookups: BTreeMap<LookupId, Lookup>,
    next_lookup: LookupId,
    queue: VecDeque<LookupId>,
    /// Those that were in trouble last. They get half of the room at most, so that silence does not hold up what answers.
    troubled: VecDeque<LookupId>,
    /// It is their turn.
    troubled_next: bool,
    asking: BTreeMap<AskId, LookupId>,
    next_ask: u64,
    timers: Timers<(LookupId, u32)>,
    /// Lookups of which no attempt has ended yet.
    awaited: usize,
    /// Until when they hold up news, if there are any.
    hold_until: Option<Instant>,
    news: publish::News,
    published: Resolution,
    counters: Counters,
    actions: VecDeque<Action>,
}

impl Machine {
    /// A resolver that asks its first question at once. The same seed gives the same waits.
    ///
    /// # Errors
    /// When an option makes no sense.
    pub fn new(options: Options, seed: u64, now: Instant) -> Result<Machine, OptionsError> {
        options.validate()?;
        let mut machine = Machine {
            random: Random::new(seed),
            source: Source::Undecided,
            srv: None,
            targets: Vec::new(),
            hosts: BTreeMap::new(),
            lookups: BTreeMap::new(),
            next_lookup: 0,
            queue: VecDeque::new(),
            troubled: VecDeque::new(),
            troubled_next: false,
            asking: BTreeMap::new(),
            next_ask: 0,
            timers: Timers::new(),
            awaited: 0,
            hold_until: None,
            news: publish::News::None,
            published: Resolution::unknown(),
            counters: Counters::default(),
            actions: VecDeque::new(),
            options,
        };
        match machine.options.service.clone() {
            Some(service) => {
                let name = format!("{service}.{}", machine.options.domain).into();
                let srv = machine.add_lookup(Question { name, kind: Kind::Srv });
                machine.srv = Some(srv);
                machine.want(srv);
            }
            None => machine.use_domain(),
        }
        machine.pump();
        machine.publish(now);
        Ok(machine)
    }

    /// What it was told.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What is to be done next; ask until there is nothing.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`handle_timeout`](Machine::handle_timeout) wants to be called, at the latest.
    pub fn next_timeout(&self) -> Option<Instant> {
        [self.timers.next(), self.hold_until].into_iter().flatten().min()
    }

    /// Time has passed: what has rested or waited long enough is asked again.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((id, stay)) = self.timers.pop_due(now) {
            let Some(lookup) = self.lookups.get(&id).filter(|lookup| lookup.stay == stay) else { continue };
            match &lookup.state {
                lookup::State::Delayed { tries } => self.enqueue(id, tries.clone()),
                lookup::State::Resting => self.want(id),
                lookup::State::Off | lookup::State::Queued { .. } | lookup::State::Asking { .. } => {}
            }
        }
        self.pump();
        self.publish(now);
    }

    /// The way to the nameservers is back: what was in trouble is asked again at once, and what is being asked, perhaps in
    /// vain, has all its attempts before it.
    pub fn handle_restored(&mut self, now: Instant) {
        let mut troubled = Vec::new();
        for (&id, lookup) in &mut self.lookups {
            let policy = self.options.recovery.for_dns(lookup.question.kind == Kind::Srv);
            match &mut lookup.state {
                lookup::State::Queued { tries } | lookup::State::Asking { tries, .. } => *tries = Tries::new(policy),
                lookup::State::Delayed { .. } => troubled.push(id),
                lookup::State::Resting if lookup.outcome == lookup::Outcome::Trouble => troubled.push(id),
                lookup::State::Resting | lookup::State::Off => {}
            }
        }
        for id in troubled {
            self.want(id);
        }
        self.pump();
        self.publish(now);
    }

    /// Whether IPv6 addresses are of use has been found out anew.
    pub fn set_ipv6(&mut self, now: Instant, ipv6: bool) {
        if self.options.ipv6 == ipv6 {
            return;
        }
        self.options.ipv6 = ipv6;
        for id in self.hosts.values().map(|host| host.aaaa).collect::<Vec<_>>() {
            if ipv6 {
                self.want(id);
                continue;
            }
            self.turn_off(id);
            if self.lookup(id).reset() {
                self.news.raise(publish::News::Some);
            }
        }
        self.pump();
        self.publish(now);
    }

    /// What is known.
    pub fn resolution(&self) -> &Resolution {
        &self.published
    }

    /// Whether it wants to know this, now or later.
    pub fn wants(&self, question: &Question) -> bool {
        match question.kind {
            Kind::Srv => self.srv.is_some_and(|id| self.lookups[&id].question == *question),
            Kind::Aaaa | Kind::A => self.hosts.contains_key(&question.name),
        }
    }

    fn policy(&self, kind: Kind) -> &Policy {
        self.options.recovery.for_dns(kind == Kind::Srv)
    }

    fn lookup(&mut self, id: LookupId) -> &mut Lookup {
        self.lookups.get_mut(&id).expect("hosts name lookups that exist")
    }

    fn add_lookup(&mut self, question: Question) -> LookupId {
        let id = self.next_lookup;
        self.next_lookup += 1;
        self.lookups.insert(id, Lookup::new(question));
        id
    }

    /// Begins a new round of attempts, unless one is under way.
    fn want(&mut self, id: LookupId) {
        let lookup = &self.lookups[&id];
        match lookup.state {
            lookup::State::Off | lookup::State::Resting | lookup::State::Delayed { .. } => {
                let tries = Tries::new(self.policy(lookup.question.kind));
                self.enqueue(id, tries);
            }
            lookup::State::Queued { .. } | lookup::State::Asking { .. } => {}
        }
    }

    fn enqueue(&mut self, id: LookupId, tries: Tries) {
        let lookup = self.lookup(id);
        lookup.enter(lookup::State::Queued { tries });
        let newly_awaited = !lookup.tried && !lookup.awaited;
        lookup.awaited |= newly_awaited;
        let troubled = lookup.is_troubled();
        match lookup.question.kind {
            Kind::Srv => self.queue.push_front(id),
            Kind::Aaaa | Kind::A if troubled => self.troubled.push_back(id),
            Kind::Aaaa | Kind::A => self.queue.push_back(id),
        }
        self.awaited += usize::from(newly_awaited);
    }

    /// Asks what is queued, as far as there is room.
    fn pump(&mut self) {
        while self.asking.len() < self.options.concurrency {
            let Some(id) = self.next_queued() else { return };
            // What is no longer queued was left in the line: it is cheaper to pass over it here than to search for it.
            let Some(lookup) = self.lookups.get_mut(&id) else { continue };
            let lookup::State::Queued { tries } = &lookup.state else { continue };
            let tries = tries.clone();
            let ask = AskId(self.next_ask);
            self.next_ask += 1;
            self.counters.asked += 1;
            self.actions.push_back(Action::Ask {
                id: ask,
                question: lookup.question.clone(),
                timeout: tries.timeout(),
            });
            lookup.enter(lookup::State::Asking { id: ask, tries });
            self.asking.insert(ask, id);
        }
    }

    /// The next to be asked. Those that were in trouble and the others take turns, so that neither waits for ever.
    fn next_queued(&mut self) -> Option<LookupId> {
        let troubled_first = std::mem::take(&mut self.troubled_next);
        let first = if troubled_first { self.next_troubled() } else { None };
        first.or_else(|| {
            let next = self.queue.pop_front();
            self.troubled_next = next.is_some();
            next.or_else(|| self.next_troubled())
        })
    }

    /// The next of those that were in trouble, if there is room for it.
    fn next_troubled(&mut self) -> Option<LookupId> {
        let most = (self.options.concurrency / 2).max(1);
        let under_way = self.asking.values().filter(|id| self.lookups[id].is_troubled()).count();
        if under_way < most { self.troubled.pop_front() } else { None }
    }

    /// Stops asking: something else answers it, or nobody wants to know.
    fn turn_off(&mut self, id: LookupId) {
        let lookup = self.lookups.get_mut(&id).expect("hosts name lookups that exist");
        if let lookup::State::Asking { id: ask, .. } = lookup.state {
            self.asking.remove(&ask);
            self.actions.push_back(Action::Cancel(ask));
        }
        lookup.enter(lookup::State::Off);
        self.no_longer_awaited(id);
    }

    fn no_longer_awaited(&mut self, id: LookupId) {
        let lookup = self.lookup(id);
        lookup.tried = true;
        if std::mem::take(&mut lookup.awaited) {
            self.awaited -= 1;
            self.news.raise(publish::News::Some);
        }
    }

    /// Sets the lookup's timer: it was just put into a state that ends with time.
    fn wake_at(&mut self, at: Instant, id: LookupId) {
        let lookup = self.lookup(id);
        lookup.wakes_at = Some(at);
        let stay = lookup.stay;
        let Machine { timers, lookups, .. } = self;
        timers.set(at, (id, stay), lookups.len(), |(id, stay)| {
            lookups.get(&id).is_some_and(|lookup| lookup.stay == stay)
        });
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    /// The targets are others each time, most questions end in trouble, and IPv6 comes and goes.
    #[test]
    fn memory_follows_the_targets_there_are() {
        let mut now = Instant::now();
        let options = Options { service: Some("_s._tcp".into()), concurrency: 3, ..Options::new("d") };
        let mut machine = Machine::new(options, 1, now).unwrap();
        for round in 0..5_000 {
            while let Some(action) = machine.poll_action() {
                let Action::Ask { id, question, .. } = action else { continue };
                let name = |number: u32| format!("h{}", round * 5 + number).into();
                let target = |number| Target { priority: 0, name: name(number), port: 1, weight: 0 };
                let targets = (0..5).map(target).collect();
                let answer = match question.kind {
                    Kind::Srv => Answer::Targets { targets, additional: Vec::new(), whole: true, ttl: Duration::ZERO },
                    Kind::Aaaa => Answer::Trouble,
                    Kind::A => continue,
                };
                machine.handle_answer(now, id, answer);
            }
            machine.set_ipv6(now, round % 3 == 0);
            now += Duration::from_secs(1);
            machine.handle_timeout(now);
            let stuck = machine.asking.iter().find(|(_, id)| machine.lookups[id].question.kind == Kind::A);
            if let Some(id) = stuck.map(|(&id, _)| id) {
                machine.handle_answer(now, id, Answer::Trouble);
            }
            assert!(machine.hosts.len() <= 5 && machine.lookups.len() <= 11 && machine.asking.len() <= 3);
            assert!(machine.queue.len() < 100, "{} are queued in round {round}", machine.queue.len());
            assert!(machine.timers.len() < 150, "{} timers in round {round}", machine.timers.len());
        }
        let srv = machine.lookups[&machine.srv.expect("there is a service")].ttl;
        assert!(srv.is_some() && machine.next_lookup > 5_000, "the targets have changed: {}", machine.next_lookup);
    }
}
