//! Scripts beside this crate, run by the Python that `live/install.sh` has prepared.

use crate::ms;
use crate::process::{Folder, command, tail};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// A Python with packages of its own, since not all of them agree on which Python they want.
#[derive(Clone, Copy, Debug)]
pub enum Python {
    /// With the clients of Pulsar, Indy and ZeroMQ.
    Clients,
    /// With the first generation of OpenAlgo's package.
    OpenAlgo1,
    /// With the second, which not every system has a Python for.
    OpenAlgo2,
}

impl Python {
    /// Whether `live/install.sh` found no Python that would do.
    pub fn is_left_out(self) -> bool {
        self.folder().with_file_name(format!("{}-left-out", self.name())).exists()
    }

    fn path(self) -> PathBuf {
        self.folder().join("bin/python")
    }

    fn folder(self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(self.name())
    }

    fn name(self) -> &'static str {
        match self {
            Python::Clients => "live-venv",
            Python::OpenAlgo1 => "live-openalgo-1",
            Python::OpenAlgo2 => "live-openalgo-2",
        }
    }
}

/// A script that says line by line how far it is. Its drop kills it.
pub struct Script {
    name: String,
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
    log: PathBuf,
    _folder: Folder,
}

impl Script {
    pub fn start(python: Python, script: &str, arguments: &[&str]) -> Script {
        let folder = Folder::new("python", None);
        let log = folder.path().join("log");
        let mut child = prepared(python, script, arguments, &folder, &log).spawn().expect("python can be started");
        let said = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Script { name: script.to_owned(), child, said, log, _folder: folder }
    }

    /// Waits until it says this line, past others.
    pub async fn says(&mut self, wanted: &str) {
        while let Ok(Ok(Some(line))) = timeout(ms(120_000), self.said.next_line()).await {
            println!("  {line}");
            if line == wanted {
                return;
            }
        }
        panic!("{} does not say {wanted:?}:\n{}", self.name, tail(&self.log));
    }

    /// Waits until it ends, which is to be a good end.
    pub async fn ends(mut self) {
        let status = timeout(ms(20_000), self.child.wait()).await.expect("it ends").expect("it is our child");
        assert!(status.success(), "{}: {status}\n{}", self.name, tail(&self.log));
    }
}

/// Runs a script to its end, which is to be a good one, and returns what it said. The last argument is a file for its log.
pub async fn run(script: &str, arguments: &[&str]) -> String {
    let folder = Folder::new("python", None);
    let log = folder.path().join("log");
    let mut command = prepared(Python::Clients, script, arguments, &folder, &log);
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
    let mut child = prepared(Python::Clients, script, arguments, &folder, &log).spawn().expect("python can be started");
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.take().expect("it is piped"));
    let read = timeout(ms(20_000), said.read_line(&mut line)).await;
    assert!(matches!(read, Ok(Ok(1..))), "{script} {arguments:?} says nothing");
    (child, line)
}

fn prepared(python: Python, script: &str, arguments: &[&str], folder: &Folder, log: &Path) -> Command {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = python.path();
    assert!(python.exists(), "{} is missing: `make live` makes it", python.display());
    let mut command = command(&python, None, folder);
    command.arg("-u").arg(here.join("python").join(script)).args(arguments).arg(log).stdout(Stdio::piped());
    let mut command = Command::from(command);
    command.kill_on_drop(true);
    command
}
