//! The name of this machine, for people who look at several.

/// As its system has it.
pub(crate) fn read() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
