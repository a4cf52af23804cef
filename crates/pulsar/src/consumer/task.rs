//! The task of a consumer on one topic or partition: finds the broker, hands out what arrives, and finds the next broker when the
//! topic moves.

use super::acks::{Ack, Acks, Waiting};
use super::inbox::Inbox;
use super::message::Message;
use crate::address::proxy_of;
use crate::client::{Pace, Seat, Shared, at};
use crate::connection::{Assigned, ConsumerEvent, Enlisted, Lines, refused};
use crate::connector::Connector;
use crate::error::Error;
use crate::wire::{self, AckResponse, AckType, Command, Flow, InitialPosition, RedeliverUnacknowledged, SubType};
use carom::Lease;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

const WHAT: &str = "the consumer";
/// From this version of the protocol on, brokers confirm acknowledgements.
const ACKS_CONFIRMED: i32 = 17;

pub(super) type Reply = oneshot::Sender<Result<(), Error>>;

/// What the handle asks of the task.
pub(super) enum Order {
    Ack(Ack, Reply),
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
    pub(super) messages: mpsc::Sender<Result<Message, Error>>,
    /// Hears that the consumer has begun, or why not.
    pub(super) begun: Option<Reply>,
    /// Why it has ended, for those who come later.
    pub(super) fate: Arc<OnceLock<Error>>,
    pub(super) inbox: Inbox<OwnedSemaphorePermit>,
    pub(super) acks: Acks<Reply>,
    /// Asked for while there was no broker to ask.
    pub(super) unsent: Vec<Waiting<Reply>>,
    pub(super) leaving: Leaving,
    pub(super) pace: Pace,
}

/// Whether the consumer is to end, and how.
pub(super) enum Leaving {
    No,
    /// Its handle is gone.
    Dropped,
    Closing(Reply),
    Unsubscribing(Reply),
}

/// A consumer that a broker knows of. Dropped in this order: closed at the broker, then the connection is let go of.
struct Session {
    enlisted: Enlisted,
    events: mpsc::UnboundedReceiver<ConsumerEvent>,
    lease: Lease<Connector>,
}

enum Turn {
    /// On to wherever the topic is now.
    Again(Option<Assigned>),
    Over(Error),
}

impl Task {
    pub(super) async fn run(mut self) {
        let reason = self.live().await;
        tracing::debug!(topic = &*self.who.topic, %reason, "consumer ended");
        // From here on everybody is told so, then those who wait already.
        let _ = self.fate.set(reason.clone());
        self.orders.close();
        while let Ok(order) = self.orders.try_recv() {
            self.obey(Some(order), None);
        }
        for waiting in self.acks.take_all().into_iter().chain(std::mem::take(&mut self.unsent)) {
            let _ = waiting.reply.send(Err(reason.clone()));
        }
        match (self.begun.take(), std::mem::replace(&mut self.leaving, Leaving::No)) {
            (Some(begun), _) => drop(begun.send(Err(reason))),
            (None, Leaving::Closing(reply)) if matches!(reason, Error::Closed) => drop(reply.send(Ok(()))),
            (None, Leaving::Closing(reply) | Leaving::Unsubscribing(reply)) => drop(reply.send(Err(reason))),
            (None, Leaving::Dropped) => {}
            // Whoever waits for messages is told why there are no more.
            (None, Leaving::No) => drop(self.messages.send(Err(reason)).await),
        }
    }

    async fn live(&mut self) -> Error {
        let mut assigned = None;
        loop {
            let delay = self.pace.delay();
            let session = match self.begin(assigned.take(), delay).await {
                Ok(session) => session,
                Err(error) => return error,
            };
            self.who.seat.place = Some(session.lease.place());
            if let Some(begun) = self.begun.take() {
                let _ = begun.send(Ok(()));
            }
            self.pace.begun();
            // Behind a proxy, brokers cannot be reached by their names.
            let direct = proxy_of(session.lease.backend().name()).is_none();
            match self.serve(session).await {
                Turn::Again(to) => assigned = to.filter(|_| direct),
                Turn::Over(error) => return error,
            }
        }
    }

