//! The servers of one peer: three of a kind, with ports that the system chose, started once for all faults.

use super::WORK;
use super::app::{App, Trouble};
use super::fault::{EVERY, Fault};
use super::relay::{Mode, Relay, Wire};
use carom_live::nginx::{End, Nginx};
use carom_live::postgres::Postgres;
use carom_live::redis::Redis;
use carom_live::{AnyError, Server};
use std::net::SocketAddr;
use tokio::sync::OnceCell;

/// A stopped cluster that all PostgreSQL nodes are copies of. The first node makes it.
pub type Template = OnceCell<Postgres>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Postgres,
    Redis,
    Nginx,
}

enum Node {
    Postgres(Postgres),
    Redis(Redis),
    Nginx(Nginx),
}

/// Dropped, all servers are killed.
pub struct Nodes {
    kind: Kind,
    /// The first is the one that fails.
    nodes: Vec<Node>,
    /// One before each node, for faults that need it.
    relays: Vec<Relay>,
    /// An nginx that closes connections after some requests.
    closing: Option<Nginx>,
    app: App,
}

impl Nodes {
    pub async fn start(kind: Kind, template: &Template) -> Result<Nodes, AnyError> {
        let app = App::start().await?;
        let (mut nodes, mut relays) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let node = match kind {
                Kind::Postgres => {
                    let template = template.get_or_init(stopped_postgres).await;
                    Node::Postgres(template.start_copy(&["max_connections=100"]).await)
                }
                // So often it looks for commands that have waited long enough, instead of ten times a second.
                Kind::Redis => Node::Redis(Redis::start_with("hz 500\n").await),
                Kind::Nginx => Node::Nginx(nginx(app.address, "").await),
            };
            relays.push(Relay::start(node.address(), kind.wire()).await?);
            nodes.push(node);
        }
        let closing = match kind {
            Kind::Nginx => Some(nginx(app.address, &format!("keepalive_requests {EVERY};")).await),
            Kind::Postgres | Kind::Redis => None,
        };
        Ok(Nodes { kind, nodes, relays, closing, app })
    }

    /// Where clients connect to, the node that fails first.
    pub fn addresses(&self, fault: Fault) -> Vec<SocketAddr> {
        let relayed = match fault {
            Fault::Reset => true,
            Fault::Slow | Fault::Close => self.kind != Kind::Nginx,
            _ => false,
        };
        let mut addresses: Vec<SocketAddr> = if relayed {
            self.relays.iter().map(|relay| relay.address).collect()
        } else {
            self.nodes.iter().map(Node::address).collect()
        };
        if let (Fault::Close, Some(closing)) = (fault, &self.closing) {
            addresses[0] = closing.address();
        }
        addresses.truncate(fault.nodes());
        addresses
    }

    /// What the node that fails says of itself.
    pub fn faulty_port(&self, fault: Fault) -> u16 {
        match (fault, &self.closing) {
            (Fault::Close, Some(closing)) => closing.address().port(),
            _ => self.nodes[0].address().port(),
        }
    }

    /// Begins a fault.
    pub async fn fail(&mut self, fault: Fault) {
        let port = self.nodes[0].address().port();
        match fault {
            Fault::Kill => self.nodes[0].kill(),
            Fault::ShortFreeze | Fault::LongFreeze => self.nodes[0].freeze(),
            Fault::RestartOnly => self.nodes[0].stop(),
            Fault::RestartIdle => {
                self.nodes[0].stop();
                self.nodes[0].start().await;
            }
            Fault::Unavailable => self.app.set(Some((port, Trouble::Unavailable))),
            Fault::Slow if self.kind == Kind::Nginx => self.app.set(Some((port, Trouble::Slow))),
            Fault::Slow => self.relays[0].set(Mode::Slow(WORK * 9)),
            Fault::Reset => self.relays[0].set(Mode::ResetEvery(EVERY)),
            // nginx has it in its config.
            Fault::Close => self.relays[0].set(Mode::CloseAfter(EVERY)),
        }
    }

    /// Ends it; the node is healthy when this returns.
    pub async fn repair(&mut self, fault: Fault) {
        match fault {
            Fault::Kill | Fault::RestartOnly => self.nodes[0].start().await,
            Fault::ShortFreeze | Fault::LongFreeze => self.nodes[0].thaw(),
            Fault::RestartIdle => {}
            Fault::Unavailable | Fault::Slow | Fault::Reset | Fault::Close => {
                self.app.set(None);
                self.relays[0].set(Mode::Pass);
            }
        }
    }
}

async fn stopped_postgres() -> Postgres {
    let mut postgres = Postgres::start().await;
    postgres.stop();
    postgres
}

/// One that says which it is, before the application.
async fn nginx(app: SocketAddr, settings: &str) -> Nginx {
    let settings = format!("{settings}\nupstream app {{ server {app}; keepalive 64; }}");
    let location = "proxy_pass http://app;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
            proxy_set_header X-Node $server_port;
            add_header X-Node $server_port;";
    Nginx::start_with(&settings, location).await
}

impl Kind {
    /// Only HTTP responses have a status.
    pub fn has(self, fault: Fault) -> bool {
        fault != Fault::Unavailable || self == Kind::Nginx
    }

    fn wire(self) -> Wire {
        match self {
            // A row description, a row and `ReadyForQuery`, idle.
            Kind::Postgres => Wire { request: b"pg_sleep", response_end: b"Z\0\0\0\x05I" },
            Kind::Redis => Wire { request: b"BLPOP", response_end: b"$1\r\n;\r\n" },
            Kind::Nginx => Wire { request: b"GET /", response_end: b"ok\n" },
        }
    }
}

impl Node {
    fn address(&self) -> SocketAddr {
        match self {
            Node::Postgres(postgres) => postgres.address(),
            Node::Redis(redis) => redis.address(),
            Node::Nginx(nginx) => nginx.address(),
        }
    }

    fn kill(&mut self) {
        match self {
            Node::Postgres(postgres) => postgres.kill(),
            Node::Redis(redis) => redis.kill(),
            Node::Nginx(nginx) => nginx.end(End::Killed),
        }
    }

    fn stop(&mut self) {
        match self {
            Node::Postgres(postgres) => postgres.stop(),
            Node::Redis(redis) => redis.stop(),
            Node::Nginx(nginx) => nginx.end(End::AtOnce),
        }
    }

    async fn start(&mut self) {
        match self {
            Node::Postgres(postgres) => postgres.restart().await,
            Node::Redis(redis) => redis.restart().await,
            Node::Nginx(nginx) => nginx.restart().await,
        }
    }

    fn freeze(&self) {
        match self {
            Node::Postgres(postgres) => postgres.freeze(),
            Node::Redis(redis) => redis.freeze(),
            Node::Nginx(nginx) => nginx.freeze(),
        }
    }

    fn thaw(&self) {
        match self {
            Node::Postgres(postgres) => postgres.thaw(),
            Node::Redis(redis) => redis.thaw(),
            Node::Nginx(nginx) => nginx.thaw(),
        }
    }
}
