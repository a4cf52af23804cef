//! The session: a producer is begun at the broker that has its topic now.

use super::task::Identity;
use crate::client::Shared;
use crate::connection::{Assigned, Enlisted, ProducerEvent};
use crate::connector::Connector;
use crate::error::Error;
use crate::wire::{self, Command};
use carom::Lease;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

const WHAT: &str = "the producer";

/// A producer that a broker knows of. Dropped in this order: closed at the broker, then the connection is let go of.
pub(super) struct Session {
    pub(super) enlisted: Enlisted,
    pub(super) events: mpsc::UnboundedReceiver<ProducerEvent>,
    pub(super) lease: Lease<Connector>,
    pub(super) name: String,
    pub(super) last_sequence: i64,
}

/// Begins it, for as long as there is patience.
pub(super) async fn begin(
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
