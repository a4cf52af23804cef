//! One question to one nameserver: UDP first, TCP when the answer does not fit.

use super::error::Reason;
use super::interpret::{NOERROR, NXDOMAIN, Said, interpret};
use super::message::{Message, Name, Question, Rtype, encode_query};
use carom_core::resolver::{Answer, Kind};
use domain::base::message_builder::PushError;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// What passes unfragmented nearly everywhere (DNS flag day 2020).
const UDP_PAYLOAD: u16 = 1232;
/// Larger than anything that UDP should bring.
const UDP_BUFFER: usize = 4096;
/// Response codes of a nameserver that does not know EDNS0: FORMERR and NOTIMP.
const WITHOUT_EDNS: [u16; 2] = [1, 4];

/// What arrived and was no answer, for whoever finds that nothing better came.
#[derive(Clone, Debug, Default)]
pub(super) struct Rejected(Arc<Mutex<Option<String>>>);

impl Rejected {
    pub(super) fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, problem: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
    }
}

/// A message that answers a question, and how it came.
#[derive(Debug)]
pub(super) struct Response {
    message: Message,
    over_tcp: bool,
}

impl Response {
    /// What it says. Addresses that come along with SRV records are left out of a datagram without a word when there is no room.
    pub(super) fn says(&self, name: &Name, kind: Kind) -> Said {
        let mut said = interpret(&self.message, name, kind);
        if let Said::Answer(Answer::Targets { whole, .. }) = &mut said {
            *whole = self.over_tcp;
        }
        said
    }
}

/// Asks. Bounded by whoever calls: dropping it ends it.
pub(super) async fn ask(
    server: SocketAddr,
    name: &Name,
    rtype: Rtype,
    rejected: &Rejected,
) -> Result<Response, Reason> {
    let response = exchange(server, name, rtype, true, rejected).await?;
    if WITHOUT_EDNS.contains(&response.message.code) {
        return exchange(server, name, rtype, false, rejected).await;
    }
    Ok(response)
}

async fn exchange(
    server: SocketAddr,
    name: &Name,
    rtype: Rtype,
    edns: bool,
    rejected: &Rejected,
) -> Result<Response, Reason> {
    let request = Request::new(name, rtype, edns).map_err(|error| Reason::Name(error.to_string()))?;
    let unreachable = |error| Reason::Unreachable { server, error };
    if let Some(message) = request.over_udp(server, rejected).await.map_err(unreachable)? {
        return Ok(Response { message, over_tcp: false });
    }
    let bytes = request.over_tcp(server).await.map_err(unreachable)?;
    match request.accept(&bytes) {
        Ok(message) if message.truncated => {
            Err(Reason::Unreadable { server, problem: "cut short even over TCP".to_owned() })
        }
        Ok(message) => Ok(Response { message, over_tcp: true }),
        Err(problem) => Err(Reason::Unreadable { server, problem }),
    }
}

struct Request {
    id: u16,
    name: Name,
    rtype: Rtype,
    bytes: Vec<u8>,
}

impl Request {
    fn new(name: &Name, rtype: Rtype, edns: bool) -> Result<Request, PushError> {
        let id = unguessable();
        let bytes = encode_query(id, name, rtype, edns.then_some(UDP_PAYLOAD))?;
        Ok(Request { id, name: name.clone(), rtype, bytes })
    }

    /// The answer, or `None` when it does not fit.
    ///
    /// A socket of its own for each question, with a port that the system chooses, connected: what others send does not
    /// arrive, and that nobody listens is told at once.
    async fn over_udp(&self, server: SocketAddr, rejected: &Rejected) -> io::Result<Option<Message>> {
        let here: SocketAddr =
            if server.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
        let socket = UdpSocket::bind(here).await?;
        socket.connect(server).await?;
        socket.send(&self.bytes).await?;
        let mut buffer = [0; UDP_BUFFER];
        loop {
            let length = socket.recv(&mut buffer).await?;
            match self.accept(&buffer[..length]) {
                Ok(response) => return Ok(Some(response).filter(|response| !response.truncated)),
                Err(_) if self.is_cut_short(&buffer[..length]) => return Ok(None),
                // It may be forged: the true answer can still come.
                Err(problem) => rejected.put(problem),
            }
        }
    }

