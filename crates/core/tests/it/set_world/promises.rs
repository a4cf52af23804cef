//! What must hold, and the books it is held against.

use super::callers::Caller;
use super::setting::Setting;
use super::{Moment, World, ms, number};
use carom_core::backend::BackendState;
use carom_core::random::Random;
use carom_core::set::{Action, ConnectionId, Machine, State, Want};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The longest time between attempts in an outage, and the age at which an attempt hangs.
const OUTAGE_DELAY: Duration = Duration::from_secs(1);

/// For so long failed uses count against a backend at most, unless its last ones failed.
const PENALTY: Duration = Duration::from_secs(6);

/// What the world remembers to judge by.
#[derive(Default)]
pub(super) struct Books {
    links: BTreeMap<ConnectionId, Link>,
    /// The latest of those that are gone.
    gone: Vec<ConnectionId>,
    ever: BTreeSet<ConnectionId>,
    known: BTreeSet<usize>,
    failures: BTreeMap<usize, Moment>,
    /// No dial to this server before then.
    rests: BTreeMap<usize, Moment>,
    /// The connection whose early end is the reason for that.
    accused: BTreeMap<usize, ConnectionId>,
    /// When the last dial of a server began.
    dialled: BTreeMap<usize, Moment>,
    pub(super) closing: bool,
    pub(super) abandoned: bool,
    pub(super) asked: usize,
    pub(super) granted: usize,
    /// Of these, by server.
    pub(super) granted_of: BTreeMap<usize, usize>,
    /// The longest that a lease which was granted had to wait.
    pub(super) longest_wait: Duration,
    pub(super) refused: usize,
    pub(super) given_up: usize,
    /// When a failure of each server was reported last.
    pub(super) failure_reported: BTreeMap<usize, Moment>,
    /// Wakes in a row at which nothing else happened.
    pub(super) wakes: usize,
    last_wake: Moment,
    steps: (Moment, usize),
    state: Option<State>,
    /// Since when every known backend has been dead.
    outage_since: Option<Moment>,
    /// Most that waited at a time, and most dials and connections.
    most: (usize, usize),
}

/// A dial, or the connection that came of it.
#[derive(Clone, Debug)]
struct Link {
    server: usize,
    stage: Stage,
    created: Moment,
    leases: usize,
    /// How many it can serve at a time, as far as was said.
    capacity: usize,
    /// One of its leases has ended before it was retired, or a use was reported.
    served: bool,
    uses: usize,
    /// Since when nobody has held it.
    unheld: Moment,
    told_added: bool,
    told_removed: bool,
    told_drain: bool,
    /// Its holders have until then.
    until: Option<Moment>,
    /// One of its holders has said that it takes no more.
    retired: bool,
    /// As a dial it has taken a second in an outage.
    hangs: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Dialling,
    Up,
    /// It has ended by itself, and only that has to be told.
    Ended,
}

impl Link {
    fn takes_leases(&self) -> bool {
        self.stage == Stage::Up && !self.told_removed
    }
}

impl Books {
    pub(super) fn dial_of(&self, id: ConnectionId) -> Option<usize> {
        self.links.get(&id).filter(|link| link.stage == Stage::Dialling).map(|link| link.server)
    }

    pub(super) fn last_failure(&self, server: usize) -> Option<Moment> {
        self.failures.get(&server).copied()
    }

    pub(super) fn connections_to(&self, server: usize) -> Vec<ConnectionId> {
        let is_up = |(_, link): &(&ConnectionId, &Link)| link.server == server && link.stage == Stage::Up;
        self.links.iter().filter(is_up).map(|(id, _)| *id).collect()
    }

    pub(super) fn some_gone(&self, random: &mut Random) -> Option<ConnectionId> {
        self.gone.get(random.below(self.gone.len())).copied()
    }

    pub(super) fn dial_failed(&mut self, clock: Moment, id: ConnectionId, setting: &Setting) {
        let Link { server, hangs, .. } = self.forget(id);
        self.failures.insert(server, clock);
        // The next attempt may have begun beside one that hangs.
        if !hangs {
            self.rest(clock, server, setting);
        }
    }

