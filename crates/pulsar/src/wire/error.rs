//! What can be wrong with bytes that should be a frame.

/// What is wrong with bytes that should be a frame, or with a frame that should become bytes. After any of these the place in
/// the stream is not known any more: the connection is to be closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// It is larger than both sides have agreed on.
    #[error("a frame of {size} bytes is larger than the limit of {limit}")]
    #[non_exhaustive]
    TooLarge {
        /// How large it is, or says it is.
        size: usize,
        /// The most there may be.
        limit: usize,
    },
    /// One of its parts would reach beyond its end.
    #[error("a frame ends within its {part}: {wanted} bytes are announced, {left} are left")]
    #[non_exhaustive]
    Short {
        /// Which part.
        part: &'static str,
        /// The size announced.
        wanted: usize,
        /// What is left.
        left: usize,
    },
    /// A batch that says that it holds no messages, or fewer than none.
    #[error("a batch of {count} messages")]
    #[non_exhaustive]
    EmptyBatch {
        /// How many it says it holds.
        count: i32,
    },
    /// The checksum does not fit what it covers.
    #[error("checksum mismatch: announced {announced:#010x}, computed {computed:#010x}")]
    #[non_exhaustive]
    Checksum {
        /// What the frame says.
        announced: u32,
        /// What it is.
        computed: u32,
    },
    /// A part is not well-formed protobuf.
    #[error("{part} is malformed")]
    #[non_exhaustive]
    Malformed {
        /// Which part.
        part: &'static str,
        /// What is wrong with it.
        source: prost::DecodeError,
    },
    /// The command is not of the type that it says.
    #[error("a command says that it is of type {declared}, but is of type {found}")]
    #[non_exhaustive]
    Mismatched {
        /// What it says.
        declared: i32,
        /// What it is.
        found: i32,
    },
    /// A command that has a message behind it has none.
    #[error("a command of type {kind} has no message behind it")]
    #[non_exhaustive]
    NoMessage {
        /// Which command.
        kind: i32,
    },
    /// A command that has nothing behind it has something.
    #[error("{size} bytes stand behind a command of type {kind}")]
    #[non_exhaustive]
    Trailing {
        /// Which command.
        kind: i32,
        /// How much.
        size: usize,
    },
}
