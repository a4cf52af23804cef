//! A resolver that says what a test tells it.

use carom::Backend;
use carom::resolver::{Publisher, Resolve};
use tokio::sync::watch;

/// Publishes what it is told, and ends when nobody is left to tell it anything.
#[derive(Debug)]
pub struct Told(watch::Receiver<Vec<Backend>>);

impl Told {
    /// One that knows these, and who tells it of others.
    pub fn new(backends: impl IntoIterator<Item = Backend>) -> (watch::Sender<Vec<Backend>>, Told) {
        let (tell, told) = watch::channel(backends.into_iter().collect());
        (tell, Told(told))
    }
}

impl Resolve for Told {
    async fn run(mut self, publisher: Publisher) {
        loop {
            publisher.publish(self.0.borrow_and_update().clone());
            if self.0.changed().await.is_err() {
                return;
            }
        }
    }
}
