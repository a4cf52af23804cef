//! Log capture: what a test logs through `tracing`.
//!
//! ```
//! use testkit::logs::Logs;
//!
//! let logs = Logs::capture();
//! tracing::warn!(target: "carom", backend = "10.0.0.1:80", "backend is dead");
//! assert_eq!(logs.count(&["WARN", "backend is dead", "10.0.0.1:80"]), 1);
//! ```

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, Interest};
use tracing::{Metadata, Subscriber};

pub use tracing::Level;

/// A log event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its level.
    pub level: Level,
    /// The module that logged it.
    pub target: &'static str,
    /// The names of the spans around it, the outermost first.
    pub spans: Vec<&'static str>,
    /// Names and values of its fields; the message is one of them.
    pub fields: Vec<(&'static str, String)>,
    line: String,
}

impl Event {
    /// Whether the message contains `message`.
    pub fn says(&self, message: &str) -> bool {
        self.has("message", message)
    }

    /// Whether the field `field` contains `text`.
    pub fn has(&self, field: &str, text: &str) -> bool {
        self.fields.iter().any(|(name, value)| *name == field && value.contains(text))
    }
}

/// Log events and spans of this thread, or of the process, until it is dropped.
pub struct Logs {
    state: Arc<Mutex<State>>,
    _guard: Option<DefaultGuard>,
}

#[derive(Default)]
struct State {
    events: Vec<Event>,
    /// By id, from 1.
    spans: Vec<Span>,
    text: String,
    entered: Vec<Id>,
}

struct Span {
    name: &'static str,
    parent: &'static str,
    /// Level, name and fields.
    line: String,
}

impl Logs {
    /// Captures all levels of carom's crates on this thread.
    pub fn capture() -> Logs {
        Logs::of_thread("carom")
    }

    /// Captures all levels of all crates on this thread.
    pub fn capture_all() -> Logs {
        Logs::of_thread("")
    }

    fn of_thread(target: &'static str) -> Logs {
        global();
        let state = Arc::new(Mutex::default());
        let recorder = Recorder { state: Arc::clone(&state), level: Level::TRACE, target, is_on: &ON };
        Logs { state, _guard: Some(tracing::subscriber::set_default(recorder)) }
    }

    /// Captures warnings and errors of all threads of the process that have no capture of their own.
    ///
    /// There is one such capture: tests that run at the same time see each other's events, and look for names of their own.
    pub fn of_process() -> Logs {
        let global = global();
        global.is_on.store(true, Ordering::Relaxed);
        Logs { state: Arc::clone(&global.state), _guard: None }
    }

    /// Every event, in order.
    pub fn events(&self) -> Vec<Event> {
        self.lock().events.clone()
    }

    /// The events of this level.
    pub fn at(&self, level: Level) -> Vec<Event> {
        self.events().into_iter().filter(|event| event.level == level).collect()
    }

    /// The number of events whose line contains all of these: `LEVEL field=value ... in [LEVEL span field=value, ...]`.
    pub fn count(&self, words: &[&str]) -> usize {
        self.lock().events.iter().filter(|event| words.iter().all(|word| event.line.contains(word))).count()
    }

    /// Every span that was opened, with the name of the one around it.
    pub fn spans(&self) -> Vec<(&'static str, &'static str)> {
        self.lock().spans.iter().map(|span| (span.name, span.parent)).collect()
    }

    /// All events and spans, each on a line that begins with its level.
    pub fn text(&self) -> String {
        self.lock().text.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn span(&self, id: &Id) -> &Span {
        &self.spans[id.into_u64() as usize - 1]
    }
}

struct Recorder {
    state: Arc<Mutex<State>>,
    level: Level,
    /// How the targets begin that are captured.
    target: &'static str,
    is_on: &'static AtomicBool,
}

static ON: AtomicBool = AtomicBool::new(true);

/// The subscriber of threads without a capture.
struct Global {
    state: Arc<Mutex<State>>,
    is_on: &'static AtomicBool,
}

/// Installs the global subscriber, which captures nothing before [`Logs::of_process`].
///
/// tracing asks a callsite's subscribers once whether they want its events, when the first event comes. A capture that begins
/// on another thread at that moment is not asked, and would miss these events for good. Where there is always a subscriber that
/// wants to be asked for every event, nothing is remembered.
fn global() -> &'static Global {
    static IS_ON: AtomicBool = AtomicBool::new(false);
    static GLOBAL: OnceLock<Global> = OnceLock::new();
    GLOBAL.get_or_init(|| {
        let global = Global { state: Arc::default(), is_on: &IS_ON };
        let state = Arc::clone(&global.state);
        let recorder = Recorder { state, level: Level::WARN, target: "carom", is_on: &IS_ON };
        tracing::subscriber::set_global_default(recorder).expect("this is the only global subscriber");
        global
    })
}

impl Subscriber for Recorder {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_wanted = *metadata.level() <= self.level && metadata.target().starts_with(self.target);
        is_wanted && self.is_on.load(Ordering::Relaxed)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut state = lock(&self.state);
        let parent = match (span.parent(), state.entered.last()) {
            (Some(parent), _) => state.span(parent).name,
            (None, Some(current)) if span.is_contextual() => state.span(current).name,
            (None, _) => "",
        };
        let mut fields = Fields::default();
        span.record(&mut fields);
        let name = span.metadata().name();
        let line = format!("{} {name}{}", span.metadata().level(), fields.words());
        let _ = writeln!(state.text, "{line}");
        state.spans.push(Span { name, parent, line });
        Id::from_u64(state.spans.len() as u64)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        let mut state = lock(&self.state);
        let span = &mut state.spans[id.into_u64() as usize - 1];
        span.line += &fields.words();
        let line = span.line.clone();
        let _ = writeln!(state.text, "{line}");
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut state = lock(&self.state);
        let around: Vec<&Span> = state.entered.iter().map(|id| state.span(id)).collect();
        let spans = around.iter().map(|span| span.name).collect();
        let lines: Vec<&str> = around.iter().map(|span| span.line.as_str()).collect();
        let metadata = event.metadata();
        let line = format!("{}{} in [{}]", metadata.level(), fields.words(), lines.join(", "));
        let _ = writeln!(state.text, "{line}");
        state.events.push(Event { level: *metadata.level(), target: metadata.target(), spans, fields: fields.0, line });
    }

    fn enter(&self, id: &Id) {
        lock(&self.state).entered.push(id.clone());
    }

    fn exit(&self, id: &Id) {
        let mut state = lock(&self.state);
        if let Some(at) = state.entered.iter().rposition(|entered| entered == id) {
            state.entered.remove(at);
        }
    }
}

#[derive(Default)]
struct Fields(Vec<(&'static str, String)>);

impl Fields {
    fn words(&self) -> String {
        self.0.iter().fold(String::new(), |mut words, (name, value)| {
            let _ = write!(words, " {name}={value}");
            words
        })
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push((field.name(), format!("{value:?}")));
    }
}
