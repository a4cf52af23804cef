//! A simulated world around the window machine: nodes that misbehave, a driver, callers, and a clock.
//!
//! Everything follows from one seed. The world keeps its own books of every request, window and socket and holds the
//! machine against them after every single event; `promises.rs` says what must hold.
//!
//! ```text
//!   setting   what kind of world: sizes, times, how often things go wrong
//!   servers   the nodes: how they treat requests
//!   books     what was asked of whom, and what became of it
//!   promises  what must hold
//! ```

mod books;
mod promises;
mod servers;
mod setting;

pub(crate) use crate::schedules::{Trace, for_each_schedule};
pub(crate) use servers::Behaviour;
pub(crate) use setting::{Setting, ms};

use books::Books;
use carom_core::backend::Backend;
use carom_core::random::Random;
use carom_core::window::{Action, Ask, Key, Machine, Refusal, RequestId, SocketId, Verdict};
use servers::{BEHAVIOURS, backend, name, number};
use setting::one_of;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A moment, as time since the world began.
pub(crate) type Moment = Duration;
type Tag = u64;
/// No request has this tag.
const NOBODYS: Tag = 7;

/// What can happen.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A socket has come to send this.
    Sends(SocketId, RequestId),
    Ack(SocketId, Tag),
    Answer(SocketId, Tag, Verdict),
    Ends(SocketId),
    CallerComes,
    GivesUp(RequestId),
    WeatherTurns,
    NodesChange,
    /// Something is said that nobody waits for.
    Stray,
}

pub(crate) struct World {
    machine: Machine<Backend, Tag>,
    pub(crate) setting: Setting,
    random: Random,
    clock: Moment,
    start: Instant,
    events: BTreeMap<(Moment, u64), Event>,
    sequence: u64,
    behaviour: Vec<Behaviour>,
    /// Which servers are nodes, and at which address each is.
    nodes: BTreeMap<usize, u8>,
    next_tag: Tag,
    books: Books,
    calm: bool,
    trace: Trace,
}

