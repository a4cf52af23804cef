//! OpenAlgo's client protocol: what clients ask for and what they are told, as bytes.
//!
//! Everything here is a function of its arguments: no sockets, no clock. [`parse`] makes a [`Request`] of a message, or a
//! [`Refusal`] that says what is wrong with it; [`reply`] has one function for each thing a client is told; [`market`] makes
//! messages of ticks; [`topic`] reads the names that ticks have on a bus, and [`frames`] what ZeroMQ carries them in.
//!
//! ```
//! use carom_gateway::protocol::{self, Request, reply};
//!
//! let asked = br#"{"action":"subscribe","symbols":[{"symbol":"SBIN","exchange":"NSE"}],"mode":"LTP","request_id":7}"#;
//! let Ok(Request::Subscribe { entries, mode, .. }) = protocol::parse(asked) else { panic!() };
//! assert_eq!((entries[0].as_ref().unwrap().symbol(), protocol::label(mode)), ("SBIN", "LTP"));
//!
//! let refusal = protocol::parse(b"{}").unwrap_err();
//! assert_eq!(reply::error(&refusal), r#"{"status":"error","code":"INVALID_ACTION","message":"Invalid action: None"}"#);
//! ```

mod entries;
mod fields;
pub mod frames;
pub(crate) mod json;
pub mod market;
mod parse;
mod refusal;
pub mod reply;
mod request;
pub mod topic;

pub use parse::parse;
pub use refusal::{Code, Refusal};
pub use request::{ApiKey, BadEntry, Echo, Leave, MAX_DEPTH, MAX_ECHO, MAX_EXCHANGE, MAX_SYMBOL, Request};

use carom_core::feed::Mode;

/// What clients call a mode, in requests and in replies to them; market data carries its number.
pub fn label(mode: Mode) -> &'static str {
    match mode {
        Mode::Ltp => "LTP",
        Mode::Quote => "Quote",
        Mode::Depth => "Depth",
    }
}

/// The mode of this label, whatever its case.
pub(crate) fn from_label(text: &str) -> Option<Mode> {
    Mode::ALL.into_iter().find(|mode| label(*mode).eq_ignore_ascii_case(text))
}
