//! One question to one nameserver: UDP first, TCP when the answer does not fit.

use super::error::Reason;
use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RecordType};
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
/// What a nameserver says that does not know EDNS0.
const WITHOUT_EDNS: [ResponseCode; 2] = [ResponseCode::FormErr, ResponseCode::NotImp];

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

/// Asks. Bounded by whoever calls: dropping it ends it.
pub(super) async fn ask(
    server: SocketAddr,
    name: &Name,
    kind: RecordType,
    rejected: &Rejected,
) -> Result<Message, Reason> {
    let response = exchange(server, name, kind, true, rejected).await?;
    if WITHOUT_EDNS.contains(&response.metadata.response_code) {
        return exchange(server, name, kind, false, rejected).await;
    }
    Ok(response)
}

async fn exchange(
    server: SocketAddr,
    name: &Name,
    kind: RecordType,
    edns: bool,
    rejected: &Rejected,
) -> Result<Message, Reason> {
    let request = Request::new(name, kind, edns).map_err(|error| Reason::Name(error.to_string()))?;
    let unreachable = |error| Reason::Unreachable { server, error };
    let response = request.over_udp(server, rejected).await.map_err(unreachable)?;
    if !response.metadata.truncation {
        return Ok(response);
    }
    let bytes = request.over_tcp(server).await.map_err(unreachable)?;
    match request.accept(&bytes) {
        Ok(response) if response.metadata.truncation => {
            Err(Reason::Unreadable { server, problem: "cut short even over TCP".to_owned() })
        }
        Ok(response) => Ok(response),
        Err(problem) => Err(Reason::Unreadable { server, problem }),
    }
}

struct Request {
    id: u16,
    query: Query,
    bytes: Vec<u8>,
}

impl Request {
    fn new(name: &Name, kind: RecordType, edns: bool) -> Result<Request, hickory_proto::ProtoError> {
        let query = Query::query(name.clone(), kind);
        let id = unguessable();
        let mut message = Message::new(id, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = true;
        message.add_query(query.clone());
        if edns {
            let mut edns = Edns::new();
            edns.set_max_payload(UDP_PAYLOAD);
            message.set_edns(edns);
        }
        Ok(Request { id, query, bytes: message.to_vec()? })
    }

    /// A socket of its own for each question, with a port that the system chooses, connected: what others send does not
    /// arrive, and that nobody listens is told at once.
    async fn over_udp(&self, server: SocketAddr, rejected: &Rejected) -> io::Result<Message> {
        let here: SocketAddr =
            if server.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
        let socket = UdpSocket::bind(here).await?;
        socket.connect(server).await?;
        socket.send(&self.bytes).await?;
        let mut buffer = [0; UDP_BUFFER];
        loop {
            let length = socket.recv(&mut buffer).await?;
            match self.accept(&buffer[..length]) {
                Ok(response) => return Ok(response),
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
        let message = Message::from_vec(bytes).map_err(|error| error.to_string())?;
        if message.metadata.message_type != MessageType::Response {
            return Err("a question, not an answer".to_owned());
        }
        // A server that could not read the question may leave it out.
        let unread = WITHOUT_EDNS.contains(&message.metadata.response_code);
        let asked = |query: &Query| {
            query.name() == self.query.name()
                && query.query_type() == self.query.query_type()
                && query.query_class() == DNSClass::IN
        };
        match &message.queries[..] {
            [query] if asked(query) => Ok(message),
            [] if unread => Ok(message),
            _ => Err("an answer to another question".to_owned()),
        }
    }
}

/// An id that nobody can foresee: the hash of nothing, under keys that the system's randomness seeds.
fn unguessable() -> u16 {
    RandomState::new().build_hasher().finish() as u16
}
