//! What the script spoils, and what clients spoil.

use super::client::{Client, End, full, greeting, message, producer};
use bytes::BytesMut;
use carom_pulsar::wire::{
    Codec, Command, CommandType, Frame, Lookup, LookupType, Ping, Pong, ServerError, SubType, WireError,
};
use std::time::Duration;
use testkit::clock::advance;
use testkit::pulsar::{Answer, Cluster, On};
use tokio::io::AsyncWriteExt;

fn lookup() -> Lookup {
    Lookup { topic: full("t"), request_id: 1, ..Lookup::default() }
}

#[tokio::test]
async fn errors_are_given_as_often_as_the_script_says() {
    let cluster = Cluster::start(1).await.unwrap();
    let not_ready = Answer::Error(ServerError::ServiceNotReady);
    cluster.answer(On::Broker(0), CommandType::Lookup, not_ready.times(2, Answer::Normal));
    let mut client = Client::connect(&cluster, 0).await;
    for expected in [LookupType::Failed, LookupType::Failed, LookupType::Connect] {
        let answer = client.ask(lookup()).await;
        assert!(
            matches!(&answer, Command::LookupResponse(told) if told.response == Some(expected as i32)),
            "{answer:?}"
        );
    }
    client.produce("t", 1, None).await;
    client.produce("u", 2, None).await;
    cluster.answer(On::topic("t"), CommandType::Send, Answer::Error(ServerError::Persistence));
    let answer = client.ask(message(1, 0, "a")).await;
    assert!(matches!(&answer, Command::SendError(told) if told.error == ServerError::Persistence as i32), "{answer:?}");
    client.send(2, 0, "a").await;
    cluster.behave();
    client.send(1, 0, "a").await;
    assert_eq!((cluster.log("t").len(), cluster.log("u").len()), (1, 1));
}

#[tokio::test]
async fn answers_are_withheld_and_late() {
    let (cluster, delay) = (Cluster::start(1).await.unwrap(), Duration::from_secs(3600));
    cluster.keep_alive(2 * delay);
    let mut client = Client::connect(&cluster, 0).await;
    let id = cluster.connection_list(0)[0].id;
    cluster.answer(On::Connection(id), CommandType::Ping, Answer::Silent);
    cluster.answer(On::Anywhere, CommandType::Lookup, Answer::Normal.after(delay));
    client.say(Ping {}).await;
    client.say(lookup()).await;
    client.produce("t", 1, None).await;
    advance(delay).await;
    assert!(matches!(client.hear().await, Command::LookupResponse(_)));
    assert_eq!(cluster.heard(0, CommandType::Ping), 1);

    // Stored, and nobody says so; neither stored nor answered.
    cluster.answer(On::topic("t"), CommandType::Send, Answer::Silent.times(1, Answer::Ignored));
    client.say(message(1, 0, "a")).await;
    client.say(message(1, 1, "b")).await;
    cluster.until(|cluster| cluster.heard(0, CommandType::Send) == 2).await;
    assert_eq!(cluster.payloads("t"), [b"a"]);
}

#[tokio::test]
async fn connections_are_dropped() {
    let cluster = Cluster::start(1).await.unwrap();
    let mut client = Client::connect(&cluster, 0).await;
    cluster.answer_all(On::Broker(0), Answer::Normal.times(2, Answer::Close));
    client.ask(Ping {}).await;
    client.ask(Ping {}).await;
    client.say(Ping {}).await;
    assert!(matches!(client.frame().await, Err(End::Closed)));

    cluster.behave();
    let mut client = Client::connect(&cluster, 0).await;
    client.produce("t", 1, None).await;
    cluster.answer(On::topic("t"), CommandType::Send, Answer::DoneAndClose);
    client.say(message(1, 0, "a")).await;
    assert!(matches!(client.frame().await, Err(End::Closed)));
    assert_eq!((cluster.log("t").len(), cluster.producers("t").len()), (1, 0));

    let mut client = Client::connect(&cluster, 0).await;
    cluster.disconnect(0);
    assert!(matches!(client.frame().await, Err(End::Closed)));
    cluster.answer(On::Broker(0), CommandType::Connect, Answer::Ignored);
    let mut mute = Client::raw(cluster.address(0)).await;
    mute.say(greeting()).await;
    cluster.until(|cluster| cluster.heard(0, CommandType::Connect) == 4).await;
    assert_eq!(cluster.connections(0), 1);
    cluster.disconnect_one(cluster.connection_list(0)[0].id);
    assert!(matches!(mute.frame().await, Err(End::Closed)));
}

