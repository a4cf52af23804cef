//! The driver: one task per requester that opens, sends and closes as the machine asks, and tells it what is heard.

use super::Transport;
use super::error::Panicked;
use super::luck::Luck;
use super::shared::{Cause, Shared};
use super::socket::{Line, News, Report};
use super::transport::{Incoming, Kind};
use crate::cause::{Chain, Reason};
use crate::clock;
use crate::health_check::{Checked, Runner};
use crate::quiet::{drop_quietly, text_of};
use carom_core::window::{Action, CheckId, Node, RequestId, SocketId, Verdict, WindowId};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tracing::Instrument;

/// Messages that sockets may have ready for the driver; beyond that they wait, and so do their nodes.
const READY: usize = 64;

pub(super) struct Driver<T: Transport> {
    shared: Arc<Shared<T>>,
    identities: HashMap<WindowId, Arc<T::Identity>>,
    tasks: JoinSet<()>,
    by_task: HashMap<Id, SocketId>,
    sockets: HashMap<SocketId, Open>,
    reports: mpsc::Receiver<Report<T>>,
    report: mpsc::Sender<Report<T>>,
    luck: Luck,
    checks: Runner<CheckId, T::Node>,
}

/// A socket whose task runs.
struct Open {
    requests: mpsc::UnboundedSender<RequestId>,
    task: AbortHandle,
}

impl<T: Transport> Driver<T> {
    pub(super) fn new(shared: Arc<Shared<T>>, checks: Runner<CheckId, T::Node>) -> Driver<T> {
        let (report, reports) = mpsc::channel(READY);
        Driver {
            shared,
            identities: HashMap::new(),
            tasks: JoinSet::new(),
            by_task: HashMap::new(),
            sockets: HashMap::new(),
            reports,
            report,
            luck: Luck::default(),
            checks,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let (wake_at, closed) = self.turn();
            if closed {
                tracing::info!(requester = &*self.shared.name, "requester has closed");
                return;
            }
            let far = Duration::from_secs(86_400 * 365);
            let deadline = wake_at.unwrap_or_else(|| clock::now() + far);
            // However much is heard, every turn begins with what is due.
            tokio::select! {
                () = self.shared.wake.notified() => {}
                Some(checked) = self.checks.next() => self.health_checked(checked),
                Some(report) = self.reports.recv() => self.heard(report),
                Some(ended) = self.tasks.join_next_with_id() => self.task_ended(ended),
                () = tokio::time::sleep_until(deadline.into()) => {}
            }
        }
    }

    /// Lets the machine do what is due and does what it asks for; until when to sleep, and whether it is over.
    fn turn(&mut self) -> (Option<Instant>, bool) {
        self.shared.step(|table| table.machine.handle_timeout(clock::now()));
        let (actions, wake_at, closed, latest, counters) = {
            let mut table = self.shared.lock();
            let (actions, machine) = (std::mem::take(&mut table.actions), &table.machine);
            (actions, machine.next_timeout(), machine.is_closed(), machine.latest(), machine.counters())
        };
        if !closed {
            self.luck.follow(&self.shared.name, latest, counters);
        }
        for action in actions {
            self.perform(action);
        }
        (wake_at, closed)
    }

    fn perform(&mut self, action: Action<T::Node>) {
        match action {
            Action::Open { socket, window, node } => self.open(socket, window, node),
            Action::Send { socket, request } => {
                if let Some(open) = self.sockets.get(&socket) {
                    // It fails when the task has ended, which is about to be heard.
                    let _ = open.requests.send(request);
                }
            }
            Action::Close(socket) => {
                if let Some(open) = self.sockets.remove(&socket) {
                    open.task.abort();
                }
            }
            Action::Over(window) => {
                tracing::debug!(requester = &*self.shared.name, window = window.number(), "a window is over");
                drop_quietly(&self.shared.name, self.identities.remove(&window));
            }
            Action::Unresponsive(node) => {
                tracing::debug!(
                    requester = &*self.shared.name,
                    node = node.name(),
                    "node does not respond, asked last"
                );
            }
            Action::Responsive(node) => {
                tracing::debug!(requester = &*self.shared.name, node = node.name(), "node responds again");
            }
            Action::HealthCheck { check, node } => {
                let opening = open_and_close(Arc::clone(&self.shared), Arc::clone(&node));
                self.checks.start(check, node, opening);
            }
            Action::Unhealthy(node) => {
                tracing::warn!(requester = &*self.shared.name, node = node.name(), "node unhealthy, asked last");
            }
            Action::Healthy(node) => {
                tracing::info!(requester = &*self.shared.name, node = node.name(), "node healthy again");
            }
        }
    }

