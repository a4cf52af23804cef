//! The lines: what can be asked and said on a connection, and its end.

use super::enlisted::{Enlisted, Who};
use super::table::{Answer, ConsumerEvent, Consuming, ProducerEvent, Request, Table, refused};
use super::writer::Outbound;
use super::{ConnectionError, Numbers};
use crate::error::Error;
use crate::wire::{BaseCommand, Codec, Command, Frame};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot, watch};

/// What a connection and its two tasks share.
pub(crate) struct Lines {
    pub(crate) broker: String,
    pub(crate) max_message_size: usize,
    pub(crate) protocol_version: i32,
    pub(super) codec: Codec,
    pub(super) numbers: Arc<Numbers>,
    pub(super) table: Mutex<Table>,
    pub(super) control: mpsc::UnboundedSender<Frame>,
    pub(super) messages: mpsc::Sender<Outbound>,
    /// Whatever a broker asks for again and again without reading is owed once.
    pub(super) pong_owed: Notify,
    pub(super) proof_owed: Notify,
    pub(super) over: watch::Sender<Option<Arc<ConnectionError>>>,
    /// Answers to nothing that is asked any more, or asked twice.
    pub(super) strays: AtomicU64,
}

impl Lines {
    /// Asks and waits for the answer. Cancel safe: an answer that nobody waits for any more is passed over.
    pub(crate) async fn request(
        self: &Arc<Lines>,
        what: &'static str,
        command: impl FnOnce(u64) -> BaseCommand,
    ) -> Result<Command, Error> {
        self.request_held(what, command, None).await
    }

    /// The same, of somebody who wants to know when the broker says that the answer may take any time.
    pub(crate) async fn request_held(
        self: &Arc<Lines>,
        what: &'static str,
        command: impl FnOnce(u64) -> BaseCommand,
        held: Option<Arc<Notify>>,
    ) -> Result<Command, Error> {
        let (number, answer) = self.ask(what, command, held)?;
        let _taken_out = Asked { lines: self, number };
        match answer.await {
            Ok(Ok(command)) => Ok(command),
            Ok(Err(failure)) => Err(refused(what, Some(failure.error), Some(failure.message))),
            Err(_) => Err(self.ended()),
        }
    }

    /// Asks; the answer comes by itself. An entry stays until then, or until the connection ends.
    fn ask(
        &self,
        what: &'static str,
        command: impl FnOnce(u64) -> BaseCommand,
        held: Option<Arc<Notify>>,
    ) -> Result<(u64, oneshot::Receiver<Answer>), Error> {
        let number = self.numbers.next();
        let command = Frame::from(command(number));
        // What cannot be written is not answered.
        self.codec.measure(&command).map_err(|source| Error::Unsayable { what, source })?;
        let (sender, answer) = oneshot::channel();
        {
            let mut table = self.table();
            if table.over {
                return Err(self.ended());
            }
            table.requests.insert(number, Request { answer: sender, held });
        }
        let _ = self.control.send(command);
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
    pub(crate) fn messages(&self) -> &mpsc::Sender<Outbound> {
        &self.messages
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
        Ok((Enlisted::new(self, Who::Producer(id)), events))
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
        Ok((Enlisted::new(self, Who::Consumer(id)), events))
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
    pub(super) fn end(&self, reason: ConnectionError) {
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

    pub(super) fn stray(&self, what: &'static str, number: u64) {
        self.strays.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(broker = self.broker, what, number, "nobody waits for this");
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
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
