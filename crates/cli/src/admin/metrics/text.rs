//! Prometheus's text: a family at a time, with its help and its type, and a line for each series.

use super::recorder::{BOUNDS, Buckets, Labels, Recorder};
use metrics::Unit;
use std::fmt::Write;
use std::time::Instant;

/// Everything that was recorded.
pub(super) fn of(recorder: &Recorder, now: Instant) -> String {
    let mut text = Text { recorder, out: String::new() };
    for (name, series) in recorder.gauges.all(now) {
        let name = text.begin(&name, "gauge");
        series.iter().for_each(|(labels, level)| text.line(&name, "", labels, None, level.value()));
    }
    for (name, series) in recorder.counters.all(now) {
        let name = text.begin(&name, "counter");
        series.iter().for_each(|(labels, count)| text.line(&name, "", labels, None, count.value()));
    }
    for (name, series) in recorder.histograms.all(now) {
        let name = text.begin(&name, "histogram");
        series.iter().for_each(|(labels, buckets)| text.histogram(&name, labels, buckets));
    }
    text.out
}

struct Text<'a> {
    recorder: &'a Recorder,
    out: String,
}

impl Text<'_> {
    /// Begins a family; what it is called here.
    fn begin(&mut self, name: &str, kind: &str) -> String {
        let description = self.recorder.description(name);
        let unit = description.as_ref().and_then(|description| description.unit);
        let name = called(name, unit, kind);
        if let Some(description) = description {
            let help = description.help.replace('\\', r"\\").replace('\n', r"\n");
            self.write(format_args!("# HELP {name} {help}\n"));
        }
        self.write(format_args!("# TYPE {name} {kind}\n"));
        name
    }

    fn histogram(&mut self, name: &str, labels: &Labels, buckets: &Buckets) {
        let (counts, sum) = buckets.values();
        let bounds = BOUNDS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        let mut count = 0;
        for (bound, here) in bounds.zip(counts) {
            count += here;
            self.line(name, "_bucket", labels, Some(&bound), count);
        }
        self.line(name, "_sum", labels, None, sum);
        self.line(name, "_count", labels, None, count);
    }

    fn line(&mut self, name: &str, suffix: &str, labels: &Labels, bound: Option<&str>, value: impl std::fmt::Display) {
        let labels = labels.iter().map(|(key, value)| format!("{}=\"{}\"", plain(key), escaped(value)));
        let labels: Vec<String> = labels.chain(bound.map(|bound| format!("le=\"{bound}\""))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        self.write(format_args!("{name}{suffix}{labels} {value}\n"));
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // A string takes whatever is written to it.
        let _ = self.out.write_fmt(text);
    }
}

/// The name with what it is measured in, as Prometheus's habits are.
fn called(name: &str, unit: Option<Unit>, kind: &str) -> String {
    let mut called = plain(name);
    if let Some(unit) = unit.filter(|unit| *unit != Unit::Count) {
        called = format!("{called}_{}", unit.as_str());
    }
    if kind == "counter" { format!("{called}_total") } else { called }
}

/// Letters, digits and underscores, the first no digit.
fn plain(name: &str) -> String {
    let mut plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if plain.starts_with(|first: char| first.is_ascii_digit()) {
        plain.insert(0, '_');
    }
    plain
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}
