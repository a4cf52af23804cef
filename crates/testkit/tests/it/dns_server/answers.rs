//! What is answered instead of the records.

use super::client::{Tcp, Udp, ask, ask_tcp, question, shown};
use std::io::ErrorKind;
use std::time::Duration;
use testkit::clock::advance;
use testkit::dns::{Answer, DnsServer, Message, RecordType, ResponseCode, Zone};
use tokio::io::AsyncReadExt;
use tokio::net::UdpSocket;

const A: RecordType = RecordType::A;

/// With four addresses at `a.test`, one at `b.test`, and an SOA.
async fn started() -> (DnsServer, Zone) {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.a("a.test", 1, ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]);
    zone.a("b.test", 2, ["10.0.0.5"]);
    zone.soa("test", 60, 6);
    (server, zone)
}

#[tokio::test]
async fn codes_go_out_without_records_and_negative_ones_with_the_soa() {
    let (server, zone) = started().await;
    for (answer, code, soa) in [
        (Answer::FORMERR, ResponseCode::FormErr, false),
        (Answer::SERVFAIL, ResponseCode::ServFail, false),
        (Answer::NXDOMAIN, ResponseCode::NXDomain, true),
        (Answer::NOTIMP, ResponseCode::NotImp, false),
        (Answer::REFUSED, ResponseCode::Refused, false),
        (Answer::Code(ResponseCode::NotAuth), ResponseCode::NotAuth, false),
        (Answer::NoData, ResponseCode::NoError, true),
    ] {
        zone.answer("A.test.", A, answer);
        for reply in [ask(&server, "a.test", A).await, ask_tcp(&server, "a.test", A).await] {
            assert_eq!((reply.response_code, reply.answers.len()), (code, 0));
            assert_eq!(reply.authorities.len(), usize::from(soa));
        }
    }
    zone.answer("a.test", A, Answer::Records);
    assert_eq!(ask(&server, "a.test", A).await.answers.len(), 4);
}

#[tokio::test]
async fn the_closest_answer_counts() {
    let (server, zone) = started().await;
    zone.answer_all(Answer::REFUSED);
    zone.answer("a.test", RecordType::ANY, Answer::SERVFAIL);
    zone.answer("a.test", A, Answer::Records);
    let codes = async |name| {
        let mut codes = Vec::new();
        for kind in [A, RecordType::AAAA] {
            codes.push(ask(&server, name, kind).await.response_code);
        }
        codes
    };
    assert_eq!(codes("a.test").await, [ResponseCode::NoError, ResponseCode::ServFail]);
    assert_eq!(codes("b.test").await, [ResponseCode::Refused, ResponseCode::Refused]);
    zone.answer_all(Answer::Records);
    assert_eq!(codes("c.test").await, [ResponseCode::NXDomain, ResponseCode::NXDomain]);
}

#[tokio::test]
async fn silence_keeps_the_connection_and_delay_holds_up_nobody_else() {
    let (server, zone) = started().await;
    zone.answer("silent.test", A, Answer::Silent);
    let delay = Duration::from_secs(3600);
    zone.answer("slow.test", A, Answer::Records.after(delay));
    let udp = Udp::to(server.address()).await;
    let mut tcp = Tcp::to(server.address()).await;
    let requests = ["silent.test", "slow.test", "b.test"].map(|name| question(name, A));
    for request in &requests {
        udp.send(request).await;
        tcp.send(request).await;
    }
    assert_eq!([udp.receive().await.id, tcp.receive().await.id], [requests[2].id; 2]);
    assert_eq!((server.count("silent.test", A), server.count("slow.test", A)), (2, 2));

    advance(delay).await;
    assert_eq!([udp.receive().await.id, tcp.receive().await.id], [requests[1].id; 2]);
}

#[tokio::test]
async fn truncated_answers_are_marked_and_halved() {
    let (server, zone) = started().await;
    let seen = |reply: Message| (reply.truncation, reply.answers.len());
    zone.answer("a.test", A, Answer::Truncated);
    assert_eq!(seen(ask(&server, "a.test", A).await), (true, 2));
    assert_eq!(seen(ask_tcp(&server, "a.test", A).await), (false, 4));
    zone.answer("a.test", A, Answer::TruncatedEverywhere);
    assert_eq!(seen(ask(&server, "a.test", A).await), (true, 2));
    assert_eq!(seen(ask_tcp(&server, "a.test", A).await), (true, 2));
}

