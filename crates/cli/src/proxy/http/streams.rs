//! The streams of an HTTP/2 connection: one whose client keeps it waiting is ended, and the others go on.

use super::pulse::Pulse;
use crate::proxy::silence::Silence;
use hyper::rt::Executor;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

tokio::task_local! {
    /// The pulse of the stream that is served by the task.
    static STREAM: Arc<Pulse>;
}

/// Serves each stream in a task of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams {
    /// How long a client may keep one waiting.
    pub(super) idle_timeout: Option<Duration>,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let pulse = Arc::new(Pulse::default());
        let Some(timeout) = self.idle_timeout else {
            tokio::spawn(STREAM.scope(pulse, stream));
            return;
        };
        tokio::spawn(STREAM.scope(Arc::clone(&pulse), async move {
            let mut stream = pin!(stream);
            let mut silence = Silence::new(timeout);
            let mut look = pin!(silence.wait());
            loop {
                tokio::select! {
                    biased;
                    () = &mut stream => return,
                    () = &mut look => {}
                }
                // Dropped, it is reset, and what is held for it is given up.
                if silence.lasts(pulse.turn()) {
                    return;
                }
                look.as_mut().reset(silence.next());
            }
        }));
    }
}

/// The pulse of the stream that is served here, if it is one.
pub(super) fn current() -> Option<Arc<Pulse>> {
    STREAM.try_with(Arc::clone).ok()
}
