//! The tasks of a connection: one that reads and writes the socket, and small ones for requests under way.

use hyper::rt::Executor;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// How long an orderly goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// Spawns what hyper wants to run beside a connection, and knows the one task that has the socket: the first.
#[derive(Clone, Debug)]
pub(super) struct Tasks {
    carrier: Arc<Carrier>,
}

#[derive(Debug)]
struct Carrier {
    task: OnceLock<AbortHandle>,
    life: watch::Sender<Life>,
}

/// Where the task is that has the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Life {
    /// Each turn of it may bring what a connect waits for: this is sent anew each time.
    Beginning,
    Serving,
    /// Nobody wants it any more.
    Leaving,
    Ended,
}

impl Tasks {
    pub(super) fn new() -> Tasks {
        Tasks { carrier: Arc::new(Carrier { task: OnceLock::new(), life: watch::Sender::new(Life::Beginning) }) }
    }

    pub(super) fn life(&self) -> watch::Receiver<Life> {
        self.carrier.life.subscribe()
    }

    /// Moves on, never back.
    pub(super) fn enter(&self, life: Life) {
        self.carrier.enter(life);
    }

    /// Ends the connection where it stands.
    pub(super) fn abort(&self) {
        if let Some(task) = self.carrier.task.get() {
            task.abort();
        }
    }

    /// Resolves when the socket is closed.
    pub(super) fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut life = self.life();
        async move {
            // It cannot fail before that: whoever runs the task holds the sender.
            let _ = life.wait_for(|life| *life == Life::Ended).await;
        }
    }
}

impl Carrier {
    fn enter(&self, to: Life) {
        self.life.send_if_modified(|life| {
            let moves = *life < to;
            *life = (*life).max(to);
            moves
        });
    }

    /// Whoever waits for the beginning to be over may look again.
    fn tell_turn(&self) {
        self.life.send_if_modified(|life| *life == Life::Beginning);
    }

    /// Runs the task that has the socket, and sees to it that a goodbye does not take for ever.
    async fn run(self: Arc<Self>, future: impl Future<Output = ()>) {
        let _end = End(Arc::clone(&self));
        let mut life = self.life.subscribe();
        let mut future = pin!(future);
        let carried = std::future::poll_fn(|cx: &mut Context<'_>| -> Poll<()> {
            let polled = future.as_mut().poll(cx);
            self.tell_turn();
            polled
        });
        let mut carried = pin!(carried);
        tokio::select! {
            biased;
            () = &mut carried => return,
            _ = life.wait_for(|life| *life >= Life::Leaving) => {}
        }
        let _ = tokio::time::timeout(GOODBYE, carried).await;
    }
}

/// Says that it has ended, however it came to that.
struct End(Arc<Carrier>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.enter(Life::Ended);
    }
}

impl<F> Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        // hyper begins with the one that has the socket, before anybody can ask for anything.
        if self.carrier.task.get().is_some() {
            tokio::spawn(future);
            return;
        }
        let task = tokio::spawn(Arc::clone(&self.carrier).run(future));
        let _ = self.carrier.task.set(task.abort_handle());
    }
}
