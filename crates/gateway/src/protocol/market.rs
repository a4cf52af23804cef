//! Market data: a tick as a broker's adapter gave it, and the message that clients get of it.

use super::json::quote;
use carom_core::feed::{Instrument, Mode};
use std::borrow::Cow;

/// A payload that is no JSON: it cannot be sent to anybody.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// Its bytes are no text.
    #[error("payload is not UTF-8")]
    Utf8(#[from] std::str::Utf8Error),
    /// Its text is not JSON.
    #[error("payload is not JSON")]
    Json(#[from] serde_json::Error),
}

/// A payload that was read: once for each tick, however many messages are made of it.
#[derive(Clone, Debug)]
pub struct Market<'a> {
    text: Cow<'a, str>,
}

impl<'a> Market<'a> {
    /// Reads it.
    ///
    /// # Errors
    /// If it is no JSON.
    pub fn read(payload: &'a [u8]) -> Result<Market<'a>, PayloadError> {
        let text = std::str::from_utf8(payload)?;
        serde_json::from_str::<serde::de::IgnoredAny>(text)?;
        Ok(Market { text: text.into() })
    }

    /// The message for those who have the instrument at this mode. A snapshot is the last known tick, sent on subscribing.
    pub fn message(&self, instrument: &Instrument, mode: Mode, broker: &str, snapshot: bool) -> String {
        let mut out = String::with_capacity(self.text.len() + 512);
        out.push_str(r#"{"type":"market_data","symbol":"#);
        quote(&mut out, instrument.symbol());
        out.push_str(r#","exchange":"#);
        quote(&mut out, instrument.exchange());
        out.push_str(r#","mode":"#);
        out.push(char::from(b'0' + mode.number()));
        out.push_str(r#","data":"#);
        out.push_str(&self.text);
        out.push_str(r#","broker":"#);
        quote(&mut out, broker);
        out.push_str(if snapshot { r#","snapshot":true}"# } else { "}" });
        out
    }
}
