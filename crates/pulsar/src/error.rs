//! Why something that was asked of a cluster did not happen.

use crate::address::AddressError;
use crate::connection::ConnectionError;
use crate::topic::TopicError;
use crate::wire::{ServerError, SubType, WireError};
use carom::LeaseError;
use std::sync::Arc;
use std::time::Duration;

/// Why something that was asked of a cluster did not happen.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no connection to be had.
    #[error(transparent)]
    Lease(LeaseError),
    /// The connection ended. Whether what was asked has happened is not known.
    #[error("the connection to {broker} ended")]
    #[non_exhaustive]
    Connection {
        /// Whom it led to.
        broker: String,
        /// Why it ended.
        source: Arc<ConnectionError>,
    },
    /// The broker said no.
    #[error("{what} was refused: {error}: {message}")]
    #[non_exhaustive]
    Refused {
        /// What was asked of it.
        what: &'static str,
        /// Why.
        error: ServerError,
        /// The same for people.
        message: String,
    },
    /// The broker answered something else than what was asked.
    #[error("{what} was answered with a command of type {kind}")]
    #[non_exhaustive]
    Unexpected {
        /// What was asked of it.
        what: &'static str,
        /// What it answered.
        kind: i32,
    },
    /// It took too long. `source` is the last thing that went wrong on the way, if something did.
    #[error("{what} took longer than {after:?}")]
    #[non_exhaustive]
    TimedOut {
        /// What was asked.
        what: &'static str,
        /// How long it may take.
        after: Duration,
        /// The last thing that went wrong.
        source: Option<Arc<Error>>,
    },
    /// Brokers sent each other's questions round and round.
    #[error("`{topic}` was not found in {redirects} redirects")]
    #[non_exhaustive]
    Redirects {
        /// The topic.
        topic: String,
        /// How many there were.
        redirects: usize,
    },
    /// The broker says that the topic has more partitions than anybody makes.
    #[error("`{topic}` is said to have {partitions} partitions, more than the limit of {limit}")]
    #[non_exhaustive]
    Partitions {
        /// The topic.
        topic: String,
        /// How many the broker says there are.
        partitions: u32,
        /// The most that are taken on its word.
        limit: u32,
    },
    /// A broker's host has no address.
    #[error("`{host}` has no address")]
    #[non_exhaustive]
    Unresolved {
        /// The host.
        host: String,
        /// What the resolver said.
        source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    },
    /// The broker names the owner of a topic, but not how this client could reach it: with TLS, or without.
    #[error("the lookup of `{topic}` was answered without a `{scheme}://` address")]
    #[non_exhaustive]
    NoAddress {
        /// The topic.
        topic: String,
        /// How the address that was wanted begins.
        scheme: &'static str,
    },
    /// A broker named another by an address that makes no sense.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The name of the topic makes no sense.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// An option of a producer or consumer makes no sense.
    #[error("`{option}` {problem}")]
    #[non_exhaustive]
    Option {
        /// Which.
        option: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The message is larger than the broker takes.
    #[error("a message of {size} bytes is larger than the limit of {limit}")]
    #[non_exhaustive]
    TooLarge {
        /// How large it is, with what goes with it.
        size: usize,
        /// The most that the broker takes.
        limit: usize,
    },
    /// What is asked of the broker is larger than it takes: a name of many thousand characters.
    #[error("{what} cannot be asked for")]
    #[non_exhaustive]
    Unsayable {
        /// What was to be asked of it.
        what: &'static str,
        /// How large it is, and may be.
        source: WireError,
    },
    /// A message that arrived cannot be taken apart.
    #[error("message {id} cannot be read")]
    #[non_exhaustive]
    Unreadable {
        /// The topic that it came by, by its whole name; with `id` it can be acknowledged.
        topic: Arc<str>,
        /// Which.
        id: crate::MessageId,
        /// Why; `None` when it is compressed or encrypted, which this client does not undo, or a chunk of a message of more than
        /// 128 MiB.
        source: Option<WireError>,
    },
    /// The message to be acknowledged is of a topic or a subscription that the consumer does not read.
    #[error("message {id} of `{topic}` did not come by this subscription")]
    #[non_exhaustive]
    Foreign {
        /// Its topic.
        topic: String,
        /// Which.
        id: crate::MessageId,
    },
    /// Shared and key-shared subscriptions have no cumulative acknowledgement: brokers ignore it.
    #[error("message {id} not acknowledged: no cumulative acknowledgement in a {} subscription; use `ack`", sub_type.name())]
    #[non_exhaustive]
    CumulativeAck {
        /// The message.
        id: crate::MessageId,
        /// The type of the subscription.
        sub_type: SubType,
    },
    /// The producer or consumer had ended already, for this reason.
    #[error("the {what} has ended")]
    #[non_exhaustive]
    Ended {
        /// Which of them.
        what: &'static str,
        /// Why.
        source: Arc<Error>,
    },
    /// The task of the producer or consumer panicked, which is a bug.
    #[error("the task of the {what} panicked")]
    #[non_exhaustive]
    Panicked {
        /// Which of them.
        what: &'static str,
    },
    /// The client, the producer or the consumer was closed.
    #[error("closed")]
    Closed,
}

