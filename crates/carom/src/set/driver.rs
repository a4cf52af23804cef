//! The driver: one task per set that dials, watches and shuts as the machine asks, and tells it what happened.

use super::Share;
use super::shared::{Cell, Shared, Standing};
use crate::clock;
use crate::connect::Connect;
use crate::pool::quiet::{drop_quietly, text_of};
use crate::pool::{ConnectError, ResolverEnded};
use crate::resolver::{Resolution, ResolverState};
use carom_core::backend::Backend;
use carom_core::set::{Action, ConnectionId, State};
use std::collections::HashMap;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

pub(super) struct Driver<S: Share> {
    shared: Arc<Shared<S>>,
    dials: JoinSet<Result<S::Connection, Failure>>,
    by_task: HashMap<Id, (ConnectionId, Arc<Backend>)>,
    by_connection: HashMap<ConnectionId, AbortHandle>,
    watchers: JoinSet<ConnectionId>,
    watched: HashMap<ConnectionId, AbortHandle>,
    resolution: watch::Receiver<Resolution>,
    follows: bool,
    resolving: AbortHandle,
    published: State,
}

impl<S: Share> Driver<S> {
    pub(super) fn new(
        shared: Arc<Shared<S>>,
        resolution: watch::Receiver<Resolution>,
        resolving: AbortHandle,
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
            resolving,
            published: State::Starting,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let wake_at = self.turn();
            if self.published == State::Stopped {
                return;
            }
            let far = Duration::from_secs(86_400 * 365);
            let deadline = wake_at.unwrap_or_else(|| clock::now() + far);
            tokio::select! {
                () = self.shared.wake.notified() => {}
                Some(dialled) = self.dials.join_next_with_id() => self.dialled(dialled),
                Some(ended) = self.watchers.join_next() => self.ended(ended),
                changed = self.resolution.changed(), if self.follows => self.resolved(changed.is_ok()),
                () = tokio::time::sleep_until(deadline.into()) => {}
            }
        }
    }

    /// Lets the machine do what is due and does what it asks for; until when to sleep.
    fn turn(&mut self) -> Option<Instant> {
        loop {
            let now = clock::now();
            let (actions, wake_at, state) = {
                self.shared.step(|table| table.machine.handle_timeout(now));
                let mut table = self.shared.lock();
                (std::mem::take(&mut table.actions), table.machine.next_timeout(), table.machine.state())
            };
            let idle = actions.is_empty();
            for action in actions {
                self.perform(action);
            }
            if state != self.published {
                self.published = state;
                if matches!(state, State::Stopping | State::Stopped) {
                    self.resolving.abort();
                    self.follows = false;
                }
                self.shared.lifecycle.send_replace(state);
            }
            if idle {
                return wake_at;
            }
        }
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
            Action::Drain(connection) => {
                if let Some(cell) = self.shared.lock().cell(connection) {
                    raise(&cell.standing, Standing::Draining);
                }
            }
            Action::Added(_) | Action::Removed(_) => self.shared.turnover.send_modify(|count| *count += 1),
        }
    }

    fn dial(&mut self, connection: ConnectionId, backend: Arc<Backend>, timeout: Duration) {
        let (shared, to) = (Arc::clone(&self.shared), Arc::clone(&backend));
        let task = self.dials.spawn(async move {
            tokio::select! {
                biased;
                connected = shared.connector.connect(&to) => connected.map_err(|error| Arc::new(error) as Failure),
                () = tokio::time::sleep(timeout) => Err(Arc::new(ConnectError::ConnectTimedOut(timeout)) as Failure),
            }
        });
        self.by_task.insert(task.id(), (connection, backend));
        self.by_connection.insert(connection, task);
    }

    fn dialled(&mut self, dialled: Dialled<S>) {
        let (task, outcome) = match dialled {
            Ok((task, outcome)) => (task, outcome),
            Err(error) if error.is_cancelled() => {
                self.by_task.remove(&error.id());
                return;
            }
            Err(error) => (error.id(), Err(Arc::new(ConnectError::Panicked) as Failure)),
        };
        let Some((id, backend)) = self.by_task.remove(&task) else { return };
        self.by_connection.remove(&id);
        match outcome {
            Ok(connection) => self.connected(id, backend, connection),
            Err(error) => {
                if tracing::enabled!(tracing::Level::DEBUG) {
                    tracing::debug!(set = &*self.shared.name, %backend, error = text_of(&error), "connecting failed");
                }
                let outdated = self.shared.step(|table| {
                    let outdated = table.causes.failed(Arc::clone(&backend), error);
                    table.machine.handle_failed(clock::now(), id);
                    outdated
                });
                drop_quietly(&self.shared.name, outdated);
            }
        }
    }

    fn connected(&mut self, id: ConnectionId, backend: Arc<Backend>, connection: S::Connection) {
        let connector = &self.shared.connector;
        let closed = catch_unwind(AssertUnwindSafe(|| connector.closed(&connection)));
        let standing = watch::Sender::new(Standing::Up);
        let cell = Arc::new(Cell { id, backend: Arc::clone(&backend), place: OnceLock::new(), connection, standing });
        let (accepted, outdated) = self.shared.step(|table| {
            // In the table first: whoever waits for it is served by the next line.
            table.put(Arc::clone(&cell));
            table.machine.handle_connected(clock::now(), id);
            let accepted = match table.machine.glance(id) {
                Some(glance) => cell.place.set(glance.place).is_ok(),
                None => {
                    table.take(id);
                    false
                }
            };
            (accepted, table.causes.worked(&backend))
        });
        drop_quietly(&self.shared.name, outdated);
        if !accepted {
            self.end(cell);
        } else if let Ok(closed) = closed {
            let watcher = self.watchers.spawn(async move {
                closed.await;
                id
            });
            self.watched.insert(id, watcher);
        }
    }

    /// The far side has closed a connection.
    fn ended(&mut self, ended: Result<ConnectionId, JoinError>) {
        // A watcher that was aborted, or that panicked, has nothing to say.
        let Ok(id) = ended else { return };
        self.watched.remove(&id);
        let cell = self.shared.step(|table| {
            table.machine.handle_ended(clock::now(), id);
            table.take(id)
        });
        if let Some(cell) = cell {
            raise(&cell.standing, Standing::Closed);
            drop_quietly(&self.shared.name, cell);
        }
    }

    fn shut(&mut self, id: ConnectionId) {
        if let Some(watcher) = self.watched.remove(&id) {
            watcher.abort();
        }
        let cell = self.shared.lock().take(id);
        if let Some(cell) = cell {
            self.end(cell);
        }
    }

    /// Ends a connection for all who hold it, and tells them.
    fn end(&self, cell: Arc<Cell<S>>) {
        if catch_unwind(AssertUnwindSafe(|| self.shared.connector.shut(&cell.connection))).is_err() {
            tracing::warn!(set = &*self.shared.name, backend = %cell.backend, "shutting a connection panicked");
        }
        raise(&cell.standing, Standing::Closed);
        drop_quietly(&self.shared.name, cell);
    }

    fn resolved(&mut self, published: bool) {
        self.follows = published;
        let resolution = self.resolution.borrow_and_update().clone();
        let error = match (resolution.state, resolution.last_error) {
            (ResolverState::Starting, None) if !published => Some(Arc::new(ResolverEnded) as _),
            (_, error) => error,
        };
        let outdated = self.shared.step(|table| {
            let outdated = table.causes.resolved(Some(&resolution.backends), error);
            match resolution.state {
                // One that was stopped does not get here: what it said last was passed on.
                ResolverState::Stopping | ResolverState::Stopped => {}
                ResolverState::Running => table.machine.handle_backends(clock::now(), &resolution.backends),
                ResolverState::Failed => table.machine.handle_resolver_failed(),
                ResolverState::Starting if !published => table.machine.handle_resolver_failed(),
                ResolverState::Starting => {}
            }
            outdated
        });
        drop_quietly(&self.shared.name, outdated);
    }
}

type Failure = Arc<dyn Error + Send + Sync>;
type Dialled<S> = Result<(Id, Result<<S as Connect>::Connection, Failure>), JoinError>;

/// Tells those who hold a connection how it stands; it never gets better.
fn raise(standing: &watch::Sender<Standing>, to: Standing) {
    standing.send_if_modified(|standing| {
        let worse = *standing < to;
        *standing = (*standing).max(to);
        worse
    });
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
    }
}
