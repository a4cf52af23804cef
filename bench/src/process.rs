//! A process of this program that serves a load, as its parent sees it: told by its standard input, heard by its standard output.

use serde_json::Value;
use std::env;
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Dropped, it is ended.
pub struct Process {
    child: Child,
    told: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl Process {
    /// Starts one that serves this, and hears what it says first.
    pub fn start(kind: impl Display) -> io::Result<(Process, Value)> {
        let mut child = Command::new(env::current_exe()?)
            .args(["--serve", &kind.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(told), Some(says)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the process has no pipes"));
        };
        let mut process = Process { child, told, says: BufReader::new(says) };
        let beginning = process.hear()?;
        Ok((process, beginning))
    }

    pub fn tell(&mut self, what: impl Display) -> io::Result<()> {
        writeln!(self.told, "{what}")
    }

    /// The figure that it answers with, by the name that it was asked for.
    pub fn ask(&mut self, what: &str) -> io::Result<f64> {
        self.tell(what)?;
        self.hear()?[what].as_f64().ok_or_else(|| io::Error::other(format!("the process did not say its {what}")))
    }

    fn hear(&mut self) -> io::Result<Value> {
        let mut line = String::new();
        self.says.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a process says to its parent, a line at a time.
pub fn say(line: &Value) {
    println!("{line}");
}
