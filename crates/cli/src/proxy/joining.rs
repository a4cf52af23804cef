//! Two streams joined: what one says the other hears, until both have said all.

use super::silence::Silence;
use std::future::{pending, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional_with_sizes};

/// For each direction.
const BUFFER: usize = 16 << 10;

/// Why two streams were parted before both had ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The client's side failed.
    #[error("the client's connection broke")]
    Client(#[source] io::Error),
    /// The backend's side failed.
    #[error("the backend's connection broke")]
    Backend(#[source] io::Error),
    /// Nothing was said either way.
    #[error("nothing was said for {0:?}")]
    Silent(Duration),
    /// One side has closed, and nothing arrived from the other.
    #[error("half-closed, and no byte arrived for {0:?}")]
    HalfClosed(Duration),
}

/// When silence ends a pair of joined streams. `None` is never.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timeouts {
    /// No byte in either direction.
    pub(super) idle: Option<Duration>,
    /// No byte in either direction once one side has closed its half.
    pub(super) half_close: Option<Duration>,
}

/// Passes on what each side says. When one has said all, the other is told, and may still speak; when one breaks, or nothing is
/// said for as long as `timeouts` allows, it is over.
///
/// Cancel safety: what was read from one side and not yet written to the other is lost.
pub(super) async fn join<C, B>(client: &mut C, backend: &mut B, timeouts: Timeouts) -> Result<(), Broken>
where
    C: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let heard = Heard::default();
    let mut client = Listened { stream: client, heard: &heard };
    let copied = tokio::select! {
        // The copy is polled first: `half_closed` relies on it.
        biased;
        copied = copy_bidirectional_with_sizes(&mut client, backend, BUFFER, BUFFER) => copied,
        timeout = silence(&heard, timeouts.idle) => return Err(Broken::Silent(timeout)),
        timeout = async {
            heard.half_closed().await;
            silence(&heard, timeouts.half_close).await
        } => return Err(Broken::HalfClosed(timeout)),
    };
    match copied {
        Ok(_) => Ok(()),
        Err(error) if heard.broken.load(Ordering::Relaxed) => Err(Broken::Client(error)),
        Err(error) => Err(Broken::Backend(error)),
    }
}

/// Waits until no byte has passed for this long, and returns that time. Pending forever without a timeout.
async fn silence(heard: &Heard, timeout: Option<Duration>) -> Duration {
    let Some(timeout) = timeout else { return pending().await };
    let mut silence = Silence::new(timeout);
    let mut look = pin!(silence.wait());
    loop {
        look.as_mut().await;
        if silence.lasts(Some(heard.bytes.load(Ordering::Relaxed))) {
            return timeout;
        }
        look.as_mut().reset(silence.next());
    }
}

/// What is known of one side. All that is said passes there, whoever says it.
#[derive(Default)]
struct Heard {
    bytes: AtomicU64,
    broken: AtomicBool,
    /// One direction has ended: the client's end was read, or the backend's end was passed on to the client.
    half_closed: AtomicBool,
}

impl Heard {
    fn note(&self, result: &Poll<io::Result<usize>>) {
        match result {
            Poll::Ready(Ok(count)) => {
                self.bytes.fetch_add(*count as u64, Ordering::Relaxed);
            }
            Poll::Ready(Err(_)) => self.broken.store(true, Ordering::Relaxed),
            Poll::Pending => {}
        }
    }

