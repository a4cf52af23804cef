//! `carom get` and `carom load`, beside HTTP servers that do as they are told.
use crate::program::{Ran, carom};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::dns::DnsServer;
use testkit::http::Server;

/// Nodes that serve one name, and the nameserver that says so.
pub(crate) struct Service {
    pub(crate) nodes: Vec<Server>,
    pub(crate) dns: DnsServer,
}

impl Service {
    /// So many nodes behind `http://api.test/`.
    pub(crate) async fn start(nodes: usize) -> Service {
        let (mut service, mut records) = (Vec::new(), Vec::new());
        let dns = DnsServer::start().await.unwrap();
        for number in 1..=nodes {
            let name = format!("node-{number}");
            let server = Server::start(&name).await.unwrap();
            let name = format!("{name}.api.test");
            dns.zone().a(&name, 60, ["127.0.0.1"]);
            records.push((0, 0, server.address().port(), name));
            service.push(server);
        }
        let records: Vec<_> =
            records.iter().map(|(priority, weight, port, name)| (*priority, *weight, *port, &**name)).collect();
        dns.zone().srv("_http._tcp.api.test", 60, records);
        Service { nodes: service, dns }
    }

    /// The option that asks its nameserver.
    pub(crate) fn resolvers(&self) -> String {
        format!("--resolvers={}", self.dns.address())
    }

    /// The program with these arguments, and this nameserver.
    pub(crate) async fn carom(&self, command: &str, args: &[&str]) -> Ran {
        carom([command, &self.resolvers()].iter().chain(args)).await
    }

    /// How many requests each node has seen.
    pub(crate) fn requests(&self) -> Vec<usize> {
        self.nodes.iter().map(Server::requests).collect()
    }
}

pub(crate) async fn get(args: &[&str]) -> Ran {
    carom(["get"].iter().chain(args)).await
}

pub(crate) async fn load(args: &[&str]) -> Ran {
    carom(["load"].iter().chain(args)).await
}

/// The JSON on stdout, a value a line.
pub(crate) fn lines_of(ran: &Ran) -> Vec<Value> {
    let value = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    ran.stdout.lines().map(value).collect()
}

/// A file that is not there, in a place where there can be one.
pub(crate) fn file(name: &str) -> PathBuf {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let folder = env!("CARGO_TARGET_TMPDIR");
    let path = PathBuf::from(format!("{folder}/{name}-{}-{number}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}
