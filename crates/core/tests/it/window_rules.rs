//! What the window machine decides, case by case: windows, sockets, orders, deadlines, quorums.

use carom_core::backend::Backend;
use carom_core::health_check::Schedule;
use carom_core::window::{
    Action, Ask, CheckId, Delivery, Key, Machine, NewError, NodesError, Options, Outcome, Refusal, RequestId, SocketId,
    Told, Verdict, WindowId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const GOOD: Verdict = Verdict::Counts(Key(0));
const OTHER: Verdict = Verdict::Counts(Key(1));

/// A machine, and what it has asked for.
struct Stage {
    machine: Machine<Backend, u32>,
    now: Instant,
    sockets: BTreeMap<SocketId, (WindowId, String)>,
    /// Every window there has ever been a socket of.
    windows: BTreeSet<WindowId>,
    sent: Vec<(RequestId, SocketId)>,
    ended: Vec<Delivery<Backend>>,
    /// Which nodes do not respond, and which do again, in order.
    news: Vec<(String, bool)>,
    /// Health checks that run, with the name of their node.
    checks: Vec<(CheckId, String)>,
}

fn node(number: u8) -> Backend {
    Backend::new(format!("node-{number}"), ([10, 0, 0, number], 9_700).into())
}

fn stage(nodes: u8, options: Options) -> Stage {
    seeded(nodes, options, 1)
}

#[allow(clippy::disallowed_methods)]
fn seeded(nodes: u8, options: Options, seed: u64) -> Stage {
    let machine = Machine::new(options, (1..=nodes).map(node), seed).unwrap();
    Stage {
        machine,
        now: Instant::now(),
        sockets: BTreeMap::new(),
        windows: BTreeSet::new(),
        sent: Vec::new(),
        ended: Vec::new(),
        news: Vec::new(),
        checks: Vec::new(),
    }
}

impl Stage {
    fn ask(&mut self, tag: u32, ask: Ask) -> RequestId {
        let request = self.machine.request(self.now, tag, ask).unwrap();
        self.settle();
        request
    }

    fn settle(&mut self) {
        while let Some(action) = self.machine.poll_action() {
            match action {
                Action::Open { socket, window, node } => {
                    self.sockets.insert(socket, (window, node.name().to_owned()));
                    self.windows.insert(window);
                }
                Action::Send { socket, request } => {
                    assert!(self.machine.handle_sending(self.now, socket, request));
                    self.sent.push((request, socket));
                }
                Action::Close(socket) => assert!(self.sockets.remove(&socket).is_some()),
                Action::Over(_) => {}
                Action::Unresponsive(node) => self.news.push((node.name().to_owned(), false)),
                Action::Responsive(node) => self.news.push((node.name().to_owned(), true)),
                Action::HealthCheck { check, node } => self.checks.push((check, node.name().to_owned())),
                Action::Unhealthy(node) => self.news.push((node.name().to_owned(), false)),
                Action::Healthy(node) => self.news.push((node.name().to_owned(), true)),
            }
        }
        while let Some(delivery) = self.machine.poll_delivery() {
            self.ended.push(delivery);
        }
        self.machine.check().unwrap();
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.machine.handle_timeout(self.now);
        self.settle();
    }

    fn ack(&mut self, socket: SocketId, tag: u32) -> bool {
        let heard = self.machine.handle_ack(self.now, socket, &tag);
        self.settle();
        heard
    }

    fn answer(&mut self, socket: SocketId, tag: u32, verdict: Verdict) -> bool {
        let heard = self.machine.handle_answer(self.now, socket, &tag, verdict).is_some();
        self.settle();
        heard
    }

    fn end_socket(&mut self, socket: SocketId) {
        self.machine.handle_ended(self.now, socket);
        self.sockets.remove(&socket);
        self.settle();
    }

    /// Where a request was sent to, in order.
    fn sent(&self, request: RequestId) -> Vec<SocketId> {
        self.sent.iter().filter(|(of, _)| *of == request).map(|(_, socket)| *socket).collect()
    }

    fn names(&self, request: RequestId) -> Vec<String> {
        self.sent(request).iter().map(|socket| self.sockets[socket].1.clone()).collect()
    }

    fn outcome(&self, request: RequestId) -> Option<&Outcome> {
        self.ended.iter().find(|delivery| delivery.request == request).map(|delivery| &delivery.outcome)
    }

    fn told(&self, request: RequestId) -> Vec<Told> {
        let delivery = self.ended.iter().find(|delivery| delivery.request == request).expect("it has ended");
        delivery.accounts.iter().map(|account| account.told).collect()
    }

    /// Somebody asks, is answered, and has what it wants.
    fn served(&mut self, tag: u32) {
        let request = self.ask(tag, Ask::any());
        assert!(self.answer(self.sent(request)[0], tag, GOOD));
    }

    /// The node that a request asks first; it answers.
    fn first_of(&mut self, tag: u32) -> String {
        let request = self.ask(tag, Ask::any());
        let first = self.names(request).swap_remove(0);
        assert!(self.answer(self.sent(request)[0], tag, GOOD));
        first
    }

    fn unresponsive(&self) -> Vec<String> {
        let of = self.machine.snapshot().unresponsive.into_iter().filter(|(_, until)| *until > self.now);
        of.map(|(node, _)| node.name().to_owned()).collect()
    }

    fn due_in(&self) -> Option<Duration> {
        self.machine.next_timeout().map(|at| at - self.now)
    }
}

fn limits(active_for: Duration, request_limit: usize) -> Options {
    Options { active_for, request_limit, ..Options::default() }
}

#[test]
fn without_requests_there_is_nothing_and_the_first_makes_one_window_and_one_socket() {
    let mut stage = stage(4, Options::default());
    assert_eq!((stage.due_in(), stage.sockets.len()), (None, 0));
    let request = stage.ask(1, Ask::any());
    assert_eq!((stage.windows.len(), stage.sockets.len(), stage.sent(request).len()), (1, 1, 1));
}

#[test]
fn all_are_asked_once_each_or_only_those_that_are_named() {
    let mut stage = stage(4, Options::default());
    let request = stage.ask(1, Ask::all());
    assert_eq!(stage.names(request).into_iter().collect::<BTreeSet<_>>().len(), 4);
    let named = Ask { nodes: Some(vec!["node-3".into(), "node-1".into(), "node-3".into()]), ..Ask::all() };
    let request = stage.ask(2, named);
    let names: BTreeSet<String> = stage.names(request).into_iter().collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["node-1", "node-3"]);
    assert_eq!((stage.windows.len(), stage.sockets.len()), (1, 4), "a window has one socket to a node");
}

