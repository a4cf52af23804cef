//! The name of this machine, where the environment has it.

/// As its system has it.
pub(crate) fn read() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "localhost".to_owned())
}
