//! What each answer of a nameserver leads to, from the wire to the set of backends.

use carom::dns::{Dns, DnsError, DnsOptions, Ipv6, Kind, Reason};
use carom::resolver::{Resolution, Resolver, ResolverState, Via};
use carom::{Policy, Recovery};
use std::net::SocketAddr;
use std::time::Duration;
use testkit::clock::advance;
use testkit::dns::{Answer, DnsServer, Message, Name, Over, RecordType, ResponseCode, Zone};
use testkit::skip;
use testkit::wait::{LIMIT, ms, soon};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::yield_now;
use tokio::time::timeout;

const SRV: &str = "_http._tcp.api.test";

/// Longer than any test takes: the clock is moved past it.
const HOUR: Duration = Duration::from_secs(3600);

/// Two attempts, a tenth of a second apart at most, and no chance.
fn policy() -> Policy {
    Policy::default().attempts(2).timeout(ms(2000)).max_timeout(ms(2000)).delay(ms(10)).max_delay(ms(100)).spread(0.0)
}

/// As [`policy`], for nameservers that are meant to be silent.
fn impatient() -> Policy {
    policy().timeout(ms(150)).max_timeout(ms(150))
}

/// As [`policy`], with less time for what ends only when that is over: least for what never comes, and more for what has to come
/// in time to be told. A slow machine takes some of it.
fn impatient_with(answer: &Answer) -> Policy {
    match answer {
        Answer::Silent | Answer::WrongSource => impatient(),
        Answer::WrongId | Answer::WrongQuestion | Answer::CutShort | Answer::Garbage(_) => {
            policy().timeout(ms(600)).max_timeout(ms(600))
        }
        _ => policy(),
    }
}

/// What is known for 0 s is asked for every 50 ms.
fn options(servers: impl IntoIterator<Item = SocketAddr>) -> DnsOptions {
    let options = DnsOptions::default().nameservers(servers).recovery(policy()).min_ttl(ms(50)).ipv6(Ipv6::Never);
    options.hosts("/nonexistent/hosts").resolv_conf("/nonexistent/resolv.conf")
}

fn start(service: &str, options: DnsOptions) -> Resolver {
    Resolver::start(Dns::new(service, options).unwrap()).unwrap()
}

async fn server() -> (DnsServer, Zone) {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.soa("test", 0, 0);
    (server, zone)
}

/// A server where `api.test` is at 10.0.0.1, and a resolver that knows it.
async fn known(policy: Policy) -> (DnsServer, Zone, Resolver) {
    let (server, zone) = server().await;
    zone.a("api.test", 0, ["10.0.0.1"]);
    let resolver = start("api.test", options([server.address()]).recovery(policy));
    running(&resolver, &["10.0.0.1:80"]).await;
    (server, zone, resolver)
}

fn addresses(resolution: &Resolution) -> Vec<String> {
    resolution.backends.iter().map(|backend| backend.socket_addr().to_string()).collect()
}

/// Waits until it serves exactly these, without any doubt.
async fn running(resolver: &Resolver, wanted: &[&str]) -> Resolution {
    let fresh = |known: &Resolution| {
        known.state == ResolverState::Running && known.stale_since.is_none() && addresses(known) == wanted
    };
    match timeout(LIMIT, resolver.wait_until(fresh)).await {
        Ok(known) => known.unwrap(),
        Err(_) => panic!("wanted {wanted:?}, known {:?}", resolver.resolution()),
    }
}

async fn failed(resolver: &Resolver) -> String {
    let known = soon(resolver.wait_for(ResolverState::Failed)).await.unwrap();
    known.last_error.expect("a failure has a cause").to_string()
}

async fn stale(resolver: &Resolver) -> Resolution {
    soon(resolver.wait_until(|known| known.stale_since.is_some())).await.unwrap()
}

// The table, row by row.

#[tokio::test]
async fn addresses_are_asked_for_again_after_their_ttl() {
    let (server, zone, resolver) = known(policy()).await;
    let detail = resolver.resolution().details[0];
    assert_eq!((detail.ttl, detail.via), (Duration::ZERO, Via::Domain));
    zone.a("api.test", 0, ["10.0.0.2", "10.0.0.3", "10.0.0.2"]);
    running(&resolver, &["10.0.0.2:80", "10.0.0.3:80"]).await;
    assert_eq!(server.count("api.test", RecordType::AAAA), 0, "nobody asks for what is of no use");
}

