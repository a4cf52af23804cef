//! The driver: one task per pool that does what the machine asks for and tells it what happened.
//!
//! Connects, checks and closes run as tasks of their own, so that none of them holds up another; watchers of idle
//! connections too. Each is known by the slot it works for. When the machine wants one cut short it is aborted, and the
//! machine hears that it has ended when it really has.

use super::checks::Warning;
use super::claim::has_unread;
use super::shared::{Outstanding, Shared};
use super::table::{Held, Table};
use crate::cause::{Cause, Chain, FailedUse, Failing, Outdated, Reason};
use crate::clock;
use crate::connect::{Connect, ConnectError, Liveness};
use crate::health_check::{Checked, Runner, by_connector};
use crate::meter::{Meter, Timer};
use crate::quiet::{drop_quietly, text_of};
use crate::resolver::{Resolution, ResolverEnded, ResolverState};
use crate::telling::{Whose, collect, tell};
use carom_core::backend::Backend;
use carom_core::pool::{Action, CheckId, Ending, State};
use carom_core::slot::SlotRef;
use std::collections::HashMap;
use std::error::Error;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tracing::Instrument;

/// Finished tasks that are taken before the machine is asked again.
const BATCH: usize = 64;

pub(crate) struct Driver<C: Connect> {
    shared: Arc<Shared<C>>,
    tasks: JoinSet<Done<C>>,
    by_id: HashMap<Id, Task>,
    by_slot: HashMap<usize, (Id, AbortHandle)>,
    watchers: JoinSet<(SlotRef, Ending, Liveness)>,
    resolution: watch::Receiver<Resolution>,
    follows: bool,
    /// Who serves, as the resolver said last.
    heard: Option<Arc<[Backend]>>,
    resolving: AbortHandle,
    published: State,
    meter: Meter,
    checks: Runner<CheckId>,
}

/// What a task is for.
struct Task {
    slot: SlotRef,
    work: Work,
    /// It was cut short: how the slot is to be named when it has ended.
    cut: Option<SlotRef>,
}

enum Work {
    Connect(Arc<Backend>),
    Check(Arc<Backend>),
    Recycle(Arc<Backend>),
    Close,
}

/// What a task brings back.
enum Done<C: Connect> {
    Connected(Result<C::Connection, C::Error>, Timer),
    Checked(Box<Held<C>>, Proof),
    Closed,
}

/// What came of a check or a recycle.
enum Proof {
    Passed,
    /// There is none, and nothing else is known.
    Unknown,
    /// The connection has ended in an orderly way.
    Closed,
    Failed(Reason),
}

impl<C: Connect> Driver<C> {
    pub(crate) fn new(
        shared: Arc<Shared<C>>,
        resolution: watch::Receiver<Resolution>,
        resolving: AbortHandle,
        meter: Meter,
        checks: Runner<CheckId>,
    ) -> Driver<C> {
        Driver {
            shared,
            tasks: JoinSet::new(),
            by_id: HashMap::new(),
            by_slot: HashMap::new(),
            watchers: JoinSet::new(),
            resolution,
            follows: true,
            heard: None,
            resolving,
            published: State::Starting,
            meter,
            checks,
        }
    }

    pub(crate) async fn run(mut self) {
        loop {
            let wake_at = self.turn();
            self.shared.turned.notify_waiters();
            if self.published == State::Stopped {
                return;
            }
            // A pool without timers sleeps until something happens.
            let far = Duration::from_secs(86_400 * 365);
            let deadline = wake_at.unwrap_or_else(|| clock::now() + far);
            tokio::select! {
                () = self.shared.wake.notified() => {}
                Some(joined) = self.tasks.join_next_with_id() => {
                    self.finished(joined);
                    for _ in 0..BATCH {
                        let Some(joined) = self.tasks.try_join_next_with_id() else { break };
                        self.finished(joined);
                    }
                }
                Some(ended) = self.watchers.join_next() => self.watched(ended),
                Some(checked) = self.checks.next() => self.health_checked(checked),
                changed = self.resolution.changed(), if self.follows => self.resolved(changed.is_ok()),
                () = tokio::time::sleep_until(deadline.into()) => {}
            }
        }
    }

