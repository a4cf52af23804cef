//! Local proxies, each a process: `carom up` next to nginx and HAProxy.

use super::http::through;
use super::{Open, Peer};
use carom_live::nginx::Nginx;
use carom_live::process::{Folder, Port, Running, command, tail};
use carom_live::sidecar::Sidecar;
use carom_live::{ms, until};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use tokio::net::TcpStream;

pub const HAPROXY: &str = "/usr/sbin/haproxy";

pub const PEERS: &[Peer] =
    &[Peer::carom("carom up", carom), Peer::other("nginx", nginx), Peer::other("HAProxy", haproxy)];

fn carom(nodes: Vec<SocketAddr>) -> Open {
    Box::pin(async move {
        let nodes: Vec<String> = nodes.iter().map(SocketAddr::to_string).collect();
        let sidecar = Sidecar::start(&format!("protocol = \"http\"\nresolve = {nodes:?}")).await;
        let address = sidecar.address();
        through(sidecar, address).await
    })
}

/// Connections to nodes are kept, as its documentation recommends: without, every request would connect.
fn nginx(nodes: Vec<SocketAddr>) -> Open {
    Box::pin(async move {
        let mut upstream = String::new();
        for node in nodes {
            let _ = write!(upstream, "server {node}; ");
        }
        let settings = format!("upstream nodes {{ {upstream}keepalive 16; }}");
        let location = "proxy_pass http://nodes; proxy_http_version 1.1; proxy_set_header Connection \"\";";
        let nginx = Nginx::start_with(&settings, location).await;
        let address = nginx.address();
        through(nginx, address).await
    })
}

struct HaProxy {
    _running: Running,
    _port: Port,
    _folder: Folder,
}

/// The timeouts of Debian's config, and servers that are checked, as in every example of its documentation.
fn haproxy(nodes: Vec<SocketAddr>) -> Open {
    Box::pin(async move {
        let (folder, port) = (Folder::new("haproxy", None), Port::chosen());
        let address = port.address();
        let mut text = format!(
            "defaults\n  mode http\n  timeout connect 5s\n  timeout client 50s\n  timeout server 50s\n\
             frontend clients\n  bind {address}\n  default_backend nodes\nbackend nodes\n"
        );
        for (number, node) in nodes.iter().enumerate() {
            let _ = writeln!(text, "  server node{number} {node} check");
        }
        let config = folder.write("haproxy.cfg", &text);
        let mut command = command(Path::new(HAPROXY), None, &folder);
        command.args(["-db", "-f"]).arg(config);
        let log = folder.path().join("log");
        let mut running = Running::start(command, &log);
        until(ms(15_000), async || {
            if let Some(status) = running.ended() {
                panic!("haproxy ended ({status}):\n{}", tail(&log));
            }
            TcpStream::connect(address).await.map(drop)
        })
        .await;
        through(HaProxy { _running: running, _port: port, _folder: folder }, address).await
    })
}
