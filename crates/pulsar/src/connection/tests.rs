//! A connection over memory, with a broker that says what the test says; time stands still until it is needed.

use super::*;
use crate::error::Error;
use crate::wire::{
    AuthChallenge, AuthResponse, BaseCommand, Command, Connect, Flow, Lookup, Message, PartitionedMetadata,
    PartitionedMetadataResponse, Payload, Ping, Success,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

const TICK: Duration = Duration::from_secs(30);

/// The broker's side.
struct Broker {
    socket: DuplexStream,
    read: BytesMut,
}

impl Broker {
    async fn say(&mut self, frame: impl Into<Frame>) {
        let mut bytes = BytesMut::new();
        Codec::default().encode(&frame.into(), &mut bytes).unwrap();
        self.socket.write_all(&bytes).await.unwrap();
    }

    async fn hear(&mut self) -> Command {
        loop {
            if let Some(frame) = Codec::default().decode(&mut self.read).unwrap() {
                return frame.command.body.unwrap();
            }
            assert_ne!(self.socket.read_buf(&mut self.read).await.unwrap(), 0, "the client has ended it");
        }
    }
}

fn connected(room: usize) -> (Connection, Broker) {
    proving(room, Box::new(|| Err(ConnectionError::no_token())))
}

/// With something to say when the broker asks who it is.
fn proving(room: usize, authenticate: Authenticate) -> (Connection, Broker) {
    let (ours, theirs) = tokio::io::duplex(room);
    let setup = Setup {
        broker: "broker".into(),
        max_message_size: 1024 * 1024,
        protocol_version: 21,
        keep_alive: TICK,
        numbers: Arc::default(),
        authenticate,
        read: BytesMut::new(),
    };
    (Connection::start(ours, setup), Broker { socket: theirs, read: BytesMut::new() })
}

fn reason(lines: &Lines) -> Arc<ConnectionError> {
    lines.over.borrow().clone().expect("it has ended")
}

fn asked(request_id: u64) -> BaseCommand {
    PartitionedMetadata { request_id, ..PartitionedMetadata::default() }.into()
}

#[tokio::test(start_paused = true)]
async fn a_second_answer_is_counted_and_does_no_harm() {
    let (connection, mut broker) = connected(4096);
    let lines = Arc::clone(connection.lines());
    let asking = Arc::clone(&lines);
    let asking = tokio::spawn(async move { asking.request("it", asked).await });
    let Command::PartitionedMetadata(heard) = broker.hear().await else { panic!() };
    let answer = PartitionedMetadataResponse { request_id: heard.request_id, ..PartitionedMetadataResponse::default() };
    broker.say(answer.clone()).await;
    broker.say(answer).await;
    broker.say(Success { request_id: 999 }).await;
    broker.say(Ping {}).await;
    assert!(asking.await.unwrap().is_ok());
    assert!(matches!(broker.hear().await, Command::Pong(_)));
    assert_eq!(lines.strays.load(Ordering::Relaxed), 2);
    assert!(lines.table().requests.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_nobody_waits_for_leaves_nothing_behind() {
    let (connection, mut broker) = connected(4096);
    let lines = connection.lines();
    let given_up = tokio::time::timeout(Duration::from_secs(1), lines.request("it", asked)).await;
    assert!(given_up.is_err());
    assert!(lines.table().requests.is_empty());
    assert!(matches!(broker.hear().await, Command::PartitionedMetadata(_)));
}

#[tokio::test(start_paused = true)]
async fn silence_after_a_ping_ends_it_and_any_word_does_not() {
    let (connection, mut broker) = connected(4096);
    let began = tokio::time::Instant::now();
    assert!(matches!(broker.hear().await, Command::Ping(_)));
    broker.say(Flow { consumer_id: 0, message_permits: 0 }).await;
    // A word that only clients say is one too many, but it was one.
    connection.lines().closed().await;
    assert!(matches!(*reason(connection.lines()), ConnectionError::Violation { kind: 11 }));
    assert_eq!(began.elapsed(), TICK);

    let (connection, mut broker) = connected(4096);
    let began = tokio::time::Instant::now();
    for _ in 0..3 {
        assert!(matches!(broker.hear().await, Command::Ping(_)));
        broker.say(Success { request_id: 7 }).await;
    }
    assert!(matches!(broker.hear().await, Command::Ping(_)));
    connection.lines().closed().await;
    assert!(matches!(*reason(connection.lines()), ConnectionError::Silent(TICK)));
    assert_eq!(began.elapsed(), 5 * TICK);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_does_not_read_is_noticed_too() {
    let (connection, _broker) = connected(16);
    let lines = connection.lines();
    let (producer, _events) = lines.enlist_producer(1).unwrap();
    lines.messages().send(producer.message(vec![0; 4096].into())).await.unwrap();
    lines.closed().await;
    assert!(matches!(*reason(lines), ConnectionError::Silent(_)));
}

#[tokio::test(start_paused = true)]
async fn a_pong_and_control_go_before_messages() {
    let (connection, mut broker) = connected(64);
    let lines = connection.lines();
    let (producer, _events) = lines.enlist_producer(1).unwrap();
    fill(lines, &producer).await;
    broker.say(Ping {}).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    lines.tell(Lookup::default());
    let mut heard = Vec::new();
    while !matches!(heard.last(), Some(Command::Lookup(_))) {
        heard.push(broker.hear().await);
    }
    let sends = heard.iter().filter(|command| matches!(command, Command::Send(_))).count();
    assert!(sends <= 66, "only what was in the write under way goes before: {sends}");
    assert!(matches!(heard[sends], Command::Pong(_)), "the pong first");
    assert!(matches!(broker.hear().await, Command::Send(_)), "there were messages left to overtake");
}

/// More messages of a producer than one write holds.
async fn fill(lines: &Lines, producer: &Enlisted) {
    let payload = Payload { payload: vec![0; 1000].into(), ..Payload::default() };
    let mut message = BytesMut::new();
    Codec::default().encode(&Frame::with_message(crate::wire::Send::default(), payload), &mut message).unwrap();
    let message = message.freeze();
    for _ in 0..super::MESSAGE_QUEUE {
        lines.messages().send(producer.message(message.clone())).await.unwrap();
    }
    tokio::task::yield_now().await;
    while lines.messages().try_send(producer.message(message.clone())).is_ok() {}
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_challenges_that_nobody_reads_the_answers_of_is_answered_once() {
    let made = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&made);
    let proof = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(AuthResponse::default().into())
    };
    let (connection, mut broker) = proving(4096, Box::new(proof));
    let lines = connection.lines();
    let (producer, _events) = lines.enlist_producer(1).unwrap();
    // The writer is stuck: nobody reads.
    fill(lines, &producer).await;
    for _ in 0..1000 {
        broker.say(AuthChallenge::default()).await;
    }
    broker.say(Success { request_id: 999 }).await;
    while lines.strays.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    assert!(made.load(Ordering::Relaxed) <= 1, "none is made before it can be written");
    while !matches!(broker.hear().await, Command::AuthResponse(_)) {}
    lines.tell(Lookup::default());
    let mut more = 0;
    loop {
        match broker.hear().await {
            Command::AuthResponse(_) => more += 1,
            Command::Lookup(_) => break,
            _ => {}
        }
    }
    assert!(more <= 1, "{more} more");
}

#[tokio::test(start_paused = true)]
async fn a_source_of_tokens_that_panics_ends_the_connection_and_is_its_reason() {
    let (connection, mut broker) = proving(4096, Box::new(|| panic!("no token today")));
    broker.say(AuthChallenge::default()).await;
    connection.lines().closed().await;
    assert!(matches!(*reason(connection.lines()), ConnectionError::Panicked));
}

#[tokio::test(start_paused = true)]
async fn a_challenge_without_a_token_ends_the_connection() {
    let (connection, mut broker) = connected(4096);
    broker.say(AuthChallenge::default()).await;
    connection.lines().closed().await;
    assert!(matches!(*reason(connection.lines()), ConnectionError::Refused { .. }));
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_producer_follows_its_goodbye() {
    let (connection, mut broker) = connected(64);
    let lines = connection.lines();
    let (producer, _events) = lines.enlist_producer(1).unwrap();
    fill(lines, &producer).await;
    drop(producer);
    // The next of the same number, on the same connection.
    let (producer, _events) = lines.enlist_producer(1).unwrap();
    lines.tell(Lookup::default());
    let mut heard = Vec::new();
    while !matches!(heard.last(), Some(Command::Lookup(_))) {
        heard.push(broker.hear().await);
    }
    let sends = heard.iter().filter(|command| matches!(command, Command::Send(_))).count();
    assert!(matches!(heard[sends], Command::CloseProducer(_)), "{:?}", heard[sends]);
    assert!(sends < super::MESSAGE_QUEUE + 10, "some were still in line: {sends}");
    drop(producer);
    assert!(matches!(broker.hear().await, Command::CloseProducer(_)), "nothing was left of the first");
}

#[tokio::test(start_paused = true)]
async fn last_words_are_not_said_behind_half_a_frame() {
    let (connection, mut broker) = connected(64);
    let lines = Arc::clone(connection.lines());
    let (producer, _events) = lines.enlist_producer(1).unwrap();
    fill(&lines, &producer).await;
    drop(producer);
    connection.let_go();
    while broker.socket.read_buf(&mut broker.read).await.unwrap() > 0 {}
    while let Some(frame) = Codec::default().decode(&mut broker.read).unwrap() {
        assert!(matches!(frame.command.body, Some(Command::Send(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn more_messages_than_there_is_room_for_end_it() {
    let (connection, mut broker) = connected(4096);
    let (_enlisted, mut events) = connection.lines().enlist_consumer(5, 2).unwrap();
    for _ in 0..3 {
        let message = Message { consumer_id: 5, ..Message::default() };
        broker.say(Frame::with_message(message, Payload::default())).await;
    }
    connection.lines().closed().await;
    assert!(matches!(*reason(connection.lines()), ConnectionError::Flooded { consumer: 5 }));
    assert!(matches!(events.recv().await, Some(ConsumerEvent::Message(..))));
    assert!(matches!(events.recv().await, Some(ConsumerEvent::Message(..))));
    assert!(events.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn its_end_is_told_to_all_who_use_it_and_to_all_who_come_later() {
    let (connection, mut broker) = connected(4096);
    let lines = Arc::clone(connection.lines());
    let (_producer, mut events) = lines.enlist_producer(1).unwrap();
    let asking = Arc::clone(&lines);
    let asking = tokio::spawn(async move { asking.request("it", asked).await });
    broker.hear().await;
    broker.say(Connect::default()).await;
    let told = asking.await.unwrap().unwrap_err();
    assert!(
        matches!(told, Error::Connection { source, .. } if matches!(*source, ConnectionError::Violation { kind: 2 }))
    );
    assert!(events.recv().await.is_none());
    assert!(lines.enlist_producer(2).is_err());
    assert!(lines.request("it", asked).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn goodbyes_are_heard_when_it_is_let_go() {
    let (connection, mut broker) = connected(4096);
    let (producer, _events) = connection.lines().enlist_producer(1).unwrap();
    drop(producer);
    connection.let_go();
    assert!(matches!(broker.hear().await, Command::CloseProducer(close) if close.producer_id == 1));
    assert_eq!(broker.socket.read_buf(&mut broker.read).await.unwrap(), 0);
}
