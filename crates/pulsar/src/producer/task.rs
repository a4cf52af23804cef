//! The task of a producer on one topic or partition: finds the broker, sends what is in line, and finds the next broker when the
//! topic moves.

use super::outgoing::Outgoing;
use super::outstanding::{Outstanding, Receipted};
use crate::address::proxy_of;
use crate::client::{Pace, Seat, Shared, at};
use crate::connection::{Assigned, Enlisted, Lines, ProducerEvent, refused};
use crate::connector::Connector;
use crate::error::Error;
use crate::message_id::MessageId;
use crate::wire::{
    self, Codec, Command, Frame, KeyValue, MessageMetadata, Payload, SendError, SendReceipt, ServerError,
};
use bytes::{Bytes, BytesMut};
use carom::Lease;
use prost::Message as _;
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

const WHAT: &str = "the producer";

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
}

/// A frame, and how large the broker thinks it is.
#[derive(Clone)]
pub(super) struct Encoded {
    frame: Bytes,
    size: usize,
}

pub(super) struct Task {
    pub(super) shared: Arc<Shared>,
    pub(super) who: Identity,
    pub(super) orders: mpsc::UnboundedReceiver<Order>,
    /// Hears that the producer has begun, or why not.
    pub(super) begun: Option<oneshot::Sender<Result<(), Error>>>,
    pub(super) room: Arc<Semaphore>,
    /// Why it has ended, for those who come later.
    pub(super) fate: Arc<OnceLock<Error>>,
    line: Outstanding<Pending>,
    /// No more orders will come.
    gone: bool,
    close: Option<oneshot::Sender<Result<(), Error>>>,
    last: Option<Error>,
    pace: Pace,
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

/// A producer that a broker knows of. Dropped in this order: closed at the broker, then the connection is let go of.
struct Session {
    enlisted: Enlisted,
    events: mpsc::UnboundedReceiver<ProducerEvent>,
    lease: Lease<Connector>,
    name: String,
    last_sequence: i64,
}

enum Turn {
    /// The broker still has the producer: it is closed there first.
    Anew,
    /// On to wherever the topic is now.
    Again(Option<Assigned>),
    Over(Error),
}

impl Task {
    pub(super) fn new(
        shared: Arc<Shared>,
        who: Identity,
        orders: mpsc::UnboundedReceiver<Order>,
        begun: oneshot::Sender<Result<(), Error>>,
        room: Arc<Semaphore>,
        fate: Arc<OnceLock<Error>>,
    ) -> Task {
        let (line, begun, pace) = (Outstanding::new(), Some(begun), Pace::new(&shared.options.recovery));
        Task { shared, who, orders, begun, room, fate, line, gone: false, close: None, last: None, pace }
    }

    pub(super) async fn run(mut self) {
        let reason = self.live().await;
        tracing::debug!(topic = self.who.topic, %reason, "producer ended");
        // From here on everybody is told so, then those who are in line already.
        let _ = self.fate.set(reason.clone());
        self.room.close();
        self.orders.close();
        while let Ok(order) = self.orders.try_recv() {
            self.obey(Some(order));
        }
        for entry in self.line.take_all() {
            let _ = entry.what.reply.send(Err(reason.clone()));
        }
        if let Some(begun) = self.begun.take() {
            let _ = begun.send(Err(reason.clone()));
        }
        if let Some(close) = self.close.take() {
            let _ = close.send(if matches!(reason, Error::Closed) { Ok(()) } else { Err(reason) });
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
            self.who.name = Some(session.name.clone());
            self.who.seat.place = Some(session.lease.place());
            if let Some(begun) = self.begun.take() {
                self.line.begin_after(session.last_sequence);
                let _ = begun.send(Ok(()));
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
        }
    }

    /// Begins the producer at its broker; meanwhile orders are taken and time runs out.
    async fn begin(&mut self, assigned: Option<Assigned>, delay: std::time::Duration) -> Result<Session, Error> {
        let begin = begin(Arc::clone(&self.shared), self.who.clone(), assigned, delay, self.begun.is_none());
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

    /// What was heard until the broker had closed the producer: what has a receipt is stored, and not sent again.
    fn settle(&mut self, events: &mut mpsc::UnboundedReceiver<ProducerEvent>) {
        while let Ok(event) = events.try_recv() {
            match event {
                ProducerEvent::Receipt(receipt) => {
                    if let Some(entry) = self.line.take(receipt.sequence_id) {
                        self.receipted(entry.what, &receipt);
                    }
                }
                ProducerEvent::Failed(_) | ProducerEvent::Moved(_) => {}
            }
        }
    }

    async fn serve(&mut self, session: Session) -> Turn {
        let Session { enlisted, mut events, lease, .. } = session;
        let lines = Arc::clone(lease.lines());
        let (closed, draining) = (self.shared.closed(), lease.draining());
        tokio::pin!(closed, draining);
        loop {
            if self.gone && self.line.is_empty() {
                let allowed = self.shared.options.operation_timeout;
                let _ = tokio::time::timeout(allowed, enlisted.close()).await;
                return Turn::Over(Error::Closed);
            }
            let frame = self.next_frame(&lines);
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => match self.hear(event) {
                        None => {}
                        Some(Turn::Anew) => {
                            let allowed = self.shared.options.operation_timeout;
                            let _ = tokio::time::timeout(allowed, enlisted.close()).await;
                            self.settle(&mut events);
                            return Turn::Again(None);
                        }
                        Some(turn) => return turn,
                    },
                    None => {
                        self.last = Some(lines.ended());
                        return Turn::Again(None);
                    }
                },
                order = self.orders.recv(), if !self.gone => self.obey(order),
                room = lines.data().reserve(), if frame.is_some() => match (room, frame) {
                    (Ok(room), Some(frame)) => {
                        room.send(frame);
                        self.line.mark_sent();
                    }
                    // The events say why.
                    (Ok(_) | Err(_), _) => {
                        self.last = Some(lines.ended());
                        return Turn::Again(None);
                    }
                },
                () = at(self.line.deadline()) => self.expire(),
                () = &mut draining => return Turn::Again(None),
                () = &mut closed => return Turn::Over(Error::Closed),
            }
        }
    }

