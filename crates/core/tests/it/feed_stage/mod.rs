//! A feed machine on a stage: a clock that is moved by hand, and what the machine has asked for.

pub(crate) use crate::time::ms;
use carom_core::feed::{
    Action, Change, ConnectionId, End, Machine, Milestone, Mode, Options, Placement, Subscribed, Topic, WaiterId,
};
use carom_core::recovery::{Policy, Recovery};
use std::time::{Duration, Instant};

pub(crate) fn topic(number: usize, mode: Mode) -> Topic {
    Topic::new("NSE", format!("S{number}"), mode)
}

/// Two connections of two topics, written at once, without linger and overlap; exact delays of 100 ms.
pub(crate) fn small() -> Options {
    let policy =
        Policy::default().attempts(2).timeout(ms(1_000)).max_timeout(ms(1_000)).delay(ms(100)).max_delay(ms(1_000));
    Options {
        max_topics_per_connection: 2,
        max_connections: 2,
        linger: ms(0),
        overlap: ms(0),
        pace: ms(0),
        stall_after: None,
        recovery: Recovery::from(policy.spread(0.0)),
        ..Options::default()
    }
}

/// The machine, a clock that is moved by hand, and what it has asked for.
pub(crate) struct Stage {
    pub(crate) machine: Machine,
    pub(crate) now: Instant,
    pub(crate) opening: Vec<ConnectionId>,
    pub(crate) closing: Vec<ConnectionId>,
    pub(crate) writes: Vec<(ConnectionId, Vec<Change>)>,
    pub(crate) told: Vec<Milestone>,
    pub(crate) goodbyes: usize,
    /// The first connection that was opened, and the last.
    pub(crate) earliest: Option<ConnectionId>,
    pub(crate) latest: Option<ConnectionId>,
}

impl Stage {
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn new(options: Options) -> Stage {
        let machine = Machine::new(options, 1).unwrap();
        let now = Instant::now();
        let (opening, closing, writes, told) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Stage { machine, now, opening, closing, writes, told, goodbyes: 0, earliest: None, latest: None }
    }

    /// Sees what the machine wants, without letting time pass.
    pub(crate) fn go(&mut self) {
        while let Some(action) = self.machine.poll_action() {
            match action {
                Action::Open { connection, .. } => {
                    self.earliest.get_or_insert(connection);
                    self.latest = Some(connection);
                    self.opening.push(connection);
                }
                Action::Write { connection, changes } => self.writes.push((connection, changes)),
                Action::Close { connection, goodbye } => {
                    self.closing.push(connection);
                    self.goodbyes += usize::from(goodbye);
                }
                Action::Tell(milestone) => self.told.push(milestone),
            }
        }
        self.machine.check().unwrap();
    }

    /// Lets everything that was asked for succeed, until nothing is asked for.
    pub(crate) fn settle(&mut self) {
        self.go();
        while !(self.opening.is_empty() && self.writes.is_empty() && self.closing.is_empty()) {
            for connection in std::mem::take(&mut self.opening) {
                self.machine.handle_opened(self.now, connection);
            }
            for (connection, _) in std::mem::take(&mut self.writes) {
                self.machine.handle_written(self.now, connection, &[]);
            }
            for connection in std::mem::take(&mut self.closing) {
                self.machine.handle_ended(self.now, connection, End::Lost);
            }
            self.go();
        }
    }

    pub(crate) fn subscribe(&mut self, topic: &Topic) -> Subscribed {
        let subscribed = self.machine.subscribe(self.now, topic);
        self.go();
        subscribed
    }

    /// These topics, carried.
    pub(crate) fn carry(&mut self, numbers: impl IntoIterator<Item = usize>) {
        for number in numbers {
            self.subscribe(&topic(number, Mode::Quote));
        }
        self.settle();
        while self.machine.poll_delivery().is_some() {}
    }

    pub(crate) fn leave(&mut self, number: usize) {
        assert!(self.machine.unsubscribe(self.now, &topic(number, Mode::Quote)));
        self.go();
    }

    pub(crate) fn waits(&mut self, topic: &Topic) -> WaiterId {
        match self.subscribe(topic) {
            Subscribed::Waiting(waiter) => waiter,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn placed(&mut self, topic: &Topic) -> Placement {
        match self.subscribe(topic) {
            Subscribed::Placed(placement) => placement,
            other => panic!("{other:?}"),
        }
    }

    /// Lets time pass, wake by wake.
    pub(crate) fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(next) = self.machine.next_timeout().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.machine.handle_timeout(self.now);
            self.go();
        }
        self.now = until;
    }

    pub(crate) fn connection_of(&self, number: usize) -> usize {
        self.machine.glance_at(&topic(number, Mode::Quote).instrument).expect("it is there").connection
    }
}