#[tokio::test]
async fn frames_are_spoiled() {
    let cluster = Cluster::start(1).await.unwrap();
    let mut client = Client::connect(&cluster, 0).await;
    client.produce("t", 1, None).await;
    client.send(1, 0, "a").await;
    client.subscribe("t", 1, SubType::Exclusive).await;
    cluster.answer(On::topic("t"), CommandType::Message, Answer::BadChecksum);
    client.flow(1, 1).await;
    assert!(matches!(client.frame().await, Err(End::Broken(WireError::Checksum { .. }))));

    let spoiled = [Answer::oversized(), Answer::garbage(), Answer::cut_short(), Answer::unknown_command()];
    for (number, answer) in spoiled.into_iter().enumerate() {
        let mut client = Client::connect(&cluster, 0).await;
        cluster.answer(On::Broker(0), CommandType::Ping, answer);
        client.say(Ping {}).await;
        match (number, client.frame().await) {
            (0, Err(End::Broken(WireError::TooLarge { .. })))
            | (1, Err(End::Broken(WireError::Malformed { .. })))
            | (2, Err(End::Broken(WireError::Short { .. }))) => {}
            (3, Ok(frame)) if frame.command.kind == 999 => {}
            (number, other) => panic!("{number}: {other:?}"),
        }
    }
    let mut client = Client::connect(&cluster, 0).await;
    cluster.inject(0, b"\0\0\0\x09\0\0\0\x05\x08\x12\x92\x01\0");
    assert!(matches!(client.hear().await, Command::Ping(_)));
}

#[tokio::test]
async fn brokers_ping_and_close_on_silence() {
    let cluster = Cluster::start(1).await.unwrap();
    cluster.keep_alive(Duration::from_millis(250));
    let mut client = Client::connect(&cluster, 0).await;
    let mut mute = Client::raw(cluster.address(0)).await;
    for _ in 0..3 {
        assert!(matches!(client.hear().await, Command::Ping(_)));
        client.say(Pong {}).await;
    }
    assert!(matches!(mute.frame().await, Err(End::Closed)), "who does not greet is closed too");
    assert!(matches!(client.hear().await, Command::Ping(_)));
    assert!(matches!(client.frame().await, Err(End::Closed)));
    assert_eq!(cluster.connections(0), 0);
}

#[tokio::test]
async fn bad_bytes_of_clients_end_their_connection_and_nothing_else() {
    let cluster = Cluster::start(1).await.unwrap();
    let mut good = Client::connect(&cluster, 0).await;
    let mut hello = BytesMut::new();
    Codec::default().encode(&Frame::from(greeting()), &mut hello).unwrap();
    Codec::default().encode(&Frame::from(producer("t", 1, None)), &mut hello).unwrap();
    Codec::default().encode(&message(1, 0, "a"), &mut hello).unwrap();
    let mut state = 1_u64;
    for round in 0..200 {
        let mut client = Client::raw(cluster.address(0)).await;
        let mut bytes = hello.to_vec();
        for _ in 0..round % 40 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bytes.push((state >> 56) as u8);
            let at = (state >> 33) as usize % bytes.len();
            if round % 2 == 0 {
                bytes[at] ^= (state >> 40) as u8;
            }
        }
        let _ = client.stream.write_all(&bytes).await;
        let _ = client.stream.shutdown().await;
    }
    cluster.until(|cluster| cluster.accepted(0) == 201 && cluster.connections(0) == 1).await;
    assert!(matches!(good.ask(Ping {}).await, Command::Pong(_)));
    good.produce("u", 1, None).await;
    let mut bytes = BytesMut::new();
    Codec::default().encode(&message(1, 0, "a"), &mut bytes).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    good.stream.write_all(&bytes).await.unwrap();
    let answer = good.hear().await;
    assert!(matches!(&answer, Command::SendError(told) if told.error == ServerError::Checksum as i32), "{answer:?}");
}
