//! The head of an answer, read where it came, if the end of its body is known by it.

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::{Response, StatusCode};
use httparse::Status;
use hyper::ext::ReasonPhrase;
use std::mem::{self, MaybeUninit};

/// Whoever says more than this is left to who knows what to think of that.
const MOST_HEADERS: usize = 64;

/// hyper knows no longer body.
const LONGEST_BODY: u64 = u64::MAX - 2;

/// Room for what is added by those who pass an answer on.
const MORE_HEADERS: usize = 2;

/// What came, as the head of an answer.
#[allow(clippy::large_enum_variant, reason = "it is handed on once, and a box would cost more")]
#[derive(Debug)]
pub(super) enum Head {
    /// It is plain: its body has so many bytes, some of which may have come behind it. Nothing is left in front of them.
    Plain(Response<()>, u64, Bytes),
    /// There is more of it to come.
    Partial,
    /// It is something else, or none at all.
    Other,
}

/// Takes a plain head off what came, with all that is behind it; otherwise that is left as it is.
pub(super) fn read(came: &mut BytesMut, is_head: bool) -> Head {
    // What the answer says are parts of this, and not copies.
    let all = came.split().freeze();
    let mut headers = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let head = match config.parse_response_with_uninit_headers(&mut parsed, &all, &mut headers) {
        Ok(Status::Complete(length)) => match response(&parsed, &all, is_head) {
            Some((response, size)) => return Head::Plain(response, size, all.slice(length..)),
            None => Head::Other,
        },
        Ok(Status::Partial) => Head::Partial,
        Err(_) => Head::Other,
    };
    // Nobody else has it then, and it need not be copied.
    drop(mem::take(came));
    *came = BytesMut::from(all);
    head
}

/// The answer with this head, and how long its body is, if that is known and the connection stays.
fn response(parsed: &httparse::Response<'_, '_>, all: &Bytes, is_head: bool) -> Option<(Response<()>, u64)> {
    let status = StatusCode::from_u16(parsed.code?).ok().filter(|status| !status.is_informational())?;
    // Whether a server that has waited for too long closes is to be looked for, and only the full way does.
    if parsed.version != Some(1) || status == StatusCode::REQUEST_TIMEOUT {
        return None;
    }
    let (mut headers, mut length) = (HeaderMap::with_capacity(parsed.headers.len() + MORE_HEADERS), None);
    for header in &*parsed.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        if name == CONTENT_LENGTH {
            if length.replace(number(header.value).filter(|length| *length <= LONGEST_BODY)?).is_some() {
                return None;
            }
        } else if name == TRANSFER_ENCODING || name == CONNECTION && !header.value.eq_ignore_ascii_case(b"keep-alive") {
            return None;
        }
        headers.append(name, HeaderValue::from_maybe_shared(all.slice_ref(header.value)).ok()?);
    }
    let has_none = is_head || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let length = if has_none { 0 } else { length? };
    let mut response = Response::new(());
    if parsed.reason != status.canonical_reason() {
        response.extensions_mut().insert(ReasonPhrase::try_from(parsed.reason?.as_bytes()).ok()?);
    }
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Some((response, length))
}

