//! Whatever comes from outside, by the wire, from a file or from a person: nothing panics, hangs or is believed.
//!
//! `CAROM_SEED=n` reruns a failure, `CAROM_SCHEDULES=n` runs more.

use carom::Policy;
use carom::dns::{Dns, DnsOptions, Ipv6, resolver_for};
use carom::resolver::{Fixed, Input, Publisher, Remembered, Resolve, Resolver, ResolverState};
use carom_core::random::Random;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use testkit::cases::{bytes, cases, usual};
use testkit::dns::{Answer, DnsServer, Message};
use testkit::wait::{LIMIT, ms, soon};
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// Text made of what names and addresses are made of, and of what they are not.
fn text(random: &mut Random) -> String {
    let pieces = [
        "a",
        "db",
        "example",
        ".",
        ".",
        ".",
        ":",
        ":",
        "::",
        "[",
        "]",
        "-",
        "_",
        "_http",
        "_tcp.",
        "80",
        "0",
        "65535",
        "65536",
        "10.0.0.1",
        "127.0.0.1:80",
        "[::1]:80",
        "fe80::1",
        "%3",
        "%eth0",
        " ",
        "\t",
        "\n",
        "\u{0}",
        "\u{fc}",
        "\u{1f980}",
        "xn--",
        "\\",
        "`",
        "/",
        "*",
        "00000080",
        "+80",
        "A",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
    ];
    (0..random.below(9)).map(|_| pieces[random.below(pieces.len())]).collect()
}

/// What an input is written as.
fn written(input: &Input) -> String {
    let port = |port: &Option<u16>| port.map(|port| format!(":{port}")).unwrap_or_default();
    match input {
        Input::Address(address, None) => address.to_string(),
        Input::Address(address, Some(port)) => SocketAddr::new(*address, *port).to_string(),
        Input::Name(name) => {
            let service = name.service.as_ref().map(|service| format!("{service}.")).unwrap_or_default();
            format!("{service}{}{}{}", name.domain, if name.absolute { "." } else { "" }, port(&name.port))
        }
    }
}

#[test]
fn inputs_are_understood_or_refused_with_a_reason() {
    let mut understood = 0;
    for (_case, mut random) in cases(50_000) {
        let input = text(&mut random);
        let parsed = input.parse::<Input>();
        let (resolver, fixed) = (resolver_for(&input, DnsOptions::default()), Fixed::parse([&input], 80));
        match parsed {
            Ok(parsed) => {
                understood += 1;
                let again = written(&parsed);
                assert_eq!(again.parse::<Input>().as_ref(), Ok(&parsed), "{input:?} is {again:?}");
                assert!(resolver.is_ok(), "{input:?}: {resolver:?}");
                assert_eq!(fixed.is_ok(), matches!(parsed, Input::Address(..)), "{input:?}");
                match parsed {
                    Input::Name(name) => {
                        assert!(name.port != Some(0) && name.domain.parse::<IpAddr>().is_err());
                        assert!(name.domain.is_ascii() && name.domain == name.domain.to_lowercase());
                        assert!(name.service.is_none_or(|service| service.split('.').all(|label| label.len() > 1)));
                    }
                    Input::Address(_, port) => assert_ne!(port, Some(0), "{input:?}"),
                }
            }
            Err(error) => {
                let (error, quote) = (error.to_string(), quoted(&input));
                assert!(error.starts_with(&format!("`{quote}`: ")), "{input:?}: {error}");
                assert!(!error.chars().any(char::is_control), "{error:?}");
                assert_eq!(resolver.unwrap_err().to_string(), error);
            }
        }
    }
    assert!(understood > 1000 || !usual(), "{understood}");
}

/// As errors quote it.
fn quoted(input: &str) -> String {
    let escape = |c: char| match c {
        '`' | '\'' | '"' | '\\' => c.to_string(),
        c => c.escape_debug().to_string(),
    };
    input.chars().map(escape).collect()
}

struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Files {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("dns-fuzz-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Files(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Lines that make sense with others that do not between them.
fn lines(random: &mut Random, good: &[&str]) -> Vec<u8> {
    let mut text = Vec::new();
    for line in good {
        for _ in 0..random.below(3) {
            let pieces = [
                "nameserver ",
                "search ",
                "options ",
                "ndots:99999999999",
                "domain ",
                "#",
                ";",
                "::",
                "127.0.0.1 ",
                "\r",
                "%",
            ];
            for _ in 0..random.below(4) {
                text.extend(pieces[random.below(pieces.len())].as_bytes());
                text.extend(bytes(random, 12).into_iter().filter(|byte| *byte != b'\n'));
            }
            text.push(b'\n');
        }
        text.extend(line.as_bytes());
        text.push(b'\n');
    }
    text
}

#[tokio::test]
async fn rubbish_in_the_files_of_the_system_leaves_what_makes_sense() {
    let server = DnsServer::start().await.unwrap();
    server.zone().a("api.test", 60, ["10.0.0.1"]);
    let files = Files::new("system");
    for (_case, mut random) in cases(60) {
        let resolv_conf = lines(&mut random, &["nameserver 127.0.0.1", "search test"]);
        // A nameserver may be among the rubbish; only ours answers, and others may take their time.
        let policy = Policy::default().timeout(Duration::from_secs(4)).delay(ms(5)).max_delay(ms(5));
        let options = DnsOptions::default()
            .resolv_conf(files.write("resolv.conf", &resolv_conf))
            .hosts(files.write("hosts", &lines(&mut random, &["10.0.0.2 hosts.test"])))
            .nameserver_port(server.address().port())
            .recovery(policy)
            .ipv6(Ipv6::Never);
        for (name, address) in [("api.test.", "10.0.0.1:80"), ("hosts.test", "10.0.0.2:80")] {
            let resolver = Resolver::start(Dns::new(name, options.clone()).unwrap()).unwrap();
            let known = soon(resolver.wait_for(ResolverState::Running)).await.unwrap();
            assert!(known.backends.iter().any(|backend| backend.socket_addr().to_string() == address), "{known:?}");
        }
    }
}

/// Says nothing.
struct Mute;

impl Resolve for Mute {
    async fn run(self, publisher: Publisher) {
        publisher.fail("mute");
    }
}

#[tokio::test]
async fn a_remembered_file_that_was_changed_is_not_believed() {
    let files = Files::new("remembered");
    let path = files.0.join("backends");
    let good = {
        let addresses = ["10.0.0.1:80", "[2001:db8::1]:443"].map(|text| text.parse::<SocketAddr>().unwrap());
        let _resolver = Resolver::start(Remembered::new(Fixed::new(addresses), &path)).unwrap();
        let written = async {
            while !path.exists() {
                tokio::time::sleep(ms(5)).await;
            }
        };
        soon(written).await;
        fs::read(&path).unwrap()
    };
    for (_case, mut random) in cases(300) {
        let mut changed = good.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(changed.len());
            match random.below(4) {
                0 => changed.truncate(at + 1),
                1 => changed.insert(at, random.bits() as u8),
                2 => changed[at] = random.bits() as u8,
                _ => changed = bytes(&mut random, 300),
            }
            if changed.is_empty() {
                changed.push(0);
            }
        }
        files.write("backends", &changed);
        let resolver = Resolver::start(Remembered::new(Mute, &path)).unwrap();
        let known = soon(resolver.wait_until(|known| known.last_error.is_some())).await.unwrap();
        let expected = if changed == good { ResolverState::Running } else { ResolverState::Failed };
        assert_eq!(known.state, expected, "{:?}", String::from_utf8_lossy(&changed));
    }
}

/// A nameserver that answers once with rubbish, which it derives from a true answer, and then truly.
async fn spoil(socket: UdpSocket, mut random: Random) {
    let mut question = [0; 512];
    loop {
        let (length, client) = socket.recv_from(&mut question).await.unwrap();
        let truth = answer_of(&question[..length]);
        for _ in 0..random.below(4) {
            let mut rubbish = truth.clone();
            for _ in 0..random.below(6) {
                let at = 2 + random.below(rubbish.len() - 2);
                match random.below(3) {
                    0 => rubbish.truncate(at.max(3)),
                    1 => rubbish[at] = random.bits() as u8,
                    _ => rubbish.insert(at, random.bits() as u8),
                }
            }
            // Neither the mark of being cut short, for there is no TCP here, nor a code: both would be taken at their word.
            rubbish[2] &= !0x02;
            if rubbish.len() > 3 {
                rubbish[3] &= 0xf0;
            }
            socket.send_to(&rubbish, client).await.unwrap();
        }
        socket.send_to(&truth, client).await.unwrap();
    }
}

fn answer_of(question: &[u8]) -> Vec<u8> {
    use hickory_proto::rr::{RData, Record, rdata::A};
    let question = Message::from_vec(question).unwrap();
    let mut answer = Message::response(question.id, question.op_code);
    let name = question.queries[0].name.clone();
    answer.queries = question.queries.clone();
    answer.answers = vec![Record::from_rdata(name, 0, RData::A(A::new(10, 0, 0, 1)))];
    answer.to_vec().unwrap()
}

#[tokio::test]
async fn rubbish_on_the_wire_delays_the_truth_at_most() {
    for (_case, random) in cases(200) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let server = tokio::spawn(spoil(socket, random));
        // What is no better than the truth in form may be believed once; asked again, the truth comes.
        let policy = Policy::default()
            .attempts(3)
            .timeout(ms(500))
            .max_timeout(ms(500))
            .delay(ms(1))
            .max_delay(ms(1))
            .spread(0.0);
        let options = DnsOptions::default().nameservers([address]).recovery(policy).ipv6(Ipv6::Never);
        let options = options.min_ttl(ms(1)).max_ttl(ms(1)).hosts("/nonexistent/hosts");
        let resolver = Resolver::start(Dns::new("api.test", options).unwrap()).unwrap();
        let truth = |known: &carom::resolver::Resolution| {
            known.backends.iter().any(|backend| backend.socket_addr().to_string() == "10.0.0.1:80")
        };
        soon(resolver.wait_until(truth)).await.unwrap();
        server.abort();
    }
}

