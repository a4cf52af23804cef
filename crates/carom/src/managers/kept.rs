//! One manager for each backend: made at its first dial, kept while it is of use, forgotten after.
//!
//! Nobody tells a connector that a backend is gone. So the managers are looked through at a dial, five minutes or more
//! after the last look: one that is out of use at two looks in a row is forgotten. In use is one that a connection holds
//! or that is being dialled, and, at its first look, one that is new. So they cannot pile up: what is left after a look is
//! in use, or was at the look before.

use crate::{Backend, clock};
use std::collections::BTreeMap;
use std::fmt;
use std::mem::replace;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;

/// Between two looks. Well above the usual delays between dials of a backend that fails; where it is not, the manager is
/// just made again.
const LOOK_INTERVAL: Duration = Duration::from_secs(300);

/// The managers of a connector, by backend.
pub(super) struct Kept<M, E> {
    make: Box<Make<M, E>>,
    places: Mutex<Places<M>>,
}

type Make<M, E> = dyn Fn(&Backend) -> Result<M, E> + Send + Sync;

struct Places<M> {
    by_backend: BTreeMap<Backend, Place<M>>,
    looked: Option<Instant>,
}

struct Place<M> {
    cell: Arc<Cell<M>>,
    /// It was in use at the last look.
    used: bool,
}

/// Empty until the manager is made. A dial holds the cell, a connection the manager in it.
type Cell<M> = OnceCell<Arc<M>>;

impl<M, E> Kept<M, E> {
    pub(super) fn new(make: impl Fn(&Backend) -> Result<M, E> + Send + Sync + 'static) -> Kept<M, E> {
        Kept { make: Box::new(make), places: Mutex::new(Places { by_backend: BTreeMap::new(), looked: None }) }
    }

    /// The manager of a backend, made if there is none. Who dials the same backend meanwhile waits for it; if making it
    /// fails or panics, the next one tries.
    pub(super) async fn of(&self, backend: &Backend) -> Result<Arc<M>, E> {
        let cell = self.cell(backend, clock::now());
        let manager = cell.get_or_try_init(|| async { (self.make)(backend).map(Arc::new) }).await?;
        Ok(Arc::clone(manager))
    }

    fn cell(&self, backend: &Backend, now: Instant) -> Arc<Cell<M>> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let cell = Arc::clone(&places.by_backend.entry(backend.clone()).or_insert_with(Place::new).cell);
        let forgotten = places.look(now);
        drop(places);
        // What a manager does when it is dropped is not ours: not under the lock.
        drop(forgotten);
        cell
    }
}

impl<M> Places<M> {
    /// Looks through the managers if it is time to, and returns what is to be forgotten.
    fn look(&mut self, now: Instant) -> Vec<Arc<Cell<M>>> {
        let mut forgotten = Vec::new();
        if now.saturating_duration_since(*self.looked.get_or_insert(now)) >= LOOK_INTERVAL {
            self.looked = Some(now);
            self.by_backend.retain(|_, place| {
                let of_use = place.look();
                if !of_use {
                    forgotten.push(Arc::clone(&place.cell));
                }
                of_use
            });
        }
        forgotten
    }
}

impl<M> Place<M> {
    fn new() -> Place<M> {
        Place { cell: Arc::new(OnceCell::new()), used: true }
    }

    /// Whether it is in use, or was at the last look.
    fn look(&mut self) -> bool {
        let lent = |manager| Arc::strong_count(manager) > 1;
        let used = Arc::strong_count(&self.cell) > 1 || self.cell.get().is_some_and(lent);
        replace(&mut self.used, used) || used
    }
}

