//! What the records say: presence, absence, aliases, additional addresses, and what does not fit.

use super::client::{Tcp, Udp, ask, ask_tcp, question, shown, with_edns};
use std::net::Ipv4Addr;
use testkit::dns::{DnsServer, Message, RecordType, ResponseCode};

#[tokio::test]
async fn records_of_every_kind_are_answered_over_udp_and_tcp() {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.srv("_http._tcp.api.test", 30, [(1, 2, 8080, "a.api.test"), (3, 4, 81, "b.api.test.")]);
    zone.a("a.api.test", 0, [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 1)]);
    zone.aaaa("a.api.test.", 86400, ["2001:db8::1"]);
    zone.txt("api.test", 5, ["one", "two"]);
    let expected = [
        (
            "_http._tcp.api.test",
            RecordType::SRV,
            vec!["_http._tcp.api.test. 30 1 2 8080 a.api.test.", "_http._tcp.api.test. 30 3 4 81 b.api.test."],
        ),
        ("a.api.test", RecordType::A, vec!["a.api.test. 0 10.0.0.1", "a.api.test. 0 10.0.0.1"]),
        ("a.api.test", RecordType::AAAA, vec!["a.api.test. 86400 2001:db8::1"]),
        ("api.test", RecordType::TXT, vec!["api.test. 5 one", "api.test. 5 two"]),
    ];
    for (name, kind, records) in expected {
        for reply in [ask(&server, name, kind).await, ask_tcp(&server, name, kind).await] {
            assert_eq!(shown(&reply.answers), records);
            assert_eq!(reply.response_code, ResponseCode::NoError);
            assert!(reply.recursion_desired && reply.recursion_available && !reply.truncation);
            assert!(reply.authorities.is_empty() && reply.additionals.is_empty() && reply.edns.is_none());
        }
    }
    assert_eq!(ask(&server, "a.api.test", RecordType::ANY).await.answers.len(), 3);
}

#[tokio::test]
async fn absence_is_of_the_name_or_of_the_kind() {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.srv("_http._tcp.api.test", 30, [(0, 0, 80, "a.api.test")]);
    zone.a("a.api.test", 30, ["10.0.0.1"]);
    zone.aaaa("b.api.test", 30, [""; 0]);
    zone.name("c.api.test");
    let absences = [
        ("nobody.test", ResponseCode::NXDomain),
        ("below.a.api.test", ResponseCode::NXDomain),
        ("pi.test", ResponseCode::NXDomain),
        ("a.api.test", ResponseCode::NoError),
        ("b.api.test", ResponseCode::NoError),
        ("c.api.test", ResponseCode::NoError),
        // These exist for what is below them.
        ("_tcp.api.test", ResponseCode::NoError),
        ("api.test", ResponseCode::NoError),
        ("test", ResponseCode::NoError),
    ];
    for (name, code) in absences {
        let reply = ask(&server, name, RecordType::AAAA).await;
        assert_eq!(reply.response_code, code, "{name}");
        assert_eq!(reply.all_sections().count(), 0, "{name}");
    }
}

#[tokio::test]
async fn absences_carry_the_soa_of_the_closest_zone_that_has_one() {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.a("a.api.test", 30, ["10.0.0.1"]);
    zone.soa("test", 900, 5);
    zone.soa("api.test", 7, 70);
    for (name, code, soa) in [
        ("b.test", ResponseCode::NXDomain, vec!["test. 900 SOA 5"]),
        ("b.api.test", ResponseCode::NXDomain, vec!["api.test. 7 SOA 70"]),
        ("a.api.test", ResponseCode::NoError, vec!["api.test. 7 SOA 70"]),
        ("test", ResponseCode::NoError, vec!["test. 900 SOA 5"]),
        ("elsewhere", ResponseCode::NXDomain, vec![]),
    ] {
        let reply = ask(&server, name, RecordType::SRV).await;
        assert_eq!(
            (reply.response_code, shown(&reply.authorities)),
            (code, soa.into_iter().map(String::from).collect())
        );
        assert!(reply.answers.is_empty());
    }
    assert_eq!(ask(&server, "a.api.test", RecordType::A).await.authorities, []);
    assert_eq!(shown(&ask(&server, "test", RecordType::SOA).await.answers), ["test. 900 SOA 5"]);
}

