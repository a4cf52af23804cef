//! A nats-server with JetStream, whose memory outlives it.

use crate::process::{Folder, Port, Running, command, signal, tail};
use crate::{AnyError, ms, until};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

pub struct Nats {
    running: Option<Running>,
    port: Port,
    folder: Folder,
}

const CONFIG: &str = "nats.conf";

impl Nats {
    pub async fn start() -> Nats {
        Nats::configured("").await
    }

    /// With more in its configuration.
    pub async fn configured(more: &str) -> Nats {
        let mut nats = Nats { running: None, port: Port::chosen(), folder: Folder::new("nats", None) };
        nats.configure(more);
        nats.restart().await;
        nats
    }

    /// What it has in its configuration from its next start on.
    pub fn configure(&self, more: &str) {
        let place = self.folder.path().display();
        let listen = self.address();
        let text = format!("listen: \"{listen}\"\njetstream {{\n  store_dir: \"{place}\"\n}}\n{more}\n");
        self.folder.write(CONFIG, &text);
    }

    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    pub fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// As a power cut would, except that the system writes what it has been given to write.
    pub fn kill(&mut self) {
        self.running.take().expect("it runs").kill();
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(&mut self) {
        let mut running = self.running.take().expect("it runs");
        signal("TERM", &[running.id()]);
        running.wait(ms(20_000));
        assert!(running.ended().is_some(), "it does not end");
    }

    /// Starts it again where it was, with what it had stored, and waits until it serves.
    pub async fn restart(&mut self) {
        assert!(self.running.is_none(), "it runs");
        let mut command = command(&program(), None, &self.folder);
        command.arg("--config").arg(self.folder.path().join(CONFIG));
        let mut running = Running::start(command, &self.log());
        until(ms(20_000), async || {
            if let Some(status) = running.ended() {
                panic!("nats-server ended ({status}):\n{}", tail(&self.log()));
            }
            answers(self.address()).await
        })
        .await;
        self.running = Some(running);
    }

    /// The end of what it has said, and whether it still runs.
    pub fn said(&mut self) -> String {
        let ended = self.running.as_mut().and_then(Running::ended);
        format!("ended: {ended:?}\n{}", tail(&self.log()))
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

/// Whether somebody there speaks NATS, with JetStream.
async fn answers(address: SocketAddr) -> Result<(), AnyError> {
    let mut stream = BufReader::new(TcpStream::connect(address).await?);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    if !line.starts_with("INFO ") || !line.contains("\"jetstream\":true") {
        return Err(format!("no JetStream: {line}").into());
    }
    if line.contains("\"tls_required\":true") {
        return Ok(());
    }
    stream.write_all(b"CONNECT {\"verbose\":false}\r\nPING\r\n").await?;
    line.clear();
    stream.read_line(&mut line).await?;
    // Whoever has to say who they are is not served, and would be.
    let serves = line.trim_end() == "PONG" || line.starts_with("-ERR 'Authorization Violation'");
    if serves { Ok(()) } else { Err(format!("no PONG: {line}").into()) }
}

/// Where it is, also for users whose path leaves out what administrators use.
fn program() -> PathBuf {
    let usual = Path::new("/usr/sbin/nats-server");
    if usual.exists() { usual.into() } else { "nats-server".into() }
}