impl World {
    /// A world of this kind; nothing has happened yet.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn new(setting: Setting, seed: u64, trace: &Trace) -> World {
        let mut random = Random::new(seed ^ 0x1d7_1d7);
        let nodes: BTreeMap<usize, u8> = (0..setting.servers).map(|server| (server, 0)).collect();
        let backends = nodes.iter().map(|(server, address)| backend(*server, *address));
        let machine = Machine::new(setting.options.clone(), backends, random.bits()).expect("the setting makes sense");
        let mut world = World {
            machine,
            random,
            clock: Duration::ZERO,
            start: Instant::now(),
            events: BTreeMap::new(),
            sequence: 0,
            behaviour: vec![Behaviour::Answers; setting.servers],
            nodes,
            next_tag: 1_000,
            books: Books::default(),
            calm: false,
            trace: trace.clone(),
            setting,
        };
        world.books.nodes_are(world.addresses());
        world.note(|world| format!("{:?}", world.setting));
        for event in [Event::CallerComes, Event::WeatherTurns, Event::NodesChange, Event::Stray] {
            world.recur(event);
        }
        world
    }

    /// From now on a server behaves like this; how it did before.
    pub(crate) fn behave(&mut self, server: usize, behaviour: Behaviour) -> Behaviour {
        std::mem::replace(&mut self.behaviour[server], behaviour)
    }

    pub(crate) fn keep_the_weather(&mut self) {
        self.events.retain(|_, event| !matches!(event, Event::WeatherTurns));
    }

    pub(crate) fn ended(&self) -> usize {
        self.books.ended
    }

    pub(crate) fn failed(&self) -> usize {
        self.books.failed
    }

    /// Somebody asks.
    pub(crate) fn ask(&mut self, tag: Tag, ask: Ask) {
        self.note(|_| format!("  {tag} {ask:?}"));
        self.books.expire(self.clock);
        let names: BTreeSet<String> = self.nodes.keys().map(|server| name(*server)).collect();
        match self.machine.request(self.now(), tag, ask.clone()) {
            Ok(request) => {
                self.note(|_| format!("  {request:?}"));
                assert!(books::makes_sense(&ask, &self.setting.options));
                assert_eq!(books::refusal(&ask, &names), None, "it cannot succeed");
                self.books.took(self.clock, request, tag, ask, &self.setting.options);
                if self.random.chance(self.setting.gives_up) && !self.calm {
                    let after = self.setting.options.reply_timeout.mul_f64(self.random.fraction());
                    self.at(self.clock + after, Event::GivesUp(request));
                }
            }
            Err(Refusal::Closed) => assert!(self.books.closed, "it is not closed"),
            Err(Refusal::Options(_)) => assert!(!books::makes_sense(&ask, &self.setting.options)),
            Err(refusal) => assert_eq!(Some(refusal), books::refusal(&ask, &names)),
        }
        self.after_machine();
    }

    /// Sends a request, and lets time pass until it has ended: how long it takes.
    pub(crate) fn ask_alone(&mut self, tag: Tag, ask: Ask) -> Duration {
        self.events.retain(|_, event| !matches!(event, Event::CallerComes));
        let (since, before) = (self.clock, self.books.ended);
        self.ask(tag, ask);
        while self.books.ended == before {
            assert!(self.step(Duration::MAX), "it never ends");
        }
        self.clock - since
    }

    pub(crate) fn close(&mut self) {
        self.note(|_| "close".to_owned());
        self.books.expire(self.clock);
        self.books.closed = true;
        self.machine.close(self.now());
        self.after_machine();
    }

    /// Lets things happen for so long.
    pub(crate) fn run_for(&mut self, time: Duration) {
        let until = self.clock + time;
        while self.step(until) {}
        self.clock = self.clock.max(until);
    }

    /// Nobody asks any more: everything ends by itself, in time.
    pub(crate) fn end(&mut self) {
        self.calm = true;
        let kept = |event: &Event| !matches!(event, Event::CallerComes | Event::NodesChange | Event::WeatherTurns);
        self.events.retain(|_, event| kept(event));
        // In line, everybody is served or ends within one timeout; then each has its own time.
        let time = self.setting.longest(7 + self.setting.servers) + self.setting.options.active_for;
        self.run_for(time + self.setting.late * 20 + ms(1));
        self.promise_nothing_is_left();
    }

    fn step(&mut self, until: Moment) -> bool {
        let late = self.setting.late.mul_f64(self.random.fraction());
        let wake = self.machine.next_timeout().map(|at| (at - self.start + late).max(self.clock));
        let event = self.events.first_key_value().map(|(key, _)| *key);
        match (wake, event) {
            (Some(wake), event) if event.is_none_or(|(at, _)| wake <= at) => {
                if wake > until {
                    return false;
                }
                self.clock = wake;
                self.wake();
            }
            (_, Some(key)) if key.0 <= until => {
                self.clock = self.clock.max(key.0);
                let event = self.events.remove(&key).expect("it was just seen");
                self.happen(event);
            }
            (Some(_) | None, Some(_) | None) => return false,
        }
        true
    }

    fn wake(&mut self) {
        self.note(|_| "wake".to_owned());
        self.books.expire_now(self.clock);
        self.machine.handle_timeout(self.now());
        self.after_machine();
        self.promise_everything_due_is_done();
    }

    fn happen(&mut self, event: Event) {
        self.note(|_| format!("{event:?}"));
        let now = self.now();
        match event {
            Event::Sends(socket, request) => {
                self.books.expire(self.clock);
                let wanted = self.books.sending(socket, request);
                assert_eq!(self.machine.handle_sending(now, socket, request), wanted.is_some(), "only what is wanted");
                if let Some((server, tag)) = wanted {
                    self.node_answers(socket, server, tag);
                }
            }
            Event::Ack(socket, tag) => self.hear(socket, tag, None),
            Event::Answer(socket, tag, verdict) => self.hear(socket, tag, Some(verdict)),
            Event::Ends(socket) => {
                // What is due may still be asked on it, which the books cannot know.
                self.hear(socket, NOBODYS, None);
                self.after_machine();
                let waited = self.books.socket_ended(self.clock, socket);
                let told = self.machine.handle_ended(now, socket);
                let told: BTreeSet<RequestId> = told.into_iter().map(|at| at.request).collect();
                assert_eq!(told, waited, "those who waited on it");
            }
            Event::CallerComes => self.caller_comes(),
            Event::GivesUp(request) => {
                self.books.expire(self.clock);
                let inquiry = self.books.live.get(&request).cloned();
                let was_there = self.machine.forget(now, request);
                // In line, its time may be over: whether it was started before is the machine's to say.
                if inquiry.as_ref().is_none_or(|inquiry| inquiry.started.is_some()) {
                    let there = inquiry.is_some_and(|inquiry| !inquiry.is_over());
                    assert_eq!(was_there, there, "it is there until it has ended");
                }
                self.books.give_up(request, was_there);
                self.after_machine();
                self.promise_nobody_knows(request);
            }
            Event::WeatherTurns => {
                let server = self.random.below(self.behaviour.len());
                self.behaviour[server] = one_of(&mut self.random, &BEHAVIOURS);
                self.note(|world| format!("  {:?}", world.behaviour));
            }
            Event::NodesChange => self.nodes_change(),
            Event::Stray => self.stray(),
        }
        self.recur(event);
        self.after_machine();
    }

    fn caller_comes(&mut self) {
        let (random, setting) = (&mut self.random, &self.setting);
        let (kind, servers) = (if setting.only_any { 0 } else { random.below(3) }, setting.servers);
        let mut ask = match kind {
            0 => Ask::any(),
            1 => Ask::quorum(random.below(servers + 2)),
            _ => Ask::all(),
        };
        if random.chance(0.4) {
            ask.at_once = Some(random.below(servers + 1));
        }
        if random.chance(setting.names) {
            ask.nodes = Some((0..random.below(4)).map(|_| name(random.below(servers + 1)).into()).collect());
        }
        if random.chance(setting.own_times) {
            ask.ack_timeout = Some(setting.options.ack_timeout.mul_f64(0.1 + random.fraction() * 1.9));
        }
        if random.chance(setting.own_times) {
            ask.reply_timeout = Some(setting.options.reply_timeout.mul_f64(0.1 + random.fraction() * 1.9));
        }
        ask.reconnect = random.chance(setting.reconnects);
        self.next_tag += 1;
        let tag = if setting.tags == 0 { self.next_tag } else { random.bits() % setting.tags };
        self.ask(tag, ask);
    }

    fn nodes_change(&mut self) {
        // What is due happens to the nodes as they were.
        self.wake();
        let before = self.nodes.clone();
        let server = self.random.below(self.setting.servers);
        match self.random.below(3) {
            0 => drop(self.nodes.remove(&server)),
            1 => drop(self.nodes.insert(server, self.random.below(2) as u8)),
            // The same ones again.
            _ => {}
        }
        if self.nodes.is_empty() {
            self.nodes.insert(server, 0);
        }
        self.note(|world| format!("  nodes: {:?}", world.nodes));
        self.books.nodes_are(self.addresses());
        // In any order.
        let mut nodes: Vec<Backend> = self.nodes.iter().map(|(server, address)| backend(*server, *address)).collect();
        let by = self.random.below(nodes.len());
        nodes.rotate_left(by);
        let changed = self.machine.set_nodes(self.now(), nodes).expect("there are nodes, and no two of a name");
        assert_eq!(changed, self.nodes != before);
    }

    /// A node says something: it matters if somebody waits for it.
    fn hear(&mut self, socket: SocketId, tag: Tag, verdict: Option<Verdict>) {
        let now = self.now();
        self.books.expire(self.clock);
        let Some(request) = self.books.awaited(socket, tag) else {
            // Timers that are due may close the socket, which the books cannot know.
            assert!(!self.machine.handle_ack(now, socket, &NOBODYS));
            self.after_machine();
            if self.books.late(socket, tag) {
                return match verdict {
                    None => assert!(!self.machine.handle_ack(now, socket, &tag)),
                    // Its tag is free again; a request in line may have waited for it.
                    Some(_) => {
                        assert!(self.books.paid(socket, tag));
                        assert_eq!(self.machine.handle_answer(now, socket, &tag, Verdict::Invalid), None);
                    }
                };
            }
            return self.promise_strays_change_nothing(|machine| match verdict {
                None => assert!(!machine.handle_ack(now, socket, &tag)),
                Some(verdict) => assert_eq!(machine.handle_answer(now, socket, &tag, verdict), None),
            });
        };
        match verdict {
            None => {
                self.books.acked(request, socket);
                assert!(self.machine.handle_ack(now, socket, &tag));
            }
            Some(verdict) => {
                self.books.answered(request, socket, verdict);
                let at = self.machine.handle_answer(now, socket, &tag, verdict);
                assert_eq!(at.map(|at| at.request), Some(request));
            }
        }
    }

    /// Something is said on a socket that is gone, or with a tag that nobody has.
    fn stray(&mut self) {
        let (socket, tag) = match self.random.below(2) {
            0 => (self.books.some_socket(&mut self.random), NOBODYS),
            _ => (self.books.some_gone(&mut self.random), self.random.bits() % 3),
        };
        let Some(socket) = socket else { return };
        let verdict = self.random.chance(0.6).then_some(Verdict::Counts(Key(0)));
        if self.random.chance(0.2) && self.books.is_gone(socket) {
            let now = self.now();
            self.books.expire(self.clock);
            self.promise_strays_change_nothing(|machine| assert_eq!(machine.handle_ended(now, socket), []));
        } else {
            self.hear(socket, tag, verdict);
        }
    }

    fn after_machine(&mut self) {
        while let Some(action) = self.machine.poll_action() {
            self.note(|_| format!("  {action:?}"));
            match action {
                Action::Open { socket, window, node } => {
                    self.books.opened(self.clock, socket, window, &node, &self.nodes);
                    if self.behaviour[number(&node)] == Behaviour::Refuses {
                        let after = self.setting.open.mul_f64(self.random.fraction());
                        self.at(self.clock + after, Event::Ends(socket));
                    } else if self.random.chance(self.setting.drops) && !self.calm {
                        self.at(self.clock + self.setting.open + self.setting.answer, Event::Ends(socket));
                    }
                }
                Action::Send { socket, request } => {
                    if !self.books.sent_again(socket, request) {
                        self.books.sent(self.clock, socket, request, &self.setting.options);
                        self.promise_a_request_is_sent_in_order(socket, request);
                    }
                    let opens = self.setting.open.mul_f64(self.random.fraction());
                    self.at(self.clock + opens, Event::Sends(socket, request));
                }
                Action::Close(socket) => self.books.closed(socket),
                Action::Over(window) => self.books.over(window),
                Action::Unresponsive(node) => self.books.said(self.clock, &node, false),
                Action::Responsive(node) => self.books.said(self.clock, &node, true),
                Action::HealthCheck { .. } | Action::Unhealthy(_) | Action::Healthy(_) => panic!("nothing is checked"),
            }
        }
        while let Some(delivery) = self.machine.poll_delivery() {
            self.note(|_| format!("  {delivery:?}"));
            self.promise_an_end_is_true(&delivery);
            self.books.delivered(&delivery);
        }
        self.books.step_is_over(self.clock);
        self.check();
    }

    fn recur(&mut self, event: Event) {
        let every = match event {
            Event::CallerComes => Some(self.setting.caller_every),
            Event::WeatherTurns => self.setting.weather_every,
            Event::NodesChange => self.setting.nodes_every,
            Event::Stray => self.setting.stray_every,
            Event::Sends(..) | Event::Ack(..) | Event::Answer(..) | Event::Ends(_) | Event::GivesUp(_) => None,
        };
        if let Some(every) = every.filter(|_| !self.calm) {
            let after = every.mul_f64(self.random.fraction() * 2.0);
            self.at(self.clock + after, event);
        }
    }

    fn addresses(&self) -> BTreeSet<SocketAddr> {
        self.nodes.iter().map(|(server, address)| backend(*server, *address).socket_addr()).collect()
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
