//! The program as an operator runs it beside a program: `carom up -c carom.toml`.

use crate::process::{Folder, Port, Running, command, signal, tail};
use crate::{ms, program, until};
use std::net::SocketAddr;
use std::path::PathBuf;
use tokio::net::TcpStream;

pub struct Sidecar {
    running: Running,
    port: Port,
    folder: Folder,
}

impl Sidecar {
    /// Serves one service, with these lines of its table, on a port that the system chose.
    pub async fn start(service: &str) -> Sidecar {
        let (folder, port) = (Folder::new("sidecar", None), Port::chosen());
        let admin = Port::chosen();
        let text = format!(
            "[admin]\nlisten = \"{}\"\n\n[[service]]\nname = \"live\"\nlisten = \"{}\"\n{service}\n",
            admin.address(),
            port.address()
        );
        Sidecar::of(&text, folder, port).await
    }

    /// Runs with this config, in a folder with whatever it names; it is there when it listens on this port.
    pub async fn of(config: &str, folder: Folder, port: Port) -> Sidecar {
        folder.write("carom.toml", config);
        Sidecar::again(folder, port).await
    }

    /// Runs what was run in this folder before.
    pub async fn again(folder: Folder, port: Port) -> Sidecar {
        let running = run(&folder, &port).await;
        Sidecar { running, port, folder }
    }

    /// Stops it as an operator would, and starts it again where it was.
    pub async fn restart(self) -> Sidecar {
        let (port, folder) = self.stopped();
        Sidecar::again(folder, port).await
    }

    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Writes another config and has it read; what is said of it.
    pub async fn reload(&self, config: &str) -> String {
        let before = self.said().len();
        self.folder.write("carom.toml", config);
        signal("HUP", &[self.running.id()]);
        until(ms(15_000), async || {
            let said = self.said()[before..].to_owned();
            let line =
                said.lines().find(|line| line.contains(" was read again: ") || line.contains(" stays as it was"));
            line.map(str::to_owned).ok_or(said)
        })
        .await
    }

    /// What it has said so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// As an operator would: SIGTERM, and it ends by itself, well.
    pub fn stop(self) {
        self.stopped();
    }

    /// Likewise; where it was, and what it had.
    pub fn stopped(mut self) -> (Port, Folder) {
        signal("TERM", &[self.running.id()]);
        self.running.wait(ms(30_000));
        let ended = self.running.ended().unwrap_or_else(|| panic!("it does not end:\n{}", tail(&self.log())));
        assert!(ended.success(), "{ended}:\n{}", tail(&self.log()));
        (self.port, self.folder)
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

async fn run(folder: &Folder, port: &Port) -> Running {
    let mut command = command(&program("carom"), None, folder);
    command.args(["up", "-c", "carom.toml"]);
    let log = folder.path().join("log");
    let mut running = Running::start(command, &log);
    until(ms(15_000), async || {
        if let Some(status) = running.ended() {
            panic!("it ended ({status}):\n{}", tail(&log));
        }
        TcpStream::connect(port.address()).await.map(drop)
    })
    .await;
    running
}
