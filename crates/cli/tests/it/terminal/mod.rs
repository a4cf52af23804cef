//! A terminal that the program is run on.

use crate::program::PATIENCE;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use tokio::process::Command;

/// Programs that are started meanwhile are not to hold our side, or the terminal would outlive us.
#[cfg(target_os = "linux")]
const OURS_ALONE: OpenptFlags = OpenptFlags::CLOEXEC;
#[cfg(not(target_os = "linux"))]
const OURS_ALONE: OpenptFlags = OpenptFlags::empty();

/// A terminal: our side, and the far one, which programs write to.
pub(crate) fn terminal() -> (File, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OURS_ALONE).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let name = std::ffi::OsStr::from_bytes(name.as_bytes());
    (ours.into(), OpenOptions::new().read(true).write(true).open(name).unwrap())
}

/// Runs it with stdout and stderr on a terminal: what it exits with, and what the terminal saw.
#[allow(dead_code)]
pub(crate) async fn on_terminal(command: Command) -> (Option<i32>, String) {
    run_on(terminal(), command).await
}

/// The same on one with so many columns.
#[allow(dead_code)]
pub(crate) async fn on_terminal_of(columns: u16, command: Command) -> (Option<i32>, String) {
    let terminal = terminal();
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal.0, size).unwrap();
    run_on(terminal, command).await
}

async fn run_on((mut ours, far): (File, File), mut command: Command) -> (Option<i32>, String) {
    let mut child = command.stdout(far.try_clone().unwrap()).stderr(far).spawn().unwrap();
    // It holds the far side too, and while it does the terminal has no end.
    drop(command);
    let reading = tokio::task::spawn_blocking(move || {
        let mut seen = Vec::new();
        // Where the far side is gone, reading fails, and what came before is there.
        let _ = ours.read_to_end(&mut seen);
        String::from_utf8(seen).unwrap()
    });
    let seen = tokio::time::timeout(PATIENCE, reading).await.expect("it ends").unwrap();
    (child.wait().await.unwrap().code(), seen)
}