#[tokio::test]
async fn garbage_and_nonsense_from_a_server_are_trouble_and_no_more() {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.srv("_http._tcp.api.test", 0, [(0, 0, 80, "a.api.test"), (0, 0, 80, "b.api.test")]);
    zone.a("a.api.test", 0, ["10.0.0.1"]);
    zone.a("b.api.test", 0, ["10.0.0.1"]);
    zone.a("api.test", 0, ["10.0.0.1"]);
    let policy = Policy::default().attempts(1).timeout(ms(40)).max_timeout(ms(40)).delay(ms(1)).max_delay(ms(1));
    let options = DnsOptions::default().nameservers([server.address()]).recovery(policy).min_ttl(ms(1)).max_ttl(ms(5));
    let options = options.ipv6(Ipv6::Always).hosts("/nonexistent/hosts");
    let resolver = Resolver::start(Dns::new("_http._tcp.api.test", options).unwrap()).unwrap();
    soon(resolver.wait_for(ResolverState::Running)).await.unwrap();
    for (_case, mut random) in cases(40) {
        let seed = random.bits();
        zone.answer_all(match random.below(3) {
            0 => Answer::Garbage(bytes(&mut random, 700)),
            1 => Answer::over(Answer::Truncated, Answer::Garbage(bytes(&mut random, 700))),
            _ => Answer::edited(move |message| jumble(message, &mut Random::new(seed))),
        });
        let before = server.questions().len();
        soon(server.until(|server| server.questions().len() >= before + 4)).await;
        assert_eq!(resolver.state(), ResolverState::Running);
        assert!(!resolver.backends().is_empty(), "a set is never emptied");
    }
    zone.answer_all(Answer::Records);
    let fresh = |known: &carom::resolver::Resolution| {
        known.stale_since.is_none() && known.backends.len() == 2 && known.last_error.is_none()
    };
    match timeout(LIMIT, resolver.wait_until(fresh)).await {
        Ok(known) => assert_eq!(known.unwrap().state, ResolverState::Running),
        Err(_) => panic!("{:?}", resolver.resolution()),
    }
}

/// Records in other sections, twice, or not at all; TTLs and flags of any kind.
fn jumble(message: &mut Message, random: &mut Random) {
    let records: Vec<_> = message.answers.drain(..).chain(message.authorities.drain(..)).collect();
    for mut record in records {
        record.ttl = random.bits() as u32;
        for _ in 0..random.below(3) {
            match random.below(3) {
                0 => message.answers.push(record.clone()),
                1 => message.authorities.push(record.clone()),
                _ => message.additionals.push(record.clone()),
            }
        }
    }
    message.metadata.truncation = random.chance(0.2);
    message.metadata.authoritative = random.chance(0.5);
    message.metadata.recursion_available = random.chance(0.5);
}
