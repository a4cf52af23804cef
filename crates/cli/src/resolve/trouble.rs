//! Trouble, in a line for people: what was asked, of whom, and what came back.

use crate::failure::with_causes;
use crate::output::printable;
use carom::dns::DnsError;
use std::error::Error;

/// A failure to resolve what was typed.
pub(super) fn cannot_resolve(input: &str, causes: Option<&str>) -> String {
    format!("cannot resolve `{input}`: {}", causes.unwrap_or("nobody says why"))
}

/// Every question that ended badly, or whatever else went wrong, with its causes.
pub(super) fn describe(error: &(dyn Error + Send + Sync + 'static)) -> String {
    if let Some(error) = error.downcast_ref::<DnsError>() {
        let causes: Vec<_> = error.causes().iter().map(ToString::to_string).collect();
        return printable(&causes.join("; "));
    }
    with_causes(error)
}
