//! A connection from its first moment to its last: counted, spoken to, and ended as the test says.

use super::world::World;
use super::{conversation, good};
use crate::shared::Shared;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::select;
use tokio_rustls::TlsAcceptor;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Orderly,
    Reset,
}

/// What is spoken through: a socket, or TLS on one.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// Counts a connection at once; the future looks after it.
pub(super) fn welcome(
    shared: &Arc<Shared<World>>,
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
) -> impl Future<Output = ()> + Send + use<> {
    let (number, ended, script) = shared.change(World::accept);
    let counted = Counted { shared: Arc::clone(shared), number };
    async move {
        let _ = stream.set_nodelay(true);
        let last = LastWord::default();
        let socket = Socket { stream, last: last.clone() };
        let mut serving = pin!(async {
            let stream: Box<dyn Duplex> = match tls {
                None => Box::new(socket),
                Some(tls) => match tls.accept(socket).await {
                    Ok(stream) => Box::new(stream),
                    // Whoever fails at this has had its answer.
                    Err(_) => return,
                },
            };
            match script {
                None => good::serve(&counted.shared, number, stream).await,
                // An error is the client's way of going.
                Some(script) => drop(conversation::hold(&counted.shared, number, stream, script, &last).await),
            }
        });
        // Told to end, it says so before the socket goes, and the socket goes before it is no longer counted.
        select! {
            biased;
            ending = ended => if ending == Ok(Ending::Reset) {
                last.make_reset();
            },
            () = &mut serving => {}
        }
    }
}

/// Whether the last that the client hears is a reset.
#[derive(Clone, Debug, Default)]
pub(super) struct LastWord {
    reset: Arc<AtomicBool>,
}

impl LastWord {
    pub(super) fn make_reset(&self) {
        self.reset.store(true, Ordering::Relaxed);
    }
}

/// A socket that goes as was said in time.
struct Socket {
    stream: TcpStream,
    last: LastWord,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.last.reset.load(Ordering::Relaxed) {
            // It may have gone by itself already.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    /// TLS says all it has to say in one such write when it gives up: its reason is the last part.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// One in the count of open connections, however its task ends.
struct Counted {
    shared: Arc<Shared<World>>,
    number: usize,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.shared.change(|world| world.open.remove(&self.number));
    }
}
