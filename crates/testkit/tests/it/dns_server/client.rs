//! A client that sends what it is told and shows what comes back.

use hickory_proto::op::{Edns, Message, Query};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use std::net::SocketAddr;
use testkit::dns::DnsServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

pub(crate) fn question(name: &str, kind: RecordType) -> Message {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    let mut name = Name::from_ascii(name).unwrap();
    name.set_fqdn(true);
    message.add_query(Query::query(name, kind));
    message
}

pub(crate) fn with_edns(mut message: Message, size: u16) -> Message {
    let mut edns = Edns::new();
    edns.set_max_payload(size);
    message.set_edns(edns);
    message
}

pub(crate) struct Udp(pub(crate) UdpSocket);

impl Udp {
    pub(crate) async fn to(address: SocketAddr) -> Udp {
        let socket = UdpSocket::bind(SocketAddr::new(address.ip(), 0)).await.unwrap();
        socket.connect(address).await.unwrap();
        Udp(socket)
    }

    pub(crate) async fn send(&self, message: &Message) {
        self.0.send(&message.to_vec().unwrap()).await.unwrap();
    }

    pub(crate) async fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; 65535];
        let length = self.0.recv(&mut bytes).await.unwrap();
        bytes.truncate(length);
        bytes
    }

    pub(crate) async fn receive(&self) -> Message {
        Message::from_vec(&self.bytes().await).unwrap()
    }
}

pub(crate) struct Tcp(pub(crate) TcpStream);

impl Tcp {
    pub(crate) async fn to(address: SocketAddr) -> Tcp {
        Tcp(TcpStream::connect(address).await.unwrap())
    }

    pub(crate) async fn send(&mut self, message: &Message) {
        let bytes = message.to_vec().unwrap();
        self.0.write_u16(u16::try_from(bytes.len()).unwrap()).await.unwrap();
        self.0.write_all(&bytes).await.unwrap();
    }

    pub(crate) async fn bytes(&mut self) -> Vec<u8> {
        let length = self.0.read_u16().await.unwrap();
        let mut bytes = vec![0; usize::from(length)];
        self.0.read_exact(&mut bytes).await.unwrap();
        bytes
    }

    pub(crate) async fn receive(&mut self) -> Message {
        Message::from_vec(&self.bytes().await).unwrap()
    }
}

/// Over UDP; checks that the answer is one to this question.
pub(crate) async fn ask(server: &DnsServer, name: &str, kind: RecordType) -> Message {
    let request = question(name, kind);
    let client = Udp::to(server.address()).await;
    client.send(&request).await;
    let reply = client.receive().await;
    assert_eq!((reply.id, &reply.queries), (request.id, &request.queries));
    reply
}

pub(crate) async fn ask_tcp(server: &DnsServer, name: &str, kind: RecordType) -> Message {
    let request = question(name, kind);
    let mut client = Tcp::to(server.address()).await;
    client.send(&request).await;
    let reply = client.receive().await;
    assert_eq!((reply.id, &reply.queries), (request.id, &request.queries));
    reply
}

/// As `name ttl data`, such as `a.test. 60 10.0.0.1`.
pub(crate) fn shown(records: &[Record]) -> Vec<String> {
    let data = |data: &RData| match data {
        RData::SOA(soa) => format!("SOA {}", soa.minimum),
        other => other.to_string(),
    };
    records.iter().map(|record| format!("{} {} {}", record.name, record.ttl, data(&record.data))).collect()
}