#[tokio::test]
async fn garbage_goes_out_as_given_and_cut_answers_cannot_be_read() {
    let (server, zone) = started().await;
    let udp = Udp::to(server.address()).await;
    let mut tcp = Tcp::to(server.address()).await;
    let request = question("a.test", A);
    for garbage in [vec![], vec![7], vec![0xff; 700]] {
        zone.answer("a.test", A, Answer::Garbage(garbage.clone()));
        udp.send(&request).await;
        tcp.send(&request).await;
        assert_eq!([udp.bytes().await, tcp.bytes().await], [garbage.clone(), garbage]);
    }
    zone.answer("a.test", A, Answer::CutShort);
    udp.send(&request).await;
    tcp.send(&request).await;
    for bytes in [udp.bytes().await, tcp.bytes().await] {
        assert_eq!(bytes[..2], request.id.to_be_bytes());
        assert!(Message::from_vec(&bytes).is_err());
    }
}

#[tokio::test]
async fn wrong_ids_questions_and_sources_are_wrong_in_that_alone() {
    let (server, zone) = started().await;
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let request = question("a.test", A);
    for (answer, right_id, right_question, right_source) in [
        (Answer::Records, true, true, true),
        (Answer::WrongId, false, true, true),
        (Answer::WrongQuestion, true, false, true),
        (Answer::WrongSource, true, true, false),
    ] {
        zone.answer("a.test", A, answer);
        client.send_to(&request.to_vec().unwrap(), server.address()).await.unwrap();
        let mut bytes = [0; 512];
        let (length, source) = client.recv_from(&mut bytes).await.unwrap();
        let reply = Message::from_vec(&bytes[..length]).unwrap();
        assert_eq!(reply.id == request.id, right_id);
        assert_eq!(reply.queries == request.queries, right_question);
        assert_eq!(source == server.address(), right_source);
        assert_eq!(reply.answers.len(), 4);
    }
    assert_eq!(ask_tcp(&server, "a.test", A).await.answers.len(), 4, "there is no other source");
}

#[tokio::test]
async fn a_connection_can_be_closed_instead() {
    let (server, zone) = started().await;
    zone.answer("a.test", A, Answer::CloseTcp);
    assert!(ask(&server, "a.test", A).await.truncation);
    let mut client = Tcp::to(server.address()).await;
    client.send(&question("b.test", A)).await;
    client.send(&question("a.test", A)).await;
    assert_eq!(client.receive().await.answers.len(), 1);
    match client.0.read(&mut [0]).await {
        Ok(length) => assert_eq!(length, 0),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    assert_eq!(ask_tcp(&server, "b.test", A).await.answers.len(), 1, "others are served");
}

#[tokio::test]
async fn answers_can_be_counted_told_apart_by_transport_sent_together_and_edited() {
    let (server, zone) = started().await;
    zone.answer("a.test", A, Answer::SERVFAIL.times(2, Answer::REFUSED.times(1, Answer::Records)));
    let mut codes = Vec::new();
    for _ in 0..5 {
        codes.push(ask(&server, "a.test", A).await.response_code);
    }
    use ResponseCode::{NoError, Refused, ServFail};
    assert_eq!(codes, [ServFail, ServFail, Refused, NoError, NoError]);

    zone.answer("a.test", A, Answer::over(Answer::Truncated, Answer::SERVFAIL));
    assert!(ask(&server, "a.test", A).await.truncation);
    assert_eq!(ask_tcp(&server, "a.test", A).await.response_code, ServFail);

    zone.answer("a.test", A, Answer::Each(vec![Answer::WrongId, Answer::Records]));
    let client = Udp::to(server.address()).await;
    let request = question("a.test", A);
    client.send(&request).await;
    assert_ne!(client.receive().await.id, request.id);
    assert_eq!(client.receive().await.id, request.id);

    zone.answer("a.test", A, Answer::edited(|message| message.answers.reverse()));
    let reply = ask(&server, "a.test", A).await;
    assert_eq!(shown(&reply.answers)[0], "a.test. 1 10.0.0.4");
}
