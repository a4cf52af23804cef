//! `carom gateway` and `carom exchange` as they run, each in a folder of its own.

use crate::program::{Ran, Running, command, run};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Command;

/// A folder with these files in it, and nothing else.
pub(crate) fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    for (file, text) in files {
        std::fs::write(folder.join(file), text).unwrap();
    }
    folder
}

/// The program, in that folder, with nothing in its environment that it reads.
pub(crate) fn inside(folder: &Path, args: &[&str]) -> Command {
    let mut command = command(args);
    command.current_dir(folder);
    for name in [
        "WEBSOCKET_HOST",
        "WEBSOCKET_PORT",
        "MAX_SYMBOLS_PER_WEBSOCKET",
        "MAX_WEBSOCKET_CONNECTIONS",
        "ZMQ_HOST",
        "ZMQ_PORT",
        "CAROM_KEY",
        "NO_COLOR",
    ] {
        command.env_remove(name);
    }
    command
}

/// Runs it there, to its end.
#[allow(dead_code)]
pub(crate) async fn ran(folder: &Path, args: &[&str]) -> Ran {
    run(inside(folder, args).stdout(Stdio::piped()).stderr(Stdio::piped())).await
}

/// Something that serves.
#[allow(dead_code)]
pub(crate) struct Serving {
    pub(crate) running: Running,
    pub(crate) url: String,
    /// All that it said when it had started.
    pub(crate) banner: String,
}

#[allow(dead_code)]
impl Serving {
    /// Starts it, and waits until it has said all that it has to say.
    pub(crate) async fn start(command: Command) -> Serving {
        let mut running = Running::of(command);
        let mut banner = String::new();
        while !["time.sleep", "\n  url = ", "\n  kill -HUP "].iter().any(|last| banner.contains(last)) {
            banner += &format!("{}\n", running.line().await);
        }
        let (_, url) = banner.split_once(": ").unwrap();
        let url = url.split([' ', '\n']).next().unwrap().to_owned();
        Serving { running, url, banner }
    }

    /// A gateway on a port of the system's choice.
    pub(crate) async fn gateway(folder: &Path, args: &[&str]) -> Serving {
        Serving::start(inside(folder, &[&["gateway", "--listen", "127.0.0.1:0"], args].concat())).await
    }

    /// An exchange likewise.
    pub(crate) async fn exchange(folder: &Path, args: &[&str]) -> Serving {
        Serving::start(inside(folder, &[&["exchange", "--listen", "127.0.0.1:0"], args].concat())).await
    }

    /// The key that was made for this run.
    pub(crate) fn key(&self) -> String {
        let line = self.banner.lines().find(|line| line.starts_with("key of ")).expect("a key was made");
        line.rsplit(' ').next().unwrap().to_owned()
    }

    /// `carom watch` of this gateway.
    pub(crate) fn watch(&self, key: &str, args: &[&str]) -> Command {
        let mut command = command(["watch", "--url", &self.url].iter().chain(args));
        command.env("CAROM_KEY", key).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs that to its end.
    pub(crate) async fn watched(&self, key: &str, args: &[&str]) -> Ran {
        run(&mut self.watch(key, args)).await
    }
}