#[tokio::test]
async fn changes_hold_from_the_next_question_on() {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.a("a.test", 1, ["10.0.0.1"]);
    zone.aaaa("a.test", 1, ["::1"]);
    assert_eq!(shown(&ask(&server, "a.test", RecordType::A).await.answers), ["a.test. 1 10.0.0.1"]);
    zone.clone().a("A.test", 2, ["10.0.0.2"]);
    assert_eq!(shown(&ask(&server, "a.test", RecordType::A).await.answers), ["a.test. 2 10.0.0.2"]);
    zone.remove("a.test", RecordType::A);
    assert_eq!(ask(&server, "a.test", RecordType::A).await.response_code, ResponseCode::NoError);
    zone.remove("a.test", RecordType::AAAA);
    assert_eq!(ask(&server, "a.test", RecordType::A).await.response_code, ResponseCode::NXDomain);
    zone.a("a.test", 3, ["10.0.0.3"]);
    zone.remove("a.test", RecordType::ANY);
    assert_eq!(ask(&server, "a.test", RecordType::A).await.response_code, ResponseCode::NXDomain);
}

#[tokio::test]
async fn spelling_does_not_matter_and_comes_back() {
    let server = DnsServer::start().await.unwrap();
    server.zone().a("a.Api.test", 1, ["10.0.0.1"]);
    let reply = ask(&server, "A.aPi.TeSt", RecordType::A).await;
    assert_eq!(reply.queries[0].name.to_ascii(), "A.aPi.TeSt.");
    assert_eq!(shown(&reply.answers), ["A.aPi.TeSt. 1 10.0.0.1"]);
    let reply = ask(&server, "NoBody.test", RecordType::A).await;
    assert_eq!(
        (reply.response_code, reply.queries[0].name.to_ascii().as_str()),
        (ResponseCode::NXDomain, "NoBody.test.")
    );
    assert_eq!(server.asked(), ["a.api.test A", "nobody.test A"]);
}

#[tokio::test]
async fn services_carry_the_addresses_of_their_targets_if_told_to() {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.srv("_x._tcp.test", 9, [(0, 0, 1, "a.test"), (0, 0, 2, "a.test"), (0, 0, 1, "b.test"), (0, 0, 1, "c.test")]);
    zone.a("a.test", 1, ["10.0.0.1", "10.0.0.2"]);
    zone.aaaa("a.test", 2, ["::2"]);
    zone.aaaa("b.test", 3, ["::3"]);
    assert_eq!(ask(&server, "_x._tcp.test", RecordType::SRV).await.additionals, []);
    zone.additionals(true);
    let reply = ask(&server, "_x._tcp.test", RecordType::SRV).await;
    assert_eq!(reply.answers.len(), 4);
    assert_eq!(
        shown(&reply.additionals),
        ["a.test. 1 10.0.0.1", "a.test. 1 10.0.0.2", "a.test. 2 ::2", "b.test. 3 ::3"]
    );
    zone.additionals(false);
    assert_eq!(ask(&server, "_x._tcp.test", RecordType::SRV).await.additionals, []);
}

