//! Opening: how lines come by their connections, and what happens when they lose them.

use super::entries::Home;
use super::lines::{ConnectionId, LineState, Up, Write};
use super::told::{Action, End, Milestone};
use super::topic::Instrument;
use super::{Machine, State};
use crate::recovery::{Policy, Tries};
use std::time::{Duration, Instant};

impl Machine {
    /// A connection is open. A driver that is told too late that nobody wants it any more ends it all the same.
    pub fn handle_opened(&mut self, now: Instant, connection: ConnectionId) {
        let Some(line) = self.line_of(connection) else { return };
        let LineState::Opening { tries, .. } = &self.lines[line].state else { return };
        let failures = tries.failures(self.policy(line));
        let found = &mut self.lines[line];
        found.state = LineState::Up(Up::new(connection, now, failures));
        found.worked = true;
        let topics = found.homes.len();
        if std::mem::take(&mut found.lost) {
            self.tell(Milestone::Reopened { connection: line + 1, topics });
        }
        // Another connection may want what the one before did not.
        for id in self.lines[line].homes.iter().copied().collect::<Vec<_>>() {
            self.forget_refusal(id);
            self.compare(line, id);
        }
        self.finish(now);
    }

    /// A connection has ended, or the attempt to open one has: by itself, or because it was told to.
    pub fn handle_ended(&mut self, now: Instant, connection: ConnectionId, end: End) {
        let Some(line) = self.line_of(connection) else { return };
        let policy = self.policy(line).clone();
        let before = self.lose(now, line);
        let topics = self.lines[line].homes.len();
        if let (LineState::Up(_), 1..) = (&before, topics) {
            self.tell(Milestone::Lost { connection: line + 1, topics });
        }
        let latest = connection.0 >= self.renewed;
        if latest && (end, self.state) == (End::Credential, State::Running) {
            self.bar();
        }
        if topics > 0 {
            self.lines[line].lost = true;
            match before {
                LineState::Opening { tries, .. } => self.attempt_failed(now, line, tries, &policy),
                LineState::Up(up) => self.reopen(now, line, &up, &policy),
                LineState::Closing { .. } => self.open_anew(line),
                LineState::Vacant | LineState::Waiting { .. } => {}
            }
        }
        self.finish(now);
    }

    /// A connection said something; the line it is on, if it is up. See [`admit`](Machine::admit).
    pub fn handle_heard(&mut self, now: Instant, connection: ConnectionId) -> Option<usize> {
        let line = self.line_of(connection)?;
        self.lines[line].up_mut()?.heard = now;
        Some(line)
    }

    /// Whether a tick of this instrument counts that came on this line: it is wanted, and this is where it is carried. What is
    /// on its way from one line to another comes from both for a moment.
    pub fn admit(&mut self, now: Instant, line: usize, instrument: &Instrument) -> bool {
        let Some(id) = self.ids.get(instrument) else { return false };
        let Some(entry) = self.entries.get_mut(id).filter(|entry| entry.home.source() == Some(line)) else {
            return false;
        };
        entry.last_tick = Some(now);
        true
    }

    /// Opens a connection, with all attempts before it.
    pub(super) fn open_anew(&mut self, line: usize) {
        let tries = Tries::new(self.policy(line));
        self.open(line, tries);
    }

    /// What is due on a line.
    pub(super) fn line_due(&mut self, now: Instant, line: usize) {
        let stalled = match &self.lines[line].state {
            LineState::Vacant | LineState::Opening { .. } | LineState::Closing { .. } => return,
            LineState::Waiting { until, tries } if until.is_some_and(|until| until <= now) => {
                let tries = tries.clone();
                return self.open(line, tries);
            }
            LineState::Waiting { .. } => return,
            LineState::Up(up) => {
                let silent = self.options.stall_after.is_some_and(|stall_after| up.heard + stall_after <= now);
                let hangs = match &up.write {
                    Write::Ready { .. } => false,
                    Write::Busy { since, .. } => *since + self.options.write_timeout <= now,
                };
                silent || hangs
            }
        };
        if stalled {
            let topics = self.lines[line].homes.len();
            self.tell(Milestone::Stalled { connection: line + 1, topics });
            self.start_closing(now, line);
        }
    }

