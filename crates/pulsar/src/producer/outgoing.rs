//! A message on its way out.

use bytes::Bytes;

/// A message to be sent: a payload, and what goes with it. Made of anything that is bytes or text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outgoing {
    pub(crate) payload: Bytes,
    pub(crate) key: Option<String>,
    pub(crate) properties: Vec<(String, String)>,
    pub(crate) event_time: Option<u64>,
}

impl Outgoing {
    /// A message with this payload.
    pub fn new(payload: impl Into<Bytes>) -> Outgoing {
        Outgoing { payload: payload.into(), ..Outgoing::default() }
    }

    /// Its key: messages with the same key go to the same partition. Default: none, partitions take turns.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Outgoing {
        self.key = Some(key.into());
        self
    }

    /// One more property.
    #[must_use]
    pub fn property(mut self, key: impl Into<String>, value: impl Into<String>) -> Outgoing {
        self.properties.push((key.into(), value.into()));
        self
    }

    /// When it happened, in milliseconds since 1970. Default: not said.
    #[must_use]
    pub fn event_time(mut self, milliseconds: u64) -> Outgoing {
        self.event_time = Some(milliseconds);
        self
    }
}

macro_rules! made_of {
    ($($payload:ty),*) => {
        $(impl From<$payload> for Outgoing {
            fn from(payload: $payload) -> Outgoing {
                Outgoing::new(payload)
            }
        })*
    };
}

made_of!(Bytes, Vec<u8>, String, &'static str, &'static [u8]);

/// The partition of a key, of this many: as Pulsar's Java client has it, so that both put a key in the same place.
pub(super) fn partition_of(key: &str, partitions: usize) -> usize {
    let hash = key.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    (hash & i32::MAX) as usize % partitions.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_hashed_as_java_does() {
        // "key1".hashCode() is 3288498, "polygenelubricants".hashCode() is i32::MIN.
        assert_eq!(partition_of("key1", 7), 3_288_498 % 7);
        assert_eq!(partition_of("polygenelubricants", 5), 0);
    }
}
