//! What is shown of an object: some lines in the list, and everything on a page of its own.

mod backend;
mod feed;
mod gateway;
mod pool;
mod resolver;
mod set;
mod window;

use super::line::{Line, Tone};
use super::sight::{Sight, count, highest, number, short, spark};
use carom::monitor::{Id, Object, Seen, State};
use std::fmt::Display;

/// How much somebody should look at it; the most urgent is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    Fine,
    /// It goes on, but not as it should.
    Strained,
    /// Some of it does not work.
    Impaired,
    /// None of it works.
    Failed,
}

/// Something to say beside a name.
pub(super) type Fact = (Tone, String);

/// What can be shown.
trait Show {
    fn state(&self) -> State;

    /// Beside where it is in its life.
    fn urgency(&self) -> Urgency {
        Urgency::Fine
    }

    /// In the line of its name, the most important first.
    fn facts(&self, _sight: Sight<'_>) -> Vec<Fact> {
        Vec::new()
    }

    /// Below its name in the list.
    fn below(&self, _id: Id, _sight: Sight<'_>) -> Vec<Line> {
        Vec::new()
    }

    /// On its page, below that.
    fn page(&self, _id: Id, _sight: Sight<'_>) -> Vec<Line> {
        Vec::new()
    }

    /// What it can be found by, beside its name.
    fn words(&self) -> Vec<&str> {
        Vec::new()
    }
}

fn show(object: &Object) -> (&'static str, &dyn Show) {
    match object {
        Object::Pool(pool) => ("pool", pool),
        Object::Set(set) => ("set", set),
        Object::Resolver(resolver) => ("resolver", resolver),
        Object::Window(window) => ("window", window),
        Object::Feed(feed) => ("feed", feed),
        Object::Gateway(gateway) => ("gateway", gateway),
        _ => ("object", &Unknown),
    }
}

pub(super) fn urgency(seen: &Seen) -> Urgency {
    let shown = show(&seen.object).1;
    shown.urgency().max(match shown.state() {
        State::Failed | State::Refused => Urgency::Failed,
        State::Starting | State::Stopping => Urgency::Strained,
        _ => Urgency::Fine,
    })
}

/// Whether it has this in its name, its kind, or among what it can be found by; in lower case.
pub(super) fn has(seen: &Seen, text: &str) -> bool {
    let (kind, shown) = show(&seen.object);
    let has = |word: &str| word.to_lowercase().contains(text);
    has(&seen.name) || has(kind) || shown.words().into_iter().any(has)
}

/// Its lines in the list, at this indent.
pub(super) fn summary(seen: &Seen, sight: Sight<'_>, indent: usize) -> Vec<Line> {
    let (kind, shown) = show(&seen.object);
    let mut lines = vec![headline(&seen.name, kind, state(shown.state()), &shown.facts(sight), sight, indent)];
    lines.extend(shown.below(seen.id, sight).into_iter().map(|line| Line::indented(indent + 2).then(line)));
    lines
}

/// All there is to it.
pub(super) fn page(seen: &Seen, sight: Sight<'_>) -> Vec<Line> {
    let (kind, shown) = show(&seen.object);
    let (tone, state) = state(shown.state());
    let mut lines = vec![
        Line::new().add(Tone::Title, &seen.name).plain(format_args!("  {kind} {}  ", seen.id)).add(tone, state),
        told(&shown.facts(sight)),
        Line::new(),
    ];
    lines.extend(shown.page(seen.id, sight));
    lines
}

/// A name, what it is, how it is, and what there is to say of it.
pub(super) fn headline(
    name: &str,
    kind: &str,
    (tone, state): (Tone, &str),
    facts: &[Fact],
    sight: Sight<'_>,
    indent: usize,
) -> Line {
    let column = (sight.width * 3 / 10).clamp(8, 24);
    let line = Line::indented(indent).add(Tone::Title, name).cut(column).padded_to(column + 1);
    line.add(Tone::Dim, format_args!("{kind:<8} ")).add(tone, format_args!("{state:<8} ")).then(told(facts))
}

fn told(facts: &[Fact]) -> Line {
    let mut line = Line::new();
    for (at, (tone, text)) in facts.iter().enumerate() {
        if at > 0 {
            line.push(Tone::Plain, "  ");
        }
        line.push(*tone, text);
    }
    line
}

fn state(state: State) -> (Tone, &'static str) {
    match state {
        State::Starting => (Tone::Warn, "starting"),
        State::Running => (Tone::Good, "running"),
        State::Failed => (Tone::Bad, "FAILED"),
        State::Refused => (Tone::Bad, "REFUSED"),
        State::Stopping => (Tone::Dim, "stopping"),
        State::Stopped => (Tone::Dim, "stopped"),
        _ => (Tone::Plain, "other"),
    }
}

