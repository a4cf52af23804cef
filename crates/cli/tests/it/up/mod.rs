//! `carom up` as it runs, and backends for it that count who comes.

use crate::program::{PATIENCE, Running};
use crate::serving::inside;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The program, with a config that can change.
#[allow(dead_code)]
pub(crate) struct Up {
    pub(crate) running: Running,
    /// All that it said when everything ran.
    pub(crate) banner: String,
    config: PathBuf,
}

#[allow(dead_code)]
impl Up {
    /// Starts it in this folder, where `c.toml` is its config.
    pub(crate) async fn start(folder: &Path) -> Up {
        Up::of(folder, inside(folder, &["up", "-c", "c.toml"])).await
    }

    pub(crate) async fn of(folder: &Path, command: Command) -> Up {
        let mut running = Running::of(command);
        let mut banner = String::new();
        while !banner.contains("carom is up: ") {
            banner += &format!("{}\n", running.line().await);
        }
        Up { running, banner, config: folder.join("c.toml") }
    }

    /// Where this service is served.
    pub(crate) fn service(&self, name: &str) -> SocketAddr {
        self.place(&format!("service {name}: "), " on ")
    }

    /// Where it answers how it is doing.
    pub(crate) fn admin(&self) -> SocketAddr {
        self.place("admin: ", "http://")
    }

    fn place(&self, begins: &str, before: &str) -> SocketAddr {
        let line = self.banner.lines().find(|line| line.starts_with(begins)).expect("it is in the banner");
        let (_, place) = line.split_once(before).unwrap();
        place.split([' ', '/']).next().unwrap().parse().unwrap()
    }

    /// Has another config read; what is said of it.
    pub(crate) async fn reload(&mut self, config: &str) -> String {
        std::fs::write(&self.config, config).unwrap();
        self.running.signal("-HUP").await;
        loop {
            let told = self.running.told("").await;
            if told.contains(" was read again: ") || told.contains("everything stays as it was: ") {
                return told;
            }
        }
    }
}

/// A backend that says its name and what it heard, a line at a time.
#[allow(dead_code)]
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    /// How many have come so far.
    came: watch::Receiver<usize>,
    _task: JoinSet<()>,
}

#[allow(dead_code)]
impl Backend {
    pub(crate) async fn start(name: &'static str) -> Backend {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (count, came) = watch::channel(0);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.send_modify(|count| *count += 1);
                connections.spawn(echo(stream, name));
            }
        });
        Backend { address, came, _task: task }
    }

    pub(crate) fn connects(&self) -> usize {
        *self.came.borrow()
    }

    /// Waits until so many have come.
    pub(crate) async fn connected(&mut self, count: usize) {
        timeout(PATIENCE, self.came.wait_for(|came| *came >= count)).await.expect("they come").unwrap();
    }
}

async fn echo(stream: TcpStream, name: &str) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await.is_ok_and(|count| count > 0) {
        if stream.write_all(format!("{name}: {line}").as_bytes()).await.is_err() {
            return;
        }
        line.clear();
    }
}

/// An address that is nobody's for as long as this is held: it cannot be listened on, and whoever connects is refused.
#[allow(dead_code)]
pub(crate) struct Nobody(TcpSocket);

#[allow(dead_code)]
impl Nobody {
    pub(crate) fn somewhere() -> Nobody {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Nobody(socket)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }
}

/// A client of such a backend.
#[allow(dead_code)]
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

#[allow(dead_code)]
impl Client {
    /// Comes in, and has been answered once.
    pub(crate) async fn of(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).await.expect("somebody listens");
        let mut client = Client { stream: BufReader::new(stream) };
        assert!(client.say("hello").await.ends_with(": hello\n"));
        client
    }

    /// What is answered.
    pub(crate) async fn say(&mut self, line: &str) -> String {
        self.stream.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(PATIENCE, self.stream.read_line(&mut answer)).await.expect("an answer comes").unwrap();
        answer
    }

    /// Waits until it is cut off.
    pub(crate) async fn cut(&mut self) {
        // By an end, or by a reset.
        let _ = timeout(PATIENCE, self.stream.read_to_end(&mut Vec::new())).await.expect("it is cut off");
    }
}

/// Waits until nobody listens there any more.
#[allow(dead_code)]
pub(crate) async fn closed(address: SocketAddr) {
    let refused = async {
        while TcpStream::connect(address).await.is_ok() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, refused).await.expect("it is closed");
}

/// The status and the body of the answer to a request, as it is written.
#[allow(dead_code)]
pub(crate) async fn ask(address: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.expect("somebody listens");
    stream
        .write_all(format!("{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("an answer comes").unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {answer}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// A TCP service, as the config has it.
#[allow(dead_code)]
pub(crate) fn tcp(name: &str, listen: &str, backend: &Backend, more: &str) -> String {
    let at = backend.address;
    format!(
        "[[service]]\nname = \"{name}\"\nlisten = \"{listen}\"\nprotocol = \"tcp\"\nresolve = \"{at}\"\nspares = 2\n{more}\n"
    )
}

/// An HTTP service likewise.
#[allow(dead_code)]
pub(crate) fn http(name: &str, listen: &str, backend: SocketAddr, more: &str) -> String {
    let place = format!("listen = \"{listen}\"\nprotocol = \"http\"\nresolve = \"{backend}\"");
    format!("[[service]]\nname = \"{name}\"\n{place}\n{more}\n")
}
