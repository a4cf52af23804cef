//! What the stall detector promises, over thousands of seeded schedules of requests to backends that freeze, thaw and slow down.
//!
//! Promise H9: when a backend stops responding while others respond, safe requests on it complete within the stalled threshold plus
//! one normal response time, and no new request is sent to it. `CAROM_SEED=<seed> cargo test` runs that schedule alone,
//! `CAROM_SCHEDULES=<n>` changes how many there are in each test.

use crate::schedules::{Trace, for_each_schedule};
use crate::time::ms;
use carom_core::random::Random;
use carom_core::stall::{
    FIRST_TRIAL, LEAST_THRESHOLD, MOST_BETWEEN_TRIALS, MOST_THRESHOLD, PROBE_EVERY, RequestId, StallAction,
    StallDetector,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A freeze of one backend while the others respond.
#[test]
fn safe_requests_on_a_frozen_backend_complete_and_no_new_request_is_sent_to_it() {
    for_each_schedule(1_000, |seed, trace| {
        let mut world = World::new(Shape::wild(seed), seed, trace);
        world.run_for(ms(3_000));
        let frozen = world.random.below(world.nodes.len());
        world.freeze(frozen);
        world.run_for(ms(4_000));
        world.promise_freeze(&[frozen]);
        world.thaw(frozen);
        world.run_for(world.setting.settling());
        world.promise_calm();
    });
}

/// All but one freeze at once. A copy may go to another frozen backend, so only new requests are judged.
#[test]
fn no_new_request_is_sent_to_frozen_backends_while_one_responds() {
    for_each_schedule(600, |seed, trace| {
        let mut world = World::new(Shape::wild(seed), seed, trace);
        world.run_for(ms(3_000));
        let responds = world.random.below(world.nodes.len());
        let frozen: Vec<usize> = (0..world.nodes.len()).filter(|&node| node != responds).collect();
        frozen.iter().for_each(|&node| world.freeze(node));
        world.run_for(ms(6_000));
        world.promise_no_new_requests(&frozen);
        frozen.iter().for_each(|&node| world.thaw(node));
        world.run_for(world.setting.settling());
        world.promise_calm();
    });
}

/// Without safe requests: clients give up, and the backend stays stalled and gets nothing but trials until it responds to one.
#[test]
fn frozen_backend_without_safe_requests_gets_ever_rarer_trials_and_is_back_after_the_thaw() {
    for_each_schedule(100, |seed, trace| {
        let shape = Shape { safe: 0.0, gives_up: Some(ms(700 + seed % 3_000)), ..Shape::wild(seed) };
        let mut world = World::new(shape, seed, trace);
        world.run_for(ms(3_000));
        let frozen = world.random.below(world.nodes.len());
        world.freeze(frozen);
        world.run_for(ms(10_000));
        assert!(world.detector.is_stalled(frozen as u32));
        let trials = world.nodes[frozen].trials.len();
        let others = |world: &World| world.requests.values().filter(|request| request.node == frozen).count();
        let before = others(&world) - trials;
        world.run_for(ms(80_000));
        assert!(world.detector.is_stalled(frozen as u32));
        assert_eq!(others(&world) - world.nodes[frozen].trials.len(), before, "trials alone are sent to it");
        let (first, trials) = (world.frozen_at(frozen), world.nodes[frozen].trials.clone());
        for (number, pair) in trials.windows(2).enumerate() {
            let least = (FIRST_TRIAL * (2 << number)).min(MOST_BETWEEN_TRIALS);
            let passed = pair[1] - pair[0];
            assert!(passed >= least && passed <= least + 2 * world.slack() + ms(3_700), "{passed:?} after {number}");
        }
        assert!((4..=5).contains(&trials.len()) && trials[0] >= first + FIRST_TRIAL, "{}", trials.len());
        world.thaw(frozen);
        world.run_for(MOST_BETWEEN_TRIALS + world.setting.settling());
        world.promise_calm();
    });
}

/// A safe request is all that is sent: checks of other backends show that its own one is stalled, and its own checks that it is not.
#[test]
fn lone_safe_requests_on_a_frozen_backend_complete_while_checks_of_others_pass() {
    for_each_schedule(300, |seed, trace| {
        let mut world = World::new(Shape { safe: 1.0, gives_up: None, ..Shape::wild(seed) }, seed, trace);
        let checks = ms(500 + world.random.below(3_000) as u64);
        (0..world.nodes.len()).for_each(|node| world.check_every(node, checks));
        world.run_for(ms(3_000));
        let frozen = world.random.below(world.nodes.len());
        world.freeze(frozen);
        let sent = ms(world.random.below(300) as u64);
        world.run_for(sent);
        world.quiet = true;
        world.run_for(MOST_THRESHOLD + 2 * checks);
        assert!(world.waiting.is_empty(), "all are responded to");
        world.thaw(frozen);
        world.run_for(2 * checks + ms(100));
        assert_eq!(world.detector.stalled().count(), 0);
    });
}

#[test]
fn requests_go_on_after_a_freeze_of_all() {
    for_each_schedule(600, |seed, trace| {
        let mut world = World::new(Shape::wild(seed), seed, trace);
        world.run_for(ms(3_000));
        (0..world.nodes.len()).for_each(|node| world.freeze(node));
        let time = world.random.below(8_000) as u64;
        world.run_for(ms(time));
        (0..world.nodes.len()).for_each(|node| world.thaw(node));
        world.run_for(world.setting.settling());
        world.promise_calm();
    });
}

/// A backend that takes up to half the threshold, and responds all the time, is not stalled.
#[test]
fn slow_backend_that_responds_is_never_stalled() {
    for_each_schedule(600, |seed, trace| {
        let mut world = World::new(Shape::wild(seed), seed, trace);
        let slow = world.random.below(world.nodes.len());
        world.nodes[slow].slower = LEAST_THRESHOLD.as_millis() as u32 / 2 / world.setting.slowest.as_millis() as u32;
        world.run_for(ms(6_000));
        assert_eq!(world.stalls, 0);
        world.promise_calm();
    });
}

/// Backends freeze and thaw at random, also for a moment, and some connections bring bytes without a response.
#[test]
fn detector_agrees_with_the_record_whatever_happens() {
    for_each_schedule(1_500, |seed, trace| {
        let mut world = World::new(Shape::wild(seed), seed, trace);
        for _ in 0..30 {
            let node = world.random.below(world.nodes.len());
            match world.random.below(4) {
                0 | 1 => world.freeze(node),
                2 => world.nodes[node].slower = 1 + world.random.below(40) as u32,
                _ => world.bytes(node),
            }
            let time = world.random.below(1_500) as u64;
            world.run_for(ms(time));
            let node = world.random.below(world.nodes.len());
            world.thaw(node);
        }
        (0..world.nodes.len()).for_each(|node| world.thaw(node));
        world.nodes.iter_mut().for_each(|node| node.slower = 1);
        world.run_for(world.setting.settling());
        world.promise_calm();
    });
}

#[test]
fn the_same_seed_gives_the_same_stalls() {
    for seed in 1..5 {
        let run = || {
            let trace = Trace::on(usize::MAX);
            let mut world = World::new(Shape::wild(seed), seed, &trace);
            world.freeze(0);
            world.run_for(ms(3_000));
            trace.lines()
        };
        assert_eq!(run(), run());
    }
}

struct Shape {
    nodes: usize,
    /// Time from one request to the next.
    every: Duration,
    /// The longest normal response time.
    slowest: Duration,
    /// The share of safe requests.
    safe: f64,
    /// Clients that give up a request do so after this long.
    gives_up: Option<Duration>,
}

impl Shape {
    fn wild(seed: u64) -> Shape {
        let mut random = Random::new(seed ^ 0x57a1);
        Shape {
            nodes: 2 + random.below(4),
            every: ms(5 + random.below(40) as u64),
            slowest: ms(2 + random.below(40) as u64),
            safe: [1.0, 0.9, 0.3][random.below(3)],
            gives_up: [None, None, Some(ms(2_500))][random.below(3)],
        }
    }

    /// After this long without a fault nothing of it is left: probes have found every backend.
    fn settling(&self) -> Duration {
        MOST_THRESHOLD + 3 * PROBE_EVERY + 100 * self.every + 10 * self.slowest
    }
}

#[derive(Clone, Default)]
struct Node {
    frozen_since: Option<Instant>,
    slower: u32,
    /// What it will respond to when it thaws.
    held: Vec<Try>,
    last_byte: Option<Instant>,
    last_response: Option<Instant>,
    last_probe: Option<Instant>,
    trials: Vec<Instant>,
    failed_checks: u32,
}

/// One sending of a request to a backend.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Try {
    Original(u64),
    Copy(u64),
    Probe,
}