#[tokio::test]
async fn trouble_and_silence_leave_the_set_as_it_was_and_stale() {
    let trouble = [
        (Answer::SERVFAIL, "SERVFAIL from"),
        (Answer::REFUSED, "REFUSED from"),
        (Answer::NOTIMP, "NOTIMP from"),
        (Answer::FORMERR, "FORMERR from"),
        (Answer::NXDOMAIN, "NXDOMAIN from"),
        (Answer::NoData, "no A records from"),
        (Answer::Silent, "no answer from"),
        (Answer::WrongId, "another id"),
        (Answer::WrongQuestion, "an answer to another question"),
        (Answer::CutShort, "unreadable answer from"),
        (Answer::Garbage(vec![7; 40]), "another id"),
        (Answer::WrongSource, "no answer from"),
        (Answer::TruncatedEverywhere, "cut short even over TCP"),
        (Answer::Code(ResponseCode::YXDomain), "code 6"),
    ];
    for (answer, said) in trouble {
        let (server, zone, resolver) = known(impatient_with(&answer).attempts(1)).await;
        zone.answer("api.test", RecordType::A, answer);
        let known = stale(&resolver).await;
        assert_eq!(
            (known.state, addresses(&known)),
            (ResolverState::Running, vec!["10.0.0.1:80".to_owned()]),
            "{said}"
        );
        let error = known.last_error.expect("it says why").to_string();
        assert!(error.starts_with("cannot resolve `api.test`: A api.test: ") && error.contains(said), "{error}");
        assert!(error.contains(&server.address().to_string()), "{error}");
        zone.answer("api.test", RecordType::A, Answer::Records);
        let known = running(&resolver, &["10.0.0.1:80"]).await;
        assert!(known.last_error.is_none());
    }
}

#[tokio::test]
async fn a_name_without_addresses_fails_at_once_and_is_found_when_it_has_some() {
    for (answer, said) in [(Answer::NXDOMAIN, "NXDOMAIN from"), (Answer::NoData, "no A records from")] {
        let (server, zone) = server().await;
        zone.a("api.test", 0, ["10.0.0.1"]);
        zone.answer("api.test", RecordType::A, answer);
        let resolver = start("api.test", options([server.address()]));
        let error = failed(&resolver).await;
        assert!(error.ends_with(&format!("A api.test: {said} {}", server.address())), "{error}");
        zone.answer("api.test", RecordType::A, Answer::Records);
        running(&resolver, &["10.0.0.1:80"]).await;
    }
}

#[tokio::test]
async fn attempts_are_made_where_they_may_help() {
    // Codes that may mean that EDNS0 is not known are asked about twice each time.
    for (answer, questions) in [
        (Answer::REFUSED, 1),
        (Answer::NXDOMAIN, 1),
        (Answer::SERVFAIL, 2),
        (Answer::NOTIMP, 4),
        (Answer::FORMERR, 4),
        (Answer::Silent, 2),
    ] {
        let (server, zone) = server().await;
        zone.soa("test", 3600, 3600);
        zone.answer_all(answer.clone());
        let recovery = impatient_with(&answer).max_delay(Duration::from_secs(60));
        let options = options([server.address()]).recovery(recovery);
        failed(&start("api.test", options)).await;
        assert_eq!(server.count("api.test", RecordType::A), questions, "{answer:?}");
    }
}

#[tokio::test]
async fn a_failure_that_passes_within_the_attempts_is_none() {
    let (server, zone) = server().await;
    zone.a("api.test", 60, ["10.0.0.1"]);
    zone.answer("api.test", RecordType::A, Answer::SERVFAIL.times(1, Answer::Records));
    let resolver = start("api.test", options([server.address()]));
    let known = soon(resolver.wait_until(|known| known.state != ResolverState::Starting)).await.unwrap();
    assert_eq!((known.state, known.last_error.is_none()), (ResolverState::Running, true));
}

#[tokio::test]
async fn a_negative_answer_holds_for_the_lower_of_ttl_and_minimum() {
    let check = async |ttl, minimum| {
        let (server, zone) = server().await;
        zone.soa("test", ttl, minimum);
        let _resolver = start("api.test", options([server.address()]));
        soon(server.until(|server| server.count("api.test", RecordType::A) == 2)).await;
        let asked = server.questions();
        let between = asked[1].at - asked[0].at;
        assert!(between >= ms(990), "{between:?}");
    };
    tokio::join!(check(900, 1), check(1, 900));
}

#[tokio::test]
async fn targets_have_ports_priorities_weights_and_their_own_ttl() {
    let (server, zone) = server().await;
    zone.srv(SRV, 30, [(20, 5, 8080, "b.api.test"), (10, 1, 8081, "A.api.test"), (10, 1, 8081, "a.api.test")]);
    zone.a("a.api.test", 60, ["10.0.0.1"]);
    zone.a("b.api.test", 70, ["10.0.0.2"]);
    let resolver = start("_http._tcp.api.test:99", options([server.address()]));
    let known = running(&resolver, &["10.0.0.1:8081", "10.0.0.2:8080"]).await;
    let of = |i: usize| (known.backends[i].priority(), known.backends[i].weight(), known.backends[i].name());
    assert_eq!((of(0), of(1)), ((10, 1, "a.api.test"), (20, 5, "b.api.test")));
    assert_eq!(known.details[1].ttl, Duration::from_secs(70));
    assert!(known.details.iter().all(|detail| detail.via == Via::Srv) && known.complete);
    assert_eq!(server.questions().len(), 3, "{:?}", server.asked());
}

#[tokio::test]
async fn a_service_without_records_is_at_the_addresses_of_its_domain_until_it_has_some() {
    for answer in [Answer::NXDOMAIN, Answer::NoData] {
        let (server, zone) = server().await;
        zone.a("api.test", 60, ["10.0.0.1"]);
        zone.a("a.api.test", 60, ["10.0.0.2"]);
        zone.answer(SRV, RecordType::SRV, answer);
        let resolver = start("_http._tcp.api.test:99", options([server.address()]));
        let known = running(&resolver, &["10.0.0.1:99"]).await;
        assert!(known.last_error.is_none(), "that there are no SRV records is no trouble");
        zone.srv(SRV, 0, [(0, 0, 8080, "a.api.test")]);
        zone.answer(SRV, RecordType::SRV, Answer::Records);
        running(&resolver, &["10.0.0.2:8080"]).await;
        // And back again.
        zone.answer(SRV, RecordType::SRV, Answer::NXDOMAIN);
        running(&resolver, &["10.0.0.1:99"]).await;
    }
}

