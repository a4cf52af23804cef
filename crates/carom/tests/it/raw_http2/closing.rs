//! An HTTP/2 server that closes its connections, byte by byte: h2's own server counts every request that it has read as processed.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// Types of frames, and their flags.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_STREAM_AND_HEADERS: u8 = 5;

/// `:status: 200`, from the table that both sides know.
const STATUS_200: u8 = 0x88;

/// The server. Its drop stops it.
pub(crate) struct ClosingServer {
    address: SocketAddr,
    heard: Arc<AtomicUsize>,
    accepted: Arc<AtomicUsize>,
    bodies: Bodies,
    task: AbortHandle,
}

/// The bodies of requests that were answered.
type Bodies = Arc<Mutex<Vec<Vec<u8>>>>;

/// When a connection is closed.
#[derive(Clone, Copy)]
pub(crate) struct Closes {
    /// So many requests are answered. The next one is not processed, which GOAWAY says.
    pub(crate) after: usize,
    /// The error code in GOAWAY.
    pub(crate) code: u32,
    /// GOAWAY comes with the first piece of its body, and not with its head.
    pub(crate) on_data: bool,
}

impl ClosingServer {
    /// One that is asked about each connection by its number, from 0. `None` answers every request.
    pub(crate) async fn start(conduct: impl Fn(usize) -> Option<Closes> + Send + 'static) -> ClosingServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (heard, accepted) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (hears, accepts) = (Arc::clone(&heard), Arc::clone(&accepted));
        let bodies = Bodies::default();
        let reads = Arc::clone(&bodies);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let closes = conduct(accepts.fetch_add(1, Ordering::Relaxed));
                let (hears, reads) = (Arc::clone(&hears), Arc::clone(&reads));
                // However it ends, the client hears of it.
                connections.spawn(async move { serve(socket, closes, &hears, &reads).await.is_ok() });
            }
        });
        ClosingServer { address, heard, accepted, bodies, task: task.abort_handle() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests, whether they were answered or not.
    pub(crate) fn heard(&self) -> usize {
        self.heard.load(Ordering::Relaxed)
    }

    /// The bodies of requests that were answered and had one, in the order in which they ended.
    pub(crate) fn bodies(&self) -> Vec<Vec<u8>> {
        self.bodies.lock().unwrap().clone()
    }

    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for ClosingServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    mut socket: TcpStream,
    closes: Option<Closes>,
    heard: &AtomicUsize,
    bodies: &Mutex<Vec<Vec<u8>>>,
) -> io::Result<()> {
    let mut preface = [0; PREFACE.len()];
    socket.read_exact(&mut preface).await?;
    assert_eq!(preface, PREFACE);
    write(&mut socket, SETTINGS, 0, 0, &[]).await?;
    let (mut answered, mut last, mut closing, mut leaving) = (0, 0u32, false, None);
    let mut open = BTreeMap::<u32, Vec<u8>>::new();
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head).await?;
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        socket.read_exact(&mut payload).await?;
        match kind {
            SETTINGS if flags & ACK == 0 => write(&mut socket, SETTINGS, ACK, 0, &[]).await?,
            PING if flags & ACK == 0 => write(&mut socket, PING, ACK, 0, &payload).await?,
            HEADERS => {
                heard.fetch_add(1, Ordering::Relaxed);
                match closes {
                    // On its way when the client was told.
                    _ if closing => {}
                    Some(Closes { after, code, on_data }) if answered == after => {
                        closing = true;
                        let said = [u32::to_be_bytes(last), u32::to_be_bytes(code)].concat();
                        if on_data {
                            leaving = Some(said);
                        } else {
                            write(&mut socket, GOAWAY, 0, 0, &said).await?;
                        }
                    }
                    Some(_) | None => {
                        (answered, last) = (answered + 1, stream);
                        if flags & END_STREAM == 0 {
                            open.insert(stream, Vec::new());
                        } else {
                            write(&mut socket, HEADERS, END_STREAM_AND_HEADERS, stream, &[STATUS_200]).await?;
                        }
                    }
                }
            }
            DATA => {
                if let Some(said) = leaving.take() {
                    write(&mut socket, GOAWAY, 0, 0, &said).await?;
                }
                let Some(body) = open.get_mut(&stream) else { continue };
                body.extend_from_slice(&payload);
                if flags & END_STREAM != 0 {
                    bodies.lock().unwrap().extend(open.remove(&stream));
                    write(&mut socket, HEADERS, END_STREAM_AND_HEADERS, stream, &[STATUS_200]).await?;
                }
            }
            _ => {}
        }
    }
}

async fn write(socket: &mut TcpStream, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
    let [_, length @ ..] = u32::to_be_bytes(payload.len() as u32);
    let head = [&length[..], &[kind, flags], &u32::to_be_bytes(stream)].concat();
    socket.write_all(&[&head, payload].concat()).await
}