/// A length, as it is to be written.
fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    digits.iter().filter(|_| is_number).try_fold(None, |number: Option<u64>, digit| {
        let number = number.unwrap_or_default().checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        Some(Some(number))
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was read of it: status, reason, headers, length of the body, what came of that; and what is left.
    fn reads(came: &str, is_head: bool) -> (Option<String>, String) {
        let mut buffer = BytesMut::from(came);
        let told = match read(&mut buffer, is_head) {
            Head::Plain(response, length, rest) => {
                let of = |(name, value): (&HeaderName, &HeaderValue)| format!(" {name}={}", value.to_str().unwrap());
                let headers: String = response.headers().iter().map(of).collect();
                let reason = response.extensions().get::<ReasonPhrase>().map(|reason| reason.as_bytes().to_vec());
                let reason = String::from_utf8(reason.unwrap_or_default()).unwrap();
                let rest = String::from_utf8(rest.to_vec()).unwrap();
                Some(format!("{}{reason}{headers} {length}:{rest}", response.status().as_u16()))
            }
            Head::Partial => Some("partial".into()),
            Head::Other => None,
        };
        (told, String::from_utf8(buffer.to_vec()).unwrap())
    }

    #[test]
    fn the_end_of_a_plain_answer_is_known() {
        let plain = |came: &str, is_head: bool, told: &str| {
            assert_eq!(reads(came, is_head), (Some(told.to_owned()), String::new()), "{came}");
        };
        plain("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", false, "200 content-length=5 5:hel");
        plain("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, "200 content-length=5 0:");
        plain("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-A:  1 \r\n\r\n", false, "200 content-length=0 x-a=1 0:");
        plain("HTTP/1.1 204 No Content\r\n\r\n", false, "204 0:");
        plain("HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", false, "304 content-length=7 0:");
        plain("HTTP/1.1 299 So So\r\nCONNECTION: Keep-Alive\r\n\r\n", true, "299So So connection=Keep-Alive 0:");
        plain("HTTP/1.1 503 \r\ncontent-length: 007\r\n\r\n1234567HTTP", false, "503 content-length=007 7:1234567HTTP");
    }

    #[test]
    fn what_is_not_there_yet_is_waited_for() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        for end in 0..head.len() {
            assert_eq!(reads(&head[..end], false), (Some("partial".to_owned()), head[..end].to_owned()));
        }
    }

    #[test]
    fn what_is_not_plain_stays_as_it_came() {
        let with = |lines: &str| format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\nrest");
        for came in [
            with("X-A: 1"),
            with("Content-Length: 1\r\nContent-Length: 1"),
            with("Content-Length: +1"),
            with("Content-Length: 1, 1"),
            with("Content-Length: "),
            with("Content-Length: 99999999999999999999"),
            with(&format!("Content-Length: {}", u64::MAX)),
            with("Transfer-Encoding: chunked"),
            with("Content-Length: 1\r\nTransfer-Encoding: chunked"),
            with("Content-Length: 1\r\nConnection: close"),
            with("Content-Length: 1\r\nConnection: keep-alive, x-own"),
            with("Content-Length: 1\r\n folded"),
            with(&format!("Content-Length: 1{}", "\r\nx: y".repeat(MOST_HEADERS))),
            "HTTP/1.1 100 Continue\r\n\r\n".into(),
            "HTTP/1.1 101 Switching Protocols\r\ncontent-length: 0\r\n\r\n".into(),
            "HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n".into(),
            "HTTP/1.1 099 Odd\r\ncontent-length: 0\r\n\r\n".into(),
            "HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n".into(),
            "HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n".into(),
            "SSH-2.0-OpenSSH\r\n".into(),
            "\x15\x03\x01".into(),
        ] {
            assert_eq!(reads(&came, false), (None, came.clone()));
        }
    }

    #[test]
    fn whatever_comes_is_taken_whole_or_left_whole() {
        let good = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\nConnection: keep-alive\r\n\r\nhello";
        let mut plain = 0;
        for (_case, mut random) in testkit::cases::cases(20_000) {
            let mut came = if random.chance(0.1) { testkit::cases::bytes(&mut random, 200) } else { good.to_vec() };
            for _ in 0..random.below(4) {
                let at = random.below(came.len() + 1).min(came.len().saturating_sub(1));
                match random.below(3) {
                    _ if came.is_empty() => came.push(random.bits() as u8),
                    0 => came[at] = random.bits() as u8,
                    1 => came.insert(at, random.bits() as u8),
                    _ => drop(came.remove(at)),
                }
            }
            let mut buffer = BytesMut::from(&came[..]);
            match read(&mut buffer, random.chance(0.2)) {
                Head::Plain(_, _, rest) => {
                    plain += 1;
                    assert!(buffer.is_empty() && came.ends_with(&rest), "{}", came.escape_ascii());
                    let head = &came[..came.len() - rest.len()];
                    assert!(head.ends_with(b"\n\r\n") || head.ends_with(b"\n\n"), "{}", head.escape_ascii());
                }
                Head::Partial | Head::Other => assert_eq!(buffer, came),
            }
        }
        assert!(plain > 1000 || !testkit::cases::usual(), "{plain}");
    }
}