    /// Begins the consumer at its broker; meanwhile orders are taken and time runs out.
    async fn begin(&mut self, assigned: Option<Assigned>, delay: Duration) -> Result<Session, Error> {
        let begin = begin(Arc::clone(&self.shared), self.who.clone(), assigned, delay, self.begun.is_none());
        let closed = self.shared.closed();
        tokio::pin!(begin, closed);
        loop {
            if matches!(self.leaving, Leaving::Dropped | Leaving::Closing(_)) {
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

    async fn serve(&mut self, session: Session) -> Turn {
        let Session { enlisted, mut events, lease } = session;
        let (lines, messages) = (Arc::clone(lease.lines()), self.messages.clone());
        let (closed, draining) = (self.shared.closed(), lease.draining());
        tokio::pin!(closed, draining);
        // What the last broker did not confirm is told to this one, before anything can come again because of it.
        let again = self.acks.take_all().into_iter().chain(std::mem::take(&mut self.unsent));
        for waiting in again.collect::<Vec<_>>() {
            self.tell(&lines, waiting);
        }
        self.flow(&lines, Some(self.who.queue));
        self.inbox.begin_anew();
        loop {
            if !matches!(self.leaving, Leaving::No) && self.acks.is_empty() {
                return self.leave(&lines, enlisted).await;
            }
            let (staying, deadline) = (matches!(self.leaving, Leaving::No), self.deadline());
            tokio::select! {
                event = events.recv() => match event {
                    Some(ConsumerEvent::Message(message, room)) => {
                        let (command, payload) = *message;
                        let arrived = self.inbox.arrive(&command, payload, room);
                        if let Some(done) = arrived.batch {
                            self.acks.batch(arrived.id, done);
                        }
                        let permits = self.inbox.permits();
                        self.flow(&lines, permits);
                    }
                    Some(ConsumerEvent::Acked(response)) => self.acked(response),
                    Some(ConsumerEvent::Moved(assigned)) => return Turn::Again(Some(assigned)),
                    None => return Turn::Again(None),
                },
                order = self.orders.recv(), if staying => self.obey(order, Some(&lines)),
                room = messages.reserve(), if staying && !self.inbox.is_empty() => {
                    self.pace.succeeded();
                    let message = self.inbox.hand_out();
                    if let (Ok(room), Some(message)) = (room, message) {
                        room.send(message);
                    }
                    let permits = self.inbox.permits();
                    self.flow(&lines, permits);
                }
                () = at(deadline) => self.expire(),
                () = &mut draining => return Turn::Again(None),
                () = &mut closed => return Turn::Over(Error::Closed),
            }
        }
    }

    async fn leave(&mut self, lines: &Arc<Lines>, enlisted: Enlisted) -> Turn {
        let allowed = self.shared.options.operation_timeout;
        let consumer_id = self.who.id;
        match std::mem::replace(&mut self.leaving, Leaving::Dropped) {
            Leaving::Unsubscribing(reply) => {
                let asked = |request_id| wire::Unsubscribe { consumer_id, request_id, force: None }.into();
                let unsubscribed = tokio::time::timeout(allowed, lines.request("unsubscribing", asked)).await;
                let late = Error::TimedOut { what: "unsubscribing", after: allowed, source: None };
                let _ = reply.send(unsubscribed.unwrap_or(Err(late)).map(drop));
            }
            leaving => {
                self.leaving = leaving;
                let _ = tokio::time::timeout(allowed, enlisted.close()).await;
            }
        }
        Turn::Over(Error::Closed)
    }

    fn obey(&mut self, order: Option<Order>, lines: Option<&Arc<Lines>>) {
        match order {
            Some(Order::Ack(ack, reply)) => match self.acks.settle(ack) {
                None => drop(reply.send(Ok(()))),
                Some(ack) => {
                    let allowed = self.shared.options.operation_timeout;
                    let deadline = (tokio::time::Instant::now() + allowed).into_std();
                    let waiting = Waiting { ack, deadline, reply };
                    match lines {
                        Some(lines) => self.tell(lines, waiting),
                        None => self.unsent.push(waiting),
                    }
                }
            },
            Some(Order::Redeliver) => {
                self.inbox.forget();
                if let Some(lines) = lines {
                    lines.tell(RedeliverUnacknowledged { consumer_id: self.who.id, ..Default::default() });
                }
            }
            Some(Order::Close(reply)) => self.leaving = Leaving::Closing(reply),
            Some(Order::Unsubscribe(reply)) => self.leaving = Leaving::Unsubscribing(reply),
            None => self.leaving = Leaving::Dropped,
        }
    }

    fn tell(&mut self, lines: &Lines, waiting: Waiting<Reply>) {
        let number = lines.number();
        let confirmed = lines.protocol_version >= ACKS_CONFIRMED;
        let ack_type = if waiting.ack.cumulative { AckType::Cumulative } else { AckType::Individual };
        lines.tell(wire::Ack {
            consumer_id: self.who.id,
            ack_type: ack_type as i32,
            message_id: vec![waiting.ack.id.entry_data()],
            request_id: confirmed.then_some(number),
            ..wire::Ack::default()
        });
        match confirmed {
            true => self.acks.asked(number, waiting),
            false => drop(waiting.reply.send(Ok(()))),
        }
    }

    fn acked(&mut self, response: AckResponse) {
        let Some(waiting) = response.request_id.and_then(|number| self.acks.answered(number)) else { return };
        let outcome = match response.error {
            None => Ok(()),
            Some(error) => Err(refused("the acknowledgement", Some(error), response.message)),
        };
        let _ = waiting.reply.send(outcome);
    }

    fn flow(&self, lines: &Lines, permits: Option<u32>) {
        if let Some(message_permits) = permits {
            lines.tell(Flow { consumer_id: self.who.id, message_permits });
        }
    }

    fn deadline(&self) -> Option<std::time::Instant> {
        let unsent = self.unsent.first().map(|waiting| waiting.deadline);
        match (self.acks.deadline(), unsent) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    fn expire(&mut self) {
        let now = tokio::time::Instant::now().into_std();
        let mut late = self.acks.expired(now);
        let (over, left) = std::mem::take(&mut self.unsent).into_iter().partition(|waiting| waiting.deadline <= now);
        self.unsent = left;
        late.extend::<Vec<_>>(over);
        let after = self.shared.options.operation_timeout;
        for waiting in late {
            let _ = waiting.reply.send(Err(Error::TimedOut { what: "the acknowledgement", after, source: None }));
        }
    }
}

async fn begin(
    shared: Arc<Shared>,
    who: Identity,
    mut assigned: Option<Assigned>,
    delay: Duration,
    again: bool,
) -> Result<Session, Error> {
    tokio::time::sleep(delay).await;
    let mut patience = shared.patience(WHAT, again);
    loop {
        if let Some(session) = patience.attempt(attempt(&shared, &who, assigned.take())).await? {
            return Ok(session);
        }
    }
}

async fn attempt(shared: &Shared, who: &Identity, assigned: Option<Assigned>) -> Result<Session, Error> {
    let lease = shared.lease_for(&who.topic, who.seat, assigned).await?;
    let (enlisted, events) = lease.lines().enlist_consumer(who.id, who.queue as usize)?;
    let asked = |request_id| {
        wire::Subscribe {
            topic: who.topic.to_string(),
            subscription: who.subscription.clone(),
            sub_type: who.sub_type as i32,
            consumer_id: who.id,
            request_id,
            consumer_name: who.name.clone(),
            durable: Some(true),
            initial_position: Some(who.position as i32),
            ..wire::Subscribe::default()
        }
        .into()
    };
    match lease.lines().request(WHAT, asked).await {
        Ok(Command::Success(_)) => Ok(Session { enlisted, events, lease }),
        Ok(other) => Err(Error::Unexpected { what: WHAT, kind: other.command_type() as i32 }),
        Err(error) => {
            if matches!(error, Error::Refused { .. }) {
                enlisted.forget();
            }
            Err(error)
        }
    }
}
