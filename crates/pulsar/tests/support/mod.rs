//! What the tests of the client share.
#![allow(dead_code, reason = "each test uses a part of it")]

use bytes::BytesMut;
use carom_pulsar::wire::{BaseCommand, Codec, Command, Connected};
use carom_pulsar::{Builder, Client, Consumer, Message};
use std::error::Error;
use std::time::Duration;
use testkit::pulsar::Cluster;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// A client of the first broker, for whom ten seconds are long.
pub(crate) fn client(cluster: &Cluster) -> Builder {
    Client::builder(cluster.url(0)).operation_timeout(Duration::from_secs(10))
}

/// The number in a message.
pub(crate) fn number_of(message: &Message) -> usize {
    String::from_utf8_lossy(&message.payload).parse().unwrap()
}

/// The numbers in the next messages, each acknowledged.
pub(crate) async fn numbers(consumer: &mut Consumer, count: usize) -> Vec<usize> {
    let mut numbers = Vec::new();
    for _ in 0..count {
        let message = consumer.next().await.unwrap();
        consumer.ack(&message).await.unwrap();
        numbers.push(number_of(&message));
    }
    numbers
}

/// The numbers in what was written to a topic.
pub(crate) fn written(cluster: &Cluster, topic: &str) -> Vec<usize> {
    cluster.payloads(topic).iter().map(|payload| String::from_utf8_lossy(payload).parse().unwrap()).collect()
}

/// Open connections at all brokers.
pub(crate) fn open(cluster: &Cluster) -> usize {
    (0..cluster.brokers()).map(|broker| cluster.connections(broker)).sum()
}

/// An error with all its causes.
pub(crate) fn told_by(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// What a [`Teller`] says to a command, given its own address.
pub(crate) type Tell = fn(&Command, &str) -> Option<BaseCommand>;

/// A broker that says what it is told to, for answers that no broker gives.
pub(crate) struct Teller {
    pub(crate) url: String,
    _tasks: JoinSet<()>,
}

impl Teller {
    pub(crate) async fn start(answer: Tell) -> Teller {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("pulsar://{}", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        let own = url.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                connections.spawn(tell(socket, answer, own.clone()));
            }
        });
        Teller { url, _tasks: tasks }
    }
}

/// Serves one connection until its end.
pub(crate) async fn tell(mut socket: impl AsyncRead + AsyncWrite + Unpin, answer: Tell, own: String) {
    let (codec, mut read) = (Codec::default(), BytesMut::new());
    loop {
        while let Some(frame) = codec.decode(&mut read).unwrap() {
            let answer = match frame.command.body {
                Some(Command::Connect(_)) => Some(Connected::default().into()),
                Some(command) => answer(&command, &own),
                None => None,
            };
            if let Some(answer) = answer {
                let mut written = BytesMut::new();
                codec.encode(&answer.into(), &mut written).unwrap();
                socket.write_all(&written).await.unwrap();
                socket.flush().await.unwrap();
            }
        }
        if socket.read_buf(&mut read).await.unwrap_or(0) == 0 {
            return;
        }
    }
}
