//! What is said between two ends of one connection alone, and is taken out before a message goes on (RFC 9110, 7.6.1).

use http::Version;
use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, Entry, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRANSFER_ENCODING,
    UPGRADE, VIA,
};

static KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
static PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
static HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// What was taken out that may be said again on the next connection.
#[derive(Debug, Default)]
pub(super) struct TakenOut {
    /// What to speak from now on, if both agree.
    pub(super) upgrade: Option<HeaderValue>,
    /// Trailers are welcome.
    trailers: bool,
    /// How the body was sent, if that was said.
    pub(super) coding: Option<Coding>,
}

/// How a body is sent whose length is not known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// In pieces, which have been put together again.
    Chunked,
    /// In some other way as well, which nobody undoes here.
    Other,
}

/// Takes out what is meant for this connection alone.
pub(super) fn take_out(headers: &mut HeaderMap) -> TakenOut {
    let mut taken = TakenOut::default();
    // Most messages have nothing of all this, and looking through them once is cheaper than asking for each.
    if !headers.keys().any(is_hop_by_hop) {
        return taken;
    }
    // Before the options of `Connection` are removed: `Connection: transfer-encoding` must not hide a coding.
    taken.coding = match &*take_all(headers, &TRANSFER_ENCODING) {
        [] => None,
        [coding] if coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") => Some(Coding::Chunked),
        _ => Some(Coding::Other),
    };
    if taken.coding.is_some() {
        // The pieces go before it (RFC 9112, 6.3), and whoever comes next would only hear of the length.
        headers.remove(CONTENT_LENGTH);
    }
    let mut upgrades = false;
    for value in take_all(headers, &CONNECTION) {
        for option in tokens(&value) {
            if option.eq_ignore_ascii_case(b"upgrade") {
                upgrades = true;
            } else if let Ok(name) = HeaderName::from_bytes(option)
                && !is_for_everybody(&name)
            {
                headers.remove(name);
            }
        }
    }
    taken.trailers = take_all(headers, &TE).iter().any(|value| tokens(value).any(is_trailers));
    let mut protocols = take_all(headers, &UPGRADE).into_iter();
    taken.upgrade = match (protocols.next(), protocols.next()) {
        // HTTP/2 is between two ends alone: whoever wants it here begins with it.
        (Some(protocol), None) if upgrades && !tokens(&protocol).any(|token| token.eq_ignore_ascii_case(b"h2c")) => {
            Some(protocol)
        }
        _ => None,
    };
    // Of what is expected: the client is told to go on as soon as a backend takes what it sends, and there is nothing to wait for
    // beyond that.
    for name in [&KEEP_ALIVE, &PROXY_CONNECTION, &HTTP2_SETTINGS, &EXPECT] {
        headers.remove(name);
    }
    taken
}

/// Says in a request that its body comes in pieces: without a length or this, some methods are taken to have none.
pub(super) fn announce_pieces(headers: &mut HeaderMap) {
    headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
}

/// Says again in a request what a backend is to know as well.
pub(super) fn say_again(headers: &mut HeaderMap, taken: &TakenOut) {
    if taken.trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    let options = match (&taken.upgrade, taken.trailers) {
        (Some(_), true) => "upgrade, te",
        (Some(_), false) => "upgrade",
        (None, true) => "te",
        (None, false) => return,
    };
    headers.insert(CONNECTION, HeaderValue::from_static(options));
    if let Some(protocol) = &taken.upgrade {
        headers.insert(UPGRADE, protocol.clone());
    }
}

/// Notes that a message of this version came through here.
pub(super) fn note_passage(headers: &mut HeaderMap, version: Version) {
    let via = match version {
        Version::HTTP_10 => "1.0 carom",
        Version::HTTP_2 => "2 carom",
        _ => "1.1 carom",
    };
    headers.append(VIA, HeaderValue::from_static(via));
}

/// HTTP/2 may cut cookies into several lines; HTTP/1 has one.
pub(super) fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let cookies = take_all(headers, &COOKIE);
    let joined = cookies.iter().map(HeaderValue::as_bytes).collect::<Vec<_>>().join(&b"; "[..]);
    // Each of them is a value, and so is what is between them.
    if let Ok(joined) = HeaderValue::from_bytes(&joined) {
        headers.insert(COOKIE, joined);
    }
}

/// By its text: that is compared by length first, and this is asked of every header there is.
fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "transfer-encoding"
            | "upgrade"
            | "te"
            | "keep-alive"
            | "proxy-connection"
            | "http2-settings"
            | "expect"
    )
}

