//! Accepting connections, for as long as it takes: what goes wrong with one is no reason to take no others.

use carom_core::seldom::Seldom;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// After a connection could not be accepted for want of something.
const BREATH: Duration = Duration::from_millis(100);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Accepting {
    listener: TcpListener,
    /// Who connects, for the log.
    whom: &'static str,
    failures: Seldom,
}

impl Accepting {
    pub(crate) fn new(listener: TcpListener, whom: &'static str) -> Accepting {
        Accepting { listener, whom, failures: Seldom::default() }
    }

    /// The next connection. Cancelling it loses none.
    pub(crate) async fn next(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok(accepted) => return accepted,
                Err(error) if is_of_the_connection(&error) => {}
                Err(error) => {
                    if let Some(count) = self.failures.happened(Instant::now()) {
                        tracing::warn!(%error, count, "cannot accept {}; trying again", self.whom);
                    }
                    sleep(BREATH).await;
                }
            }
        }
    }
}

/// Whether only the connection that was to be accepted is affected.
fn is_of_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