    fn obey(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Send(pending, deadline)) => self.line.push(deadline, pending),
            Some(Order::Close(reply)) => (self.gone, self.close) = (true, Some(reply)),
            None => self.gone = true,
        }
    }

    fn hear(&mut self, event: ProducerEvent) -> Option<Turn> {
        match event {
            ProducerEvent::Receipt(receipt) => self.receipt(&receipt),
            ProducerEvent::Failed(error) => self.failed(error),
            ProducerEvent::Moved(assigned) => Some(Turn::Again(Some(assigned))),
        }
    }

    fn receipt(&mut self, receipt: &SendReceipt) -> Option<Turn> {
        match self.line.receipt(receipt.sequence_id) {
            Receipted::First(entry) => {
                self.pace.succeeded();
                self.receipted(entry.what, receipt);
                None
            }
            Receipted::Nobody => None,
            // What is missing before it is sent again; the broker knows what it has by the numbers.
            Receipted::OutOfOrder => Some(Turn::Anew),
        }
    }

    fn receipted(&self, pending: Pending, receipt: &SendReceipt) {
        let id = receipt.message_id.clone().unwrap_or_default();
        let _ = pending.reply.send(Ok(MessageId::of(&id, self.who.partition, -1)));
    }

    fn failed(&mut self, failed: SendError) -> Option<Turn> {
        let error = refused("the message", Some(failed.error), Some(failed.message));
        match ServerError::of(failed.error) {
            ServerError::TopicTerminated | ServerError::ProducerFenced => Some(Turn::Over(error)),
            ServerError::Checksum | ServerError::NotAllowed | ServerError::Authorization => {
                if let Some(entry) = self.line.take(failed.sequence_id) {
                    let _ = entry.what.reply.send(Err(error));
                }
                None
            }
            // The broker could not store it now: as if the producer had been closed.
            _ => {
                self.last = Some(error);
                Some(Turn::Anew)
            }
        }
    }

    fn expire(&mut self) {
        let after = self.shared.options.operation_timeout;
        let now = tokio::time::Instant::now().into_std();
        while let Some(entry) = self.line.expired(now) {
            let source = self.last.clone().map(Arc::new);
            let _ = entry.what.reply.send(Err(Error::TimedOut { what: "the message", after, source }));
        }
    }

    /// The next message to be sent, as bytes. Those that this broker does not take fail.
    fn next_frame(&mut self, lines: &Lines) -> Option<Bytes> {
        loop {
            let who = &self.who;
            let entry = self.line.unsent()?;
            let sequence = entry.sequence;
            let encoded = entry.what.encoded.get_or_insert_with(|| encode(who, sequence, &entry.what.message));
            let (size, limit) = (encoded.size, lines.max_message_size);
            if size <= limit && encoded.frame.len() - 4 <= lines.codec().limit() {
                return Some(encoded.frame.clone());
            }
            if let Some(entry) = self.line.take(sequence) {
                let _ = entry.what.reply.send(Err(Error::TooLarge { size, limit }));
            }
        }
    }
}

async fn begin(
    shared: Arc<Shared>,
    who: Identity,
    mut assigned: Option<Assigned>,
    delay: std::time::Duration,
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
    let (enlisted, events) = lease.lines().enlist_producer(who.id)?;
    let asked = |request_id| {
        wire::Producer {
            topic: who.topic.clone(),
            producer_id: who.id,
            request_id,
            producer_name: who.name.clone(),
            epoch: Some(who.epoch),
            user_provided_producer_name: Some(who.named_by_user),
            ..wire::Producer::default()
        }
        .into()
    };
    match lease.lines().request(WHAT, asked).await {
        Ok(Command::ProducerSuccess(success)) => {
            let last_sequence = success.last_sequence_id.unwrap_or(-1);
            Ok(Session { enlisted, events, lease, name: success.producer_name, last_sequence })
        }
        Ok(other) => Err(Error::Unexpected { what: WHAT, kind: other.command_type() as i32 }),
        Err(error) => {
            if matches!(error, Error::Refused { .. }) {
                enlisted.forget();
            }
            Err(error)
        }
    }
}

fn encode(who: &Identity, sequence_id: u64, message: &Outgoing) -> Encoded {
    let publish_time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let properties = message.properties.iter().cloned();
    let metadata = MessageMetadata {
        producer_name: who.name.clone().unwrap_or_default(),
        sequence_id,
        publish_time,
        properties: properties.map(|(key, value)| KeyValue { key, value }).collect(),
        partition_key: message.key.clone(),
        event_time: message.event_time,
        ..MessageMetadata::default()
    };
    let size = metadata.encoded_len() + message.payload.len();
    let send = wire::Send { producer_id: who.id, sequence_id, num_messages: Some(1), ..wire::Send::default() };
    let frame = Frame::with_message(send, Payload { metadata, payload: message.payload.clone() });
    let mut bytes = BytesMut::new();
    // Without a limit of its own: what a broker takes is asked before each sending.
    match Codec::new(usize::MAX).encode(&frame, &mut bytes) {
        Ok(()) => Encoded { frame: bytes.freeze(), size },
        // Over four gigabytes: too large for any broker.
        Err(_) => Encoded { frame: Bytes::from_static(&[0; 4]), size: usize::MAX },
    }
}
