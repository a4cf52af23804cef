//! An upload that goes on after the answer has begun: a task drives the connection until somebody comes to read.
//!
//! Whoever asked may read the answer only when it has sent everything, or feed what it sends from what it reads; nobody would
//! drive the connection in between. When the request has been taken, and somebody reads, the connection comes back, to be
//! driven as any other. That hyper has taken all of it does not say that it is written: so until then the task goes on.

use super::sending::Pace;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// A connection in the hands of a task. Dropping this ends it.
pub(super) struct Upload<D> {
    /// Tells that somebody reads; `None` once told.
    wanted: Option<oneshot::Sender<()>>,
    back: oneshot::Receiver<D>,
    pace: Arc<Pace>,
    task: AbortHandle,
}

impl<D: Future + Unpin + Send + 'static> Upload<D> {
    pub(super) fn begin(mut driven: D, pace: Arc<Pace>, runtime: &Handle) -> Upload<D> {
        let ((give, back), (wanted, mut wants)) = (oneshot::channel(), oneshot::channel());
        let own = Arc::clone(&pace);
        let task = runtime.spawn(async move {
            let mut is_wanted = false;
            let ended = poll_fn(|cx| {
                if Pin::new(&mut driven).poll(cx).is_ready() {
                    return Poll::Ready(true);
                }
                is_wanted = is_wanted || Pin::new(&mut wants).poll(cx).is_ready();
                // The body is dropped inside the poll above, if at all.
                if is_wanted && pace.is_over() { Poll::Ready(false) } else { Poll::Pending }
            });
            if !ended.await {
                // If nobody wants it any more, it ends here.
                let _ = give.send(driven);
            }
        });
        Upload { wanted: Some(wanted), back, pace: own, task: task.abort_handle() }
    }

    /// Whether it comes back in a moment, now that somebody reads.
    pub(super) fn is_over(&self) -> bool {
        self.pace.is_over()
    }

    /// The connection, when all was sent; `None` if it has ended before. Asked by whoever reads.
    pub(super) fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<Option<D>> {
        if let Some(wanted) = self.wanted.take() {
            // If it has ended, that is told in a moment.
            let _ = wanted.send(());
        }
        Pin::new(&mut self.back).poll(cx).map(Result::ok)
    }
}

impl<D> Drop for Upload<D> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