    async fn over_tcp(&self, server: SocketAddr) -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(server).await?;
        let length = u16::try_from(self.bytes.len()).map_err(io::Error::other)?;
        let mut framed = length.to_be_bytes().to_vec();
        framed.extend(&self.bytes);
        stream.write_all(&framed).await?;
        let length = stream.read_u16().await?;
        let mut response = vec![0; usize::from(length)];
        stream.read_exact(&mut response).await?;
        Ok(response)
    }

    /// Reads what arrived, if it is an answer to this question.
    fn accept(&self, bytes: &[u8]) -> Result<Message, String> {
        // Cheap checks first: what is not meant for us need not be readable.
        if bytes.get(..2) != Some(&self.id.to_be_bytes()) {
            return Err("another id".to_owned());
        }
        let message = Message::parse(bytes).map_err(|error| error.to_string())?;
        if !message.is_response {
            return Err("a question, not an answer".to_owned());
        }
        // A server that refuses or fails may send nothing but the header.
        let failed = !matches!(message.code, NOERROR | NXDOMAIN);
        let asked =
            |question: &Question| question.name == self.name && question.rtype == self.rtype && question.is_internet;
        match &message.questions[..] {
            [question] if asked(question) => Ok(message),
            [] if failed => Ok(message),
            _ => Err("an answer to another question".to_owned()),
        }
    }

    /// Whether it is an answer that says of itself that it does not fit: some servers cut it in the middle of a record, and
    /// then it cannot be read.
    fn is_cut_short(&self, bytes: &[u8]) -> bool {
        const RESPONSE_AND_TRUNCATED: u8 = 0x82;
        bytes.len() >= 12
            && bytes[..2] == self.id.to_be_bytes()
            && bytes[2] & RESPONSE_AND_TRUNCATED == RESPONSE_AND_TRUNCATED
            && Message::parse(bytes).is_err()
    }
}

/// An id that nobody can foresee: the hash of nothing, under keys that the system's randomness seeds.
fn unguessable() -> u16 {
    RandomState::new().build_hasher().finish() as u16
}

#[cfg(test)]
mod tests {
    use super::super::interpret::{Said, interpret};
    use super::super::message::{Data, display_name, parse_name};
    use super::*;
    use carom_core::random::Random;
    use carom_core::resolver::{Answer, Kind};
    use hickory_proto::op::{Edns, Message as Written, MessageType, OpCode, Query, ResponseCode};
    use hickory_proto::rr::rdata::{A, AAAA, CNAME, SOA, SRV, TXT};
    use hickory_proto::rr::{DNSClass, Name as WrittenName, RData, Record, RecordType};
    use std::time::Duration;
    use testkit::cases::{bytes, cases};

    const CASES: u64 = 5_000;

    fn name(text: &str) -> WrittenName {
        WrittenName::from_ascii(text).unwrap()
    }

    fn request(rtype: Rtype) -> Request {
        Request::new(&parse_name("api.test.").unwrap(), rtype, true).unwrap()
    }

    /// The question of a request, as the other implementation reads it.
    fn query(request: &Request) -> Query {
        Written::from_vec(&request.bytes).unwrap().queries.remove(0)
    }

    fn kind(rtype: Rtype) -> Kind {
        match rtype {
            Rtype::SRV => Kind::Srv,
            Rtype::AAAA => Kind::Aaaa,
            _ => Kind::A,
        }
    }

    /// A response as a server might send it, sensible or not.
    fn response(request: &Request, random: &mut Random) -> Written {
        let mut message = Written::new(request.id, MessageType::Response, OpCode::Query);
        message.add_query(query(request));
        message.metadata.response_code = ResponseCode::from(0, [0, 0, 0, 0, 0, 1, 2, 3, 4, 5][random.below(10)]);
        message.metadata.truncation = random.chance(0.1);
        if random.chance(0.5) {
            message.set_edns(Edns::new());
        }
        for _ in 0..random.below(6) {
            let record = record(random);
            message.answers.push(record);
        }
        for _ in 0..random.below(3) {
            let record = record(random);
            message.authorities.push(record);
        }
        for _ in 0..random.below(4) {
            let record = record(random);
            message.additionals.push(record);
        }
        message
    }

