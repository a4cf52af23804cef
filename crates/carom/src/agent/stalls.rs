//! Which backends of an origin are stalled, and which of its requests are sent once more for that.
//!
//! The [detector](carom_core::stall) behind one lock. Every response head is reported to it, and every read from a socket leaves the
//! time in its backend's [`Pulse`], without the lock. A request is reported when it has waited for [`LATE`]; from then on it wakes
//! the detector when that is due, so there is no task and no timer for it.

use crate::Backend;
use crate::clock;
use carom_core::stall::{RequestId, StallAction, StallDetector};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::time::{Sleep, sleep_until};

/// A request that has waited this long for its response head is reported to the detector: half of the shortest threshold.
pub(super) const LATE: Duration = Duration::from_millis(250);

/// Called when a backend has become stalled or has recovered. It reads which of the two under its own lock, so that the latest change
/// wins. False when it is not to be called again.
type Follower = Arc<dyn Fn(&Pulse) -> bool + Send + Sync>;

/// See the [module](self).
pub(crate) struct Stalls {
    table: Mutex<Table>,
    followers: Mutex<Vec<Follower>>,
    /// Hints outside the lock: more than one backend has been connected to, and a backend is stalled.
    several: AtomicBool,
    any: AtomicBool,
    /// The backends have active health checks.
    checks: bool,
    start: Instant,
}

struct Table {
    detector: StallDetector,
    pulses: BTreeMap<u32, Arc<Pulse>>,
    numbers: HashMap<Backend, u32>,
    next: u32,
    requests: HashMap<RequestId, Entry>,
}

/// A request that waits.
#[derive(Default)]
struct Entry {
    waker: Option<Waker>,
    /// It is to be sent once more.
    retry: bool,
}

/// The signs of life of one backend.
pub(crate) struct Pulse {
    pub(super) backend: Backend,
    number: u32,
    /// When bytes arrived last, in microseconds since `start`.
    last_byte: AtomicU64,
    start: Instant,
    stalled: AtomicBool,
    stalls: Weak<Stalls>,
}

impl Stalls {
    pub(crate) fn new(retries: bool, checks: bool) -> Arc<Stalls> {
        let start = clock::now();
        let table = Table {
            detector: StallDetector::new(retries, start),
            pulses: BTreeMap::new(),
            numbers: HashMap::new(),
            next: 0,
            requests: HashMap::new(),
        };
        // The checks connect to every backend.
        let (several, any) = (AtomicBool::new(checks), AtomicBool::new(false));
        Arc::new(Stalls { table: Mutex::new(table), followers: Mutex::default(), several, any, checks, start })
    }

    /// The pulse of a backend that is about to be connected to.
    pub(crate) fn pulse(self: &Arc<Self>, backend: &Backend) -> Arc<Pulse> {
        let mut table = self.lock();
        if let Some(number) = table.numbers.get(backend) {
            return Arc::clone(&table.pulses[number]);
        }
        // Backends that were replaced have no connections any more.
        let gone = |pulse: &Arc<Pulse>| Arc::strong_count(pulse) == 1 && !pulse.is_stalled();
        let gone: Vec<Arc<Pulse>> = table.pulses.values().filter(|pulse| gone(pulse)).cloned().collect();
        for pulse in gone {
            table.forget(&pulse);
        }
        let number = table.next;
        let pulse = Arc::new(Pulse {
            backend: backend.clone(),
            number,
            last_byte: AtomicU64::new(0),
            start: self.start,
            stalled: AtomicBool::new(false),
            stalls: Arc::downgrade(self),
        });
        table.next += 1;
        table.detector.add(number);
        table.numbers.insert(backend.clone(), number);
        table.pulses.insert(number, Arc::clone(&pulse));
        self.several.store(self.checks || table.pulses.len() > 1, Ordering::Relaxed);
        pulse
    }

    /// Adds a follower.
    pub(super) fn follow(&self, follower: impl Fn(&Pulse) -> bool + Send + Sync + 'static) {
        let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers.push(Arc::new(follower));
    }

    /// Whether there is more than one backend: otherwise none can be stalled.
    pub(super) fn has_several(&self) -> bool {
        self.several.load(Ordering::Relaxed)
    }

    /// Whether a backend is stalled.
    pub(super) fn has_any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// A response head arrived to a request that was sent then; `None` for one that was sent in pieces.
    pub(super) fn response_started(&self, pulse: &Pulse, sent: Option<Instant>) {
        let now = clock::now();
        let took = sent.map(|sent| now.saturating_duration_since(sent));
        let mut table = self.lock();
        table.report_bytes_if_overdue();
        table.detector.response_started(now, pulse.number, took);
        self.finish(table);
    }

    /// An active health check of a backend has passed or failed; the backend is `unhealthy` or not since then.
    pub(super) fn health_checked(self: &Arc<Self>, backend: &Backend, passed: bool, unhealthy: bool) {
        let pulse = self.pulse(backend);
        let mut table = self.lock();
        table.report_bytes_if_overdue();
        table.detector.health_checked(clock::now(), pulse.number, passed, unhealthy);
        self.finish(table);
    }

    /// A request waits for its response head, sent then. It may be sent once more if it is `repeatable`.
    pub(super) fn wait(self: &Arc<Self>, pulse: &Pulse, sent: Instant, repeatable: bool) -> Registration {
        let mut table = self.lock();
        let request = table.detector.request_sent(clock::now(), sent, pulse.number, repeatable);
        table.requests.insert(request, Entry::default());
        self.finish(table);
        Registration { stalls: Arc::clone(self), request, sleep: None }
    }