struct Request {
    safe: bool,
    sent: Instant,
    node: usize,
    id: Option<RequestId>,
    copy: Option<(usize, RequestId)>,
    done: Option<Instant>,
    /// The longest threshold while it was waiting.
    threshold: Duration,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Request,
    Report(u64),
    Respond(usize, Try),
    GiveUp(u64),
    Check(usize, Duration),
}

struct World {
    setting: Shape,
    random: Random,
    trace: Trace,
    now: Instant,
    start: Instant,
    detector: StallDetector,
    nodes: Vec<Node>,
    requests: BTreeMap<u64, Request>,
    by_id: BTreeMap<RequestId, u64>,
    /// Those without a response.
    waiting: BTreeSet<u64>,
    events: BTreeSet<(Instant, u64, Event)>,
    events_so_far: u64,
    next_request: u64,
    stalls: usize,
    responses: Vec<Instant>,
    copies: Vec<Instant>,
    /// No more requests are sent.
    quiet: bool,
}

#[allow(clippy::disallowed_methods)]
impl World {
    fn new(setting: Shape, seed: u64, trace: &Trace) -> World {
        let now = Instant::now();
        let mut detector = StallDetector::new(true, now);
        (0..setting.nodes as u32).for_each(|node| detector.add(node));
        let nodes = vec![Node { slower: 1, ..Node::default() }; setting.nodes];
        let mut world = World {
            setting,
            random: Random::new(seed),
            trace: trace.clone(),
            now,
            start: now,
            detector,
            nodes,
            requests: BTreeMap::new(),
            by_id: BTreeMap::new(),
            waiting: BTreeSet::new(),
            events: BTreeSet::new(),
            events_so_far: 0,
            next_request: 0,
            stalls: 0,
            responses: Vec::new(),
            copies: Vec::new(),
            quiet: false,
        };
        world.plan(now, Event::Request);
        world
    }

