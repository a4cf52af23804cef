//! What must hold, judged by the books after every single event.

use super::{Moment, Tag, World, name, number};
use carom_core::backend::Backend;
use carom_core::window::{Delivery, Machine, Outcome, RequestId, SocketId, Told};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

impl World {
    /// Everything that must hold between any two events.
    pub(super) fn check(&mut self) {
        if let Err(problem) = self.machine.check() {
            panic!("{problem}");
        }
        self.promise_requests_end_when_they_can();
        self.promise_the_unresponsive_are_remembered();
        self.promise_windows_keep_their_limits();
        self.promise_no_socket_lives_without_reason();
        self.promise_requests_wait_only_for_windows();
        assert_eq!(self.machine.snapshot().counters, self.books.counted, "what is counted is what happened");
    }

    /// Nobody goes on who has what it wants or cannot get it, and as many are asked as should be.
    fn promise_requests_end_when_they_can(&self) {
        for (id, inquiry) in &self.books.live {
            assert!(!inquiry.is_over(), "{id:?} should have ended: {inquiry:?}");
            assert_eq!(inquiry.due, 0, "{id:?} asks too few: {inquiry:?}");
        }
    }

    /// Unresponsive nodes are remembered for as long as they should be, and never more than there are nodes.
    fn promise_the_unresponsive_are_remembered(&self) {
        let unresponsive = self.machine.snapshot().unresponsive;
        let known: BTreeMap<SocketAddr, Moment> =
            unresponsive.iter().map(|(node, until)| (node.socket_addr(), *until - self.start)).collect();
        assert_eq!(known, self.books.unresponsive);
        assert!(unresponsive.len() <= self.nodes.len());
    }

    fn promise_windows_keep_their_limits(&self) {
        let options = &self.setting.options;
        for (id, window) in &self.books.windows {
            assert!(window.started <= options.request_limit, "{id:?} has {} requests", window.started);
        }
        let windows = self.machine.snapshot().windows;
        assert!(options.max_windows.is_none_or(|most| windows.len() <= most), "{} windows", windows.len());
    }

    fn promise_no_socket_lives_without_reason(&self) {
        let waiting = |asked: &&super::books::Asked| asked.told.is_none() && !asked.lost;
        let asked = self.books.live.values().flat_map(|inquiry| inquiry.asked.iter().filter(waiting));
        let needed: BTreeSet<SocketId> = asked.map(|asked| asked.socket).collect();
        for (socket, link) in self.books.sockets.iter().filter(|(_, link)| !link.ended) {
            let active = self.books.is_active(link.window, self.clock, &self.setting.options, self.setting.late);
            assert!(active || needed.contains(socket), "{socket:?} is open for nothing");
        }
        for socket in needed {
            assert!(self.books.sockets.contains_key(&socket), "{socket:?} is closed, and somebody waits on it");
        }
    }

    fn promise_requests_wait_only_for_windows(&self) {
        let in_line = self.books.live.values().filter(|inquiry| inquiry.started.is_none()).count();
        assert_eq!(self.machine.snapshot().in_line, in_line);
        let full = |most| self.machine.snapshot().windows.len() == most;
        assert!(in_line == 0 || self.setting.options.max_windows.is_some_and(full), "somebody waits for nothing");
    }

    /// Preferred nodes first, always in the order they were given, then the others in the order of the window; there each
    /// request that does not ask all begins one further; then the unresponsive nodes, in the same order; no node twice.
    pub(super) fn promise_a_request_is_sent_in_order(&mut self, socket: SocketId, id: RequestId) {
        let inquiry = self.books.inquiry(id).clone();
        let (asked, start) = (&inquiry.asked, inquiry.started.expect("it was sent"));
        let (last, before) = asked.split_last().expect("it was sent");
        assert_eq!(self.books.sockets[&socket].window, start.window, "a request keeps its window");
        assert!(before.iter().all(|asked| asked.server != last.server), "a node is asked twice");
        let window = self.books.windows.get_mut(&start.window).expect("it is there");
        let position = |server: usize| self.setting.options.preferred.iter().position(|n| **n == *name(server));
        let mut preferred: Vec<usize> = window.servers.iter().copied().filter(|s| position(*s).is_some()).collect();
        preferred.sort_by_key(|server| position(*server));
        let named =
            |server: &usize| inquiry.ask.nodes.as_ref().is_none_or(|names| names.contains(&name(*server).into()));
        let mut at = before.len();
        for is_last in [false, true] {
            let asked = |server: &usize| named(server) && inquiry.last.contains(server) == is_last;
            let (preferred, others): (Vec<usize>, Vec<usize>) = (
                preferred.iter().copied().filter(asked).collect(),
                window.servers.iter().copied().filter(|s| position(*s).is_none() && asked(s)).collect(),
            );
            if at < preferred.len() {
                return assert_eq!(last.server, preferred[at], "in the order they were given");
            }
            at -= preferred.len();
            if at < others.len() {
                let place = (start.turn + at) % others.len();
                return window.promise_an_order(others.into_iter().collect(), place, last.server);
            }
            at -= others.len();
        }
        panic!("it asks more nodes than it may");
    }

