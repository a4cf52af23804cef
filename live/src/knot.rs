//! A Knot DNS server with one zone, which the test writes anew whenever it likes.

use crate::process::{Folder, Port, Running, command, tail};
use crate::{ms, until};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The zone that it serves.
pub const ZONE: &str = "carom.test";

pub struct Knot {
    running: Option<Running>,
    port: Port,
    folder: Folder,
    config: PathBuf,
    serial: u32,
}

impl Knot {
    /// A server whose zone holds these records, one a line, with names relative to the zone.
    pub async fn start(records: &str) -> Knot {
        let (folder, port) = (Folder::new("knot", None), Port::chosen());
        let mut text = String::new();
        let place = folder.path().display();
        let _ = writeln!(text, "server:\n  rundir: \"{place}\"\n  listen: 127.0.0.1@{}", port.address().port());
        let _ = writeln!(text, "log:\n  - target: stderr\n    any: info\ndatabase:\n  storage: \"{place}\"");
        let _ = writeln!(
            text,
            "zone:\n  - domain: {ZONE}\n    storage: \"{place}\"\n    file: zone\n    zonefile-load: whole"
        );
        let config = folder.write("knot.conf", &text);
        let mut knot = Knot { running: None, port, folder, config, serial: 0 };
        knot.write(records);
        knot.restart().await;
        knot
    }

    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// The zone is this from now on.
    pub fn change(&mut self, records: &str) {
        self.write(records);
        self.control(&["zone-reload", ZONE]).unwrap_or_else(|problem| panic!("knotc: {problem}"));
    }

    /// The zone is this when it runs again.
    pub fn change_while_down(&mut self, records: &str) {
        assert!(self.running.is_none(), "it runs");
        self.write(records);
    }

    /// As a power cut would.
    pub fn kill(&mut self) {
        self.running.take().expect("it runs").kill();
    }

    /// Starts it where it was, and waits until it serves.
    pub async fn restart(&mut self) {
        assert!(self.running.is_none(), "it runs");
        let mut command = command(&program("knotd"), None, &self.folder);
        command.arg("--config").arg(&self.config);
        let mut running = Running::start(command, &self.log());
        until(ms(20_000), async || {
            if let Some(status) = running.ended() {
                panic!("knotd ended ({status}):\n{}", tail(&self.log()));
            }
            self.control(&["zone-status", ZONE, "+serial"])
        })
        .await;
        self.running = Some(running);
    }

    fn write(&mut self, records: &str) {
        self.serial += 1;
        let mut text = format!("$ORIGIN {ZONE}.\n$TTL 1\n@ 5 SOA ns hostmaster {} 3600 600 86400 2\n", self.serial);
        text += "@ NS ns\nns A 127.0.0.1\n";
        text += records;
        text += "\n";
        self.folder.write("zone", &text);
    }

    /// Waits for an answer: the server has done it then.
    fn control(&self, words: &[&str]) -> Result<(), String> {
        let output = Command::new(program("knotc"))
            .args(["--blocking", "--config"])
            .arg(&self.config)
            .args(words)
            .output()
            .expect("knotc runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        // A zone that is still being loaded has no serial yet.
        if output.status.success() && !said.contains("serial: -") { Ok(()) } else { Err(said) }
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

/// Where it is, also for users whose path leaves out what administrators use.
fn program(name: &str) -> PathBuf {
    let usual = Path::new("/usr/sbin").join(name);
    if usual.exists() { usual } else { name.into() }
}
