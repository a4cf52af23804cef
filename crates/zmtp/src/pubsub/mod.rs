//! PUB and SUB, not encrypted (NULL): what is published goes to whoever has subscribed to how it begins.
//!
//! A [`Session`] is one end of a connection as a machine: bytes in, bytes and [events](Event) out; a [`Socket`] is a session on a
//! connection. Subscriptions are commands, as ZMTP 3.1 has them, or messages for peers that know 3.0 alone.
//!
//! ```
//! use carom_zmtp::pubsub::{Encoded, Event, Limits, Prefixes, Role, Socket};
//! use tokio::net::TcpListener;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let publish = async {
//!     let mut socket = Socket::open(listener.accept().await?.0, Role::Publisher, Limits::default()).await?;
//!     let mut wanted = Prefixes::new(100);
//!     if let Event::Subscribed(prefix) = socket.next().await? {
//!         wanted.insert(prefix)?;
//!     }
//!     for topic in ["BSE_SBIN_LTP", "NSE_SBIN_LTP"] {
//!         if wanted.want(topic.as_bytes()) {
//!             socket.push(&Encoded::new(&[topic.as_bytes(), br#"{"ltp":812.05}"#]))?;
//!         }
//!     }
//!     socket.flush().await?;
//!     Ok::<_, Box<dyn std::error::Error>>(socket)
//! };
//! let receive = async {
//!     let mut socket = Socket::connect(listener.local_addr()?, Role::Subscriber, Limits::default()).await?;
//!     socket.subscribe(b"NSE_")?;
//!     Ok::<_, Box<dyn std::error::Error>>(socket.next().await?)
//! };
//! let (publisher, received) = tokio::join!(publish, receive);
//! publisher?;
//! assert_eq!(received?, Event::Message(vec!["NSE_SBIN_LTP".into(), r#"{"ltp":812.05}"#.into()]));
//! # Ok(()) }) }
//! ```

mod prefixes;
mod reading;
mod session;
mod socket;

pub use prefixes::Prefixes;
pub use session::{Encoded, Event, Limits, Role, Session, Skipped};
pub use socket::Socket;