#[test]
fn the_sixth_request_makes_a_second_window_whether_the_five_have_ended_or_not() {
    for answered in [false, true] {
        let mut stage = stage(4, Options::default());
        for tag in 0..5 {
            if answered {
                stage.served(tag);
            } else {
                stage.ask(tag, Ask::all());
            }
        }
        assert_eq!(stage.windows.len(), 1);
        stage.ask(5, Ask::any());
        assert_eq!(stage.windows.len(), 2);
    }
}

#[test]
fn resends_do_not_count_as_requests() {
    let mut stage = stage(4, limits(60 * SECOND, 2));
    let request = stage.ask(1, Ask::any());
    for _ in 0..3 {
        let socket = *stage.sent(request).last().unwrap();
        stage.answer(socket, 1, Verdict::Invalid);
    }
    assert_eq!(stage.sent(request).len(), 4);
    stage.ask(2, Ask::any());
    assert_eq!(stage.windows.len(), 1);
}

#[test]
fn a_window_is_kept_for_the_next_request_until_its_time_is_over() {
    let mut stage = stage(1, Options::default());
    stage.served(1);
    assert_eq!((stage.sockets.len(), stage.due_in()), (1, Some(5 * SECOND)), "the rest of the window");
    stage.pass(4_900 * MS);
    stage.served(2);
    assert_eq!((stage.windows.len(), stage.sockets.len()), (1, 1));
    stage.pass(99 * MS);
    assert_eq!(stage.sockets.len(), 1);
    stage.pass(MS);
    assert_eq!((stage.sockets.len(), stage.due_in()), (0, None), "from its creation, not from its last use");
}

#[test]
fn a_request_exactly_at_the_end_of_a_window_makes_another() {
    let mut stage = stage(1, Options::default());
    stage.served(1);
    stage.now += 5 * SECOND; // nobody has told the machine
    stage.ask(2, Ask::any());
    assert_eq!(stage.windows.len(), 2);
}

#[test]
fn a_window_that_is_over_lives_for_those_who_wait_and_closes_each_socket_when_it_can() {
    let mut stage = stage(4, Options::default());
    let request = stage.ask(1, Ask::all());
    let sockets = stage.sent(request);
    stage.pass(5 * SECOND);
    assert_eq!(stage.sockets.len(), 4);
    stage.ask(2, Ask::any());
    assert_eq!(stage.windows.len(), 2);
    for (answered, &socket) in sockets.iter().enumerate() {
        assert!(stage.answer(socket, 1, GOOD));
        assert_eq!(stage.sockets.len(), 5 - answered - 1, "one of the new window");
    }
    assert_eq!(stage.outcome(request), Some(&Outcome::Complete));
}

#[test]
fn a_full_window_closes_its_sockets_as_they_are_done() {
    let mut stage = stage(2, limits(5 * SECOND, 1));
    stage.served(1);
    assert_eq!((stage.sockets.len(), stage.due_in()), (0, None));
}

#[test]
fn a_request_asks_on_with_its_window_when_that_is_over() {
    let mut stage = stage(2, Options::default());
    let request = stage.ask(1, Ask::any());
    stage.pass(10 * SECOND);
    let window = stage.sockets[&stage.sent(request)[1]].0;
    assert_eq!((stage.windows.len(), window), (1, *stage.windows.first().unwrap()));
    assert_eq!(stage.sockets.len(), 1, "nobody waits on the first any more");
}

#[test]
fn the_deadline_is_that_of_the_ack_and_grows_with_it() {
    let mut stage = stage(1, limits(60 * SECOND, 5));
    let request = stage.ask(1, Ask::any());
    assert_eq!(stage.due_in(), Some(10 * SECOND));
    stage.pass(4 * SECOND);
    let socket = stage.sent(request)[0];
    assert!(stage.ack(socket, 1));
    stage.pass(56 * SECOND);
    assert_eq!(stage.due_in(), Some(40 * SECOND), "100 s from when it was asked");
    assert!(stage.ack(socket, 1));
    assert_eq!(stage.due_in(), Some(40 * SECOND), "another ack changes nothing");
    stage.pass(40 * SECOND);
    assert_eq!(stage.outcome(request), Some(&Outcome::Impossible));
    assert_eq!(stage.told(request), [Told::NoReply { after: 100 * SECOND }]);
}

#[test]
fn an_ack_exactly_at_the_limit_counts_and_one_after_it_does_not() {
    for (late, told) in [(Duration::ZERO, None), (MS, Some(Told::NoAck { after: 10 * SECOND }))] {
        let mut stage = stage(1, Options::default());
        let request = stage.ask(1, Ask::any());
        let socket = stage.sent(request)[0];
        stage.now += 10 * SECOND + late; // nobody has told the machine before
        assert_eq!(stage.ack(socket, 1), told.is_none());
        assert_eq!(stage.outcome(request).map(|_| stage.told(request)[0]), told);
    }
}

#[test]
fn a_request_may_have_timeouts_of_its_own() {
    let mut stage = stage(1, Options::default());
    let own = Ask { ack_timeout: Some(2 * SECOND), reply_timeout: Some(3 * SECOND), ..Ask::any() };
    let request = stage.ask(1, own);
    assert_eq!(stage.due_in(), Some(2 * SECOND));
    assert!(stage.ack(stage.sent(request)[0], 1));
    assert_eq!(stage.due_in(), Some(3 * SECOND));
}

