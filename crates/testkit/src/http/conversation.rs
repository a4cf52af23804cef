//! A script carried out on a connection.

use super::request::{Framing, Seen, wrong};
use super::script::{Script, Step};
use super::socket::{Duplex, LastWord};
use super::world::{self, World};
use crate::shared::Shared;
use bytes::{Buf, BytesMut};
use http::Method;
use std::io::{self, ErrorKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::select;
use tokio::time::sleep;

/// How much of a request may come before its head is over.
const LONGEST_HEAD: usize = 1 << 20;

/// Until the script is over or the client has gone.
pub(super) async fn hold(
    shared: &Shared<World>,
    connection: usize,
    stream: Box<dyn Duplex>,
    script: Script,
    last: &LastWord,
) -> io::Result<()> {
    let mut conversation =
        Conversation { shared, connection, stream, unread: BytesMut::new(), request: None, head_alone: false };
    let mut steps = script.steps.iter();
    while let Some(step) = steps.next() {
        match step {
            Step::Again => steps = script.steps.iter(),
            Step::Close => break,
            Step::Vanish => return Ok(()),
            Step::Reset => {
                last.make_reset();
                return Ok(());
            }
            step => conversation.take(step).await?,
        }
    }
    conversation.stream.shutdown().await?;
    conversation.hear_out().await
}

struct Conversation<'a> {
    shared: &'a Shared<World>,
    connection: usize,
    stream: Box<dyn Duplex>,
    unread: BytesMut,
    /// Which of those seen came last, and how its body is written.
    request: Option<(usize, Framing)>,
    /// It was a HEAD: answers have no body.
    head_alone: bool,
}

impl Conversation<'_> {
    async fn take(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::Byte if self.unread.is_empty() => self.read().await,
            Step::Byte => Ok(()),
            Step::Head => self.read_head().await,
            Step::Body => self.read_body().await,
            Step::Say(bytes) => self.say(bytes).await,
            Step::Answer { status, body } => {
                let name = self.shared.lock().name.clone();
                let length = body.len();
                let head = format!("HTTP/1.1 {status} As Told\r\nx-node: {name}\r\ncontent-length: {length}\r\n\r\n");
                let body: &[u8] = if self.head_alone { &[] } else { body };
                // With one write, as servers do.
                self.say(&[head.as_bytes(), body].concat()).await
            }
            Step::Endless(bytes) => loop {
                self.say(bytes).await?;
            },
            Step::Wait(time) => self.meanwhile(sleep(*time)).await,
            Step::Gate => self.meanwhile(world::gate(self.shared)).await,
            Step::Echo => loop {
                if self.unread.is_empty() && self.stream.read_buf(&mut self.unread).await? == 0 {
                    return Ok(());
                }
                let bytes = self.unread.split();
                self.say(&bytes).await?;
            },
            Step::Hold => self.hear_out().await,
            Step::Finish => self.stream.shutdown().await,
            Step::Again | Step::Close | Step::Vanish | Step::Reset => unreachable!("these are not taken here"),
        }
    }

    async fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    /// Some more bytes, or an error at the end.
    async fn read(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.unread).await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Waits for this, with an ear for the client's leaving.
    async fn meanwhile(&mut self, event: impl Future<Output = ()>) -> io::Result<()> {
        select! {
            () = event => Ok(()),
            error = self.gone() => Err(error),
        }
    }

    /// Reads on, until that is over.
    async fn gone(&mut self) -> io::Error {
        loop {
            if let Err(error) = self.read().await {
                return error;
            }
        }
    }

    /// Takes everything until the client has ended.
    async fn hear_out(&mut self) -> io::Result<()> {
        while self.stream.read_buf(&mut self.unread).await? > 0 {
            self.unread.clear();
        }
        Ok(())
    }

    async fn read_head(&mut self) -> io::Result<()> {
        let length = loop {
            if let Some(length) = self.unread.windows(4).position(|end| end == b"\r\n\r\n") {
                break length;
            }
            if self.unread.len() > LONGEST_HEAD {
                return Err(wrong("a head without an end"));
            }
            self.read().await?;
        };
        let seen = Seen::parse(self.connection, &self.unread[..length])?;
        self.unread.advance(length + 4);
        let framing = seen.framing()?;
        self.head_alone = seen.method == Method::HEAD;
        let place = self.shared.change(|world| world.note(seen));
        self.request = Some((place, framing));
        Ok(())
    }

    async fn read_body(&mut self) -> io::Result<()> {
        let Some((place, framing)) = self.request.take() else { return Ok(()) };
        match framing {
            Framing::Length(length) => self.read_part(place, length).await,
            Framing::Chunked => self.read_chunks(place).await,
        }
    }

    async fn read_chunks(&mut self, place: usize) -> io::Result<()> {
        loop {
            let line = self.read_line().await?;
            let size = line.split(';').next().unwrap_or_default().trim();
            match usize::from_str_radix(size, 16).map_err(|_| wrong("a chunk without a size"))? {
                0 => break,
                length => self.read_part(place, length).await?,
            }
            if !self.read_line().await?.is_empty() {
                return Err(wrong("a chunk longer than it said"));
            }
        }
        // Trailers, up to an empty line.
        while !self.read_line().await?.is_empty() {}
        Ok(())
    }

    /// So many bytes of a body, noted as they come.
    async fn read_part(&mut self, place: usize, mut length: usize) -> io::Result<()> {
        while length > 0 {
            if self.unread.is_empty() {
                self.read().await?;
            }
            let part = self.unread.split_to(length.min(self.unread.len()));
            length -= part.len();
            self.shared.change(|world| world.seen[place].body.extend_from_slice(&part));
        }
        Ok(())
    }

    async fn read_line(&mut self) -> io::Result<String> {
        let length = loop {
            if let Some(length) = self.unread.windows(2).position(|end| end == b"\r\n") {
                break length;
            }
            self.read().await?;
        };
        let line = String::from_utf8_lossy(&self.unread[..length]).into_owned();
        self.unread.advance(length + 2);
        Ok(line)
    }
}
