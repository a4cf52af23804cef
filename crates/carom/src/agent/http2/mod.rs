//! HTTP/2 on a set: each connection serves many requests at a time, and is driven by a task of its own.

mod answer;
mod connection;
mod entering;
mod exchange;
mod gate;
mod tasks;
mod upload;

pub(super) use answer::Answer;
pub(super) use connection::Connection;
pub(super) use entering::{Line, Seat, enter, enter_at};
pub(super) use exchange::exchange;

use super::dial::{DialError, Dialer};
use crate::connect::{Connect, Liveness};
use crate::set::Share;
use carom_core::backend::Backend;
use http::uri::{Authority, Scheme};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Connects, and ends what nobody uses.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(super) dialer: Dialer,
    pub(super) address: Arc<Address>,
    pub(super) ping: Option<Ping>,
    /// How long a connection takes new requests, or up to 20 % less.
    pub(super) max_lifetime: Option<Duration>,
    pub(super) line: Arc<Line>,
}

/// How an origin is addressed.
#[derive(Debug)]
pub(crate) struct Address {
    /// The origin's name.
    pub(super) origin: Arc<str>,
    pub(super) scheme: Scheme,
    /// Whom requests are for when they do not say it themselves.
    pub(super) authority: Authority,
}

/// When the far side is asked whether it is still there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ping {
    /// After so much silence, and again each time.
    pub(crate) interval: Duration,
    /// How long it has to answer: then the connection is ended.
    pub(crate) timeout: Duration,
}

impl Connect for Connector {
    type Connection = Connection;
    type Error = DialError;

    /// Done when the far side has said how many requests it takes: so that one which does not speak HTTP/2 fails to connect,
    /// and no request is lost on it. One that says at first that it takes none, as RFC 9113 (6.5.2) allows for a while, is
    /// waited for until it takes some, or until the time for connecting is over: then it has failed to connect.
    ///
    /// Cancel safety: dropping the future closes the socket.
    async fn connect(&self, backend: &Backend) -> Result<Connection, DialError> {
        let dialled = self.dialer.dial(backend).await?;
        Connection::begin(dialled, self).await
    }

    fn closed(&self, connection: &Connection) -> Option<impl Future<Output = Liveness> + Send + 'static> {
        let closed = connection.closed();
        Some(async move {
            closed.await;
            Liveness::Closed
        })
    }
}

impl Share for Connector {
    fn shut(&self, connection: &Connection) {
        connection.shut();
    }
}