#[test]
fn a_request_is_refused_the_options_that_a_requester_is() {
    let mut stage = stage(1, Options::default());
    let cases = [
        (Ask { ack_timeout: Some(Duration::ZERO), ..Ask::any() }, "ack_timeout must be above zero"),
        (Ask { reply_timeout: Some(Duration::MAX), ..Ask::any() }, "reply_timeout must be at most a year"),
        (Ask { reply_timeout: Some(9 * SECOND), ..Ask::any() }, "reply_timeout must not be below ack_timeout"),
        (Ask { ack_timeout: Some(101 * SECOND), ..Ask::any() }, "reply_timeout must not be below ack_timeout"),
        (Ask { at_once: Some(0), ..Ask::any() }, "at_once must be at least 1"),
    ];
    for (ask, text) in cases {
        let refusal = stage.machine.request(stage.now, 1, ask).unwrap_err();
        assert!(matches!(&refusal, Refusal::Options(error) if error.to_string() == text), "{refusal:?}");
    }
}

#[test]
fn the_order_of_nodes_is_chance_and_each_single_request_begins_one_further() {
    let mut firsts = BTreeSet::new();
    for seed in 0..40 {
        let mut stage = seeded(4, limits(60 * SECOND, 50), seed);
        let all: Vec<String> = {
            let request = stage.ask(0, Ask::all());
            stage.names(request)
        };
        firsts.insert(all.clone());
        for tag in 1..9 {
            let request = stage.ask(tag as u32, Ask::any());
            assert_eq!(stage.names(request), [all[(tag - 1) % 4].clone()]);
        }
    }
    assert!(firsts.len() > 10, "of 24 orders: {firsts:?}");
}

#[test]
fn preferred_nodes_come_first_in_the_order_they_were_given() {
    let preferred = vec!["node-3".into(), "nobody".into(), "node-1".into()];
    let mut stage = stage(4, Options { preferred, active_for: 60 * SECOND, request_limit: 50, ..Options::default() });
    let all = stage.ask(0, Ask::all());
    assert_eq!(stage.names(all)[..2], ["node-3", "node-1"]);
    let mut thirds = BTreeSet::new();
    for tag in 1..=4 {
        let request = stage.ask(tag, Ask { at_once: Some(3), ..Ask::any() });
        let names = stage.names(request);
        assert_eq!(names[..2], ["node-3", "node-1"], "they do not take turns");
        thirds.insert(names[2].clone());
    }
    assert_eq!(thirds.len(), 2, "the others do");
}

#[test]
fn nodes_that_are_named_take_even_turns_wherever_they_are_in_the_order() {
    for seed in 0..20 {
        let mut stage = seeded(10, limits(60 * SECOND, 50), seed);
        let mut asked: BTreeMap<String, usize> = BTreeMap::new();
        for tag in 0..30 {
            let some = Ask { nodes: Some(["node-1", "node-4", "node-8"].map(Into::into).to_vec()), ..Ask::any() };
            let request = stage.ask(tag, some);
            *asked.entry(stage.names(request)[0].clone()).or_default() += 1;
        }
        assert_eq!(asked.into_values().collect::<Vec<_>>(), [10, 10, 10]);
    }
}

#[test]
fn a_request_goes_on_to_the_next_node_until_each_was_asked_once() {
    let mut stage = stage(4, limits(60 * SECOND, 5));
    let request = stage.ask(1, Ask::any());
    let last = |stage: &Stage| *stage.sent(request).last().unwrap();
    stage.pass(10 * SECOND); // silent
    let socket = last(&stage);
    stage.answer(socket, 1, Verdict::Invalid);
    let socket = last(&stage);
    stage.end_socket(socket);
    let socket = last(&stage);
    stage.ack(socket, 1);
    stage.pass(100 * SECOND);
    assert_eq!(stage.sent(request).len(), 4);
    let told = [Told::NoAck { after: 10 * SECOND }, Told::Invalid, Told::Ended, Told::NoReply { after: 100 * SECOND }];
    assert_eq!(stage.told(request), told);
    assert_eq!(stage.outcome(request), Some(&Outcome::Impossible));
}

/// One window for all requests.
fn one_window() -> Options {
    limits(3_600 * SECOND, usize::MAX)
}

#[test]
fn a_silent_node_is_asked_last_for_a_minute_and_the_turns_of_the_others_stay_even() {
    for acks in [false, true] {
        let mut stage = stage(4, Options { hedge_after: None, ..one_window() });
        let request = stage.ask(0, Ask::any());
        if acks {
            stage.ack(stage.sent(request)[0], 0);
        }
        stage.pass(if acks { 100 * SECOND } else { 10 * SECOND });
        let silent = stage.names(request)[0].clone();
        assert_eq!((stage.unresponsive(), &stage.news), (vec![silent.clone()], &vec![(silent.clone(), false)]));
        assert!(stage.machine.forget(stage.now, request));
        let mut firsts: BTreeMap<String, usize> = BTreeMap::new();
        for tag in 1..=30 {
            *firsts.entry(stage.first_of(tag)).or_default() += 1;
        }
        assert_eq!(firsts.values().copied().collect::<Vec<_>>(), [10, 10, 10]);
        stage.pass(60 * SECOND - MS);
        assert!(!firsts.contains_key(&silent) && (31..35).all(|tag| stage.first_of(tag) != silent));
        stage.pass(MS);
        assert!((35..39).any(|tag| stage.first_of(tag) == silent), "its time is over");
        assert_eq!(stage.unresponsive(), [""; 0]);
    }
}

#[test]
fn the_memory_of_unresponsive_nodes_is_shared_by_all_windows() {
    let mut stage = stage(4, limits(SECOND, 1));
    let request = stage.ask(0, Ask::any());
    let silent = stage.names(request)[0].clone();
    stage.pass(SECOND);
    assert!((1..20).all(|tag| stage.first_of(tag) != silent));
    assert_eq!(stage.windows.len(), 20);
}

