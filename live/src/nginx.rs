//! An nginx of its own that says which one it is, over HTTP/1 or over TLS with HTTP/2.

use crate::process::{Folder, Port, Running, command, signal, tail};
use crate::{ms, until};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::net::TcpStream;

/// How one is ended.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// SIGQUIT: what is being served is served to its end, idle connections are closed.
    Gracefully,
    /// SIGTERM: at once, in whatever state connections are.
    AtOnce,
    /// SIGKILL, to all its processes.
    Killed,
}

pub struct Nginx {
    running: Option<Running>,
    port: Port,
    folder: Folder,
    config: PathBuf,
}

impl Nginx {
    /// One that answers every request with its name, on connections that are kept for so many requests.
    pub async fn start(name: &str, requests_per_connection: usize) -> Nginx {
        Nginx::with(name, &format!("keepalive_requests {requests_per_connection};"), |port| format!("listen {port};"))
            .await
    }

    /// The same over HTTP/2 without TLS.
    pub async fn start_h2c(name: &str, requests_per_connection: usize) -> Nginx {
        let settings = format!("keepalive_requests {requests_per_connection};");
        Nginx::with(name, &settings, |port| format!("listen {port} http2;")).await
    }

    /// The same over TLS, with HTTP/2 for who asks for it.
    pub async fn start_tls(name: &str, certificate: &str, key: &str) -> Nginx {
        let folder = Folder::new("nginx", None);
        let (certificate, key) = (folder.write("certificate.pem", certificate), folder.write("key.pem", key));
        let settings = format!("ssl_certificate {};\nssl_certificate_key {};", certificate.display(), key.display());
        Nginx::in_folder(folder, name, &settings, |port| format!("listen {port} ssl http2;")).await
    }

    async fn with(name: &str, settings: &str, listen: impl Fn(SocketAddr) -> String) -> Nginx {
        Nginx::in_folder(Folder::new("nginx", None), name, settings, listen).await
    }

    async fn in_folder(folder: Folder, name: &str, settings: &str, listen: impl Fn(SocketAddr) -> String) -> Nginx {
        let port = Port::chosen();
        // `$server_protocol` is what this node was spoken to with, whatever the client of a proxy speaks.
        let location = format!(
            "add_header X-Node {name};
            add_header X-Protocol $server_protocol;
            add_header X-Host $http_host;
            return 200 \"{name}\\n\";"
        );
        Nginx::begin(folder, "worker_processes 1;", settings, &listen(port.address()), port, &location).await
    }

    /// One with these directives of `http` and of `location /`. It is one process, so that nothing of it outlives a program that
    /// is killed.
    pub async fn start_with(settings: &str, location: &str) -> Nginx {
        let (folder, port) = (Folder::new("nginx", None), Port::chosen());
        let listen = format!("listen {};", port.address());
        Nginx::begin(folder, "master_process off;", settings, &listen, port, location).await
    }

    async fn begin(folder: Folder, processes: &str, settings: &str, listen: &str, port: Port, location: &str) -> Nginx {
        let text = format!(
            r#"daemon off;
pid nginx.pid;
error_log log info;
{processes}
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    {settings}
    server {{
        {listen}
        location / {{
            {location}
        }}
    }}
}}
"#
        );
        let config = folder.write("nginx.conf", &text);
        let mut nginx = Nginx { running: None, port, folder, config };
        nginx.restart().await;
        nginx
    }

    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Ends it; nobody is left when this returns.
    pub fn end(&mut self, how: End) {
        let mut running = self.running.take().expect("it runs");
        match how {
            End::Gracefully => signal("QUIT", &[running.id()]),
            End::AtOnce => signal("TERM", &[running.id()]),
            // A worker would live on, and serve, without its master. A stopped master starts no other.
            End::Killed => {
                signal("STOP", &[running.id()]);
                signal("KILL", &children(running.id()));
                return running.kill();
            }
        }
        running.wait(ms(15_000));
        assert!(running.ended().is_some(), "nginx does not end:\n{}", tail(&self.log()));
    }

    /// Stops it and its worker where they stand: the system still accepts connections, and no response is sent.
    pub fn freeze(&self) {
        signal("STOP", &self.processes());
    }

    pub fn thaw(&self) {
        signal("CONT", &self.processes());
    }

    fn processes(&self) -> Vec<u32> {
        let own = self.running.as_ref().expect("it runs").id();
        [own].into_iter().chain(children(own)).collect()
    }

    /// Starts it where it was, and waits until it serves.
    pub async fn restart(&mut self) {
        assert!(self.running.is_none(), "it runs");
        let mut command = command(&program(), None, &self.folder);
        command.arg("-p").arg(self.folder.path()).arg("-c").arg(&self.config).args(["-e", "log"]);
        let mut running = Running::start(command, &self.log());
        until(ms(15_000), async || {
            if let Some(status) = running.ended() {
                panic!("nginx ended ({status}):\n{}", tail(&self.log()));
            }
            TcpStream::connect(self.address()).await.map(drop)
        })
        .await;
        self.running = Some(running);
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

fn children(process: u32) -> Vec<u32> {
    let listed = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    listed.split_whitespace().map(|child| child.parse().expect("a number")).collect()
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if self.running.is_some() {
            self.end(End::Killed);
        }
    }
}

/// Where it is, also for users whose path leaves out what administrators use.
fn program() -> PathBuf {
    let usual = Path::new("/usr/sbin/nginx");
    if usual.exists() { usual.into() } else { "nginx".into() }
}
