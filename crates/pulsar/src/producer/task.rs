//! The task of a producer on one topic or partition: finds the broker, sends what is in line, and finds the next broker when the
//! topic moves.

use super::Part;
use super::encoded::Encoded;
use super::outgoing::Outgoing;
use super::outstanding::Outstanding;
use super::serving::Turn;
use super::session::{self, Session};
use crate::address::proxy_of;
use crate::client::{Pace, Seat, Shared, Trouble, at};
use crate::connection::Assigned;
use crate::error::Error;
use crate::message_id::MessageId;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tracing::Instrument;

/// What the handle asks of the task.
pub(super) enum Order {
    Send(Pending, Instant),
    Close(oneshot::Sender<Result<(), Error>>),
}

/// A message that has neither receipt nor error.
pub(super) struct Pending {
    pub(super) message: Outgoing,
    pub(super) reply: oneshot::Sender<Result<MessageId, Error>>,
    /// Its place among those in flight.
    pub(super) _room: OwnedSemaphorePermit,
    /// As it was sent first, and is sent again.
    pub(super) encoded: Option<Encoded>,
    /// Why a broker did not store it when it was sent last.
    pub(super) refused: Option<Box<Error>>,
}

pub(super) struct Task {
    pub(super) shared: Arc<Shared>,
    pub(super) who: Identity,
    pub(super) orders: mpsc::UnboundedReceiver<Order>,
    /// Until the producer has begun.
    pub(super) begun: Option<Beginning>,
    pub(super) room: Arc<Semaphore>,
    /// Why it has ended, for those who come later.
    pub(super) fate: Arc<OnceLock<Error>>,
    pub(super) line: Outstanding<Pending>,
    /// No more orders will come.
    pub(super) gone: bool,
    close: Option<oneshot::Sender<Result<(), Error>>>,
    /// Why it is not known that the broker has closed it, when it was asked to last.
    pub(super) unconfirmed: Option<Error>,
    /// What went wrong last, of which there may be news.
    pub(super) last: Option<Error>,
    pub(super) trouble: Trouble,
    pub(super) pace: Pace,
}

/// A producer that has not begun yet.
pub(super) struct Beginning {
    /// Hears that it has begun, or why not.
    pub(super) reply: oneshot::Sender<Result<(), Error>>,
    pub(super) deadline: tokio::time::Instant,
}

/// Who the producer is, to every broker.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) id: u64,
    /// Given by the user, or by the first broker.
    pub(super) name: Option<String>,
    pub(super) named_by_user: bool,
    /// How often it has begun anew.
    pub(super) epoch: u64,
    pub(super) seat: Seat,
}

impl Task {
    pub(super) fn new(
        shared: Arc<Shared>,
        who: Identity,
        orders: mpsc::UnboundedReceiver<Order>,
        begun: Beginning,
        part: &Part,
    ) -> Task {
        let (line, begun, pace) = (Outstanding::new(), Some(begun), Pace::new(&shared.options.reconnect));
        let Part { room, fate, trouble, .. } = part.clone();
        let (gone, close, unconfirmed, last) = (false, None, None, None);
        Task { shared, who, orders, begun, room, fate, line, gone, close, unconfirmed, last, trouble, pace }
    }

    pub(super) async fn run(mut self) {
        let reason = self.live().await;
        self.end(reason);
    }

    /// Tells everybody why it has ended.
    fn end(&mut self, reason: Error) {
        // From here on everybody is told so, then those who are in line already.
        if self.fate.set(reason.clone()).is_err() {
            return;
        }
        tracing::debug!(topic = self.who.topic, %reason, "producer ended");
        self.room.close();
        self.orders.close();
        while let Ok(order) = self.orders.try_recv() {
            self.obey(Some(order));
        }
        for entry in self.line.take_all() {
            let _ = entry.what.reply.send(Err(reason.clone()));
        }
        if let Some(begun) = self.begun.take() {
            let _ = begun.reply.send(Err(reason.clone()));
        }
        if let Some(close) = self.close.take() {
            let _ = close.send(match (reason, self.unconfirmed.take()) {
                (Error::Closed, None) => Ok(()),
                (Error::Closed, Some(error)) => Err(error),
                (reason, _) => Err(reason),
            });
        }
    }

