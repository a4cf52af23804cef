//! A connection to a gateway: opened, known by its key, subscribed.

use super::message::{self, Message, Welcome};
use super::request::Request;
use crate::args::ModeName;
use crate::failure::with_causes;
use crate::output::printable;
use carom::Backend;
use carom::connect::Connect;
use carom::tls::ConnectError;
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use std::net::IpAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{self, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async};

/// From nothing to being known by the key.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Gateways ping too, but as often or as rarely as they are told to.
const PING_AFTER: Duration = Duration::from_secs(25);
const PONG_TIMEOUT: Duration = Duration::from_secs(35);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes to a gateway and back, whatever carries them.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// A connection on which the symbols are subscribed.
pub(super) struct Session {
    line: Line,
    pub(super) welcome: Welcome,
}

/// A connection, and whether somebody is at its other end.
struct Line {
    socket: WebSocketStream<Box<dyn Wire>>,
    /// When anything last came, a ping among it.
    heard: Instant,
    /// When that was too long ago, and a ping was sent.
    pinged: Option<Instant>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    /// It makes no sense to try again.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Failed(String),
    #[error("nothing came for {} s, not even an answer to a ping", (PING_AFTER + PONG_TIMEOUT).as_secs())]
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
        self.line.receive().await
    }

    /// A goodbye, if there is somebody to hear it.
    pub(super) async fn close(mut self) {
        let _ = timeout(CLOSE_TIMEOUT, self.line.socket.close(None)).await;
    }
}

