//! What is on the screen and where one stands: the view, the connection it came by, and what the keys have chosen.

use super::line::{Line, Tone};
use super::rows::{self, Key, List, Order};
use super::sight::{Sight, span};
use crate::admin::view::View;
use crate::timestamp::Timestamp;
use std::time::{Duration, Instant};

/// Of things of which there may be many, so many are in the list; a page has all.
const LISTED: usize = 3;
/// For how long it is told that the program was started anew.
const RESTART_SHOWN: Duration = Duration::from_secs(60);

/// All of it.
pub(super) struct Model {
    /// Where it comes from, for people.
    address: String,
    latest: Seen,
    /// What is shown instead, while it stands still.
    paused: Option<(Seen, Instant)>,
    /// Why there is no connection, and since when.
    lost: Option<(String, Instant)>,
    restarted: Option<Instant>,
    /// What there is to say of how views come by, if it is not as usual.
    pub(super) note: Option<&'static str>,
    pub(super) order: Order,
    pub(super) filter: String,
    pub(super) place: Place,
    /// Where one stands in the list, and how far down that was.
    pub(super) selected: Option<Key>,
    pub(super) index: usize,
    /// The first line of the list that is shown.
    pub(super) scroll: usize,
    /// So many lines there were room for; what a page is.
    pub(super) height: usize,
}

/// A view, and when it came.
#[derive(Clone)]
struct Seen {
    view: View,
    at: Instant,
}

/// What the keys are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    List,
    /// The filter is being typed.
    Filter,
    Page {
        key: Key,
        scroll: usize,
    },
    Help {
        scroll: usize,
    },
}

impl Model {
    pub(super) fn new(address: String, view: View, now: Instant) -> Model {
        Model {
            address,
            latest: Seen { view, at: now },
            paused: None,
            lost: None,
            restarted: None,
            note: None,
            order: Order::default(),
            filter: String::new(),
            place: Place::List,
            selected: None,
            index: 0,
            scroll: 0,
            height: 1,
        }
    }

    /// Another view has come, and with it the connection is there.
    pub(super) fn take(&mut self, view: View, now: Instant) {
        if view.program.started_at_ms != self.latest.view.program.started_at_ms {
            self.restarted = Some(now);
        }
        self.lost = None;
        self.latest = Seen { view, at: now };
    }

    /// The connection is gone, or there is still none.
    pub(super) fn lose(&mut self, why: String, now: Instant) {
        let since = self.lost.as_ref().map_or(now, |(_, since)| *since);
        self.lost = Some((why, since));
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Lets it stand still, or go on.
    pub(super) fn pause(&mut self, now: Instant) {
        self.paused = match self.paused {
            Some(_) => None,
            None => Some((self.latest.clone(), now)),
        };
    }

    /// How it is looked at.
    pub(super) fn sight(&self, width: usize, now: Instant) -> Sight<'_> {
        let (seen, until) = match (&self.paused, &self.lost) {
            (Some((seen, since)), _) => (seen, *since),
            // What was to happen after that has not been seen to.
            (None, Some((_, since))) => (&self.latest, *since),
            (None, None) => (&self.latest, now),
        };
        let since_ms = until.saturating_duration_since(seen.at).as_millis() as u64;
        let most = if matches!(self.place, Place::Page { .. }) { usize::MAX } else { LISTED };
        Sight { view: &seen.view, since_ms, width, most, said: None }
    }

    pub(super) fn list(&self, width: usize, now: Instant) -> List {
        // The mark of where one stands goes before it.
        rows::list(self.sight(width.saturating_sub(2), now), &self.filter, self.order)
    }

    /// Who that is, how it is, and since when; below, where it is seen from and how fresh it is.
    pub(super) fn header(&self, now: Instant) -> [Line; 2] {
        let sight = self.sight(0, now);
        // Where there is room for one line alone, it is this one that says so.
        let first = if self.lost.is_some() { lost_title(sight) } else { title(sight) };
        [first, self.source(sight, now)]
    }

    fn source(&self, sight: Sight<'_>, now: Instant) -> Line {
        let as_of = time_of_day(sight.view.monitor.taken_at_ms);
        let mut line = Line::new();
        if let Some((why, since)) = &self.lost {
            let ago = span(now.saturating_duration_since(*since).as_millis() as u64);
            line.push(Tone::Bad, format_args!("connection lost {ago} ago, shown as of {as_of}: "));
            line.push(Tone::Plain, why);
            line.push(Tone::Dim, format_args!("  {}", self.address));
            return line;
        }
        if let Some((_, since)) = &self.paused {
            let ago = span(now.saturating_duration_since(*since).as_millis() as u64);
            line.push(Tone::Warn, format_args!("paused {ago} ago, shown as of {as_of}  "));
        }
        if let Some(at) = self.restarted.filter(|at| now.saturating_duration_since(*at) < RESTART_SHOWN) {
            let ago = span(now.saturating_duration_since(at).as_millis() as u64);
            line.push(Tone::Warn, format_args!("the program was started anew, seen {ago} ago  "));
        }
        line.push(Tone::Dim, format_args!("{}  {as_of}", self.address));
        if let Some(note) = self.note {
            line.push(Tone::Warn, format_args!("  {note}"));
        }
        line
    }
}

/// `carom up ok, up 3 h 02 m, on host, process 7, version 0.1.0`.
pub(super) fn title(sight: Sight<'_>) -> Line {
    let program = &sight.view.program;
    let age = sight.view.monitor.taken_at_ms.saturating_sub(program.started_at_ms);
    let (tone, status) = rows::status(sight.view.status);
    let line = Line::new().add(Tone::Title, &program.name).plain(' ').add(tone, status);
    identity(line.plain(format_args!(", up {}", sight.lasting(age))), sight)
}

/// `CONNECTION LOST, carom up was ok, on host, process 7, version 0.1.0`: how it is now, and for how long, nobody knows.
fn lost_title(sight: Sight<'_>) -> Line {
    let line = Line::new().add(Tone::Bad, "CONNECTION LOST").plain(", ").add(Tone::Title, &sight.view.program.name);
    identity(line.plain(" was ").plain(rows::status(sight.view.status).1), sight)
}

fn identity(line: Line, sight: Sight<'_>) -> Line {
    let program = &sight.view.program;
    let line = line.plain(", on ").plain(&program.host);
    line.add(Tone::Dim, format_args!(", process {}, version ", program.pid)).add(Tone::Dim, &program.version)
}

/// `12:03:11 UTC`; the day is known to whoever looks.
pub(super) fn time_of_day(milliseconds: u64) -> String {
    let moment = Timestamp::from_milliseconds(milliseconds).to_string();
    let time = moment.split_once('T').map_or("", |(_, time)| time);
    format!("{} UTC", time.get(..8).unwrap_or_default())
}
