//! A gateway on loopback with scripted upstreams behind it, and clients that wait for what they expect.

use carom::feed::{Feed, Pacing};
use carom_core::feed::{Instrument, Mode};
use carom_gateway::keys::{Identity, Keys, NewKey};
use carom_gateway::{Builder, Gateway, Snapshot};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use testkit::feed::Upstream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

/// Nothing takes this long unless it is broken.
pub(crate) const LONG: Duration = Duration::from_secs(300);

/// Far from when anything ends.
pub(crate) const NEVER: Duration = Duration::from_secs(3600);

/// A gateway with a feed for asha and one for ravi, both at the broker `scripted`, and a key without a feed for zoya.
pub(crate) struct Stage {
    pub(crate) gateway: Gateway,
    pub(crate) upstream: Upstream,
    pub(crate) other_upstream: Upstream,
    pub(crate) feed: Feed<Upstream>,
    pub(crate) key: String,
    pub(crate) other_key: String,
    pub(crate) key_without_feed: String,
}

pub(crate) fn instrument(symbol: &str) -> Instrument {
    Instrument::new("NSE", symbol)
}

pub(crate) fn upstream() -> Upstream {
    Upstream::new().pacing(Pacing { batch: 1000, pace: Duration::ZERO, heartbeat: None })
}

impl Stage {
    pub(crate) async fn new() -> Stage {
        Stage::with(|builder| builder).await
    }

    pub(crate) async fn with(options: impl FnOnce(Builder) -> Builder) -> Stage {
        let upstream = upstream();
        let feed = Feed::builder(upstream.clone()).linger(Duration::from_millis(1)).build().unwrap();
        Stage::on(upstream, feed, options).await
    }

    pub(crate) async fn on(
        upstream: Upstream,
        feed: Feed<Upstream>,
        options: impl FnOnce(Builder) -> Builder,
    ) -> Stage {
        let [key, other_key, key_without_feed] = [(); 3].map(|()| NewKey::generate().unwrap());
        let identity = |user: &str| Identity::new("scripted", user);
        let keys = Keys::in_memory([
            (identity("asha"), key.sha256()),
            (identity("ravi"), other_key.sha256()),
            (identity("zoya"), key_without_feed.sha256()),
        ]);
        let other_upstream = self::upstream();
        let other = Feed::builder(other_upstream.clone()).linger(Duration::from_millis(1)).build().unwrap();
        let builder = Gateway::builder()
            .listen((Ipv4Addr::LOCALHOST, 0))
            .keys(keys)
            .feed("scripted", "asha", feed.clone())
            .feed("scripted", "ravi", other);
        let gateway = options(builder).start().await.unwrap();
        let [key, other_key, key_without_feed] = [key, other_key, key_without_feed].map(|key| key.reveal().to_owned());
        Stage { gateway, upstream, other_upstream, feed, key, other_key, key_without_feed }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.gateway.local_addr()
    }

    /// A client that has said nothing yet.
    pub(crate) async fn connect(&self) -> Client {
        connect(self.address()).await
    }

    /// A client of asha's.
    pub(crate) async fn client(&self) -> Client {
        self.client_of(&self.key).await
    }

    /// A client with this key.
    pub(crate) async fn client_of(&self, key: &str) -> Client {
        let mut client = self.connect().await;
        let reply = client.ask(json!({"action": "authenticate", "api_key": key})).await;
        assert_eq!(reply["status"], "success", "{reply}");
        client
    }

    /// Everything that carries this instrument ticks with this price.
    pub(crate) fn tick(&self, symbol: &str, mode: Mode, price: u32) {
        self.upstream.tick(&instrument(symbol), mode, json!({"ltp": price}).to_string());
    }

    /// Waits until the gateway's figures are like that.
    pub(crate) async fn until(&self, condition: impl Fn(&Snapshot) -> bool) {
        let wait = async {
            while !condition(&self.gateway.snapshot()) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(LONG, wait).await.unwrap_or_else(|_| panic!("never: {:?}", self.gateway.snapshot()));
    }
}

/// A WebSocket client.
pub(crate) struct Client<S = TcpStream> {
    pub(crate) socket: WebSocketStream<S>,
}

pub(crate) async fn try_connect(address: SocketAddr) -> Result<Client, Error> {
    let tcp = TcpStream::connect(address).await?;
    let (socket, _) = client_async(format!("ws://{address}/any/path"), tcp).await?;
    Ok(Client { socket })
}

pub(crate) async fn connect(address: SocketAddr) -> Client {
    timeout(LONG, try_connect(address)).await.expect("in time").expect("an upgrade")
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) async fn send(&mut self, request: Value) {
        self.send_text(&request.to_string()).await;
    }

    pub(crate) async fn send_text(&mut self, text: &str) {
        timeout(LONG, self.socket.send(Message::text(text))).await.expect("in time").expect("a socket");
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> Value {
        // Pings go on for ever: what is waited for is the message.
        let message = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).expect("JSON"),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    other => panic!("{other:?} instead of a message"),
                }
            }
        };
        timeout(LONG, message).await.expect("a message in time")
    }

    /// The next message that is no tick: a reply.
    pub(crate) async fn reply(&mut self) -> Value {
        let reply = async {
            loop {
                let message = self.next().await;
                if message["type"] != "market_data" {
                    return message;
                }
            }
        };
        timeout(LONG, reply).await.expect("a reply in time")
    }

    /// The reply to a request; ticks that come before it are passed over.
    pub(crate) async fn ask(&mut self, request: Value) -> Value {
        self.send(request).await;
        self.reply().await
    }

    /// Subscribes to one symbol, which succeeds.
    pub(crate) async fn subscribe(&mut self, symbol: &str, mode: &str) -> Value {
        let reply = self.ask(json!({"action": "subscribe", "symbol": symbol, "exchange": "NSE", "mode": mode})).await;
        assert_eq!(reply["status"], "success", "{reply}");
        reply
    }

    /// That nothing is on its way: a ping is answered next.
    pub(crate) async fn expect_silence(&mut self) {
        self.send(json!({"action": "ping", "_pingId": "silence"})).await;
        let next = self.next().await;
        assert_eq!(next["_pingId"], "silence", "{next}");
    }

    /// The close that comes, whatever comes before it.
    pub(crate) async fn closed(&mut self) -> (u16, String) {
        let close = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Close(Some(CloseFrame { code, reason })))) => {
                        return (code.into(), reason.to_string());
                    }
                    Some(Ok(_)) => {}
                    other => panic!("{other:?} instead of a close"),
                }
            }
        };
        timeout(LONG, close).await.expect("a close in time")
    }
}
