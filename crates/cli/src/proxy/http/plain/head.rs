//! A request's head, read where it came, if there is nothing to it but that.

use super::super::visit::LONGEST_HEAD;
use bytes::{Bytes, BytesMut};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri};
use http_body_util::Empty;
use httparse::Status;
use std::mem::MaybeUninit;

/// How long the end of a head is at most: that of its last line, and an empty line.
const LONGEST_END: usize = b"\n\r\n".len();

/// Whoever says more than this is left to who knows what to say to that.
const MOST_HEADERS: usize = 64;

/// What says that there is more to a request than its head, or something that is between two ends alone.
const NOT_PLAIN: [&str; 8] = [
    "content-length",
    "transfer-encoding",
    "upgrade",
    "expect",
    "te",
    "keep-alive",
    "proxy-connection",
    "http2-settings",
];

/// What came, as a head.
#[allow(clippy::large_enum_variant, reason = "it is handed on once, and a box would cost more")]
#[derive(Debug)]
pub(super) enum Head {
    /// It is no more than that, and has been taken off.
    Plain(Request<Empty<Bytes>>),
    /// There is more of it to come.
    Partial,
    /// There is more to it, or it is none.
    Other,
}

/// Takes the first head off what came, if it is plain; otherwise that is left as it is. Of so much of it is `known` that it is a
/// part of a head: that is not read again before an end has come, however many pieces it comes in.
pub(super) fn read(came: &mut BytesMut, known: usize) -> Head {
    if came.is_empty() || (known > 0 && !has_end(&came[known.saturating_sub(LONGEST_END - 1)..])) {
        return Head::Partial;
    }
    // What the request says are parts of this, and not copies.
    let all = came.split().freeze();
    let mut headers = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut []);
    let head = match parsed.parse_with_uninit_headers(&all, &mut headers) {
        Ok(Status::Complete(length)) if length > LONGEST_HEAD => Head::Other,
        Ok(Status::Complete(length)) => match request(&parsed, &all) {
            Some(request) => {
                // Of most clients nothing comes before they are answered.
                came.extend_from_slice(&all[length..]);
                return Head::Plain(request);
            }
            None => Head::Other,
        },
        Ok(Status::Partial) => Head::Partial,
        Err(_) => Head::Other,
    };
    *came = BytesMut::from(all);
    head
}

/// Whether there is a line's end and an empty line in it. Lines may end without the return.
fn has_end(text: &[u8]) -> bool {
    let is_followed = |rest: &[u8]| rest.starts_with(b"\n") || rest.starts_with(b"\r\n");
    text.iter().enumerate().any(|(at, byte)| *byte == b'\n' && is_followed(&text[at + 1..]))
}

