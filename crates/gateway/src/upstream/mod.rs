//! What adapters have in common: how a WebSocket to a broker is opened, and why that, or what came of it, failed.
//!
//! An adapter speaks one broker's language; how it gets to that broker is the same for all of them. [`Dial`] opens a connection,
//! with TLS where the address says so, and [`UpstreamError`] says what went wrong in words that are fit to be logged: what came
//! over the wire is shortened and keeps to its line.
//!
//! ```
//! use carom_gateway::upstream::Dial;
//! use futures_util::StreamExt;
//! use tokio_tungstenite::tungstenite::Message;
//! # use futures_util::SinkExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! # let broker = format!("ws://{}", listener.local_addr()?);
//! # tokio::spawn(async move {
//! #     let (socket, _) = listener.accept().await.unwrap();
//! #     let mut upstream = tokio_tungstenite::accept_async(socket).await.unwrap();
//! #     upstream.send(Message::text("hello")).await.unwrap();
//! # });
//! let dial = Dial::to(broker.parse()?).longest_message(64 * 1024).build()?;
//! let mut socket = dial.open(dial.request()?).await?;
//! assert_eq!(socket.next().await.unwrap()?, Message::text("hello"));
//! # Ok(()) }
//! ```

mod builder;
mod dial;
pub(crate) mod digits;
mod error;
mod listing;
mod race;

pub use builder::AdapterBuilder;
#[cfg(feature = "nats")]
pub(crate) use dial::trusting;
pub use dial::{Dial, DialBuilder, DialError, Socket, Wire};
pub use error::UpstreamError;
pub(crate) use error::{hide, shown};
pub use listing::Listing;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio_tungstenite::tungstenite::Message;

/// Says goodbye, and waits until the other side has heard it: upstreams count connections.
pub async fn say_goodbye(sink: &mut SplitSink<Socket, Message>, stream: &mut SplitStream<Socket>) {
    if sink.send(Message::Close(None)).await.is_ok() {
        while let Some(Ok(_)) = stream.next().await {}
    }
}

/// In milliseconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
