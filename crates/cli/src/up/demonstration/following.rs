//! Somebody who follows one symbol at the gateway.

use super::story::Event;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::{Error, Message};

const AGAIN: Duration = Duration::from_secs(1);

/// Tells of every price, over as many connections as it takes.
pub(super) async fn follow(
    gateway: SocketAddr,
    key: String,
    symbol: (&'static str, &'static str),
    tell: mpsc::Sender<Event>,
) {
    while !tell.is_closed() {
        // Why it was lost is in the gateway's log; here it is gone, and comes back.
        let _ = listen(gateway, &key, symbol, &tell).await;
        sleep(AGAIN).await;
    }
}

async fn listen(
    gateway: SocketAddr,
    key: &str,
    (exchange, symbol): (&str, &str),
    tell: &mpsc::Sender<Event>,
) -> Result<(), Error> {
    let stream = TcpStream::connect(gateway).await?;
    let (mut socket, _) = client_async(format!("ws://{gateway}"), stream).await?;
    let asked = [
        json!({"action": "authenticate", "api_key": key}),
        json!({"action": "subscribe", "symbols": [{"exchange": exchange, "symbol": symbol}], "mode": "LTP"}),
    ];
    for asked in asked {
        socket.send(Message::text(asked.to_string())).await?;
    }
    while let Some(message) = socket.next().await {
        let Message::Text(text) = message? else { continue };
        if let Some(price) = price(&text) {
            // One that nobody has time for is followed by another.
            let _ = tell.try_send(Event::Tick { symbol: format!("{exchange}:{symbol}"), price });
        }
    }
    Ok(())
}

/// The price in a message, if it is a tick.
fn price(text: &str) -> Option<String> {
    let said: Value = serde_json::from_str(text).ok()?;
    (said["type"] == "market_data").then(|| said["data"]["ltp"].to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_have_prices_and_replies_have_none() {
        assert_eq!(price(r#"{"type":"market_data","data":{"ltp":812.5}}"#).as_deref(), Some("812.5"));
        assert_eq!(price(r#"{"type":"auth","status":"success"}"#), None);
        assert_eq!(price("no JSON"), None);
    }
}
