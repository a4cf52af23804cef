//! Scripts beside this crate, run by the Python that `live/install.sh` has prepared.

use crate::ms;
use crate::process::{Folder, command, tail};
use std::path::Path;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Runs a script to its end, which is to be a good one, and returns what it said. The last argument is a file for its log.
pub async fn run(script: &str, arguments: &[&str]) -> String {
    let folder = Folder::new("python", None);
    let log = folder.path().join("log");
    let mut command = prepared(script, arguments, &folder, &log);
    let child = command.stderr(Stdio::piped()).spawn().expect("python can be started");
    let Ok(output) = timeout(ms(120_000), child.wait_with_output()).await else {
        panic!("{script} {arguments:?} does not end:\n{}", tail(&log));
    };
    let output = output.expect("it is our child");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} {arguments:?}: {said}\n{problem}\n{}", tail(&log));
    said
}

/// Starts a script, and waits for the first line that it says. Its drop kills it.
pub async fn start(script: &str, arguments: &[&str]) -> (Child, String) {
    let folder = Folder::new("python", None);
    let log = folder.path().join("log");
    let mut child = prepared(script, arguments, &folder, &log).spawn().expect("python can be started");
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.take().expect("it is piped"));
    let read = timeout(ms(20_000), said.read_line(&mut line)).await;
    assert!(matches!(read, Ok(Ok(1..))), "{script} {arguments:?} says nothing");
    (child, line)
}

fn prepared(script: &str, arguments: &[&str], folder: &Folder, log: &Path) -> Command {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = here.join("../target/live-venv/bin/python");
    assert!(python.exists(), "{} is missing: `make live` makes it", python.display());
    let mut command = command(&python, None, folder);
    command.arg("-u").arg(here.join("python").join(script)).args(arguments).arg(log).stdout(Stdio::piped());
    let mut command = Command::from(command);
    command.kill_on_drop(true);
    command
}
