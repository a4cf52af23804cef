//! A connection to a broker: many requests, producers and consumers on one socket.
//!
//! ```text
//!  control: requests, acks, flow --+
//!  pongs: one owed or none --------+--> writer task --> socket --> reader task --> table: requests,
//!  data: messages, bounded --------+    in this order              keep-alive      producers, consumers
//! ```
//!
//! It ends once, for one reason that all who use it are told: whatever is in the table then is taken out and dropped.

mod error;
mod reader;
mod table;
mod writer;

pub use error::ConnectionError;
pub(crate) use table::{Answer, Assigned, ConsumerEvent, ProducerEvent, refused};

use crate::error::Error;
use crate::wire::{BaseCommand, CloseConsumer, CloseProducer, Codec, Command, Frame};
use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use table::{Consuming, Table};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot, watch};

/// Messages that may wait for the writer; each producer bounds its own.
const DATA_QUEUE: usize = 64;

/// A socket of any kind.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Socket for S {}

/// The numbers that a client gives to requests, producers and consumers: never the same twice.
#[derive(Debug, Default)]
pub(crate) struct Numbers(AtomicU64);

impl Numbers {
    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// A connection, as a set shares it. Dropping it ends it.
pub(crate) struct Connection {
    lines: Arc<Lines>,
}

/// What a connection and its two tasks share.
pub(crate) struct Lines {
    pub(crate) broker: String,
    pub(crate) max_message_size: usize,
    pub(crate) protocol_version: i32,
    codec: Codec,
    numbers: Arc<Numbers>,
    table: Mutex<Table>,
    control: mpsc::UnboundedSender<Frame>,
    data: mpsc::Sender<Bytes>,
    pong_owed: Notify,
    over: watch::Sender<Option<Arc<ConnectionError>>>,
    /// Answers to nothing that is asked any more, or asked twice.
    strays: AtomicU64,
}

/// What a connection is made with, once the handshake is done.
pub(crate) struct Setup {
    pub(crate) broker: String,
    pub(crate) max_message_size: usize,
    pub(crate) protocol_version: i32,
    pub(crate) keep_alive: Duration,
    pub(crate) numbers: Arc<Numbers>,
    /// Says again who the client is, when the broker asks.
    pub(crate) authenticate: Box<dyn Fn() -> Option<Frame> + Send>,
    /// What was read behind the handshake.
    pub(crate) read: bytes::BytesMut,
}

impl Connection {
    /// Starts the two tasks of a connection.
    pub(crate) fn start(socket: impl Socket, setup: Setup) -> Connection {
        let (control, from_control) = mpsc::unbounded_channel();
        let (data, from_data) = mpsc::channel(DATA_QUEUE);
        let lines = Arc::new(Lines {
            broker: setup.broker,
            max_message_size: setup.max_message_size,
            protocol_version: setup.protocol_version,
            codec: Codec::new(setup.max_message_size),
            numbers: setup.numbers,
            table: Mutex::default(),
            control,
            data,
            pong_owed: Notify::new(),
            over: watch::Sender::new(None),
            strays: AtomicU64::new(0),
        });
        let (read, write) = tokio::io::split(socket);
        let reader = reader::Reader::new(Arc::clone(&lines), setup.keep_alive, setup.authenticate, setup.read);
        tokio::spawn(reader.run(read));
        tokio::spawn(writer::run(Arc::clone(&lines), write, from_control, from_data));
        Connection { lines }
    }

    pub(crate) fn lines(&self) -> &Arc<Lines> {
        &self.lines
    }

