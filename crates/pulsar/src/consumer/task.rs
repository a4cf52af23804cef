//! The task of a consumer on one topic or partition: finds the broker, hands out what arrives, and finds the next broker when the
//! topic moves.

use super::acks::{Ack, Acks, Waiting};
use super::outlet::{Outlet, Shelf};
use super::serving::Turn;
use super::session::{self, Session};
use crate::address::proxy_of;
use crate::client::{Pace, Seat, Shared, Trouble, at};
use crate::connection::{Assigned, Lines};
use crate::error::Error;
use crate::wire::{InitialPosition, RedeliverUnacknowledged, SubType};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tracing::Instrument;

pub(super) type Reply = oneshot::Sender<Result<(), Error>>;

/// What the handle asks of the task.
pub(super) enum Order {
    Ack(Ack, Reply),
    /// Permits are due.
    Flow,
    Redeliver,
    Unsubscribe(Reply),
    Close(Reply),
}

/// Who the consumer is, to every broker.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) topic: Arc<str>,
    pub(super) subscription: String,
    pub(super) sub_type: SubType,
    pub(super) position: InitialPosition,
    pub(super) name: Option<String>,
    pub(super) id: u64,
    pub(super) queue: u32,
    pub(super) seat: Seat,
}

pub(super) struct Task {
    pub(super) shared: Arc<Shared>,
    pub(super) who: Identity,
    pub(super) orders: mpsc::UnboundedReceiver<Order>,
    pub(super) outlet: Arc<Outlet>,
    /// There until it has begun.
    pub(super) begun: Option<Beginning>,
    /// Why it has ended, for those who come later.
    pub(super) fate: Arc<OnceLock<Error>>,
    /// What has arrived, shared with the handle.
    pub(super) shelf: Arc<Shelf>,
    pub(super) acks: Acks<Reply>,
    /// Asked for while there was no broker to ask.
    pub(super) unsent: VecDeque<Waiting<Reply>>,
    pub(super) leaving: Leaving,
    /// Why there is no broker.
    pub(super) trouble: Trouble,
    pub(super) pace: Pace,
}

pub(super) struct Beginning {
    /// Hears that the consumer has begun, or why not.
    pub(super) reply: Reply,
    pub(super) deadline: tokio::time::Instant,
}

/// Whether the consumer is to end, and how.
pub(super) enum Leaving {
    No,
    /// Its handle is gone.
    Dropped,
    Closing(Reply),
    /// A broker is needed for it, which has to be found by then.
    Unsubscribing(Reply, std::time::Instant),
}

impl Task {
    pub(super) async fn run(mut self) {
        let reason = self.live().await;
        self.end(reason);
    }

    /// Ends it, the first time, and tells everybody why.
    fn end(&mut self, reason: Error) {
        // From here on everybody is told so, then those who wait already.
        if self.fate.set(reason.clone()).is_err() {
            return;
        }
        let reason = self.settle(reason);
        self.shelf.inbox().end(reason);
        self.outlet.fill(&self.shelf);
    }

    /// Tells all but who waits for messages why it has ended; returns what that one is to be told.
    fn settle(&mut self, reason: Error) -> Option<Error> {
        tracing::debug!(topic = &*self.who.topic, %reason, "consumer ended");
        self.orders.close();
        while let Ok(order) = self.orders.try_recv() {
            self.obey(Some(order), None);
        }
        for waiting in self.acks.take_all().into_iter().chain(std::mem::take(&mut self.unsent)) {
            let _ = waiting.reply.send(Err(reason.clone()));
        }
        match (self.begun.take(), std::mem::replace(&mut self.leaving, Leaving::No)) {
            (Some(begun), _) => drop(begun.reply.send(Err(reason))),
            (None, Leaving::Closing(reply)) if matches!(reason, Error::Closed) => drop(reply.send(Ok(()))),
            (None, Leaving::Closing(reply) | Leaving::Unsubscribing(reply, _)) => drop(reply.send(Err(reason))),
            // Who is closed together with all the others needs no word of its own, and might wait for ever to be heard.
            (None, Leaving::No) if matches!(reason, Error::Closed) => {}
            (None, Leaving::Dropped) => {}
            (None, Leaving::No) => return Some(reason),
        }
        None
    }

    async fn live(&mut self) -> Error {
        let (mut assigned, mut delay) = (None, Duration::ZERO);
        loop {
            let session = match self.begin(assigned.take(), delay).await {
                Ok(session) => session,
                Err(error) => return error,
            };
            self.trouble.take();
            self.who.seat.place = Some(session.lease.place());
            if let Some(begun) = self.begun.take() {
                let _ = begun.reply.send(Ok(()));
            }
            self.pace.begun();
            // Behind a proxy, brokers cannot be reached by their names.
            let direct = proxy_of(session.lease.backend().name()).is_none();
            let turn = self.serve(session).await;
            if self.shelf.inbox().was_used() {
                self.pace.succeeded();
            }
            match turn {
                Turn::Again(to) => assigned = to.filter(|_| direct),
                Turn::Over(error) => return error,
            }
            delay = self.pace.delay();
        }
    }