/// What somebody may call its own connection's, and is everybody's: without it the message is another one.
fn is_for_everybody(name: &HeaderName) -> bool {
    [&HOST, &CONTENT_LENGTH, &TE].contains(&name)
}

fn is_trailers(coding: &[u8]) -> bool {
    coding.eq_ignore_ascii_case(b"trailers")
}

fn take_all(headers: &mut HeaderMap, name: &HeaderName) -> Vec<HeaderValue> {
    match headers.entry(name) {
        Entry::Occupied(entry) => entry.remove_entry_mult().1.collect(),
        Entry::Vacant(_) => Vec::new(),
    }
}

fn tokens(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        headers
    }

    fn left(lines: &[(&str, &str)]) -> (Vec<String>, TakenOut) {
        let mut headers = headers(lines);
        let taken = take_out(&mut headers);
        let mut left: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        left.sort();
        (left, taken)
    }

    #[test]
    fn what_connections_have_to_themselves_stays_there() {
        let (left, taken) = left(&[
            ("Host", "a.test"),
            ("Connection", "keep-alive, X-Own ,"),
            ("Connection", "x-other"),
            ("X-Own", "1"),
            ("X-Own", "2"),
            ("X-Other", "3"),
            ("X-Kept", "4"),
            ("Keep-Alive", "timeout=5"),
            ("Proxy-Connection", "keep-alive"),
            ("Transfer-Encoding", "chunked"),
            ("TE", "gzip;q=0.5"),
            ("Upgrade", "websocket"),
            ("Trailer", "x-sum"),
        ]);
        assert_eq!(left, ["host: a.test", "trailer: x-sum", "x-kept: 4"]);
        assert!(taken.upgrade.is_none(), "`Connection` does not say so");
        assert!(!taken.trailers);
    }

    #[test]
    fn what_is_everybodys_cannot_be_taken_out() {
        let (left, _) = left(&[("Connection", "Host, Content-Length"), ("Host", "a.test"), ("Content-Length", "3")]);
        assert_eq!(left, ["content-length: 3", "host: a.test"]);
    }

    #[test]
    fn pieces_go_before_a_length() {
        let both = [("Content-Length", "5"), ("Transfer-Encoding", "Chunked"), ("X-A", "1")];
        let (rest, taken) = left(&both);
        assert_eq!((rest, taken.coding), (vec!["x-a: 1".to_owned()], Some(Coding::Chunked)));
        for coding in ["gzip, chunked", "gzip", "chunked, chunked"] {
            assert_eq!(left(&[("Transfer-Encoding", coding)]).1.coding, Some(Coding::Other), "{coding}");
        }
        let twice = [("Transfer-Encoding", "gzip"), ("Transfer-Encoding", "chunked")];
        assert_eq!(left(&twice).1.coding, Some(Coding::Other));
        assert_eq!(left(&[("Content-Length", "5")]).1.coding, None);
    }

    #[test]
    fn a_coding_that_connection_names_is_found() {
        for (coding, found) in [("gzip, chunked", Coding::Other), ("chunked", Coding::Chunked)] {
            let named = [
                ("Connection", "Transfer-Encoding"),
                ("Transfer-Encoding", coding),
                ("Content-Length", "5"),
                ("X-A", "1"),
            ];
            let (rest, taken) = left(&named);
            assert_eq!((rest, taken.coding), (vec!["x-a: 1".to_owned()], Some(found)), "{coding}");
        }
    }

    #[test]
    fn upgrades_and_trailers_are_said_again() {
        let lines = [("Connection", "Upgrade, TE"), ("Upgrade", "websocket"), ("TE", "trailers, gzip"), ("X-A", "1")];
        let mut headers = headers(&lines);
        let taken = take_out(&mut headers);
        assert_eq!(headers.len(), 1);
        say_again(&mut headers, &taken);
        assert_eq!(headers[CONNECTION], "upgrade, te");
        assert_eq!(headers[UPGRADE], "websocket");
        assert_eq!(headers[TE], "trailers");
    }

    #[test]
    fn nobody_gets_to_http2_by_upgrading() {
        let lines = [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABk")];
        let (left, taken) = left(&lines);
        assert!(left.is_empty() && taken.upgrade.is_none());
    }

    #[test]
    fn cookies_are_one_line() {
        let mut headers = headers(&[("cookie", "a=1"), ("cookie", "b=2")]);
        join_cookies(&mut headers);
        assert_eq!(headers.get_all(COOKIE).iter().collect::<Vec<_>>(), ["a=1; b=2"]);
    }
}