    /// Ends it for all who use it.
    pub(crate) fn let_go(&self) {
        self.lines.end(ConnectionError::LetGo);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl Lines {
    /// Asks and waits for the answer. Cancel safe: an answer that nobody waits for any more is passed over.
    pub(crate) async fn request(
        self: &Arc<Lines>,
        what: &'static str,
        command: impl FnOnce(u64) -> BaseCommand,
    ) -> Result<Command, Error> {
        let (number, answer) = self.ask(command)?;
        let _taken_out = Asked { lines: self, number };
        match answer.await {
            Ok(Ok(command)) => Ok(command),
            Ok(Err(failure)) => Err(refused(what, Some(failure.error), Some(failure.message))),
            Err(_) => Err(self.ended()),
        }
    }

    /// Asks; the answer comes by itself. An entry stays until then, or until the connection ends.
    pub(crate) fn ask(
        &self,
        command: impl FnOnce(u64) -> BaseCommand,
    ) -> Result<(u64, oneshot::Receiver<Answer>), Error> {
        let number = self.numbers.next();
        let (sender, answer) = oneshot::channel();
        {
            let mut table = self.table();
            if table.over {
                return Err(self.ended());
            }
            table.requests.insert(number, sender);
        }
        self.tell(command(number));
        Ok((number, answer))
    }

    /// Says something that is not answered.
    pub(crate) fn tell(&self, command: impl Into<BaseCommand>) {
        // If the writer is gone, the connection has ended, and whoever cares hears of that.
        let _ = self.control.send(command.into().into());
    }

    /// A number for a request whose answer does not come by [`request`](Lines::request).
    pub(crate) fn number(&self) -> u64 {
        self.numbers.next()
    }

    /// Where messages go.
    pub(crate) fn data(&self) -> &mpsc::Sender<Bytes> {
        &self.data
    }

    pub(crate) fn codec(&self) -> Codec {
        self.codec
    }

    /// A producer will hear what is for it.
    pub(crate) fn enlist_producer(
        self: &Arc<Lines>,
        id: u64,
    ) -> Result<(Enlisted, mpsc::UnboundedReceiver<ProducerEvent>), Error> {
        let (sender, events) = mpsc::unbounded_channel();
        let mut table = self.table();
        if table.over {
            return Err(self.ended());
        }
        table.producers.insert(id, sender);
        Ok((Enlisted { lines: Arc::clone(self), who: Who::Producer(id), gone: false }, events))
    }

    /// A consumer will hear what is for it; at most `room` messages may lie unheard.
    pub(crate) fn enlist_consumer(
        self: &Arc<Lines>,
        id: u64,
        room: usize,
    ) -> Result<(Enlisted, mpsc::UnboundedReceiver<ConsumerEvent>), Error> {
        let (sender, events) = mpsc::unbounded_channel();
        let mut table = self.table();
        if table.over {
            return Err(self.ended());
        }
        table.consumers.insert(id, Consuming { events: sender, room: Arc::new(Semaphore::new(room)) });
        Ok((Enlisted { lines: Arc::clone(self), who: Who::Consumer(id), gone: false }, events))
    }

    /// Why it has ended, for somebody who was told that it has.
    pub(crate) fn ended(&self) -> Error {
        let source = self.over.borrow().clone().unwrap_or_else(|| Arc::new(ConnectionError::LetGo));
        Error::Connection { broker: self.broker.clone(), source }
    }

    /// Resolves when it has ended.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut over = self.over.subscribe();
        async move {
            let _ = over.wait_for(Option::is_some).await;
        }
    }

    /// Ends it, the first time; later reasons are not the reason.
    fn end(&self, reason: ConnectionError) {
        let left = {
            let mut table = self.table();
            if std::mem::replace(&mut table.over, true) {
                return;
            }
            tracing::debug!(broker = self.broker, %reason, "connection ended");
            // The reason is there before anybody can ask for it.
            self.over.send_replace(Some(Arc::new(reason)));
            std::mem::replace(&mut *table, Table { over: true, ..Table::default() })
        };
        drop(left);
    }

    fn stray(&self, what: &'static str, number: u64) {
        self.strays.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(broker = self.broker, what, number, "nobody waits for this");
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a request out of the table when its answer is not waited for any more.
struct Asked<'lines> {
    lines: &'lines Lines,
    number: u64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.lines.table().requests.remove(&self.number);
    }
}

/// A producer or consumer that the broker may know of. Dropping it closes it there, unless the broker has said that it is gone.
pub(crate) struct Enlisted {
    lines: Arc<Lines>,
    who: Who,
    /// The broker was asked to close it, or knows nothing of it.
    gone: bool,
}

#[derive(Clone, Copy)]
enum Who {
    Producer(u64),
    Consumer(u64),
}

impl Enlisted {
    /// The broker knows nothing of it.
    pub(crate) fn forget(mut self) {
        self.gone = true;
    }

    /// Closes it and waits for the broker's word. It hears what is for it until then.
    pub(crate) async fn close(mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.gone, true) || !self.lines.lists(self.who) {
            return Ok(());
        }
        self.lines.request("closing", |request_id| closing(self.who, request_id)).await.map(drop)
    }
}

impl Drop for Enlisted {
    fn drop(&mut self) {
        if self.lines.delist(self.who) && !self.gone {
            // Its answer is a stray, and expected to be.
            self.lines.tell(closing(self.who, self.lines.numbers.next()));
        }
    }
}

impl Lines {
    fn lists(&self, who: Who) -> bool {
        let table = self.table();
        match who {
            Who::Producer(id) => table.producers.contains_key(&id),
            Who::Consumer(id) => table.consumers.contains_key(&id),
        }
    }

    /// Whether it was there.
    fn delist(&self, who: Who) -> bool {
        let mut table = self.table();
        match who {
            Who::Producer(id) => table.producers.remove(&id).is_some(),
            Who::Consumer(id) => table.consumers.remove(&id).is_some(),
        }
    }
}

fn closing(who: Who, request_id: u64) -> BaseCommand {
    match who {
        Who::Producer(producer_id) => CloseProducer { producer_id, request_id, ..CloseProducer::default() }.into(),
        Who::Consumer(consumer_id) => CloseConsumer { consumer_id, request_id, ..CloseConsumer::default() }.into(),
    }
}

#[cfg(test)]
mod tests;