    /// Lets the machine do what is due and does what it asks for, until it asks for nothing more; until when to sleep.
    fn turn(&mut self) -> Option<Instant> {
        loop {
            let now = clock::now();
            let mut actions = Vec::new();
            let (wake_at, state, tales, outdated) = self.shared.driver_step(|table| {
                table.machine.handle_timeout(now);
                actions.extend(std::iter::from_fn(|| table.machine.poll_action()));
                // Whoever hears that a backend is dead, or is refused for it, or looks, hears why.
                let late = actions.iter().filter_map(|action| self.late(action));
                let outdated: Vec<_> = late.map(|late| fail_late(table, now, late)).collect();
                let tales = collect(|| table.machine.poll_news(), &table.causes);
                (table.machine.arm(), table.machine.state(), tales, outdated)
            });
            for (warning, outdated) in outdated {
                drop_quietly(&self.shared.name, outdated);
                warning.into_iter().for_each(|warning| warning.log(&self.shared.name));
            }
            tell(Whose::Pool(&self.shared.name), now, tales);
            self.publish(state);
            if actions.is_empty() {
                return wake_at;
            }
            for action in actions {
                self.perform(action);
            }
        }
    }

    /// Who took too long, at what, if that is why something is cut short.
    fn late(&self, action: &Action) -> Option<(Arc<Backend>, Failing, ConnectError)> {
        let Action::Abandon { task, timed_out: Some(timeout), .. } = action else { return None };
        let (id, _) = self.by_slot.get(&task.index())?;
        match &self.by_id.get(id).filter(|known| known.slot == *task)?.work {
            Work::Connect(backend) => {
                Some((Arc::clone(backend), Failing::Connect, ConnectError::ConnectTimedOut(*timeout)))
            }
            Work::Check(backend) => Some((Arc::clone(backend), Failing::Check, ConnectError::CheckTimedOut(*timeout))),
            Work::Recycle(backend) => {
                Some((Arc::clone(backend), Failing::Recycle, ConnectError::RecycleTimedOut(*timeout)))
            }
            Work::Close => None,
        }
    }

    fn publish(&mut self, state: State) {
        let before = std::mem::replace(&mut self.published, state);
        if before == state {
            return;
        }
        let pool = &*self.shared.name;
        match state {
            State::Failed => {
                let cause = self.shared.driver_step(|table| table.causes.latest());
                let cause = cause.map(|cause| text_of(&cause)).unwrap_or_default();
                tracing::warn!(pool, ?before, cause, "pool has failed");
            }
            State::Stopping => self.resolving.abort(),
            _ => {}
        }
        tracing::info!(pool, ?before, ?state, "pool changed state");
        self.shared.lifecycle.send_replace(state);
    }

    fn perform(&mut self, action: Action) {
        if let Some((backend, failing, error)) = self.late(&action) {
            self.trace_failure(&backend, failing, &error);
        }
        match action {
            Action::Connect { slot, backend } => self.connect(slot, backend),
            Action::Check { slot, suspect } => self.check(slot, suspect),
            Action::Suspect { slot } => self.suspect(slot),
            Action::Recycle { slot } => self.recycle(slot),
            Action::Watch { slot } => self.watch(slot),
            Action::Overdue { slot } => self.report(slot),
            Action::HealthCheck { check, backend } => {
                let connecting =
                    by_connector(Arc::clone(&self.shared), |shared| &shared.connector, Arc::clone(&backend));
                self.checks.start(check, backend, connecting);
            }
            Action::Close { slot, goodbye } => self.close(slot, goodbye),
            Action::Abandon { task, slot, .. } => self.abandon(task, slot),
        }
    }

