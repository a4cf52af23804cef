//! The load: clients that want the same topics, read as fast as they can, and count. One thread for all of them.

use super::frames::{Frames, UPGRADE, from_client};
use super::{SENT, SYMBOLS, symbol};
use crate::waits::Waits;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

/// As much is read at a time as is worth a call.
const ONE_READ: usize = 32 * 1024;
/// How many clients are set up at a time. What serving them takes meanwhile is not what they cost afterwards.
const AT_A_TIME: usize = 16;
/// What setting up all clients may take.
const SETTING_UP: Duration = Duration::from_secs(60);

/// Clients that are connected and count what they hear.
pub struct Crowd {
    /// Dropped, it takes all clients with it.
    runtime: Runtime,
    heard: Arc<Heard>,
    address: SocketAddr,
    /// `None` where nobody asks for one.
    key: Option<String>,
}

/// What each of a crowd wants, and how many there are.
#[derive(Clone, Copy)]
pub struct Wishes {
    pub clients: usize,
    pub topics: usize,
}

#[derive(Default)]
struct Heard {
    messages: AtomicU64,
    timing: AtomicBool,
    waits: Mutex<Option<Waits>>,
    /// Clients that were left by the other side.
    lost: AtomicUsize,
}

impl Crowd {
    /// Connects all clients, a few at a time.
    pub fn gather(address: SocketAddr, key: Option<String>, wishes: Wishes) -> io::Result<Crowd> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let crowd = Crowd { runtime, heard: Arc::default(), address, key };
        let turns = Arc::new(Semaphore::new(AT_A_TIME));
        let all: Vec<_> = (0..wishes.clients)
            .map(|_| {
                let joining = join(crowd.address, crowd.key.clone(), wishes.topics);
                let (heard, turns) = (Arc::clone(&crowd.heard), Arc::clone(&turns));
                crowd.runtime.spawn(async move {
                    let _turn = turns.acquire().await.map_err(io::Error::other)?;
                    let client = joining.await?;
                    tokio::spawn(client.listen(heard));
                    io::Result::Ok(())
                })
            })
            .collect();
        crowd.runtime.block_on(async {
            let deadline = tokio::time::Instant::now() + SETTING_UP;
            for client in all {
                tokio::time::timeout_at(deadline, client).await?.map_err(io::Error::other)??;
            }
            io::Result::Ok(())
        })?;
        Ok(crowd)
    }

    /// Messages per second that arrive, for so long.
    ///
    /// # Errors
    /// When a client has been left by the other side.
    pub fn count(&self, period: Duration) -> io::Result<f64> {
        let heard = || self.heard.messages.load(Ordering::Relaxed);
        let (start, before) = (Instant::now(), heard());
        std::thread::sleep(period);
        let messages_s = (heard() - before) as f64 / start.elapsed().as_secs_f64();
        self.whole().map(|()| messages_s)
    }

    /// How long messages were under way that arrived within this time.
    ///
    /// # Errors
    /// When a client has been left by the other side, or nothing has arrived.
    pub fn time(&self, period: Duration) -> io::Result<Waits> {
        let slot = || self.heard.waits.lock().unwrap_or_else(PoisonError::into_inner);
        *slot() = Some(Waits::new());
        self.heard.timing.store(true, Ordering::Relaxed);
        std::thread::sleep(period);
        self.heard.timing.store(false, Ordering::Relaxed);
        self.whole()?;
        let waits = slot().take().filter(|waits| waits.count() > 0);
        waits.ok_or_else(|| io::Error::other("nothing has arrived"))
    }

    fn whole(&self) -> io::Result<()> {
        match self.heard.lost.load(Ordering::Relaxed) {
            0 => Ok(()),
            lost => Err(io::Error::other(format!("{lost} clients were left by the other side"))),
        }
    }
}

/// A client on its socket, and what it has read of a message that is not whole yet.
struct Client {
    socket: TcpStream,
    buffer: Vec<u8>,
}

