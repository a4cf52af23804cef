//! The admin listener as its clients see it: answers to the last header, and events one by one.
use crate::program::PATIENCE;
use serde_json::Value;
use std::net::SocketAddr;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub(crate) const ANY: &str = "127.0.0.1:0";

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In lower case, in their order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The same whenever it is said.
    pub(crate) fn undated(mut self) -> Answer {
        self.headers.retain(|(name, _)| name != "date");
        self
    }

    fn parse(text: &str) -> Answer {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text}"));
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        Answer { status, headers: lines.map(|line| header(line).expect("a header")).collect(), body: body.to_owned() }
    }
}

/// Sends bytes as they are, and reads all that comes back until the end.
pub(crate) async fn say(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("somebody listens");
    // It may have had enough before it has heard all.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("it ends");
    String::from_utf8_lossy(&answer).into_owned()
}

/// The same with nothing after it: whoever waits for more is told that there is none.
pub(crate) async fn say_and_end(address: SocketAddr, bytes: &[u8]) -> String {
    let (mut read, mut write) = TcpStream::connect(address).await.expect("somebody listens").into_split();
    let (_, answers) = tokio::join!(
        async {
            let _ = write.write_all(bytes).await;
            let _ = write.shutdown().await;
        },
        async {
            let mut answers = Vec::new();
            let _ = timeout(PATIENCE, read.read_to_end(&mut answers)).await.expect("it ends");
            answers
        }
    );
    String::from_utf8_lossy(&answers).into_owned()
}

/// The answer to this, with these lines of its head after the first and no others.
pub(crate) async fn ask(address: SocketAddr, request: &str, head: &[&str]) -> Answer {
    let head: String = head.iter().map(|line| format!("{line}\r\n")).collect();
    Answer::parse(&say(address, format!("{request}\r\n{head}connection: close\r\n\r\n").as_bytes()).await)
}

/// The answer to an ordinary question, with these lines besides.
pub(crate) async fn get(address: SocketAddr, path: &str, head: &[&str]) -> Answer {
    ask(address, &format!("GET {path} HTTP/1.1"), &[&["host: localhost"], head].concat()).await
}

/// Somebody who listens to events.
pub(crate) struct Listener {
    stream: BufReader<TcpStream>,
    /// What came and is no whole event yet.
    heard: String,
    pub(crate) status: u16,
}

impl Listener {
    /// Asks for events, and has been answered.
    pub(crate) async fn start(address: SocketAddr, head: &[&str]) -> Listener {
        let stream = TcpStream::connect(address).await.expect("somebody listens");
        let mut listener = Listener { stream: BufReader::new(stream), heard: String::new(), status: 0 };
        let head: String = head.iter().map(|line| format!("{line}\r\n")).collect();
        let request = format!("GET /api/events HTTP/1.1\r\nhost: localhost\r\n{head}\r\n");
        listener.stream.write_all(request.as_bytes()).await.unwrap();
        listener.status = listener.line().await.split(' ').nth(1).expect("a status").parse().unwrap();
        while !listener.line().await.is_empty() {}
        listener
    }

    /// The next event, or none when they have ended as they should.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.heard.split_once("\n\n") {
                let mut lines = event.lines();
                assert_eq!((lines.next(), lines.next()), (Some("retry: 1000"), Some("event: snapshot")), "{event}");
                let view = serde_json::from_str(lines.next().unwrap().strip_prefix("data: ").unwrap()).unwrap();
                assert_eq!(lines.next(), None, "{event}");
                self.heard = rest.to_owned();
                return Some(view);
            }
            let piece = self.piece().await;
            if piece.is_empty() {
                assert_eq!(self.heard, "", "an event was cut short");
                return None;
            }
            self.heard += &piece;
        }
    }

    /// Waits for an event like that.
    pub(crate) async fn until(&mut self, what: &str, like: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let waiting = async {
            loop {
                last = self.next().await.unwrap_or_else(|| panic!("they end before {what}"));
                if like(&last) {
                    return;
                }
            }
        };
        assert!(timeout(PATIENCE, waiting).await.is_ok(), "{what} does not come: {last}");
        last
    }

    /// The next chunk; empty at the end.
    async fn piece(&mut self) -> String {
        let line = self.line().await;
        let size = usize::from_str_radix(&line, 16).unwrap_or_else(|_| panic!("no chunk: {line:?}"));
        let mut piece = vec![0; size + 2];
        timeout(PATIENCE, self.stream.read_exact(&mut piece)).await.expect("all of it comes").unwrap();
        piece.truncate(size);
        String::from_utf8(piece).unwrap()
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        timeout(PATIENCE, self.stream.read_line(&mut line)).await.expect("something comes").unwrap();
        assert!(line.ends_with("\r\n"), "it was cut short: {line:?}");
        line.trim_end().to_owned()
    }
}