async fn open(request: &Request) -> Result<Session, Lost> {
    let wire = connect(request).await?;
    let (socket, _) = client_async(request.address.uri(), wire).await.map_err(|error| handshake(error, request))?;
    let mut line = Line::new(socket);
    line.send(json!({"action": "authenticate", "api_key": request.key.reveal()})).await?;
    let welcome = loop {
        match message::read(&line.receive().await?) {
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
    line.send(json!({"action": "subscribe", "symbols": symbols, "mode": mode, "depth": request.depth})).await?;
    Ok(Session { line, welcome })
}

/// To the first of the host's addresses that answers.
async fn connect(request: &Request) -> Result<Box<dyn Wire>, Lost> {
    let (host, port) = (request.address.host(), request.address.port());
    let mut problem = format!("`{host}` has no address");
    let addresses = lookup_host((host, port)).await.map_err(|error| Lost::Failed(error.to_string()))?;
    for address in addresses {
        let connected: Result<Box<dyn Wire>, String> = match &request.tls {
            Some(tls) => match tls.connect(&Backend::new(host, address)).await {
                Ok(stream) => Ok(Box::new(stream)),
                Err(error) => Err(no_tls(&error)),
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

impl Line {
    fn new(socket: WebSocketStream<Box<dyn Wire>>) -> Line {
        Line { socket, heard: Instant::now(), pinged: None }
    }

    async fn send(&mut self, request: serde_json::Value) -> Result<(), Lost> {
        self.socket.send(tungstenite::Message::text(request.to_string())).await.map_err(failed)
    }

    async fn receive(&mut self) -> Result<Utf8Bytes, Lost> {
        loop {
            // From when something came, not from when somebody last looked.
            let deadline = self.pinged.map_or(self.heard + PING_AFTER, |pinged| pinged + PONG_TIMEOUT);
            let Ok(received) = timeout_at(deadline, self.socket.next()).await else {
                self.ping().await?;
                continue;
            };
            (self.heard, self.pinged) = (Instant::now(), None);
            match received {
                None => return Err(Lost::Failed("the gateway has hung up".to_owned())),
                Some(Err(error)) => return Err(failed(error)),
                Some(Ok(tungstenite::Message::Text(text))) => return Ok(text),
                Some(Ok(tungstenite::Message::Close(frame))) => return Err(Lost::Failed(goodbye(frame))),
                Some(Ok(_)) => {}
            }
        }
    }

    /// Asks whether somebody is there, once.
    async fn ping(&mut self) -> Result<(), Lost> {
        if self.pinged.is_some() {
            return Err(Lost::Silent);
        }
        self.pinged = Some(Instant::now());
        let ping = self.socket.send(tungstenite::Message::Ping(Default::default()));
        timeout(PONG_TIMEOUT, ping).await.map_err(|_| Lost::Silent)?.map_err(failed)
    }
}

fn failed(error: tungstenite::Error) -> Lost {
    Lost::Failed(printable(&error.to_string()))
}

fn goodbye(frame: Option<CloseFrame>) -> String {
    match frame {
        Some(frame) if frame.reason.is_empty() => format!("closed by the gateway ({})", u16::from(frame.code)),
        Some(frame) => format!("closed by the gateway ({} {})", u16::from(frame.code), printable(&frame.reason)),
        None => "closed by the gateway".to_owned(),
    }
}

/// Whoever makes a certificate in one step gets one of an issuer, which vouches for others and not for itself.
fn no_tls(error: &ConnectError) -> String {
    match error {
        ConnectError::Issuer { name, .. } => {
            let alternative = if name.parse::<IpAddr>().is_ok() { "IP" } else { "DNS" };
            format!(
                "{error}; one that works for both sides: \
                 openssl req -x509 -newkey rsa:2048 -nodes -days 365 -keyout key.pem -out chain.pem -subj /CN=carom \
                 -addext basicConstraints=critical,CA:FALSE -addext subjectAltName={alternative}:{name}"
            )
        }
        error => with_causes(error),
    }
}

/// Gateways that are full say so in an answer to the handshake.
fn handshake(error: tungstenite::Error, request: &Request) -> Lost {
    use tungstenite::error::ProtocolError;
    let response = match &error {
        tungstenite::Error::Http(response) => response,
        // Whoever wants TLS answers with an alert, which is no HTTP, or with nothing.
        tungstenite::Error::Protocol(ProtocolError::HttparseError(_) | ProtocolError::HandshakeIncomplete)
            if !request.address.is_secure() =>
        {
            return Lost::Failed(format!("{error}; if it speaks TLS, it is perhaps wss://"));
        }
        error => return Lost::Failed(printable(&error.to_string())),
    };
    let body = response.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    let said: String = printable(body.trim()).chars().take(200).collect();
    let gap = if said.is_empty() { "" } else { ": " };
    Lost::Failed(format!("the answer is {}{gap}{said}", response.status()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{DuplexStream, duplex};
    use tokio::time::sleep;
    use tokio_tungstenite::tungstenite::protocol::Role;

    async fn line() -> (Line, DuplexStream) {
        let (near, far) = duplex(4096);
        let wire: Box<dyn Wire> = Box::new(near);
        (Line::new(WebSocketStream::from_raw_socket(wire, Role::Client, None).await), far)
    }

    #[tokio::test(start_paused = true)]
    async fn a_gateway_that_answers_pings_is_there_for_as_long_as_it_likes() {
        let (mut line, far) = line().await;
        let mut far = WebSocketStream::from_raw_socket(far, Role::Server, None).await;
        let gateway = async {
            // Pings are answered by whoever reads.
            let quiet = async { while far.next().await.is_some() {} };
            assert!(timeout(Duration::from_secs(3600), quiet).await.is_err());
            far.send(tungstenite::Message::text("late")).await.unwrap();
        };
        let (received, ()) = tokio::join!(line.receive(), gateway);
        assert_eq!(received.unwrap().as_str(), "late");
    }

    #[tokio::test(start_paused = true)]
    async fn a_gateway_that_does_not_answer_is_gone_though_nobody_looked_for_a_while() {
        let (mut line, _far) = line().await;
        sleep(Duration::from_secs(3600)).await;
        let asked = Instant::now();
        assert!(matches!(line.receive().await, Err(Lost::Silent)));
        assert_eq!(asked.elapsed().as_secs(), PONG_TIMEOUT.as_secs(), "it has its time to answer");
    }
}
