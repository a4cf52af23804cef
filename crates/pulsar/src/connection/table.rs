//! Who is to hear of what arrives: requests, producers and consumers, by their numbers.
//!
//! One table has them all, so that there is one place where a connection's end is told: whoever takes an entry out owns what
//! becomes of it.

use crate::error::Error;
use crate::wire::{AckResponse, Command, Failure, Message, Payload, SendError, SendReceipt, ServerError};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// What a producer hears.
#[derive(Debug)]
pub(crate) enum ProducerEvent {
    Receipt(SendReceipt),
    Failed(SendError),
    /// The broker has closed the producer; the topic may be found there.
    Moved(Assigned),
}

/// What a consumer hears.
#[derive(Debug)]
pub(crate) enum ConsumerEvent {
    /// With its place among those that may arrive ahead.
    Message(Box<(Message, Payload)>, OwnedSemaphorePermit),
    Acked(AckResponse),
    /// The broker has closed the consumer; the topic may be found there.
    Moved(Assigned),
}

/// Where a broker says a topic is now, with and without TLS.
#[derive(Clone, Debug, Default)]
pub(crate) struct Assigned {
    pub(crate) plain: Option<String>,
    pub(crate) tls: Option<String>,
}

pub(crate) type Answer = Result<Command, Failure>;

/// Who is to hear of what arrives.
#[derive(Default)]
pub(super) struct Table {
    pub(super) over: bool,
    pub(super) requests: HashMap<u64, Request>,
    pub(super) producers: HashMap<u64, mpsc::UnboundedSender<ProducerEvent>>,
    pub(super) consumers: HashMap<u64, Consuming>,
}

/// Where an answer is waited for.
pub(super) struct Request {
    pub(super) answer: oneshot::Sender<Answer>,
    /// Hears that the answer may take any time.
    pub(super) held: Option<Arc<Notify>>,
}

/// Where a consumer hears, and how many messages it has room for.
#[derive(Clone)]
pub(super) struct Consuming {
    pub(super) events: mpsc::UnboundedSender<ConsumerEvent>,
    pub(super) room: Arc<Semaphore>,
}

impl Table {
    /// Which request a command answers, if it does.
    pub(super) fn request_of(command: &Command) -> Option<u64> {
        match command {
            Command::Success(success) => Some(success.request_id),
            Command::Failure(failure) => Some(failure.request_id),
            Command::ProducerSuccess(success) => Some(success.request_id),
            Command::PartitionedMetadataResponse(response) => Some(response.request_id),
            Command::LookupResponse(response) => Some(response.request_id),
            Command::GetLastMessageIdResponse(response) => Some(response.request_id),
            Command::TopicsOfNamespaceResponse(response) => Some(response.request_id),
            _ => None,
        }
    }
}

/// A producer or consumer was closed before the broker had said that it has begun. Another attempt may find the topic.
pub(crate) fn not_begun(what: &'static str) -> Error {
    let message = "the broker closed it before it had begun".to_owned();
    Error::Refused { what, error: ServerError::ServiceNotReady, message }
}

/// A broker's refusal as an error.
pub(crate) fn refused(what: &'static str, error: Option<i32>, message: Option<String>) -> Error {
    let error = error.map_or(ServerError::Unknown, ServerError::of);
    Error::Refused { what, error, message: message.unwrap_or_default() }
}
