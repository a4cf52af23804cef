//! Scripts beside this crate, run by the Python that `live/install.sh` has prepared.

use crate::ms;
use crate::process::{Folder, command, tail};
use std::path::Path;
use std::process::Stdio;
use tokio::time::timeout;

/// Runs a script to its end, which is to be a good one, and returns what it said. The last argument is a file for its log.
pub async fn run(script: &str, arguments: &[&str]) -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = here.join("../target/live-venv/bin/python");
    assert!(python.exists(), "{} is missing: `make live` makes it", python.display());
    let folder = Folder::new("python", None);
    let log = folder.path().join("log");
    let mut command = command(&python, None, &folder);
    command.arg("-u").arg(here.join("python").join(script)).args(arguments).arg(&log);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut command = tokio::process::Command::from(command);
    let child = command.kill_on_drop(true).spawn().expect("python can be started");
    let Ok(output) = timeout(ms(120_000), child.wait_with_output()).await else {
        panic!("{script} {arguments:?} does not end:\n{}", tail(&log));
    };
    let output = output.expect("it is our child");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} {arguments:?}: {said}\n{problem}\n{}", tail(&log));
    said
}
