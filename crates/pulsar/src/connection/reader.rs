//! The reader: takes frames off the socket, tells who they are for, and notices silence.

use super::table::{Assigned, ConsumerEvent, ProducerEvent, Table};
use super::{ConnectionError, Lines};
use crate::wire::{Command, Frame, Message, Payload, Ping};
use bytes::BytesMut;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// Room for one read.
const ONE_READ: usize = 64 * 1024;

pub(super) struct Reader {
    lines: Arc<Lines>,
    bytes: BytesMut,
    keep_alive: Duration,
    tick: Interval,
    /// A ping was sent, and nothing has arrived since.
    waiting: bool,
}

impl Reader {
    pub(super) fn new(lines: Arc<Lines>, keep_alive: Duration, bytes: BytesMut) -> Reader {
        let mut tick = interval_at(Instant::now() + keep_alive, keep_alive);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Reader { lines, bytes, keep_alive, tick, waiting: false }
    }

    pub(super) async fn run(mut self, mut socket: impl AsyncRead + Unpin) {
        let closed = self.lines.closed();
        tokio::pin!(closed);
        let reason = loop {
            if let Err(reason) = self.take_in() {
                break reason;
            }
            self.bytes.reserve(ONE_READ);
            tokio::select! {
                () = &mut closed => return,
                read = socket.read_buf(&mut self.bytes) => match read {
                    Ok(0) => break ConnectionError::ByBroker,
                    Ok(_) => self.waiting = false,
                    Err(error) => break ConnectionError::Io(error),
                },
                _ = self.tick.tick() => {
                    if self.waiting {
                        break ConnectionError::Silent(self.keep_alive);
                    }
                    self.waiting = true;
                    self.lines.tell(Ping {});
                }
            }
        };
        self.lines.end(reason);
    }

    /// Everything that has arrived as a whole.
    fn take_in(&mut self) -> Result<(), ConnectionError> {
        while let Some(frame) = self.lines.codec.decode(&mut self.bytes)? {
            self.hear(frame)?;
        }
        Ok(())
    }

    fn hear(&self, frame: Frame) -> Result<(), ConnectionError> {
        let kind = frame.command.kind;
        let Some(command) = frame.command.body else {
            tracing::debug!(broker = self.lines.broker, kind, "a command that is not known here");
            return Ok(());
        };
        match (Table::request_of(&command), command) {
            // The broker will say so again when the producer may begin.
            (Some(number), Command::ProducerSuccess(success)) if success.producer_ready == Some(false) => {
                let held = self.lines.table().requests.get(&number).and_then(|request| request.held.clone());
                held.inspect(|held| held.notify_one());
            }
            (Some(number), command) => {
                let answer = match command {
                    Command::Failure(failure) => Err(failure),
                    command => Ok(command),
                };
                let asked = self.lines.table().requests.remove(&number);
                match asked {
                    Some(asked) => drop(asked.answer.send(answer)),
                    None => self.lines.stray("answer", number),
                }
            }
            (None, command) => return self.heed(kind, command, frame.message),
        }
        Ok(())
    }

    /// A command that answers nothing.
    fn heed(&self, kind: i32, command: Command, message: Option<Payload>) -> Result<(), ConnectionError> {
        match command {
            Command::Ping(_) => self.lines.pong_owed.notify_one(),
            Command::Pong(_) | Command::ActiveConsumerChange(_) | Command::ReachedEndOfTopic(_) => {}
            Command::SendReceipt(receipt) => {
                self.tell_producer(receipt.producer_id, ProducerEvent::Receipt(receipt), false);
            }
            Command::SendError(error) => self.tell_producer(error.producer_id, ProducerEvent::Failed(error), false),
            Command::CloseProducer(close) => {
                let plain = close.assigned_broker_service_url;
                let assigned = Assigned { plain, tls: close.assigned_broker_service_url_tls };
                self.tell_producer(close.producer_id, ProducerEvent::Moved(assigned), true);
            }
            Command::Message(command) => match message {
                Some(payload) => self.deliver(command, payload)?,
                None => return Err(ConnectionError::Violation { kind }),
            },
            Command::AckResponse(response) => {
                self.tell_consumer(response.consumer_id, ConsumerEvent::Acked(response), false);
            }
            Command::CloseConsumer(close) => {
                let plain = close.assigned_broker_service_url;
                let assigned = Assigned { plain, tls: close.assigned_broker_service_url_tls };
                self.tell_consumer(close.consumer_id, ConsumerEvent::Moved(assigned), true);
            }
            Command::AuthChallenge(_) => self.lines.proof_owed.notify_one(),
            _ => return Err(ConnectionError::Violation { kind }),
        }
        Ok(())
    }

    fn tell_producer(&self, id: u64, event: ProducerEvent, last: bool) {
        let mut table = self.lines.table();
        let producer = if last { table.producers.remove(&id) } else { table.producers.get(&id).cloned() };
        drop(table);
        if producer.is_none_or(|producer| producer.send(event).is_err()) {
            self.lines.stray("for a producer", id);
        }
    }

    fn tell_consumer(&self, id: u64, event: ConsumerEvent, last: bool) {
        let mut table = self.lines.table();
        let consumer = if last { table.consumers.remove(&id) } else { table.consumers.get(&id).cloned() };
        drop(table);
        if consumer.is_none_or(|consumer| consumer.events.send(event).is_err()) {
            self.lines.stray("for a consumer", id);
        }
    }

    fn deliver(&self, message: Message, payload: Payload) -> Result<(), ConnectionError> {
        let id = message.consumer_id;
        let consumer = self.lines.table().consumers.get(&id).cloned();
        let Some(consumer) = consumer else {
            self.lines.stray("message", id);
            return Ok(());
        };
        let room = consumer.room.try_acquire_owned().map_err(|_| ConnectionError::Flooded { consumer: id })?;
        let _ = consumer.events.send(ConsumerEvent::Message(Box::new((message, payload)), room));
        Ok(())
    }
}

/// A runtime may end: nobody is to wait for a reader that is gone.
impl Drop for Reader {
    fn drop(&mut self) {
        self.lines.end(ConnectionError::gone());
    }
}