    /// A request ends once, by its deadlines, as its answers say, and tells who answered what.
    pub(super) fn promise_an_end_is_true(&self, delivery: &Delivery<Backend>) {
        let inquiry = self.books.live.get(&delivery.request).expect("a request ends once, and only if it is there");
        let took = self.clock - inquiry.since;
        let hops = 1 + inquiry.asked.len() as u32;
        assert!(took <= (inquiry.reply + self.setting.late) * hops, "it took {took:?}: {inquiry:?}");
        match &delivery.outcome {
            Outcome::TimedOutInLine { after } => {
                assert!(
                    inquiry.started.is_none() && *after == took && took >= inquiry.reply,
                    "before its time is over"
                );
            }
            Outcome::Refused(refusal) => {
                let names = self.nodes.keys().map(|server| name(*server)).collect();
                assert_eq!(Some(refusal), super::books::refusal(&inquiry.ask, &names).as_ref());
            }
            Outcome::Closed => assert!(self.books.closed, "it is not closed"),
            outcome => assert!(inquiry.ends_as(outcome), "{outcome:?}, but {inquiry:?}"),
        }
        let told: Vec<(usize, Told)> =
            delivery.accounts.iter().map(|account| (number(&account.node), account.told)).collect();
        let (asked, rest) = told.split_at(inquiry.asked.len());
        for (account, asked) in asked.iter().zip(&inquiry.asked) {
            assert_eq!(*account, (asked.server, asked.told.unwrap_or(Told::Waiting)));
        }
        for (account, asked) in delivery.accounts.iter().zip(&inquiry.asked) {
            assert_eq!(account.sent, asked.ever_sent, "whether it may have been received");
        }
        assert_eq!(rest.len(), inquiry.unasked());
        assert!(rest.iter().all(|(_, told)| *told == Told::NotAsked));
    }

    /// After a cancel no window, socket, timer or line knows of the request.
    pub(super) fn promise_nobody_knows(&self, request: RequestId) {
        assert!(!self.books.live.contains_key(&request));
        let known: usize = self.machine.snapshot().windows.iter().map(|window| window.asking).sum();
        let live = self.books.live.values().filter(|inquiry| inquiry.started.is_some()).count();
        assert_eq!(known, live, "a window knows more or fewer than there are");
    }

    /// What nobody waits for changes nothing.
    pub(super) fn promise_strays_change_nothing(&mut self, say: impl FnOnce(&mut Machine<Backend, Tag>)) {
        if self.machine.next_timeout().is_some_and(|at| at < self.now()) {
            // Time itself changes something.
            return say(&mut self.machine);
        }
        let before = (self.machine.snapshot(), self.machine.next_timeout(), self.machine.footprint());
        say(&mut self.machine);
        assert_eq!((self.machine.snapshot(), self.machine.next_timeout(), self.machine.footprint()), before);
        assert_eq!((self.machine.poll_action(), self.machine.poll_delivery()), (None, None));
    }

    /// When the machine has been told the time, nothing is due.
    pub(super) fn promise_everything_due_is_done(&self) {
        let now = self.now();
        assert!(self.machine.next_timeout().is_none_or(|at| at > now), "something is still due");
        self.promise_no_deadline_is_long_past(Duration::ZERO);
    }

    pub(crate) fn promise_no_deadline_is_long_past(&self, by: Duration) {
        for (id, inquiry) in &self.books.live {
            let in_line = inquiry.started.is_none().then_some(inquiry.since + inquiry.reply);
            let asked = inquiry.asked.iter().filter(|asked| asked.told.is_none());
            let asked = asked.map(|asked| asked.hedge.map_or(asked.deadline, |hedge| hedge.min(asked.deadline)));
            let earliest = asked.chain(in_line).min().expect("it waits for something");
            assert!(earliest + by >= self.clock, "{id:?} should have ended {:?} ago", self.clock - earliest);
        }
    }

    /// Without requests there are no sockets, no windows, no timers, nothing.
    pub(crate) fn promise_nothing_is_left(&self) {
        assert!(self.books.live.is_empty(), "{:?}", self.books.live);
        assert!(self.books.sockets.is_empty(), "{:?}", self.books.sockets);
        assert!(self.books.windows.is_empty(), "{:?}", self.books.windows);
        assert_eq!((self.machine.footprint(), self.machine.next_timeout()), (0, None));
    }
}

impl super::books::Window {
    /// This server has this place among these: always, and nothing else is known that contradicts it.
    fn promise_an_order(&mut self, of: BTreeSet<usize>, place: usize, server: usize) {
        assert!(of.contains(&server), "{server} is asked too early or too late: it is the turn of {of:?}");
        let known = *self.order.entry((of.clone(), place)).or_insert(server);
        assert_eq!(known, server, "in the order of the window");
        for ((_, at), other) in self.order.iter().filter(|((among, at), _)| *among == of && *at != place) {
            let (one, two) = if *at < place { (*other, server) } else { (server, *other) };
            assert!(one != two && !self.before.contains(&(two, one)), "the window has no order");
            self.before.insert((one, two));
        }
    }
}
