//! A resolver: who serves, what it asks, and for how long it may believe what it was told.

use super::backend::{self, who};
use super::{Fact, Show, Urgency, counters, heading, named, pair, plural, toned};
use crate::top::line::{Line, Tone};
use crate::top::sight::{Sight, count};
use carom::monitor::{DnsKind, DnsQuestion, DnsState, Id, Resolver, State};

impl Show for Resolver {
    fn state(&self) -> State {
        self.state
    }

    fn urgency(&self) -> Urgency {
        if self.error.is_some() {
            Urgency::Impaired
        } else if self.stale_ms.is_some() {
            Urgency::Strained
        } else {
            Urgency::Fine
        }
    }

    fn facts(&self, sight: Sight<'_>) -> Vec<Fact> {
        let mut facts = Vec::new();
        if let Some(ms) = self.stale_ms {
            facts.push((Tone::Warn, format!("stale for {}", sight.lasting(ms))));
        }
        plural(&mut facts, Tone::Plain, self.backends.len(), "backend");
        facts
    }

    fn below(&self, _: Id, sight: Sight<'_>) -> Vec<Line> {
        let questions = self.dns.iter().flat_map(|dns| &dns.questions);
        let mut lines = sight.listed(questions.map(|question| line_of(question, sight)).collect(), 0);
        // It is made of what became of the questions, each of which says so by itself.
        let troubles =
            || self.dns.iter().flat_map(|dns| &dns.questions).filter_map(|question| question.trouble.as_ref());
        let error = self.error.as_ref().filter(|error| !troubles().any(|trouble| error.contains(trouble)));
        lines.extend(error.map(|error| Line::new().add(Tone::Bad, "! ").plain(error)));
        lines
    }

    fn page(&self, id: Id, sight: Sight<'_>) -> Vec<Line> {
        let mut lines = Vec::new();
        lines.extend(self.error.as_ref().map(|error| toned("trouble", Tone::Bad, error)));
        if let Some(dns) = &self.dns {
            lines.push(pair("domain", &dns.domain));
            lines.push(pair("service", dns.service.as_deref().unwrap_or("-")));
            lines.push(pair("port otherwise", dns.default_port));
            lines.push(pair("nameservers", dns.nameservers.join(", ")));
        }
        let serves = crate::top::rows::served_by(id, sight.view);
        lines.extend(serves.into_iter().map(|id| pair("serves", named(Some(id), sight))));
        lines.push(Line::new());
        if let Some(dns) = &self.dns {
            lines.push(heading(count(dns.questions.len(), "question")));
            lines.extend(dns.questions.iter().map(|question| Line::indented(2).then(line_of(question, sight))));
            lines.push(Line::new());
        }
        lines.push(heading(count(self.backends.len(), "backend")));
        lines.extend(self.backends.iter().map(|backend| {
            let (priority, weight) = (backend.priority, backend.weight);
            let line = Line::indented(2).plain(who(backend));
            line.add(Tone::Dim, format_args!("  priority {priority}, weight {weight}"))
        }));
        lines.push(Line::new());
        if let Some(dns) = &self.dns {
            let of = &dns.counters;
            let good = [("asked", of.asked), ("answered", of.answered), ("published", of.published)];
            lines.extend(counters(&good, &[("failed", of.failed)]));
        }
        lines
    }

    fn words(&self) -> Vec<&str> {
        let mut words: Vec<&str> = self.backends.iter().flat_map(backend::words).collect();
        words.extend(self.dns.iter().map(|dns| &*dns.domain));
        words
    }
}

/// `A api.test: 3 records, asked again in 12 s`.
fn line_of(question: &DnsQuestion, sight: Sight<'_>) -> Line {
    let kind = match question.kind {
        DnsKind::Srv => "SRV",
        DnsKind::Aaaa => "AAAA",
        DnsKind::A => "A",
        _ => "?",
    };
    let line = Line::new().add(Tone::Dim, format_args!("{kind:<4} ")).plain(&question.name).plain("  ");
    let mut line = match question.state {
        DnsState::Asking => line.add(Tone::Busy, "asking"),
        DnsState::Answered => line.add(Tone::Good, count(question.records, "record")),
        DnsState::Nothing => line.add(Tone::Dim, "nothing"),
        DnsState::Failed => line.add(Tone::Bad, "FAILED"),
        _ => line.plain("other"),
    };
    if let Some(ms) = question.next_ms {
        let word = if question.state == DnsState::Answered { "good, asked again" } else { "asked again" };
        line.push(Tone::Plain, format_args!(", {word} {}", sight.left(ms)));
    }
    match &question.trouble {
        Some(trouble) => line.plain(": ").plain(trouble),
        None => line,
    }
}
