//! What can be wrong with what a peer sends, and with the connection to it.

use std::io;
use std::net::SocketAddr;

/// Why a conversation cannot go on. The connection is of no use after it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZmtpError {
    /// Something else listens there.
    #[error("the peer does not speak ZeroMQ")]
    NotZmtp,
    /// Its ZeroMQ is too old.
    #[error("the peer speaks version {major} of ZeroMQ's protocol, and 3 is needed")]
    Version {
        /// The version.
        major: u8,
    },
    /// It encrypts, or does not, or does so in another way.
    #[error("the peer wants the mechanism {name:?} instead of {wanted}")]
    Mechanism {
        /// What it wants.
        name: String,
        /// What is wanted here.
        wanted: &'static str,
    },
    /// Flags of a frame that do not exist.
    #[error("a frame with unknown flags {flags:#04x}")]
    Flags {
        /// The flags.
        flags: u8,
    },
    /// A frame or message is larger than agreed.
    #[error("{size} bytes are announced or given, and {limit} is the limit")]
    TooLarge {
        /// Its size.
        size: u64,
        /// What is allowed.
        limit: usize,
    },
    /// What came in the handshake is no command, or a part of one.
    #[error("a frame that is no command came when {due} was due")]
    NoCommand {
        /// The command that was due.
        due: &'static str,
    },
    /// The handshake has another order.
    #[error("something else came when {due} was due")]
    Unexpected {
        /// The command that was due.
        due: &'static str,
    },
    /// A command has not the form that it should have.
    #[error("{command} is malformed")]
    Malformed {
        /// The command.
        command: &'static str,
    },
    /// It was not made by who has the keys that it should be made with, or was changed on the way.
    #[error("{command} cannot be decrypted: it is for other keys, or damaged")]
    Sealed {
        /// The command.
        command: &'static str,
    },
    /// A command came twice, or out of order.
    #[error("a command came again: its number is {number} after {last}")]
    Replayed {
        /// The number of the command.
        number: u64,
        /// The last one before it.
        last: u64,
    },
    /// The peer says why it does not want to talk.
    #[error("the peer refuses: {reason}")]
    Refused {
        /// The reason.
        reason: String,
    },
    /// The peer is a socket of a kind that does not go with ours.
    #[error("the peer is a socket of type {found:?}")]
    SocketType {
        /// Its type.
        found: String,
    },
    /// A subscriber wants more than it may.
    #[error("the peer subscribes to more than {limit} prefixes")]
    TooManyPrefixes {
        /// What is allowed.
        limit: usize,
    },
    /// There is no channel yet for a message.
    #[error("the handshake is not over")]
    NotOpen,
}

/// Why a socket is of no use, or does not come to be.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// There is no connection to be had.
    #[error("cannot connect to {address}")]
    Connect {
        /// Where to.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The system has no randomness, and there are no keys without it.
    #[error("no keys can be made")]
    Keys(#[source] io::Error),
    /// The connection broke.
    #[error("the connection broke")]
    Io(#[from] io::Error),
    /// The peer said something that it must not say.
    #[error(transparent)]
    Protocol(#[from] ZmtpError),
    /// The peer left before the handshake was over, as it does when it cannot make sense of what is said to it.
    #[error("the peer closed the connection when {due} was due, as it does when it expects another key or mechanism")]
    ClosedInHandshake {
        /// What should have come.
        due: &'static str,
    },
    /// The peer closed the connection.
    #[error("the peer closed the connection")]
    Closed,
}
