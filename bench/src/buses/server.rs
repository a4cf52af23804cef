//! A nats-server for the time of a measurement, if there is one on this machine.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where Debian has it, which is not everybody's path.
const PLACES: [&str; 2] = ["nats-server", "/usr/sbin/nats-server"];
/// What it may take to say where it listens.
const STARTING: Duration = Duration::from_secs(30);

/// Dropped, it is ended.
pub struct Server {
    child: Child,
    /// Where it says on which port it listens.
    folder: PathBuf,
    pub address: SocketAddr,
}

impl Server {
    /// None where it is not installed.
    pub fn start() -> io::Result<Option<Server>> {
        let folder = std::env::temp_dir().join(format!("carom-bench-nats-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let Some(child) = PLACES.iter().find_map(|place| spawn(place, &folder).ok()) else {
            fs::remove_dir_all(&folder)?;
            return Ok(None);
        };
        // From here on it is ended whatever happens.
        let mut server = Server { child, folder, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let deadline = Instant::now() + STARTING;
        while Instant::now() < deadline {
            if let Some(address) = said(&server.folder) {
                server.address = address;
                return Ok(Some(server));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(io::Error::other("nats-server does not say where it listens"))
    }
}

fn spawn(place: &str, folder: &Path) -> io::Result<Child> {
    Command::new(place)
        .args(["--addr", "127.0.0.1", "--port", "-1", "--ports_file_dir"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// What the file of ports in this folder has, once it is whole: `{"nats":["nats://127.0.0.1:4222"]}`.
fn said(folder: &Path) -> Option<SocketAddr> {
    let file =
        fs::read_dir(folder).ok()?.flatten().find(|file| file.path().extension().is_some_and(|e| e == "ports"))?;
    listed(&fs::read_to_string(file.path()).ok()?)
}

fn listed(text: &str) -> Option<SocketAddr> {
    let ports: serde_json::Value = serde_json::from_str(text).ok()?;
    ports["nats"][0].as_str()?.strip_prefix("nats://")?.parse().ok()
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_whole_says_nothing_yet() {
        assert_eq!(listed(r#"{"nats":["nats://127.0.0.1:4222"]}"#), Some(SocketAddr::from(([127, 0, 0, 1], 4222))));
        assert_eq!((listed(""), listed(r#"{"nats":["#), listed(r#"{"nats":[]}"#)), (None, None, None));
    }
}
