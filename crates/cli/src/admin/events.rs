//! Events: everything that is seen, about once a second, for whoever listens. One who listens slowly misses some of it.

use super::looking::News;
use crate::config::Access;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use http_body::{Body, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until};

/// Whoever wants to hear more comes again, and does so by itself: nobody has a place for ever.
pub(super) const LONGEST_STREAM: Duration = Duration::from_secs(900);

/// What a listener hears, from now until there is no more to hear. Nothing is kept for it: it gets the latest when it is ready.
pub(super) struct Events(BoxStream<'static, Bytes>);

/// A listener.
struct Listening {
    news: watch::Receiver<News>,
    /// It may ask for as long as this stays as it is.
    access: watch::Receiver<Access>,
    deadline: Instant,
    /// Its place among those who listen.
    _place: OwnedSemaphorePermit,
}

impl Events {
    pub(super) fn new(
        news: watch::Receiver<News>,
        access: watch::Receiver<Access>,
        place: OwnedSemaphorePermit,
    ) -> Events {
        let listening = Listening { news, access, deadline: Instant::now() + LONGEST_STREAM, _place: place };
        Events(stream::unfold(Some(listening), |listening| async { listening?.next().await }).boxed())
    }
}

impl Listening {
    /// What comes next, and who hears what comes after that.
    async fn next(mut self) -> Option<(Bytes, Option<Listening>)> {
        tokio::select! {
            biased;
            _ = self.access.changed() => return None,
            () = sleep_until(self.deadline) => return None,
            changed = self.news.changed() => changed.ok()?,
        }
        let News { event, is_last } = self.news.borrow_and_update().clone();
        Some((event, (!is_last).then_some(self)))
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_next_unpin(cx).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;
    use std::sync::Arc;
    use tokio::sync::Semaphore;

    fn news(text: String, is_last: bool) -> News {
        News { event: text.into(), is_last }
    }

    async fn heard(events: &mut Events) -> Option<String> {
        let frame = events.frame().await?.unwrap();
        Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
    }

    fn listening() -> (watch::Sender<News>, watch::Sender<Access>, Arc<Semaphore>, Events) {
        let (news, access, places) = (watch::Sender::default(), watch::Sender::default(), Arc::new(Semaphore::new(1)));
        let place = Arc::clone(&places).try_acquire_owned().unwrap();
        let events = Events::new(news.subscribe(), access.subscribe(), place);
        (news, access, places, events)
    }

    #[tokio::test]
    async fn one_who_was_away_hears_the_latest_alone() {
        let (sender, _access, places, mut events) = listening();
        for number in 0..1000 {
            sender.send_replace(news(number.to_string(), false));
        }
        assert_eq!(heard(&mut events).await.as_deref(), Some("999"));
        sender.send_replace(news("the last".to_owned(), true));
        assert_eq!(heard(&mut events).await.as_deref(), Some("the last"));
        assert_eq!(heard(&mut events).await, None);
        drop(events);
        assert_eq!(places.available_permits(), 1, "its place is free");
    }

    #[tokio::test(start_paused = true)]
    async fn they_end_in_order_after_a_while() {
        let (_sender, _access, _places, mut events) = listening();
        let begun = Instant::now();
        assert_eq!(heard(&mut events).await, None);
        assert!(begun.elapsed() >= LONGEST_STREAM);
    }

    #[tokio::test]
    async fn who_may_not_ask_any_more_hears_nothing_more() {
        let (sender, access, _places, mut events) = listening();
        sender.send_replace(news("secret".to_owned(), false));
        access.send_replace(Access::default());
        assert_eq!(heard(&mut events).await, None);
    }
}