    fn health_checked(&mut self, checked: Checked<CheckId>) {
        let Checked { check, backend, result } = checked;
        if let Err(error) = &result {
            self.trace_failure(&backend, Failing::HealthCheck, &**error);
        }
        let passed = result.is_ok();
        let (unhealthy, outdated) = self.shared.driver_step(|table| {
            table.machine.handle_health_checked(clock::now(), check, passed);
            let outdated = match result {
                Ok(()) => table.causes.health_check_passed(&backend),
                Err(error) => table.causes.failed(Arc::clone(&backend), Failing::HealthCheck, error),
            };
            (table.machine.is_unhealthy(&backend), outdated)
        });
        self.checks.observe(&backend, passed, unhealthy);
        drop_quietly(&self.shared.name, outdated);
    }

    fn connect(&mut self, slot: SlotRef, backend: Arc<Backend>) {
        let (shared, address) = (Arc::clone(&self.shared), Arc::clone(&backend));
        let mut timer = self.meter.timer(&backend);
        let span = tracing::debug_span!("connect", pool = &*shared.name, %backend);
        let connecting = async move {
            let connected = shared.connector.connect(&address).await;
            if connected.is_ok() {
                timer.created();
            }
            Done::Connected(connected, timer)
        };
        self.spawn(slot, Work::Connect(backend), connecting.instrument(span));
    }

    fn check(&mut self, slot: SlotRef, suspect: bool) {
        let Some(mut held) = self.take(slot) else { return };
        let (shared, backend) = (Arc::clone(&self.shared), Arc::clone(&held.backend));
        self.spawn(slot, Work::Check(backend), async move {
            let liveness = if suspect { shared.connector.liveness(&mut held.connection) } else { Liveness::Unknown };
            let proof = match liveness {
                Liveness::Closed => Proof::Closed,
                Liveness::Broken(cause) => Proof::Failed(cause),
                Liveness::Unknown => prove(shared.connector.check(&mut held.connection), Proof::Unknown).await,
                Liveness::Open | Liveness::Unanswered => {
                    prove(shared.connector.check(&mut held.connection), Proof::Passed).await
                }
            };
            Done::Checked(held, proof)
        });
    }

    /// Another connection of the backend broke: this one is not watched while it waits for its check.
    fn suspect(&self, slot: SlotRef) {
        let watcher = self.shared.driver_step(|table| table.take_watcher(slot));
        if let Some(watcher) = watcher {
            watcher.abort();
        }
    }

    fn recycle(&mut self, slot: SlotRef) {
        let Some(mut held) = self.take(slot) else { return };
        let (shared, backend) = (Arc::clone(&self.shared), Arc::clone(&held.backend));
        self.spawn(slot, Work::Recycle(backend), async move {
            let proof = prove(shared.connector.recycle(&mut held.connection), Proof::Passed).await;
            Done::Checked(held, proof)
        });
    }

    fn close(&mut self, slot: SlotRef, goodbye: bool) {
        let held = self.take(slot);
        if let Some(held) = &held {
            tracing::debug!(pool = &*self.shared.name, backend = %held.backend, goodbye, "closing a connection");
        }
        match held {
            Some(held) if goodbye => {
                let shared = Arc::clone(&self.shared);
                self.spawn(slot, Work::Close, async move {
                    shared.connector.close(held.connection).await;
                    Done::Closed
                });
            }
            held => {
                drop_quietly(&self.shared.name, held);
                self.ended(slot);
            }
        }
    }

    /// Says who holds a connection for so long.
    fn report(&self, slot: SlotRef) {
        let now = clock::now();
        if let Some(Outstanding { backend, site, lent_for }) = self.shared.overdue(slot, now) {
            tracing::warn!(pool = &*self.shared.name, %backend, %site, ?lent_for, "a claim is held for long");
        }
    }

    /// Aborts what is under way for a slot, if it has not ended already.
    fn abandon(&mut self, task: SlotRef, slot: SlotRef) {
        let Some((id, abort)) = self.by_slot.get(&task.index()) else { return self.ended(slot) };
        let Some(known) = self.by_id.get_mut(id).filter(|known| known.slot == task) else { return self.ended(slot) };
        known.cut = Some(slot);
        abort.abort();
    }

