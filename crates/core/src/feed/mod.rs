//! The feed: many subscriptions packed onto few connections, each of which takes only so many.
//!
//! A feed has lines: places for connections, at most `max_connections` of them. Every instrument that somebody wants is at
//! home on one line, the first with room, and is streamed there at the highest level that anybody wants; lower levels ride
//! along. What a connection should carry and what it does carry are compared whenever either changes, and the difference
//! is written in batches. So there is one way to everything: a first subscription, an upgrade, a connection that died and
//! came back, a move to another line are all differences.
//!
//! A line whose connection ends keeps its topics and opens another at once. When that fails, or the connection had not lived
//! for long or has stalled, another is opened later, and later each time; its topics go to lines that are up and have room. Topics also move, each taken up at its new home before the old one lets go, when that
//! frees a whole connection. A connection without topics is released after a while.
//!
//! An upstream that refuses the credential is not tried again until [`Machine::resume`] is called. One that has accepted a topic and
//! says that it cannot carry it for now, since it has an upstream of its own, *withholds* it: the topic is pending until it is
//! carried.
//!
//! Beside the machine there are [`interest`], which says who gets a tick, and [`outbox`], in which ticks wait for a client.
//!
//! ```
//! use carom_core::feed::{Action, Change, Delivery, Machine, Mode, Options, Subscribed, Topic};
//! use std::time::Instant;
//!
//! # #[allow(clippy::disallowed_methods)]
//! let start = Instant::now();
//! let mut feed = Machine::new(Options::default(), 7).unwrap();
//! let topic = Topic::new("NSE", "SBIN", Mode::Quote);
//!
//! let Subscribed::Waiting(waiter) = feed.subscribe(start, &topic) else { panic!() };
//! let opened = std::iter::from_fn(|| feed.poll_action()).find_map(|action| match action {
//!     Action::Open { connection, .. } => Some(connection),
//!     Action::Write { .. } | Action::Close { .. } | Action::Tell(_) => None,
//! });
//! let connection = opened.unwrap();
//! feed.handle_opened(start, connection);
//!
//! // What is wanted and what is there differ by one topic.
//! let written = std::iter::from_fn(|| feed.poll_action()).find_map(|action| match action {
//!     Action::Write { changes, .. } => Some(changes),
//!     Action::Open { .. } | Action::Close { .. } | Action::Tell(_) => None,
//! });
//! assert_eq!(written.unwrap(), [Change { instrument: topic.instrument.clone(), from: None, to: Some(topic.level) }]);
//! feed.handle_written(start, connection, &[]);
//! let Some(Delivery::Placed { placement, .. }) = feed.poll_delivery() else { panic!() };
//! assert_eq!((placement.connection, placement.on_connection), (1, 1));
//! ```

mod entries;
pub mod interest;
pub mod lease;
mod lines;
mod moving;
mod opening;
mod options;
pub mod outbox;
mod snapshot;
mod subscribing;
mod told;
mod topic;
mod wants;
mod withheld;
mod writing;

pub use lines::ConnectionId;
pub use options::Options;
pub use snapshot::{ConnectionGlance, ConnectionState, Counters, Peak, Snapshot, Standing, TopicGlance};
pub use told::{Action, Change, Delivery, End, Milestone, Pending, Placement, Refusal, Subscribed, WaiterId};
pub use topic::{DEFAULT_DEPTH, Instrument, Level, Mode, Topic};

use crate::options::OptionsError;
use crate::random::Random;
use entries::{Entry, EntryId, Waiter};
use lines::{Line, LineState};
use opening::Parting;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

/// Where a feed is.
///
/// ```text
///            the upstream refuses the credential
///  Running -------------------------------------> Refused
///    |  ^                                            | |
///    |  +-------------------- resume ----------------+ |
///    +------------------------+------------------------+
///                             v
///                          Stopping ----> Stopped
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Connections are opened as they are needed.
    Running,
    /// The credential was refused: no connection is opened until somebody says to go on. Those that are up stay.
    Refused,
    /// No new topics; what is subscribed is given up upstream, and connections end.
    Stopping,
    /// Nothing is left.
    Stopped,
}

