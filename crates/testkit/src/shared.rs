//! A world that many tasks change under one lock, and that tests wait for changes of.

use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

#[derive(Debug)]
pub(crate) struct Shared<W> {
    world: Mutex<W>,
    changes: watch::Sender<()>,
}

impl<W> Shared<W> {
    pub(crate) fn new(world: W) -> Shared<W> {
        Shared { world: Mutex::new(world), changes: watch::Sender::new(()) }
    }

    /// A test that panicked with the lock says nothing about the world.
    pub(crate) fn lock(&self) -> MutexGuard<'_, W> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut W) -> T) -> T {
        let result = change(&mut self.lock());
        self.changes.send_replace(());
        result
    }

    /// Hears of every change from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}