    fn plan(&mut self, at: Instant, event: Event) {
        self.events_so_far += 1;
        self.events.insert((at, self.events_so_far, event));
    }

    fn note(&self, line: impl FnOnce() -> String) {
        if self.trace.is_on() {
            self.trace.add(format!("{:?} {}", self.now - self.start, line()));
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let timeout = self.detector.next_timeout();
            let event = self.events.first().map(|(at, ..)| *at);
            let Some(next) = timeout.into_iter().chain(event).min().filter(|&next| next <= end) else { break };
            assert!(next >= self.now || timeout == Some(next), "time goes on");
            self.now = self.now.max(next);
            if timeout.is_some_and(|at| at <= self.now) {
                self.detector.handle_timeout(self.now);
                assert!(self.detector.next_timeout().is_none_or(|at| at > self.now), "a timeout leads on");
            } else if let Some((_, _, event)) = self.events.pop_first() {
                self.happen(event);
            }
            self.act();
        }
        self.now = end;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Request if self.quiet => {}
            Event::Request => {
                self.send();
                let next = self.now + self.random.around(self.setting.every, 0.5);
                self.plan(next, Event::Request);
            }
            Event::Report(request) => self.report(request),
            Event::Respond(node, sent) => self.respond(node, sent),
            Event::GiveUp(request) => self.end(request),
            Event::Check(node, every) => self.check(node, every),
        }
    }

    fn check_every(&mut self, node: usize, every: Duration) {
        let at = self.now + self.random.around(every, 0.9);
        self.plan(at, Event::Check(node, every));
    }

    /// Two failed checks in a row make a backend unhealthy, one that passes makes it healthy.
    fn check(&mut self, node: usize, every: Duration) {
        let (now, record) = (self.now, &mut self.nodes[node]);
        let passed = record.frozen_since.is_none();
        record.failed_checks = if passed { 0 } else { record.failed_checks + 1 };
        if passed {
            (record.last_byte, record.last_response) = (Some(now), Some(now));
        }
        let unhealthy = record.failed_checks >= 2;
        self.note(|| format!("check of {node}, passed: {passed}, unhealthy: {unhealthy}"));
        self.detector.health_checked(now, node as u32, passed, unhealthy);
        self.check_every(node, every);
    }

    /// A client sends a request to some backend, not to a stalled one unless all are.
    fn send(&mut self) {
        let safe = self.random.chance(self.setting.safe);
        let mut trial = None;
        if safe {
            if let Some(probed) = self.detector.next_probe(self.now) {
                self.probe(probed as usize);
            }
        } else if let Some(tried) = self.detector.next_trial(self.now) {
            self.nodes[tried as usize].trials.push(self.now);
            trial = Some(tried as usize);
        }
        let node = trial.or_else(|| self.pick(None)).expect("there are nodes");
        let number = self.next_request;
        self.next_request += 1;
        self.note(|| format!("request {number} to {node}, safe: {safe}"));
        let threshold = self.detector.threshold();
        let request = Request { safe, sent: self.now, node, id: None, copy: None, done: None, threshold };
        self.requests.insert(number, request);
        self.waiting.insert(number);
        self.serve(node, Try::Original(number));
        let late = self.now + ms(self.random.below(LEAST_THRESHOLD.as_millis() as usize / 2) as u64);
        self.plan(late, Event::Report(number));
        if let Some(after) = self.setting.gives_up {
            self.plan(self.now + after, Event::GiveUp(number));
        }
    }

    fn pick(&mut self, avoid: Option<usize>) -> Option<usize> {
        let others: Vec<usize> = (0..self.nodes.len()).filter(|&node| Some(node) != avoid).collect();
        let fine: Vec<usize> = others.iter().copied().filter(|&node| !self.detector.is_stalled(node as u32)).collect();
        let among = if fine.is_empty() { others } else { fine };
        (!among.is_empty()).then(|| among[self.random.below(among.len())])
    }

    /// It is late: the detector hears of it.
    fn report(&mut self, number: u64) {
        let Some(request) = self.requests.get_mut(&number).filter(|request| request.done.is_none()) else { return };
        let id = self.detector.request_sent(self.now, request.sent, request.node as u32, request.safe);
        request.id = Some(id);
        self.by_id.insert(id, number);
    }

    fn probe(&mut self, node: usize) {
        let record = &mut self.nodes[node];
        let last = record.last_probe.replace(self.now);
        assert!(last.is_none_or(|last| self.now - last >= PROBE_EVERY), "one probe a second");
        self.note(|| format!("probe of {node}"));
        self.serve(node, Try::Probe);
    }

    fn serve(&mut self, node: usize, sent: Try) {
        let slowest = self.setting.slowest.as_millis() as usize;
        let took = ms(1 + self.random.below(slowest) as u64) * self.nodes[node].slower;
        let at = self.now + took;
        self.plan(at, Event::Respond(node, sent));
    }

    fn respond(&mut self, node: usize, sent: Try) {
        if self.nodes[node].frozen_since.is_some() {
            return self.nodes[node].held.push(sent);
        }
        let began = match sent {
            Try::Original(number) | Try::Copy(number) => match self.requests.get(&number) {
                Some(request) if request.done.is_none() => Some(request.sent),
                Some(_) | None => None,
            },
            Try::Probe => Some(self.now),
        };
        // Of one that was cancelled no byte arrives.
        let Some(began) = began else { return };
        let record = &mut self.nodes[node];
        (record.last_byte, record.last_response) = (Some(self.now), Some(self.now));
        match sent {
            Try::Original(number) | Try::Copy(number) => {
                self.responses.push(self.now);
                let took = if let Try::Copy(_) = sent { ms(1) } else { self.now - began };
                self.detector.response_started(self.now, node as u32, Some(took));
                self.act();
                self.end(number);
            }
            Try::Probe => self.detector.bytes_received(self.now, node as u32),
        }
    }

    /// The first response wins, or the client gives up.
    fn end(&mut self, number: u64) {
        let Some(request) = self.requests.get_mut(&number).filter(|request| request.done.is_none()) else { return };
        request.done = Some(self.now);
        self.waiting.remove(&number);
        let ids = request.id.into_iter().chain(request.copy.map(|(_, id)| id));
        ids.for_each(|id| self.detector.request_ended(id));
    }

    fn act(&mut self) {
        while let Some(action) = self.detector.poll_action() {
            self.note(|| format!("{action:?}"));
            match action {
                StallAction::Stalled(node) => self.judge_stall(node as usize),
                StallAction::Recovered(node) => self.judge_recovery(node as usize),
                StallAction::Retry(id) => self.copy(id),
            }
        }
        let threshold = self.detector.threshold();
        for number in &self.waiting {
            if let Some(request) = self.requests.get_mut(number) {
                request.threshold = request.threshold.max(threshold);
            }
        }
    }

    fn copy(&mut self, id: RequestId) {
        let number = self.by_id[&id];
        let original = &self.requests[&number];
        assert!(original.safe && original.done.is_none() && original.copy.is_none(), "sent once more, and safe");
        let (from, now) = (original.node, self.now);
        assert!(self.detector.is_stalled(from as u32) || self.nodes[from].failed_checks >= 2);
        let to = self.pick(Some(from)).expect("another backend is not stalled");
        assert!(!self.detector.is_stalled(to as u32));
        let copy = self.detector.request_sent(now, now, to as u32, false);
        if let Some(original) = self.requests.get_mut(&number) {
            original.copy = Some((to, copy));
        }
        self.serve(to, Try::Copy(number));
        self.copies.push(now);
        let recent = |times: &[Instant]| times.iter().rev().take_while(|&&at| at + ms(9_000) > now).count();
        let requests = self.responses.iter().rev().take_while(|&&at| at + ms(10_000) >= now).count();
        assert!(recent(&self.copies) <= 30.max(requests / 5), "the retry budget");
    }

    fn judge_stall(&mut self, node: usize) {
        self.stalls += 1;
        let since = self.silent_since(node).expect("requests wait there");
        assert!(self.now - since >= LEAST_THRESHOLD, "silent for {:?}", self.now - since);
        let others = self.nodes.iter().enumerate().filter(|(other, _)| *other != node);
        assert!(others.filter_map(|(_, other)| other.last_response).any(|at| at > since), "another responded");
    }

    fn judge_recovery(&mut self, node: usize) {
        assert_eq!(self.nodes[node].last_byte, Some(self.now), "a byte arrived");
    }

    fn waiting(&self) -> impl Iterator<Item = &Request> {
        self.waiting.iter().map(|number| &self.requests[number])
    }

    /// As far as the detector was told.
    fn silent_since(&self, node: usize) -> Option<Instant> {
        let originals = self.waiting().filter(|request| request.node == node && request.id.is_some());
        let copies = self.waiting().filter(|request| request.copy.is_some_and(|(to, _)| to == node));
        let oldest = originals.chain(copies).map(|request| request.sent).min()?;
        Some(self.nodes[node].last_byte.map_or(oldest, |byte| byte.max(oldest)))
    }

    fn freeze(&mut self, node: usize) {
        self.note(|| format!("{node} freezes"));
        self.nodes[node].frozen_since.get_or_insert(self.now);
    }

    fn thaw(&mut self, node: usize) {
        if self.nodes[node].frozen_since.take().is_some() {
            self.note(|| format!("{node} thaws"));
            for sent in std::mem::take(&mut self.nodes[node].held) {
                self.plan(self.now + ms(1), Event::Respond(node, sent));
            }
        }
    }

    /// A body arrives in pieces.
    fn bytes(&mut self, node: usize) {
        if self.nodes[node].frozen_since.is_none() {
            self.nodes[node].last_byte = Some(self.now);
            self.detector.bytes_received(self.now, node as u32);
            self.act();
        }
    }

    /// H9: requests to the frozen backend complete, within the budget, and no new request is sent to it once it is stalled.
    fn promise_freeze(&self, frozen: &[usize]) {
        self.promise_no_new_requests(frozen);
        if self.copies.len() >= 29 {
            return;
        }
        let slack = self.slack();
        let at_frozen = self.requests.values().filter(|request| request.safe && frozen.contains(&request.node));
        for request in at_frozen.filter(|request| request.sent + request.threshold + slack < self.now) {
            let done = request.done.expect("a safe request completes");
            assert!(done <= request.sent.max(self.frozen_at(request.node)) + request.threshold + slack);
        }
    }

    fn promise_no_new_requests(&self, frozen: &[usize]) {
        for &node in frozen {
            let at = self.frozen_at(node);
            let mut sent = self.requests.values().filter(|request| request.node == node && request.sent >= at);
            assert!(self.nodes[node].trials.windows(2).all(|pair| pair[1] - pair[0] >= FIRST_TRIAL));
            let Some(first) = sent.next() else { continue };
            let given_up = self.setting.gives_up.is_some_and(|after| after < first.threshold + self.slack());
            for request in sent.filter(|request| !given_up && !self.nodes[node].trials.contains(&request.sent)) {
                let known = first.sent.max(at) + first.threshold.max(request.threshold) + self.slack();
                assert!(request.sent <= known, "sent {:?} after the freeze", request.sent - at);
            }
        }
    }

    fn frozen_at(&self, node: usize) -> Instant {
        self.nodes[node].frozen_since.expect("it is frozen")
    }

    /// One normal response time, and the time until another backend responds.
    fn slack(&self) -> Duration {
        2 * self.setting.slowest + 10 * self.setting.every
    }

    /// After the last fault: no backend is stalled, nothing is left behind, and all get requests.
    fn promise_calm(&self) {
        assert_eq!(self.detector.stalled().count(), 0, "a backend is still stalled");
        let since = self.now - MOST_THRESHOLD - 3 * PROBE_EVERY;
        assert!(self.requests.values().filter(|request| request.sent < since).all(|request| request.done.is_some()));
        assert!(self.nodes.iter().all(|node| node.last_response.is_some()));
    }
}