/// A line of a page: what it is, and how much or who.
fn pair(label: &str, value: impl Display) -> Line {
    toned(label, Tone::Plain, value)
}

fn toned(label: &str, tone: Tone, value: impl Display) -> Line {
    Line::indented(2).add(Tone::Dim, label).padded_to(20).add(tone, value)
}

fn heading(text: impl Display) -> Line {
    Line::new().add(Tone::Title, text)
}

/// A fact that is told when there is anything to it.
fn if_any(facts: &mut Vec<Fact>, tone: Tone, of: usize, what: &str) {
    if of > 0 {
        facts.push((tone, format!("{} {what}", number(of as u64))));
    }
}

/// How long claims have waited of late, as it rose and fell; with a value in words.
fn waits(id: Id, sight: Sight<'_>) -> Option<Line> {
    let waits = &sight.history(id)?.wait_ms;
    let latest = waits.last()?;
    let line = Line::new().add(Tone::Dim, "wait ").plain(spark(waits, 20));
    let words = format!(" {}, at most {}", wait(*latest), wait(highest(waits)));
    Some(line.add(Tone::Dim, words))
}

/// A wait, if anybody was served who could have waited.
fn wait(ms: Option<f32>) -> String {
    ms.map_or_else(|| "-".to_owned(), |ms| short(f64::from(ms)))
}

/// What a page says of how it was of late.
fn lately(id: Id, sight: Sight<'_>) -> Vec<Line> {
    let Some(history) = sight.history(id) else { return Vec::new() };
    let room = sight.width.saturating_sub(36).clamp(10, 120);
    let row = |label: &str, values: &[Option<f32>], told: fn(f32) -> String| {
        let latest = values.last()?.map_or_else(|| "-".to_owned(), told);
        Some(pair(label, spark(values, room)).plain(' ').add(Tone::Dim, latest))
    };
    let rows = [
        row("wait", &history.wait_ms, |ms| wait(Some(ms))),
        row("served", &history.served, |rate| format!("{rate:.0}/s")),
        row("in line", &history.waiting, |callers| format!("{callers:.0}")),
    ];
    let rows: Vec<Line> = rows.into_iter().flatten().collect();
    if rows.is_empty() { rows } else { [vec![heading("Of late")], rows, vec![Line::new()]].concat() }
}

/// When something was planned last.
fn last_plan(ms: Option<u64>, sight: Sight<'_>) -> Line {
    pair("last plan", ms.map_or_else(|| "-".to_owned(), |ms| format!("{} ago", sight.lasting(ms))))
}

/// How long those waited who did.
fn average_wait(waited_ms: f64, waited: u64) -> Line {
    pair("average wait", if waited > 0 { short(waited_ms / waited as f64) } else { "-".to_owned() })
}

/// Counters, those of which failures speak in another tone if there are any.
fn counters(good: &[(&str, u64)], bad: &[(&str, u64)]) -> Vec<Line> {
    let mut lines = vec![heading("Since it was made")];
    lines.extend(good.iter().map(|(label, value)| pair(label, number(*value))));
    let tone = |value: u64| if value > 0 { Tone::Warn } else { Tone::Plain };
    lines.extend(bad.iter().map(|(label, value)| toned(label, tone(*value), number(*value))));
    lines
}

/// Which object that is, for people.
fn named(id: Option<Id>, sight: Sight<'_>) -> String {
    let Some(id) = id else { return "-".to_owned() };
    match sight.object(id) {
        Some(seen) => format!("{} ({id})", seen.name),
        None => format!("{id}"),
    }
}

/// What everybody says of who waits.
fn in_line(facts: &mut Vec<Fact>, waiting: usize, longest_ms: Option<u64>, sight: Sight<'_>) {
    if waiting > 0 {
        let longest = longest_ms.map_or_else(String::new, |ms| format!(" ({})", sight.lasting(ms)));
        facts.push((Tone::Warn, format!("{} in line{longest}", number(waiting as u64))));
    }
}

/// So many of them, also when there are none.
fn plural(facts: &mut Vec<Fact>, tone: Tone, of: usize, what: &str) {
    facts.push((tone, count(of, what)));
}

/// Something that the library has and this command does not know yet. What comes from a program of a later version is left out as it is
/// read.
struct Unknown;

impl Show for Unknown {
    fn state(&self) -> State {
        State::Running
    }
}
