//! What there is to say of an answer beside its body: who gave it, over what, and how long each step took.

use crate::output::{self, who};
use crate::target::{Target, Trouble, protocol};
use crate::units::{self, milliseconds};
use carom::agent::{Body, Served};
use http::{HeaderMap, Response, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;

/// An answer without its body.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) status: StatusCode,
    protocol: &'static str,
    headers: HeaderMap,
    /// The agent says so of every answer.
    served: Option<Served>,
    pub(super) body_bytes: u64,
    /// From the head of the answer to its end.
    pub(super) body: Duration,
    /// From the request to that end.
    pub(super) total: Duration,
}

impl Summary {
    /// What the head tells.
    pub(super) fn of(response: &Response<Body>) -> Summary {
        Summary {
            status: response.status(),
            protocol: protocol(response.version()),
            headers: response.headers().clone(),
            served: response.extensions().get().cloned(),
            body_bytes: 0,
            body: Duration::ZERO,
            total: Duration::ZERO,
        }
    }

    /// Two lines, or as many as it takes where they may be no longer than so many columns.
    pub(super) fn text(&self, width: usize) -> String {
        let served = self.served.as_ref();
        let by = served.map_or(String::new(), |served| format!(" from {}", who(&served.backend)));
        let mut answer = vec![format!("{}{by}", self.status), self.protocol.to_owned()];
        answer.extend(
            served.map(|served| if served.reused { "reused connection" } else { "fresh connection" }.to_owned()),
        );
        let attempts = served.map(|served| served.attempts).filter(|attempts| *attempts > 1);
        answer.extend(attempts.map(|attempts| format!("{attempts} attempts")));
        answer.push(units::bytes(self.body_bytes));
        let steps = self.steps().into_iter().filter_map(|(name, time)| Some((name, time?)));
        let steps: Vec<_> =
            steps.map(|(name, time)| format!("{} {}", name.replace('_', " "), units::time(time))).collect();
        wrap(&answer, width) + &wrap(&steps, width)
    }

    /// A line.
    pub(super) fn json(&self, target: &Target) -> String {
        let served = self.served.as_ref();
        let timings = self.steps().into_iter();
        let timings = timings.map(|(name, time)| (name.to_owned(), json!(time.map(milliseconds))));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers = self.headers.iter().map(|(name, value)| json!([name.as_str(), text(value.as_bytes())]));
        let object = json!({
            "url": target.uri.to_string(),
            "method": target.method.as_str(),
            "status": self.status.as_u16(),
            "protocol": self.protocol,
            "reused": served.map(|served| served.reused),
            "attempts": served.map(|served| served.attempts),
            "backend": served.map(|served| output::object(&served.backend)),
            "headers": headers.collect::<Vec<_>>(),
            "body_bytes": self.body_bytes,
            "timings": Value::Object(timings.collect()),
        });
        output::json_line(&object)
    }

    /// In the order in which they are taken. Some may have been taken before, for others.
    fn steps(&self) -> [(&'static str, Option<Duration>); 7] {
        let timings = self.served.as_ref().map(|served| served.timings).unwrap_or_default();
        [
            ("resolve", timings.resolve),
            ("claim", Some(timings.claim)),
            ("connect", timings.connect),
            ("tls", timings.tls),
            ("first_byte", Some(timings.head)),
            ("body", Some(self.body)),
            ("total", Some(self.total)),
        ]
    }
}

/// What programs are told when there is no answer.
pub(super) fn json_of(trouble: &Trouble, target: &Target) -> String {
    let error = json!({"step": trouble.step, "message": trouble.message});
    let object = json!({"url": target.uri.to_string(), "method": target.method.as_str(), "error": error});
    output::json_line(&object)
}

/// Puts a comma between them, and ends a line before the one that does not fit.
fn wrap(parts: &[String], width: usize) -> String {
    let (mut text, mut column) = (String::new(), 0);
    for (at, part) in parts.iter().enumerate() {
        let comma = if at + 1 < parts.len() { "," } else { "" };
        let length = part.chars().count() + comma.len();
        if column > 0 && column + 1 + length > width {
            text.push('\n');
            column = 0;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.extend([part, comma]);
        column += length;
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_two_parts() {
        let parts = ["one", "two", "three", "a longer one"].map(str::to_owned);
        assert_eq!(wrap(&parts, usize::MAX), "one, two, three, a longer one\n");
        assert_eq!(wrap(&parts, 15), "one, two,\nthree,\na longer one\n");
        assert_eq!(wrap(&parts, 16), "one, two, three,\na longer one\n");
        assert_eq!(wrap(&parts, 0), "one,\ntwo,\nthree,\na longer one\n");
        assert_eq!(wrap(&[], 80), "\n");
    }
}
