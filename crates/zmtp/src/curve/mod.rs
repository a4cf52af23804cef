//! CURVE, as far as Indy needs it: one DEALER, one ROUTER, one TCP connection between them, encrypted.
//!
//! A [`Session`] is one end of a connection as a machine: bytes in, bytes and [events](Event) out. A [`Socket`] is a session on a
//! connection that is opened and closed exactly when it is said so, which is the point of windows; what ZeroMQ does
//! beyond that (queues, reconnecting, many peers behind one socket) is left out.
//!
//! ```
//! use carom_zmtp::curve::{KeyPair, Socket};
//! use tokio::net::TcpListener;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let (server, client) = (KeyPair::random()?, KeyPair::random()?);
//! let answer = async {
//!     let mut socket = Socket::accept(listener.accept().await?.0, &server, 1024).await?;
//!     let asked = socket.next().await?;
//!     socket.push(&[&asked[..], b", indeed"].concat())?;
//!     socket.flush().await?;
//!     Ok::<_, Box<dyn std::error::Error>>(socket)
//! };
//! let ask = async {
//!     let mut socket = Socket::connect(listener.local_addr()?, server.public(), &client, "me".into(), 1024).await?;
//!     socket.push(b"hello")?;
//!     Ok::<_, Box<dyn std::error::Error>>(socket.next().await?)
//! };
//! let (answered, asked) = tokio::join!(answer, ask);
//! assert_eq!(answered?.identity(), "me");
//! assert_eq!(asked?, "hello, indeed");
//! # Ok(()) }) }
//! ```

mod handshake;
mod keys;
mod sealing;
mod session;
mod socket;

pub use crate::error::{SocketError, ZmtpError};
pub use handshake::Fresh;
pub use keys::{CurveKey, KeyPair, curve_key};
pub use session::{Event, Session};
pub use socket::Socket;