#[test]
fn a_node_whose_socket_ends_is_asked_last_if_a_request_waited_on_it() {
    let mut stage = stage(2, one_window());
    let request = stage.ask(0, Ask::any());
    let socket = stage.sent(request)[0];
    let node = stage.names(request)[0].clone();
    assert!(stage.answer(socket, 0, GOOD));
    stage.end_socket(socket);
    assert_eq!(stage.unresponsive(), [""; 0], "a node may close an idle socket");
    let request = stage.ask(1, Ask { nodes: Some(vec![node.as_str().into()]), ..Ask::any() });
    stage.end_socket(stage.sent(request)[0]);
    assert_eq!(stage.unresponsive(), [&*node]);
    assert!((2..6).all(|tag| stage.first_of(tag) != node));
}

#[test]
fn an_ack_or_an_answer_makes_a_node_responsive_even_if_its_request_has_ended() {
    for acks in [false, true] {
        let mut stage = stage(2, one_window());
        let request = stage.ask(0, Ask::any());
        let (socket, node) = (stage.sent(request)[0], stage.names(request)[0].clone());
        stage.pass(SECOND);
        assert!(stage.answer(stage.sent(request)[1], 0, GOOD));
        assert_eq!(stage.unresponsive(), [&*node]);
        assert!(!stage.ack(socket, 9), "nothing was sent with this tag");
        assert_eq!(stage.unresponsive(), [&*node]);
        let heard = if acks { stage.ack(socket, 0) } else { stage.answer(socket, 0, Verdict::Invalid) };
        assert!(!heard, "no request waits for it");
        assert_eq!((stage.unresponsive(), &stage.news[1..]), (Vec::new(), &[(node.clone(), true)][..]));
        assert!((1..3).any(|tag| stage.first_of(tag) == node));
    }
}

#[test]
fn unresponsive_nodes_are_asked_last_with_preferred_ones_first_among_them() {
    let preferred = ["node-1", "node-2", "node-3"].map(Into::into).to_vec();
    let mut stage = stage(6, Options { preferred, ..one_window() });
    let only = |names: &[&str]| Ask { nodes: Some(names.iter().map(|name| (*name).into()).collect()), ..Ask::all() };
    stage.ask(0, only(&["node-6", "node-3", "node-1"]));
    stage.pass(10 * SECOND);
    let some = stage.ask(1, Ask { at_once: Some(5), ..Ask::any() });
    assert_eq!(stage.names(some)[0], "node-2");
    assert_eq!(
        stage.names(some)[1..3].iter().map(|name| &**name).collect::<BTreeSet<_>>(),
        ["node-4", "node-5"].into()
    );
    assert_eq!(stage.names(some)[3..], ["node-1", "node-3"]);
    stage.answer(stage.sent(some)[0], 1, Verdict::Invalid);
    assert_eq!(stage.names(some)[5], "node-6");
    let all = stage.ask(2, Ask::all());
    assert_eq!(stage.names(all)[..3], ["node-1", "node-2", "node-3"], "a request that asks all nodes is not changed");
}

#[test]
fn nodes_that_change_or_go_are_forgotten() {
    let mut stage = stage(4, one_window());
    stage.ask(0, Ask::all());
    stage.pass(10 * SECOND);
    assert_eq!(stage.unresponsive().len(), 4);
    let waits = stage.ask(1, Ask::all());
    let moved = || Backend::new("node-1", ([10, 0, 9, 1], 9_700).into());
    assert_eq!(stage.machine.set_nodes(stage.now, [moved(), node(2), node(3)]), Ok(true));
    assert_eq!(stage.unresponsive(), ["node-2", "node-3"]);
    assert_eq!(stage.machine.set_nodes(stage.now, [moved(), node(2), node(3), node(4)]), Ok(true));
    assert_eq!(stage.unresponsive(), ["node-2", "node-3"], "one that comes back is new");
    stage.pass(10 * SECOND);
    assert_eq!(stage.told(waits).len(), 4, "all were silent where they were");
    assert_eq!(stage.unresponsive(), ["node-2", "node-3", "node-4"], "the first is elsewhere");
}

#[test]
fn one_more_node_is_asked_when_one_has_not_acknowledged_in_time_and_both_are_waited_for() {
    for first_answers in [true, false] {
        let mut stage = stage(3, one_window());
        let request = stage.ask(0, Ask::any());
        assert_eq!(stage.due_in(), Some(SECOND));
        stage.pass(SECOND - MS);
        assert_eq!(stage.sent(request).len(), 1);
        stage.pass(MS);
        assert_eq!(stage.sent(request).len(), 2);
        assert_eq!(stage.unresponsive(), stage.names(request)[..1]);
        stage.ack(stage.sent(request)[1], 0);
        stage.pass(8 * SECOND);
        assert_eq!(stage.sent(request).len(), 2, "it has acknowledged");
        if first_answers {
            stage.answer(stage.sent(request)[0], 0, GOOD);
            assert_eq!(stage.told(request), [Told::Answered(Key(0)), Told::Waiting, Told::NotAsked]);
        } else {
            stage.pass(SECOND);
            assert_eq!(stage.sent(request).len(), 2, "another was asked instead of it before");
            stage.answer(stage.sent(request)[1], 0, GOOD);
            let silent = Told::NoAck { after: 10 * SECOND };
            assert_eq!(stage.told(request), [silent, Told::Answered(Key(0)), Told::NotAsked]);
        }
    }
}

#[test]
fn one_more_node_is_asked_for_each_that_has_not_acknowledged() {
    let mut stage = stage(7, one_window());
    let request = stage.ask(0, Ask { at_once: Some(4), ..Ask::quorum(3) });
    let sockets = stage.sent(request);
    stage.answer(sockets[0], 0, GOOD);
    stage.ack(sockets[1], 0);
    stage.pass(SECOND);
    assert_eq!(stage.sent(request).len(), 6);
    stage.answer(stage.sent(request)[4], 0, OTHER);
    assert_eq!(stage.sent(request).len(), 7, "it disagrees");
    stage.answer(sockets[1], 0, GOOD);
    stage.answer(sockets[2], 0, GOOD);
    assert_eq!(stage.outcome(request), Some(&Outcome::Reached(Key(0))), "late, and it counts");
    assert_eq!(stage.unresponsive(), [stage.sockets[&sockets[3]].1.clone()]);
}