    fn record(random: &mut Random) -> Record {
        let names = ["api.test.", "API.test.", "a.api.test.", "b.api.test.", "."];
        let one = |random: &mut Random| match names.get(random.below(names.len() + 1)) {
            Some(text) => name(text),
            None => WrittenName::from_labels([&b"\0.\x07"[..], b"test"]).unwrap(),
        };
        let ttl = [0, 1, 30, 0x7fff_ffff, 0x8000_0000, u32::MAX][random.below(6)];
        let data = match random.below(7) {
            0 | 1 => RData::A(A((random.bits() as u32).into())),
            2 => RData::AAAA(AAAA(u128::from(random.bits()).into())),
            3 => RData::CNAME(CNAME(one(random))),
            4 => RData::SRV(SRV::new(random.bits() as u16, 1, random.bits() as u16, one(random))),
            5 => RData::SOA(SOA::new(one(random), one(random), 1, 2, 3, 4, ttl)),
            _ => RData::TXT(TXT::new(vec!["x".repeat(random.below(255))])),
        };
        Record::from_rdata(one(random), ttl, data)
    }

    fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
        for _ in 0..random.below(8) {
            // The id stays: what has another is not looked at.
            let at = 2 + random.below(bytes.len().saturating_sub(2).max(1));
            match random.below(5) {
                0 => bytes.truncate(at),
                1 if at < bytes.len() => bytes[at] = random.bits() as u8,
                2 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
                3 if at <= bytes.len() => bytes.insert(at, random.bits() as u8),
                // A pointer of name compression, to anywhere.
                4 if at + 1 < bytes.len() => {
                    (bytes[at], bytes[at + 1]) = (0xc0 | (random.bits() as u8 & 3), random.bits() as u8)
                }
                _ => {}
            }
        }
    }

    /// What must hold of whatever is taken for an answer.
    fn check(request: &Request, bytes: &[u8]) {
        request.is_cut_short(bytes);
        let Ok(message) = request.accept(bytes) else { return };
        assert!(message.is_response && message.questions.iter().all(|question| question.rtype == request.rtype));
        let kind = kind(request.rtype);
        match interpret(&message, &request.name, kind) {
            Said::Alias(alias, _) => assert_ne!(alias, request.name, "an alias leads elsewhere"),
            Said::Loop(alias) => assert!(!message.answers.is_empty(), "{alias}"),
            Said::Code(code) => assert!(code != 0 && code != 3),
            Said::Answer(answer) => {
                let longest = Duration::from_secs(i32::MAX as u64);
                match answer {
                    Answer::Addresses { addresses, ttl } => {
                        assert!(!addresses.is_empty() && ttl <= longest);
                        assert!(addresses.iter().all(|address| address.is_ipv4() == (kind == Kind::A)));
                        assert_ne!(kind, Kind::Srv);
                    }
                    Answer::Targets { targets, additional, ttl, .. } => {
                        assert!(!targets.is_empty() && ttl <= longest);
                        assert!(additional.iter().all(|(name, _)| targets.iter().any(|target| target.name == *name)));
                        assert!(targets.iter().all(|target| !target.name.is_empty()));
                        assert_eq!(kind, Kind::Srv);
                    }
                    Answer::NotOffered { ttl } => assert!(ttl <= longest && kind == Kind::Srv),
                    Answer::Nothing { ttl, .. } => assert!(ttl.is_none_or(|ttl| ttl <= longest)),
                    Answer::NotImplemented | Answer::Refused | Answer::Trouble => panic!("nobody says so here"),
                }
            }
        }
    }

    #[test]
    fn whatever_a_nameserver_sends_is_an_answer_or_is_not() {
        for (_case, mut random) in cases(CASES) {
            let request = request([Rtype::SRV, Rtype::AAAA, Rtype::A][random.below(3)]);
            let mut bytes = response(&request, &mut random).to_vec().unwrap();
            check(&request, &bytes);
            mutate(&mut bytes, &mut random);
            check(&request, &bytes);
        }
    }

    /// What hickory-proto writes, carom reads as hickory-proto does.
    #[test]
    fn messages_are_read_as_another_implementation_reads_them() {
        let rtypes = [Rtype::SRV, Rtype::AAAA, Rtype::A];
        for (_case, mut random) in cases(CASES) {
            let request = request(rtypes[random.below(3)]);
            let written = response(&request, &mut random);
            let read = request.accept(&written.to_vec().unwrap()).unwrap();
            assert_eq!(
                (read.truncated, read.code),
                (written.metadata.truncation, written.metadata.response_code.into())
            );
            let sections = [
                (&read.answers, &written.answers),
                (&read.authorities, &written.authorities),
                (&read.additionals, &written.additionals),
            ];
            for (read, written) in sections {
                // The option record is no record of class IN.
                assert_eq!(read.len(), written.len());
                for (read, written) in read.iter().zip(written) {
                    assert_eq!(display_name(&read.name), plain(&written.name));
                    assert_eq!(read.ttl, written.ttl);
                    match (&read.data, &written.data) {
                        (Data::Address(read), RData::A(written)) => assert_eq!(*read, written.0),
                        (Data::Address(read), RData::AAAA(written)) => assert_eq!(*read, written.0),
                        (Data::Alias(read), RData::CNAME(written)) => assert_eq!(display_name(read), plain(written)),
                        (Data::Service { priority, weight, port, target }, RData::SRV(written)) => {
                            let fields = (written.priority, written.weight, written.port);
                            assert_eq!((*priority, *weight, *port), fields);
                            assert_eq!(display_name(target), plain(&written.target));
                        }
                        (Data::Authority { minimum }, RData::SOA(written)) => assert_eq!(*minimum, written.minimum),
                        (Data::Other, RData::TXT(_)) => {}
                        (read, written) => panic!("{read:?} for {written:?}"),
                    }
                }
            }
        }
    }

    fn plain(name: &WrittenName) -> Arc<str> {
        let text = name.to_lowercase().to_ascii();
        text.strip_suffix('.').unwrap_or(&text).into()
    }

    #[test]
    fn arbitrary_bytes_are_no_answer() {
        let request = request(Rtype::A);
        for (_case, mut random) in cases(CASES) {
            let mut bytes = bytes(&mut random, 600);
            check(&request, &bytes);
            if bytes.len() >= 12 {
                // Made to look like an answer, so that more of it is read.
                bytes[..2].copy_from_slice(&request.id.to_be_bytes());
                bytes[2..12].copy_from_slice(&[0x80, 0, 0, 1, 0, random.below(9) as u8, 0, 1, 0, 1]);
                check(&request, &bytes);
            }
        }
    }

    #[test]
    fn only_an_answer_to_this_question_is_accepted() {
        let request = request(Rtype::A);
        let respond = |change: &dyn Fn(&mut Written)| {
            let mut message = Written::new(request.id, MessageType::Response, OpCode::Query);
            message.add_query(query(&request));
            change(&mut message);
            request.accept(&message.to_vec().unwrap()).map(|_| ())
        };
        let another_question = Err("an answer to another question".to_owned());
        assert_eq!(respond(&|_| {}), Ok(()));
        assert_eq!(respond(&|message| message.queries[0].name = name("API.TEST.")), Ok(()));
        assert_eq!(respond(&|message| message.metadata.id ^= 1), Err("another id".to_owned()));
        assert_eq!(respond(&|message| message.queries[0].name = name("api.text.")), another_question);
        assert_eq!(respond(&|message| message.queries[0].query_type = RecordType::AAAA), another_question);
        assert_eq!(respond(&|message| message.queries[0].query_class = DNSClass::CH), another_question);
        assert_eq!(respond(&|message| message.queries.clear()), another_question);
        assert_eq!(respond(&|message| message.queries.push(query(&request))), another_question);
        let bare = |code: ResponseCode| {
            respond(&|message| {
                message.metadata.response_code = code;
                message.queries.clear();
            })
        };
        let codes = [ResponseCode::FormErr, ResponseCode::ServFail, ResponseCode::NotImp, ResponseCode::Refused];
        for code in codes {
            assert_eq!(bare(code), Ok(()), "{code}");
        }
        assert_eq!(bare(ResponseCode::NXDomain), another_question);
        let question = |message: &mut Written| message.metadata.message_type = MessageType::Query;
        assert_eq!(respond(&question), Err("a question, not an answer".to_owned()));
    }
}
