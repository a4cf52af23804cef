//! What a subscriber of a PUB that has bound is told, from its queue to its connection.

use super::listening::Stop;
use super::receiving::skipped;
use super::senseless::Senseless;
use super::shared::Shared;
use super::subscribers::Subscriber;
use crate::protocol::frames::LONGEST_TOPIC;
use carom_zmtp::SocketError;
use carom_zmtp::pubsub::{Encoded, Event, Limits, Socket};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout_at;

/// A subscription is a byte and the beginning of a topic.
pub(super) const LIMITS: Limits = Limits { message: 1 + LONGEST_TOPIC, parts: 1 };

/// So many bytes are put together before they are written.
const TOGETHER: usize = 64 << 10;

/// Writes what it subscribes to until it leaves or the bus is closed; then what waits, while the bus lingers.
pub(super) async fn run(shared: &Shared, mut socket: Socket, mut stop: Stop) -> Result<(), SocketError> {
    let (subscriber, waiting) = shared.subscribers.enter();
    let _entry = Entry { shared, subscriber: &subscriber };
    let mut line = Line { waiting, sizes: VecDeque::new(), bytes: 0 };
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(Option::is_some) => break,
            event = socket.next_or_room(TOGETHER) => match event? {
                Some(Event::Subscribed(prefix)) => subscriber.want(&prefix)?,
                Some(Event::Unsubscribed(prefix)) => subscriber.unwant(&prefix),
                Some(Event::Message(parts)) => shared.malformed(Senseless::NoSubscription, &skipped(&parts)),
                Some(Event::Skipped(skipped)) if skipped.parts > LIMITS.parts => {
                    shared.malformed(Senseless::NoSubscription, &skipped);
                }
                Some(Event::Skipped(skipped)) => shared.malformed(Senseless::LongSubscription, &skipped),
                // There is room for more.
                Some(Event::Open) | None => {}
            },
            Some(message) = line.waiting.recv(), if socket.unsent() < TOGETHER => line.gather(&mut socket, message)?,
        }
    }
    // Whoever dropped the bus gave it no time.
    let Some(until) = *stop.borrow() else { return Ok(()) };
    line.waiting.close();
    // The end of a subscriber is what is waited for.
    let _ = timeout_at(until, linger(&mut socket, &mut line)).await;
    shared.dropped(line.unwritten(&mut socket) + line.waiting.len());
    Ok(())
}

/// Writes all that waits, and waits until the subscriber has it: that it leaves says so.
async fn linger(socket: &mut Socket, line: &mut Line) -> Result<(), SocketError> {
    while let Some(message) = line.waiting.recv().await {
        line.gather(socket, message)?;
        socket.flush().await?;
    }
    socket.finish().await?;
    loop {
        socket.next().await?;
    }
}

/// What waits for a subscriber, and what was taken of that to be written.
struct Line {
    waiting: Receiver<Encoded>,
    /// Of each message that may not be written yet, and of all of them, how long it is.
    sizes: VecDeque<usize>,
    bytes: usize,
}

impl Line {
    /// Puts what waits together, as far as there is room.
    fn gather(&mut self, socket: &mut Socket, first: Encoded) -> Result<(), SocketError> {
        self.unwritten(socket);
        self.put(socket, &first)?;
        while socket.unsent() < TOGETHER
            && let Ok(message) = self.waiting.try_recv()
        {
            self.put(socket, &message)?;
        }
        Ok(())
    }

    fn put(&mut self, socket: &mut Socket, message: &Encoded) -> Result<(), SocketError> {
        socket.push(message)?;
        self.sizes.push_back(message.size());
        self.bytes += message.size();
        Ok(())
    }

    /// How many messages are not written as a whole.
    fn unwritten(&mut self, socket: &mut Socket) -> usize {
        while let Some(first) = self.sizes.front()
            && self.bytes - first >= socket.unsent()
        {
            self.bytes -= first;
            self.sizes.pop_front();
        }
        self.sizes.len()
    }
}

/// A subscriber that is among the others, for as long as this is kept.
struct Entry<'a> {
    shared: &'a Shared,
    subscriber: &'a Arc<Subscriber>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.shared.subscribers.leave(self.subscriber);
    }
}
