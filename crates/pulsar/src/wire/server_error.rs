//! Why a broker says no.

use std::fmt;

/// Why a broker says no. What is not known here is taken for [`Unknown`](ServerError::Unknown).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
#[allow(missing_docs, reason = "the names are the protocol's own")]
pub enum ServerError {
    Unknown = 0,
    Metadata = 1,
    Persistence = 2,
    Authentication = 3,
    Authorization = 4,
    ConsumerBusy = 5,
    /// To be tried again after a fresh lookup.
    ServiceNotReady = 6,
    ProducerBlockedQuotaExceeded = 7,
    ProducerBlockedQuotaException = 8,
    Checksum = 9,
    UnsupportedVersion = 10,
    TopicNotFound = 11,
    SubscriptionNotFound = 12,
    ConsumerNotFound = 13,
    TooManyRequests = 14,
    TopicTerminated = 15,
    /// A producer of this name is there already, on this connection or another.
    ProducerBusy = 16,
    InvalidTopicName = 17,
    IncompatibleSchema = 18,
    ConsumerAssign = 19,
    TransactionCoordinatorNotFound = 20,
    InvalidTxnStatus = 21,
    NotAllowed = 22,
    TransactionConflict = 23,
    TransactionNotFound = 24,
    ProducerFenced = 25,
}

impl ServerError {
    /// The error of this number on the wire.
    pub fn of(number: i32) -> ServerError {
        ServerError::try_from(number).unwrap_or(ServerError::Unknown)
    }
}

/// The protocol's name for it, as logs of brokers have it.
impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
