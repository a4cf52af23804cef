//! What came of it all, in a line for programs.

use super::report::{MOST_ROWS, PERCENTILES, Report};
use super::tally::Failures;
use crate::output;
use crate::units::milliseconds;
use serde_json::{Map, Value, json};

pub(super) fn line(report: &Report) -> String {
    let tally = &report.tally;
    let statuses: Map<_, _> = tally.statuses.iter().map(|(status, count)| (status.to_string(), json!(count))).collect();
    let failures = tally.failures.iter();
    let failures =
        failures.map(|(step, Failures { count, example })| json!({"step": step, "count": count, "example": example}));
    let rows = tally.latencies.rows(MOST_ROWS);
    let spread = rows.iter().map(|row| json!({"up_to_ms": milliseconds(row.up_to), "count": row.count}));
    let backends = report.backends().into_iter().map(|(backend, count)| {
        let mut object = output::object(backend);
        object["count"] = count.into();
        object
    });
    let report = json!({
        "url": report.url,
        "method": report.method,
        "protocols": tally.protocols,
        "connections": report.connections,
        "rate_wanted": report.rate,
        "seconds": report.elapsed.as_secs_f64(),
        "requests": report.requests(),
        "rate": report.per_second(),
        "answered": tally.answers(),
        "failed": tally.failure_count(),
        "unfinished": report.unfinished,
        "not_started": report.not_started,
        "retried": tally.retried,
        "statuses": statuses,
        "failures": failures.collect::<Vec<_>>(),
        "body_bytes": tally.body_bytes,
        "latency_ms": latency(report),
        "spread": spread.collect::<Vec<_>>(),
        "backends": backends.collect::<Vec<_>>(),
        "other_backends": tally.other_backends,
    });
    output::json_line(&report)
}

/// `null` where nothing was answered.
fn latency(report: &Report) -> Value {
    let latencies = &report.tally.latencies;
    if latencies.count() == 0 {
        return Value::Null;
    }
    let percentiles = PERCENTILES.iter().map(|(name, share)| (name.replace('.', "_"), latencies.percentile(*share)));
    let ends = [("min", latencies.min()), ("mean", latencies.mean()), ("max", latencies.max())];
    let figures = ends.into_iter().map(|(name, figure)| (name.to_owned(), figure)).chain(percentiles);
    Value::Object(figures.map(|(name, figure)| (name, json!(milliseconds(figure)))).collect())
}
