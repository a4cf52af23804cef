//! What the server hears, when it is deaf, and what it makes of rubbish.

use super::client::{Tcp, Udp, ask, ask_tcp, question, with_edns};
use hickory_proto::op::{MessageType, OpCode};
use hickory_proto::rr::DNSClass;
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use testkit::dns::{Answer, DnsServer, Over, RecordType, ResponseCode};
use testkit::wait::LIMIT;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

const A: RecordType = RecordType::A;

#[tokio::test]
async fn questions_are_remembered_until_cleared() {
    let server = DnsServer::start().await.unwrap();
    let before = Instant::now();
    let client = Udp::to(server.address()).await;
    client.send(&with_edns(question("A.test", A), 1232)).await;
    server.wait_for_question("a.TEST", A).await;
    ask_tcp(&server, "a.test", A).await;
    ask(&server, "_x._udp.b.test", RecordType::SRV).await;

    let questions = server.questions();
    assert_eq!(server.asked(), ["a.test A", "a.test A", "_x._udp.b.test SRV"]);
    assert_eq!(questions.iter().map(|asked| asked.over).collect::<Vec<_>>(), [Over::Udp, Over::Tcp, Over::Udp]);
    assert_eq!(questions.iter().map(|asked| asked.edns).collect::<Vec<_>>(), [Some(1232), None, None]);
    assert!(questions.is_sorted_by_key(|asked| asked.at) && questions[0].at >= before);
    assert_eq!((server.count("a.test.", A), server.count("a.test", RecordType::AAAA)), (2, 0));

    server.clear();
    assert_eq!((server.questions(), server.count("a.test", A)), (vec![], 0));
    let (_, reply) = tokio::join!(server.wait_for_question("late.test", A), ask(&server, "late.test", A));
    assert_eq!(reply.response_code, ResponseCode::NXDomain);
}

#[tokio::test]
async fn a_connection_takes_many_questions_and_answers_all_after_the_last() {
    let server = DnsServer::start().await.unwrap();
    let mut client = Tcp::to(server.address()).await;
    let mut requests: Vec<_> = (0..50).map(|n| question(&format!("n{n}.test"), A)).collect();
    for (n, request) in requests.iter_mut().enumerate() {
        request.metadata.id = u16::try_from(n).unwrap();
        client.send(request).await;
    }
    client.0.shutdown().await.unwrap();
    let mut ids = Vec::new();
    for _ in &requests {
        ids.push(client.receive().await.id);
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..50).collect::<Vec<_>>());
    assert_eq!(client.0.read(&mut [0]).await.unwrap(), 0, "then it closes");
}

#[tokio::test]
async fn stopped_it_is_refused_and_restarted_it_is_the_same() {
    let mut server = DnsServer::start().await.unwrap();
    let address = server.address();
    server.zone().a("a.test", 1, ["10.0.0.1"]);
    for _ in 0..3 {
        let mut connected = Tcp::to(address).await;
        connected.send(&question("a.test", A)).await;
        connected.receive().await;

        server.stop().await;
        server.stop().await;
        assert!(matches!(connected.0.read(&mut [0]).await, Ok(0) | Err(_)));
        let refused = TcpStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let client = Udp::to(address).await;
        client.send(&question("a.test", A)).await;
        assert_eq!(client.0.recv(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);

        server.restart().await.unwrap();
        assert_eq!(server.address(), address);
        client.send(&question("a.test", A)).await;
        assert_eq!(client.receive().await.answers.len(), 1);
    }
    assert_eq!(server.count("a.test", A), 6);
}

/// Without it, a client's own socket could sit on the port when the server comes back.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn stopped_it_keeps_its_port() {
    let mut server = DnsServer::start().await.unwrap();
    server.stop().await;
    let taken = UdpSocket::bind(("0.0.0.0", server.address().port())).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);
}

#[tokio::test]
async fn stopping_drops_delayed_answers() {
    let mut server = DnsServer::start().await.unwrap();
    server.zone().answer_all(Answer::Records.after(Duration::from_secs(3600)));
    let client = Udp::to(server.address()).await;
    client.send(&question("a.test", A)).await;
    let mut connected = Tcp::to(server.address()).await;
    connected.send(&question("b.test", A)).await;
    server.until(|server| server.questions().len() == 2).await;
    timeout(LIMIT, server.stop()).await.expect("it waits for nobody");
}

