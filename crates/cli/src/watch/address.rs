//! Where a gateway is: the parts of a ws:// or wss:// address.

use tokio_tungstenite::tungstenite::http::Uri;

/// An address, taken apart.
#[derive(Clone, Debug)]
pub(super) struct Address {
    /// As it was typed.
    pub(super) url: String,
    pub(super) uri: Uri,
    pub(super) secure: bool,
    /// Without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Address, String> {
        let shown = url.escape_debug();
        let uri: Uri = url.parse().map_err(|error| format!("`{shown}` is no address: {error}"))?;
        let secure = match uri.scheme_str() {
            Some("ws") => false,
            Some("wss") => true,
            _ => return Err(format!("`{shown}` begins with neither ws:// nor wss://")),
        };
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| format!("`{shown}` names no host"))?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(format!("`{shown}` has a user in it, and gateways want a key"));
        }
        let typed = uri.authority().and_then(|authority| authority.as_str().strip_prefix(host)).unwrap_or_default();
        if !typed.is_empty() && uri.port_u16().is_none() {
            return Err(format!("`{shown}` has no port after the colon"));
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        Ok(Address { url: url.to_owned(), secure, host, port, uri })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        for (url, secure, host, port) in [
            ("ws://127.0.0.1:8765", false, "127.0.0.1", 8765),
            ("wss://gateway.internal/ws", true, "gateway.internal", 443),
            ("ws://[::1]:99/", false, "::1", 99),
            ("ws://gateway", false, "gateway", 80),
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!((address.secure, &*address.host, address.port), (secure, host, port), "{url}");
        }
        for url in ["", "http://a", "127.0.0.1:8765", "ws://", "ws://a:70000", "ws://a:", "ws://me@a", "ws://a b"] {
            assert!(Address::parse(url).is_err(), "{url}");
        }
    }
}
