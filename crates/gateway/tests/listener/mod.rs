//! Listens to whatever is logged, on the thread that it is set for.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata};

/// Keeps everything that is logged, on any level by anybody.
#[derive(Clone, Default)]
pub(crate) struct Listener(Arc<Mutex<String>>);

impl Listener {
    /// All of it: each event on a line of its own, that begins with its level.
    pub(crate) fn all(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

struct Words<'a>(&'a mut String);

impl Visit for Words<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        *self.0 += &format!("{field}={value:?} ");
    }
}

impl tracing::Subscriber for Listener {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Words(&mut self.0.lock().unwrap()));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Words(&mut self.0.lock().unwrap()));
    }

    fn event(&self, event: &Event<'_>) {
        let mut said = format!("\n{} ", event.metadata().level());
        event.record(&mut Words(&mut said));
        self.0.lock().unwrap().push_str(&said);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
