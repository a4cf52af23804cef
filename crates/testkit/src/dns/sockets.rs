//! The sockets of a server: one UDP and one TCP port of the same number, and what goes through them.

use super::reply::Step;
use super::{Over, Shared};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::select;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;

const PORTS_TRIED: usize = 100;

/// An address of our own, whether the server runs or not.
#[derive(Debug)]
pub(super) struct Port {
    address: SocketAddr,
    /// Bound and deaf: they keep the port from everybody else while the server is stopped.
    _reserved: Option<(Socket, Socket)>,
}

#[derive(Debug)]
pub(super) struct Sockets {
    udp: UdpSocket,
    tcp: TcpListener,
}

impl Port {
    /// On port 0: one that is free for both.
    pub(super) fn reserve(address: SocketAddr) -> io::Result<(Port, Sockets)> {
        let mut result = Port::try_reserve(address);
        for _ in 1..PORTS_TRIED {
            match &result {
                Err(error) if error.kind() == ErrorKind::AddrInUse && address.port() == 0 => {}
                Err(_) | Ok(_) => break,
            }
            result = Port::try_reserve(address);
        }
        result
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn open(&self) -> io::Result<Sockets> {
        let tcp = bind(self.address, Type::STREAM)?;
        tcp.listen(1024)?;
        let udp = bind(self.address, Type::DGRAM)?;
        Ok(Sockets { udp: UdpSocket::from_std(udp.into())?, tcp: TcpListener::from_std(tcp.into())? })
    }

    fn try_reserve(address: SocketAddr) -> io::Result<(Port, Sockets)> {
        let tcp = bind(address, Type::STREAM)?;
        let address = tcp.local_addr()?.as_socket().ok_or(ErrorKind::AddrNotAvailable)?;
        let udp = bind(address, Type::DGRAM)?;
        // A connected UDP socket hears its peer alone. Its peer is the port of RFC 863, which says nothing.
        udp.connect(&SocketAddr::new(address.ip(), 9).into())?;
        let mut port = Port { address, _reserved: Some((tcp, udp)) };
        let sockets = match port.open() {
            Ok(sockets) => sockets,
            // Not every system lets a reserved port be used by another socket: then it is not reserved.
            Err(_) => {
                port._reserved = None;
                port.open()?
            }
        };
        Ok((port, sockets))
    }
}

/// With `SO_REUSEADDR`: beside the sockets that reserve the port, and whatever lingers of earlier connections.
fn bind(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let protocol = if kind == Type::STREAM { Protocol::TCP } else { Protocol::UDP };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

pub(super) async fn serve(sockets: Sockets, shared: Arc<Shared>, mut stopped: oneshot::Receiver<()>) {
    let Sockets { udp, tcp } = sockets;
    let udp = Arc::new(udp);
    let mut tasks = JoinSet::new();
    let mut datagram = vec![0; usize::from(u16::MAX)];
    loop {
        select! {
            _ = &mut stopped => break,
            received = udp.recv_from(&mut datagram) => match received {
                Ok((length, client)) => {
                    let steps = shared.hear(&datagram[..length], Over::Udp);
                    tasks.spawn(answer_datagram(Arc::clone(&udp), client, steps));
                }
                // How some systems tell that an earlier answer found nobody.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
                Err(error) => panic!("receiving failed: {error}"),
            },
            accepted = tcp.accept() => match accepted {
                Ok((stream, _)) => {
                    tasks.spawn(converse(stream, Arc::clone(&shared)));
                }
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => panic!("accepting failed: {error}"),
            },
            Some(_) = tasks.join_next() => {}
        }
    }
    drop(tcp);
    tasks.shutdown().await;
}

/// A client that has gone misses its answer.
async fn answer_datagram(udp: Arc<UdpSocket>, client: SocketAddr, steps: Vec<Step>) {
    for step in steps {
        match step {
            Step::Wait(delay) => sleep(delay).await,
            Step::Send(bytes) => {
                let _ = udp.send_to(&bytes, client).await;
            }
            Step::SendFromElsewhere(bytes) => {
                let Ok(here) = udp.local_addr() else { return };
                if let Ok(elsewhere) = UdpSocket::bind(SocketAddr::new(here.ip(), 0)).await {
                    let _ = elsewhere.send_to(&bytes, client).await;
                }
            }
            Step::Close => {}
        }
    }
}

/// What goes to a connection's writer; `None` closes it at once.
type Outbox = mpsc::UnboundedSender<Option<Vec<u8>>>;

/// Answers in the order in which they are ready, until the client has gone and has its answers, or the script closes.
async fn converse(stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let (reader, mut writer) = stream.into_split();
    let (outbox, mut ready) = mpsc::unbounded_channel();
    // A set for one, so that the reader ends with the writer.
    let mut reading = JoinSet::new();
    reading.spawn(listen(reader, shared, outbox));
    while let Some(Some(bytes)) = ready.recv().await {
        let Ok(length) = u16::try_from(bytes.len()) else { return };
        let frame = [&length.to_be_bytes()[..], &bytes].concat();
        if writer.write_all(&frame).await.is_err() {
            return;
        }
    }
}

async fn listen(mut reader: OwnedReadHalf, shared: Arc<Shared>, outbox: Outbox) {
    let mut answering = JoinSet::new();
    while let Ok(bytes) = read_frame(&mut reader).await {
        let steps = shared.hear(&bytes, Over::Tcp);
        answering.spawn(answer_frame(outbox.clone(), steps));
        while answering.try_join_next().is_some() {}
    }
    while answering.join_next().await.is_some() {}
}

async fn read_frame(reader: &mut OwnedReadHalf) -> io::Result<Vec<u8>> {
    let length = reader.read_u16().await?;
    let mut bytes = vec![0; usize::from(length)];
    reader.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// If nobody takes them, the connection has ended.
async fn answer_frame(outbox: Outbox, steps: Vec<Step>) {
    for step in steps {
        match step {
            Step::Wait(delay) => sleep(delay).await,
            Step::Send(bytes) | Step::SendFromElsewhere(bytes) => {
                let _ = outbox.send(Some(bytes));
            }
            Step::Close => {
                let _ = outbox.send(None);
            }
        }
    }
}