#[tokio::test]
async fn a_service_in_trouble_that_never_worked_is_at_its_domain_and_not_asked_for_again_soon() {
    for (answer, questions) in [(Answer::NOTIMP, 2), (Answer::SERVFAIL, 2), (Answer::REFUSED, 1), (Answer::Silent, 2)] {
        let (server, zone) = server().await;
        zone.a("api.test", 0, ["10.0.0.1"]);
        zone.answer(SRV, RecordType::SRV, answer.clone());
        let resolver = start(SRV, options([server.address()]).recovery(impatient_with(&answer)));
        let told_of = !matches!(answer, Answer::Code(ResponseCode::NotImp));
        let known = running(&resolver, &["10.0.0.1:80"]).await;
        assert_eq!(known.last_error.is_some(), told_of, "{answer:?}");
        // The addresses come and go with their own TTL; SRV rests.
        soon(server.until(|server| server.count("api.test", RecordType::A) >= 5)).await;
        assert_eq!(server.count(SRV, RecordType::SRV), questions, "{answer:?}");
    }
}

#[tokio::test]
async fn a_service_that_worked_keeps_its_targets_in_trouble() {
    for answer in [Answer::SERVFAIL, Answer::REFUSED, Answer::Silent, Answer::WrongQuestion] {
        let (server, zone) = server().await;
        zone.srv(SRV, 0, [(0, 0, 8080, "a.api.test")]);
        zone.a("a.api.test", 0, ["10.0.0.2"]);
        zone.a("api.test", 0, ["10.0.0.1"]);
        let resolver = start(SRV, options([server.address()]).recovery(impatient()));
        running(&resolver, &["10.0.0.2:8080"]).await;
        zone.answer(SRV, RecordType::SRV, answer);
        let known = stale(&resolver).await;
        assert_eq!(addresses(&known), ["10.0.0.2:8080"]);
        assert_eq!(server.count("api.test", RecordType::A), 0);
        // Meanwhile the addresses of the targets are followed.
        zone.a("a.api.test", 0, ["10.0.0.3"]);
        soon(resolver.wait_until(|known| addresses(known) == ["10.0.0.3:8080"])).await.unwrap();
        zone.answer(SRV, RecordType::SRV, Answer::Records);
        running(&resolver, &["10.0.0.3:8080"]).await;
    }
}

#[tokio::test]
async fn what_is_not_offered_is_an_error_that_says_so_and_no_reason_to_ask_for_addresses() {
    let (server, zone) = server().await;
    zone.srv(SRV, 0, [(0, 0, 0, ".")]);
    zone.a("api.test", 60, ["10.0.0.1"]);
    zone.a("a.api.test", 60, ["10.0.0.2"]);
    let resolver = start(SRV, options([server.address()]));
    let error = failed(&resolver).await;
    assert!(
        error.ends_with(&format!("not offered, as {} says (the target is the root, or the port 0)", server.address())),
        "{error}"
    );
    assert_eq!(server.count("api.test", RecordType::A), 0);
    zone.srv(SRV, 0, [(0, 0, 8080, "a.api.test"), (0, 0, 0, ".")]);
    running(&resolver, &["10.0.0.2:8080"]).await;
    zone.srv(SRV, 0, [(0, 0, 0, ".")]);
    assert_eq!(addresses(&stale(&resolver).await), ["10.0.0.2:8080"], "a set is not emptied");
}

#[tokio::test]
async fn both_families_are_asked_for_and_one_is_enough() {
    for (answer, questions, told_of) in [
        (Answer::NoData, 1, false),
        (Answer::NXDOMAIN, 1, false),
        (Answer::NOTIMP, 2, false),
        (Answer::REFUSED, 1, true),
        (Answer::SERVFAIL, 2, true),
        (Answer::Silent, 2, true),
    ] {
        let (server, zone) = server().await;
        zone.soa("test", 3600, 3600);
        zone.a("api.test", 0, ["10.0.0.1"]);
        zone.answer("api.test", RecordType::AAAA, answer.clone());
        let options = options([server.address()]).ipv6(Ipv6::Always).recovery(impatient_with(&answer));
        let resolver = start("api.test", options);
        soon(resolver.wait_until(|known| known.complete && addresses(known) == ["10.0.0.1:80"])).await.unwrap();
        soon(server.until(|server| server.count("api.test", RecordType::A) >= 8)).await;
        if told_of {
            soon(resolver.wait_until(|known| known.last_error.is_some())).await.unwrap();
        }
        // Once more if it ended before A had an answer.
        let asked = server.count("api.test", RecordType::AAAA);
        assert!(asked == questions || told_of && asked == 2 * questions, "{answer:?}: {asked}");
        assert_eq!(resolver.last_error().is_some(), told_of, "{answer:?}: {:?}", resolver.last_error());
    }
    let (server, zone) = server().await;
    zone.a("api.test", 0, ["10.0.0.1"]);
    zone.aaaa("api.test", 0, ["2001:db8::1"]);
    let resolver = start("api.test:443", options([server.address()]).ipv6(Ipv6::Always));
    running(&resolver, &["[2001:db8::1]:443", "10.0.0.1:443"]).await;
    zone.remove("api.test", RecordType::AAAA);
    running(&resolver, &["10.0.0.1:443"]).await;
}