/// A client that wants everything and never reads again; until the stream is dropped.
pub fn stall(address: SocketAddr, key: Option<String>) -> io::Result<(Runtime, TcpStream)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let socket = runtime.block_on(join(address, key, SYMBOLS))?.socket;
    Ok((runtime, socket))
}

async fn join(address: SocketAddr, key: Option<String>, topics: usize) -> io::Result<Client> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let mut client = Client { socket, buffer: Vec::new() };
    let Some(key) = key else { return Ok(client) };
    client.socket.write_all(UPGRADE).await?;
    client.upgraded().await?;
    client.say(&format!(r#"{{"action":"authenticate","api_key":"{key}"}}"#)).await?;
    client.hears(r#""type":"auth","status":"success""#).await?;
    let symbols: Vec<_> = (0..topics).map(|at| format!(r#"{{"symbol":"{}","exchange":"NSE"}}"#, symbol(at))).collect();
    let symbols = symbols.join(",");
    client.say(&format!(r#"{{"action":"subscribe","mode":1,"symbols":[{symbols}]}}"#)).await?;
    client.hears(r#""type":"subscribe","status":"success""#).await?;
    Ok(client)
}

impl Client {
    async fn say(&mut self, text: &str) -> io::Result<()> {
        self.socket.write_all(&from_client(text)).await
    }

    async fn upgraded(&mut self) -> io::Result<()> {
        const END: &[u8] = b"\r\n\r\n";
        loop {
            if let Some(at) = self.buffer.windows(END.len()).position(|bytes| bytes == END) {
                if !self.buffer.starts_with(b"HTTP/1.1 101 ") {
                    return Err(io::Error::other(String::from_utf8_lossy(&self.buffer).into_owned()));
                }
                self.buffer.drain(..at + END.len());
                return Ok(());
            }
            self.fill().await?;
        }
    }

    /// Until a message begins like that, its first brace aside.
    async fn hears(&mut self, beginning: &str) -> io::Result<()> {
        loop {
            let mut frames = Frames::of(&self.buffer);
            let mut found = false;
            for text in frames.by_ref() {
                if text.get(1..).is_some_and(|text| text.starts_with(beginning.as_bytes())) {
                    found = true;
                    break;
                }
                if text.starts_with(br#"{"status":"error""#) {
                    return Err(io::Error::other(String::from_utf8_lossy(text).into_owned()));
                }
            }
            let taken = frames.taken;
            self.buffer.drain(..taken);
            if found {
                return Ok(());
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> io::Result<()> {
        self.buffer.reserve(ONE_READ);
        match self.socket.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    async fn listen(mut self, heard: Arc<Heard>) {
        while self.fill().await.is_ok() {
            let mut frames = Frames::of(&self.buffer);
            let mut messages = 0;
            if heard.timing.load(Ordering::Relaxed) {
                let now = since_epoch();
                let mut waits = heard.waits.lock().unwrap_or_else(PoisonError::into_inner);
                for text in frames.by_ref() {
                    messages += 1;
                    if let (Some(waits), Some(sent)) = (waits.as_mut(), sent(text)) {
                        waits.record(now.saturating_sub(sent));
                    }
                }
            } else {
                messages = frames.by_ref().count() as u64;
            }
            let taken = frames.taken;
            self.buffer.drain(..taken);
            heard.messages.fetch_add(messages, Ordering::Relaxed);
        }
        heard.lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// When the message says that it was published.
fn sent(text: &[u8]) -> Option<Duration> {
    let at = text.windows(SENT.len()).position(|bytes| bytes == SENT.as_bytes())? + SENT.len();
    let digits = text[at..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(Duration::from_nanos(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))))
}

/// The one clock that two processes have in common.
pub fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_when_it_was_sent() {
        assert_eq!(sent(br#"{"data":{"sent":1500,"ltp":1}}"#), Some(Duration::from_nanos(1500)));
        assert_eq!(sent(br#"{"type":"pong"}"#), None);
    }
}
