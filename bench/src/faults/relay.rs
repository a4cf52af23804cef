//! A TCP relay before a node, for faults without a setting in the server: slow responses, resets, closes after some requests.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::sleep;

#[derive(Clone, Copy, Debug)]
pub enum Mode {
    Pass,
    /// Each request arrives this much later.
    Slow(Duration),
    /// Every k-th request to the node resets its connection.
    ResetEvery(u64),
    /// A connection is closed cleanly after its k-th response.
    CloseAfter(u64),
}

/// How requests and the ends of responses look. Checks of connections are no requests.
#[derive(Clone, Copy)]
pub struct Wire {
    pub request: &'static [u8],
    pub response_end: &'static [u8],
}

/// Dropped, it accepts no more connections.
pub struct Relay {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<io::Result<()>>,
}

struct Shared {
    target: SocketAddr,
    wire: Wire,
    mode: Mutex<Mode>,
    requests: AtomicU64,
}

impl Relay {
    pub async fn start(target: SocketAddr, wire: Wire) -> io::Result<Relay> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { target, wire, mode: Mutex::new(Mode::Pass), requests: AtomicU64::new(0) });
        let accepting = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await?;
                tokio::spawn(relay(client, Arc::clone(&accepting)));
            }
        });
        Ok(Relay { address, shared, task })
    }

    pub fn set(&self, mode: Mode) {
        *self.shared.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn relay(mut client: TcpStream, shared: Arc<Shared>) -> io::Result<()> {
    let mut server = TcpStream::connect(shared.target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut up, mut down) = (vec![0; 16 * 1024], vec![0; 16 * 1024]);
    let (mut requests, mut last_response) = (0, false);
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let bytes = &up[..read?];
                if bytes.is_empty() {
                    return Ok(());
                }
                if contains(bytes, shared.wire.request) {
                    let mode = *shared.mode.lock().unwrap_or_else(PoisonError::into_inner);
                    match mode {
                        Mode::Pass => {}
                        Mode::Slow(delay) => sleep(delay).await,
                        Mode::ResetEvery(k) => {
                            if (shared.requests.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(k) {
                                return client.set_zero_linger();
                            }
                        }
                        Mode::CloseAfter(k) => {
                            requests += 1;
                            last_response = requests >= k;
                        }
                    }
                }
                server.write_all(bytes).await?;
            }
            read = server.read(&mut down) => {
                let bytes = &down[..read?];
                if bytes.is_empty() {
                    return Ok(());
                }
                client.write_all(bytes).await?;
                if last_response && bytes.ends_with(shared.wire.response_end) {
                    return client.shutdown().await;
                }
            }
        }
    }
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}