    fn health_checked(&mut self, checked: Checked<CheckId, T::Node>) {
        let Checked { check, backend: node, result } = checked;
        if let Err(error) = &result {
            let error = text_of(&Chain(&**error));
            tracing::debug!(requester = &*self.shared.name, node = node.name(), error, "health check failed");
        }
        self.shared.step(|table| table.machine.handle_health_checked(clock::now(), check, result.is_ok()));
    }

    fn open(&mut self, id: SocketId, window: WindowId, node: Arc<T::Node>) {
        let shared = Arc::clone(&self.shared);
        let Some(identity) = self.identity(window) else {
            return self.ended(id, &(Arc::new(Panicked) as Cause));
        };
        let window = window.number();
        tracing::debug!(requester = &*shared.name, node = node.name(), window, "opening a socket");
        let span = tracing::debug_span!("socket", node = node.name(), window);
        let (requests, outgoing) = mpsc::unbounded_channel();
        let line = Line { id, shared, node, identity, requests: outgoing, reports: self.report.clone() };
        let task = self.tasks.spawn(line.run().instrument(span));
        self.by_task.insert(task.id(), id);
        self.sockets.insert(id, Open { requests, task });
    }

    /// The identity of a window, made when it is first needed; `None` when that panics.
    fn identity(&mut self, window: WindowId) -> Option<Arc<T::Identity>> {
        if let Some(identity) = self.identities.get(&window) {
            return Some(Arc::clone(identity));
        }
        tracing::debug!(requester = &*self.shared.name, window = window.number(), "a window is opened");
        let identity = catch_unwind(AssertUnwindSafe(|| self.shared.transport.identity())).ok()?;
        let identity = Arc::new(identity);
        self.identities.insert(window, Arc::clone(&identity));
        Some(identity)
    }

    fn heard(&mut self, Report { socket, news }: Report<T>) {
        match news {
            News::Heard(Incoming::Ack(tag)) => {
                self.shared.step(|table| table.machine.handle_ack(clock::now(), socket, &tag));
            }
            News::Heard(Incoming::Nack(tag, answer)) => self.answered(socket, &tag, Kind::Nack, answer),
            News::Heard(Incoming::Reply(tag, answer)) => self.answered(socket, &tag, Kind::Reply, answer),
            News::Heard(Incoming::Other) => {}
            News::Ended(cause) => self.ended(socket, &cause),
        }
    }

    fn answered(&mut self, socket: SocketId, tag: &T::Tag, kind: Kind, answer: T::Answer) {
        let judge = self.shared.step(|table| table.judge(clock::now(), socket, tag));
        // Late, twice, or unknown.
        let Some((request, mut judge)) = judge else { return drop_quietly(&self.shared.name, answer) };
        let verdict = catch_unwind(AssertUnwindSafe(|| judge(kind, &answer))).unwrap_or_else(|_| {
            tracing::warn!(requester = &*self.shared.name, "judging an answer panicked: it does not count");
            Verdict::Invalid
        });
        let unwanted = self.shared.step(|table| {
            let answer = table.answered(clock::now(), (socket, tag), verdict, (kind, answer));
            (answer, table.judge_again(request, judge))
        });
        drop_quietly(&self.shared.name, unwanted);
    }

    /// A socket could not be opened, or has ended by itself.
    fn ended(&mut self, socket: SocketId, cause: &Cause) {
        if self.sockets.remove(&socket).is_some() && tracing::enabled!(tracing::Level::DEBUG) {
            tracing::debug!(requester = &*self.shared.name, ?socket, error = text_of(cause), "a socket has ended");
        }
        self.shared.step(|table| table.ended(clock::now(), socket, cause));
    }

    /// A task that ended has said why; unless it panicked, or was told to.
    fn task_ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        let (task, panicked) = match ended {
            Ok((task, ())) => (task, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        if let Some(socket) = self.by_task.remove(&task)
            && panicked
        {
            self.ended(socket, &(Arc::new(Panicked) as Cause));
        }
    }
}

/// A health check with the transport.
async fn open_and_close<T: Transport>(shared: Arc<Shared<T>>, node: Arc<T::Node>) -> Result<(), Reason> {
    let identity = shared.transport.identity();
    let opened = shared.transport.open(&node, &identity).await;
    opened.map(drop).map_err(|error| Arc::new(error) as Reason)
}

/// The runtime may end at any time, and the driver with it: nobody may be left waiting. Sockets close with their tasks.
impl<T: Transport> Drop for Driver<T> {
    fn drop(&mut self) {
        self.shared.step(|table| table.machine.close(clock::now()));
    }
}
