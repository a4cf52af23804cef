//! A client that says one command at a time and takes what comes.

use bytes::{Bytes, BytesMut};
use carom_pulsar::wire::{
    Ack, AckType, Codec, Command, Connect, Flow, Frame, InitialPosition, Message, MessageIdData, MessageMetadata,
    PROTOCOL_VERSION, Payload, Producer, ProducerSuccess, Send, SubType, Subscribe, WireError,
};
use std::net::SocketAddr;
use std::time::Duration;
use testkit::pulsar::Cluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Nothing here takes long; a test that would hang fails instead.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    bytes: BytesMut,
}

/// How a connection ended, as its client sees it.
#[derive(Debug)]
pub(crate) enum End {
    Closed,
    Broken(WireError),
}

impl Client {
    pub(crate) async fn raw(address: SocketAddr) -> Client {
        Client { stream: TcpStream::connect(address).await.unwrap(), bytes: BytesMut::new() }
    }

    /// With the handshake done.
    pub(crate) async fn connect(cluster: &Cluster, broker: usize) -> Client {
        let mut client = Client::raw(cluster.address(broker)).await;
        client.say(greeting()).await;
        assert!(matches!(client.hear().await, Command::Connected(_)));
        client
    }

    pub(crate) async fn say(&mut self, frame: impl Into<Frame>) {
        let mut bytes = BytesMut::new();
        Codec::default().encode(&frame.into(), &mut bytes).unwrap();
        self.stream.write_all(&bytes).await.unwrap();
    }

    pub(crate) async fn hear(&mut self) -> Command {
        self.frame().await.unwrap().command.body.unwrap()
    }

    pub(crate) async fn frame(&mut self) -> Result<Frame, End> {
        loop {
            if let Some(frame) = Codec::default().decode(&mut self.bytes).map_err(End::Broken)? {
                return Ok(frame);
            }
            let read = timeout(PATIENCE, self.stream.read_buf(&mut self.bytes)).await.expect("something comes");
            if !matches!(read, Ok(1..)) {
                return Err(End::Closed);
            }
        }
    }

    pub(crate) async fn ask(&mut self, frame: impl Into<Frame>) -> Command {
        self.say(frame).await;
        self.hear().await
    }

    pub(crate) async fn produce(&mut self, topic: &str, id: u64, name: Option<&str>) -> ProducerSuccess {
        match self.ask(producer(topic, id, name)).await {
            Command::ProducerSuccess(success) => success,
            other => panic!("{other:?}"),
        }
    }

    /// Sends, and waits for the receipt.
    pub(crate) async fn send(&mut self, id: u64, sequence: u64, payload: &str) -> MessageIdData {
        match self.ask(message(id, sequence, payload)).await {
            Command::SendReceipt(receipt) => {
                assert_eq!((receipt.producer_id, receipt.sequence_id), (id, sequence));
                receipt.message_id.unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn subscribe(&mut self, topic: &str, id: u64, sub_type: SubType) {
        let answer = self.ask(subscribe(topic, id, sub_type)).await;
        assert!(matches!(answer, Command::Success(_)), "{answer:?}");
    }

    pub(crate) async fn flow(&mut self, consumer_id: u64, message_permits: u32) {
        self.say(Flow { consumer_id, message_permits }).await;
    }

    /// The next message: its text too.
    pub(crate) async fn receive(&mut self) -> (Message, String) {
        let frame = self.frame().await.unwrap();
        let text = String::from_utf8(frame.message.unwrap().payload.to_vec()).unwrap();
        match frame.command.body {
            Some(Command::Message(message)) => (message, text),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn ack(&mut self, consumer_id: u64, id: MessageIdData, ack_type: AckType) {
        let ack_type = ack_type as i32;
        let ack = Ack { consumer_id, ack_type, message_id: vec![id], request_id: Some(77), ..Ack::default() };
        let answer = self.ask(ack).await;
        assert!(matches!(&answer, Command::AckResponse(response) if response.error.is_none()), "{answer:?}");
    }
}

pub(crate) fn full(topic: &str) -> String {
    format!("persistent://public/default/{topic}")
}

pub(crate) fn greeting() -> Connect {
    Connect { client_version: "raw".into(), protocol_version: Some(PROTOCOL_VERSION), ..Connect::default() }
}

pub(crate) fn producer(topic: &str, producer_id: u64, name: Option<&str>) -> Producer {
    let (topic, producer_name) = (full(topic), name.map(str::to_owned));
    Producer { topic, producer_id, request_id: 1, producer_name, ..Producer::default() }
}

pub(crate) fn message(producer_id: u64, sequence_id: u64, payload: &str) -> Frame {
    let metadata = MessageMetadata { producer_name: "p".into(), sequence_id, ..MessageMetadata::default() };
    let payload = Payload { metadata, payload: Bytes::copy_from_slice(payload.as_bytes()) };
    Frame::with_message(Send { producer_id, sequence_id, ..Send::default() }, payload)
}

/// From the beginning of the topic, as part of the subscription `s`.
pub(crate) fn subscribe(topic: &str, consumer_id: u64, sub_type: SubType) -> Subscribe {
    Subscribe {
        topic: full(topic),
        subscription: "s".into(),
        sub_type: sub_type as i32,
        consumer_id,
        request_id: 2,
        initial_position: Some(InitialPosition::Earliest as i32),
        ..Subscribe::default()
    }
}
