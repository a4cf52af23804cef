//! The server: connections are accepted, upgraded or turned away, and served until they end.

use crate::accepting::Accepting;
use crate::client::{Client, REVOKED};
use crate::mailbox::{Ending, Mailbox};
use crate::no_upgrade;
use crate::roll::{Entry, Full};
use crate::shared::Shared;
use crate::sight::Sight;
use crate::transport::Transport;
use crate::wire::Wire;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout_at;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::{StatusCode, header};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};
use tracing::Instrument;

/// Read at a time, and what each client's reading takes when nothing is read.
const READ_BUFFER: usize = 4 << 10;

/// Most answers of the WebSocket library that wait to be written.
const ANSWERS: usize = 64 << 10;

/// So many connections are told at a time that there is no room; others are dropped without a word.
const TURNED_AWAY: usize = 256;

/// How long somebody has to hear that there is no room, or that this is no place for it.
const HEARING: Duration = Duration::from_secs(2);

const SHUTDOWN: Ending = Ending::new(1001, "gateway is stopping");

/// Accepts clients and serves them, until it is told to stop; then until all have left, or the deadline has passed.
pub(crate) struct Server {
    pub(crate) shared: Arc<Shared>,
    pub(crate) accepting: Accepting,
    pub(crate) tls: Option<TlsAcceptor>,
    /// By when everybody is to have left, once that is known.
    pub(crate) stop: watch::Receiver<Option<Instant>>,
    /// Held, so that the gateway is seen until everybody has left.
    pub(crate) sight: Arc<Sight>,
}

impl Server {
    pub(crate) async fn run(mut self) {
        let listen = self.sight.listen;
        tracing::info!(%listen, tls = self.tls.is_some(), "gateway listens");
        let mut clients = JoinSet::new();
        let turned_away = Arc::new(Semaphore::new(TURNED_AWAY));
        let mut reloads = self.shared.keys.reloads();
        loop {
            let (tcp, from) = tokio::select! {
                biased;
                _ = self.stop.wait_for(Option::is_some) => break,
                Ok(()) = reloads.changed() => {
                    self.shared.roll.revoke(&self.shared.keys, &REVOKED);
                    continue;
                }
                Some(_) = clients.join_next() => continue,
                accepted = self.accepting.next() => accepted,
            };
            self.admit(&mut clients, &turned_away, tcp, from);
        }
        drop(self.accepting);
        tracing::info!(%listen, clients = self.shared.roll.len(), "gateway is stopping");
        self.shared.roll.end(SHUTDOWN);
        // Whoever dropped the gateway is not there to say when.
        let deadline = self.stop.borrow().unwrap_or_else(|| Instant::now() + HEARING);
        let everybody_left = async { while clients.join_next().await.is_some() {} };
        if timeout_at(deadline.into(), everybody_left).await.is_err() {
            clients.shutdown().await;
        }
        drop(self.sight);
        tracing::info!(%listen, "gateway has stopped");
    }

    fn admit(&self, clients: &mut JoinSet<()>, turned_away: &Arc<Semaphore>, tcp: TcpStream, from: SocketAddr) {
        let (shared, tls, address) = (Arc::clone(&self.shared), self.tls.clone(), from.ip().to_canonical());
        let Some(mailbox) = Mailbox::new(shared.options.outbox).map(Arc::new) else { return };
        match shared.roll.enter(&shared.options.limits, address, &mailbox) {
            Ok(entry) => {
                let span = tracing::debug_span!("client", client = entry.number(), %address);
                let serve = async move {
                    tracing::debug!("a client has come");
                    serve(shared, mailbox, tls, tcp, Arc::new(entry)).await;
                    tracing::debug!("a client has left");
                };
                clients.spawn(serve.instrument(span));
            }
            Err(full) => {
                shared.counters.refused.add(1);
                tracing::debug!(%address, %full, "a client is turned away");
                let Ok(permit) = Arc::clone(turned_away).try_acquire_owned() else { return };
                clients.spawn(async move {
                    let _permit = permit;
                    let deadline = Instant::now() + HEARING;
                    let _ = upgrade(&shared, tls, tcp, Some(full), deadline).await;
                });
            }
        }
    }
}

async fn serve(
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    tls: Option<TlsAcceptor>,
    tcp: TcpStream,
    entry: Arc<Entry>,
) {
    let deadline = Instant::now() + shared.options.auth_grace;
    let upgraded = upgrade(&shared, tls, tcp, None, deadline);
    let socket = tokio::select! {
        biased;
        upgraded = upgraded => match upgraded {
            Some(socket) => socket,
            None => return,
        },
        _ = poll_fn(|context| mailbox.poll_end(context)) => return,
    };
    Client::new(shared, mailbox, socket, Arc::clone(&entry), deadline).run().await;
}

type Socket = WebSocketStream<Wire<Transport>>;

/// TLS and the HTTP upgrade; `None` if that takes too long, or is answered with why there is none.
async fn upgrade(
    shared: &Shared,
    tls: Option<TlsAcceptor>,
    tcp: TcpStream,
    full: Option<Full>,
    deadline: Instant,
) -> Option<Socket> {
    let upgrade = async {
        // Ticks are written many at a time; what is written is to go.
        tcp.set_nodelay(true).ok()?;
        let transport = match tls {
            Some(tls) => Transport::Tls(Box::new(tls.accept(tcp).await.ok()?)),
            None => Transport::Plain(tcp),
        };
        let size = shared.options.limits.message_size;
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(0)
            .max_write_buffer_size(ANSWERS)
            .max_message_size(Some(size))
            .max_frame_size(Some(size));
        #[expect(clippy::result_large_err, reason = "the library's")]
        let answer = |_: &Request, response: Response| match full {
            None => Ok(response),
            Some(full) => Err(no_room(full)),
        };
        // The library drops what it is given when it fails, and somebody may be there to be told.
        let mut wire = Wire::new(transport);
        let upgraded = accept_hdr_async_with_config(&mut wire, answer, Some(config)).await.map(drop);
        match upgraded {
            Ok(()) => Some(Socket::from_raw_socket(wire, Role::Server, Some(config)).await),
            Err(error) => {
                if let Some(answer) = no_upgrade::answer(&error) {
                    wire.read_on();
                    no_upgrade::tell(&mut wire, &answer, HEARING).await;
                }
                None
            }
        }
    };
    timeout_at(deadline.into(), upgrade).await.ok()?
}

fn no_room(full: Full) -> ErrorResponse {
    let status = match full {
        Full::Clients { .. } | Full::Strangers { .. } => StatusCode::SERVICE_UNAVAILABLE,
        Full::Address { .. } | Full::StrangersOfAddress { .. } => StatusCode::TOO_MANY_REQUESTS,
    };
    let body = format!("{full}\n");
    let mut response = ErrorResponse::new(None);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, body.len().into());
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain"));
    headers.insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    headers.insert(header::RETRY_AFTER, 10.into());
    *response.body_mut() = Some(body);
    response
}
