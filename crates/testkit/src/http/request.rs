//! A request as a server saw it, and its head made out of bytes.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use std::io::{self, ErrorKind};
use std::str;

/// A request that came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The number of the connection it came on, from 0.
    pub connection: usize,
    /// GET and so on.
    pub method: Method,
    /// What was asked for, as it was written: a path and a query as a rule.
    pub target: String,
    /// Which HTTP.
    pub version: Version,
    /// Its headers.
    pub headers: HeaderMap,
    /// What was read of its body.
    pub body: Vec<u8>,
}

impl Seen {
    /// The first header of this name, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Made of a head without the empty line at its end.
    pub(super) fn parse(connection: usize, head: &[u8]) -> io::Result<Seen> {
        let head = str::from_utf8(head).map_err(|_| wrong("it is no text"))?;
        let mut lines = head.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (first.next(), first.next(), first.next(), first.next())
        else {
            return Err(wrong("the first line has not three parts"));
        };
        let version = match version {
            "HTTP/1.1" => Version::HTTP_11,
            "HTTP/1.0" => Version::HTTP_10,
            _ => return Err(wrong("it is of no HTTP that is known here")),
        };
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(':').ok_or_else(|| wrong("a header has no colon"))?;
            headers.append(
                HeaderName::try_from(name).map_err(|_| wrong("a header has no good name"))?,
                HeaderValue::try_from(value.trim()).map_err(|_| wrong("a header has no good value"))?,
            );
        }
        let method = Method::try_from(method).map_err(|_| wrong("the method is none"))?;
        Ok(Seen { connection, method, target: target.to_owned(), version, headers, body: Vec::new() })
    }

    /// How its body is written.
    pub(super) fn framing(&self) -> io::Result<Framing> {
        if self.headers.contains_key("transfer-encoding") {
            return Ok(Framing::Chunked);
        }
        let length = self.header("content-length").map_or(Ok(0), str::parse);
        length.map(Framing::Length).map_err(|_| wrong("its length is no number"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length(usize),
    Chunked,
}

pub(super) fn wrong(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}