/// What is to be done at a certain time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// Somebody has waited long enough to be told that its topic is pending.
    Waiter(WaiterId),
    /// Something of an instrument has lingered.
    Linger(EntryId),
    /// What moves has been carried at its new home for long enough.
    Arrival(EntryId),
    /// What was refused may be tried again.
    Retry(EntryId),
}

/// The machine behind a feed.
#[derive(Debug)]
pub struct Machine {
    options: Options,
    random: Random,
    state: State,
    entries: BTreeMap<EntryId, Entry>,
    ids: BTreeMap<Instrument, EntryId>,
    next_entry: u64,
    lines: Vec<Line>,
    next_connection: u64,
    /// The first connection with the latest credential.
    renewed: u64,
    waiters: BTreeMap<WaiterId, Waiter>,
    next_waiter: u64,
    agenda: BTreeSet<(Instant, Due)>,
    /// Those that nobody wants and that only linger, the first to go first.
    lingering: BTreeSet<(Instant, EntryId)>,
    /// How many are carried as they are wanted.
    live: usize,
    /// How many are accepted, and cannot be carried for now.
    withheld: usize,
    look_at: Option<Instant>,
    /// A connection was found without topics for long enough: it is released unless it gets one before the driver comes back.
    release_at: Option<Instant>,
    compact_at: Option<Instant>,
    /// Until then topics stay where they are though they could move: more of them may be about to go.
    moves_at: Option<Instant>,
    peak: Peak,
    counters: Counters,
    actions: VecDeque<Action>,
    deliveries: VecDeque<Delivery>,
}

impl Machine {
    /// A feed without topics. The same seed gives the same run.
    ///
    /// # Errors
    /// When an option makes no sense.
    pub fn new(options: Options, seed: u64) -> Result<Machine, OptionsError> {
        options.validate()?;
        let created = Milestone::Created {
            max_topics_per_connection: options.max_topics_per_connection,
            max_connections: options.max_connections,
            capacity: options.capacity(),
        };
        Ok(Machine {
            options,
            random: Random::new(seed),
            state: State::Running,
            entries: BTreeMap::new(),
            ids: BTreeMap::new(),
            next_entry: 0,
            lines: Vec::new(),
            next_connection: 0,
            renewed: 0,
            waiters: BTreeMap::new(),
            next_waiter: 0,
            agenda: BTreeSet::new(),
            lingering: BTreeSet::new(),
            live: 0,
            withheld: 0,
            look_at: None,
            release_at: None,
            compact_at: None,
            moves_at: None,
            peak: Peak::default(),
            counters: Counters::default(),
            actions: VecDeque::from([Action::Tell(created)]),
            deliveries: VecDeque::new(),
        })
    }

    /// Where it is.
    pub fn state(&self) -> State {
        self.state
    }