#[test]
fn a_node_that_acknowledges_late_counts_among_those_asked_at_once_again() {
    let mut stage = stage(4, one_window());
    let request = stage.ask(0, Ask::any());
    stage.pass(SECOND);
    stage.ack(stage.sent(request)[0], 0);
    assert_eq!(stage.unresponsive(), [""; 0]);
    stage.answer(stage.sent(request)[1], 0, Verdict::Invalid);
    assert_eq!(stage.sent(request).len(), 2, "it is waited for");
    stage.answer(stage.sent(request)[0], 0, Verdict::Invalid);
    assert_eq!(stage.sent(request).len(), 3);
}

#[test]
fn no_more_nodes_are_asked_without_hedge_after_or_when_all_are_asked_or_are_to_acknowledge_sooner() {
    let hurried = Ask { ack_timeout: Some(SECOND), ..Ask::any() };
    for (hedge_after, ask, due) in [
        (None, Ask::any(), 10 * SECOND),
        (Some(SECOND), Ask::quorum(2), 10 * SECOND),
        (Some(SECOND), Ask::all(), 10 * SECOND),
        (Some(SECOND), hurried, SECOND),
    ] {
        let mut stage = stage(4, Options { hedge_after, ..one_window() });
        let request = stage.ask(0, ask);
        assert_eq!((stage.due_in(), stage.unresponsive().len()), (Some(due), 0));
        stage.ack(stage.sent(request)[0], 0);
        stage.pass(SECOND);
        assert!([1, 4].contains(&stage.sent(request).len()));
    }
}

#[test]
fn a_request_that_reconnects_asks_one_more_node_when_its_socket_has_ended_without_an_ack() {
    let mut stage = stage(4, one_window());
    let request = stage.ask(0, Ask { at_once: Some(2), ..reconnecting(2) });
    let first = stage.sent(request)[0];
    let node = stage.names(request)[0].clone();
    stage.end_socket(first);
    assert_eq!(stage.unresponsive(), [&*node]);
    stage.ack(stage.sent(request)[1], 0);
    assert_eq!(stage.sent(request).len(), 2);
    stage.pass(SECOND);
    assert_eq!(stage.sent(request).len(), 4, "again, and one more");
}

fn reconnecting(wanted: usize) -> Ask {
    Ask { reconnect: true, ..Ask::quorum(wanted) }
}

#[test]
fn a_request_that_reconnects_is_sent_again_with_its_identity_after_its_sockets_ended() {
    let mut stage = stage(2, Options::default());
    let request = stage.ask(1, reconnecting(2));
    let (first, window) = (stage.sent(request), *stage.windows.first().unwrap());
    first.iter().for_each(|socket| stage.end_socket(*socket));
    assert_eq!((stage.outcome(request), stage.sockets.len()), (None, 0));
    let other = stage.ask(1, Ask::any());
    assert!(stage.sent(other).iter().all(|socket| stage.sockets[socket].0 != window), "its tag is taken in its window");
    stage.pass(200 * MS);
    let again = stage.sent(request).split_off(2);
    assert_eq!(again.len(), 2, "one new socket for each");
    assert!(again.iter().all(|socket| stage.sockets[socket].0 == window), "in the same window");
    again.iter().for_each(|socket| assert!(stage.answer(*socket, 1, GOOD)));
    assert_eq!(stage.outcome(request), Some(&Outcome::Reached(Key(0))));
}

#[test]
fn a_request_that_reconnects_ends_at_its_deadline_as_sent() {
    let mut stage = stage(2, Options::default());
    let request = stage.ask(1, reconnecting(2));
    let mut ended = 0;
    for _ in 0..100 {
        for socket in stage.sent(request).split_off(ended) {
            stage.end_socket(socket);
            ended += 1;
        }
        stage.pass(100 * MS);
    }
    assert!((8..=40).contains(&ended), "{ended} sockets");
    assert_eq!(stage.outcome(request), Some(&Outcome::Impossible));
    let accounts = &stage.ended[0].accounts;
    assert!(accounts.iter().any(|account| account.told == Told::Ended && account.sent), "{accounts:?}");
    assert_eq!(stage.sent(request).len(), ended, "nothing is sent after the end");
}

#[test]
fn a_request_that_was_not_sent_does_not_reconnect_and_says_so() {
    let mut stage = stage(1, Options::default());
    let request = stage.machine.request(stage.now, 1, reconnecting(1)).unwrap();
    let Some(Action::Open { socket, .. }) = stage.machine.poll_action() else { panic!() };
    while stage.machine.poll_action().is_some() {}
    stage.machine.handle_ended(stage.now, socket);
    stage.settle();
    assert_eq!((stage.outcome(request), stage.told(request)), (Some(&Outcome::Impossible), vec![Told::Ended]));
    assert!(!stage.ended[0].accounts[0].sent);
}

#[test]
fn with_one_node_a_request_is_not_sent_to_it_again() {
    let mut stage = stage(1, Options::default());
    let request = stage.ask(1, Ask::any());
    stage.pass(10 * SECOND);
    assert_eq!((stage.sent(request).len(), stage.outcome(request)), (1, Some(&Outcome::Impossible)));
}

#[test]
fn read_nodes_are_asked_at_once_and_stay_as_many() {
    let mut stage = stage(4, Options { read_nodes: 2, ..Options::default() });
    let request = stage.ask(1, Ask::any());
    assert_eq!(stage.sent(request).len(), 2);
    stage.answer(stage.sent(request)[1], 1, Verdict::Invalid);
    assert_eq!(stage.sent(request).len(), 3);
    stage.answer(stage.sent(request)[0], 1, GOOD);
    assert_eq!(stage.outcome(request), Some(&Outcome::Reached(Key(0))));
    assert_eq!(stage.told(request), [Told::Answered(Key(0)), Told::Invalid, Told::Waiting, Told::NotAsked]);
}

