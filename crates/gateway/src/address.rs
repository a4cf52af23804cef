//! Addresses of WebSocket servers, checked before anybody is connected to.
//!
//! Whoever mistypes a port wants to hear of it, not to be connected to another one.
//!
//! ```
//! use carom_gateway::address::Address;
//!
//! let address: Address = "wss://gateway.internal/ws".parse()?;
//! assert_eq!((address.is_secure(), address.host(), address.port()), (true, "gateway.internal", 443));
//! assert!("ws://127.0.0.1:70001".parse::<Address>().is_err());
//! # Ok::<(), carom_gateway::address::AddressError>(())
//! ```

use std::fmt;
use std::str::FromStr;
use tokio_tungstenite::tungstenite::http::Uri;
use tokio_tungstenite::tungstenite::http::uri::InvalidUri;

/// Where a WebSocket server is: a `ws://` or `wss://` address, taken apart. There is no user in it, so that it can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    text: String,
    uri: Uri,
    secure: bool,
    host: String,
    port: u16,
}

/// Why a text is no such address. What was typed is shown, without what stands before an `@`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It is no address of anything.
    #[error("`{shown}` is no address")]
    #[non_exhaustive]
    Malformed {
        /// What was typed.
        shown: String,
        /// Why.
        source: InvalidUri,
    },
    /// It is the address of something else.
    #[error("`{shown}` begins with neither ws:// nor wss://")]
    #[non_exhaustive]
    Scheme {
        /// What was typed.
        shown: String,
    },
    /// It does not say on which machine.
    #[error("`{shown}` names no host")]
    #[non_exhaustive]
    NoHost {
        /// What was typed.
        shown: String,
    },
    /// It says who connects.
    #[error("`{shown}` has a user in it, which belongs elsewhere")]
    #[non_exhaustive]
    User {
        /// What was typed.
        shown: String,
    },
    /// What stands after the colon is no port.
    #[error("`{shown}` has no port from 1 to 65535 after the colon")]
    #[non_exhaustive]
    Port {
        /// What was typed.
        shown: String,
    },
}

impl Address {
    /// As requests are made with.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Whether it is spoken to with TLS.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// A name or an IP address, without the brackets of IPv6.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port: 80, or 443 with TLS, where none was typed.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let uri: Uri = text.parse().map_err(|source| AddressError::Malformed { shown: shown(text), source })?;
        let secure = match uri.scheme_str() {
            Some("ws") => false,
            Some("wss") => true,
            _ => return Err(AddressError::Scheme { shown: shown(text) }),
        };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err(AddressError::User { shown: shown(text) });
        }
        let host = uri.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if bare.is_empty() {
            return Err(AddressError::NoHost { shown: shown(text) });
        }
        let port = match authority.strip_prefix(host).unwrap_or_default().strip_prefix(':') {
            None => Some(if secure { 443 } else { 80 }),
            // A sign is a number's too, and not a port's.
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => port.parse().ok().filter(|&port| port > 0),
            Some(_) => None,
        };
        let Some(port) = port else { return Err(AddressError::Port { shown: shown(text) }) };
        Ok(Address { text: text.to_owned(), host: bare.to_owned(), secure, port, uri })
    }
}

/// As it was typed.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Fit to be shown: on one line, and without a password.
fn shown(text: &str) -> String {
    let public = match text.rfind('@') {
        Some(at) => format!("{}..{}", text.find("://").map_or("", |scheme| &text[..scheme + 3]), &text[at..]),
        None => text.to_owned(),
    };
    public.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        for (text, secure, host, port) in [
            ("ws://127.0.0.1:8765", false, "127.0.0.1", 8765),
            ("wss://gateway.internal/ws", true, "gateway.internal", 443),
            ("ws://[::1]:99/", false, "::1", 99),
            ("ws://[::1]", false, "::1", 80),
            ("ws://gateway", false, "gateway", 80),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.is_secure(), address.host(), address.port()), (secure, host, port), "{text}");
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn what_is_none_is_refused_with_what_is_wrong() {
        for (text, problem) in [
            ("", "`` is no address"),
            ("ws://", "is no address"),
            ("ws://a b", "is no address"),
            ("ws://a\n", "`ws://a\\n` is no address"),
            ("http://a", "begins with neither"),
            ("127.0.0.1:8765", "begins with neither"),
            ("ws://:80", "names no host"),
            ("ws://a:", "after the colon"),
            ("ws://a:0", "after the colon"),
            ("ws://a:+80", "after the colon"),
            ("ws://a:70001", "`ws://a:70001` has no port from 1 to 65535"),
            ("ws://[::1]:70001", "after the colon"),
        ] {
            let error = text.parse::<Address>().map(|address| address.to_string()).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        for text in ["ws://me:sesame@a", "ws://me:sesame@", "ws://me:ses@me@a b", "me:sesame@a", "http://me:sesame@a"] {
            let error = text.parse::<Address>().unwrap_err();
            let all = format!("{error} {error:?}");
            assert!(!all.contains("sesame") && !all.contains("ses@"), "{all}");
        }
        let error = "ws://me:sesame@a".parse::<Address>().unwrap_err();
        assert_eq!(error.to_string(), "`ws://..@a` has a user in it, which belongs elsewhere");
    }
}
