//! Garbage on the wire between a client and the simulated exchange, either way: an error, and nothing panics, hangs or grows.
//!
//! `CAROM_SEED=n` reruns a failure, `CAROM_SCHEDULES=n` runs more.

use carom::feed::{Adapter, Change, Instrument, Level, Mode, Tick};
use carom_core::random::Random;
use carom_gateway::credential::Credential;
use carom_gateway::simulated::{Exchange, Options, Simulated, UpstreamError};
use futures_util::{SinkExt, StreamExt};
use testkit::cases::{bytes, cases};
use testkit::wait::soon;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::{WebSocketStream, accept_async, client_async};

/// Something right with a few bytes wrong.
fn bent(random: &mut Random, right: &str) -> Vec<u8> {
    let mut bytes = right.as_bytes().to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        match random.below(4) {
            0 => bytes[at] = random.bits() as u8,
            1 => bytes.truncate(at + 1),
            2 => bytes[at] = b"{}[]\",:019-.e"[random.below(13)],
            _ => bytes.insert(at, b'9'),
        }
    }
    bytes
}

/// As text if it is text.
fn message(bytes: Vec<u8>) -> Message {
    match String::from_utf8(bytes) {
        Ok(text) => Message::text(text),
        Err(error) => Message::binary(error.into_bytes()),
    }
}

async fn connect(exchange: &Exchange) -> WebSocketStream<TcpStream> {
    let socket = TcpStream::connect(exchange.local_addr()).await.unwrap();
    client_async(exchange.url(), socket).await.unwrap().0
}

/// Reads until the exchange closes it; the code, if it said one.
async fn closed(socket: &mut WebSocketStream<TcpStream>) -> Option<CloseCode> {
    soon(async {
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Close(frame) = message {
                return frame.map(|frame| frame.code);
            }
        }
        None
    })
    .await
}

/// Asks for something right and waits for its answer: this connection, and so the exchange, works.
async fn works(socket: &mut WebSocketStream<TcpStream>) {
    socket.send(Message::text(SUBSCRIBE)).await.unwrap();
    let answered = soon(async {
        loop {
            let message = socket.next().await.unwrap().unwrap();
            if message.to_text().is_ok_and(|text| text.starts_with("{\"ack\":{\"id\":1,")) {
                return message.into_text().unwrap();
            }
        }
    })
    .await;
    assert_eq!(answered, "{\"ack\":{\"id\":1,\"refused\":[]}}");
}

const SUBSCRIBE: &str =
    r#"{"subscribe":{"id":1,"symbols":[{"key":1,"exchange":"NSE","symbol":"SBIN","mode":2,"depth":5}]}}"#;
const UNSUBSCRIBE: &str = r#"{"unsubscribe":{"id":2,"symbols":[{"exchange":"NSE","symbol":"SBIN"}]}}"#;

#[tokio::test]
async fn an_exchange_survives_whatever_its_clients_say() {
    let exchange = Exchange::start(Options::default().max_connections(2)).await.unwrap();
    let mut good = connect(&exchange).await;
    for (_case, mut random) in cases(300) {
        let mut bad = connect(&exchange).await;
        for _ in 0..5 {
            let said = match random.below(3) {
                0 => bytes(&mut random, 300),
                1 => bent(&mut random, SUBSCRIBE),
                _ => bent(&mut random, UNSUBSCRIBE),
            };
            if bad.send(message(said)).await.is_err() {
                break;
            }
        }
        // Understood by chance or not: the last word is not.
        let _ = bad.send(Message::text("and that was that")).await;
        closed(&mut bad).await;
        works(&mut good).await;
        soon(exchange.until(|snapshot| snapshot.connections.len() == 1)).await;
    }
}

#[tokio::test]
async fn an_exchange_says_why_it_ends_a_connection() {
    let exchange = Exchange::start(Options::default().max_batch(2)).await.unwrap();
    let entry = r#"{"exchange":"NSE","symbol":"SBIN"}"#;
    let many = format!(r#"{{"unsubscribe":{{"id":1,"symbols":[{entry},{entry},{entry}]}}}}"#);
    for nonsense in ["", "[]", "{}", r#"{"subscribe":7}"#, r#"{"sing":{"id":1}}"#, &"[".repeat(2_000), &many] {
        let mut socket = connect(&exchange).await;
        socket.send(Message::text(nonsense)).await.unwrap();
        assert_eq!(closed(&mut socket).await, Some(CloseCode::Policy), "{nonsense}");
    }
    let mut socket = connect(&exchange).await;
    // It stops reading in the middle of it.
    let _ = socket.send(Message::text("x".repeat(1_000_000))).await;
    closed(&mut socket).await;
    works(&mut connect(&exchange).await).await;
}

#[tokio::test]
async fn handshakes_that_are_none_take_nothing_from_those_that_are() {
    let exchange = Exchange::start(Options::default().max_connections(1)).await.unwrap();
    for (_case, mut random) in cases(100) {
        let mut socket = TcpStream::connect(exchange.local_addr()).await.unwrap();
        let said = match random.below(2) {
            0 => bytes(&mut random, 500),
            _ => bent(&mut random, "GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"),
        };
        let _ = socket.write_all(&said).await;
        let _ = socket.shutdown().await;
        // It is ended by the exchange, in whatever way.
        let _ = soon(socket.read_to_end(&mut Vec::new())).await;
    }
    soon(exchange.until(|snapshot| snapshot.connections.is_empty())).await;
    works(&mut connect(&exchange).await).await;
}

/// An exchange that says this after a handshake, and this to every request.
async fn scripted(first: Option<Message>, answer: Option<&'static str>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut socket = accept_async(listener.accept().await.unwrap().0).await.unwrap();
        if let Some(first) = first {
            let _ = socket.send(first).await;
        }
        while let Some(Ok(message)) = socket.next().await {
            if let (Some(answer), Message::Text(_)) = (answer, message) {
                let _ = socket.send(Message::text(answer)).await;
            }
        }
    });
    url
}