#[tokio::test]
async fn dropping_the_server_stops_it() {
    let server = DnsServer::start().await.unwrap();
    let mut client = Tcp::to(server.address()).await;
    client.send(&question("a.test", A)).await;
    client.receive().await;
    drop(server);
    assert_eq!(client.0.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn servers_can_share_a_port_number_and_speak_ipv6() {
    let one = DnsServer::start().await.unwrap();
    // Loopback addresses beside these are not everywhere.
    for address in [format!("127.0.0.2:{}", one.address().port()), "[::1]:0".to_owned()] {
        let two = match DnsServer::start_at(address.parse().unwrap()).await {
            Ok(server) => server,
            Err(error) => {
                eprintln!("not tried on {address}: {error}");
                continue;
            }
        };
        two.zone().a("a.test", 1, ["10.0.0.1"]);
        assert_eq!(ask(&two, "a.test", A).await.answers.len(), 1);
        assert_eq!(ask_tcp(&two, "a.test", A).await.answers.len(), 1);
        assert_eq!(ask(&one, "a.test", A).await.answers.len(), 0);
    }
}

#[tokio::test]
async fn strange_messages_are_told_so() {
    let server = DnsServer::start().await.unwrap();
    let client = Udp::to(server.address()).await;
    let plain = question("a.test", A);
    let mut update = plain.clone();
    update.metadata.op_code = OpCode::Notify;
    let mut chaos = plain.clone();
    chaos.queries[0].query_class = DNSClass::CH;
    let mut none = plain.clone();
    none.queries.clear();
    let mut two = plain.clone();
    two.queries.push(two.queries[0].clone());
    for (request, code) in [
        (update, ResponseCode::NotImp),
        (chaos, ResponseCode::Refused),
        (none, ResponseCode::FormErr),
        (two, ResponseCode::FormErr),
    ] {
        client.send(&request).await;
        let reply = client.receive().await;
        assert_eq!((reply.id, reply.response_code), (request.id, code));
    }
    let mut torn = plain.to_vec().unwrap();
    torn.pop();
    client.0.send(&torn).await.unwrap();
    let reply = client.receive().await;
    assert_eq!((reply.id, reply.response_code), (plain.id, ResponseCode::FormErr));
    assert_eq!(server.asked(), [""; 0]);
}

#[tokio::test]
async fn answers_and_scraps_are_left_alone() {
    let server = DnsServer::start().await.unwrap();
    let client = Udp::to(server.address()).await;
    let mut response = question("a.test", A);
    response.metadata.message_type = MessageType::Response;
    client.send(&response).await;
    client.0.send(&[]).await.unwrap();
    client.0.send(&[0; 11]).await.unwrap();
    let request = question("b.test", A);
    client.send(&request).await;
    assert_eq!(client.receive().await.id, request.id, "nothing came before");
}

#[tokio::test]
async fn rubbish_does_not_bring_it_down() {
    let server = DnsServer::start().await.unwrap();
    let seed = std::env::var("CAROM_SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("CAROM_SEED={seed}");
    let mut state: u64 = seed;
    let mut random = move || {
        // splitmix64
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) >> 33).unwrap()
    };
    let good = with_edns(question("some.where.test", A), 1232).to_vec().unwrap();
    let client = Udp::to(server.address()).await;
    for round in 0..2000 {
        // Half of them are questions with a few bytes changed, which get further.
        let mut bytes = good.clone();
        if round % 2 == 0 {
            bytes = (0..random() % 200).map(|_| random() as u8).collect();
        }
        for _ in 0..random() % 4 {
            if let Some(at) = random().checked_rem(bytes.len()) {
                bytes[at] = random() as u8;
            }
        }
        client.0.send(&bytes).await.unwrap();
        // Often enough that nothing is lost for want of room.
        if round % 50 == 0 {
            let mut connection = TcpStream::connect(server.address()).await.unwrap();
            // It may close at any byte.
            let _ = connection.write_all(&bytes).await;
            assert_eq!(ask(&server, "a.test", A).await.response_code, ResponseCode::NXDomain);
        }
        while let Ok(length) = client.0.try_recv(&mut [0; 4096]) {
            assert!(length >= 12);
        }
    }
    assert_eq!(ask_tcp(&server, "a.test", A).await.response_code, ResponseCode::NXDomain);
}