    pub(super) fn connected(&mut self, clock: Moment, id: ConnectionId) {
        let link = self.links.get_mut(&id).expect("it was dialled");
        (link.stage, link.created, link.unheld) = (Stage::Up, clock, clock);
        self.rests.remove(&link.server);
        self.accused.remove(&link.server);
    }

    pub(super) fn leased(&mut self, id: ConnectionId) {
        self.granted += 1;
        let link = self.links.get_mut(&id).expect("it is there");
        link.leases += 1;
        *self.granted_of.entry(link.server).or_default() += 1;
    }

    pub(super) fn released(&mut self, clock: Moment, id: ConnectionId) {
        if let Some(link) = self.links.get_mut(&id) {
            link.leases -= 1;
            link.unheld = clock;
            link.served |= !link.told_removed;
            link.uses += 1;
        }
    }

    /// A use of it was reported, perhaps after its end.
    pub(super) fn reported(&mut self, id: ConnectionId, server: usize) {
        if let Some(link) = self.links.get_mut(&id) {
            link.served = true;
        }
        if self.accused.get(&server) == Some(&id) {
            self.accused.remove(&server);
            self.rests.remove(&server);
        }
    }

    /// How many leases of it have ended.
    pub(super) fn uses(&self, id: ConnectionId) -> usize {
        self.links.get(&id).map_or(0, |link| link.uses)
    }

    /// One that served nobody and is as young as that counts as a failure.
    pub(super) fn retired(&mut self, clock: Moment, id: ConnectionId, setting: &Setting) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.retired = true;
        let (server, short) = (link.server, clock - link.created < setting.limits.delay.max(ms(1)));
        if short && !link.served && !link.told_removed {
            self.accuse(clock, server, id, setting);
        }
    }

    pub(super) fn limited(&mut self, id: ConnectionId, capacity: usize) {
        self.links.get_mut(&id).expect("it is there").capacity = capacity;
    }

    pub(super) fn server_of(&self, id: ConnectionId) -> Option<usize> {
        let accused = || self.accused.iter().find(|(_, accused)| **accused == id).map(|(server, _)| *server);
        self.links.get(&id).map(|link| link.server).or_else(accused)
    }

    pub(super) fn ended_by_itself(&mut self, clock: Moment, id: ConnectionId, setting: &Setting) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let (server, short) = (link.server, clock - link.created < setting.limits.delay.max(ms(1)));
        let served = link.served;
        if link.told_removed {
            self.forget(id);
            return;
        }
        link.stage = Stage::Ended;
        if short && !served {
            self.accuse(clock, server, id, setting);
        }
    }

    pub(super) fn published(&mut self, clock: Moment, known: BTreeSet<usize>, setting: &Setting) {
        for link in self.links.values_mut() {
            let given_up = self.known.contains(&link.server) && !known.contains(&link.server);
            if given_up && link.takes_leases() {
                link.until = Some(clock + setting.options.drain_timeout);
            }
        }
        self.known = known;
    }

    fn accuse(&mut self, clock: Moment, server: usize, id: ConnectionId, setting: &Setting) {
        let waits = self.rests.get(&server).is_some_and(|until| *until > clock);
        self.rest(clock, server, setting);
        if !waits {
            self.accused.insert(server, id);
        }
    }

    /// The next dial has to wait, at least for the shortest delay there is.
    fn rest(&mut self, clock: Moment, server: usize, setting: &Setting) {
        let least = setting.limits.delay.mul_f64(1.0 - setting.limits.spread / 2.0).max(ms(1));
        self.rests.insert(server, clock + least);
        self.accused.remove(&server);
    }

    fn forget(&mut self, id: ConnectionId) -> Link {
        if self.gone.len() == 10 {
            self.gone.remove(0);
        }
        self.gone.push(id);
        self.links.remove(&id).expect("it is there")
    }
}

