//! The alarm of a connection: it stays set from one request to the next, and is moved when it goes off too early.
//!
//! A timer for each request would be put into the runtime's timers and taken out again, under their lock, and next to none
//! ever goes off. Requests on one connection come one after the other, and so do their deadlines: an alarm that was set for
//! one of them goes off before that of the next, which is early enough to be set anew.

use crate::clock;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Instant;
use tokio::runtime::Handle;
use tokio::time::{Sleep, sleep_until};

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Alarm {
    /// `None` before it was first set.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Alarm {
    /// Whether this time has come. If not, `waker` is woken by then, perhaps before; it must be the same each time.
    pub(super) fn has_come(&mut self, deadline: Instant, waker: &Waker, runtime: &Handle) -> bool {
        if self.sleep.as_ref().is_some_and(|sleep| !sleep.is_elapsed() && sleep.deadline().into_std() <= deadline) {
            return false;
        }
        if clock::now() >= deadline {
            return true;
        }
        let sleep = self.sleep.get_or_insert_with(|| {
            // That of the connection, which ends with it; who asks may be at home in another.
            let _entered = runtime.enter();
            Box::pin(sleep_until(deadline.into()))
        });
        if sleep.deadline().into_std() != deadline || sleep.is_elapsed() {
            sleep.as_mut().reset(deadline.into());
        }
        sleep.as_mut().poll(&mut Context::from_waker(waker)).is_ready()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, poll_fn};
    use std::task::Poll;
    use std::time::Duration;
    use tokio::time::timeout;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn it_wakes_in_time_though_it_was_set_for_another() {
        let (mut alarm, begun) = (Alarm::default(), clock::now());
        let runtime = Handle::current();
        for (after, come) in [(10, 10), (25, 25), (25, 25), (20, 25)] {
            let deadline = begun + after * SECOND;
            poll_fn(|cx| match alarm.has_come(deadline, cx.waker(), &runtime) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
            assert_eq!(clock::now() - begun, come * SECOND);
        }
        // Earlier than the one that it is set for.
        let (far, near) = (begun + 90 * SECOND, begun + 40 * SECOND);
        assert!(!alarm.has_come(far, Waker::noop(), &runtime));
        poll_fn(|cx| if alarm.has_come(near, cx.waker(), &runtime) { Poll::Ready(()) } else { Poll::Pending }).await;
        assert_eq!(clock::now(), near);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_not_moved_for_each_deadline() {
        let (mut alarm, begun, runtime) = (Alarm::default(), clock::now(), Handle::current());
        for passed in 1..5 {
            let _ = timeout(SECOND, pending::<()>()).await;
            assert!(!alarm.has_come(clock::now() + 10 * SECOND, Waker::noop(), &runtime));
            let set_for = alarm.sleep.as_ref().map(|sleep| sleep.deadline().into_std());
            assert_eq!(set_for, Some(begun + 11 * SECOND), "after {passed} s");
        }
    }
}
