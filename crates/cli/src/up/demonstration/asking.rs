//! Some who ask the proxy, and know nothing of nodes: a new connection for each request, no second attempt.

use super::nodes::HEADER;
use super::story::Event;
use futures_util::future::join_all;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};

const EVERY: Duration = Duration::from_millis(200);
/// So many at a time, so that every node has something to do.
const TOGETHER: usize = 3;
const PATIENCE: Duration = Duration::from_secs(10);
/// Nodes say much less.
const LONGEST: u64 = 64 << 10;

/// Asks again and again, and tells what became of it.
pub(super) async fn ask(proxy: SocketAddr, tell: mpsc::Sender<Event>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for event in join_all((0..TOGETHER).map(|_| answered(proxy))).await {
            if tell.send(event).await.is_err() {
                return;
            }
        }
    }
}

/// What becomes of one request.
async fn answered(proxy: SocketAddr) -> Event {
    let began = Instant::now();
    match timeout(PATIENCE, once(proxy)).await {
        Ok(Ok(node)) => Event::Answered { node, took: began.elapsed() },
        Ok(Err(error)) => Event::Failed(error.to_string()),
        Err(_) => Event::Failed(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

/// Which node answered.
async fn once(proxy: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(proxy).await?;
    let request = format!("GET / HTTP/1.1\r\nHost: {proxy}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer).await?;
    read(&String::from_utf8_lossy(&answer)).map_err(io::Error::other)
}

/// The name in the head of an answer.
fn read(answer: &str) -> Result<String, String> {
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("the answer has no end")?;
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(format!("{status}: {}", body.trim()));
    }
    let named = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case(HEADER.as_str()).then(|| value.trim().to_owned())
    };
    lines.find_map(named).ok_or_else(|| "nobody says who answered".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_answered_is_known_by_name() {
        let node = read("HTTP/1.1 200 OK\r\nvia: 1.1 carom\r\nX-Node: node-2\r\n\r\n{}");
        assert_eq!(node.as_deref(), Ok("node-2"));
        let refused = read("HTTP/1.1 502 Bad Gateway\r\n\r\n{\"error\":\"connect\"}\n");
        assert_eq!(refused, Err("HTTP/1.1 502 Bad Gateway: {\"error\":\"connect\"}".to_owned()));
        assert!(read("HTTP/1.1 200 OK\r\nx-no").is_err() && read("HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