// How questions and answers travel.

#[tokio::test]
async fn questions_go_over_udp_with_edns0_and_recursion() {
    let (server, zone) = server().await;
    zone.a("api.test", 60, ["10.0.0.1"]);
    running(&start("api.test", options([server.address()])), &["10.0.0.1:80"]).await;
    let asked = server.questions();
    assert_eq!((asked.len(), asked[0].over, asked[0].edns), (1, Over::Udp, Some(1232)));
}

#[tokio::test]
async fn what_does_not_fit_is_asked_for_over_tcp() {
    let (server, zone) = server().await;
    let many: Vec<_> = (0..500).map(|i| format!("10.1.{}.{}", i / 250, i % 250)).collect();
    zone.a("api.test", 60, &many);
    let resolver = start("api.test", options([server.address()]));
    let known = soon(resolver.wait_for(ResolverState::Running)).await.unwrap();
    assert_eq!(known.backends.len(), 500);
    let over: Vec<_> = server.questions().iter().map(|question| question.over).collect();
    assert_eq!(over, [Over::Udp, Over::Tcp]);
}

#[tokio::test]
async fn an_answer_cut_in_the_middle_of_a_record_is_asked_for_over_tcp() {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let udp = UdpSocket::bind(tcp.local_addr().unwrap()).await.unwrap();
    let resolver = start("api.test", options([tcp.local_addr().unwrap()]));
    let serve = async {
        let mut question = [0; 512];
        let (length, client) = udp.recv_from(&mut question).await.unwrap();
        let mut answer = answer_of(&question[..length], 60);
        answer[2] |= 0x02;
        udp.send_to(&answer[..answer.len() - 15], client).await.unwrap();
        let (mut stream, _) = tcp.accept().await.unwrap();
        let length = stream.read_u16().await.unwrap();
        stream.read_exact(&mut question[..usize::from(length)]).await.unwrap();
        let answer = answer_of(&question[..usize::from(length)], 60);
        stream.write_u16(answer.len() as u16).await.unwrap();
        stream.write_all(&answer).await.unwrap();
    };
    soon(serve).await;
    running(&resolver, &["10.0.0.1:80"]).await;
}

/// An answer with one address, by hand.
fn answer_of(question: &[u8], ttl: u32) -> Vec<u8> {
    use hickory_proto::rr::{RData, Record, rdata::A};
    let question = Message::from_vec(question).unwrap();
    let mut answer = Message::response(question.id, question.op_code);
    let name = question.queries[0].name.clone();
    answer.queries = question.queries.clone();
    answer.answers = vec![Record::from_rdata(name, ttl, RData::A(A::new(10, 0, 0, 1)))];
    answer.to_vec().unwrap()
}

#[tokio::test]
async fn a_nameserver_that_does_not_know_edns0_is_asked_without() {
    let bare = Answer::edited(|message| {
        message.metadata.response_code = ResponseCode::FormErr;
        message.queries.clear();
        message.answers.clear();
        message.edns = None;
    });
    for refusal in [Answer::FORMERR, Answer::NOTIMP, bare] {
        let (server, zone) = server().await;
        zone.a("api.test", 60, ["10.0.0.1"]);
        zone.answer("api.test", RecordType::A, refusal.times(1, Answer::Records));
        let known = running(&start("api.test", options([server.address()])), &["10.0.0.1:80"]).await;
        assert!(known.last_error.is_none());
        let edns: Vec<_> = server.questions().iter().map(|question| question.edns).collect();
        assert_eq!(edns, [Some(1232), None]);
    }
}

#[tokio::test]
async fn a_connection_that_is_closed_or_silent_is_a_failure() {
    for tcp in [Answer::CloseTcp, Answer::Silent, Answer::CutShort, Answer::WrongId, Answer::Garbage(vec![0; 3])] {
        let (server, zone) = server().await;
        zone.a("api.test", 60, ["10.0.0.1", "10.0.0.2"]);
        zone.answer("api.test", RecordType::A, Answer::over(Answer::Truncated, tcp.clone()));
        let resolver = start("api.test", options([server.address()]).recovery(impatient()));
        let error = failed(&resolver).await;
        assert!(error.contains(&server.address().to_string()), "{tcp:?}: {error}");
        zone.answer("api.test", RecordType::A, Answer::Records);
        running(&resolver, &["10.0.0.1:80", "10.0.0.2:80"]).await;
    }
}