    /// Watches an idle connection for its end, unless it is not idling any more.
    fn watch(&mut self, slot: SlotRef) {
        let (shared, watchers) = (&self.shared, &mut self.watchers);
        shared.driver_step(|table| {
            let connection = table.look(slot)?;
            let closed = catch_unwind(AssertUnwindSafe(|| shared.connector.closed(connection))).ok()??;
            let watching = watchers.spawn(async move {
                let (ending, liveness) = ending(closed).await;
                (slot, ending, liveness)
            });
            table.set_watcher(slot, watching);
            Some(())
        });
    }

    fn spawn(&mut self, slot: SlotRef, work: Work, future: impl Future<Output = Done<C>> + Send + 'static) {
        let abort = self.tasks.spawn(future);
        self.by_id.insert(abort.id(), Task { slot, work, cut: None });
        self.by_slot.insert(slot.index(), (abort.id(), abort));
    }

    /// Takes a slot's connection out of the table.
    fn take(&mut self, slot: SlotRef) -> Option<Box<Held<C>>> {
        let (held, watcher) = self.shared.driver_step(|table| table.take(slot));
        if let Some(watcher) = watcher {
            watcher.abort();
        }
        held
    }

    fn finished(&mut self, joined: Result<(Id, Done<C>), JoinError>) {
        let (id, done) = match joined {
            Ok((id, done)) => (id, Some(done)),
            Err(error) => (error.id(), None),
        };
        let Some(Task { slot, work, cut }) = self.by_id.remove(&id) else { return };
        self.by_slot.remove(&slot.index());
        if let Some(slot) = cut {
            // Whatever it brought is not wanted any more, and must be gone before the slot is free.
            drop_quietly(&self.shared.name, done);
            return self.ended(slot);
        }
        match (work, done) {
            (Work::Connect(backend), Some(Done::Connected(Ok(connection), timer))) => {
                self.connected(Held { connection, backend, slot, timer });
            }
            (Work::Connect(backend), Some(Done::Connected(Err(error), _))) => {
                self.connect_failed(slot, &backend, Arc::new(error));
            }
            (Work::Connect(backend), _) => self.connect_failed(slot, &backend, Arc::new(ConnectError::Panicked)),
            (Work::Check(_) | Work::Recycle(_), Some(Done::Checked(held, Proof::Passed))) => {
                self.check_passed(slot, held, true);
            }
            (Work::Check(_) | Work::Recycle(_), Some(Done::Checked(held, Proof::Unknown))) => {
                self.check_passed(slot, held, false);
            }
            (Work::Check(backend) | Work::Recycle(backend), Some(Done::Checked(held, Proof::Closed))) => {
                drop_quietly(&self.shared.name, held);
                self.not_passed(slot, &backend, FailedUse::Closed);
            }
            (Work::Check(backend), Some(Done::Checked(held, Proof::Failed(error)))) => {
                drop_quietly(&self.shared.name, held);
                self.check_failed(slot, &backend, error);
            }
            (Work::Check(backend), _) => self.check_failed(slot, &backend, Arc::new(ConnectError::Panicked)),
            (Work::Recycle(backend), Some(Done::Checked(held, Proof::Failed(error)))) => {
                drop_quietly(&self.shared.name, held);
                self.not_cleaned(slot, &backend, error);
            }
            (Work::Recycle(backend), _) => {
                let error: Reason = Arc::new(ConnectError::Panicked);
                self.note(&backend, Failing::Recycle, Arc::clone(&error));
                self.not_cleaned(slot, &backend, error);
            }
            (Work::Close, _) => self.ended(slot),
        }
    }

    fn connected(&mut self, mut held: Held<C>) {
        tracing::debug!(pool = &*self.shared.name, backend = %held.backend, "connected");
        let connector = &self.shared.connector;
        // A panic is one to be met again when the connection is recycled.
        let recycles =
            catch_unwind(AssertUnwindSafe(|| connector.recycle(&mut held.connection).is_some())).unwrap_or(true);
        let (now, slot) = (clock::now(), held.slot);
        let held = Box::new(held);
        let unwanted = self.shared.driver_step(|table| {
            let outdated = table.causes.worked(&held.backend);
            let unwanted = table.put(slot, held);
            table.machine.handle_connected(now, slot, recycles);
            (unwanted, outdated)
        });
        drop_quietly(&self.shared.name, unwanted);
    }

