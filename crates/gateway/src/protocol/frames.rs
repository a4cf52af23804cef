//! Messages of a bus as OpenAlgo's programs send them to each other with ZeroMQ: two frames, the topic and what it says.
//!
//! ```
//! use carom_gateway::protocol::frames;
//!
//! let frames = ["NSE_SBIN_LTP", r#"{"ltp":812.05}"#].map(bytes::Bytes::from);
//! assert_eq!(frames::read(&frames), Ok(("NSE_SBIN_LTP", &br#"{"ltp":812.05}"#[..])));
//! ```

use bytes::Bytes;

/// Most bytes of a topic. Exchanges and symbols are far shorter.
pub const LONGEST_TOPIC: usize = 256;

/// Why frames are no message of a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramesError {
    /// A topic and a payload are two.
    #[error("a message has {frames} frames instead of 2")]
    Frames {
        /// How many there are.
        frames: usize,
    },
    /// The topic is too long.
    #[error("a topic has {bytes} bytes, and {LONGEST_TOPIC} is the limit")]
    Long {
        /// How long it is.
        bytes: usize,
    },
    /// The topic is no text.
    #[error("a topic is not UTF-8")]
    Text,
}

/// The topic, and what it says, which is not looked into.
///
/// # Errors
/// When it is no message of a bus.
pub fn read(frames: &[Bytes]) -> Result<(&str, &[u8]), FramesError> {
    let [topic, payload] = frames else { return Err(FramesError::Frames { frames: frames.len() }) };
    if topic.len() > LONGEST_TOPIC {
        return Err(FramesError::Long { bytes: topic.len() });
    }
    let topic = str::from_utf8(topic).map_err(|_| FramesError::Text)?;
    Ok((topic, payload))
}