#[tokio::test]
async fn what_is_no_answer_is_passed_over_and_the_answer_after_it_is_taken() {
    for noise in [
        Answer::WrongId,
        Answer::WrongQuestion,
        Answer::WrongSource,
        Answer::CutShort,
        Answer::Garbage(vec![]),
        Answer::Garbage(vec![0; 4]),
        Answer::Garbage(vec![255; 2000]),
    ] {
        let (server, zone) = server().await;
        zone.a("api.test", 60, ["10.0.0.1"]);
        zone.answer("api.test", RecordType::A, Answer::Each(vec![noise.clone(), noise, Answer::Records]));
        let known = running(&start("api.test", options([server.address()])), &["10.0.0.1:80"]).await;
        assert!(known.last_error.is_none());
        assert_eq!(server.questions().len(), 1, "one question was enough");
    }
}

#[tokio::test]
async fn addresses_that_come_along_save_questions() {
    let (server, zone) = server().await;
    zone.additionals(true);
    zone.srv(SRV, 60, [(0, 0, 8080, "a.api.test"), (0, 0, 8080, "b.api.test")]);
    zone.a("a.api.test", 40, ["10.0.0.1"]);
    let resolver = start(SRV, options([server.address()]).ipv6(Ipv6::Never));
    let error = soon(resolver.wait_until(|known| known.complete && known.last_error.is_some())).await.unwrap();
    assert_eq!(addresses(&error), ["10.0.0.1:8080"]);
    assert_eq!(error.details[0].via, Via::Additional);
    assert_eq!(error.details[0].ttl, Duration::from_secs(40), "the lowest of all that came together");
    assert_eq!(server.count("a.api.test", RecordType::A) + server.count("a.api.test", RecordType::AAAA), 0);
    assert!(server.count("b.api.test", RecordType::A) > 0);
}

#[tokio::test]
async fn additional_records_that_had_no_room_are_asked_for() {
    let (server, zone) = server().await;
    zone.additionals(true);
    let names: Vec<String> = (1..17).map(|i| format!("t{i}.api.test")).collect();
    zone.srv(SRV, 60, names.iter().map(|name| (0, 0, 8080, name)));
    let mut expected = Vec::new();
    for (name, i) in names.iter().zip(1..) {
        zone.a(name, 60, [format!("10.0.0.{i}")]);
        zone.aaaa(name, 60, [format!("2001:db8::{i:x}")]);
        expected.extend([format!("[2001:db8::{i:x}]:8080"), format!("10.0.0.{i}:8080")]);
    }
    // The server leaves out what does not fit into a datagram, without a word.
    let resolver = start(SRV, options([server.address()]).ipv6(Ipv6::Always));
    let known = resolver.wait_until(|known| known.complete && known.state == ResolverState::Running).await.unwrap();
    let mut found: Vec<_> = known.backends.iter().map(|backend| backend.socket_addr().to_string()).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    let asked = server.questions().len();
    assert!(asked > 1, "they do not fit into one datagram");
}

#[tokio::test]
async fn additional_records_of_others_are_left_alone() {
    let (server, zone) = server().await;
    zone.additionals(true);
    zone.srv(SRV, 60, [(0, 0, 8080, "a.api.test")]);
    zone.a("a.api.test", 60, ["10.0.0.1"]);
    let stray = Answer::edited(|message| {
        for record in &mut message.additionals {
            record.name = Name::from_ascii("evil.test.").unwrap();
        }
    });
    zone.answer(SRV, RecordType::SRV, stray);
    let known = running(&start(SRV, options([server.address()])), &["10.0.0.1:8080"]).await;
    assert_eq!(known.details[0].via, Via::Srv);
}

#[tokio::test]
async fn spelling_does_not_matter() {
    let (server, zone) = server().await;
    zone.srv(SRV, 60, [(0, 0, 8080, "A.Api.TEST")]);
    zone.a("a.api.test", 60, ["10.0.0.1"]);
    let shout = || {
        Answer::edited(|message| {
            let up = |name: &Name| Name::from_ascii(name.to_ascii().to_uppercase()).unwrap();
            message.queries[0].name = up(&message.queries[0].name);
            for record in message.answers.iter_mut().chain(&mut message.additionals) {
                record.name = up(&record.name);
            }
        })
    };
    for additionals in [false, true] {
        zone.additionals(additionals);
        zone.answer_all(shout());
        let known = running(&start("_HTTP._tcp.API.test", options([server.address()])), &["10.0.0.1:8080"]).await;
        assert_eq!(known.backends[0].name(), "a.api.test");
    }
}

// Aliases.

#[tokio::test]
async fn aliases_are_followed_within_one_answer() {
    let (server, zone) = server().await;
    zone.cname("api.test", 30, "b.test");
    zone.cname("b.test", 20, "c.test");
    zone.a("c.test", 60, ["10.0.0.1"]);
    let known = running(&start("api.test", options([server.address()])), &["10.0.0.1:80"]).await;
    assert_eq!(known.details[0].ttl, Duration::from_secs(20), "as good as the weakest link");
    assert_eq!((known.backends[0].name(), server.questions().len()), ("api.test", 1));
}

/// A server that leaves it to others to follow.
fn first_only() -> Answer {
    Answer::edited(|message| {
        message.answers.truncate(1);
        message.authorities.clear();
        message.metadata.response_code = ResponseCode::NoError;
    })
}