    /// Waits until one direction has ended. Nothing wakes it but the task itself: the flag is set while the same task polls the
    /// copy, which is polled first.
    async fn half_closed(&self) {
        poll_fn(|_| if self.half_closed.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

/// A stream of which is noted what passes.
struct Listened<'a, S> {
    stream: &'a mut S,
    heard: &'a Heard,
}

impl<S: AsyncRead + Unpin> AsyncRead for Listened<'_, S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (before, room) = (buf.filled().len(), buf.remaining());
        let read = Pin::new(&mut *self.stream).poll_read(cx, buf).map_ok(|()| buf.filled().len() - before);
        if room > 0 && matches!(read, Poll::Ready(Ok(0))) {
            self.heard.half_closed.store(true, Ordering::Relaxed);
        }
        self.heard.note(&read);
        read.map_ok(drop)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Listened<'_, S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut *self.stream).poll_write(cx, buf);
        self.heard.note(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut *self.stream).poll_write_vectored(cx, bufs);
        self.heard.note(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut *self.stream).poll_flush(cx).map_ok(|()| 0);
        self.heard.note(&flushed);
        flushed.map_ok(drop)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.heard.half_closed.store(true, Ordering::Relaxed);
        let ended = Pin::new(&mut *self.stream).poll_shutdown(cx).map_ok(|()| 0);
        self.heard.note(&ended);
        ended.map_ok(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    fn idle(timeout: Duration) -> Timeouts {
        Timeouts { idle: Some(timeout), ..Timeouts::default() }
    }

    fn half_close(timeout: Duration) -> Timeouts {
        Timeouts { half_close: Some(timeout), ..Timeouts::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_it_and_words_do_not() {
        let timeout = Duration::from_secs(8);
        let ((mut here, mut client), (mut backend, mut there)) = (duplex(64), duplex(64));
        let start = tokio::time::Instant::now();
        let joined = tokio::spawn(async move { join(&mut client, &mut backend, idle(timeout)).await });
        for word in [b"one", b"two"] {
            tokio::time::sleep(timeout - Duration::from_secs(1)).await;
            here.write_all(word).await.unwrap();
            let mut heard = [0; 3];
            there.read_exact(&mut heard).await.unwrap();
            assert_eq!(&heard, word);
        }
        assert!(matches!(joined.await.unwrap(), Err(Broken::Silent(_))));
        let silent = start.elapsed() - 2 * (timeout - Duration::from_secs(1));
        assert!(silent >= timeout && silent <= timeout + timeout / 2, "{silent:?}");
    }

    #[tokio::test]
    async fn who_has_said_all_still_hears() {
        let ((mut here, mut client), (mut backend, mut there)) = (duplex(64), duplex(64));
        let joined = tokio::spawn(async move { join(&mut client, &mut backend, Timeouts::default()).await });
        here.write_all(b"question").await.unwrap();
        here.shutdown().await.unwrap();
        let mut question = String::new();
        there.read_to_string(&mut question).await.unwrap();
        assert_eq!(question, "question");
        there.write_all(b"answer").await.unwrap();
        drop(there);
        let mut answer = String::new();
        here.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "answer");
        assert!(joined.await.unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn half_closed_pair_ends_when_the_other_side_stays_silent() {
        let timeout = Duration::from_secs(8);
        for client_closes in [true, false] {
            let ((mut here, mut client), (mut backend, mut there)) = (duplex(64), duplex(64));
            let joined = tokio::spawn(async move { join(&mut client, &mut backend, half_close(timeout)).await });
            let (closing, open) = if client_closes { (&mut here, &mut there) } else { (&mut there, &mut here) };
            // While both halves are open, silence does not matter.
            tokio::time::sleep(10 * timeout).await;
            assert!(!joined.is_finished());
            closing.shutdown().await.unwrap();
            assert_eq!(open.read(&mut [0; 8]).await.unwrap(), 0, "the end is passed on");
            let closed_at = tokio::time::Instant::now();
            // Bytes in the open direction keep it alive.
            for _ in 0..4 {
                tokio::time::sleep(timeout - Duration::from_secs(1)).await;
                open.write_all(b"more").await.unwrap();
                closing.read_exact(&mut [0; 4]).await.unwrap();
            }
            let said_last = tokio::time::Instant::now();
            assert!(matches!(joined.await.unwrap(), Err(Broken::HalfClosed(_))));
            assert!(closed_at.elapsed() > 4 * (timeout - Duration::from_secs(1)));
            let silent = said_last.elapsed();
            assert!(silent >= timeout && silent <= timeout + timeout / 2, "{silent:?}");
        }
    }
}
