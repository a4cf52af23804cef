//! Where clients come in: when the system is short of something, such as open files, it is told once and tried again.

use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::mem;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// After a client could not be let in for want of something.
const BREATH: Duration = Duration::from_millis(100);

/// A client that says nothing for so long is asked whether it is there, so that one that has vanished does not stay for ever.
const ASKED_AFTER: Duration = Duration::from_secs(60);
/// So often, until the system has had enough.
const ASKED_EVERY: Duration = Duration::from_secs(15);

/// A socket that clients come to.
pub(crate) struct Entrance {
    listener: TcpListener,
    /// For people.
    whose: String,
    /// Since a client could not be let in, none has been.
    failing: bool,
}

impl Entrance {
    pub(crate) fn new(listener: TcpListener, whose: impl Into<String>) -> Entrance {
        Entrance { listener, whose: whose.into(), failing: false }
    }

    /// Waits for the next client. Cancelling it loses none.
    pub(crate) async fn next(&mut self) -> TcpStream {
        loop {
            match self.listener.accept().await {
                Ok((client, _)) => {
                    if mem::take(&mut self.failing) {
                        tracing::warn!(whose = self.whose, "clients are let in again");
                    }
                    let keepalive = TcpKeepalive::new().with_time(ASKED_AFTER).with_interval(ASKED_EVERY);
                    // If the client has left already, that will be noticed.
                    let _ = SockRef::from(&client).set_tcp_keepalive(&keepalive);
                    return client;
                }
                Err(error) if is_of_the_connection(&error) => {}
                Err(error) => {
                    if !mem::replace(&mut self.failing, true) {
                        tracing::warn!(whose = self.whose, %error, "clients cannot be let in until this is over");
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
