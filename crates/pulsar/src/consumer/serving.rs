//! Serving: a consumer that its broker knows of hands out what arrives, and tells the broker what is done with.

use super::acks::Waiting;
use super::session::Session;
use super::task::{Leaving, Reply, Task};
use crate::client::at;
use crate::connection::{Assigned, ConsumerEvent, Enlisted, Lines, refused};
use crate::error::Error;
use crate::message_id::MessageId;
use crate::wire::{self, AckResponse, AckType, Flow};
use std::sync::Arc;

/// From this version of the protocol on, brokers confirm acknowledgements.
const ACKS_CONFIRMED: i32 = 17;

pub(super) enum Turn {
    /// On to wherever the topic is now.
    Again(Option<Assigned>),
    Over(Error),
}

impl Task {
    pub(super) async fn serve(&mut self, session: Session) -> Turn {
        let Session { enlisted, mut events, lease } = session;
        let lines = Arc::clone(lease.lines());
        let (closed, draining) = (self.shared.closed(), lease.draining());
        tokio::pin!(closed, draining);
        // What the last broker did not confirm is told to this one, before anything can come again because of it.
        let again = self.acks.take_all().into_iter().chain(std::mem::take(&mut self.unsent));
        for waiting in again.collect::<Vec<_>>() {
            self.tell(&lines, waiting);
        }
        let permits = self.shelf.inbox().begin_anew();
        self.flow(&lines, Some(permits).filter(|permits| *permits > 0));
        loop {
            if !matches!(self.leaving, Leaving::No) && self.acks.is_empty() {
                return self.leave(&lines, enlisted).await;
            }
            if self.shelf.inbox().is_adrift() {
                return Turn::Again(None);
            }
            let (staying, deadline) = (matches!(self.leaving, Leaving::No), self.deadline());
            tokio::select! {
                event = events.recv() => match event {
                    Some(ConsumerEvent::Message(message, room)) => {
                        let (command, payload) = *message;
                        let (arrived, permits) = {
                            let mut inbox = self.shelf.inbox();
                            let now = tokio::time::Instant::now().into_std();
                            let arrived = inbox.arrive(&command, payload, room, now);
                            (arrived, inbox.permits())
                        };
                        self.outlet.fill(&self.shelf);
                        if let Some(done) = arrived.batch {
                            self.acks.batch(arrived.id, done);
                        }
                        if !arrived.chunks.is_empty() {
                            self.acks.chunked(arrived.id, arrived.chunks);
                        }
                        self.flow(&lines, permits);
                    }
                    Some(ConsumerEvent::Acked(response)) => self.acked(response),
                    Some(ConsumerEvent::Moved(assigned)) => return Turn::Again(Some(assigned)),
                    None => return Turn::Again(None),
                },
                order = self.orders.recv(), if staying => self.obey(order, Some(&lines)),
                () = at(deadline) => self.expire(),
                () = &mut draining => return Turn::Again(None),
                () = &mut closed => return Turn::Over(Error::Closed),
            }
        }
    }

    /// Says goodbye. Who is asked to and hears nothing says so; a connection that ends meanwhile is as good as an answer.
    async fn leave(&mut self, lines: &Arc<Lines>, enlisted: Enlisted) -> Turn {
        let after = self.shared.options.operation_timeout;
        let consumer_id = self.who.id;
        let late = |what| Error::TimedOut { what, after, source: None };
        match std::mem::replace(&mut self.leaving, Leaving::Dropped) {
            Leaving::Unsubscribing(reply, _) => {
                let asked = |request_id| wire::Unsubscribe { consumer_id, request_id, force: None }.into();
                let unsubscribed = tokio::time::timeout(after, lines.request("unsubscribing", asked)).await;
                let _ = reply.send(unsubscribed.unwrap_or_else(|_| Err(late("unsubscribing"))).map(drop));
            }
            Leaving::Closing(reply) => {
                let closed = tokio::time::timeout(after, enlisted.close()).await;
                let _ = reply.send(match closed {
                    Ok(Ok(()) | Err(Error::Connection { .. })) => Ok(()),
                    Ok(Err(error)) => Err(error),
                    Err(_) => Err(late("closing")),
                });
            }
            Leaving::Dropped | Leaving::No => drop(tokio::time::timeout(after, enlisted.close()).await),
        }
        Turn::Over(Error::Closed)
    }

    pub(super) fn tell(&mut self, lines: &Lines, waiting: Waiting<Reply>) {
        let number = lines.number();
        let confirmed = lines.protocol_version >= ACKS_CONFIRMED;
        let ack_type = if waiting.ack.cumulative { AckType::Cumulative } else { AckType::Individual };
        lines.tell(wire::Ack {
            consumer_id: self.who.id,
            ack_type: ack_type as i32,
            message_id: self.acks.entries(waiting.ack).iter().map(MessageId::entry_data).collect(),
            request_id: confirmed.then_some(number),
            ..wire::Ack::default()
        });
        match confirmed {
            true => self.acks.asked(number, waiting),
            false => {
                self.shelf.inbox().settled(waiting.ack);
                self.acks.confirmed(waiting.ack);
                let _ = waiting.reply.send(Ok(()));
            }
        }
    }

    fn acked(&mut self, response: AckResponse) {
        let Some(waiting) = response.request_id.and_then(|number| self.acks.answered(number)) else { return };
        let outcome = match response.error {
            None => {
                self.shelf.inbox().settled(waiting.ack);
                self.acks.confirmed(waiting.ack);
                Ok(())
            }
            Some(error) => Err(refused("the acknowledgement", Some(error), response.message)),
        };
        let _ = waiting.reply.send(outcome);
    }

    pub(super) fn flow(&self, lines: &Lines, permits: Option<u32>) {
        if let Some(message_permits) = permits {
            lines.tell(Flow { consumer_id: self.who.id, message_permits });
        }
    }
}
