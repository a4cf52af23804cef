//! How the program fails: what it says, and what it exits with.

use crate::output::{printable, printable_lines};
use carom::resolver::InputError;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Why a command came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// What was typed makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A file that was named is of no use.
    #[error("{0}")]
    Input(String),
    /// What was wanted could not be had.
    #[error("{0}")]
    Unavailable(String),
    /// What was to be printed could not be.
    #[error("the output cannot be written: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    /// Says it on stderr.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            // Whoever read the output has had enough of it.
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
            Failure::Usage(_) => {
                say(format_args!("error: {self}\n\nFor more information, try '--help'."));
                return ExitCode::from(2);
            }
            Failure::Input(_) => {
                say(format_args!("error: {self}"));
                return ExitCode::from(2);
            }
            Failure::Unavailable(_) | Failure::Output(_) => say(format_args!("error: {self}")),
        }
        ExitCode::FAILURE
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Failure {
        Failure::Usage(error.to_string())
    }
}

/// An error and all that led to it, in a line. Control characters are escaped: errors quote network data.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = error.to_string();
        // Some say it themselves.
        if !text.ends_with(&why) {
            let _ = write!(text, ": {why}");
        }
        cause = error.source();
    }
    printable(&text)
}

/// A line on stderr, without control characters. There is nobody to tell when it cannot be written.
pub(crate) fn say(line: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "{}", printable_lines(&line.to_string()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot resolve `{0}`")]
    struct Outer(&'static str, #[source] io::Error);

    #[test]
    fn control_characters_in_an_error_or_its_cause_are_escaped() {
        // ESC, a C1 control character and a right-to-left override.
        let error = Outer("\u{1b}]0;name", io::Error::other("refused by \u{9b}31m\u{202e}"));
        assert_eq!(with_causes(&error), "cannot resolve `\\u{1b}]0;name`: refused by \\u{9b}31m\\u{202e}");
    }
}
