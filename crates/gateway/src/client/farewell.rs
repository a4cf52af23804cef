//! The ways in which a client goes, and what it is told then.

use super::{Client, Turn};
use crate::mailbox::Ending;
use crate::wire::TOO_MUCH_READ;
use futures_util::{SinkExt, StreamExt};
use std::future::poll_fn;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};

/// How long a client has to take leave.
const LEAVE: Duration = Duration::from_secs(2);

pub(super) const AUTH_TIMEOUT: Ending = Ending::new(4401, "auth timeout");
pub(super) const KEEPALIVE: Ending = Ending::new(1011, "keepalive ping timeout");
pub(super) const SLOW: Ending = Ending::new(1008, "slow client");
const TOO_BIG: Ending = Ending::new(1009, "message too big");
const TOO_MUCH: Ending = Ending::new(1009, "too much before authentication");
const NOT_TEXT: Ending = Ending::new(1007, "text is not UTF-8");
const BROKEN: Ending = Ending::new(1002, "protocol error");

impl Client {
    /// Says goodbye, and waits a moment for the answer.
    pub(super) async fn leave(mut self, ending: Ending) {
        self.give_up();
        let goodbye = async {
            self.socket.send(close(&ending)).await?;
            while let Some(message) = self.socket.next().await {
                message?;
            }
            Ok::<(), Error>(())
        };
        if !matches!(timeout(LEAVE, goodbye).await, Ok(Ok(()))) {
            self.socket.get_ref().socket().abandon();
        }
    }

    /// Says goodbye to somebody who cannot be understood any more, or who does not read: what it still sends is thrown away.
    pub(super) async fn cut(mut self, ending: Ending) {
        self.give_up();
        self.socket.get_mut().read_on();
        let goodbye = async {
            self.socket.send(close(&ending)).await?;
            let wire = self.socket.get_mut();
            wire.shutdown().await?;
            // Not an array: every client's task would have room for it.
            let mut rest = vec![0; 4096];
            while wire.read(&mut rest).await? > 0 {}
            Ok::<(), Error>(())
        };
        if !matches!(timeout(LEAVE, goodbye).await, Ok(Ok(()))) {
            self.socket.get_ref().socket().abandon();
        }
    }

    /// Writes the answer to its goodbye.
    pub(super) async fn part(mut self) {
        self.give_up();
        let wire = self.socket.get_mut();
        if !matches!(timeout(LEAVE, poll_fn(|context| wire.poll_drain(context))).await, Ok(Ok(()))) {
            wire.socket().abandon();
        }
    }

    /// What it has is not kept for as long as it takes to say goodbye.
    fn give_up(&mut self) {
        self.turn = Turn::Nobody;
        self.line.clear();
    }
}

fn close(Ending { code, reason }: &Ending) -> Message {
    Message::Close(Some(CloseFrame { code: (*code).into(), reason: reason.as_ref().into() }))
}

/// What a client is told of its mistake; `None` if there is nobody to be told.
pub(super) fn ending_for(error: &Error) -> Option<Ending> {
    match error {
        Error::Capacity(CapacityError::MessageTooLong { .. }) => Some(TOO_BIG),
        Error::Utf8(_) => Some(NOT_TEXT),
        Error::Protocol(_) => Some(BROKEN),
        Error::Io(error) if error.kind() == TOO_MUCH_READ => Some(TOO_MUCH),
        _ => None,
    }
}
