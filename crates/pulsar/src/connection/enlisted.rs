//! Enlisted: a producer or consumer on a connection, from before the broker has heard of it until after it has forgotten it.

use super::lines::Lines;
use super::writer::Outbound;
use crate::error::Error;
use crate::wire::{BaseCommand, CloseConsumer, CloseProducer};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A producer or consumer that the broker may know of. Dropping it closes it there, unless the broker has said that it is gone.
pub(crate) struct Enlisted {
    lines: Arc<Lines>,
    who: Who,
    /// The broker was asked to close it, or knows nothing of it.
    gone: bool,
    /// What it has in the writer's queue is not to be written any more.
    withdrawn: Arc<AtomicBool>,
}

#[derive(Clone, Copy)]
pub(super) enum Who {
    Producer(u64),
    Consumer(u64),
}

impl Enlisted {
    pub(super) fn new(lines: &Arc<Lines>, who: Who) -> Enlisted {
        Enlisted { lines: Arc::clone(lines), who, gone: false, withdrawn: Arc::default() }
    }

    /// The broker knows nothing of it.
    pub(crate) fn forget(mut self) {
        self.gone = true;
    }

    /// The broker has closed it, and may begin it all the same: it is told to close it whatever it has done.
    pub(crate) fn disown(mut self) {
        self.gone = true;
        self.lines.tell(closing(self.who, self.lines.number()));
    }

    /// A message of its, for the writer. It is not written if the writer comes to it after the end of this.
    pub(crate) fn message(&self, frame: Bytes) -> Outbound {
        Outbound { frame, withdrawn: Arc::clone(&self.withdrawn) }
    }

    /// Closes it and waits for the broker's word. It hears what is for it until then.
    pub(crate) async fn close(mut self) -> Result<(), Error> {
        self.withdraw();
        if std::mem::replace(&mut self.gone, true) || !self.lines.lists(self.who) {
            return Ok(());
        }
        self.lines.request("closing", |request_id| closing(self.who, request_id)).await.map(drop)
    }

    /// Goodbyes overtake messages. To a broker, a message behind one is of nobody that it knows, for which it closes the
    /// connection; or, when the same producer has begun anew by then, a message that is sent twice.
    fn withdraw(&self) {
        self.withdrawn.store(true, Ordering::Release);
    }
}

impl Drop for Enlisted {
    fn drop(&mut self) {
        self.withdraw();
        if self.lines.delist(self.who) && !self.gone {
            // Its answer is a stray, and expected to be.
            self.lines.tell(closing(self.who, self.lines.number()));
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