/// The set is the client's own: that it is closed is nothing else than that the client is.
impl From<LeaseError> for Error {
    fn from(error: LeaseError) -> Error {
        match error {
            LeaseError::Closed { .. } => Error::Closed,
            error => Error::Lease(error),
        }
    }
}

impl Error {
    /// Whether the same may succeed if it is tried again. What has worked before (`again`) is given more chances: its own
    /// predecessor may not be gone yet.
    pub(crate) fn is_passing(&self, again: bool) -> bool {
        match self {
            Error::Lease(error) => !refused_for_good(error),
            Error::Connection { .. } | Error::TimedOut { .. } | Error::Unresolved { .. } => true,
            Error::Refused { error, .. } => match error {
                ServerError::ServiceNotReady | ServerError::Metadata | ServerError::TooManyRequests => true,
                ServerError::Persistence | ServerError::Unknown | ServerError::ConsumerAssign => true,
                ServerError::ProducerBusy | ServerError::ConsumerBusy => again,
                ServerError::TopicNotFound | ServerError::ConsumerNotFound => again,
                // Until somebody reads what has piled up.
                ServerError::ProducerBlockedQuotaExceeded | ServerError::ProducerBlockedQuotaException => again,
                ServerError::Authentication
                | ServerError::Authorization
                | ServerError::Checksum
                | ServerError::UnsupportedVersion
                | ServerError::SubscriptionNotFound
                | ServerError::TopicTerminated
                | ServerError::InvalidTopicName
                | ServerError::IncompatibleSchema
                | ServerError::TransactionCoordinatorNotFound
                | ServerError::InvalidTxnStatus
                | ServerError::NotAllowed
                | ServerError::TransactionConflict
                | ServerError::TransactionNotFound
                | ServerError::ProducerFenced => false,
            },
            // What has been found before can be found, once the brokers agree again.
            Error::Redirects { .. } | Error::NoAddress { .. } | Error::Address(_) => again,
            Error::Unexpected { .. }
            | Error::Partitions { .. }
            | Error::Topic(_)
            | Error::Option { .. }
            | Error::TooLarge { .. }
            | Error::Unsayable { .. }
            | Error::Unreadable { .. }
            | Error::Foreign { .. }
            | Error::CumulativeAck { .. }
            | Error::Ended { .. }
            | Error::Panicked { .. }
            | Error::Closed => false,
        }
    }
}

/// A broker that refuses the handshake for a reason that time does not cure.
fn refused_for_good(error: &LeaseError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        match error.downcast_ref() {
            Some(ConnectionError::Refused { error, .. }) => {
                use ServerError::{Authentication, Authorization, UnsupportedVersion};
                return matches!(error, Authentication | Authorization | UnsupportedVersion);
            }
            Some(ConnectionError::Tls(error)) => {
                use carom::tls::ConnectError::{Certificate, Issuer, Untrusted, WrongName};
                return matches!(error, Certificate { .. } | Issuer { .. } | Untrusted { .. } | WrongName { .. });
            }
            Some(_) | None => {}
        }
        cause = error.source();
    }
    false
}
