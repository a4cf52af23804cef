//! Process groups: a command, and whatever it starts.

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;

/// The command leads a group of its own.
pub(super) fn lead(command: &mut Command) {
    command.process_group(0);
}

/// Kills everybody in the group that this process leads.
pub(super) fn kill(leader: u32) {
    if let Some(group) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        // Those that are gone need not be killed.
        let _ = kill_process_group(group, Signal::KILL);
    }
}
