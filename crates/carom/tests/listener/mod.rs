//! Somebody who listens to what is said through `tracing` on this thread, and remembers it.

// Each test is a program of its own, and uses its part of this.
#![allow(dead_code)]

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Metadata, Subscriber};

pub(crate) use tracing::Level;

/// An event, with the names of the spans it happened in, the outermost first.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) level: Level,
    pub(crate) spans: Vec<&'static str>,
    /// `name=value` of each field, one after the other; the message is one of them.
    pub(crate) fields: Vec<(&'static str, String)>,
}

impl Event {
    pub(crate) fn says(&self, message: &str) -> bool {
        self.has("message", message)
    }

    /// Whether this field contains that.
    pub(crate) fn has(&self, field: &str, text: &str) -> bool {
        self.fields.iter().any(|(name, value)| *name == field && value.contains(text))
    }
}

/// Hears everything that is said on this thread until it is dropped.
pub(crate) struct Listener {
    memory: Arc<Memory>,
    _guard: DefaultGuard,
}

#[derive(Default)]
struct Memory {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    events: Vec<Event>,
    /// By number: its name, and the name of the one it is in.
    spans: Vec<(&'static str, &'static str)>,
    said: String,
    entered: Vec<Id>,
}

impl Listener {
    pub(crate) fn start() -> Listener {
        let memory = Arc::new(Memory::default());
        let guard = tracing::subscriber::set_default(Ears(Arc::clone(&memory)));
        Listener { memory, _guard: guard }
    }

    pub(crate) fn heard(&self, level: Level) -> Vec<Event> {
        self.memory.lock().events.iter().filter(|event| event.level == level).cloned().collect()
    }

    /// Every span that was opened, and in which.
    pub(crate) fn spans(&self) -> Vec<(&'static str, &'static str)> {
        self.memory.lock().spans.clone()
    }

    /// Everything that was said, fields of spans included.
    pub(crate) fn said(&self) -> String {
        self.memory.lock().said.clone()
    }
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn name(&self, id: &Id) -> &'static str {
        self.spans[id.into_u64() as usize - 1].0
    }
}

struct Ears(Arc<Memory>);

impl Subscriber for Ears {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("carom")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut state = self.0.lock();
        let mut fields = Fields::default();
        span.record(&mut fields);
        let parent = match (span.parent(), state.entered.last()) {
            (Some(parent), _) => state.name(parent),
            (None, Some(current)) if span.is_contextual() => state.name(current),
            (None, _) => "",
        };
        let name = span.metadata().name();
        state.spans.push((name, parent));
        let _ = writeln!(state.said, "{name} {:?}", fields.0);
        Id::from_u64(state.spans.len() as u64)
    }

    fn record(&self, _span: &Id, values: &Record<'_>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        let _ = writeln!(self.0.lock().said, "{:?}", fields.0);
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut state = self.0.lock();
        let spans = state.entered.iter().map(|id| state.name(id)).collect();
        let _ = writeln!(state.said, "{:?}", fields.0);
        state.events.push(Event { level: *event.metadata().level(), spans, fields: fields.0 });
    }

    fn enter(&self, span: &Id) {
        self.0.lock().entered.push(span.clone());
    }

    fn exit(&self, span: &Id) {
        let mut state = self.0.lock();
        if let Some(at) = state.entered.iter().rposition(|entered| entered == span) {
            state.entered.remove(at);
        }
    }
}

#[derive(Default)]
struct Fields(Vec<(&'static str, String)>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push((field.name(), format!("{value:?}")));
    }
}
