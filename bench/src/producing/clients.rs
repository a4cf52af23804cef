//! The clients that are compared: each puts a message in line, and gives the receipt to wait for.

use bytes::Bytes;
use pulsar::producer::{ProducerOptions, SendFuture};
use pulsar::proto::CommandSendReceipt;
use pulsar::{Pulsar, TokioExecutor};
use std::fmt;
use std::future::Future;

/// A producer on one topic that sends each message in a frame of its own.
pub trait Client: Sized + Send + 'static {
    const NAME: &'static str;

    type Stored;
    type Problem: fmt::Debug;
    /// Ends when the message is stored.
    type Receipt: Future<Output = Result<Self::Stored, Self::Problem>> + Send + Unpin;

    /// A producer that may have `window` messages without a receipt.
    fn open(url: String, topic: &str, window: usize) -> impl Future<Output = Self> + Send;

    /// The message is in line when this ends.
    fn send(&mut self, payload: Vec<u8>) -> impl Future<Output = Self::Receipt> + Send;
}

/// This workspace's.
pub struct Carom(carom_pulsar::Producer);

impl Client for Carom {
    const NAME: &'static str = "carom-pulsar";

    type Stored = carom_pulsar::MessageId;
    type Problem = carom_pulsar::Error;
    type Receipt = carom_pulsar::Sending;

    async fn open(url: String, topic: &str, window: usize) -> Self {
        let client = carom_pulsar::Client::builder(url).build().expect("the options are valid");
        Self(client.producer(topic).max_pending(window).await.expect("the producer begins"))
    }

    async fn send(&mut self, payload: Vec<u8>) -> Self::Receipt {
        self.0.send(Bytes::from(payload))
    }
}

/// The published crate, with a queue that takes the whole window.
pub struct Peer(pulsar::Producer<TokioExecutor>);

impl Client for Peer {
    const NAME: &'static str = "pulsar";

    type Stored = CommandSendReceipt;
    type Problem = pulsar::Error;
    type Receipt = SendFuture;

    async fn open(url: String, topic: &str, window: usize) -> Self {
        let client = Pulsar::builder(url, TokioExecutor).with_outbound_channel_size(window).build().await;
        let client = client.expect("the client connects");
        let options = ProducerOptions { block_queue_if_full: true, ..ProducerOptions::default() };
        let producer = client.producer().with_topic(topic).with_options(options).build().await;
        Self(producer.expect("the producer begins"))
    }

    async fn send(&mut self, payload: Vec<u8>) -> Self::Receipt {
        self.0.send_non_blocking(payload).await.expect("the message is in line")
    }
}