#[tokio::test]
async fn aliases_are_followed_from_question_to_question() {
    let (server, zone) = server().await;
    zone.answer_all(first_only());
    zone.cname(SRV, 30, "_http._tcp.b.test");
    zone.srv("_http._tcp.b.test", 60, [(0, 0, 8080, "c.test")]);
    zone.cname("c.test", 20, "D.test");
    zone.cname("d.test", 25, "e.test");
    zone.a("e.test", 60, ["10.0.0.1"]);
    let known = running(&start(SRV, options([server.address()])), &["10.0.0.1:8080"]).await;
    assert_eq!((known.details[0].ttl, known.backends[0].name()), (Duration::from_secs(20), "c.test"));
    let expected = ["_http._tcp.api.test SRV", "_http._tcp.b.test SRV", "c.test A", "d.test A", "e.test A"];
    assert_eq!(server.asked(), expected);
}

#[tokio::test]
async fn an_alias_of_itself_is_told_as_such() {
    let (server, zone) = server().await;
    zone.cname("api.test", 60, "api.test");
    let error = failed(&start("api.test", options([server.address()]).recovery(policy().attempts(1)))).await;
    let said = format!("A api.test: a loop of aliases at api.test, from {}", server.address());
    assert!(error.ends_with(&said), "{error}");
}

#[tokio::test]
async fn a_bare_header_that_refuses_is_an_answer() {
    for (code, said) in [(ResponseCode::Refused, "REFUSED"), (ResponseCode::ServFail, "SERVFAIL")] {
        let (server, zone) = server().await;
        zone.answer_all(Answer::edited(move |message| {
            message.metadata.response_code = code;
            message.queries.clear();
            message.authorities.clear();
            message.edns = None;
        }));
        let error = failed(&start("api.test", options([server.address()]).recovery(policy().attempts(1)))).await;
        assert!(error.ends_with(&format!("A api.test: {said} from {}", server.address())), "{error}");
    }
}

#[tokio::test]
async fn aliases_without_end_are_given_up() {
    let cases = [
        (Answer::Records, 1, "a loop of aliases at b.test, from"),
        (first_only(), 8, "more than 8 aliases in a row, the last one api.test, from"),
    ];
    for (answer, questions, said) in cases {
        let (server, zone) = server().await;
        zone.cname("api.test", 60, "b.test");
        zone.cname("b.test", 60, "api.test");
        zone.answer_all(answer);
        let options = options([server.address()]).recovery(policy().attempts(1).max_delay(Duration::from_secs(60)));
        let error = failed(&start("api.test", options)).await;
        assert!(error.ends_with(&format!("A api.test: {said} {}", server.address())), "{error}");
        assert_eq!(server.questions().len(), questions);
    }
}

#[tokio::test]
async fn an_alias_of_nothing_is_nothing() {
    for answer in [Answer::Records, first_only().times(1, Answer::Records)] {
        let (server, zone) = server().await;
        zone.cname("api.test", 60, "gone.test");
        zone.answer_all(answer);
        let resolver = start("api.test", options([server.address()]));
        let error = failed(&resolver).await;
        assert!(error.ends_with(&format!("A api.test: NXDOMAIN from {}", server.address())), "{error}");
        zone.a("gone.test", 60, ["10.0.0.1"]);
        running(&resolver, &["10.0.0.1:80"]).await;
    }
}

// Several nameservers.

#[tokio::test]
async fn a_silent_nameserver_is_overtaken_and_asked_last_from_then_on() {
    let (silent, silence) = server().await;
    let (good, zone) = server().await;
    silence.answer_all(Answer::Silent);
    zone.a("api.test", 0, ["10.0.0.1"]);
    let resolver = start("api.test", options([silent.address(), good.address()]));
    running(&resolver, &["10.0.0.1:80"]).await;
    soon(good.until(|good| good.questions().len() >= 8)).await;
    // On a machine that stands still for as long as a head start takes, it is asked again.
    assert!(2 * silent.questions().len() < good.questions().len(), "the one that answers is asked first");
    // And when that one fails, the other is still there.
    silence.a("api.test", 0, ["10.0.0.2"]);
    silence.answer_all(Answer::Records);
    zone.answer_all(Answer::SERVFAIL);
    running(&resolver, &["10.0.0.2:80"]).await;
}

#[tokio::test]
async fn a_nameserver_that_fails_is_overtaken_within_the_attempt() {
    for answer in [Some(Answer::REFUSED), Some(Answer::SERVFAIL), None] {
        let (mut bad, badness) = server().await;
        let (good, zone) = server().await;
        match answer {
            Some(answer) => badness.answer_all(answer),
            None => bad.stop().await,
        }
        zone.a("api.test", 60, ["10.0.0.1"]);
        let options = options([bad.address(), good.address()]).recovery(policy().attempts(1));
        let known = running(&start("api.test", options), &["10.0.0.1:80"]).await;
        assert!(known.last_error.is_none());
    }
}

#[tokio::test]
async fn a_slow_nameserver_is_still_listened_to_when_the_next_has_been_asked() {
    let (slow, zone) = server().await;
    let (silent, silence) = server().await;
    silence.answer_all(Answer::Silent);
    zone.a("api.test", 60, ["10.0.0.1"]);
    zone.answer_all(Answer::Records.after(HOUR));
    let policy = policy().timeout(2 * HOUR).max_timeout(2 * HOUR);
    let resolver = start("api.test", options([slow.address(), silent.address()]).recovery(policy));
    soon(silent.until(|silent| silent.questions().len() == 1)).await;
    advance(HOUR).await;
    running(&resolver, &["10.0.0.1:80"]).await;
    assert_eq!((slow.questions().len(), silent.questions().len()), (1, 1));
}