impl World {
    /// Holds after every event.
    pub(super) fn check(&mut self) {
        self.machine.check().unwrap_or_else(|problem| panic!("{problem}"));
        self.promise_waiters_are_told_by_their_deadline();
        self.promise_states_follow_the_diagram();
        self.promise_somebody_wants_what_is_dialled();
        self.promise_enough_are_left();
        let observation = self.machine.observe();
        self.figures_agree(&observation);
        let snapshot = observation.figures;
        self.promise_attempts_go_on_in_an_outage(snapshot.dead);
        let leases: usize = self.books.links.values().map(|link| link.leases).sum();
        assert_eq!((snapshot.leases, snapshot.waiting), (leases, self.waiting.len()), "leases, waiters");
        assert_eq!(snapshot.known, self.books.known.len().min(if self.books.closing { 0 } else { usize::MAX }));
        assert!(self.books.links.values().all(|link| link.stage != Stage::Ended), "its end was not told");
        let up = self.books.links.values().filter(|link| link.stage == Stage::Up).count();
        assert_eq!(snapshot.connections.len(), up, "connections");
        let mut places = BTreeSet::new();
        for glance in snapshot.connections {
            let link = &self.books.links[&glance.connection];
            assert_eq!((number(&glance.backend), glance.leases), (link.server, link.leases));
            assert_eq!(glance.draining, link.told_removed);
            assert!(glance.draining || places.insert((link.server, glance.place)), "two at one place");
            assert!(!glance.kept || self.setting.options.eager);
            assert!(link.leases > 0 || self.setting.options.per_backend > 0, "kept for nobody: {link:?}");
        }
        let (waiting, links) = self.books.most;
        self.books.most = (waiting.max(self.waiting.len()), links.max(self.books.links.len()));
        let places = self.setting.servers * (1 + self.setting.options.per_backend);
        let most = self.books.most.0 + self.books.most.1 + places;
        let footprint = self.machine.footprint();
        assert!(footprint <= 8 * most + 80, "{footprint} for at most {most} things");
    }

    pub(super) fn is_outage(&self) -> bool {
        self.books.outage_since.is_some()
    }

    /// In an outage every known backend is tried within a second while a lease of any waits; an attempt that hangs does not keep
    /// others from it.
    fn promise_attempts_go_on_in_an_outage(&mut self, dead: usize) {
        let is_outage = dead > 0 && dead == self.known.len() && !self.books.closing;
        self.books.outage_since = is_outage.then(|| self.books.outage_since.unwrap_or(self.clock));
        for link in self.books.links.values_mut().filter(|_| is_outage) {
            link.hangs |= link.created + OUTAGE_DELAY <= self.clock;
        }
        let Some(since) = self.books.outage_since.filter(|_| self.setting.jump_every.is_none()) else { return };
        let any = self.waiting.values().filter(|caller| caller.want.backend.is_none());
        let Some(came) = any.map(|caller| caller.came).min() else { return };
        for server in self.known.keys() {
            let dials = || {
                let dials = |link: &&Link| link.server == *server && link.stage == Stage::Dialling;
                self.books.links.values().filter(dials)
            };
            if dials().count() == self.setting.options.connecting_per_backend {
                continue;
            }
            let dialled = dials().map(|link| link.created).max().max(self.books.last_failure(*server));
            let quiet = self.clock - since.max(came).max(dialled.unwrap_or_default());
            assert!(quiet <= OUTAGE_DELAY + 2 * self.setting.late, "no attempt at {server} for {quiet:?}");
        }
    }

    /// A lease of any backend fails in an outage: at its deadline, after `outage_wait`, or when an attempt that began later failed
    /// at every backend.
    pub(super) fn promise_it_failed_in_time(&self, caller: &Caller) {
        let wait = self.setting.options.outage_wait;
        // The outage may have begun just now.
        let since = self.books.outage_since.unwrap_or(self.clock).max(caller.came);
        let tried = |server: &usize| self.books.last_failure(*server).is_some_and(|failed| failed >= caller.came);
        let is_over = if wait.is_zero() { self.known.keys().all(tried) } else { since + wait <= self.clock };
        assert!(is_over || caller.deadline <= self.clock, "failed too early: {caller:?}, outage since {since:?}");
        assert!(self.back_since.is_none_or(|back| caller.came < back), "it was made after a server was back");
    }

