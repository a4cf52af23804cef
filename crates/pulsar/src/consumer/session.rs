//! The session: a consumer is begun at the broker that has its topic now.

use super::task::Identity;
use crate::address::proxy_of;
use crate::client::{Shared, Trouble};
use crate::connection::{Assigned, ConsumerEvent, Enlisted, not_begun};
use crate::connector::Connector;
use crate::error::Error;
use crate::wire::{self, Command};
use carom::Lease;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

const WHAT: &str = "the consumer";

/// A consumer that a broker knows of. Dropped in this order: closed at the broker, then the connection is let go of.
pub(super) struct Session {
    pub(super) enlisted: Enlisted,
    pub(super) events: mpsc::UnboundedReceiver<ConsumerEvent>,
    pub(super) lease: Lease<Connector>,
}

/// Begins it, for as long as there is patience: the first time until a deadline, later until it has begun.
pub(super) async fn begin(
    shared: Arc<Shared>,
    who: Identity,
    mut assigned: Option<Assigned>,
    delay: Duration,
    first: Option<Instant>,
    trouble: Trouble,
) -> Result<Session, Error> {
    tokio::time::sleep(delay).await;
    let mut patience = match first {
        Some(deadline) => shared.patience_until(deadline, WHAT, false),
        None => shared.patience(WHAT, true),
    }
    .telling(trouble);
    loop {
        if let Some(session) = patience.attempt(attempt(&shared, &who, &mut assigned)).await? {
            return Ok(session);
        }
    }
}

/// One attempt, where the topic is said to be, if that is said. It may be said anew.
async fn attempt(shared: &Shared, who: &Identity, assigned: &mut Option<Assigned>) -> Result<Session, Error> {
    let lease = shared.lease_for(&who.topic, who.seat, assigned.take()).await?;
    let (enlisted, mut events) = lease.lines().enlist_consumer(who.id, who.queue as usize)?;
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
    let begun = tokio::select! {
        biased;
        begun = lease.lines().request(WHAT, asked) => begun,
        to = sent_away(&mut events) => {
            enlisted.disown();
            // Behind a proxy, brokers cannot be reached by their names.
            *assigned = Some(to).filter(|_| proxy_of(lease.backend().name()).is_none());
            return Err(not_begun(WHAT));
        }
    };
    match begun {
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

/// Resolves when the broker closes the consumer. Nothing else can be for it yet: it has asked for no messages.
async fn sent_away(events: &mut mpsc::UnboundedReceiver<ConsumerEvent>) -> Assigned {
    loop {
        match events.recv().await {
            Some(ConsumerEvent::Moved(assigned)) => return assigned,
            Some(ConsumerEvent::Message(..) | ConsumerEvent::Acked(_)) => {}
            // Whoever waits for the answer is told why.
            None => std::future::pending().await,
        }
    }
}