#[test]
fn other_nodes_make_a_new_window_and_the_same_ones_in_another_order_do_not() {
    let mut stage = stage(3, Options::default());
    stage.served(1);
    assert_eq!(stage.machine.set_nodes(stage.now, [node(2), node(3), node(1)]), Ok(false));
    stage.served(2);
    assert_eq!(stage.windows.len(), 1);
    let waits = stage.ask(3, Ask::all());
    let moved = Backend::new("node-1", ([10, 0, 9, 1], 9_700).into());
    assert_eq!(stage.machine.set_nodes(stage.now, [moved, node(2), node(3)]), Ok(true), "one has moved");
    stage.settle();
    assert_eq!(stage.sockets.len(), 3, "the old window finishes");
    stage.ask(4, Ask::any());
    assert_eq!(stage.windows.len(), 2);
    for socket in stage.sent(waits) {
        stage.answer(socket, 3, GOOD);
    }
    assert_eq!((stage.outcome(waits), stage.sockets.len()), (Some(&Outcome::Complete), 1));
    assert_eq!(stage.machine.set_nodes(stage.now, []), Err(NodesError::Empty));
    assert_eq!(stage.machine.set_nodes(stage.now, [node(1), node(1)]), Err(NodesError::Twice("node-1".into())));
}

#[test]
fn equal_answers_are_a_quorum_as_soon_as_there_are_enough() {
    let mut stage = stage(4, Options::default());
    let request = stage.ask(1, Ask::quorum(2));
    let sockets = stage.sent(request);
    assert_eq!(sockets.len(), 4, "all are asked");
    stage.answer(sockets[0], 1, GOOD);
    stage.answer(sockets[1], 1, OTHER);
    assert_eq!(stage.outcome(request), None);
    stage.answer(sockets[2], 1, OTHER);
    assert_eq!(stage.outcome(request), Some(&Outcome::Reached(Key(1))));
    let told = [Told::Answered(Key(0)), Told::Answered(Key(1)), Told::Answered(Key(1)), Told::Waiting];
    assert_eq!(stage.told(request), told);
    assert!(!stage.answer(sockets[3], 1, OTHER), "late");
    assert!(!stage.answer(sockets[2], 1, OTHER), "twice");
}

#[test]
fn a_quorum_fails_as_soon_as_it_is_impossible() {
    let mut stage = stage(4, Options::default());
    let request = stage.ask(1, Ask::quorum(3));
    let sockets = stage.sent(request);
    stage.answer(sockets[0], 1, GOOD);
    stage.answer(sockets[1], 1, OTHER);
    assert_eq!(stage.outcome(request), None, "3 of 4 can still be equal");
    stage.end_socket(sockets[2]);
    assert_eq!(stage.outcome(request), Some(&Outcome::Impossible), "the last one cannot help");
}

#[test]
fn a_quorum_of_silent_nodes_ends_with_their_time() {
    let mut stage = stage(4, Options::default());
    let request = stage.ask(1, Ask::quorum(2));
    stage.answer(stage.sent(request)[0], 1, GOOD);
    stage.pass(10 * SECOND);
    assert_eq!(stage.outcome(request), Some(&Outcome::Impossible));
}

#[test]
fn a_quorum_may_ask_some_nodes_first_and_more_as_they_fail_or_disagree() {
    let mut stage = stage(7, Options::default());
    // f = 2: f + 1 have to agree, f + 2 are asked.
    let request = stage.ask(1, Ask { at_once: Some(4), ..Ask::quorum(3) });
    let sockets = stage.sent(request);
    assert_eq!(sockets.len(), 4);
    stage.answer(sockets[0], 1, GOOD);
    assert_eq!(stage.sent(request).len(), 4, "as good as one that is waited for");
    stage.answer(sockets[1], 1, OTHER);
    assert_eq!(stage.sent(request).len(), 5, "it disagrees");
    stage.end_socket(sockets[2]);
    assert_eq!(stage.sent(request).len(), 6, "it fails");
    stage.answer(sockets[3], 1, GOOD);
    stage.answer(stage.sent(request)[5], 1, GOOD);
    assert_eq!(stage.outcome(request), Some(&Outcome::Reached(Key(0))));
}

#[test]
fn all_waits_for_every_node_and_silence_is_an_answer() {
    let mut stage = stage(4, Options::default());
    let request = stage.ask(1, Ask::all());
    let sockets = stage.sent(request);
    stage.answer(sockets[0], 1, GOOD);
    stage.answer(sockets[1], 1, OTHER);
    stage.ack(sockets[3], 1);
    stage.pass(10 * SECOND);
    assert_eq!(stage.outcome(request), None, "one has acknowledged");
    stage.answer(sockets[3], 1, GOOD);
    assert_eq!(stage.outcome(request), Some(&Outcome::Complete));
    let silent = Told::NoAck { after: 10 * SECOND };
    let told = [Told::Answered(Key(0)), Told::Answered(Key(1)), silent, Told::Answered(Key(0))];
    assert_eq!(stage.told(request), told);
}

#[test]
fn what_cannot_succeed_is_refused_at_once() {
    let mut stage = stage(4, Options::default());
    let mut refusal = |ask| stage.machine.request(stage.now, 1, ask).unwrap_err();
    let named = |names: &[&str]| Ask { nodes: Some(names.iter().map(|name| (*name).into()).collect()), ..Ask::all() };
    assert_eq!(refusal(named(&["node-1", "node-9"])), Refusal::UnknownNodes(vec!["node-9".into()]));
    assert_eq!(refusal(named(&[])), Refusal::NoNodes);
    assert_eq!(refusal(Ask::quorum(5)), Refusal::Unreachable { wanted: 5, nodes: 4 });
    assert_eq!(refusal(Ask::quorum(0)), Refusal::Unreachable { wanted: 0, nodes: 4 });
    assert_eq!((stage.machine.footprint(), stage.machine.poll_action()), (0, None));
}

#[test]
fn a_window_that_is_owed_a_tag_takes_no_other_so_that_no_answer_is_taken_for_another() {
    let mut stage = stage(1, Options::default());
    let first = stage.ask(7, Ask::any());
    assert!(stage.machine.forget(stage.now, first));
    let second = stage.ask(7, Ask::any());
    assert_eq!(stage.windows.len(), 2);
    assert!(!stage.answer(stage.sent(first)[0], 7, OTHER), "the answer to the one that was given up");
    assert!(stage.answer(stage.sent(second)[0], 7, GOOD));
    assert_eq!(stage.outcome(second), Some(&Outcome::Reached(Key(0))));
}

