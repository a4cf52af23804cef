//! A gateway that says what it is told, for `carom watch`.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{WebSocketStream, accept_async};

use crate::program::PATIENCE;

/// The one key that it knows.
pub(crate) const KEY: &str = "0123456789abcdef";

/// Where clients come in.
pub(crate) struct Peer {
    pub(crate) listener: TcpListener,
}

/// A client.
pub(crate) struct Client<S = TcpStream> {
    socket: WebSocketStream<S>,
}

impl Peer {
    pub(crate) async fn start() -> Peer {
        Peer { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}", self.listener.local_addr().unwrap())
    }

    /// The next client's bytes.
    pub(crate) async fn wire(&self) -> TcpStream {
        timeout(PATIENCE, self.listener.accept()).await.expect("a client comes").unwrap().0
    }

    /// The next client, known by its key and subscribed; and what it asked for.
    #[allow(dead_code)]
    pub(crate) async fn client(&self) -> (Client, Value) {
        let mut client = Client::accept(self.wire().await).await;
        let asked = client.subscribed(json!([])).await;
        (client, asked)
    }
}

#[allow(dead_code)]
impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) async fn accept(wire: S) -> Client<S> {
        Client { socket: accept_async(wire).await.unwrap() }
    }

    /// Accepts the key and the subscription, with these refusals; what was asked for.
    pub(crate) async fn subscribed(&mut self, refused: Value) -> Value {
        let login = self.hear().await;
        assert_eq!(login, json!({"action": "authenticate", "api_key": KEY}));
        self.say(json!({"type": "auth", "status": "success", "broker": "simulated", "user_id": "asha"})).await;
        let asked = self.hear().await;
        let mut entries = refused.as_array().unwrap().clone();
        for symbol in asked["symbols"].as_array().unwrap() {
            if !entries.iter().any(|entry| entry["symbol"] == symbol["symbol"]) {
                let name = (&symbol["symbol"], &symbol["exchange"]);
                entries.push(
                    json!({"symbol": name.0, "exchange": name.1, "status": "success", "mode": "LTP", "depth": 5}),
                );
            }
        }
        let status = if refused == json!([]) { "success" } else { "partial" };
        self.say(json!({"type": "subscribe", "status": status, "subscriptions": entries})).await;
        asked
    }

    pub(crate) async fn hear(&mut self) -> Value {
        let text = timeout(PATIENCE, self.socket.next()).await.expect("it says something").unwrap().unwrap();
        serde_json::from_str(text.to_text().unwrap()).unwrap()
    }

    pub(crate) async fn say(&mut self, message: Value) {
        self.say_text(&message.to_string()).await;
    }

    /// To the letter.
    pub(crate) async fn say_text(&mut self, text: &str) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// A tick of NSE:SBIN, or of another symbol there.
    pub(crate) async fn tick(&mut self, symbol: &str, data: Value) {
        self.say(json!({"type": "market_data", "symbol": symbol, "exchange": "NSE", "mode": 1, "data": data})).await;
    }

    pub(crate) async fn close(mut self, code: u16, reason: &'static str) {
        self.socket.send(Message::Close(Some(CloseFrame { code: code.into(), reason: reason.into() }))).await.unwrap();
        while let Some(Ok(_)) = self.socket.next().await {}
    }

    /// Waits until it has said goodbye.
    pub(crate) async fn leaves(mut self) -> bool {
        let last = timeout(PATIENCE, self.socket.next()).await.expect("it leaves");
        matches!(last, Some(Ok(Message::Close(_))))
    }
}
