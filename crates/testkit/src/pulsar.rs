//! Pulsar brokers that do what a test tells them to, over real sockets, and remember what was asked of them.
//!
//! A [`Cluster`] is some brokers with one world behind them: any of them answers lookups, each topic has one owner, and topics
//! can be moved. Topics are made when they are first asked for; what is written stays, whoever owns it.
//!
//! ```
//! use bytes::BytesMut;
//! use carom_pulsar::wire::{Codec, Command, CommandType, Connect, Frame, Lookup};
//! use testkit::pulsar::{Answer, Cluster, On};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use tokio::net::TcpStream;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let cluster = Cluster::start(2).await?;
//! cluster.own("orders", 1);
//! cluster.answer(On::Broker(1), CommandType::Ping, Answer::Silent);
//!
//! let (codec, mut bytes) = (Codec::default(), BytesMut::new());
//! codec.encode(&Frame::from(Connect { client_version: "mine".into(), ..Connect::default() }), &mut bytes)?;
//! let topic = "persistent://public/default/orders".to_owned();
//! codec.encode(&Frame::from(Lookup { topic, request_id: 1, ..Lookup::default() }), &mut bytes)?;
//! let mut client = TcpStream::connect(cluster.address(0)).await?;
//! client.write_all(&bytes).await?;
//!
//! bytes.clear();
//! let response = loop {
//!     match codec.decode(&mut bytes)?.and_then(|frame| frame.command.body) {
//!         Some(Command::LookupResponse(response)) => break response,
//!         Some(_) => {}
//!         None => drop(client.read_buf(&mut bytes).await?),
//!     }
//! };
//! assert_eq!(response.broker_service_url, Some(cluster.url(1)));
//! assert_eq!((cluster.connections(0), cluster.heard(0, CommandType::Lookup)), (1, 1));
//! # Ok(()) }) }
//! ```
//!
//! Left out: transactions, compaction, schemas (any is accepted, none is kept), keys of key-shared subscriptions, exclusive
//! producers.

mod answer;
mod certificate;
mod commands;
mod consuming;
mod frames;
mod moving;
mod producing;
mod rare;
mod seen;
mod sockets;
mod subscription;
mod topic;
mod watching;
mod world;

pub use answer::{Answer, On};
pub use seen::{Connection, Consumer, Producer};
pub use topic::{Entry, Position};

use crate::listening::{Listening, Port};
use carom_pulsar::wire::CommandType;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use topic::full_name;
use world::World;

/// Brokers on ports of 127.0.0.1, numbered from 0. Topics have short names here (`orders`) or full ones
/// (`persistent://public/default/orders`). Its drop stops the brokers.
///
/// # Panics
///
/// All methods that take a broker do so if there is none of that number.
#[derive(Debug)]
pub struct Cluster {
    shared: Arc<Shared>,
    brokers: Vec<Listening>,
    root: Option<String>,
    _tasks: JoinSet<()>,
}

impl Cluster {
    /// Starts so many brokers. They listen when this returns.
    pub async fn start(brokers: usize) -> io::Result<Cluster> {
        Cluster::started(brokers, None)
    }

    /// Starts so many brokers that speak TLS alone, with certificates for 127.0.0.1 and `localhost` by a root of their own; see
    /// [`root_pem`](Self::root_pem).
    pub async fn start_tls(brokers: usize) -> io::Result<Cluster> {
        Cluster::started(brokers, Some(certificate::made()?))
    }

    fn started(brokers: usize, tls: Option<(String, TlsAcceptor)>) -> io::Result<Cluster> {
        let ports = (0..brokers).map(|_| Port::reserve()).collect::<io::Result<Vec<_>>>()?;
        let (root, acceptor) = tls.unzip();
        let world = World::new(ports.iter().map(Port::address), acceptor.is_some());
        let shared = Arc::new(Shared::new(world));
        let mut tasks = JoinSet::new();
        let mut listening = Vec::new();
        for (number, port) in ports.into_iter().enumerate() {
            let (ears, changes) = Listening::start(port)?;
            tasks.spawn(sockets::serve(number, Arc::clone(&shared), acceptor.clone(), changes));
            listening.push(ears);
        }
        Ok(Cluster { shared, brokers: listening, root, _tasks: tasks })
    }

    /// How many brokers there are, running or not.
    pub fn brokers(&self) -> usize {
        self.brokers.len()
    }

    /// Where a broker listens; the same after every restart.
    pub fn address(&self, broker: usize) -> SocketAddr {
        self.brokers[broker].address()
    }

    /// `pulsar://`, or `pulsar+ssl://` with TLS, and the address.
    pub fn url(&self, broker: usize) -> String {
        self.shared.lock().url(broker)
    }

    /// The root that vouches for the brokers' certificates, if they speak TLS.
    pub fn root_pem(&self) -> Option<&str> {
        self.root.as_deref()
    }

    /// This topic has so many partitions: clients that ask are told, and use `topic-partition-0` and so on. 0: it has none.
    pub fn partitions(&self, topic: &str, count: u32) {
        self.change(|world| world.partitions.insert(full_name(topic), count));
    }

    /// From now on the topic is this broker's. Whoever is at it now is sent away, as by [`unload`](Self::unload).
    pub fn own(&self, topic: &str, broker: usize) {
        self.unload(topic, broker);
    }

