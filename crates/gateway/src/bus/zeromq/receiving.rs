//! What a publisher says to a SUB that has bound, from its connection to the bus of this process.

use super::listening::Stop;
use super::senseless::Senseless;
use super::shared::Shared;
use crate::protocol::frames;
use bytes::Bytes;
use carom_zmtp::SocketError;
use carom_zmtp::pubsub::{Event, Limits, Skipped, Socket};

/// A tick with an order book of 200 levels is some 30 KiB. What has more than two parts is not kept either.
pub(super) const LIMITS: Limits = Limits { message: 256 << 10, parts: 2 };

/// Publishes what comes until the publisher leaves or the bus is closed. Nobody is waited for, whatever comes.
pub(super) async fn run(shared: &Shared, mut socket: Socket, mut stop: Stop) -> Result<(), SocketError> {
    socket.subscribe(b"")?;
    loop {
        let event = tokio::select! {
            biased;
            _ = stop.wait_for(Option::is_some) => return Ok(()),
            event = socket.next() => event?,
        };
        match event {
            Event::Message(parts) => match frames::read(&parts) {
                // Copied: a piece of what was read at a time would keep all of it for as long as it waits.
                Ok((topic, payload)) => shared.local.publish(topic, Bytes::copy_from_slice(payload)),
                Err(why) => shared.malformed(why.into(), &skipped(&parts)),
            },
            Event::Skipped(skipped) if skipped.parts > LIMITS.parts => shared.malformed(Senseless::Frames, &skipped),
            Event::Skipped(skipped) => shared.malformed(Senseless::Long, &skipped),
            Event::Open | Event::Subscribed(_) | Event::Unsubscribed(_) => {}
        }
    }
}

/// What is known of a message that is not taken.
pub(super) fn skipped(parts: &[Bytes]) -> Skipped {
    let bytes = parts.iter().map(|part| part.len() as u64).sum();
    Skipped { first: parts.first().cloned().unwrap_or_default(), parts: parts.len(), bytes }
}
