//! A client's visit: its connection from the first byte to the last, whatever is spoken on it.

use super::Requests;
use super::attend::{Next, attend};
use super::forward::forward;
use super::plain::{self, Leaving, Left};
use super::pulse::Pulse;
use super::streams::Streams;
use super::wire::Wire;
use crate::config::HALF_CLOSE_TIMEOUT;
use crate::failure::with_causes;
use crate::proxy::door::Closed;
use crate::proxy::joining::{Timeouts, join};
use carom::agent::Upgraded;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;

/// The longest head that is read.
pub(super) const LONGEST_HEAD: usize = 64 << 10;

/// How long a client of HTTP/1 that is about to ask something is waited for when the door has been closed, so that it hears that
/// it is to come again elsewhere and does not find itself cut off. In HTTP/2 it is told at once.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// What a client's requests have in common.
pub(super) struct Visit {
    pub(super) requests: Arc<Requests>,
    pub(super) pulse: Arc<Pulse>,
    pub(super) closed: Closed,
    /// Both ends, when something else is to be spoken between them.
    upgrade: Mutex<Option<(OnUpgrade, Upgraded)>>,
}

impl Visit {
    /// Whether the client is to leave when it has its answer.
    pub(super) fn is_ending(&self) -> bool {
        self.closed.is_closed()
    }

    /// Once the answer has been given, both are joined.
    pub(super) fn upgrade(&self, client: OnUpgrade, backend: Upgraded) {
        *self.upgrade.lock().unwrap_or_else(PoisonError::into_inner) = Some((client, backend));
    }

    fn upgraded(&self) -> Option<(OnUpgrade, Upgraded)> {
        self.upgrade.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Serves a client until it leaves, keeps us waiting for too long, or is done and the door is closed.
pub(super) async fn serve(requests: Arc<Requests>, client: TcpStream, closed: Closed) {
    let pulse = Arc::new(Pulse::default());
    let mut wire = Wire::new(client, Arc::clone(&pulse), requests.half_close_timeout);
    let visit = Arc::new(Visit { requests, pulse, closed, upgrade: Mutex::default() });
    let service = {
        let visit = Arc::clone(&visit);
        service_fn(move |request: Request<Incoming>| forward(Arc::clone(&visit), request))
    };
    let Some(Ok(is_http2)) = attend(&visit, GRACE, pin!(wire.is_http2()), |_| Next::Leave).await else { return };
    if !is_http2 {
        visit.pulse.go_in_turn();
        let leaving = Leaving::default();
        let end = |_: Pin<&mut _>| {
            leaving.set();
            Next::Finish
        };
        match attend(&visit, GRACE, pin!(plain::serve(&visit, &mut wire, &leaving)), end).await {
            Some(Ok(Left::NotPlain)) => {}
            Some(Ok(Left::Over)) | None => return,
            Some(Err(error)) => return tell_of(&visit, &error),
        }
    }
    let io = TokioIo::new(wire);
    let ended = if is_http2 {
        let mut http2 = http2::Builder::new(Streams { idle_timeout: visit.requests.idle_timeout });
        http2.max_header_list_size(LONGEST_HEAD as u32);
        let end = |connection: Pin<&mut http2::Connection<_, _, _>>| {
            connection.graceful_shutdown();
            Next::Finish
        };
        attend(&visit, Duration::ZERO, pin!(http2.serve_connection(io, service)), end).await
    } else {
        let mut http1 = http1::Builder::new();
        http1.max_buf_size(LONGEST_HEAD).header_read_timeout(None);
        let end = |connection: Pin<&mut http1::UpgradeableConnection<_, _>>| {
            connection.graceful_shutdown();
            Next::Finish
        };
        attend(&visit, GRACE, pin!(http1.serve_connection(io, service).with_upgrades()), end).await
    };
    if let Some(Err(error)) = ended {
        tell_of(&visit, &error);
    }
    let Some((client, mut backend)) = visit.upgraded() else { return };
    let timeouts = Timeouts { idle: visit.requests.upgraded_timeout, half_close: Some(HALF_CLOSE_TIMEOUT) };
    if let Ok(client) = client.await
        && let Err(why) = join(&mut TokioIo::new(client), &mut backend, timeouts).await
    {
        tracing::debug!(service = &*visit.requests.name, why = with_causes(&why), "an upgraded connection broke");
    }
}

/// It is over before its time.
fn tell_of(visit: &Visit, error: &dyn Error) {
    tracing::debug!(service = visit.requests.name(), error = with_causes(error), "a client left early");
}

#[cfg(test)]
mod tests;