    pub(super) fn promise_actions(&mut self, action: &Action) {
        match action {
            Action::Dial { connection, backend, .. } => {
                assert!(!self.books.closing, "closing dials nobody");
                assert!(self.books.ever.insert(*connection), "a name is never used again");
                let server = number(backend);
                let link = Link {
                    server,
                    stage: Stage::Dialling,
                    created: self.clock,
                    leases: 0,
                    capacity: usize::MAX,
                    served: false,
                    uses: 0,
                    unheld: self.clock,
                    told_added: false,
                    told_removed: false,
                    told_drain: false,
                    until: None,
                    retired: false,
                    hangs: false,
                };
                self.books.links.insert(*connection, link);
                self.promise_dials_are_bounded(server);
            }
            Action::HealthCheck { .. } => {}
            Action::Abort(id) => {
                let link = self.books.forget(*id);
                assert_eq!(link.stage, Stage::Dialling, "only dials are aborted");
            }
            Action::Added(id) => {
                let link = self.books.links.get_mut(id).expect("it is up");
                assert!(link.stage == Stage::Up && !std::mem::replace(&mut link.told_added, true), "added once");
            }
            Action::Removed(id) => {
                let link = self.books.links.get_mut(id).expect("it is there");
                assert!(link.told_added && !std::mem::replace(&mut link.told_removed, true), "removed once");
                if link.stage == Stage::Ended {
                    self.books.forget(*id);
                } else {
                    self.promise_nothing_is_given_up_without_reason(*id);
                }
            }
            Action::Drain(id) => {
                let link = self.books.links.get_mut(id).expect("it is up");
                assert!(link.stage == Stage::Up && link.told_removed && link.leases > 0);
                assert!(!std::mem::replace(&mut link.told_drain, true), "told once");
            }
            Action::Shut(id) => {
                let link = self.books.forget(*id);
                let idle = self.clock.saturating_sub(link.unheld);
                self.figures.shut(link.leases == 0, idle, &self.setting.options);
                assert!(link.stage == Stage::Up && link.told_removed, "shut once, after it was removed");
                let over = link.until.is_some_and(|until| until <= self.clock);
                assert!(link.leases == 0 || over || self.books.abandoned, "shut while it is held");
            }
        }
    }

    fn promise_dials_are_bounded(&mut self, server: usize) {
        let options = &self.setting.options;
        let of = |link: &&Link| link.server == server;
        let dialling = self.books.links.values().filter(of).filter(|link| link.stage == Stage::Dialling).count();
        assert!(dialling <= options.connecting_per_backend, "{dialling} dials to one backend");
        let taking = self.books.links.values().filter(of).filter(|link| link.takes_leases()).count();
        let hangs = |link: &&Link| link.stage == Stage::Dialling && link.created + OUTAGE_DELAY <= self.clock;
        let hanging = self.books.links.values().filter(of).filter(hangs).count();
        // Those that hang may have begun in an outage.
        let places = options.per_backend + hanging;
        assert!(options.per_backend == 0 || dialling + taking <= places, "more than there are places");
        // H6: with the bound on dials under way, no more attempts than that in each delay.
        let rests = self.books.rests.get(&server);
        assert!(rests.is_none_or(|until| *until <= self.clock), "dialled before {rests:?}");
        if options.per_backend == 1 {
            let before = self.books.dialled.insert(server, self.clock);
            assert!(before.is_none_or(|before| self.clock - before >= ms(1)), "dialled at {before:?} and again");
        }
    }

    fn promise_somebody_wants_what_is_dialled(&self) {
        if self.setting.options.eager {
            return;
        }
        let dialling = self.machine.snapshot().dialling;
        assert!(dialling == 0 || !self.waiting.is_empty(), "{dialling} dials for nobody");
        for link in self.books.links.values().filter(|link| link.stage == Stage::Dialling) {
            let wants = |caller: &Caller| match &caller.want.backend {
                Some(backend) => number(backend) == link.server,
                None => self.books.known.contains(&link.server),
            };
            assert!(self.waiting.values().any(wants), "nobody wants it: {link:?}");
        }
    }