    /// What it was told.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What is to be done next; ask until there is nothing.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What a waiter gets; ask until there is nothing.
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }

    /// When [`handle_timeout`](Machine::handle_timeout) wants to be called, at the latest.
    pub fn next_timeout(&self) -> Option<Instant> {
        let agenda = self.agenda.first().map(|(at, _)| *at);
        let lines = self.lines.iter().filter_map(|line| line.next_timeout(&self.options)).min();
        [agenda, lines, self.look_at, self.release_at, self.compact_at, self.moves_at].into_iter().flatten().min()
    }

    /// Time has passed: does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        // What a look found is released before the next look, so that a topic can come between the two.
        self.release_unused(now);
        self.look(now);
        while let Some((at, due)) = self.agenda.first().copied().filter(|(at, _)| *at <= now) {
            self.agenda.remove(&(at, due));
            match due {
                Due::Waiter(waiter) => self.is_pending(waiter),
                Due::Linger(id) => self.lingered(now, id),
                Due::Arrival(id) => self.arrived(now, id),
                Due::Retry(id) => self.retry(now, id),
            }
        }
        for line in 0..self.lines.len() {
            self.line_due(now, line);
        }
        self.compact(now);
        self.finish(now);
    }

    /// Something has changed that may help: lines that wait to be opened again are opened at once.
    pub fn hurry(&mut self, now: Instant) {
        match self.state {
            State::Running => {}
            State::Refused | State::Stopping | State::Stopped => return,
        }
        self.open_waiting();
        self.finish(now);
    }

    /// A new credential is at hand: connections are opened again. What is said of attempts that began before says nothing of it.
    pub fn resume(&mut self, now: Instant) {
        match self.state {
            State::Refused => self.renewed = self.next_connection,
            State::Running => return self.renewed = self.next_connection,
            State::Stopping | State::Stopped => return,
        }
        self.state = State::Running;
        self.tell(Milestone::Resumed);
        for line in &mut self.lines {
            line.setback = None;
        }
        self.open_waiting();
        self.finish(now);
    }

    fn open_waiting(&mut self) {
        for line in 0..self.lines.len() {
            if matches!(self.lines[line].state, LineState::Waiting { .. }) {
                self.open(line);
            }
        }
    }

    /// No new topics. Whoever waits is refused; what is subscribed is given up upstream, and then the connections end.
    pub fn close(&mut self, now: Instant) {
        match self.state {
            State::Running | State::Refused => {}
            State::Stopping | State::Stopped => return,
        }
        self.state = State::Stopping;
        (self.look_at, self.release_at, self.compact_at, self.moves_at) = (None, None, None, None);
        self.give_up_everything(now, &Refusal::Closed);
        for line in 0..self.lines.len() {
            match &self.lines[line].state {
                LineState::Waiting { .. } => self.lines[line].state = LineState::Vacant,
                LineState::Opening { .. } => self.start_closing(now, line, Parting::Orderly),
                LineState::Vacant | LineState::Up(_) | LineState::Closing { .. } => {}
            }
        }
        self.finish(now);
    }

    /// Ends what is left at once, whatever is still subscribed: nobody waits for it any longer. How many topics were.
    pub fn abandon(&mut self, now: Instant) -> usize {
        self.close(now);
        let mut left = 0;
        for line in 0..self.lines.len() {
            if let LineState::Up(up) = &self.lines[line].state {
                left += up.streams.len();
                self.start_closing(now, line, Parting::Cut);
            }
            self.lines[line].state = LineState::Vacant;
        }
        self.entries.clear();
        self.ids.clear();
        self.agenda.clear();
        self.lingering.clear();
        (self.live, self.withheld) = (0, 0);
        self.stop_when_empty();
        left
    }

    /// After every verb: what differs is written, what is over is closed, what could be better is noted.
    fn finish(&mut self, now: Instant) {
        self.rescue(now);
        for line in 0..self.lines.len() {
            self.pump(now, line);
        }
        match self.state {
            State::Running | State::Refused => {
                self.note_peak();
                self.start_looking(now);
                self.consider_compaction(now);
            }
            State::Stopping => {
                for line in 0..self.lines.len() {
                    if self.lines[line].is_drained() {
                        self.start_closing(now, line, Parting::Orderly);
                    }
                }
                self.stop_when_empty();
            }
            State::Stopped => {}
        }
    }

    fn stop_when_empty(&mut self) {
        if self.state == State::Stopping && self.connections() == 0 {
            self.state = State::Stopped;
            self.tell(Milestone::Closed { peak: self.peak.clone() });
        }
    }

    fn tell(&mut self, milestone: Milestone) {
        self.actions.push_back(Action::Tell(milestone));
    }

    /// Connections that are up, or that are being opened, waited for or closed.
    pub fn connections(&self) -> usize {
        self.lines.iter().filter(|line| !matches!(line.state, LineState::Vacant)).count()
    }

    /// Topics that are at home somewhere: distinct instruments, those that only linger among them.
    pub fn topics(&self) -> usize {
        self.lines.iter().map(|line| line.homes.len()).sum()
    }
}
