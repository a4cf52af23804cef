//! Serving: a producer that its broker knows of sends what is in line, and hears what becomes of it.

use super::encoded::encode;
use super::outstanding::Receipted;
use super::session::Session;
use super::task::{Pending, Task};
use crate::client::at;
use crate::connection::{Assigned, Lines, ProducerEvent, refused};
use crate::error::Error;
use crate::message_id::MessageId;
use crate::wire::{SendError, SendReceipt, ServerError};
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::mpsc;

pub(super) enum Turn {
    /// The broker still has the producer: it is closed there first.
    Anew,
    /// On to wherever the topic is now.
    Again(Option<Assigned>),
    Over(Error),
}

impl Task {
    pub(super) async fn serve(&mut self, session: Session) -> Turn {
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