/// Whose managers there are; what is in them may be secret.
impl<M, E> fmt::Debug for Kept<M, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(places.by_backend.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::task::{Context, Poll, Waker};

    fn backend(last: u8) -> Backend {
        Backend::fixed(SocketAddr::from(([10, 0, 0, last], 80)))
    }

    /// Managers are numbers, counted as they are made.
    fn counting() -> Kept<usize, &'static str> {
        let made = AtomicUsize::new(0);
        Kept::new(move |_| Ok(made.fetch_add(1, Ordering::Relaxed) + 1))
    }

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// The manager of a backend, dialled at a time of the test's choosing.
    fn dial(kept: &Kept<usize, &'static str>, last: u8, now: Instant) -> Arc<usize> {
        let cell = kept.cell(&backend(last), now);
        let making = std::pin::pin!(cell.get_or_try_init(|| async { (kept.make)(&backend(last)).map(Arc::new) }));
        match poll(making) {
            Poll::Ready(Ok(manager)) => Arc::clone(manager),
            other => panic!("{other:?}"),
        }
    }

    fn known(kept: &Kept<usize, &'static str>) -> usize {
        kept.places.lock().unwrap().by_backend.len()
    }

    #[test]
    fn each_backend_has_its_own() {
        let (kept, now) = (counting(), Instant::now());
        assert_eq!([1, 2, 1, 2].map(|last| *dial(&kept, last, now)), [1, 2, 1, 2]);
    }

    #[test]
    fn who_dials_while_it_is_made_waits_for_it() {
        let ((entered, inside), (leave, left)) = (mpsc::channel(), mpsc::channel());
        let left = Mutex::new(left);
        let kept = Kept::<_, &str>::new(move |_| {
            entered.send(()).unwrap();
            left.lock().unwrap().recv().unwrap();
            Ok(7)
        });
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                let address = backend(1);
                poll(std::pin::pin!(kept.of(&address)))
            });
            inside.recv().unwrap();
            let address = backend(1);
            let mut second = std::pin::pin!(kept.of(&address));
            assert!(poll(second.as_mut()).is_pending());
            leave.send(()).unwrap();
            let Poll::Ready(Ok(first)) = first.join().unwrap() else { panic!("made") };
            let Poll::Ready(Ok(second)) = poll(second) else { panic!("made") };
            assert!(Arc::ptr_eq(&first, &second));
        });
        assert!(inside.try_recv().is_err(), "made once");
    }

    #[test]
    fn a_failure_is_not_kept() {
        let failed = AtomicUsize::new(0);
        let kept = Kept::new(move |_| match failed.fetch_add(1, Ordering::Relaxed) {
            0 => Err("no such secret"),
            _ => Ok(()),
        });
        let address = backend(1);
        assert!(matches!(poll(std::pin::pin!(kept.of(&address))), Poll::Ready(Err("no such secret"))));
        assert!(matches!(poll(std::pin::pin!(kept.of(&address))), Poll::Ready(Ok(_))));
    }

    #[test]
    fn what_is_out_of_use_at_two_looks_is_forgotten() {
        let (kept, start) = (counting(), Instant::now());
        let (lent, _) = (dial(&kept, 1, start), dial(&kept, 2, start));
        let _ = dial(&kept, 3, start + LOOK_INTERVAL);
        assert_eq!(known(&kept), 3, "2 was new at the look");
        let _ = dial(&kept, 3, start + LOOK_INTERVAL * 2);
        assert_eq!(known(&kept), 2, "1 is lent, 3 is being dialled");
        assert_eq!((*lent, *dial(&kept, 1, start + LOOK_INTERVAL * 3)), (1, 1));
        assert_eq!(*dial(&kept, 2, start + LOOK_INTERVAL * 3), 4, "made anew");
    }

    #[test]
    fn one_that_just_came_out_of_use_is_not_forgotten_at_once() {
        let (kept, start) = (counting(), Instant::now());
        let lent = dial(&kept, 1, start);
        let _ = dial(&kept, 2, start + LOOK_INTERVAL);
        drop(lent);
        let _ = dial(&kept, 2, start + LOOK_INTERVAL * 2);
        assert_eq!(*dial(&kept, 1, start + LOOK_INTERVAL * 2), 1);
    }

    #[test]
    fn backends_that_come_and_go_leave_nothing_behind() {
        let (kept, start) = (counting(), Instant::now());
        for step in 0..10_000 {
            let socket = SocketAddr::from(([10, 0, (step >> 8) as u8, step as u8], 80));
            let cell = kept.cell(&Backend::fixed(socket), start + Duration::from_secs(60) * step);
            cell.set(Arc::new(0)).unwrap();
        }
        assert!(known(&kept) <= 11, "{}", known(&kept));
    }
}