    /// Moves the topic: its producers and consumers are sent CLOSE_PRODUCER and CLOSE_CONSUMER, and their connections stay.
    /// With `None`, the next who asks makes it somebody's: that of the broker with the fewest topics.
    pub fn unload(&self, topic: &str, to: impl Into<Option<usize>>) {
        let to = to.into().inspect(|to| assert!(*to < self.brokers(), "there is no broker {to}"));
        self.change(|world| world.unload(&full_name(topic), to, false));
    }

    /// Moves the topic as [`unload`](Self::unload) does, and says where to in the commands, so that clients need no lookup.
    pub fn unload_assigned(&self, topic: &str, to: usize) {
        assert!(to < self.brokers(), "there is no broker {to}");
        self.change(|world| world.unload(&full_name(topic), Some(to), true));
    }

    /// All of a topic is to be read again in this subscription, as an operator may wish: who reads it is sent away, and finds it
    /// so when it comes back.
    pub fn rewind(&self, topic: &str, subscription: &str) {
        self.change(|world| world.rewind(&full_name(topic), subscription, 0));
    }

    /// Load shedding: moves all that a broker owns to another.
    pub fn shed(&self, from: usize, to: usize) {
        assert!(to < self.brokers(), "there is no broker {to}");
        self.change(|world| {
            let theirs = world.topics.iter().filter(|(_, topic)| topic.owner == Some(from));
            let theirs: Vec<String> = theirs.map(|(name, _)| name.clone()).collect();
            for topic in theirs {
                world.unload(&topic, Some(to), false);
            }
        });
    }

    /// Dies: connections are closed, new ones refused by the system, and its topics become those of others when they are next
    /// looked up. What was written stays.
    ///
    /// Cancel safety: it may be stopped, or only refuse.
    pub async fn stop(&self, broker: usize) {
        self.refuse(broker).await;
        self.change(|world| world.fall(broker));
    }

    /// Listens again, after [`stop`](Self::stop) or [`refuse`](Self::refuse).
    pub fn restart(&self, broker: usize) -> io::Result<()> {
        self.brokers[broker].restart()?;
        self.change(|world| world.brokers[broker].up = true);
        Ok(())
    }

    /// New connections are refused by the system when this returns; those that are there stay, and so do topics.
    ///
    /// Cancel safety: it comes to refuse all the same.
    pub async fn refuse(&self, broker: usize) {
        self.brokers[broker].refuse().await;
    }

    /// Closes all connections that a broker has accepted. It goes on listening.
    pub fn disconnect(&self, broker: usize) {
        self.change(|world| world.at(broker, false).into_iter().for_each(|connection| world.close(connection)));
    }

    /// Closes this connection, if it is open.
    pub fn disconnect_one(&self, connection: u64) {
        self.change(|world| world.close(connection));
    }

    /// Sends these bytes on all connections of a broker, between frames; see [`Answer::garbage`] and its like for some.
    pub fn inject(&self, broker: usize, bytes: &[u8]) {
        self.change(|world| world.at(broker, false).into_iter().for_each(|id| world.send(id, bytes.to_vec())));
    }

    /// Answers this command so from now on; [`CommandType::Message`] is about what consumers are sent. What was said before for
    /// the same place and command is forgotten; with [`Answer::Normal`] it is done as it should be.
    pub fn answer(&self, on: On, command: CommandType, answer: Answer) {
        self.change(|world| world.script.set(on, Some(command), answer));
    }

    /// Answers every command so for which nothing else is said about its type, messages for consumers aside.
    pub fn answer_all(&self, on: On, answer: Answer) {
        self.change(|world| world.script.set(on, None, answer));
    }

    /// All is answered as it should be again.
    pub fn behave(&self) {
        self.change(|world| world.script.clear());
    }

    /// Only who brings this token may connect from now on; with `None`, everybody. At first: everybody.
    pub fn require_token(&self, token: impl Into<Option<&'static str>>) {
        self.change(|world| world.settings.token = token.into().map(str::to_owned));
    }

    /// Whether a broker that is asked about another's topic sends the client there to ask again (true), or says that it may
    /// connect there (false, as at first).
    pub fn redirect_lookups(&self, redirect: bool) {
        self.change(|world| world.settings.redirect = redirect);
    }

    /// Whether lookups say that brokers are reached through the address asked. Every broker is a proxy for all. At first: no.
    pub fn proxy(&self, proxied: bool) {
        self.change(|world| world.settings.proxied = proxied);
    }

    /// Whether what a producer sends again, by its sequence id, is stored once. At first: no.
    pub fn deduplicate(&self, deduplicate: bool) {
        self.change(|world| world.settings.deduplicate = deduplicate);
    }

    /// Whether what is written to a topic without subscriptions is kept, for subscriptions to come and for
    /// [`log`](Self::log). If not, only the last entry is. At first: yes.
    pub fn keep_unsubscribed(&self, keep: bool) {
        self.change(|world| world.settings.keep_unsubscribed = keep);
    }

    /// How long brokers wait before they send a PING, and again before they close. For connections that begin, and those that
    /// wait, from their next PING on. At first: 30 s.
    pub fn keep_alive(&self, interval: Duration) {
        self.change(|world| world.settings.keep_alive = interval);
    }

    /// The largest message, told to clients when they connect. At first: 5 MiB.
    pub fn max_message_size(&self, size: usize) {
        self.change(|world| world.settings.max_message_size = size);
    }

    fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        self.shared.change(change)
    }
}

type Shared = crate::shared::Shared<World>;
