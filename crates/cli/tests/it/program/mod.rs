//! The real program, run as a shell would.

use std::ffi::OsStr;
use std::process::Stdio;
use std::time::Duration;
use testkit::dns::DnsServer;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;

/// Longer than anything takes that works.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// What a run came to.
#[allow(dead_code)]
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn command<T: AsRef<OsStr>>(args: impl IntoIterator<Item = T>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_carom"));
    command.args(args).env_remove("CAROM_LOG").stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs it to its end.
pub(crate) async fn carom<T: AsRef<OsStr>>(args: impl IntoIterator<Item = T>) -> Ran {
    run(command(args).stdout(Stdio::piped()).stderr(Stdio::piped())).await
}

pub(crate) async fn run(command: &mut Command) -> Ran {
    let child = command.spawn().expect("the program starts");
    let output = timeout(PATIENCE, child.wait_with_output()).await.expect("it ends").unwrap();
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// `carom resolve`, asking this server.
#[allow(dead_code)]
pub(crate) async fn resolve(server: &DnsServer, args: &[&str]) -> Ran {
    let address = server.address().to_string();
    carom(["resolve", "-r", &address].iter().chain(args)).await
}

/// A run that goes on.
#[allow(dead_code)]
pub(crate) struct Running {
    pub(crate) child: Child,
    stdout: Option<Lines<BufReader<ChildStdout>>>,
    stderr: Lines<BufReader<ChildStderr>>,
    /// What was read of its stderr, whether anybody waited for it or not.
    pub(crate) heard: String,
}

#[allow(dead_code)]
impl Running {
    pub(crate) fn start<T: AsRef<OsStr>>(args: impl IntoIterator<Item = T>) -> Running {
        Running::of(command(args))
    }

    pub(crate) fn of(mut command: Command) -> Running {
        Running::writing_to(&mut command, Stdio::piped())
    }

    /// What it prints goes there.
    pub(crate) fn writing_to(command: &mut Command, stdout: impl Into<Stdio>) -> Running {
        let mut child = command.stdout(stdout).stderr(Stdio::piped()).spawn().expect("the program starts");
        let stdout = child.stdout.take().map(|stdout| BufReader::new(stdout).lines());
        let stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        Running { child, stdout, stderr, heard: String::new() }
    }

    /// The next line of its output.
    pub(crate) async fn line(&mut self) -> String {
        let stdout = self.stdout.as_mut().expect("it is read");
        timeout(PATIENCE, stdout.next_line()).await.expect("a line comes").unwrap().expect("it runs")
    }

    /// The next line on stderr that has this word in it.
    pub(crate) async fn told(&mut self, word: &str) -> String {
        loop {
            let line = timeout(PATIENCE, self.stderr.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("no {word}")).unwrap().expect("it runs");
            self.heard += &format!("{line}\n");
            if line.contains(word) {
                return line;
            }
        }
    }

    /// Sends it a signal.
    pub(crate) async fn signal(&self, signal: &str) {
        let id = self.child.id().expect("it runs").to_string();
        assert!(Command::new("kill").args([signal, &id]).status().await.unwrap().success());
    }

    /// Its reader leaves; returns what it exits with.
    pub(crate) async fn left(mut self) -> Option<i32> {
        drop(self.stdout);
        timeout(PATIENCE, self.child.wait()).await.expect("it ends").unwrap().code()
    }

    /// Sends it a signal and returns what it exits with, and all that was left to read.
    pub(crate) async fn end(self, signal: &str) -> Ran {
        self.signal(signal).await;
        self.ended().await
    }

    /// The same of one that ends by itself.
    pub(crate) async fn ended(mut self) -> Ran {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        let ended = async {
            if let Some(read) = &mut self.stdout {
                while let Some(line) = read.next_line().await.unwrap() {
                    stdout += &format!("{line}\n");
                }
            }
            while let Some(line) = self.stderr.next_line().await.unwrap() {
                stderr += &format!("{line}\n");
            }
            self.child.wait().await.unwrap().code()
        };
        let code = timeout(PATIENCE, ended).await.expect("it ends");
        Ran { code, stdout, stderr }
    }
}
