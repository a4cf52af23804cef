//! The books, and what must hold.
//!
//! ```text
//!   1  at most `concurrency` questions are under way
//!   2  never the same question twice at a time
//!   3  the set is never emptied
//!   4  what is published was answered; when nothing is stale it is what was answered last, whole
//!   5  nothing is asked again before its time: a TTL is waited out, at least `min_ttl`; attempts are a delay apart
//!   6  when changes and faults stop, the truth is published after a while, with nothing stale and no troubles
//!   7  running stays running; failed does not start again; stale means running
//!   8  a timeout that has been handled is over
//!   9  nobody asks for what is not a target any more
//!  10  it is complete as soon as everything has been tried
//!  11  a set is published whole: not before everything has been tried, or a timeout has passed; and then it is
//!  12  what is counted and shown of every question is what happened to it
//! ```

use super::zone::{Figures, figures};
use super::{Flight, Moment, Setting, World};
use carom_core::recovery::Tries;
use carom_core::resolver::{Answer, Kind, Options, Question, State, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// What was said so far, and what follows from it alone.
pub(crate) struct Books {
    pub(crate) published: u64,
    spread: f64,
    service: Option<Question>,
    ipv6: bool,
    /// What is wanted addresses of; nothing until SRV has been asked for.
    targets: Option<Vec<Target>>,
    domain: Target,
    /// The addresses last said to be there, of the targets.
    known: BTreeMap<Question, BTreeSet<IpAddr>>,
    /// What has been answered at all, of the targets.
    tried: BTreeSet<Question>,
    /// Every target and every address ever said to be there.
    targets_ever: BTreeSet<Target>,
    addresses_ever: BTreeSet<(Arc<str>, IpAddr)>,
    /// Until when the question must not be asked again, and whether the return of nameservers would change that.
    rests: BTreeMap<Question, (Moment, bool)>,
    /// When a question was asked last, of whatever target that was.
    asked: BTreeMap<Question, Moment>,
    state: State,
    /// Since when something has not been tried, or was published for all that.
    untried_since: Option<Moment>,
    /// Since when something is known that is not published.
    unsaid_since: Option<Moment>,
}

impl Books {
    pub(crate) fn new(setting: &Setting) -> Books {
        let options = &setting.options;
        let service = options.service.as_ref().map(|service| format!("{service}.{}", options.domain).into());
        let domain = Target { priority: 0, name: options.domain.clone(), port: options.default_port, weight: 0 };
        Books {
            published: 0,
            spread: setting.spread,
            service: service.map(|name| Question { name, kind: Kind::Srv }),
            ipv6: options.ipv6,
            targets: options.service.is_none().then(|| vec![domain.clone()]),
            targets_ever: BTreeSet::from([domain.clone()]),
            domain,
            known: BTreeMap::new(),
            tried: BTreeSet::new(),
            addresses_ever: BTreeSet::new(),
            rests: BTreeMap::new(),
            asked: BTreeMap::new(),
            state: State::Starting,
            untried_since: Some(Moment::ZERO),
            unsaid_since: None,
        }
    }

    pub(crate) fn answered(&mut self, clock: Moment, question: &Question, answer: &Answer, options: &Options) {
        self.tried.insert(question.clone());
        self.rest(clock, question, answer, options);
        match answer {
            Answer::Targets { targets, additional, whole, .. } => {
                self.targets_ever.extend(targets.iter().cloned());
                self.aim_at(targets.clone());
                let along: Vec<_> = additional.iter().filter(|(_, address)| self.ipv6 || address.is_ipv4()).collect();
                let names: BTreeSet<_> = along.iter().map(|(name, _)| name.clone()).collect();
                for (name, kind) in names.into_iter().flat_map(|name| [(name.clone(), Kind::Aaaa), (name, Kind::A)]) {
                    let of_kind = |address: &IpAddr| address.is_ipv4() == (kind == Kind::A);
                    let addresses = along.iter().filter(|(other, address)| *other == name && of_kind(address));
                    let addresses: BTreeSet<_> = addresses.map(|(_, address)| *address).collect();
                    let useful = self.ipv6 || kind == Kind::A;
                    // What did not come along for want of room is asked for.
                    if addresses.is_empty() && useful && !whole {
                        continue;
                    }
                    let question = Question { name: name.clone(), kind };
                    self.rests.remove(&question);
                    self.learn(question, addresses);
                }
            }
            Answer::Nothing { .. } | Answer::NotImplemented if question.kind == Kind::Srv => {
                self.aim_at(vec![self.domain.clone()]);
            }
            Answer::NotOffered { .. } if self.targets.is_none() => self.targets = Some(Vec::new()),
            Answer::Addresses { addresses, .. } => self.learn(question.clone(), addresses.iter().copied().collect()),
            Answer::Nothing { .. } => self.learn(question.clone(), BTreeSet::new()),
            Answer::NotImplemented if question.kind == Kind::Aaaa => self.learn(question.clone(), BTreeSet::new()),
            Answer::NotOffered { .. } | Answer::NotImplemented | Answer::Refused | Answer::Trouble => {}
        }
    }

    pub(crate) fn ipv6_turned(&mut self, ipv6: bool) {
        self.ipv6 = ipv6;
        for target in self.targets.iter().flatten() {
            let question = Question { name: target.name.clone(), kind: Kind::Aaaa };
            self.rests.remove(&question);
            self.asked.remove(&question);
            self.known.remove(&question);
            if !ipv6 {
                self.tried.insert(question);
            }
        }
    }

    pub(crate) fn restored(&mut self) {
        for (question, (until, troubled)) in &mut self.rests {
            if *troubled {
                *until = Moment::ZERO;
                self.asked.remove(question);
            }
        }
    }

    fn learn(&mut self, question: Question, addresses: BTreeSet<IpAddr>) {
        self.addresses_ever.extend(addresses.iter().map(|address| (question.name.clone(), *address)));
        self.tried.insert(question.clone());
        self.known.insert(question, addresses);
    }

    /// What is known of names that are not wanted any more is forgotten.
    fn aim_at(&mut self, targets: Vec<Target>) {
        let wanted = |question: &Question| {
            question.kind == Kind::Srv || targets.iter().any(|target| target.name == question.name)
        };
        self.known.retain(|question, _| wanted(question));
        self.tried.retain(wanted);
        self.rests.retain(|question, _| wanted(question));
        self.targets = Some(targets);
    }

    /// How long the question must rest at least, by the table.
    fn rest(&mut self, clock: Moment, question: &Question, answer: &Answer, options: &Options) {
        let default = Duration::from_secs(60);
        let policy = options.recovery.for_dns(question.kind == Kind::Srv);
        // The least that any trouble leads to: another attempt.
        let delay = policy.first_delay().mul_f64(1.0 - self.spread / 2.0);
        let (about, troubled) = match (answer, question.kind) {
            (Answer::Targets { ttl, .. } | Answer::Addresses { ttl, .. }, _) => (*ttl, false),
            (Answer::NotOffered { ttl }, _) => (*ttl, true),
            (Answer::Nothing { ttl, .. }, _) => (ttl.unwrap_or(default), false),
            (Answer::NotImplemented, Kind::Srv) => (default * 60, false),
            (Answer::NotImplemented, Kind::Aaaa) => (default, false),
            (Answer::Refused, _) => (Duration::ZERO, true),
            (Answer::NotImplemented | Answer::Trouble, _) => {
                let least = delay.min(options.min_ttl);
                self.rests.insert(question.clone(), (clock + least, true));
                return;
            }
        };
        let about = about.clamp(options.min_ttl, options.max_ttl);
        self.rests.insert(question.clone(), (clock + about, troubled));
    }

    /// How many records the latest answers to a question say there are, if there are any.
    pub(super) fn found(&self, question: &Question) -> Option<usize> {
        match question.kind {
            Kind::Srv => None,
            Kind::Aaaa | Kind::A => self.known.get(question).map(BTreeSet::len).filter(|count| *count > 0),
        }
    }

    /// Whether there is such a question to be asked.
    fn wants(&self, question: &Question) -> bool {
        match question.kind {
            Kind::Srv => self.service.as_ref() == Some(question),
            Kind::Aaaa if !self.ipv6 => false,
            Kind::Aaaa | Kind::A => self.targets.iter().flatten().any(|target| target.name == question.name),
        }
    }

    fn all_are_tried(&self) -> bool {
        let kinds = if self.ipv6 { &[Kind::Aaaa, Kind::A][..] } else { &[Kind::A] };
        let mut questions = self
            .targets
            .iter()
            .flatten()
            .flat_map(|target| kinds.iter().map(|&kind| Question { name: target.name.clone(), kind }));
        self.service.iter().all(|srv| self.tried.contains(srv)) && questions.all(|one| self.tried.contains(&one))
    }

    /// The backends, if nothing of what is known is stale.
    fn backends(&self) -> BTreeSet<Figures> {
        let mut places = BTreeMap::new();
        for target in self.targets.iter().flatten() {
            let place = places.entry((target.name.clone(), target.port)).or_insert((target.priority, target.weight));
            *place = (*place).min((target.priority, target.weight));
        }
        let mut all = BTreeSet::new();
        for ((name, port), (priority, weight)) in places {
            for kind in [Kind::Aaaa, Kind::A] {
                let question = Question { name: name.clone(), kind };
                for address in self.known.get(&question).into_iter().flatten() {
                    all.insert((name.clone(), SocketAddr::new(*address, port), priority, weight));
                }
            }
        }
        all
    }
}

impl World {
    pub(super) fn promises_2_5_9_a_question_is_due(&mut self, question: &Question) {
        let (clock, options) = (self.clock, self.machine.options());
        if self.books.targets.is_none() && question.kind != Kind::Srv {
            self.books.targets = Some(vec![self.books.domain.clone()]);
        }
        assert!(self.books.wants(question), "promise 9: {question} is asked, which nobody wants");
        assert!(
            !self.flights.values().any(|flight| flight.question == *question),
            "promise 2: {question} is under way already"
        );
        let policy = options.recovery.for_dns(question.kind == Kind::Srv);
        let least = policy.first_delay().mul_f64(1.0 - self.setting.spread / 2.0).min(options.min_ttl);
        if let Some(last) = self.books.asked.insert(question.clone(), clock) {
            assert!(clock >= last + least, "promise 5: {question} is asked again after {:?}", clock - last);
        }
        let until = self.books.rests.get(question).map_or(Moment::ZERO, |(until, _)| *until);
        assert!(clock >= until, "promise 5: {question} was to rest until {until:?}");
    }

    pub(super) fn promise_1_questions_are_bounded(&self) {
        let most = self.machine.options().concurrency;
        assert!(self.flights.len() <= most, "promise 1: {} questions are under way", self.flights.len());
    }

    pub(super) fn promises_3_4_7_10_11_what_is_published(&mut self, published: bool) {
        let (resolution, books) = (self.machine.resolution(), &mut self.books);
        let said: BTreeSet<_> = resolution.backends.iter().map(figures).collect();
        assert_eq!(said.len(), resolution.backends.len(), "promise 4: somebody is there twice");
        assert_eq!(resolution.details.len(), resolution.backends.len());

        assert_eq!(said.is_empty(), resolution.state != State::Running, "promise 3: {:?}", resolution.state);
        let legal = match (books.state, resolution.state) {
            (State::Starting, _) | (State::Running, State::Running) => true,
            (State::Failed, to) => to != State::Starting,
            (State::Running, State::Starting | State::Failed) => false,
        };
        assert!(legal, "promise 7: from {:?} to {:?}", books.state, resolution.state);
        books.state = resolution.state;
        assert!(
            resolution.stale_since.is_none() || resolution.state == State::Running,
            "promise 7: stale, not running"
        );

        for (name, socket, priority, weight) in &said {
            let target = Target { priority: *priority, name: name.clone(), port: socket.port(), weight: *weight };
            let answered =
                books.targets_ever.contains(&target) && books.addresses_ever.contains(&(name.clone(), socket.ip()));
            assert!(answered, "promise 4: {name} {socket} was never answered");
        }
        let (all_are_tried, known) = (books.all_are_tried(), books.backends());
        let patience = Tries::new(self.machine.options().recovery.for_dns(false)).timeout();
        if published && !all_are_tried {
            let since = books.untried_since.take().unwrap_or(self.clock);
            assert!(self.clock >= since + patience, "promise 11: published in parts");
        }
        books.untried_since = if all_are_tried { None } else { books.untried_since.or(Some(self.clock)) };
        books.unsaid_since = if known.is_subset(&said) { None } else { books.unsaid_since.or(Some(self.clock)) };
        let unsaid = books.unsaid_since.map_or(Moment::ZERO, |since| self.clock - since);
        // A late driver is late again when something happens before it comes.
        assert!(unsaid <= patience + 4 * self.setting.late, "promise 11: {known:?} is known, {said:?} still published");

        if all_are_tried {
            assert!(known.is_subset(&said), "promise 4: {known:?} is known, {said:?} published");
            assert!(said == known || resolution.stale_since.is_some(), "promise 4: {said:?}, but {known:?} is known");
            assert!(resolution.complete, "promise 10: everything has been tried");
        }
        assert!(!published || resolution.complete == all_are_tried, "promise 10: complete without having tried");
    }

    pub(super) fn promise_8_timeouts_are_in_the_future(&self) {
        let next = self.machine.next_timeout();
        assert!(next.is_none_or(|next| next > self.now()), "promise 8: {:?} late", next.map(|next| self.now() - next));
    }

    pub(super) fn promise_9_nobody_asks_for_what_is_gone(&self) {
        for Flight { question, .. } in self.flights.values() {
            assert!(self.books.wants(question), "promise 9: {question} is under way, which nobody wants");
        }
    }

    /// Promise 6, once it holds.
    pub(crate) fn is_settled(&self) -> bool {
        let resolution = self.machine.resolution();
        resolution.state == State::Running
            && resolution.complete
            && resolution.stale_since.is_none()
            && resolution.troubles.is_empty()
            && resolution.backends.iter().map(figures).collect::<BTreeSet<_>>()
                == self.zone.truth(self.machine.options().ipv6)
    }

    /// How long that may take: an attempt that is lost, the longest rest there is, and everything asked one by one, twice.
    pub(crate) fn settling_bound(&self) -> Duration {
        let options = self.machine.options();
        let longest = Duration::from_secs(self.setting.longest_ttl.max(3_600)).clamp(options.min_ttl, options.max_ttl);
        let attempt = Duration::from_secs(3) + self.setting.late;
        let questions = 1 + 2 * self.setting.names as u32;
        longest.mul_f64(1.0 + self.setting.spread) + attempt * (2 + 4 * questions)
    }
}
