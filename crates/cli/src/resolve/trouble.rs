//! Trouble, in a line for people: what was asked, of whom, and what came back.

use carom::dns::DnsError;
use std::error::Error;
use std::fmt::Write as _;

/// A failure to resolve what was typed.
pub(super) fn cannot_resolve(input: &str, causes: Option<&str>) -> String {
    format!("cannot resolve `{input}`: {}", causes.unwrap_or("nobody says why"))
}

/// Every question that ended badly, or whatever else went wrong, with its causes.
pub(super) fn describe(error: &(dyn Error + Send + Sync + 'static)) -> String {
    if let Some(error) = error.downcast_ref::<DnsError>() {
        let causes: Vec<_> = error.causes().iter().map(ToString::to_string).collect();
        return causes.join("; ");
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