    /// A connection that works takes no more leases: because its backend is gone, or it was idle or retired, or for the plan.
    fn promise_nothing_is_given_up_without_reason(&self, id: ConnectionId) {
        let (link, options) = (&self.books.links[&id], &self.setting.options);
        let known = self.books.known.contains(&link.server);
        let idle = link.leases == 0
            && (options.per_backend == 0 || options.max_idle.is_some_and(|max| self.clock - link.unheld >= max));
        if self.books.closing || idle || link.retired || (!known && link.until.is_some()) {
            return;
        }
        assert!(known && options.eager, "given up too early: {link:?}");
        let others = |other: &Link| other.takes_leases() && self.books.known.contains(&other.server);
        assert!(self.books.links.values().any(others), "the last one that worked was given up");
    }

    pub(super) fn promise_a_lease_is_of_something_that_works(&self, want: &Want, id: ConnectionId) {
        let link = self.books.links.get(&id).expect("a lease is of something that is there");
        assert!(link.takes_leases(), "a lease of something on its way out: {link:?}");
        match &want.backend {
            Some(backend) => assert_eq!(link.server, number(backend)),
            None => {
                assert!(self.books.known.contains(&link.server), "a lease of any backend is of a known one");
                let alone = self.setting.options.per_backend == 0;
                assert!(alone || !self.left_out().contains(&link.server), "a lease of one that is left out");
            }
        }
        let per_backend = self.setting.options.per_backend;
        if let Some(place) = want.place.filter(|place| *place < per_backend) {
            assert_eq!(self.machine.glance(id).map(|glance| glance.place), Some(place));
        }
        assert!(per_backend > 0 || link.leases == 0, "one connection for each lease");
    }

    pub(super) fn promise_the_least_used_is_leased(&self, want: &Want, id: ConnectionId) {
        // Leases of connections that take no more are a load as well.
        let load = |server: usize| -> usize {
            self.books.links.values().filter(|link| link.server == server).map(|link| link.leases).sum()
        };
        let rank = |link: &Link| (link.leases >= link.capacity, self.known.get(&link.server));
        let mine = &self.books.links[&id];
        let avoided = want.avoid.as_ref().map(number);
        // What failed lately counts against a backend.
        let is_penalised = |server: usize| {
            let lately = self.books.failure_reported.get(&server).is_some_and(|at| self.clock < *at + PENALTY);
            lately || self.unreliable().contains(&server)
        };
        if want.backend.is_none() && is_penalised(mine.server) {
            return;
        }
        let out = self.left_out();
        let takes_part = |link: &Link| {
            self.known.contains_key(&link.server) && !out.contains(&link.server) && !is_penalised(link.server)
        };
        let better = |link: &Link| match &want.backend {
            None if Some(mine.server) == avoided => {
                // With room for one more on the one to be avoided alone, it is not.
                let as_full = (link.leases >= link.capacity) <= (mine.leases >= mine.capacity);
                Some(link.server) != avoided && takes_part(link) && as_full
            }
            None if self.setting.options.eager || avoided == Some(link.server) => false,
            None if link.server == mine.server => (rank(link), link.leases) < (rank(mine), mine.leases),
            None => takes_part(link) && (rank(link), load(link.server)) < (rank(mine), load(mine.server)),
            Some(_) if want.place.is_some_and(|place| place < self.setting.options.per_backend) => false,
            Some(_) => link.server == mine.server && link.leases < mine.leases,
        };
        let found = self.books.links.values().find(|link| link.takes_leases() && better(link));
        assert!(found.is_none(), "{found:?} had fewer leases than {mine:?}");
    }

    /// Servers of which more than one use failed lately, or the last five.
    fn unreliable(&self) -> BTreeSet<usize> {
        let backends = self.machine.observe().backends.into_iter();
        backends.filter(|backend| backend.unreliable).map(|backend| number(&backend.backend)).collect()
    }

    /// Servers that are left out for having served badly.
    fn left_out(&self) -> BTreeSet<usize> {
        let snapshot = self.machine.snapshot();
        snapshot.ejected.iter().filter(|_| !snapshot.is_panic).map(|(backend, _)| number(backend)).collect()
    }

