//! The driver: one task per set that dials, watches and shuts as the machine asks, and tells it what happened.

use super::Share;
use super::shared::{Cell, Shared, Standing};
use crate::cause::{Chain, Failing};
use crate::clock;
use crate::connect::ConnectError;
use crate::health_check::{Checked, Runner, by_connector};
use crate::quiet::{drop_quietly, text_of};
use crate::resolver::{Resolution, ResolverEnded, ResolverState};
use crate::telling::{Whose, collect, tell};
use carom_core::backend::Backend;
use carom_core::set::{Action, CheckId, ConnectionId, State};
use std::collections::HashMap;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tracing::Instrument;

pub(super) struct Driver<S: Share> {
    shared: Arc<Shared<S>>,
    dials: JoinSet<Result<Fresh<S>, Failure>>,
    by_task: HashMap<Id, (ConnectionId, Arc<Backend>)>,
    by_connection: HashMap<ConnectionId, AbortHandle>,
    watchers: JoinSet<ConnectionId>,
    watched: HashMap<ConnectionId, AbortHandle>,
    resolution: watch::Receiver<Resolution>,
    follows: bool,
    /// What was passed on last of who serves.
    heard: Option<Arc<[Backend]>>,
    resolving: AbortHandle,
    published: State,
    checks: Runner<CheckId>,
}

impl<S: Share> Driver<S> {
    pub(super) fn new(
        shared: Arc<Shared<S>>,
        resolution: watch::Receiver<Resolution>,
        resolving: AbortHandle,
        checks: Runner<CheckId>,
    ) -> Driver<S> {
        Driver {
            shared,
            dials: JoinSet::new(),
            by_task: HashMap::new(),
            by_connection: HashMap::new(),
            watchers: JoinSet::new(),
            watched: HashMap::new(),
            resolution,
            follows: true,
            heard: None,
            resolving,
            published: State::Starting,
            checks,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let wake_at = self.turn();
            self.shared.turned.notify_waiters();
            if self.published == State::Stopped {
                return;
            }
            if wake_at.is_some_and(|at| at <= clock::now()) {
                // What was found unused is released with the next turn: whoever wants it back may come before.
                tokio::task::yield_now().await;
            }
            let far = Duration::from_secs(86_400 * 365);
            let deadline = wake_at.unwrap_or_else(|| clock::now() + far);
            tokio::select! {
                () = self.shared.wake.notified() => {}
                Some(dialled) = self.dials.join_next_with_id() => self.dialled(dialled),
                Some(ended) = self.watchers.join_next() => self.ended(ended),
                Some(checked) = self.checks.next() => self.health_checked(checked),
                changed = self.resolution.changed(), if self.follows => self.resolved(changed.is_ok()),
                () = tokio::time::sleep_until(deadline.into()) => {}
            }
        }
    }

    /// Lets the machine do what is due and does what it asks for; until when to sleep.
    fn turn(&mut self) -> Option<Instant> {
        let now = clock::now();
        let tales = self.shared.step(|table| {
            table.machine.handle_timeout(now);
            collect(|| table.machine.poll_news(), &table.causes)
        });
        tell(Whose::Set(&self.shared.name), now, tales);
        let (actions, wake_at, state) = {
            let mut table = self.shared.lock();
            (std::mem::take(&mut table.actions), table.machine.next_timeout(), table.machine.state())
        };
        for action in actions {
            self.perform(action);
        }
        self.publish(state);
        wake_at
    }

