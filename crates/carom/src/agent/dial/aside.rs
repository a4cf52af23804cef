//! Streams put aside: what the first dial to an origin brought, kept until whoever it is for comes to take it.

use super::{Dialled, Spoken};
use carom_core::backend::Backend;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long one waits to be taken. Whoever dialled it needs it at once; if not, servers do not wait much longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Streams that wait to be taken: hardly ever more than one.
#[derive(Debug, Default)]
pub(super) struct Aside {
    waiting: Mutex<Vec<Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    backend: Backend,
    dialled: Dialled,
    since: Instant,
}

impl Aside {
    pub(super) fn put(&self, backend: &Backend, dialled: Dialled) {
        let now = Instant::now();
        let mut waiting = self.lock();
        waiting.retain(|waiting| waiting.is_patient(now));
        waiting.push(Waiting { backend: backend.clone(), dialled, since: now });
    }

    /// One to this backend on which this is spoken, if it is still open.
    pub(super) fn take(&self, backend: &Backend, spoken: Spoken) -> Option<Dialled> {
        let mut waiting = self.lock();
        if waiting.is_empty() {
            return None;
        }
        let now = Instant::now();
        waiting.retain(|waiting| waiting.is_patient(now));
        let found = waiting.iter().position(|one| one.backend == *backend && one.dialled.spoken == spoken)?;
        Some(waiting.swap_remove(found).dialled)
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// Closes what nobody has taken in time.
    pub(super) async fn tidy_later(aside: Weak<Aside>) {
        sleep(PATIENCE).await;
        if let Some(aside) = aside.upgrade() {
            let now = Instant::now();
            aside.lock().retain(|waiting| waiting.is_patient(now));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// A server that speaks HTTP/2 has said something already, so that the end may be hidden for a while behind that.
    fn is_patient(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < PATIENCE && self.dialled.watch().is_open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::dial::{Dialer, Offer};
    use crate::tcp::Tcp;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    /// A dialler of HTTP/1, one stream that it has put aside, and the far side of that.
    async fn one_aside() -> (Dialer, Backend, TcpListener, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let backend = Backend::fixed(listener.local_addr().unwrap());
        let dialer = Dialer::plain(Tcp::default());
        let dialled = dialer.dial(&backend).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        dialer.aside.put(&backend, dialled);
        (dialer, backend, listener, far)
    }

    #[tokio::test]
    async fn it_is_taken_once_by_who_dials_that_backend_and_wants_what_is_spoken() {
        let (dialer, backend, _listener, mut far) = one_aside().await;
        let elsewhere = Backend::new("another", backend.socket_addr());
        assert!(dialer.aside.take(&elsewhere, Spoken::Http1).is_none());
        assert!(dialer.aside.take(&backend, Spoken::Http2).is_none());

        let http2 = dialer.offering(Offer::Only(Spoken::Http2));
        assert_eq!(http2.dial(&backend).await.unwrap().spoken, Spoken::Http2, "a new one");
        let mut taken = dialer.offering(Offer::Only(Spoken::Http1)).dial(&backend).await.unwrap();
        taken.stream.write_all(b"the same").await.unwrap();
        let mut heard = [0; 8];
        far.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"the same");
        assert!(dialer.aside.take(&backend, Spoken::Http1).is_none());
    }

    #[tokio::test]
    async fn one_that_has_ended_is_not_taken() {
        let (dialer, backend, _listener, far) = one_aside().await;
        drop(far);
        let watch = dialer.aside.lock()[0].dialled.watch();
        watch.closed().await;
        assert!(dialer.aside.take(&backend, Spoken::Http1).is_none());
        assert!(dialer.aside.lock().is_empty());
    }

    #[tokio::test]
    async fn one_that_nobody_wants_is_closed() {
        let (dialer, _backend, _listener, mut far) = one_aside().await;
        dialer.clear_aside();
        assert_eq!(far.read(&mut [0]).await.unwrap(), 0);
    }
}