    /// Some are left out only while more than those that may not be are healthy, and not for longer than they should be.
    fn promise_enough_are_left(&self) {
        let snapshot = self.machine.snapshot();
        let Some((_, until)) = snapshot.ejected.iter().min_by_key(|(_, until)| *until) else { return };
        assert!(self.setting.options.ejection.is_some(), "nobody wanted that");
        assert!(!self.books.failure_reported.is_empty(), "no failure was reported");
        assert!(snapshot.is_panic || snapshot.ejected.len() < snapshot.known, "no backend is left");
        let next = self.machine.next_timeout().expect("somebody is out");
        assert!(next <= *until, "out for too long");
    }

    fn promise_waiters_are_told_by_their_deadline(&self) {
        let earliest = self.waiting.values().map(|caller| caller.deadline).min();
        if let Some(earliest) = earliest {
            let next = self.machine.next_timeout().expect("somebody waits") - self.start;
            assert!(next <= earliest, "woken at {next:?}, for a waiter at {earliest:?}");
        }
    }

    fn promise_states_follow_the_diagram(&mut self) {
        let (from, to) = (self.books.state.unwrap_or(State::Starting), self.machine.state());
        let possible = match (from, to) {
            (_, State::Starting) => from == State::Starting,
            (State::Starting | State::Running | State::Failed, _) => true,
            (State::Stopping, _) => matches!(to, State::Stopping | State::Stopped),
            (State::Stopped, _) => to == State::Stopped,
        };
        assert!(possible, "{from:?} -> {to:?}");
        assert_eq!(matches!(to, State::Stopping | State::Stopped), self.books.closing);
        let up = self.books.links.values().filter(|link| link.stage == Stage::Up).count();
        assert_eq!(to == State::Stopped, self.books.closing && up == 0);
        if to == State::Failed {
            let works = |link: &Link| link.takes_leases() && self.books.known.contains(&link.server);
            assert!(!self.books.links.values().any(works), "something known works");
        }
        self.books.state = Some(to);
    }

    /// Not everything happens at once, for ever.
    pub(super) fn promise_time_goes_on(&mut self) {
        let (at, steps) = self.books.steps;
        self.books.steps = if at == self.clock { (at, steps + 1) } else { (self.clock, 0) };
        assert!(steps < 10_000, "time stands still");
    }

    pub(super) fn promise_no_busy_loop(&mut self) {
        let next = self.machine.next_timeout().map(|next| next - self.start);
        assert!(next.is_none_or(|next| next >= self.clock), "woken at {:?} for {next:?}", self.clock);
        self.books.wakes = if self.books.last_wake == self.clock { self.books.wakes + 1 } else { 0 };
        self.books.last_wake = self.clock;
        assert!(self.books.wakes < 3, "woken again and again");
    }

    /// After the machine was woken: nobody waits in vain, and nothing is kept that nobody has held for too long.
    pub(super) fn promise_everything_due_is_done(&self) {
        assert!(self.waiting.values().all(|caller| caller.deadline > self.clock), "a waiter was not told");
        let options = &self.setting.options;
        for (id, link) in self.books.links.iter().filter(|(_, link)| link.stage == Stage::Up) {
            let over = link.until.is_some_and(|until| until <= self.clock);
            assert!(!over, "draining for too long: {link:?}");
            let kept = self.machine.glance(*id).is_some_and(|glance| glance.kept);
            let (Some(max_idle), Some(interval), false) = (options.max_idle, options.looks(), kept) else { continue };
            // Every wake may be late.
            let most = max_idle + 2 * interval + 3 * self.setting.late;
            let unheld = self.clock - link.unheld;
            let judged = link.leases == 0 && !self.books.closing && self.setting.jump_every.is_none();
            // An eager set may have kept it until just now, for as long as nothing else worked.
            if judged && !options.eager {
                assert!(unheld <= most, "unused for {unheld:?}, most {most:?}: {link:?}");
            }
        }
    }

    pub(super) fn promise_strays_change_nothing(&mut self, say: impl FnOnce(&mut Machine)) {
        let before = format!("{:?}", self.machine);
        say(&mut self.machine);
        assert_eq!(format!("{:?}", self.machine), before, "something was made of a word about what is gone");
    }

