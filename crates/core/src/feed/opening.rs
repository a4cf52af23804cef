//! Opening: how lines come by their connections, and what happens when they lose them.

use super::entries::Home;
use super::lines::{ConnectionId, LineState, Setback, Up, Write};
use super::told::{Action, End, Milestone};
use super::topic::Instrument;
use super::{Machine, State};
use crate::recovery::Policy;
use std::time::{Duration, Instant};

/// A connection that has lived for so long has lived for long enough, however long the delays of its policy.
const LONG_LIFE: Duration = Duration::from_secs(60);

/// How a connection is told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parting {
    /// It works, and nobody needs it.
    Orderly,
    /// It does not work any more.
    GivenUp,
    /// Nobody waits for it any longer.
    Cut,
}

/// What can go wrong with a connection.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// It could not be opened.
    Unopened,
    /// It could not be opened, as there was no credential to present.
    Uncredentialed,
    /// It ended soon after, or fell silent.
    ShortLived,
}

impl Machine {
    /// A connection is open. A driver that is told too late that nobody wants it any more ends it all the same.
    pub fn handle_opened(&mut self, now: Instant, connection: ConnectionId) {
        let Some(line) = self.line_of(connection) else { return };
        let LineState::Opening { .. } = &self.lines[line].state else { return };
        self.counters.opened += 1;
        let found = &mut self.lines[line];
        found.state = LineState::Up(Up::new(connection, now));
        found.worked = true;
        if let Some(setback) = &mut found.setback {
            (setback.unopened, setback.uncredentialed) = (false, false);
        }
        let topics = found.homes.len();
        if std::mem::take(&mut found.lost) {
            self.tell(Milestone::Reopened { connection: line + 1, topics });
        }
        // Another connection may want what the one before did not.
        for id in self.lines[line].homes.iter().copied().collect::<Vec<_>>() {
            self.ask_again(id);
            self.compare(line, id);
        }
        self.finish(now);
    }