    fn publish(&mut self, state: State) {
        let before = std::mem::replace(&mut self.published, state);
        if before == state {
            return;
        }
        let set = &*self.shared.name;
        match state {
            State::Failed => {
                let cause = self.shared.lock().cause(None);
                let cause = cause.map(|cause| text_of(&cause)).unwrap_or_default();
                tracing::warn!(set, ?before, cause, "set has failed");
            }
            State::Stopping | State::Stopped => {
                self.resolving.abort();
                self.follows = false;
            }
            State::Starting | State::Running => {}
        }
        tracing::info!(set, ?before, ?state, "set changed state");
        self.shared.lifecycle.send_replace(state);
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Dial { connection, backend, timeout } => self.dial(connection, backend, timeout),
            Action::Abort(connection) => {
                if let Some(dial) = self.by_connection.remove(&connection) {
                    dial.abort();
                }
            }
            Action::Shut(connection) => self.shut(connection),
            Action::HealthCheck { check, backend } => {
                let connecting =
                    by_connector(Arc::clone(&self.shared), |shared| &shared.connector, Arc::clone(&backend));
                self.checks.start(check, backend, connecting);
            }
            Action::Drain(connection) => {
                let cell = self.shared.lock().cell(connection);
                if let Some(cell) = cell {
                    cell.worsen(Standing::Draining);
                }
            }
            Action::Added(_) | Action::Removed(_) => self.shared.turnover.send_modify(|count| *count += 1),
        }
    }

    fn health_checked(&mut self, checked: Checked<CheckId>) {
        let Checked { check, backend, result } = checked;
        if let Err(error) = &result {
            tracing::debug!(set = &*self.shared.name, %backend, error = text_of(&Chain(&**error)), "health check failed");
        }
        let passed = result.is_ok();
        let (unhealthy, outdated) = self.shared.step(|table| {
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

    fn dial(&mut self, connection: ConnectionId, backend: Arc<Backend>, timeout: Duration) {
        let (shared, to) = (Arc::clone(&self.shared), Arc::clone(&backend));
        let span = tracing::debug_span!("connect", set = &*shared.name, %backend);
        let dial = async move {
            tokio::select! {
                biased;
                connected = shared.connector.connect(&to) => match connected {
                    Ok(connection) => Ok(Fresh { shared, backend: to, connection: Some(connection) }),
                    Err(error) => Err(Arc::new(error) as Failure),
                },
                () = tokio::time::sleep(timeout) => Err(Arc::new(ConnectError::ConnectTimedOut(timeout)) as Failure),
            }
        };
        let task = self.dials.spawn(dial.instrument(span));
        self.by_task.insert(task.id(), (connection, backend));
        self.by_connection.insert(connection, task);
    }

    fn dialled(&mut self, dialled: Dialled<S>) {
        let (task, outcome) = match dialled {
            Ok((task, outcome)) => (task, outcome),
            Err(error) => (error.id(), Err(Arc::new(ConnectError::Panicked) as Failure)),
        };
        let Some((id, backend)) = self.by_task.remove(&task) else { return };
        // One that was aborted may have ended before it noticed. Another may have its number by now, so that what it brought
        // must not go near the table: dropping it is enough.
        if self.by_connection.remove(&id).is_none() {
            return drop_quietly(&self.shared.name, outcome);
        }
        match outcome {
            Ok(fresh) => self.connected(id, backend, fresh),
            Err(error) => self.failed(id, backend, error),
        }
    }

    fn connected(&mut self, id: ConnectionId, backend: Arc<Backend>, mut fresh: Fresh<S>) {
        let Some(connection) = fresh.connection.take() else { return };
        tracing::debug!(set = &*self.shared.name, %backend, "connected");
        let connector = &self.shared.connector;
        let closed = catch_unwind(AssertUnwindSafe(|| connector.closed(&connection)));
        let standing = watch::Sender::new(Standing::Up);
        let cell = Arc::new(Cell { id, backend, place: OnceLock::new(), connection, standing });
        if !self.shared.arrived(clock::now(), &cell) {
            return self.shared.end(cell);
        }
        let Ok(Some(closed)) = closed else { return };
        let watcher = self.watchers.spawn(async move {
            closed.await;
            id
        });
        self.watched.insert(id, watcher);
    }

    fn failed(&mut self, id: ConnectionId, backend: Arc<Backend>, error: Failure) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            tracing::debug!(set = &*self.shared.name, %backend, error = text_of(&Chain(&*error)), "connecting failed");
        }
        let outdated = self.shared.step(|table| {
            let before = table.causes.failed(backend, Failing::Connect, error);
            table.machine.handle_failed(clock::now(), id);
            (before, table.forget_causes())
        });
        drop_quietly(&self.shared.name, outdated);
    }

    /// The far side has closed a connection.
    fn ended(&mut self, ended: Result<ConnectionId, JoinError>) {
        // A watcher that was aborted, or that panicked, has nothing to say.
        let Ok(id) = ended else { return };
        self.watched.remove(&id);
        self.shared.ended(clock::now(), id);
    }

    fn shut(&mut self, id: ConnectionId) {
        if let Some(watcher) = self.watched.remove(&id) {
            watcher.abort();
        }
        self.shared.shut(id);
    }

    fn resolved(&mut self, published: bool) {
        self.follows = published;
        let resolution = self.resolution.borrow_and_update().clone();
        let error = match (resolution.state, resolution.last_error) {
            (ResolverState::Starting, None) if !published => Some(Arc::new(ResolverEnded) as _),
            (_, error) => error,
        };
        // The very list that was heard before, with other news: it need not be compared one by one.
        let same = self.heard.as_ref().is_some_and(|heard| Arc::ptr_eq(heard, &resolution.backends));
        let outdated = self.shared.step(|table| {
            // What those say who serve no more is kept: somebody may have asked for them by name.
            let outdated = table.causes.resolved(None, error);
            match resolution.state {
                // One that was stopped does not get here: what it said last was passed on.
                ResolverState::Stopping | ResolverState::Stopped => {}
                ResolverState::Running if same => {}
                ResolverState::Running => table.machine.handle_backends(clock::now(), &resolution.backends),
                ResolverState::Failed => table.machine.handle_resolver_failed(),
                ResolverState::Starting if !published => table.machine.handle_resolver_failed(),
                ResolverState::Starting => {}
            }
            (outdated, table.forget_causes())
        });
        if resolution.state == ResolverState::Running {
            self.heard = Some(resolution.backends);
        }
        drop_quietly(&self.shared.name, outdated);
    }
}

type Failure = Arc<dyn Error + Send + Sync>;
type Dialled<S> = Result<(Id, Result<Fresh<S>, Failure>), JoinError>;

/// A connection that nobody has yet: whoever drops it ends it.
struct Fresh<S: Share> {
    shared: Arc<Shared<S>>,
    backend: Arc<Backend>,
    connection: Option<S::Connection>,
}

impl<S: Share> Drop for Fresh<S> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.shared.shut_quietly(&self.backend, &connection);
            drop_quietly(&self.shared.name, connection);
        }
    }
}

/// The runtime may end at any time, and the driver with it: nobody may be left waiting, and nothing open.
impl<S: Share> Drop for Driver<S> {
    fn drop(&mut self) {
        self.resolving.abort();
        let actions = {
            self.shared.step(|table| table.machine.abandon(clock::now()));
            std::mem::take(&mut self.shared.lock().actions)
        };
        for action in actions {
            if let Action::Shut(id) = action {
                self.shut(id);
            }
        }
        self.shared.lifecycle.send_replace(State::Stopped);
        self.shared.turnover.send_modify(|count| *count += 1);
        self.shared.turned.notify_waiters();
    }
}