#[tokio::test]
async fn every_nameserver_is_asked_however_short_the_time() {
    let (silent, silence) = server().await;
    let (good, zone) = server().await;
    silence.answer_all(Answer::Silent);
    zone.a("api.test", 60, ["10.0.0.1"]);
    // Less time than the first nameserver usually has for itself.
    let options = options([silent.address(), silent.address(), good.address()]).recovery(impatient());
    running(&start("api.test", options), &["10.0.0.1:80"]).await;
}

#[tokio::test]
async fn when_all_fail_the_error_names_each_of_them_with_the_question() {
    let ((one, a), (two, b), (mut three, _)) = (server().await, server().await, server().await);
    a.answer_all(Answer::SERVFAIL);
    b.answer_all(Answer::Silent);
    three.stop().await;
    let (one, two, three) = (one.address(), two.address(), three.address());
    let resolver = start("api.test", options([one, two, three]).recovery(policy().attempts(1)));
    let known = soon(resolver.wait_for(ResolverState::Failed)).await.unwrap();
    let error = known.last_error.unwrap();
    let error = error.downcast_ref::<DnsError>().unwrap();
    let [cause] = error.causes() else { panic!("{error}") };
    assert_eq!((cause.question().kind, &*cause.question().name), (Kind::A, "api.test"));
    assert!(matches!(cause.reasons()[0], Reason::Code { server, code: 2 } if server == one), "{error}");
    assert!(matches!(cause.reasons()[1], Reason::Unreachable { server, .. } if server == three), "{error}");
    assert!(matches!(cause.reasons()[2], Reason::TimedOut { server, .. } if server == two), "{error}");
    assert!(
        error
            .to_string()
            .starts_with(&format!("cannot resolve `api.test`: A api.test: SERVFAIL from {one}, {three}: "))
    );
    assert!(error.to_string().contains(&format!(", no answer from {two} within ")), "{error}");
    let error = failed(&start("api.test", options([]))).await;
    assert_eq!(error, "cannot resolve `api.test`: A api.test: no nameserver is known");
}

#[tokio::test]
async fn nameservers_that_disagree_are_asked_again() {
    // One refuses, the other fails: that is no reason to give up after one attempt.
    let ((one, a), (two, b)) = (server().await, server().await);
    a.answer_all(Answer::REFUSED);
    b.a("api.test", 60, ["10.0.0.1"]);
    b.answer_all(Answer::SERVFAIL.times(1, Answer::Records));
    running(&start("api.test", options([one.address(), two.address()])), &["10.0.0.1:80"]).await;
}

#[tokio::test]
async fn one_nameserver_without_the_name_does_not_win_while_another_knows_it() {
    for answer in [Answer::NXDOMAIN, Answer::NoData] {
        let (without, nothing) = server().await;
        let (knows, zone) = server().await;
        nothing.answer_all(answer.clone());
        zone.a("api.test", 0, ["10.0.0.1"]);
        let resolver = start("api.test", options([without.address(), knows.address()]));
        let known = running(&resolver, &["10.0.0.1:80"]).await;
        assert!(known.last_error.is_none(), "{answer:?}: {:?}", known.last_error);
        soon(knows.until(|server| server.questions().len() >= 4)).await;
        assert_eq!(without.questions().len(), 1, "{answer:?}: the one that knows the name is asked first");
    }
}

#[tokio::test]
async fn nameserver_that_loses_the_name_changes_nothing_while_another_knows_it() {
    let ((one, a), (two, b)) = (server().await, server().await);
    for zone in [&a, &b] {
        zone.srv("_s._tcp.api.test", 0, [(0, 0, 81, "node.test")]);
        zone.a("node.test", 0, ["10.0.0.1"]);
        zone.a("api.test", 0, ["10.0.0.9"]);
    }
    let resolver = start("_s._tcp.api.test", options([one.address(), two.address()]));
    running(&resolver, &["10.0.0.1:81"]).await;
    let mut changes = resolver.subscribe();
    changes.mark_unchanged();
    a.answer_all(Answer::NXDOMAIN);
    two.clear();
    soon(two.until(|server| server.questions().len() >= 8)).await;
    assert_eq!(addresses(&resolver.resolution()), ["10.0.0.1:81"]);
    assert!(!changes.has_changed().unwrap(), "{:?}", resolver.resolution());
}