#[test]
fn a_tag_comes_again_on_the_same_window_when_nobody_owes_an_answer_with_it() {
    let mut stage = stage(4, limits(60 * SECOND, 50));
    for _ in 0..10 {
        stage.served(7);
    }
    let quorum = stage.ask(7, Ask::quorum(2));
    let sockets = stage.sent(quorum);
    stage.answer(sockets[0], 7, GOOD);
    stage.answer(sockets[1], 7, GOOD);
    assert_eq!(stage.outcome(quorum), Some(&Outcome::Reached(Key(0))));
    assert!(!stage.answer(sockets[2], 7, OTHER), "nobody waits for it, but it has come");
    stage.end_socket(sockets[3]);
    stage.served(7);
    assert_eq!(stage.windows.len(), 1);
}

#[test]
fn a_tag_whose_time_is_over_is_owed_until_its_answer_comes() {
    let mut stage = stage(1, limits(60 * SECOND, 50));
    let first = stage.ask(7, Ask::any());
    stage.pass(10 * SECOND);
    assert_eq!(stage.outcome(first), Some(&Outcome::Impossible));
    stage.served(7);
    assert_eq!(stage.windows.len(), 2, "it may still come");
    assert!(!stage.ack(stage.sent(first)[0], 7), "this is not yet it");
    assert!(!stage.answer(stage.sent(first)[0], 7, OTHER));
    let [one, other] = [(); 2].map(|()| stage.ask(7, Ask::any()));
    assert_ne!(stage.sent(one), stage.sent(other));
    assert_eq!(stage.windows.len(), 2, "both are free again");
}

#[test]
fn what_nobody_waits_for_any_more_is_not_sent_and_owed_by_nobody() {
    let mut stage = stage(1, limits(60 * SECOND, 50));
    let sending = |stage: &mut Stage, tag| {
        let request = stage.machine.request(stage.now, tag, Ask::any()).unwrap();
        let socket = std::iter::from_fn(|| stage.machine.poll_action()).find_map(|action| match action {
            Action::Send { socket, .. } => Some(socket),
            Action::Open { .. }
            | Action::Close(_)
            | Action::Over(_)
            | Action::Unresponsive(_)
            | Action::Responsive(_)
            | Action::HealthCheck { .. }
            | Action::Unhealthy(_)
            | Action::Healthy(_) => None,
        });
        (request, socket.unwrap())
    };
    let (cancelled, socket) = sending(&mut stage, 7);
    assert!(!stage.answer(socket, 7, GOOD), "it was not even sent");
    assert!(stage.machine.forget(stage.now, cancelled));
    assert!(!stage.machine.handle_sending(stage.now, socket, cancelled));
    let (late, again) = sending(&mut stage, 7);
    assert_eq!(again, socket, "the tag is free");
    stage.now += 10 * SECOND + MS; // nobody has told the machine
    assert!(!stage.machine.handle_sending(stage.now, socket, late), "its time is over");
    let (wanted, _) = sending(&mut stage, 7);
    assert!(!stage.machine.handle_sending(stage.now, socket, late), "not even under a tag that is waited for");
    assert!(stage.machine.handle_sending(stage.now, socket, wanted));
}

#[test]
fn a_tag_that_is_owed_holds_up_nobody_else_in_line() {
    let mut stage = stage(1, Options { max_windows: Some(1), ..Options::default() });
    let first = stage.ask(7, Ask::any());
    let [again, third] = [(); 2].map(|()| stage.ask(7, Ask::any()));
    let fresh = stage.ask(8, Ask::any());
    assert_eq!((stage.sent(again).len(), stage.sent(fresh).len()), (0, 1));
    assert!(stage.machine.forget(stage.now, first));
    stage.answer(stage.sent(first)[0], 7, GOOD);
    assert_eq!((stage.sent(again).len(), stage.sent(third).len()), (1, 0), "in order among those with one tag");
}

#[test]
fn of_several_windows_with_room_the_newest_is_used() {
    let mut stage = stage(1, Options::default());
    stage.ask(7, Ask::any());
    stage.ask(7, Ask::any());
    let third = stage.ask(8, Ask::any());
    assert_eq!(stage.windows.len(), 2);
    assert_eq!(Some(&stage.sockets[&stage.sent(third)[0]].0), stage.windows.last());
}

#[test]
fn a_cancelled_request_is_forgotten_everywhere() {
    let mut stage = stage(4, limits(5 * SECOND, 1));
    let request = stage.ask(1, Ask::all());
    assert!(stage.machine.forget(stage.now, request));
    stage.settle();
    assert_eq!((stage.machine.footprint(), stage.sockets.len(), stage.ended.len()), (0, 0, 0));
    assert!(!stage.machine.forget(stage.now, request), "once");
}

#[test]
fn over_max_windows_requests_wait_in_order_and_not_for_ever() {
    let mut stage = stage(1, Options { max_windows: Some(1), request_limit: 1, ..Options::default() });
    let first = stage.ask(1, Ask::any());
    let [second, third, fourth] = [2, 3, 4].map(|tag| stage.ask(tag, Ask::any()));
    assert_eq!((stage.sent.len(), stage.machine.snapshot().in_line), (1, 3));
    assert!(stage.machine.forget(stage.now, third));
    stage.ack(stage.sent(first)[0], 1);
    stage.pass(90 * SECOND);
    stage.answer(stage.sent(first)[0], 1, GOOD);
    assert_eq!((stage.sent(second).len(), stage.sent(fourth).len()), (1, 0), "one at a time, in order");
    stage.ack(stage.sent(second)[0], 2);
    stage.pass(10 * SECOND);
    assert_eq!(stage.outcome(fourth), Some(&Outcome::TimedOutInLine { after: 100 * SECOND }));
}