    async fn live(&mut self) -> Error {
        let (mut assigned, mut delay) = (None, Duration::ZERO);
        loop {
            let session = match self.begin(assigned.take(), delay).await {
                Ok(session) => session,
                Err(error) => return error,
            };
            if let Some(trouble) = self.trouble.take() {
                self.last = Some(trouble);
            }
            self.who.name = Some(session.name.clone());
            self.who.seat.place = Some(session.lease.place());
            if let Some(begun) = self.begun.take() {
                self.line.begin_after(session.last_sequence);
                let _ = begun.reply.send(Ok(()));
            }
            self.line.rewind();
            self.pace.begun();
            // Behind a proxy, brokers cannot be reached by their names.
            let direct = proxy_of(session.lease.backend().name()).is_none();
            match self.serve(session).await {
                Turn::Anew => {}
                Turn::Again(to) => assigned = to.filter(|_| direct),
                Turn::Over(error) => return error,
            }
            self.who.epoch += 1;
            delay = self.pace.delay();
        }
    }

    /// Begins the producer at its broker; meanwhile orders are taken and time runs out.
    async fn begin(&mut self, assigned: Option<Assigned>, delay: Duration) -> Result<Session, Error> {
        let first = self.begun.as_ref().map(|begun| begun.deadline);
        let (shared, trouble) = (Arc::clone(&self.shared), self.trouble.clone());
        let begin = session::begin(shared, self.who.clone(), assigned, delay, first, trouble);
        let begin = begin.instrument(tracing::info_span!("producer", topic = self.who.topic));
        let closed = self.shared.closed();
        tokio::pin!(begin, closed);
        loop {
            if self.gone && self.line.is_empty() {
                return Err(Error::Closed);
            }
            tokio::select! {
                begun = &mut begin => return begun,
                order = self.orders.recv(), if !self.gone => self.obey(order),
                () = at(self.line.deadline()) => self.expire(),
                () = &mut closed => return Err(Error::Closed),
            }
        }
    }

    pub(super) fn obey(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Send(pending, deadline)) => self.line.push(deadline, pending),
            Some(Order::Close(reply)) => (self.gone, self.close) = (true, Some(reply)),
            None => self.gone = true,
        }
    }

    pub(super) fn expire(&mut self) {
        let after = self.shared.options.operation_timeout;
        let now = tokio::time::Instant::now().into_std();
        while let Some(entry) = self.line.expired(now) {
            let source = self.trouble.get().or_else(|| self.last.clone()).map(Arc::new);
            let _ = entry.what.reply.send(Err(Error::TimedOut { what: "the message", after, source }));
        }
    }
}

/// A task may panic, and its runtime may end: nobody is to be left without a reason.
impl Drop for Task {
    fn drop(&mut self) {
        let what = "producer";
        self.end(if std::thread::panicking() { Error::Panicked { what } } else { Error::Closed });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;

    type Waiting<T> = oneshot::Receiver<Result<T, Error>>;

    /// A task that never runs, and what it leaves to those who wait for it.
    fn waiting() -> (Task, Waiting<()>, Waiting<MessageId>) {
        let client = Client::builder("pulsar://127.0.0.1:1").build().unwrap();
        let seat = Seat { role: "producer", place: None };
        let (topic, named_by_user) = ("persistent://public/default/orders".to_owned(), false);
        let who = Identity { topic, partition: -1, id: 0, name: None, named_by_user, epoch: 0, seat };
        let (orders, taken) = mpsc::unbounded_channel();
        let (reply, beginning) = oneshot::channel();
        let begun = Beginning { reply, deadline: tokio::time::Instant::now() };
        let part = Part::new(orders, 1);
        let (reply, receipt) = oneshot::channel();
        let place = Arc::clone(&part.room).try_acquire_owned().unwrap();
        let pending = Pending { message: "0".into(), reply, _room: place, encoded: None, refused: None };
        assert!(part.orders.send(Order::Send(pending, Instant::now())).is_ok());
        (Task::new(client.shared(), who, taken, begun, &part), beginning, receipt)
    }

    #[tokio::test]
    async fn a_task_that_panics_leaves_a_reason_to_all_who_wait() {
        let (task, beginning, receipt) = waiting();
        let (fate, room) = (Arc::clone(&task.fate), Arc::clone(&task.room));
        let panicked = tokio::spawn(async move {
            let _task = task;
            panic!("a bug");
        });
        assert!(panicked.await.unwrap_err().is_panic());
        assert!(matches!(fate.get(), Some(Error::Panicked { what: "producer" })));
        assert!(matches!(beginning.await, Ok(Err(Error::Panicked { .. }))));
        assert!(matches!(receipt.await, Ok(Err(Error::Panicked { .. }))));
        assert!(room.is_closed());
    }

    #[tokio::test]
    async fn a_task_whose_runtime_ends_is_closed() {
        let (task, beginning, receipt) = waiting();
        drop(task);
        assert!(matches!(beginning.await, Ok(Err(Error::Closed))));
        assert!(matches!(receipt.await, Ok(Err(Error::Closed))));
    }
}
