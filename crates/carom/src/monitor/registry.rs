//! The registry: who is there, held weakly.

use super::object::{Observe, Observed, Seen};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Names an object; unique in the process, and never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Id(u64);

impl Id {
    fn next() -> Id {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Id(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The one of this number, if there is such an object.
    pub fn of(number: u64) -> Id {
        Id(number)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Default)]
pub(super) struct Registry {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<Id, Weak<dyn Observe>>,
    /// So many there were after the last look for those that are gone.
    swept: usize,
}

/// Below this many nobody looks for those that are gone.
const FEW: usize = 32;

impl Registry {
    pub(super) fn add(&self, object: Weak<dyn Observe>) -> Id {
        let id = Id::next();
        let mut state = self.lock();
        // What is gone keeps its memory until it is forgotten. A look at all of them each time that they have doubled is cheap.
        if state.objects.len() >= FEW.max(2 * state.swept) {
            state.objects.retain(|_, object| object.strong_count() > 0);
            state.swept = state.objects.len();
        }
        state.objects.insert(id, object);
        id
    }

    pub(super) fn len(&self) -> usize {
        self.lock().objects.values().filter(|object| object.strong_count() > 0).count()
    }

    /// Looks at all of them, none with the lock held: whoever registers does not wait for it.
    pub(super) fn look(&self) -> Vec<Seen> {
        let all: Vec<(Id, Option<Arc<dyn Observe>>)> =
            self.lock().objects.iter().map(|(id, object)| (*id, object.upgrade())).collect();
        let mut gone = Vec::new();
        let mut seen = Vec::with_capacity(all.len());
        for (id, object) in all {
            match object.and_then(|object| look_at(id, object)) {
                Some(one) => seen.push(one),
                None => gone.push(id),
            }
        }
        self.forget(&gone);
        seen
    }

    pub(super) fn look_at(&self, id: Id) -> Option<Seen> {
        let object = self.lock().objects.get(&id)?.upgrade()?;
        let seen = look_at(id, object);
        if seen.is_none() {
            self.forget(&[id]);
        }
        seen
    }

    fn forget(&self, gone: &[Id]) {
        if gone.is_empty() {
            return;
        }
        let gone: Vec<_> = {
            let mut state = self.lock();
            gone.iter().map(|id| state.objects.remove(id)).collect()
        };
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked with it had done what it does in one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How an object is; `None` when it is over. One that panics is not looked at again, and the others are seen all the same.
fn look_at(id: Id, object: Arc<dyn Observe>) -> Option<Seen> {
    let look = AssertUnwindSafe(move || {
        let observed = object.observe();
        // Perhaps nobody else holds it any more: then it is dropped here.
        drop(object);
        observed
    });
    let observed = catch_unwind(look).unwrap_or_else(|_| {
        tracing::warn!(%id, "an object panicked when it was looked at: it is not seen any more");
        None
    });
    observed.map(|Observed { name, object }| Seen { id, name, object })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::{Monitor, Object, Resolver};
    use std::sync::atomic::AtomicUsize;

    struct Fixed;

    impl Observe for Fixed {
        fn observe(&self) -> Option<Observed> {
            let state = crate::monitor::State::Running;
            let resolver = Resolver { state, backends: Vec::new(), stale_ms: None, error: None, dns: None };
            Some(Observed { name: "fixed".to_owned(), object: Object::Resolver(resolver) })
        }
    }

    #[derive(Default)]
    struct Broken(AtomicUsize);

    impl Observe for Broken {
        fn observe(&self) -> Option<Observed> {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("it cannot be seen");
        }
    }

    #[test]
    fn one_that_panics_hides_nobody_else_and_is_not_asked_again() {
        let (monitor, broken, fixed) = (Monitor::new(), [0; 2].map(|_| Arc::<Broken>::default()), Arc::new(Fixed));
        let [_, second] = broken.each_ref().map(|broken| monitor.register(broken));
        let id = monitor.register(&fixed);
        assert_eq!(monitor.object(second), None);
        for _ in 0..2 {
            let seen: Vec<Id> = monitor.snapshot().objects.iter().map(|seen| seen.id).collect();
            assert_eq!(seen, [id]);
        }
        assert_eq!(broken.map(|broken| broken.0.load(Ordering::Relaxed)), [1, 1]);
    }
}