#[tokio::test]
async fn absence_is_believed_when_a_majority_of_the_responding_nameservers_agree() {
    let ((one, a), (two, b), (three, c)) = (server().await, server().await, server().await);
    for zone in [&a, &b, &c] {
        zone.srv("_s._tcp.api.test", 0, [(0, 0, 81, "node.test")]);
        zone.a("node.test", 0, ["10.0.0.1"]);
        zone.a("api.test", 0, ["10.0.0.9"]);
    }
    let servers = [one.address(), two.address(), three.address()];
    let resolver = start("_s._tcp.api.test", options(servers));
    running(&resolver, &["10.0.0.1:81"]).await;
    // One of three: the others fail, and may know it.
    for zone in [&b, &c] {
        zone.answer("_s._tcp.api.test", RecordType::SRV, Answer::SERVFAIL);
    }
    a.answer("_s._tcp.api.test", RecordType::SRV, Answer::NXDOMAIN);
    let known = stale(&resolver).await;
    assert_eq!(addresses(&known), ["10.0.0.1:81"]);
    let error = known.last_error.unwrap().to_string();
    assert!(error.contains("NXDOMAIN from") && error.contains("SERVFAIL from"), "{error}");
    // Two of three.
    b.answer("_s._tcp.api.test", RecordType::SRV, Answer::NXDOMAIN);
    running(&resolver, &["10.0.0.9:80"]).await;
}

#[tokio::test]
async fn silent_nameserver_does_not_keep_an_absence_from_being_believed() {
    let ((one, a), (two, b)) = (server().await, server().await);
    a.name("api.test");
    b.answer_all(Answer::Silent);
    let error = failed(&start("api.test", options([one.address(), two.address()]))).await;
    assert_eq!(error, format!("cannot resolve `api.test`: A api.test: no A records from {}", one.address()));
}

// Time.

#[tokio::test]
async fn a_ttl_of_zero_or_of_more_than_there_is_is_asked_for_once_a_second() {
    let check = async |ttl| {
        let (server, zone) = server().await;
        zone.a("api.test", ttl, ["10.0.0.1"]);
        let options = options([server.address()]).min_ttl(Duration::from_secs(1));
        let resolver = start("api.test", options);
        soon(server.until(|server| server.questions().len() >= 3)).await;
        let asked = server.questions();
        assert!(asked[2].at - asked[0].at >= ms(1990), "TTL {ttl}: {:?}", asked[2].at - asked[0].at);
        assert_eq!(resolver.resolution().details[0].ttl, Duration::ZERO);
    };
    tokio::join!(check(0), check(0x8000_0000), check(u32::MAX));
}

#[tokio::test]
async fn a_huge_ttl_is_taken_and_bounded() {
    let (server, zone) = server().await;
    zone.a("api.test", 0x7fff_ffff, ["10.0.0.1"]);
    let resolver = start("api.test", options([server.address()]).max_ttl(ms(60)));
    let known = running(&resolver, &["10.0.0.1:80"]).await;
    assert_eq!(known.details[0].ttl, Duration::from_secs(0x7fff_ffff));
    soon(server.until(|server| server.questions().len() >= 3)).await;
}

#[tokio::test]
async fn a_slow_nameserver_holds_up_nothing_but_its_question() {
    let (server, zone) = server().await;
    zone.srv(SRV, 60, [(0, 0, 8080, "a.api.test"), (0, 0, 8080, "b.api.test")]);
    zone.a("a.api.test", 60, ["10.0.0.1"]);
    zone.a("b.api.test", 60, ["10.0.0.2"]);
    zone.answer("b.api.test", RecordType::A, Answer::Silent.times(1, Answer::Records));
    let recovery = Recovery::from(policy().timeout(ms(300)).max_timeout(ms(300)));
    let resolver = start(SRV, options([server.address()]).recovery(recovery));
    let known = soon(resolver.wait_for(ResolverState::Running)).await.unwrap();
    assert_eq!(addresses(&known), ["10.0.0.1:8080"], "after one timeout, what is known is told");
    running(&resolver, &["10.0.0.1:8080", "10.0.0.2:8080"]).await;
}

#[tokio::test]
async fn no_more_questions_are_under_way_than_allowed() {
    let (server, zone) = server().await;
    let names: Vec<_> = (0..12).map(|i| format!("n{i}.api.test")).collect();
    zone.srv(SRV, 86_400, names.iter().map(|name| (0, 0, 8080, name)));
    for name in &names {
        zone.answer(name, RecordType::A, Answer::Silent);
    }
    let recovery = policy().attempts(1).timeout(HOUR).max_timeout(HOUR).max_delay(24 * HOUR);
    let resolver = start(SRV, options([server.address()]).recovery(recovery).concurrency(4));
    // The service, then four at once, then the next when these have been given up.
    for asked in [5, 9, 13] {
        soon(server.until(|server| server.questions().len() >= asked)).await;
        // Turns in which more would be asked.
        for _ in 0..100 {
            yield_now().await;
        }
        assert_eq!(server.questions().len(), asked);
        advance(HOUR).await;
    }
    let error = failed(&resolver).await;
    assert!(error.ends_with("; and 8 more"), "all of them are known, a few are told: {error}");
    let error = resolver.last_error().unwrap();
    assert_eq!(error.downcast_ref::<DnsError>().unwrap().causes().len(), 12);
}

#[tokio::test]
async fn a_nameserver_may_be_asked_over_ipv6() {
    let server = match DnsServer::start_at("[::1]:0".parse().unwrap()).await {
        Ok(server) => server,
        Err(error) => return skip(&format!("no IPv6 on the loopback interface: {error}")),
    };
    server.zone().a("api.test", 60, ["10.0.0.1"]);
    server.zone().answer("api.test", RecordType::A, Answer::Truncated);
    running(&start("api.test", options([server.address()])), &["10.0.0.1:80"]).await;
    assert_eq!(server.questions().len(), 2);
}
