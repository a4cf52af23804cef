//! A redis-server, with or without TLS. Pools log in as users named like them, or not at all: so it can say
//! whose connections it has.

use crate::certificates::Identity;
use crate::process::{Folder, Port, Running, command, signal, tail};
use crate::{AnyError, Server, ms, resp, until};
use carom::Backend;
use carom::connect::Connect;
use carom::tcp::Tcp;
use carom::tls::Tls;
use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncRead, AsyncWrite};

/// Whoever asks the server questions; not counted.
const OBSERVER: &str = "observer";

pub struct Redis {
    running: Option<Running>,
    port: Port,
    folder: Folder,
    config: PathBuf,
    users: Vec<String>,
    tls: Option<Tls>,
}

/// What a server asks of those who connect, beside TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// Nothing.
    Anyone,
    /// A certificate by the authority that issued the server's.
    Certified,
    /// The same, in the older version of TLS, in which the server's opinion of it is part of the handshake.
    CertifiedTls12,
}

impl Redis {
    /// A server in the clear, where these users exist, without passwords.
    pub async fn start(users: &[&str]) -> Redis {
        Redis::begin(Port::chosen(), Folder::new("redis", None), users, "", None).await
    }

    /// One that has a password for who does not name another user.
    pub async fn start_with_password(password: &str) -> Redis {
        Redis::start_with(&format!("requirepass {password}\n")).await
    }

    /// One with these lines in its config.
    pub async fn start_with(lines: &str) -> Redis {
        Redis::begin(Port::chosen(), Folder::new("redis", None), &[], lines, None).await
    }

    /// One that speaks nothing but TLS, and is observed with `tls`.
    pub async fn start_tls(identity: &Identity, clients: Clients, tls: Tls) -> Redis {
        let (folder, port) = (Folder::new("redis-tls", None), Port::chosen());
        let [certificate, key, root] =
            [("server.pem", &identity.certificate), ("server.key", &identity.key), ("root.pem", &identity.root)]
                .map(|(name, pem)| folder.write(name, pem).display().to_string());
        let mut more = format!("tls-port {}\n", port.address().port());
        let _ = writeln!(more, "tls-cert-file {certificate}\ntls-key-file {key}\ntls-ca-cert-file {root}");
        more += match clients {
            Clients::Anyone => "tls-auth-clients no\n",
            Clients::Certified => "tls-auth-clients yes\n",
            Clients::CertifiedTls12 => "tls-auth-clients yes\ntls-protocols TLSv1.2\n",
        };
        Redis::begin(port, folder, &[], &more, Some(tls)).await
    }

    async fn begin(port: Port, folder: Folder, users: &[&str], more: &str, tls: Option<Tls>) -> Redis {
        let clear = if tls.is_some() { 0 } else { port.address().port() };
        let mut text = format!("bind 127.0.0.1\nport {clear}\ndir {}\n", folder.path().display());
        text += "save \"\"\nappendonly no\ndaemonize no\nmaxclients 200\n";
        for user in users.iter().chain(&[OBSERVER]) {
            let _ = writeln!(text, "user {user} on nopass ~* &* +@all");
        }
        text += more;
        let config = folder.write("redis.conf", &text);
        let users = users.iter().map(|user| user.to_string()).collect();
        let mut redis = Redis { running: None, port, folder, config, users, tls };
        redis.restart().await;
        redis
    }

    /// Where a client that takes URLs finds it, as the user of a pool.
    pub fn url(backend: &Backend, user: &str) -> String {
        format!("redis://{user}:any@{}", backend.socket_addr())
    }

    /// Stops it where it stands: the system still accepts connections for it, and nobody answers.
    pub fn freeze(&self) {
        signal("STOP", &[self.running.as_ref().expect("it runs").id()]);
    }

    pub fn thaw(&self) {
        signal("CONT", &[self.running.as_ref().expect("it runs").id()]);
    }

    /// SIGTERM: it closes its connections and ends. It is gone when this returns.
    pub fn stop(&mut self) {
        let mut running = self.running.take().expect("it runs");
        signal("TERM", &[running.id()]);
        running.wait(ms(10_000));
        assert!(running.ended().is_some(), "redis-server does not stop:\n{}", tail(&self.log()));
    }

    /// What the server answers to a question of the observer's.
    async fn ask(&self, words: &[&str]) -> Result<String, AnyError> {
        async fn ask<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, words: &[&str]) -> Result<String, AnyError> {
            resp::command(&mut stream, &["AUTH", OBSERVER, "any"]).await?;
            resp::command(&mut stream, words).await
        }
        let backend = Backend::fixed(self.address());
        match &self.tls {
            Some(tls) => ask(tls.connect(&backend).await?, words).await,
            None => ask(Tcp::default().connect(&backend).await?, words).await,
        }
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

impl Server for Redis {
    fn address(&self) -> SocketAddr {
        self.port.address()
    }

    fn kill(&mut self) {
        self.running.take().expect("it runs").kill();
    }

    async fn restart(&mut self) {
        assert!(self.running.is_none(), "it runs");
        let mut command = command(&program(), None, &self.folder);
        command.arg(&self.config);
        let mut running = Running::start(command, &self.log());
        until(ms(20_000), async || {
            if let Some(status) = running.ended() {
                panic!("redis-server ended ({status}):\n{}", tail(&self.log()));
            }
            self.ask(&["PING"]).await
        })
        .await;
        self.running = Some(running);
    }

    async fn connections(&self, pool: &str) -> usize {
        let clients = self.ask(&["CLIENT", "LIST"]).await.expect("it is there to be counted");
        // Who does not log in is this user.
        let is_user = self.users.iter().any(|user| user == pool);
        let user = format!("user={}", if is_user { pool } else { "default" });
        clients.lines().filter(|client| client.split(' ').any(|field| field == user)).count()
    }
}

fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("redis-server")).find(|file| is_file(file));
    found.unwrap_or_else(|| "/usr/bin/redis-server".into())
}

fn is_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file())
}
