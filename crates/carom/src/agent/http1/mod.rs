//! HTTP/1 on a pool: each connection serves one request at a time, and is driven by whoever has it.

mod alarm;
mod answer;
mod claim;
mod coming;
mod connection;
mod exchange;
mod full;
mod plain;
mod relay;
mod replay;
mod sending;
mod upload;

pub(super) use answer::Answer;
pub(super) use claim::claim;
pub(super) use connection::{Connection, Promise};
pub(super) use exchange::{Lost, Settled, give_up, send, settle, upgrade};
pub(super) use full::Exchanged;
pub(super) use sending::Pace;

use super::body::Body;
use super::dial::{DialError, Dialer};
use crate::connect::{Connect, Liveness};
use carom_core::backend::Backend;
use coming::Breach;
use http::header::{HOST, HeaderValue};
use http::{Request, StatusCode, Uri};
use std::future::{Future, poll_fn};
use std::sync::Arc;
use tokio::sync::Notify;

/// Connects, and looks after what nobody uses.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(super) dialer: Dialer,
    /// The origin's name.
    pub(super) origin: Arc<str>,
    /// What is asked for on an idle connection, and what `Host` says then.
    pub(super) ping: Option<(Uri, HeaderValue)>,
    /// Tells waiting claims that a server refused to speak HTTP/1; `None` without TLS.
    pub(super) refusals: Option<Notify>,
}

/// Why a connection could not be made, or did not pass its check.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// It could not be dialled.
    #[error(transparent)]
    Dial(DialError),
    /// It broke.
    #[error(transparent)]
    Http(Breach),
    /// The ping was answered with a server's error.
    #[error("the ping was answered with {0}")]
    Ping(StatusCode),
    /// The ping was answered, and the connection closed.
    #[error("the server closes the connection after a ping")]
    Closes,
}

impl Connect for Connector {
    type Connection = Connection;
    type Error = Trouble;

    async fn connect(&self, backend: &Backend) -> Result<Connection, Trouble> {
        let dialled = self.dialer.dial(backend).await.inspect_err(|error| {
            if let (DialError::Protocol { .. }, Some(refusals)) = (error, &self.refusals) {
                refusals.notify_waiters();
            }
        });
        let dialled = dialled.map_err(Trouble::Dial)?;
        Ok(Connection::begin(dialled, &self.origin))
    }

    fn liveness(&self, connection: &mut Connection) -> Liveness {
        connection.liveness()
    }

    fn check(&self, connection: &mut Connection) -> Option<impl Future<Output = Result<(), Trouble>> + Send> {
        let (path, host) = self.ping.as_ref()?;
        Some(ping(connection, path, host))
    }

    fn closed(&self, connection: &Connection) -> Option<impl Future<Output = Liveness> + Send + 'static> {
        Some(connection.watch().closed())
    }
}

/// Asks for the path of `ping`: any answer that is no server's error will do.
async fn ping(connection: &mut Connection, path: &Uri, host: &HeaderValue) -> Result<(), Trouble> {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = path.clone();
    request.headers_mut().insert(HOST, host.clone());
    let mut response = match connection.send(Box::new(request)).await {
        Exchanged::Answered(response) => response,
        Exchanged::Unsent(_, error)
        | Exchanged::Unanswered(error)
        | Exchanged::Broken(error)
        | Exchanged::Spoilt(error) => return Err(Trouble::Http(error.into())),
    };
    while let Some(frame) = poll_fn(|cx| connection.poll_frame(response.body_mut(), cx)).await {
        frame.map_err(Trouble::Http)?;
    }
    if response.status().is_server_error() {
        return Err(Trouble::Ping(response.status()));
    }
    connection.finish();
    if connection.is_at_rest() { Ok(()) } else { Err(Trouble::Closes) }
}
