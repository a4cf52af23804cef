//! A watched value that can be polled: what streams of changes are made of.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::watch;

type Waiting<T> = Pin<Box<dyn Future<Output = Option<watch::Receiver<T>>> + Send>>;

/// The value first counts as changed.
pub(crate) struct Changing<T> {
    /// `None` when there will be no more changes.
    waiting: Option<Waiting<T>>,
}

impl<T: Send + Sync + 'static> Changing<T> {
    pub(crate) fn new(mut receiver: watch::Receiver<T>) -> Changing<T> {
        receiver.mark_changed();
        Changing { waiting: Some(wait(receiver)) }
    }

    /// Reads the value when it has changed since it was read last; `None` when nobody is left to change it.
    pub(crate) fn poll<R>(&mut self, context: &mut Context<'_>, read: impl FnOnce(&T) -> R) -> Poll<Option<R>> {
        let Some(waiting) = &mut self.waiting else { return Poll::Ready(None) };
        let Poll::Ready(changed) = waiting.as_mut().poll(context) else { return Poll::Pending };
        let Some(mut receiver) = changed else {
            self.waiting = None;
            return Poll::Ready(None);
        };
        let value = read(&receiver.borrow_and_update());
        self.waiting = Some(wait(receiver));
        Poll::Ready(Some(value))
    }
}

/// Gives the receiver back when there is something new, or `None` when there will not be.
fn wait<T: Send + Sync + 'static>(mut receiver: watch::Receiver<T>) -> Waiting<T> {
    Box::pin(async move { receiver.changed().await.is_ok().then_some(receiver) })
}
