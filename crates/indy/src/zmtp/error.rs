//! What can be wrong with what a peer sends.

/// Why a conversation cannot go on. The connection is of no use after it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZmtpError {
    /// Something else listens there.
    #[error("the peer does not speak ZeroMQ")]
    NotZmtp,
    /// Its ZeroMQ is too old for CURVE.
    #[error("the peer speaks version {major} of ZeroMQ's protocol, and 3 is needed")]
    Version {
        /// The version.
        major: u8,
    },
    /// It does not encrypt, or in another way.
    #[error("the peer wants the mechanism {name:?} instead of CURVE")]
    Mechanism {
        /// What it wants.
        name: String,
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
    /// There is no channel yet for a message.
    #[error("the handshake is not over")]
    NotOpen,
}
