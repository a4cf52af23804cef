//! A terminal that the program is run on.

use crate::program::PATIENCE;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use tokio::process::Command;

/// Runs it with stdout and stderr on a terminal: what it exits with, and what the terminal saw.
pub(crate) async fn on_terminal(mut command: Command) -> (Option<i32>, String) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let open = || OpenOptions::new().read(true).write(true).open(std::ffi::OsStr::from_bytes(name.as_bytes()));
    let mut child = command.stdout(open().unwrap()).stderr(open().unwrap()).spawn().unwrap();
    // It holds the far side too, and while it does the terminal has no end.
    drop(command);
    let reading = tokio::task::spawn_blocking(move || {
        let mut seen = Vec::new();
        // Where the far side is gone, reading fails, and what came before is there.
        let _ = File::from(ours).read_to_end(&mut seen);
        String::from_utf8(seen).unwrap()
    });
    let seen = tokio::time::timeout(PATIENCE, reading).await.expect("it ends").unwrap();
    (child.wait().await.unwrap().code(), seen)
}
