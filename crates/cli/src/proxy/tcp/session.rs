//! One client's session: a connection is claimed for it, both are joined, and nobody else uses that connection.

use super::Sessions;
use crate::failure::with_causes;
use crate::proxy::joining::{Broken, Timeouts, join};
use crate::proxy::tally::Pending;
use carom::{Claim, Connect, Pool, tcp, tls};
use std::io;
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::TcpStream;
use tokio::time::{Duration, sleep};

/// How often the end is looked for behind what a client has said already: the system tells of nothing new until it is read.
const END_INTERVAL: Duration = Duration::from_secs(1);

/// A client, and what it came for.
pub(super) struct Session<'a> {
    pub(super) sessions: &'a Sessions,
    pub(super) client: TcpStream,
    /// It has no connection yet.
    pub(super) pending: Pending,
}

/// A client and its connection to a backend, which nobody else could use: it holds the state of their session. However the
/// session ends, also by being dropped, the connection does not go back.
struct Joined<C: Connect<Connection: Socket>> {
    client: TcpStream,
    backend: Option<Claim<C>>,
    /// Both have said all they had to say.
    done: bool,
}

/// What bytes go through in the end.
pub(super) trait Socket {
    fn socket(&self) -> &TcpStream;
}

impl Socket for tcp::Stream {
    fn socket(&self) -> &TcpStream {
        self.get_ref()
    }
}

impl Socket for tls::Stream {
    fn socket(&self) -> &TcpStream {
        self.get_ref().get_ref()
    }
}

impl Session<'_> {
    pub(super) async fn run<C>(self, pool: &Pool<C>)
    where
        C: Connect<Connection: AsyncRead + AsyncWrite + Socket + Unpin>,
    {
        let Some(claim) = self.claim(pool).await else { return };
        self.sessions.tally.end(self.pending);
        let backend = claim.backend().clone();
        let mut joined = Joined { client: self.client, backend: Some(claim), done: false };
        match joined.run(self.sessions.timeouts).await {
            Ok(()) => joined.done = true,
            Err(why) => {
                let service = &self.sessions.name;
                tracing::debug!(service, %backend, why = with_causes(&why), "a session was cut short");
            }
        }
    }

    /// A connection, unless there is none, or the client does not wait for it.
    async fn claim<C: Connect>(&self, pool: &Pool<C>) -> Option<Claim<C>> {
        let claimed = tokio::select! {
            biased;
            claimed = pool.claim() => claimed,
            () = left(&self.client) => return None,
        };
        match claimed {
            Ok(claim) => {
                self.sessions.joined();
                Some(claim)
            }
            Err(error) => {
                self.sessions.left_alone(&error);
                None
            }
        }
    }
}

impl<C> Joined<C>
where
    C: Connect<Connection: AsyncRead + AsyncWrite + Socket + Unpin>,
{
    async fn run(&mut self, timeouts: Timeouts) -> Result<(), Broken> {
        match &mut self.backend {
            Some(backend) => join(&mut self.client, &mut **backend, timeouts).await,
            None => Ok(()),
        }
    }
}

impl<C: Connect<Connection: Socket>> Drop for Joined<C> {
    fn drop(&mut self) {
        let Some(backend) = self.backend.take() else { return };
        if self.done {
            backend.discard();
            return;
        }
        // A clean end would tell either side that it has heard everything. One that is gone cannot be told, and need not be.
        let _ = self.client.set_zero_linger();
        let _ = backend.detach().socket().set_zero_linger();
    }
}

/// Waits until a client has left: it has ended without a word, or its connection is broken. One that has said something and
/// then ended may wait for an answer.
async fn left(client: &TcpStream) {
    loop {
        match client.peek(&mut [0]).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        match client.ready(Interest::READABLE | Interest::ERROR).await {
            Ok(readiness) if readiness.is_error() => return,
            Ok(_) => sleep(END_INTERVAL).await,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carom::tcp::Tcp;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn what_a_session_has_used_is_never_anothers() {
        let (clients, backends) =
            (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let pool = Pool::builder(Tcp::default().server_first(true))
            .backends([backends.local_addr().unwrap()])
            .spares(0)
            .maximum(1)
            .build()
            .unwrap();
        let mut client = TcpStream::connect(clients.local_addr().unwrap()).await.unwrap();
        let joined = Joined {
            client: clients.accept().await.unwrap().0,
            backend: Some(pool.claim().await.unwrap()),
            done: false,
        };
        let (mut used, _) = backends.accept().await.unwrap();
        // As when the door's time is over: nobody has come to any end.
        drop(joined);
        let other = pool.claim().await.unwrap();
        let (_, at) = backends.accept().await.unwrap();
        assert_eq!(other.socket().local_addr().unwrap(), at);
        for socket in [&mut client, &mut used] {
            let error = socket.read(&mut [0]).await.expect_err("it was not all");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
    }
}