    /// An eager set has what it is told to have, of the most important backends.
    pub(crate) fn promise_the_target_is_met(&self) {
        let options = &self.setting.options;
        let tier = self.known.values().min().copied();
        let best = self.known.values().filter(|priority| Some(**priority) == tier).count();
        let want = options.target.unwrap_or(usize::MAX).min(options.maximum.unwrap_or(usize::MAX)).min(best);
        let snapshot = self.machine.snapshot();
        let kept: Vec<usize> =
            snapshot.connections.iter().filter(|glance| glance.kept).map(|glance| number(&glance.backend)).collect();
        // With room for one, nobody watches those that died: see `plan`.
        if options.maximum == Some(1) && snapshot.dead > 0 {
            assert_eq!(kept.len(), 1);
            return;
        }
        assert_eq!(kept.len(), want, "kept: {kept:?}, known: {:?}", self.known);
        assert!(kept.iter().all(|server| self.known.get(server).copied() == tier), "kept: {kept:?}");
    }

    /// Nothing fails, so a lease waits for one dial at most, which begins at once or a millisecond after the last.
    pub(crate) fn promise_clean_closes_are_free(&self) {
        let most = self.setting.dial + ms(1) + 2 * self.setting.late;
        assert!(self.books.granted > 0);
        assert!(self.books.longest_wait <= most, "waited {:?}, most {most:?}", self.books.longest_wait);
    }

    /// H7 and H2: every known backend is ejected, and all are used alike, since there is a panic. Returns when the last ejection ends.
    pub(crate) fn promise_all_are_ejected_and_used(&mut self) -> Moment {
        self.books.granted_of.clear();
        self.run_for(ms(2_000));
        let observation = self.machine.observe();
        assert!(observation.figures.is_panic, "H7: all fail");
        for backend in &observation.backends {
            assert_eq!((backend.state, backend.is_out), (BackendState::Ejected, false), "H7: {backend:?}");
        }
        self.promise_leases_are_shared();
        let until = observation.backends.iter().filter_map(|backend| backend.ejected_until).max();
        until.expect("all are ejected") - self.start
    }

    /// H7 and H1: every known backend is healthy again, and all are used alike.
    pub(crate) fn promise_all_are_healthy_and_used(&mut self) {
        self.books.granted_of.clear();
        self.run_for(ms(2_000));
        let observation = self.machine.observe();
        assert!(!observation.figures.is_panic, "H7: none fails");
        let lately = self.start + self.clock - ms(2_000);
        for backend in &observation.backends {
            assert_eq!((backend.state, backend.is_out), (BackendState::Healthy, false), "H7: {backend:?}");
            assert!(backend.last_success.is_some_and(|at| at >= lately), "H7: {backend:?}");
        }
        self.promise_leases_are_shared();
    }

    /// No backend has much more or less than its fair share.
    fn promise_leases_are_shared(&self) {
        let granted = &self.books.granted_of;
        let fair = granted.values().sum::<usize>() / self.known.len();
        assert!(fair > 10, "too few leases to tell: {granted:?}");
        let is_fair = |server: &usize| granted.get(server).is_some_and(|count| (fair / 2..=2 * fair).contains(count));
        assert!(self.known.keys().all(is_fair), "H1 and H2: {granted:?}, fair is {fair}");
    }

    pub(crate) fn refused(&self) -> usize {
        self.books.refused
    }

    /// How long until everything that was under way when faults stopped is over.
    pub(crate) fn settling(&self) -> Duration {
        let limits = &self.setting.limits;
        let attempt = limits.max_timeout + self.setting.dial + self.setting.late;
        let out = self.machine.snapshot().ejected.iter().map(|(_, until)| *until - (self.start + self.clock)).max();
        (attempt + self.setting.limits.longest_delay()) * 4 + Duration::from_millis(10) + out.unwrap_or_default()
    }

    pub(super) fn promise_nothing_is_left(&self) {
        assert_eq!(self.machine.state(), State::Stopped);
        assert!(self.books.links.is_empty(), "left: {:?}", self.books.links);
        assert!(self.waiting.is_empty());
        let told = self.books.granted + self.books.refused + self.books.given_up;
        assert_eq!(self.books.asked, told, "every request ends once");
    }
}
