//! A connection to a gateway: opened, known by its key, subscribed.

use super::message::{self, Message, Welcome};
use super::request::Request;
use crate::args::ModeName;
use crate::failure::with_causes;
use crate::output::printable;
use carom::Backend;
use carom::connect::Connect;
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{self, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async};

/// From nothing to being known by the key.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Gateways ping every 20 s.
const SILENCE: Duration = Duration::from_secs(60);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes to a gateway and back, whatever carries them.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// A connection on which the symbols are subscribed.
pub(super) struct Session {
    socket: WebSocketStream<Box<dyn Wire>>,
    /// When anything last came, a ping among it.
    heard: Instant,
    pub(super) welcome: Welcome,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    /// It makes no sense to try again.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Failed(String),
    #[error("nothing came for {} s", SILENCE.as_secs())]
    Silent,
    #[error("no connection within {} s", OPEN_TIMEOUT.as_secs())]
    TimedOut,
}

impl Session {
    pub(super) async fn open(request: &Request) -> Result<Session, Lost> {
        timeout(OPEN_TIMEOUT, open(request)).await.unwrap_or(Err(Lost::TimedOut))
    }

    /// The next text. Cancelling it loses none.
    pub(super) async fn receive(&mut self) -> Result<Utf8Bytes, Lost> {
        receive(&mut self.socket, &mut self.heard).await
    }

    /// A goodbye, if there is somebody to hear it.
    pub(super) async fn close(mut self) {
        let _ = timeout(CLOSE_TIMEOUT, self.socket.close(None)).await;
    }
}

async fn open(request: &Request) -> Result<Session, Lost> {
    let wire = connect(request).await?;
    let (mut socket, _) = client_async(&request.address.uri, wire).await.map_err(handshake)?;
    let mut heard = Instant::now();
    send(&mut socket, json!({"action": "authenticate", "api_key": request.key.reveal()})).await?;
    let welcome = loop {
        match message::read(&receive(&mut socket, &mut heard).await?) {
            Some(Message::Welcome(welcome)) => break welcome,
            Some(Message::BadKey(problem)) => {
                return Err(Lost::Refused(format!("the gateway refuses the key: {problem}")));
            }
            Some(Message::Error(problem)) => return Err(Lost::Refused(format!("the gateway says: {problem}"))),
            Some(Message::Tick(_)) | Some(Message::Subscribed { .. }) | None => {}
        }
    };
    let symbols: Vec<_> =
        request.symbols.iter().map(|(exchange, symbol)| json!({"exchange": exchange, "symbol": symbol})).collect();
    let mode = match request.mode {
        ModeName::Ltp => 1,
        ModeName::Quote => 2,
        ModeName::Depth => 3,
    };
    send(&mut socket, json!({"action": "subscribe", "symbols": symbols, "mode": mode, "depth": request.depth})).await?;
    Ok(Session { socket, heard, welcome })
}

/// To the first of the host's addresses that answers.
async fn connect(request: &Request) -> Result<Box<dyn Wire>, Lost> {
    let (host, port) = (&*request.address.host, request.address.port);
    let mut problem = format!("`{host}` has no address");
    let addresses = lookup_host((host, port)).await.map_err(|error| Lost::Failed(error.to_string()))?;
    for address in addresses {
        let connected: Result<Box<dyn Wire>, String> = match &request.tls {
            Some(tls) => match tls.connect(&Backend::new(host, address)).await {
                Ok(stream) => Ok(Box::new(stream)),
                Err(error) => Err(with_causes(&error)),
            },
            None => match TcpStream::connect(address).await {
                Ok(stream) => Ok(Box::new(stream)),
                Err(error) => Err(error.to_string()),
            },
        };
        match connected {
            Ok(wire) => return Ok(wire),
            Err(error) => problem = error,
        }
    }
    Err(Lost::Failed(problem))
}

async fn send(socket: &mut WebSocketStream<Box<dyn Wire>>, request: serde_json::Value) -> Result<(), Lost> {
    socket.send(tungstenite::Message::text(request.to_string())).await.map_err(|error| Lost::Failed(error.to_string()))
}

async fn receive(socket: &mut WebSocketStream<Box<dyn Wire>>, heard: &mut Instant) -> Result<Utf8Bytes, Lost> {
    // From when something came, not from when somebody last looked.
    while let Some(received) = timeout_at(*heard + SILENCE, socket.next()).await.map_err(|_| Lost::Silent)? {
        *heard = Instant::now();
        match received.map_err(|error| Lost::Failed(error.to_string()))? {
            tungstenite::Message::Text(text) => return Ok(text),
            tungstenite::Message::Close(frame) => return Err(Lost::Failed(goodbye(frame))),
            _ => {}
        }
    }
    Err(Lost::Failed("the gateway has hung up".to_owned()))
}

fn goodbye(frame: Option<CloseFrame>) -> String {
    match frame {
        Some(frame) if frame.reason.is_empty() => format!("closed by the gateway ({})", u16::from(frame.code)),
        Some(frame) => format!("closed by the gateway ({} {})", u16::from(frame.code), printable(&frame.reason)),
        None => "closed by the gateway".to_owned(),
    }
}

/// Gateways that are full say so in an answer to the handshake.
fn handshake(error: tungstenite::Error) -> Lost {
    let tungstenite::Error::Http(response) = &error else { return Lost::Failed(error.to_string()) };
    let body = response.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    let said: String = printable(body.trim()).chars().take(200).collect();
    let gap = if said.is_empty() { "" } else { ": " };
    Lost::Failed(format!("the answer is {}{gap}{said}", response.status()))
}
