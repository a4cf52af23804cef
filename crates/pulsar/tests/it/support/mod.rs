//! What the tests of the client share.
use bytes::BytesMut;
use carom_pulsar::wire::{
    BaseCommand, CloseConsumer, CloseProducer, Codec, Command, Connected, Lookup, LookupResponse, LookupType,
    MessageIdData, PROTOCOL_VERSION, PartitionedMetadata, PartitionedMetadataResponse, PartitionedType,
    ProducerSuccess, SendReceipt, Subscribe, Success,
};
use carom_pulsar::{Builder, Client, Consumer, Error as CallError, Message, ServerError};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use testkit::pulsar::Cluster;
use testkit::wait::LIMIT;
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

/// The outcome of something that must not take for ever.
pub(crate) async fn in_time<T>(what: impl IntoFuture<Output = T>) -> T {
    tokio::time::timeout(LIMIT, what).await.expect("it came to nothing")
}

/// The kind of server error that ended something.
pub(crate) fn refusal(error: &CallError) -> Option<ServerError> {
    match error {
        CallError::Refused { error, .. } => Some(*error),
        CallError::Ended { source, .. } => refusal(source),
        _ => None,
    }
}

/// A broker that says what it is told to, for answers that no broker gives, and at other addresses than a cluster's.
pub(crate) struct Teller {
    pub(crate) url: String,
    pub(crate) address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Teller {
    /// At a port of 127.0.0.1. It is asked for the answers to a command, which is given with its own address.
    pub(crate) async fn start<A>(answer: A) -> Teller
    where
        A: Fn(&Command, &str) -> Vec<BaseCommand> + Send + Sync + 'static,
    {
        Teller::start_at("127.0.0.1", answer).await
    }

    pub(crate) async fn start_at<A>(host: &str, answer: A) -> Teller
    where
        A: Fn(&Command, &str) -> Vec<BaseCommand> + Send + Sync + 'static,
    {
        let listener = TcpListener::bind((host, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let url = format!("pulsar://{address}");
        let mut tasks = JoinSet::new();
        let (own, answer) = (url.clone(), Arc::new(answer));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let (own, answer) = (own.clone(), Arc::clone(&answer));
                connections.spawn(async move { tell(socket, &*answer, &own).await });
            }
        });
        Teller { url, address, _tasks: tasks }
    }
}

/// Serves one connection until its end. An answer without a body is none: this side says no more.
async fn tell(
    mut socket: impl AsyncRead + AsyncWrite + Unpin,
    answer: &(impl Fn(&Command, &str) -> Vec<BaseCommand> + Sync),
    own: &str,
) {
    let (codec, mut read, mut over) = (Codec::default(), BytesMut::new(), false);
    loop {
        while let Some(frame) = codec.decode(&mut read).unwrap() {
            let answers = match frame.command.body {
                Some(Command::Connect(_)) => {
                    vec![Connected { protocol_version: Some(PROTOCOL_VERSION), ..Connected::default() }.into()]
                }
                Some(command) if !over => answer(&command, own),
                Some(_) | None => Vec::new(),
            };
            for answer in answers {
                if answer.body.is_none() {
                    over = true;
                    // The client may have gone first.
                    let _ = socket.shutdown().await;
                } else {
                    let mut written = BytesMut::new();
                    codec.encode(&answer.into(), &mut written).unwrap();
                    let _ = socket.write_all(&written).await;
                }
            }
        }
        if socket.read_buf(&mut read).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

/// The answer after which there are no more on this connection.
pub(crate) fn hang_up() -> BaseCommand {
    BaseCommand::default()
}

/// What a broker says that owns every topic and stores nothing; `url` is where it is.
pub(crate) fn usual(command: &Command, url: &str) -> Vec<BaseCommand> {
    let answer = match command {
        Command::PartitionedMetadata(PartitionedMetadata { request_id, .. }) => PartitionedMetadataResponse {
            request_id: *request_id,
            response: Some(PartitionedType::Success as i32),
            ..PartitionedMetadataResponse::default()
        }
        .into(),
        Command::Lookup(Lookup { request_id, .. }) => LookupResponse {
            request_id: *request_id,
            response: Some(LookupType::Connect as i32),
            broker_service_url: Some(url.to_owned()),
            ..LookupResponse::default()
        }
        .into(),
        Command::Producer(begun) => {
            let (request_id, producer_name) = (begun.request_id, "till".to_owned());
            ProducerSuccess { request_id, producer_name, ..ProducerSuccess::default() }.into()
        }
        Command::Send(send) => receipt(send.producer_id, send.sequence_id),
        Command::Subscribe(Subscribe { request_id, .. })
        | Command::CloseProducer(CloseProducer { request_id, .. })
        | Command::CloseConsumer(CloseConsumer { request_id, .. }) => Success { request_id: *request_id }.into(),
        _ => return Vec::new(),
    };
    vec![answer]
}

/// The receipt of a message.
pub(crate) fn receipt(producer_id: u64, sequence_id: u64) -> BaseCommand {
    let message_id = MessageIdData { ledger_id: 1, entry_id: sequence_id, ..MessageIdData::default() };
    SendReceipt { producer_id, sequence_id, message_id: Some(message_id), highest_sequence_id: None }.into()
}