    /// A new request that may be sent twice: which stalled backend gets a copy of it, as a probe.
    #[cold]
    pub(super) fn next_probe(&self) -> Option<Arc<Pulse>> {
        let mut table = self.lock();
        let number = table.detector.next_probe(clock::now())?;
        table.pulses.get(&number).cloned()
    }

    /// A new request that must not be sent twice: which stalled backend gets it, as a trial. None with active health checks, which
    /// show when a backend is back.
    #[cold]
    pub(super) fn next_trial(&self) -> Option<Arc<Pulse>> {
        if self.checks {
            return None;
        }
        let mut table = self.lock();
        let number = table.detector.next_trial(clock::now())?;
        table.pulses.get(&number).cloned()
    }

    /// A backend is not known to the resolver any more.
    pub(super) fn forget(&self, pulse: &Arc<Pulse>) {
        let mut table = self.lock();
        pulse.stalled.store(false, Ordering::Relaxed);
        table.forget(pulse);
        self.finish(table);
    }

    /// How long a backend is silent before it is stalled.
    pub(super) fn threshold(&self) -> Duration {
        self.lock().detector.threshold()
    }

    fn handle_timeout(&self) {
        let mut table = self.lock();
        // A byte that arrives from here on is found the next time, at the latest with the next probe.
        table.report_bytes();
        table.detector.handle_timeout(clock::now());
        self.finish(table);
    }

    /// Lets go of the lock, and delivers what the detector said.
    fn finish(&self, mut table: MutexGuard<'_, Table>) {
        let Some(first) = table.detector.poll_action() else { return };
        let (mut changed, mut wakers, mut next) = (Vec::new(), Vec::new(), Some(first));
        while let Some(action) = next {
            match action {
                StallAction::Stalled(number) => changed.extend(table.turn(number, true)),
                StallAction::Recovered(number) => changed.extend(table.turn(number, false)),
                StallAction::Retry(request) => {
                    if let Some(late) = table.requests.get_mut(&request) {
                        late.retry = true;
                        wakers.extend(late.waker.take());
                    }
                }
            }
            next = table.detector.poll_action();
        }
        self.any.store(table.detector.stalled().next().is_some(), Ordering::Relaxed);
        drop(table);
        for pulse in changed {
            self.tell(&pulse);
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    #[cold]
    fn tell(&self, pulse: &Pulse) {
        let lock = || self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        let followers = lock().clone();
        for follower in followers {
            if !follower(pulse) {
                lock().retain(|other| !Arc::ptr_eq(other, &follower));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Reports when the last byte of each backend arrived.
    fn report_bytes(&mut self) {
        for pulse in self.pulses.values() {
            if let Some(at) = pulse.last_byte() {
                self.detector.bytes_received(at, pulse.number);
            }
        }
    }

    /// Does so before a response that may make a backend stalled.
    fn report_bytes_if_overdue(&mut self) {
        if self.detector.is_overdue() {
            self.report_bytes();
        }
    }

    fn turn(&mut self, number: u32, stalled: bool) -> Option<Arc<Pulse>> {
        let pulse = self.pulses.get(&number)?;
        pulse.stalled.store(stalled, Ordering::Relaxed);
        Some(Arc::clone(pulse))
    }

    fn forget(&mut self, pulse: &Pulse) {
        self.detector.remove(pulse.number);
        self.numbers.remove(&pulse.backend);
        self.pulses.remove(&pulse.number);
    }
}

impl Pulse {
    /// Bytes arrived.
    #[inline]
    pub(super) fn beat(&self) {
        let now = clock::now();
        let age = now.saturating_duration_since(self.start);
        let micros = age.as_secs() * 1_000_000 + u64::from(age.subsec_micros());
        self.last_byte.store(micros, Ordering::Relaxed);
        if self.stalled.load(Ordering::Relaxed) {
            self.recover(now);
        }
    }

    #[cold]
    fn recover(&self, now: Instant) {
        let Some(stalls) = self.stalls.upgrade() else { return };
        let mut table = stalls.lock();
        table.detector.bytes_received(now, self.number);
        stalls.finish(table);
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    fn last_byte(&self) -> Option<Instant> {
        let micros = self.last_byte.load(Ordering::Relaxed);
        (micros > 0).then(|| self.start + Duration::from_micros(micros))
    }
}

/// A request that waits for its response head; dropped, it waits no more.
pub(super) struct Registration {
    stalls: Arc<Stalls>,
    request: RequestId,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Registration {
    /// Ready when the request is to be sent once more. Until then it wakes the detector when that is due.
    pub(super) fn poll_retry(&mut self, runtime: &Handle, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let next = {
                let mut table = self.stalls.lock();
                let next = table.detector.next_timeout();
                match table.requests.get_mut(&self.request) {
                    Some(late) if late.retry => return Poll::Ready(()),
                    Some(late) if late.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) => next,
                    Some(late) => {
                        let before = late.waker.replace(cx.waker().clone());
                        drop(table);
                        // Dropping a waker can drop a task.
                        drop(before);
                        next
                    }
                    None => return Poll::Pending,
                }
            };
            let Some(next) = next else { return Poll::Pending };
            let sleep = self.sleep.get_or_insert_with(|| {
                let _entered = runtime.enter();
                Box::pin(sleep_until(next.into()))
            });
            if sleep.deadline().into_std() != next || sleep.is_elapsed() {
                sleep.as_mut().reset(next.into());
            }
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.stalls.handle_timeout();
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut table = self.stalls.lock();
        table.detector.request_ended(self.request);
        let late = table.requests.remove(&self.request);
        drop(table);
        drop(late);
    }
}

impl fmt::Debug for Stalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stalls").finish_non_exhaustive()
    }
}

impl fmt::Debug for Pulse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pulse").field("backend", &self.backend).finish_non_exhaustive()
    }
}
