//! An adapter for a broker that does not exist, and that broker: `cargo run -p carom-gateway --example adapter`.
//!
//! It speaks JSON over WebSockets. `{"add":["SBIN"],"drop":[]}` is answered with `{"unknown":[]}`, and then there are prices:
//! `{"symbol":"SBIN","price":"812.05"}`.

use carom::feed::{Adapter, Change, Feed, Instrument, Mode, Pacing, Refused, SubscribeError, Tick, Topic};
use carom_gateway::credential::Credential;
use carom_gateway::upstream::{Dial, Socket, UpstreamError};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::http::header::{AUTHORIZATION, HeaderValue};

/// Where the broker is, and what we are let in with.
struct Broker {
    dial: Dial,
    token: Credential,
}

/// The half that asks. Answers come from the other half, which is the only one that reads.
struct Writer {
    sink: SplitSink<Socket, Message>,
    answers: mpsc::Receiver<Vec<String>>,
}

/// The half that reads.
struct Reader {
    stream: SplitStream<Socket>,
    answers: mpsc::Sender<Vec<String>>,
}

/// What the broker says.
#[derive(Deserialize)]
#[serde(untagged)]
enum Said {
    Answer { unknown: Vec<String> },
    Price { symbol: String, price: String },
}

impl Adapter for Broker {
    type Writer = Writer;
    type Reader = Reader;
    type Error = UpstreamError;

    async fn open(&self) -> Result<(Writer, Reader), UpstreamError> {
        let presented = self.token.present().await?;
        let bearer = HeaderValue::try_from(format!("Bearer {}", presented.secret()));
        let mut request = self.dial.request()?;
        request.headers_mut().insert(AUTHORIZATION, bearer.map_err(|_| UpstreamError::Unpresentable)?);
        // Should it be refused, whoever watches the credential waits for another one.
        let (sink, stream) = self.dial.log_in(request, &presented).await?.split();
        let (pass_on, answers) = mpsc::channel(1);
        Ok((Writer { sink, answers }, Reader { stream, answers: pass_on }))
    }

    async fn write(&self, writer: &mut Writer, changes: &[Change]) -> Result<Vec<Refused>, UpstreamError> {
        let (mut add, mut drop, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for (position, Change { instrument, to, .. }) in changes.iter().enumerate() {
            match to {
                None => drop.push(instrument.symbol()),
                Some(level) if level.mode == Mode::Ltp => add.push(instrument.symbol()),
                Some(_) => refused.push(Refused { position, reason: "there are prices, and nothing else".into() }),
            }
        }
        while writer.answers.try_recv().is_ok() {} // nobody asked for these
        writer.sink.send(Message::text(json!({"add": add, "drop": drop}).to_string())).await?;
        let unknown = writer.answers.recv().await.ok_or(UpstreamError::Garbled("an answer was lost"))?;
        for (position, Change { instrument, to, .. }) in changes.iter().enumerate() {
            if to.is_some() && unknown.iter().any(|symbol| symbol == instrument.symbol()) {
                refused.push(Refused { position, reason: "the broker knows no such symbol".into() });
            }
        }
        Ok(refused)
    }

    async fn read(&self, reader: &mut Reader, ticks: &mut Vec<Tick>) -> Result<(), UpstreamError> {
        let text = match reader.stream.next().await {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Close(frame))) => return Err(UpstreamError::closed(frame.as_ref())),
            Some(Ok(_)) => return Ok(()), // pongs too are signs of life
            Some(Err(error)) => return Err(error.into()),
            None => return Err(UpstreamError::closed(None)),
        };
        match serde_json::from_str(&text).map_err(|_| UpstreamError::Garbled("no message of this broker"))? {
            Said::Answer { unknown } => {
                reader.answers.try_send(unknown).map_err(|_| UpstreamError::Garbled("more answers than questions"))
            }
            // It is put into JSON as it is written: nothing but a number may get there.
            Said::Price { price, .. } if serde_json::from_str::<f64>(&price).is_err() => {
                Err(UpstreamError::Garbled("a price that is no number"))
            }
            Said::Price { symbol, price } => {
                let payload = format!(r#"{{"ltp":{price}}}"#).into();
                ticks.push(Tick { instrument: Instrument::new("NSE", symbol), mode: Mode::Ltp, payload });
                Ok(())
            }
        }
    }

    async fn heartbeat(&self, writer: &mut Writer) -> Result<(), UpstreamError> {
        Ok(writer.sink.send(Message::Ping(Default::default())).await?)
    }

    fn pacing(&self) -> Pacing {
        Pacing { batch: 100, pace: Duration::from_millis(100), heartbeat: Some(Duration::from_secs(10)) }
    }

    fn refuses_credential(&self, error: &UpstreamError) -> bool {
        matches!(error, UpstreamError::CredentialRefused { .. })
    }
}

/// The broker: it knows one symbol, and lets everybody in.
async fn serve(listener: TcpListener) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut socket = accept_async(listener.accept().await?.0).await?;
    while let Some(Ok(message)) = socket.next().await {
        let Ok(request) = serde_json::from_slice::<Value>(&message.into_data()) else { continue };
        let added = request["add"].as_array().into_iter().flatten();
        let (known, unknown): (Vec<_>, Vec<_>) = added.partition(|symbol| *symbol == "SBIN");
        socket.send(Message::text(json!({"unknown": unknown}).to_string())).await?;
        for symbol in known {
            socket.send(Message::text(json!({"symbol": symbol, "price": "812.05"}).to_string())).await?;
        }
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let dial = Dial::to(format!("ws://{}", listener.local_addr()?).parse()?).build()?;
    tokio::spawn(serve(listener));
    let broker = Broker { dial, token: Credential::fixed("today's") };
    let feed = Feed::builder(broker).max_connections(3).pending_after(Duration::from_secs(30)).build()?;
    let mut ticks = feed.ticks();
    feed.subscribe(Topic::new("NSE", "SBIN", Mode::Ltp)).await?;
    let tick = ticks.next().await.ok_or("the feed has ended")?;
    println!("{} {}", tick.instrument, String::from_utf8_lossy(&tick.payload)); // NSE:SBIN {"ltp":812.05}
    let refused = feed.subscribe(Topic::new("NSE", "SBI", Mode::Ltp)).await;
    assert!(matches!(refused, Err(SubscribeError::Refused { .. })), "{refused:?}");
    Ok(())
}
