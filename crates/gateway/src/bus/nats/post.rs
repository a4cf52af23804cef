//! The post: what gateways need of NATS, so that they can be tried without it.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use std::fmt;
use std::sync::Arc;

/// Carries letters between members by subject, as NATS does: at most once, in order from one sender to one reader, and not back to
/// whoever sent them.
pub(crate) trait Post: Send + Sync + fmt::Debug + 'static {
    /// Sends a letter. It waits while the server takes nothing.
    ///
    /// Cancel safe: it is sent or not.
    fn send(&self, subject: String, payload: Bytes) -> BoxFuture<'_, Result<(), PostError>>;

    /// Asks whoever hears this subject, and waits for the answer for as long as it takes; not when nobody hears it.
    ///
    /// Cancel safe: an answer that comes later is dropped.
    fn ask(&self, subject: String, payload: Bytes) -> BoxFuture<'_, Result<Bytes, PostError>>;

    /// Letters of this subject from now on, all that begin like it if it ends in `>`. It goes on when the server was away, without
    /// what was sent meanwhile.
    fn hear(&self, subject: String) -> BoxFuture<'_, Result<BoxStream<'static, Letter>, PostError>>;

    /// Waits until the server has what was sent.
    fn flush(&self) -> BoxFuture<'_, Result<(), PostError>>;

    /// Whether there is a server at the moment, as far as is known.
    fn is_connected(&self) -> bool;
}

/// The post of a member: what members ask of each other does not wait behind ticks.
pub(crate) struct Posts {
    pub(crate) ticks: Arc<dyn Post>,
    pub(crate) asks: Arc<dyn Post>,
}

/// One for both, where nothing waits.
impl<P: Post> From<Arc<P>> for Posts {
    fn from(post: Arc<P>) -> Posts {
        Posts { ticks: Arc::clone(&post) as Arc<dyn Post>, asks: post }
    }
}

/// What was sent.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) subject: String,
    pub(crate) payload: Bytes,
    /// Where an answer is awaited.
    pub(crate) reply: Option<String>,
}

/// Why a letter was not sent, or not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// Nobody hears this subject.
    #[error("nobody is there to answer")]
    NobodyThere,
    /// NATS does not take it.
    #[error("NATS does not take it: {0}")]
    NotTaken(String),
}
