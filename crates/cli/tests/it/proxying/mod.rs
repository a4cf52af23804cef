//! `carom up` with one service, as its clients and its keeper see it.

use crate::program::{PATIENCE, Running};
use crate::serving::{folder, inside};
use serde_json::Value;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A proxy that runs.
#[allow(dead_code)]
pub(crate) struct Proxy {
    pub(crate) running: Running,
    /// Where clients come in.
    pub(crate) address: SocketAddr,
    admin: SocketAddr,
}

#[allow(dead_code)]
impl Proxy {
    /// Runs a service that is configured like this, but for its name and where it listens.
    pub(crate) async fn start(test: &str, service: &str) -> Proxy {
        let config = format!(
            "[admin]\nlisten = \"127.0.0.1:0\"\n[[service]]\nname = \"it\"\nlisten = \"127.0.0.1:0\"\n{service}\n"
        );
        let folder = folder(test, &[("carom.toml", &config)]);
        let mut running = Running::of(inside(&folder, &["up", "-c", "carom.toml"]));
        let (mut admin, mut address) = (None, None);
        loop {
            let line = running.line().await;
            if let Some((_, rest)) = line.split_once("admin: http://") {
                admin = rest.split('/').next().and_then(|at| at.parse().ok());
            }
            if let Some((_, rest)) = line.split_once(" on ") {
                address = rest.split(' ').next().and_then(|at| at.parse().ok());
            }
            if line.contains("carom is up") {
                break;
            }
        }
        let (address, admin) = (address.expect("it serves"), admin.expect("it can be asked"));
        Proxy { running, address, admin }
    }

    /// A TCP service with these backends.
    pub(crate) async fn tcp(test: &str, backends: &[SocketAddr], more: &str) -> Proxy {
        Proxy::start(test, &format!("protocol = \"tcp\"\nresolve = {}\n{more}", list(backends))).await
    }

    /// An HTTP service with these backends.
    pub(crate) async fn http(test: &str, backends: &[SocketAddr], more: &str) -> Proxy {
        Proxy::start(test, &format!("protocol = \"http\"\nresolve = {}\n{more}", list(backends))).await
    }

    /// A connection to it.
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("it listens")
    }

    /// What its keeper is told of the service.
    pub(crate) async fn health(&self) -> Value {
        let mut socket = TcpStream::connect(self.admin).await.expect("it can be asked");
        socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").expect("an answer");
        let mut health: Value = serde_json::from_str(body).expect("JSON");
        health["services"][0].take()
    }

    /// Waits until its keeper is told this.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
        let mut last = Value::Null;
        let waiting = async {
            loop {
                last = self.health().await;
                if is_so(&last) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        assert!(timeout(PATIENCE, waiting).await.is_ok(), "{what} does not come: {last}");
    }

    /// Sends bytes as they are, and reads all that comes back until the end.
    pub(crate) async fn say(&self, bytes: &[u8]) -> String {
        let mut socket = self.connect().await;
        socket.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        timeout(PATIENCE, socket.read_to_end(&mut answer)).await.expect("it ends").unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

fn list(backends: &[SocketAddr]) -> String {
    format!("{:?}", backends.iter().map(ToString::to_string).collect::<Vec<_>>())
}

/// Whether the system of this side of a connection asks now and then if the other is still there, once nothing is said.
#[cfg(target_os = "linux")]
#[allow(dead_code)]
pub(crate) fn is_kept_alive(local: SocketAddr) -> bool {
    const KEEPALIVE: &str = "02:";
    const ESTABLISHED: &str = "01";
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux tells of its sockets");
    let port = format!(":{:04X}", local.port());
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields[1].ends_with(&port) && fields[3] == ESTABLISHED && fields[5].starts_with(KEEPALIVE)
    })
}