    fn connect_failed(&mut self, slot: SlotRef, backend: &Arc<Backend>, error: Arc<dyn Error + Send + Sync>) {
        self.note(backend, Failing::Connect, error);
        let now = clock::now();
        self.shared.driver_step(|table| table.machine.handle_connect_failed(now, slot));
    }

    /// Passed, or there was no check.
    fn check_passed(&mut self, slot: SlotRef, held: Box<Held<C>>, was_checked: bool) {
        let now = clock::now();
        let unwanted = self.shared.driver_step(|table| {
            let unwanted = table.put(slot, held);
            if was_checked {
                table.checks.passed();
                table.machine.handle_checked(now, slot, true);
            } else {
                table.machine.handle_unchecked(now, slot);
            }
            unwanted
        });
        drop_quietly(&self.shared.name, unwanted);
    }

    fn check_failed(&mut self, slot: SlotRef, backend: &Arc<Backend>, error: Arc<dyn Error + Send + Sync>) {
        self.note(backend, Failing::Check, Arc::clone(&error));
        self.count_failed(backend, Failing::Check, Arc::clone(&error));
        self.not_passed(slot, backend, FailedUse::Validation(error));
    }

    /// Counts a failed check or recycle.
    fn count_failed(&self, backend: &Arc<Backend>, failing: Failing, error: Reason) {
        let (now, cause) = (clock::now(), Cause::new(failing, Arc::clone(backend), error));
        let (warning, outdated) = self.shared.driver_step(|table| table.checks.failed(now, backend, cause));
        drop_quietly(&self.shared.name, outdated);
        warning.into_iter().for_each(|warning| warning.log(&self.shared.name));
    }

    /// That a connection cannot be cleaned is nobody's fault, and not why a claim fails.
    fn not_cleaned(&mut self, slot: SlotRef, backend: &Arc<Backend>, error: Reason) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            let error = text_of(&Chain(&*error));
            tracing::debug!(pool = &*self.shared.name, %backend, error, "a recycle failed");
        }
        self.count_failed(backend, Failing::Recycle, Arc::clone(&error));
        self.not_passed(slot, backend, FailedUse::Recycle(error));
    }

    /// The reason is kept if the use before the check has failed.
    fn not_passed(&mut self, slot: SlotRef, backend: &Arc<Backend>, reason: FailedUse) {
        let (now, reason): (_, Reason) = (clock::now(), Arc::new(reason));
        let outdated = self.shared.driver_step(|table| {
            let failed = table.machine.handle_checked(now, slot, false);
            failed.then(|| table.causes.use_failed(Arc::clone(backend), Arc::clone(&reason)))
        });
        drop_quietly(&self.shared.name, (outdated, reason));
    }

    fn ended(&mut self, slot: SlotRef) {
        let now = clock::now();
        self.shared.driver_step(|table| table.machine.handle_closed(now, slot));
    }

    fn watched(&mut self, ended: Result<(SlotRef, Ending, Liveness), JoinError>) {
        // A watcher that was aborted, or whose `closed` panicked, has nothing to say.
        let Ok((slot, ending, liveness)) = ended else { return };
        let now = clock::now();
        let outdated = self.shared.driver_step(|table| {
            let backend = table.backend_of(slot)?;
            if let Liveness::Broken(_) = &liveness {
                table.machine.handle_broken(now, slot);
            }
            if table.machine.options().replace_unused_after.is_some()
                && table.look_mut(slot).is_some_and(|connection| has_unread(&self.shared, connection))
            {
                table.machine.handle_unread(slot);
            }
            let in_vain = table.machine.handle_ended(now, slot, ending);
            in_vain.then(|| table.causes.failed(backend, Failing::Connect, Arc::new(ConnectError::Ended)))
        });
        drop_quietly(&self.shared.name, (outdated, liveness));
    }

    /// Keeps the last real error, for whoever fails because of it.
    fn note(&self, backend: &Arc<Backend>, failing: Failing, error: Arc<dyn Error + Send + Sync>) {
        self.trace_failure(backend, failing, &*error);
        let outdated = self.shared.driver_step(|table| table.causes.failed(Arc::clone(backend), failing, error));
        drop_quietly(&self.shared.name, outdated);
    }

    fn trace_failure(&self, backend: &Backend, failing: Failing, error: &(dyn Error + 'static)) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            tracing::debug!(pool = &*self.shared.name, %backend, ?failing, error = text_of(&Chain(error)), "backend failed");
        }
    }

    fn resolved(&mut self, published: bool) {
        self.follows = published;
        let resolution = self.resolution.borrow_and_update().clone();
        let now = clock::now();
        let error = match (resolution.state, resolution.last_error) {
            (ResolverState::Starting, None) if !published => Some(Arc::new(ResolverEnded) as _),
            (_, error) => error,
        };
        // The very list that was heard before, with other news: it need not be compared one by one.
        let same = self.heard.as_ref().is_some_and(|heard| Arc::ptr_eq(heard, &resolution.backends));
        let outdated = self.shared.driver_step(|table| {
            let outdated = table.causes.resolved((!same).then_some(&resolution.backends), error);
            match resolution.state {
                // One that was stopped does not get here: what it said last was passed on.
                ResolverState::Stopping | ResolverState::Stopped => {}
                ResolverState::Running if same => {}
                ResolverState::Running => table.machine.handle_backends(now, &resolution.backends),
                ResolverState::Failed => table.machine.handle_resolver_failed(),
                ResolverState::Starting if !published => table.machine.handle_resolver_failed(),
                ResolverState::Starting => {}
            }
            outdated
        });
        if resolution.state == ResolverState::Running {
            self.heard = Some(resolution.backends);
        }
        drop_quietly(&self.shared.name, outdated);
    }
}

