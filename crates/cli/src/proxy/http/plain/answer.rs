//! An answer as it is written: its head, and how the end of its body is found.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, DATE, TRAILER, TRANSFER_ENCODING};
use http::{StatusCode, response};
use http_body::Body;
use hyper::ext::ReasonPhrase;
use std::cell::RefCell;
use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// More room than this is not kept for the next answer.
const ROOM: usize = 32 << 10;

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is none.
    None,
    /// By its length; so much of it is to come.
    Length(u64),
    /// It comes in pieces, the last of which is empty.
    Pieces,
}

impl Framing {
    pub(super) fn is_none(self) -> bool {
        self == Framing::None
    }

    /// So much of the body is said next.
    ///
    /// # Errors
    /// When there is more of it than was promised: the client would take that for the next answer.
    pub(super) fn pass(&mut self, length: usize) -> io::Result<()> {
        if let Framing::Length(left) = self {
            *left = left.checked_sub(length as u64).ok_or(io::ErrorKind::InvalidData)?;
        }
        Ok(())
    }

    /// There is no more.
    ///
    /// # Errors
    /// When more of it was promised: the client would take the next answer for the rest of this.
    pub(super) fn is_met(self) -> io::Result<()> {
        match self {
            Framing::None | Framing::Pieces | Framing::Length(0) => Ok(()),
            Framing::Length(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// What is to be said to a client next.
#[derive(Debug, Default)]
pub(super) struct Line(Vec<u8>);

impl Line {
    /// The head of an answer, to a request for no more than that or for all of it. How its body is to be said.
    pub(super) fn begin(&mut self, head: &response::Parts, body: &impl Body, is_head: bool) -> Framing {
        let has_none = matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let length = body.size_hint().exact();
        let framing = match length {
            _ if has_none || is_head => Framing::None,
            Some(length) => Framing::Length(length),
            None => Framing::Pieces,
        };
        self.put(b"HTTP/1.1 ").put(head.status.as_str().as_bytes()).put(b" ");
        match head.extensions.get::<ReasonPhrase>() {
            Some(reason) => self.put(reason.as_bytes()),
            None => self.put(head.status.canonical_reason().unwrap_or("<none>").as_bytes()),
        };
        self.put(b"\r\n");
        // Of an answer without its body it says how long that would be.
        let keeps_length = is_head && !has_none;
        let (mut is_dated, mut tells_length) = (false, false);
        for (name, value) in &head.headers {
            let is_length = *name == CONTENT_LENGTH;
            if is_length && !keeps_length || *name == TRANSFER_ENCODING || framing.is_none() && *name == TRAILER {
                continue;
            }
            tells_length |= is_length;
            is_dated |= *name == DATE;
            self.put(name.as_str().as_bytes()).put(b": ").put(value.as_bytes()).put(b"\r\n");
        }
        match (framing, length) {
            (Framing::Length(length), _) => self.put_length(length),
            // Of what is made here. One of a backend is empty, whatever its length.
            (Framing::None, Some(length)) if keeps_length && !tells_length && length > 0 => self.put_length(length),
            (Framing::Pieces, _) => {
                self.put(b"transfer-encoding: chunked\r\n");
            }
            (Framing::None, _) => {}
        }
        if !is_dated {
            self.put(b"date: ");
            put_date(&mut self.0);
            self.put(b"\r\n");
        }
        self.put(b"\r\n");
        framing
    }

    /// A piece of the body, which is not empty: that would be its end.
    pub(super) fn say(&mut self, framing: Framing, piece: &Bytes) {
        self.announce(framing, piece.len());
        self.put(piece);
        self.conclude(framing);
    }

    /// That so much of the body comes next.
    pub(super) fn announce(&mut self, framing: Framing, length: usize) {
        if framing == Framing::Pieces {
            self.put_fmt(format_args!("{length:X}\r\n"));
        }
    }

    /// That a piece has come.
    pub(super) fn conclude(&mut self, framing: Framing) {
        if framing == Framing::Pieces {
            self.put(b"\r\n");
        }
    }

    /// That the body has ended.
    pub(super) fn end(&mut self, framing: Framing) {
        if framing == Framing::Pieces {
            self.put(b"0\r\n\r\n");
        }
    }

    pub(super) fn said(&self) -> &[u8] {
        &self.0
    }

    /// It was written.
    pub(super) fn clear(&mut self) {
        self.0.clear();
        if self.0.capacity() > ROOM {
            self.0.shrink_to(ROOM);
        }
    }

    fn put(&mut self, bytes: &[u8]) -> &mut Line {
        self.0.extend_from_slice(bytes);
        self
    }

    fn put_length(&mut self, mut length: u64) {
        let (mut digits, mut at) = ([0; 20], 20);
        // Without the machinery that puts anything into words: some 350 instructions of each answer were seen to go into that.
        loop {
            at -= 1;
            digits[at] = b'0' + (length % 10) as u8;
            length /= 10;
            if length == 0 {
                break;
            }
        }
        self.put(b"content-length: ").put(&digits[at..]).put(b"\r\n");
    }

    fn put_fmt(&mut self, text: std::fmt::Arguments<'_>) {
        // There is always room.
        let _ = self.0.write_fmt(text);
    }
}

/// The time, as it is told in answers that do not tell it. It is put into words once in a second.
fn put_date(line: &mut Vec<u8>) {
    thread_local! {
        static WRITTEN: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    WRITTEN.with_borrow_mut(|(second, text)| {
        if *second != now || text.is_empty() {
            (*second, *text) = (now, httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now)));
        }
        line.extend_from_slice(text.as_bytes());
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Response;
    use http_body::{Frame, SizeHint};
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    /// A body of this length, if it is known.
    struct Long(Option<u64>);

    impl Body for Long {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }

        fn size_hint(&self) -> SizeHint {
            self.0.map_or_else(SizeHint::default, SizeHint::with_exact)
        }
    }

    /// The head of an answer that a backend gave a length, and how its body is said.
    fn begin(line: &mut Line, status: u16, length: Option<u64>, is_head: bool) -> (String, Framing) {
        let response = Response::builder().status(status).header("date", "now").header("content-length", "1000");
        let framing = line.begin(&response.body(()).unwrap().into_parts().0, &Long(length), is_head);
        let said = String::from_utf8(line.said().to_vec()).unwrap();
        line.clear();
        (said, framing)
    }

    #[test]
    fn the_end_of_each_answer_can_be_found() {
        let mut line = Line::default();
        let with = |first: &str, last: &str| format!("HTTP/1.1 {first}\r\ndate: now\r\n{last}\r\n");
        let ok = |last: &str| with("200 OK", last);
        let mut begin = |status, length, is_head| begin(&mut line, status, length, is_head);
        assert_eq!(begin(200, Some(5), false), (ok("content-length: 5\r\n"), Framing::Length(5)));
        assert_eq!(begin(200, None, false), (ok("transfer-encoding: chunked\r\n"), Framing::Pieces));
        assert_eq!(begin(200, Some(0), true), (ok("content-length: 1000\r\n"), Framing::None));
        assert_eq!(begin(204, Some(0), false), (with("204 No Content", ""), Framing::None));
        assert_eq!(begin(304, Some(0), true), (with("304 Not Modified", ""), Framing::None));
        assert_eq!(begin(299, Some(0), false), (with("299 <none>", "content-length: 0\r\n"), Framing::Length(0)));
    }

    #[test]
    fn any_length_can_be_told() {
        let mut line = Line::default();
        for length in [0, 7, 10, 1234567890, u64::MAX] {
            line.put_length(length);
            assert_eq!(line.said(), format!("content-length: {length}\r\n").as_bytes());
            line.clear();
        }
    }

    #[test]
    fn what_is_refused_here_tells_its_length_without_its_body() {
        let mut line = Line::default();
        let refused = Response::builder().status(400).header("date", "now").body(()).unwrap().into_parts().0;
        assert_eq!(line.begin(&refused, &Long(Some(7)), true), Framing::None);
        assert_eq!(line.said(), b"HTTP/1.1 400 Bad Request\r\ndate: now\r\ncontent-length: 7\r\n\r\n");
    }

    #[test]
    fn a_body_is_as_long_as_it_was_promised() {
        let mut framing = Framing::Length(5);
        framing.pass(3).unwrap();
        assert_eq!(framing.is_met().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let mut whole = framing;
        whole.pass(2).unwrap();
        whole.is_met().unwrap();
        assert_eq!(framing.pass(3).unwrap_err().kind(), io::ErrorKind::InvalidData);
        for mut framing in [Framing::Pieces, Framing::None] {
            framing.pass(3).unwrap();
            framing.is_met().unwrap();
        }
    }

    #[test]
    fn an_answer_tells_the_time_once() {
        let (mut line, response) = (Line::default(), Response::new(()));
        line.begin(&response.into_parts().0, &Long(Some(0)), false);
        let said = String::from_utf8(line.said().to_vec()).unwrap();
        assert_eq!(said.matches("date: ").count(), 1, "{said}");
        let date = said.lines().find_map(|line| line.strip_prefix("date: ")).unwrap();
        assert!(httpdate::parse_http_date(date).is_ok(), "{said}");
    }

    #[test]
    fn pieces_say_their_length_and_the_last_is_empty() {
        let (mut line, piece) = (Line::default(), Bytes::from(vec![b'x'; 26]));
        line.say(Framing::Pieces, &piece);
        line.end(Framing::Pieces);
        assert_eq!(line.said(), format!("1A\r\n{}\r\n0\r\n\r\n", "x".repeat(26)).as_bytes());
        line.clear();
        line.say(Framing::Length(26), &piece);
        line.end(Framing::Length(0));
        assert_eq!(line.said(), &*piece);
    }
}
