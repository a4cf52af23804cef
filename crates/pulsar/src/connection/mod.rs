//! A connection to a broker: many requests, producers and consumers on one socket.
//!
//! ```text
//!  control: requests, acks, flow --+
//!  pong, proof: one owed or none --+--> writer task --> socket --> reader task --> table: requests,
//!  messages, bounded --------------+    in this order              keep-alive      producers, consumers
//! ```
//!
//! It ends once, for one reason that all who use it are told: whatever is in the table then is taken out and dropped.

mod enlisted;
mod error;
mod lines;
mod reader;
mod table;
mod writer;

pub(crate) use enlisted::Enlisted;
pub use error::ConnectionError;
pub(crate) use lines::Lines;
pub(crate) use table::{Assigned, ConsumerEvent, ProducerEvent, not_begun, refused};

use crate::wire::{Codec, Frame};
use bytes::BytesMut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, mpsc, watch};

/// Messages that may wait for the writer; each producer bounds its own.
const MESSAGE_QUEUE: usize = 64;

/// A socket of any kind.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Socket for S {}

/// The numbers that a client gives to requests, producers and consumers: never the same twice.
#[derive(Debug, Default)]
pub(crate) struct Numbers(AtomicU64);

impl Numbers {
    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// A connection, as a set shares it. Dropping it ends it.
pub(crate) struct Connection {
    lines: Arc<Lines>,
}

/// Says who the client is, or why it cannot.
pub(crate) type Authenticate = Box<dyn Fn() -> Result<Frame, ConnectionError> + Send>;

/// What a connection is made with, once the handshake is done.
pub(crate) struct Setup {
    pub(crate) broker: String,
    pub(crate) max_message_size: usize,
    pub(crate) protocol_version: i32,
    pub(crate) keep_alive: Duration,
    pub(crate) numbers: Arc<Numbers>,
    /// Says again who the client is, when the broker asks.
    pub(crate) authenticate: Authenticate,
    /// What was read behind the handshake.
    pub(crate) read: BytesMut,
}

impl Connection {
    /// Starts the two tasks of a connection.
    pub(crate) fn start(socket: impl Socket, setup: Setup) -> Connection {
        let (control, from_control) = mpsc::unbounded_channel();
        let (messages, from_messages) = mpsc::channel(MESSAGE_QUEUE);
        let lines = Arc::new(Lines {
            broker: setup.broker,
            max_message_size: setup.max_message_size,
            protocol_version: setup.protocol_version,
            codec: Codec::new(setup.max_message_size),
            numbers: setup.numbers,
            table: Mutex::default(),
            control,
            messages,
            pong_owed: Notify::new(),
            proof_owed: Notify::new(),
            over: watch::Sender::new(None),
            strays: AtomicU64::new(0),
        });
        let (read, write) = tokio::io::split(socket);
        let reader = reader::Reader::new(Arc::clone(&lines), setup.keep_alive, setup.read);
        tokio::spawn(reader.run(read));
        let writer = writer::Writer::new(Arc::clone(&lines), setup.authenticate, from_control, from_messages);
        tokio::spawn(writer.run(write));
        Connection { lines }
    }

    pub(crate) fn lines(&self) -> &Arc<Lines> {
        &self.lines
    }

    /// Ends it for all who use it.
    pub(crate) fn let_go(&self) {
        self.lines.end(ConnectionError::LetGo);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.let_go();
    }
}

#[cfg(test)]
mod tests;
