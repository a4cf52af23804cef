//! A subscription under way: the future that says where a topic was placed.

use super::Placement;
use super::adapter::Adapter;
use super::error::SubscribeError;
use super::shared::Shared;
use crate::clock;
use carom_core::feed::{Refusal, Subscribed, Topic, WaiterId};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tracing::Span;

/// A subscription under way; see [`Feed::subscribe`](super::Feed::subscribe).
#[must_use = "a subscription does nothing until it is awaited"]
pub struct Subscribing<'feed, A: Adapter> {
    shared: &'feed Arc<Shared<A>>,
    topic: Topic,
    progress: Progress,
    span: Span,
}

enum Progress {
    New,
    Waiting(WaiterId),
    Over,
}

impl<'feed, A: Adapter> Subscribing<'feed, A> {
    pub(super) fn new(shared: &'feed Arc<Shared<A>>, topic: Topic) -> Subscribing<'feed, A> {
        let span = tracing::debug_span!("subscribe", feed = &*shared.name, instrument = %topic.instrument);
        Subscribing { shared, topic, progress: Progress::New, span }
    }

    fn begin(&mut self, context: &Context<'_>) -> Option<Result<Placement, Refusal>> {
        let subscribed = self.shared.step(|table| {
            let subscribed = table.machine.subscribe(clock::now(), &self.topic);
            if let Subscribed::Waiting(waiter) = subscribed {
                table.wait(waiter, context.waker().clone());
            }
            subscribed
        });
        match subscribed {
            Subscribed::Placed(placement) => Some(Ok(placement)),
            Subscribed::Refused(refusal) => Some(Err(refusal)),
            Subscribed::Waiting(waiter) => {
                self.progress = Progress::Waiting(waiter);
                None
            }
        }
    }
}

impl<A: Adapter> Future for Subscribing<'_, A> {
    type Output = Result<Placement, SubscribeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let span = self.span.clone();
        let _entered = span.enter();
        let told = match self.progress {
            Progress::New => self.begin(context),
            Progress::Waiting(waiter) => {
                let (told, _waker) = self.shared.lock().collect(waiter, context.waker());
                told
            }
            Progress::Over => panic!("a subscription was polled after it had ended"),
        };
        let Some(told) = told else { return Poll::Pending };
        self.progress = Progress::Over;
        tracing::debug!(feed = &*self.shared.name, placed = told.is_ok(), "a subscription has ended");
        Poll::Ready(told.map_err(|refusal| SubscribeError::new(&self.shared.name, &self.topic, refusal)))
    }
}

/// Whoever gives up does not want the topic any more.
impl<A: Adapter> Drop for Subscribing<'_, A> {
    fn drop(&mut self) {
        let Progress::Waiting(waiter) = self.progress else { return };
        let _waker = self.shared.step(|table| {
            let (told, waker) = table.withdraw(waiter);
            match told {
                Some(Ok(_)) => {
                    table.machine.unsubscribe(clock::now(), &self.topic);
                }
                Some(Err(_)) => {}
                None => {
                    table.machine.forget_waiter(clock::now(), waiter);
                }
            }
            waker
        });
    }
}