/// Causes that others have replaced, to be dropped when the lock has been let go.
type Replaced = (Outdated, Option<Cause>, Option<Outdated>);

/// A connect, check or recycle took too long.
fn fail_late<C: Connect>(
    table: &mut Table<C>,
    now: Instant,
    (backend, failing, error): (Arc<Backend>, Failing, ConnectError),
) -> (Option<Warning>, Replaced) {
    let error: Reason = Arc::new(error);
    let failed_use = match failing {
        Failing::Check => Some(FailedUse::Validation(Arc::clone(&error))),
        Failing::Recycle => Some(FailedUse::Recycle(Arc::clone(&error))),
        Failing::Connect | Failing::HealthCheck | Failing::Use => None,
    };
    let (mut warning, mut check, mut last_use) = (None, None, None);
    if let Some(failed_use) = failed_use {
        let cause = Cause::new(failing, Arc::clone(&backend), Arc::clone(&error));
        (warning, check) = table.checks.failed(now, &backend, cause);
        last_use = Some(table.causes.use_failed(Arc::clone(&backend), Arc::new(failed_use)));
    }
    (warning, (table.causes.failed(backend, failing, error), check, last_use))
}

/// Runs a check or a recycle, if there is one.
async fn prove<E: Error + Send + Sync + 'static>(
    work: Option<impl Future<Output = Result<(), E>>>,
    otherwise: Proof,
) -> Proof {
    match work {
        Some(work) => work.await.map_or_else(|error| Proof::Failed(Arc::new(error)), |()| Proof::Passed),
        None => otherwise,
    }
}

/// Waits for the end of a connection. What is over at the first look was over before anybody looked.
async fn ending(closed: impl Future<Output = Liveness>) -> (Ending, Liveness) {
    let mut closed = pin!(closed);
    match poll_fn(|context| Poll::Ready(closed.as_mut().poll(context))).await {
        Poll::Ready(liveness) => (Ending::Found, liveness),
        Poll::Pending => (Ending::Seen, closed.await),
    }
}

/// The runtime may end at any time, and the driver with it: nobody may be left waiting.
impl<C: Connect> Drop for Driver<C> {
    fn drop(&mut self) {
        self.resolving.abort();
        self.shared.abandon();
    }
}