    /// Tells a connection, or the attempt to open it, to end.
    pub(super) fn start_closing(&mut self, now: Instant, line: usize) {
        let Some(connection) = self.lines[line].connection() else { return };
        if matches!(self.lines[line].state, LineState::Closing { .. }) {
            return;
        }
        self.lose(now, line);
        self.lines[line].state = LineState::Closing { connection };
        self.actions.push_back(Action::Close(connection));
    }

    pub(super) fn policy(&self, line: usize) -> &Policy {
        self.options.recovery.for_connect(self.lines[line].worked)
    }

    fn open(&mut self, line: usize, tries: Tries) {
        self.lines[line].state = match self.state {
            State::Running => {
                let connection = ConnectionId(self.next_connection);
                self.next_connection += 1;
                self.actions.push_back(Action::Open { connection, timeout: tries.timeout() });
                LineState::Opening { connection, tries }
            }
            State::Refused => LineState::Waiting { tries, until: None },
            State::Stopping | State::Stopped => LineState::Vacant,
        };
    }

    fn attempt_failed(&mut self, now: Instant, line: usize, mut tries: Tries, policy: &Policy) {
        match tries.fail(policy, &mut self.random) {
            Some(delay) => self.wait(now, line, tries, delay),
            None => {
                let delay = policy.watch_delay(&mut self.random);
                self.wait(now, line, Tries::watching(policy), delay);
            }
        }
    }

    fn reopen(&mut self, now: Instant, line: usize, up: &Up, policy: &Policy) {
        if now.saturating_duration_since(up.since) >= policy.shortest_life() {
            return self.open_anew(line);
        }
        // One that ends as soon as it is there is as good as none: it is not opened again in a tight loop.
        let delay = policy.delay_after(up.failures, &mut self.random);
        self.wait(now, line, Tries::resumed(policy, up.failures + 1), delay);
    }

    fn wait(&mut self, now: Instant, line: usize, tries: Tries, delay: Duration) {
        let until = match self.state {
            State::Running | State::Stopping | State::Stopped => Some(now + delay),
            State::Refused => None,
        };
        self.lines[line].state = LineState::Waiting { tries, until };
    }

    /// The upstream refuses the credential: nothing more is opened, and whoever waits for that is told.
    fn bar(&mut self) {
        self.state = State::Refused;
        self.tell(Milestone::CredentialRefused);
        for line in &mut self.lines {
            if let LineState::Waiting { until, .. } = &mut line.state {
                *until = None;
            }
        }
        let waiting = |(waiter, found): (&super::WaiterId, &super::Waiter)| {
            let home = self.entries[&found.entry].home.line();
            home.is_some_and(|line| !self.lines[line].is_up()).then_some(*waiter)
        };
        for waiter in self.waiters.iter().filter_map(waiting).collect::<Vec<_>>() {
            self.is_pending(waiter);
        }
    }

    /// A line is without its connection, and what that carried is not carried any more. What was on its way to it stays where it
    /// was, and what was on its way from it is awaited at its new home. What the line was doing.
    fn lose(&mut self, now: Instant, line: usize) -> LineState {
        let before = std::mem::replace(&mut self.lines[line].state, LineState::Vacant);
        let found = &self.lines[line];
        let mut touched: Vec<_> = found.homes.iter().chain(&found.departing).copied().collect();
        if let LineState::Up(up) = &before {
            touched.extend(up.streams.keys().copied());
        }
        for id in touched {
            if let Some(Home::Moving { to, from }) = self.entries.get(&id).map(|entry| entry.home) {
                let stays = if to == line { from } else { to };
                self.rehome(now, id, Home::At(stays));
            }
            self.settle(now, id);
        }
        before
    }

    fn line_of(&self, connection: ConnectionId) -> Option<usize> {
        self.lines.iter().position(|line| line.connection() == Some(connection))
    }
}
