//! The driver: one task per feed that opens, writes to and closes connections as the machine asks, and tells it what happened.

use super::adapter::Adapter;
use super::connection::{Connection, Ended, Lead};
use super::error::UpstreamError;
use super::milestones::report;
use super::shared::Shared;
use crate::cause::{Chain, in_words};
use crate::clock;
use crate::quiet::{drop_quietly, text_of};
use carom_core::feed::{Action, ConnectionId, State};
use carom_core::seldom::Seldom;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::{Id, JoinError, JoinSet};
use tracing::Instrument;

pub(super) struct Driver<A: Adapter> {
    shared: Arc<Shared<A>>,
    /// One for each connection, from the attempt to open it to its end.
    tasks: JoinSet<Ended>,
    by_task: HashMap<Id, ConnectionId>,
    leads: HashMap<ConnectionId, Lead>,
    published: State,
    /// Most topics on a connection, and most connections.
    limits: (usize, usize),
    /// How many connections had lived for long enough when one failed; of later failures nobody is warned until there is one more.
    failed_at: Option<u64>,
    /// Topics that the upstream refused.
    refusals: Seldom,
}

impl<A: Adapter> Driver<A> {
    pub(super) fn new(shared: Arc<Shared<A>>) -> Driver<A> {
        let limits = {
            let options = shared.lock().machine.options().clone();
            (options.max_topics_per_connection, options.max_connections)
        };
        Driver {
            limits,
            shared,
            tasks: JoinSet::new(),
            by_task: HashMap::new(),
            leads: HashMap::new(),
            published: State::Running,
            failed_at: None,
            refusals: Seldom::default(),
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let wake_at = self.turn();
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
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended),
                () = tokio::time::sleep_until(deadline.into()) => {}
            }
        }
    }

    /// Lets the machine do what is due and does what it asks for; until when to sleep.
    fn turn(&mut self) -> Option<Instant> {
        self.shared.step(|table| table.machine.handle_timeout(clock::now()));
        let (actions, wake_at, state) = {
            let mut table = self.shared.lock();
            (std::mem::take(&mut table.actions), table.machine.next_timeout(), table.machine.state())
        };
        for action in actions {
            self.perform(action);
        }
        if std::mem::replace(&mut self.published, state) != state {
            self.shared.lifecycle.send_replace(state);
        }
        wake_at
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Open { connection, timeout } => {
                let (lead, opening) = Connection::new(&self.shared, connection);
                let span = tracing::debug_span!("connection", number = connection.number());
                let task = self.tasks.spawn(opening.run(timeout).instrument(span));
                self.by_task.insert(task.id(), connection);
                self.leads.insert(connection, lead);
            }
            Action::Write { connection, changes } => {
                if let Some(lead) = self.leads.get(&connection) {
                    // One that has ended meanwhile says so by itself.
                    let _ = lead.batches.send(changes);
                }
            }
            Action::Close { connection, goodbye } => {
                if let Some(lead) = self.leads.remove(&connection) {
                    lead.part(goodbye);
                }
            }
            Action::Tell(milestone) => {
                let cause = || cause(&self.shared);
                report(&self.shared.name, self.limits, &mut self.refusals, &milestone, cause);
            }
        }
    }

    fn ended(&mut self, ended: Result<(Id, Ended), JoinError>) {
        let (task, Ended { end, cause }) = match ended {
            Ok(ended) => ended,
            Err(error) => (error.id(), Ended::because(UpstreamError::Panicked)),
        };
        let Some(id) = self.by_task.remove(&task) else { return };
        self.leads.remove(&id);
        let error = cause.as_ref().map(|cause| text_of(&Chain(&**cause)));
        let (outdated, settled) = self.shared.step(|table| {
            let outdated = cause.and_then(|cause| table.cause.replace(cause));
            table.machine.handle_ended(clock::now(), id, end);
            (outdated, table.machine.counters().settled)
        });
        drop_quietly(&self.shared.name, outdated);
        if let Some(error) = error {
            self.tell(settled, &error);
        }
    }

    /// A connection failed, or an attempt to open one: that is worth a warning the first time, until one has lived for long enough.
    fn tell(&mut self, settled: u64, error: &str) {
        match self.failed_at.replace(settled) == Some(settled) {
            false => tracing::warn!(feed = &*self.shared.name, error, "a connection failed"),
            true => tracing::debug!(feed = &*self.shared.name, error, "a connection failed again"),
        }
    }
}

/// The runtime may end at any time, and the driver with it: nobody may be left waiting.
impl<A: Adapter> Drop for Driver<A> {
    fn drop(&mut self) {
        self.shared.step(|table| table.machine.abandon(clock::now()));
        self.shared.lifecycle.send_replace(State::Stopped);
        self.shared.readers.close();
    }
}

/// What failed last, in words.
fn cause<A: Adapter>(shared: &Shared<A>) -> String {
    let cause = shared.lock().cause.clone();
    cause.map_or_else(String::new, |cause| in_words(cause, &shared.name))
}