/// The request with this head, if that is all there is to it.
fn request(parsed: &httparse::Request<'_, '_>, all: &Bytes) -> Option<Request<Empty<Bytes>>> {
    let method = Method::from_bytes(parsed.method?.as_bytes()).ok().filter(|method| *method != Method::CONNECT)?;
    if parsed.version != Some(1) {
        return None;
    }
    let mut headers = HeaderMap::with_capacity(parsed.headers.len() + 1);
    for header in &*parsed.headers {
        if header.name.eq_ignore_ascii_case("connection") {
            // That is so anyway.
            if header.value.eq_ignore_ascii_case(b"keep-alive") {
                continue;
            }
            return None;
        }
        if NOT_PLAIN.iter().any(|name| header.name.eq_ignore_ascii_case(name)) {
            return None;
        }
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_maybe_shared(all.slice_ref(header.value)).ok()?);
    }
    let mut request = Request::new(Empty::new());
    *request.method_mut() = method;
    *request.uri_mut() = Uri::from_maybe_shared(all.slice_ref(parsed.path?.as_bytes())).ok()?;
    *request.headers_mut() = headers;
    Some(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was read of it, and what is left.
    fn reads(came: &str) -> (Option<String>, String) {
        let mut buffer = BytesMut::from(came);
        let told = match read(&mut buffer, 0) {
            Head::Plain(request) => {
                let of = |(name, value): (&HeaderName, &HeaderValue)| format!(" {name}={}", value.to_str().unwrap());
                let headers: String = request.headers().iter().map(of).collect();
                Some(format!("{} {}{headers}", request.method(), request.uri()))
            }
            Head::Partial => Some("partial".into()),
            Head::Other => None,
        };
        (told, String::from_utf8(buffer.to_vec()).unwrap())
    }

    #[test]
    fn heads_are_taken_off_one_after_the_other() {
        let first = "GET /a?b HTTP/1.1\r\nHost: a.test\r\nX-A:  1 \r\nX-A: 2\r\n\r\n";
        let plain = Some("GET /a?b host=a.test x-a=1 x-a=2".to_owned());
        assert_eq!(reads(first), (plain.clone(), String::new()));
        let second = "DELETE http://a.test/ HTTP/1.1\r\nCONNECTION: Keep-Alive\r\n\r\n";
        assert_eq!(reads(&format!("{first}{second}")), (plain, second.to_owned()));
        assert_eq!(reads(second), (Some("DELETE http://a.test/".to_owned()), String::new()));
    }

    #[test]
    fn what_is_not_there_yet_is_waited_for() {
        let head = "\r\nHEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n";
        for end in 0..head.len() {
            assert_eq!(reads(&head[..end]), (Some("partial".to_owned()), head[..end].to_owned()));
        }
        assert_eq!(reads(head).0.as_deref(), Some("HEAD / host=a.test"));
    }

    #[test]
    fn a_head_is_found_whatever_pieces_it_comes_in() {
        for end in ["\r\n", "\n"] {
            let head = format!("{end}GET / HTTP/1.1{end}Host: a.test{end}X-A: 1{end}{end}");
            for step in 1..head.len() {
                let (mut buffer, mut known, mut found) = (BytesMut::new(), 0, None);
                for piece in head.as_bytes().chunks(step) {
                    buffer.extend_from_slice(piece);
                    match read(&mut buffer, known) {
                        Head::Plain(request) => found = Some((request.headers().len(), buffer.len())),
                        Head::Partial => known = buffer.len(),
                        Head::Other => panic!("{buffer:?}"),
                    }
                }
                assert_eq!(found, Some((2, 0)), "in pieces of {step}");
            }
        }
    }

    #[test]
    fn a_part_of_a_head_is_not_read_again() {
        let mut buffer = BytesMut::from("GET / HTTP/1.1\r\nHost: a.test\r\nthis is none\r");
        assert!(matches!(read(&mut buffer, 31), Head::Partial), "it is left unread until its end has come");
        buffer.extend_from_slice(b"\n\r\n");
        assert!(matches!(read(&mut buffer, 45), Head::Other));
    }

    #[test]
    fn a_head_that_is_too_long_is_for_others() {
        let mut buffer = BytesMut::from("GET / HTTP/1.1\r\nHost: a.test\r\nX-A: ");
        buffer.resize(LONGEST_HEAD, b'a');
        buffer.extend_from_slice(b"\r\n\r\n");
        assert!(matches!(read(&mut buffer, 0), Head::Other));
        assert_eq!(buffer.len(), LONGEST_HEAD + 4);
    }

    #[test]
    fn what_is_not_plain_stays_as_it_came() {
        let with = |line: &str| format!("GET / HTTP/1.1\r\nHost: a.test\r\n{line}\r\n\r\n");
        let lines = NOT_PLAIN.map(|name| with(&format!("{}: 0", name.to_ascii_uppercase())));
        let others = [
            with("Connection: close"),
            with("Connection: keep-alive, x-own"),
            with(" folded"),
            with("no header"),
            with(&"x: y\r\n".repeat(MOST_HEADERS)),
            "GET / HTTP/1.0\r\n\r\n".into(),
            "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n".into(),
            "GET a b HTTP/1.1\r\n\r\n".into(),
            "\x16\x03\x01".into(),
        ];
        for came in lines.into_iter().chain(others) {
            assert_eq!(reads(&came), (None, came.clone()));
        }
    }
}
