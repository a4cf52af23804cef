//! Options that make no sense are refused by name.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// An option that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionsError {
    option: &'static str,
    problem: String,
}

impl OptionsError {
    /// Says that `option` has a `problem`; for drivers with options of their own.
    pub fn new(option: &'static str, problem: impl Into<String>) -> OptionsError {
        OptionsError { option, problem: problem.into() }
    }

    /// The name of the option.
    pub fn option(&self) -> &'static str {
        self.option
    }

    /// What is wrong with it.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.option, self.problem)
    }
}

impl Error for OptionsError {}

/// Beyond this, arithmetic with times is not safe everywhere, and nobody means it.
const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// A time that may be left out, and otherwise is more than nothing and less than for ever.
pub(crate) fn sane(option: &'static str, value: Option<Duration>) -> Result<(), OptionsError> {
    match value {
        Some(Duration::ZERO) => Err(OptionsError::new(option, "must be above zero")),
        Some(value) if value > YEAR => Err(OptionsError::new(option, "must be at most a year")),
        Some(_) | None => Ok(()),
    }
}

/// Refuses an interval below 1 ms: repeated without end, it would be a busy loop.
///
/// # Errors
/// When it is, with its value.
pub fn recurring(option: &'static str, value: Option<Duration>) -> Result<(), OptionsError> {
    match value {
        Some(value) if value < Duration::from_millis(1) => {
            Err(OptionsError::new(option, format!("must be at least 1ms, not {value:?}")))
        }
        Some(_) | None => Ok(()),
    }
}