#[test]
fn who_waits_in_line_is_judged_by_the_nodes_there_are_when_its_turn_comes() {
    let mut stage = stage(3, Options { max_windows: Some(1), request_limit: 1, ..Options::default() });
    let first = stage.ask(1, Ask::any());
    let second = stage.ask(2, Ask::quorum(3));
    let third = stage.ask(3, Ask::any());
    assert_eq!(stage.machine.set_nodes(stage.now, [node(1), node(2)]), Ok(true));
    stage.settle();
    let refused = Outcome::Refused(Refusal::Unreachable { wanted: 3, nodes: 2 });
    assert_eq!(stage.outcome(second), Some(&refused), "it holds up nobody");
    stage.answer(stage.sent(first)[0], 1, GOOD);
    assert_eq!(stage.sent(third).len(), 1);
}

#[test]
fn a_socket_that_ends_is_opened_again_by_the_next_request() {
    let mut stage = stage(1, Options::default());
    let request = stage.ask(1, Ask::any());
    stage.answer(stage.sent(request)[0], 1, GOOD);
    stage.end_socket(stage.sent(request)[0]);
    let again = stage.ask(2, Ask::any());
    assert_ne!(stage.sent(again), stage.sent(request));
    assert_eq!(stage.windows.len(), 1, "with the same identity");
}

#[test]
fn closing_ends_everything_and_nothing_is_taken_any_more() {
    let mut stage = stage(2, Options { max_windows: Some(1), request_limit: 1, ..Options::default() });
    let (first, second) = (stage.ask(1, Ask::all()), stage.ask(2, Ask::any()));
    stage.machine.close(stage.now);
    stage.settle();
    assert_eq!(stage.outcome(first), Some(&Outcome::Closed));
    assert_eq!(stage.outcome(second), Some(&Outcome::Closed));
    assert_eq!((stage.sockets.len(), stage.machine.footprint()), (0, 0));
    assert_eq!(stage.machine.request(stage.now, 3, Ask::any()), Err(Refusal::Closed));
}

#[test]
fn options_that_make_no_sense_are_refused_by_name() {
    let usual = Options::default;
    let cases = [
        (Options { active_for: Duration::ZERO, ..usual() }, "active_for must be above zero"),
        (Options { request_limit: 0, ..usual() }, "request_limit must be at least 1"),
        (Options { ack_timeout: Duration::MAX, ..usual() }, "ack_timeout must be at most a year"),
        (Options { reply_timeout: SECOND, ..usual() }, "reply_timeout must not be below ack_timeout"),
        (Options { hedge_after: Some(Duration::ZERO), ..usual() }, "hedge_after must be above zero"),
        (Options { hedge_after: Some(Duration::MAX), ..usual() }, "hedge_after must be at most a year"),
        (Options { read_nodes: 0, ..usual() }, "read_nodes must be at least 1"),
        (Options { max_windows: Some(0), ..usual() }, "max_windows must be at least 1"),
        (Options { preferred: vec!["a".into(), "a".into()], ..usual() }, "preferred must not name a node twice"),
    ];
    for (options, text) in cases {
        let error = Machine::<Backend, u32>::new(options, [node(1)], 1).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
    let none = Machine::<Backend, u32>::new(usual(), [], 1).unwrap_err();
    assert_eq!(none, NewError::Nodes(NodesError::Empty));
}

/// Health is checked every second. The checks of these nodes fail for so many seconds, those of others pass.
fn check(stage: &mut Stage, seconds: u32, failing: &[&str]) -> usize {
    let mut checks = 0;
    for _ in 0..10 * seconds {
        stage.pass(100 * MS);
        for (check, node) in std::mem::take(&mut stage.checks) {
            stage.machine.handle_health_checked(stage.now, check, !failing.contains(&&*node));
            checks += 1;
        }
        stage.settle();
    }
    checks
}

fn checked() -> Options {
    let schedule = Schedule::default().interval(SECOND).jitter(0.0);
    Options { health_check: Some(schedule), ..one_window() }
}

fn unhealthy(stage: &Stage) -> Vec<String> {
    stage.machine.snapshot().unhealthy.iter().map(|node| node.name().to_owned()).collect()
}

#[test]
fn node_whose_health_checks_fail_is_asked_last_until_they_pass() {
    let mut stage = stage(4, checked());
    stage.machine.handle_timeout(stage.now);
    let checks = check(&mut stage, 10, &[]);
    assert!((32..=44).contains(&checks), "{checks} checks of four nodes in ten seconds, without a request");
    assert_eq!(unhealthy(&stage), [""; 0]);
    check(&mut stage, 4, &["node-2"]);
    assert_eq!((unhealthy(&stage), &stage.news), (vec!["node-2".to_owned()], &vec![("node-2".to_owned(), false)]));
    assert!((0..12).all(|tag| stage.first_of(tag) != "node-2"));
    let all = stage.ask(12, Ask::all());
    assert_eq!(stage.sent(all).len(), 4, "it is asked with all others");
    assert!(stage.machine.forget(stage.now, all));
    check(&mut stage, 4, &[]);
    assert_eq!((unhealthy(&stage), stage.news.last()), (vec![], Some(&("node-2".to_owned(), true))));
    assert!((13..21).any(|tag| stage.first_of(tag) == "node-2"));
}

#[test]
fn when_all_nodes_are_unhealthy_they_are_asked() {
    let mut stage = stage(2, checked());
    stage.machine.handle_timeout(stage.now);
    check(&mut stage, 4, &["node-1", "node-2"]);
    assert_eq!(unhealthy(&stage).len(), 2);
    stage.served(0);
}

#[test]
fn checks_follow_the_nodes_and_end_with_the_requester() {
    let mut stage = stage(2, checked());
    stage.machine.handle_timeout(stage.now);
    check(&mut stage, 4, &["node-1"]);
    stage.machine.set_nodes(stage.now, [node(2), node(3)]).unwrap();
    stage.machine.check().unwrap();
    assert_eq!(unhealthy(&stage), [""; 0], "it is no node any more");
    check(&mut stage, 4, &["node-3"]);
    assert_eq!(unhealthy(&stage), ["node-3"]);
    stage.machine.close(stage.now);
    stage.machine.check().unwrap();
    assert_eq!((check(&mut stage, 4, &[]), stage.machine.next_timeout()), (0, None));
}
