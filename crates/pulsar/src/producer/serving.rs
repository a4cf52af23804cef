//! Serving: a producer that its broker knows of sends what is in line, and hears what becomes of it.

use super::encoded::encode;
use super::outstanding::Receipted;
use super::session::Session;
use super::task::{Pending, Task};
use crate::client::at;
use crate::connection::{Assigned, Enlisted, Lines, ProducerEvent, refused};
use crate::error::Error;
use crate::message_id::MessageId;
use crate::wire::{SendError, SendReceipt, ServerError};
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::mpsc;

type Events = mpsc::UnboundedReceiver<ProducerEvent>;

/// What comes after a session.
pub(super) enum Turn {
    /// The broker still has the producer: it is closed there first.
    Anew,
    /// On to wherever the topic is now.
    Again(Option<Assigned>),
    Over(Error),
}

impl Task {
    /// Sends what is in line, until the broker, the connection or the user has had enough.
    ///
    /// Whatever ends it, what was heard until then counts: a message that has its receipt is not sent again.
    pub(super) async fn serve(&mut self, session: Session) -> Turn {
        let Session { enlisted, mut events, lease, .. } = session;
        let lines = Arc::clone(lease.lines());
        let turn = {
            let draining = lease.draining();
            tokio::pin!(draining);
            self.send_all(&enlisted, &mut events, &lines, draining).await
        };
        let parted = match turn {
            Turn::Anew => self.part(enlisted, &mut events).await,
            Turn::Over(Error::Closed) if self.gone => self.part(enlisted, &mut events).await,
            Turn::Over(_) | Turn::Again(_) => None,
        };
        let heard = self.settle(&mut events);
        match (parted.or(heard), turn) {
            (_, Turn::Over(error)) | (Some(error), Turn::Anew | Turn::Again(_)) => Turn::Over(error),
            (None, Turn::Anew) => Turn::Again(None),
            (None, turn @ Turn::Again(_)) => turn,
        }
    }

    async fn send_all(
        &mut self,
        enlisted: &Enlisted,
        events: &mut Events,
        lines: &Lines,
        mut draining: impl Future<Output = ()> + Unpin,
    ) -> Turn {
        let closed = self.shared.closed();
        tokio::pin!(closed);
        loop {
            if self.gone && self.line.is_empty() {
                return Turn::Over(Error::Closed);
            }
            let frame = self.next_frame(lines);
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => if let Some(turn) = self.hear(event) {
                        return turn;
                    },
                    None => {
                        self.last = Some(lines.ended());
                        return Turn::Again(None);
                    }
                },
                order = self.orders.recv(), if !self.gone => self.obey(order),
                room = lines.messages().reserve(), if frame.is_some() => match (room, frame) {
                    (Ok(room), Some(frame)) => {
                        room.send(enlisted.message(frame));
                        self.line.mark_sent();
                    }
                    // The writer goes before the last events are heard.
                    (Ok(_) | Err(_), _) => {
                        self.last = Some(lines.ended());
                        return Turn::Again(None);
                    }
                },
                () = at(self.line.deadline()) => self.expire(),
                () = &mut draining => return Turn::Anew,
                () = &mut closed => return Turn::Over(Error::Closed),
            }
        }
    }

    /// Closes the producer at its broker. Meanwhile receipts come in, orders are taken and time runs out; why it is over, if it
    /// is.
    async fn part(&mut self, enlisted: Enlisted, events: &mut Events) -> Option<Error> {
        let after = self.shared.options.operation_timeout;
        let closing = tokio::time::timeout(after, enlisted.close());
        let closed = self.shared.closed();
        tokio::pin!(closing, closed);
        loop {
            tokio::select! {
                confirmed = &mut closing => {
                    self.unconfirmed = match confirmed {
                        // With its connection the broker has lost the producer, too.
                        Ok(Ok(()) | Err(Error::Connection { .. })) => None,
                        Ok(Err(error)) => Some(error),
                        Err(_) => Some(Error::TimedOut { what: "closing", after, source: None }),
                    };
                    return None;
                }
                Some(event) = events.recv() => if let Some(Turn::Over(error)) = self.hear(event) {
                    return Some(error);
                },
                order = self.orders.recv(), if !self.gone => self.obey(order),
                () = at(self.line.deadline()) => self.expire(),
                () = &mut closed => return Some(Error::Closed),
            }
        }
    }

    /// Hears what has arrived and was not heard yet; why it is over, if it is.
    fn settle(&mut self, events: &mut Events) -> Option<Error> {
        let mut over = None;
        while let Ok(event) = events.try_recv() {
            if let Some(Turn::Over(error)) = self.hear(event) {
                over = over.or(Some(error));
            }
        }
        // Sent again, it would come behind what was sent after it; and a broker that knows messages by their numbers would
        // take it for one that it has.
        for entry in self.line.take_passed_over(|pending| pending.refused.is_some()) {
            if let Pending { reply, refused: Some(error), .. } = entry.what {
                let _ = reply.send(Err(*error));
            }
        }
        over
    }

    fn hear(&mut self, event: ProducerEvent) -> Option<Turn> {
        match event {
            ProducerEvent::Receipt(receipt) => self.receipt(&receipt),
            ProducerEvent::Failed(error) => self.failed(error),
            ProducerEvent::Moved(assigned) => Some(Turn::Again(Some(assigned))),
        }
    }

    fn receipt(&mut self, receipt: &SendReceipt) -> Option<Turn> {
        let (entry, turn) = match self.line.receipt(receipt.sequence_id) {
            Receipted::First(entry) => (entry, None),
            // What is missing before it is sent again.
            Receipted::Ahead(entry) => (entry, Some(Turn::Anew)),
            Receipted::Nobody => return None,
        };
        self.pace.succeeded();
        let id = receipt.message_id.clone().unwrap_or_default();
        let _ = entry.what.reply.send(Ok(MessageId::of(&id, self.who.partition, -1)));
        turn
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
                if let Some(pending) = self.line.sent(failed.sequence_id) {
                    pending.refused = Some(Box::new(error.clone()));
                }
                self.last = Some(error);
                Some(Turn::Anew)
            }
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