fn adapter(url: &str) -> Simulated {
    Simulated::new(url, Credential::fixed("token")).unwrap()
}

/// What comes of reading, once.
async fn read(said: Message) -> Result<Vec<Tick>, UpstreamError> {
    let adapter = adapter(&scripted(Some(said), None).await);
    let (_writer, mut reader) = soon(adapter.open()).await?;
    let mut ticks = Vec::new();
    soon(adapter.read(&mut reader, &mut ticks)).await?;
    Ok(ticks)
}

#[tokio::test]
async fn an_adapter_survives_whatever_an_exchange_says() {
    let right = [
        r#"{"ticks":[{"key":1,"mode":2,"payload":{"ltp":812.05}},{"key":2,"mode":1,"payload":{"ltp":4.5}}]}"#,
        r#"{"ack":{"id":1,"refused":[{"at":0,"reason":"no"}]}}"#,
        r#"{"beat":1800000000000}"#,
    ];
    for (_case, mut random) in cases(300) {
        let said = match random.below(4) {
            0 => bytes(&mut random, 300),
            which => bent(&mut random, right[which - 1]),
        };
        if let Ok(ticks) = read(message(said)).await {
            assert_eq!(ticks, [], "nothing was subscribed to");
        }
    }
}

#[tokio::test]
async fn an_adapter_says_what_was_wrong() {
    let cases = [
        (Message::text(""), "not a message"),
        (Message::text("{\"ticks\":7}"), "not a message"),
        (Message::text("[".repeat(200_000)), "not a message"),
        (Message::binary(vec![1, 2, 3]), "a binary message"),
        (Message::text(r#"{"ticks":[{"key":1,"mode":9,"payload":{}}]}"#), "an unknown mode"),
        (Message::text(r#"{"ack":{"id":1,"refused":[]}}"#), "what was not asked"),
        (Message::text("x".repeat(300_000)), "the connection to the upstream failed"),
        (Message::Close(None), "closed the connection (1005)"),
    ];
    for (said, wrong) in cases {
        let error = read(said).await.unwrap_err().to_string();
        assert!(error.contains(wrong), "{error}");
    }
    let late = Message::text(r#"{"ticks":[{"key":1,"mode":1,"payload":{}}]}"#);
    assert_eq!(read(late).await.unwrap(), [], "what was dropped may still come");
}

#[tokio::test]
async fn an_answer_that_does_not_fit_the_question_ends_the_connection() {
    let level = Some(Level { mode: Mode::Ltp, depth: 5 });
    let changes = [Change { instrument: Instrument::new("NSE", "SBIN"), from: None, to: level }];
    for (answer, wrong) in [
        (r#"{"ack":{"id":7,"refused":[]}}"#, "what was not asked"),
        (r#"{"ack":{"id":1,"refused":[{"at":1,"reason":"no"}]}}"#, "a refusal of what was not asked for"),
        (r#"{"ack":{"id":1,"refused":[{"at":0,"reason":""},{"at":0,"reason":""}]}}"#, "a refusal of what"),
    ] {
        let adapter = adapter(&scripted(None, Some(answer)).await);
        let (mut writer, mut reader) = adapter.open().await.unwrap();
        let mut ticks = Vec::new();
        let error = soon(async {
            tokio::select! {
                read = adapter.read(&mut reader, &mut ticks) => read.unwrap_err().to_string(),
                written = adapter.write(&mut writer, &changes) => panic!("it believed {answer}: {written:?}"),
            }
        })
        .await;
        assert!(error.contains(wrong), "{error}");
    }
}

#[tokio::test]
async fn an_upgrade_answered_with_anything_else_is_an_error() {
    for (_case, mut random) in cases(100) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let adapter = adapter(&format!("ws://{}", listener.local_addr().unwrap()));
        let said = match random.below(3) {
            0 => bytes(&mut random, 500),
            1 => bent(
                &mut random,
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            ),
            _ => bent(&mut random, "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 99999999999\r\n\r\nno"),
        };
        let server = async {
            let mut socket = listener.accept().await.unwrap().0;
            let _ = socket.write_all(&said).await;
            let _ = socket.shutdown().await;
            let _ = socket.read_to_end(&mut Vec::new()).await;
        };
        let (opened, ()) = soon(async { tokio::join!(adapter.open(), server) }).await;
        assert!(opened.is_err());
    }
}
