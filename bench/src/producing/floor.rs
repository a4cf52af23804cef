//! What any client can reach with this broker: frames made beforehand, written to a bare socket, and receipts counted.

use super::{PAYLOAD, Round, TOPIC};
use crate::waits::Waits;
use bytes::BytesMut;
use carom_pulsar::wire::{Codec, Command, Connect, Frame, MessageMetadata, Payload, Producer, Send};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// As much is read at a time as is worth a call.
const ONE_READ: usize = 64 * 1024;

/// Keeps `window` messages in flight: for each receipt that a read brings, the next write has a message.
pub async fn run(url: String, window: usize, lead: Duration, period: Duration) -> Round {
    let mut line = Line::begin(url.strip_prefix("pulsar://").expect("the broker has no TLS")).await;
    let frame = line.frame(&a_message());
    let burst = frame.repeat(window);
    let mut in_flight = VecDeque::from(vec![Instant::now(); window]);
    line.socket.write_all(&burst).await.expect("the broker reads");
    let (start, mut waits) = (Instant::now() + lead, Waits::new());
    loop {
        let receipts = line.receipts().await;
        let now = Instant::now();
        for sent in in_flight.drain(..receipts) {
            if sent >= start {
                waits.record(now - sent);
            }
        }
        if now >= start + period {
            return Round::new(&waits, period);
        }
        in_flight.extend(std::iter::repeat_n(Instant::now(), receipts));
        line.socket.write_all(&burst[..frame.len() * receipts]).await.expect("the broker reads");
    }
}

/// The only message: a broker that is not told to look for doubles stores every copy.
fn a_message() -> Frame {
    let metadata = MessageMetadata { producer_name: "floor".into(), ..MessageMetadata::default() };
    let send = Send { num_messages: Some(1), ..Send::default() };
    Frame::with_message(send, Payload { metadata, payload: vec![0; PAYLOAD].into() })
}

/// A connection with a producer on it.
struct Line {
    socket: TcpStream,
    codec: Codec,
    read: BytesMut,
}

impl Line {
    async fn begin(address: &str) -> Self {
        let socket = TcpStream::connect(address).await.expect("the broker listens");
        socket.set_nodelay(true).expect("the socket is connected");
        let mut line = Self { socket, codec: Codec::default(), read: BytesMut::with_capacity(ONE_READ) };
        let topic = format!("persistent://public/default/{TOPIC}");
        let connect = line.frame(&Connect { client_version: "floor".into(), ..Connect::default() }.into());
        let producer = line.frame(&Producer { topic: topic.clone(), ..Producer::default() }.into());
        line.socket.write_all(&[connect, producer].concat()).await.expect("the broker reads");
        while !matches!(line.next().await, Command::ProducerSuccess(_)) {}
        line
    }

    fn frame(&self, frame: &Frame) -> Vec<u8> {
        let mut bytes = BytesMut::new();
        self.codec.encode(frame, &mut bytes).expect("the frame is small");
        bytes.into()
    }

    async fn next(&mut self) -> Command {
        loop {
            let frame = self.codec.decode(&mut self.read).expect("the broker sends frames");
            match frame.and_then(|frame| frame.command.body) {
                Some(command) => return command,
                None => self.fill().await,
            }
        }
    }

    /// How many came with the next read. They are counted by their length, as all are receipts.
    async fn receipts(&mut self) -> usize {
        loop {
            self.fill().await;
            let (mut receipts, mut rest) = (0, &self.read[..]);
            while let Some((length, behind)) = rest.split_first_chunk::<4>()
                && let Some(behind) = behind.get(u32::from_be_bytes(*length) as usize..)
            {
                (receipts, rest) = (receipts + 1, behind);
            }
            let whole = self.read.len() - rest.len();
            drop(self.read.split_to(whole));
            if receipts > 0 {
                return receipts;
            }
        }
    }

    async fn fill(&mut self) {
        self.read.reserve(ONE_READ);
        let read = self.socket.read_buf(&mut self.read).await.expect("the broker answers");
        assert_ne!(read, 0, "the broker keeps the connection");
    }
}