    /// A connection has ended, or the attempt to open one has: by itself, or because it was told to.
    pub fn handle_ended(&mut self, now: Instant, connection: ConnectionId, end: End) {
        let Some(line) = self.line_of(connection) else { return };
        let before = self.lose(now, line);
        let topics = self.lines[line].homes.len();
        // It may be forgiven below, but it was not when this one was opened.
        let failed_before = self.lines[line].setback.is_some();
        match before {
            LineState::Opening { .. } => {
                self.counters.connect_failures += 1;
                let trouble = match end {
                    End::NoCredential => Trouble::Uncredentialed,
                    End::Lost | End::Credential => Trouble::Unopened,
                };
                self.set_back(now, line, trouble);
            }
            LineState::Up(up) => {
                self.counters.lost += 1;
                self.lines[line].lost = topics > 0;
                let settled = self.lived_long(line, up.since, now);
                if !settled {
                    self.set_back(now, line, Trouble::ShortLived);
                }
                if topics > 0 {
                    self.tell(Milestone::Lost { connection: line + 1, topics, again: failed_before && !settled });
                }
            }
            LineState::Vacant | LineState::Waiting { .. } | LineState::Closing { .. } => {}
        }
        let latest = connection.0 >= self.renewed;
        if latest && (end, self.state) == (End::Credential, State::Running) {
            self.bar();
        }
        if topics > 0 {
            self.need(now, line);
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
        self.counters.ticks += 1;
        true
    }

    /// A line needs a connection: it is opened at once, or when the last one has failed just now, after a while.
    pub(super) fn need(&mut self, now: Instant, line: usize) {
        let longest = self.policy(line).longest_delay();
        let setback = self.lines[line].setback.filter(|setback| now < setback.until + longest);
        self.lines[line].setback = setback;
        match setback {
            Some(Setback { until, .. }) if until > now => self.wait(line, until),
            Some(_) | None => self.open(line),
        }
    }

    /// Opens a connection.
    pub(super) fn open(&mut self, line: usize) {
        self.lines[line].state = match self.state {
            State::Running => {
                let connection = ConnectionId(self.next_connection);
                self.next_connection += 1;
                self.counters.connects += 1;
                let failures = self.lines[line].setback.map_or(0, |setback| setback.failures);
                let timeout = self.policy(line).timeout_after(failures);
                self.actions.push_back(Action::Open { connection, timeout });
                LineState::Opening { connection }
            }
            State::Refused => LineState::Waiting { until: None },
            State::Stopping | State::Stopped => LineState::Vacant,
        };
    }

    /// What is due on a line.
    pub(super) fn line_due(&mut self, now: Instant, line: usize) {
        let stalled = match &self.lines[line].state {
            LineState::Vacant | LineState::Opening { .. } | LineState::Closing { .. } => return,
            LineState::Waiting { until } if until.is_some_and(|until| until <= now) => return self.open(line),
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
            self.give_up(now, line);
        }
    }

    /// A connection has stalled: it gets no goodbye, and its topics do not wait for its end.
    fn give_up(&mut self, now: Instant, line: usize) {
        let topics = self.lines[line].homes.len();
        self.counters.lost += 1;
        let failed_before = self.lines[line].setback.is_some();
        // It lived for as long as it said something.
        let lived = self.lines[line].up().map(|up| (up.since, up.heard));
        let settled = lived.is_some_and(|(since, heard)| self.lived_long(line, since, heard));
        self.tell(Milestone::Stalled { connection: line + 1, topics, again: failed_before && !settled });
        self.set_back(now, line, Trouble::ShortLived);
        self.start_closing(now, line, Parting::GivenUp);
        self.lines[line].lost = topics > 0;
    }

    /// Tells a connection, or the attempt to open it, to end.
    pub(super) fn start_closing(&mut self, now: Instant, line: usize, parting: Parting) {
        let Some(connection) = self.lines[line].connection() else { return };
        if matches!(self.lines[line].state, LineState::Closing { .. }) {
            return;
        }
        let (given_up, goodbye) = (parting == Parting::GivenUp, parting == Parting::Orderly);
        if let (LineState::Up(up), true) = (self.lose(now, line), goodbye) {
            self.lived_long(line, up.since, now);
        }
        self.lines[line].state = LineState::Closing { connection, given_up };
        self.actions.push_back(Action::Close { connection, goodbye });
    }

    pub(super) fn policy(&self, line: usize) -> &Policy {
        self.options.recovery.for_connect(self.lines[line].worked)
    }

    /// Something went wrong on a line: the next connection is opened after a delay, and a longer one each time.
    fn set_back(&mut self, now: Instant, line: usize, trouble: Trouble) {
        let failures = self.lines[line].setback.map_or(0, |setback| setback.failures).saturating_add(1);
        let policy = self.options.recovery.for_connect(self.lines[line].worked);
        let doubled = policy.delay_after(failures, &mut self.random);
        let delay = match trouble {
            Trouble::Unopened | Trouble::Uncredentialed if policy.is_used_up_by(failures) => {
                policy.watch_delay(&mut self.random)
            }
            Trouble::Unopened | Trouble::Uncredentialed | Trouble::ShortLived => doubled,
        };
        let (unopened, uncredentialed) = match trouble {
            Trouble::Unopened => (true, false),
            Trouble::Uncredentialed => (true, true),
            Trouble::ShortLived => (false, false),
        };
        self.lines[line].setback = Some(Setback { failures, until: now + delay, unopened, uncredentialed });
    }

    /// Whether a connection that lived from then to then did so for long enough. Then all is forgiven.
    fn lived_long(&mut self, line: usize, since: Instant, until: Instant) -> bool {
        let enough = self.policy(line).longest_delay().min(LONG_LIFE);
        let long = until.saturating_duration_since(since) >= enough;
        if long {
            self.lines[line].setback = None;
            self.counters.settled += 1;
        }
        long
    }

    fn wait(&mut self, line: usize, until: Instant) {
        self.lines[line].state = match self.state {
            State::Running => LineState::Waiting { until: Some(until) },
            State::Refused => LineState::Waiting { until: None },
            State::Stopping | State::Stopped => LineState::Vacant,
        };
    }

    /// The upstream refuses the credential: nothing more is opened, and whoever waits for that is told.
    fn bar(&mut self) {
        self.state = State::Refused;
        self.tell(Milestone::CredentialRefused);
        for line in &mut self.lines {
            if let LineState::Waiting { until } = &mut line.state {
                *until = None;
            }
        }
        let waiting = |(waiter, found): (&super::WaiterId, &super::Waiter)| {
            let home = self.entries.get(&found.entry).and_then(|entry| entry.home.line());
            home.is_none_or(|line| !self.lines[line].is_up()).then_some(*waiter)
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
            // What moves may be on another connection, which says so still.
            if !self.lines.iter().any(|line| line.has_stream(id)) {
                self.withhold(id, None);
            }
            if let Some(Home::Moving { to, from, .. }) = self.entries.get(&id).map(|entry| entry.home) {
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
