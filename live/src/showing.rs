//! A server of the dashboard that shows whatever a test wants to be seen: the page as it is in the repository, and views as told.

use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/cli/src/admin/page");

/// As `carom up` has it: the page must do with it here too.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Serves until it is dropped.
pub struct Showing {
    address: SocketAddr,
    told: watch::Sender<Told>,
    _task: JoinSet<()>,
}

/// What a test wants of it.
struct Told {
    view: Value,
    /// Like a program that is stopped: connections are there, and nothing comes of them.
    frozen: bool,
    /// Streams end with their first event.
    curtailed: bool,
    refused: Refused,
}

/// Who is told that there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    Nobody,
    /// Whoever wants to listen.
    Listeners,
    /// And who wants to see it once.
    Everybody,
}

/// As `carom up` has it.
const FULL: &str = r#"{"error":"too many listen already; /api/snapshot answers still"}"#;

impl Showing {
    pub async fn start(view: Value) -> Showing {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (sender, receiver) =
            watch::channel(Told { view, frozen: false, curtailed: false, refused: Refused::Nobody });
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut clients = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                clients.spawn(serve(stream, receiver.clone()));
            }
        });
        Showing { address, told: sender, _task: task }
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// From now on this is to be seen.
    pub fn show(&self, view: Value) {
        self.told.send_modify(|told| told.view = view);
    }

    /// From now on nobody hears anything; or again what there is to hear.
    pub fn freeze(&self, frozen: bool) {
        self.told.send_modify(|told| told.frozen = frozen);
    }

    /// From now on streams end with their first event, or go on.
    pub fn curtail(&self, curtailed: bool) {
        self.told.send_modify(|told| told.curtailed = curtailed);
    }

    /// From now on these are told that there is no place; others hear it, and those who listen hear the end of it.
    pub fn refuse(&self, refused: Refused) {
        self.told.send_modify(|told| told.refused = refused);
    }
}

impl Told {
    /// Whether a stream ends with the next event.
    fn ends(&self) -> bool {
        self.curtailed || self.refused != Refused::Nobody
    }

    fn event(&self) -> String {
        format!("event: snapshot\ndata: {}\n\n", self.view)
    }
}

async fn serve(mut stream: TcpStream, mut told: watch::Receiver<Told>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let _ = told.wait_for(|told| !told.frozen).await;
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1).unwrap_or_default();
    let refused = told.borrow().refused;
    match (path, refused) {
        ("/api/events", Refused::Nobody) => return events(stream, told).await,
        ("/api/events", Refused::Listeners | Refused::Everybody) | ("/api/snapshot", Refused::Everybody) => {
            let full = headers("503 Service Unavailable", "application/json", FULL.len()) + FULL;
            return stream.write_all(full.as_bytes()).await;
        }
        ("/api/snapshot", Refused::Nobody | Refused::Listeners) => {
            let view = told.borrow().view.to_string();
            return stream.write_all((headers("200 OK", "application/json", view.len()) + &view).as_bytes()).await;
        }
        _ => {}
    }
    let answer = match file(path) {
        Some((kind, body)) => [headers("200 OK", kind, body.len()).into_bytes(), body].concat(),
        None => headers("404 Not Found", "text/plain", 0).into_bytes(),
    };
    stream.write_all(&answer).await
}

fn headers(status: &str, kind: &str, length: usize) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\ncontent-security-policy: {POLICY}\r\n\
         x-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
    )
}

fn file(path: &str) -> Option<(&'static str, Vec<u8>)> {
    let name = if path == "/" { "index.html" } else { path.strip_prefix("/assets/")? };
    let kind = match name.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => return None,
    };
    fs::read(format!("{PAGE}/{name}")).ok().map(|body| (kind, body))
}

/// An event at once, with each change, and every second, as the program does it.
async fn events(mut stream: TcpStream, mut told: watch::Receiver<Told>) -> std::io::Result<()> {
    stream
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\nretry: 1000\n\n")
        .await?;
    loop {
        let Ok((event, ends)) = told.wait_for(|told| !told.frozen).await.map(|told| (told.event(), told.ends())) else {
            return Ok(());
        };
        stream.write_all(event.as_bytes()).await?;
        if ends || matches!(timeout(Duration::from_secs(1), told.changed()).await, Ok(Err(_))) {
            return Ok(());
        }
    }
}