#[tokio::test]
async fn aliases_are_followed_as_far_as_the_records_go() {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.soa("test", 60, 6);
    zone.cname("www.test", 1, "web.test");
    zone.cname("web.test", 2, "a.test");
    zone.a("a.test", 3, ["10.0.0.1"]);
    let reply = ask(&server, "www.test", RecordType::A).await;
    assert_eq!(shown(&reply.answers), ["www.test. 1 web.test.", "web.test. 2 a.test.", "a.test. 3 10.0.0.1"]);
    assert_eq!(shown(&ask(&server, "www.test", RecordType::CNAME).await.answers), ["www.test. 1 web.test."]);

    let reply = ask(&server, "web.test", RecordType::AAAA).await;
    assert_eq!(
        (reply.response_code, shown(&reply.answers)),
        (ResponseCode::NoError, vec!["web.test. 2 a.test.".into()])
    );
    assert_eq!(shown(&reply.authorities), ["test. 60 SOA 6"]);

    zone.cname("lost.test", 4, "nobody.invalid");
    let reply = ask(&server, "lost.test", RecordType::A).await;
    assert_eq!(reply.response_code, ResponseCode::NXDomain);
    assert_eq!(shown(&reply.answers), ["lost.test. 4 nobody.invalid."]);
    assert_eq!(reply.authorities, []);

    zone.cname("one.test", 5, "two.test");
    zone.cname("two.test", 6, "one.test");
    let reply = ask(&server, "one.test", RecordType::A).await;
    assert_eq!(reply.response_code, ResponseCode::NoError);
    assert_eq!(shown(&reply.answers), ["one.test. 5 two.test.", "two.test. 6 one.test."]);
}

#[tokio::test]
async fn what_does_not_fit_is_cut_over_udp_and_whole_over_tcp() {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.a("a.test", 1, (0..100).map(|last| Ipv4Addr::new(10, 0, 0, last)));
    let client = Udp::to(server.address()).await;
    // 16 bytes each, after 12 of header, 12 of question and 11 of EDNS0.
    for (request, fits) in [
        (question("a.test", RecordType::A), false),
        (with_edns(question("a.test", RecordType::A), 0), false),
        (with_edns(question("a.test", RecordType::A), 1232), false),
        (with_edns(question("a.test", RecordType::A), 1634), false),
        (with_edns(question("a.test", RecordType::A), 1635), true),
        (with_edns(question("a.test", RecordType::A), 4096), true),
    ] {
        client.send(&request).await;
        let bytes = client.bytes().await;
        let reply = Message::from_vec(&bytes).unwrap();
        assert!(bytes.len() <= usize::from(request.max_payload()));
        assert_eq!((reply.truncation, reply.answers.len() == 100), (!fits, fits), "{}", bytes.len());
        assert_eq!(reply.edns.is_some(), request.edns.is_some());
        assert!(!reply.answers.is_empty(), "a part of the answer goes out");
    }
    let reply = ask_tcp(&server, "a.test", RecordType::A).await;
    assert_eq!((reply.truncation, reply.answers.len()), (false, 100));
}

#[tokio::test]
async fn additional_records_that_do_not_fit_are_left_out_unmarked() {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.additionals(true);
    zone.srv("_x._tcp.test", 9, [(0, 0, 1, "a.test")]);
    zone.a("a.test", 1, (0..100).map(|last| Ipv4Addr::new(10, 0, 0, last)));
    let reply = ask(&server, "_x._tcp.test", RecordType::SRV).await;
    assert_eq!((reply.truncation, reply.answers.len(), reply.additionals.len()), (false, 1, 0));
    let reply = ask_tcp(&server, "_x._tcp.test", RecordType::SRV).await;
    assert_eq!((reply.truncation, reply.answers.len(), reply.additionals.len()), (false, 1, 100));
}

#[tokio::test]
async fn past_the_limit_of_the_protocol_tcp_is_cut_too() {
    let server = DnsServer::start().await.unwrap();
    server.zone().txt("big.test", 1, (0..400).map(|n| format!("{n:0200}")));
    let mut client = Tcp::to(server.address()).await;
    client.send(&with_edns(question("big.test", RecordType::TXT), 1232)).await;
    let reply = client.receive().await;
    assert_eq!((reply.truncation, reply.answers.len(), reply.edns.is_some()), (true, 200, true));
}