    /// Begins the consumer at its broker; meanwhile orders are taken and time runs out.
    async fn begin(&mut self, assigned: Option<Assigned>, delay: Duration) -> Result<Session, Error> {
        let first = self.begun.as_ref().map(|begun| begun.deadline);
        let (shared, trouble) = (Arc::clone(&self.shared), self.trouble.clone());
        let begin = session::begin(shared, self.who.clone(), assigned, delay, first, trouble);
        let begin = begin.instrument(tracing::info_span!("consumer", topic = &*self.who.topic));
        let closed = self.shared.closed();
        tokio::pin!(begin, closed);
        loop {
            // What was acknowledged is told to the next broker first.
            let told = self.acks.is_empty() && self.unsent.is_empty();
            if matches!(self.leaving, Leaving::Dropped | Leaving::Closing(_)) && told {
                return Err(Error::Closed);
            }
            let (staying, deadline) = (matches!(self.leaving, Leaving::No), self.deadline());
            tokio::select! {
                begun = &mut begin => return begun,
                order = self.orders.recv(), if staying => self.obey(order, None),
                () = at(deadline) => self.expire(),
                () = &mut closed => return Err(Error::Closed),
            }
        }
    }

    pub(super) fn obey(&mut self, order: Option<Order>, lines: Option<&Arc<Lines>>) {
        match order {
            Some(Order::Ack(ack, reply)) => match self.acks.settle(ack) {
                None => drop(reply.send(Ok(()))),
                Some(ack) => {
                    let waiting = Waiting { ack, deadline: self.shared.deadline().into_std(), reply };
                    match lines {
                        Some(lines) => self.tell(lines, waiting),
                        None => self.unsent.push_back(waiting),
                    }
                }
            },
            Some(Order::Flow) => {
                if let Some(lines) = lines {
                    let permits = self.shelf.inbox().permits();
                    self.flow(lines, permits);
                }
            }
            Some(Order::Redeliver) => {
                self.shelf.inbox().forget();
                if let Some(lines) = lines {
                    lines.tell(RedeliverUnacknowledged { consumer_id: self.who.id, ..Default::default() });
                    // They may be all that the broker had.
                    let permits = self.shelf.inbox().permits();
                    self.flow(lines, permits);
                }
            }
            Some(Order::Close(reply)) => self.leaving = Leaving::Closing(reply),
            Some(Order::Unsubscribe(reply)) => {
                self.leaving = Leaving::Unsubscribing(reply, self.shared.deadline().into_std())
            }
            None => self.leaving = Leaving::Dropped,
        }
    }

    pub(super) fn deadline(&self) -> Option<std::time::Instant> {
        // All were given the same time: the first is late first.
        let unsent = self.unsent.front().map(|waiting| waiting.deadline);
        let leaving = match self.leaving {
            Leaving::Unsubscribing(_, deadline) => Some(deadline),
            Leaving::No | Leaving::Dropped | Leaving::Closing(_) => None,
        };
        [self.acks.deadline(), unsent, leaving].into_iter().flatten().min()
    }

    pub(super) fn expire(&mut self) {
        let now = tokio::time::Instant::now().into_std();
        let (after, source) = (self.shared.options.operation_timeout, self.trouble.get().map(Arc::new));
        let late = |what| Error::TimedOut { what, after, source: source.clone() };
        while let Some(waiting) = self.acks.expired(now) {
            let _ = waiting.reply.send(Err(late("the acknowledgement")));
        }
        let unsent = self.unsent.partition_point(|waiting| waiting.deadline <= now);
        for waiting in self.unsent.drain(..unsent) {
            let _ = waiting.reply.send(Err(late("the acknowledgement")));
        }
        if matches!(self.leaving, Leaving::Unsubscribing(_, deadline) if deadline <= now)
            && let Leaving::Unsubscribing(reply, _) = std::mem::replace(&mut self.leaving, Leaving::Dropped)
        {
            let _ = reply.send(Err(late("unsubscribing")));
        }
    }
}

/// A task may panic, and its runtime may end: nobody is to be left without a reason.
impl Drop for Task {
    fn drop(&mut self) {
        let what = "consumer";
        self.end(if std::thread::panicking() { Error::Panicked { what } } else { Error::Closed });
    }
}
