//! A future that seldom has anything to say, beside one that is polled often: it is polled only when it was woken.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// See the [module](self). It must not be polled after it has ended, unless it was [changed](WhenWoken::change).
pub(super) struct WhenWoken<'f, F> {
    future: Pin<&'f mut F>,
    bell: Arc<Bell>,
    /// The bell's own.
    waker: Waker,
    /// Whom the bell wakes.
    task: Option<Waker>,
}

#[derive(Debug)]
struct Bell {
    rung: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl<'f, F: Future> WhenWoken<'f, F> {
    pub(super) fn new(future: Pin<&'f mut F>) -> WhenWoken<'f, F> {
        let bell = Arc::new(Bell { rung: AtomicBool::new(true), task: Mutex::default() });
        WhenWoken { future, waker: Waker::from(Arc::clone(&bell)), bell, task: None }
    }

    /// Does something to the future, after which it is polled again.
    pub(super) fn change(&mut self, change: impl FnOnce(Pin<&mut F>)) {
        change(self.future.as_mut());
        self.bell.rung.store(true, Ordering::Release);
    }
}

impl<F: Future> Future for WhenWoken<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let WhenWoken { future, bell, waker, task } = &mut *self;
        if task.as_ref().is_none_or(|task| !task.will_wake(cx.waker())) {
            *task = Some(cx.waker().clone());
            bell.wakes(cx.waker().clone());
        }
        // Whoever rings it meanwhile has set this before it looks whom to wake.
        if !bell.rung.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        // Taken and not just cleared: what whoever rang last has done is seen by the future, which nobody may ring for again.
        bell.rung.swap(false, Ordering::AcqRel);
        future.as_mut().poll(&mut Context::from_waker(waker))
    }
}

impl Bell {
    fn wakes(&self, task: Waker) {
        let before = self.task.lock().unwrap_or_else(PoisonError::into_inner).replace(task);
        // Dropping a waker can drop a task.
        drop(before);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn it_is_polled_when_it_was_woken_and_wakes_whoever_polled_last() {
        let (mut polled, mut own) = (0, None);
        let mut future = pin!(poll_fn(|cx| {
            polled += 1;
            own = Some(cx.waker().clone());
            if polled < 3 { Poll::Pending } else { Poll::Ready(polled) }
        }));
        let tasks = [Arc::new(Task::default()), Arc::new(Task::default())];
        let wakers = tasks.clone().map(Waker::from);
        let mut seldom = WhenWoken::new(future.as_mut());
        let mut poll = |task: usize| Pin::new(&mut seldom).poll(&mut Context::from_waker(&wakers[task]));
        assert_eq!((poll(0), poll(0), poll(1)), (Poll::Pending, Poll::Pending, Poll::Pending));
        let bell = Waker::from(Arc::clone(&seldom.bell));
        bell.wake_by_ref();
        assert_eq!(tasks.each_ref().map(|task| task.0.load(Ordering::Relaxed)), [0, 1]);
        let mut poll = || Pin::new(&mut seldom).poll(&mut Context::from_waker(&wakers[1]));
        assert_eq!((poll(), poll()), (Poll::Pending, Poll::Pending));
        bell.wake_by_ref();
        assert_eq!(Pin::new(&mut seldom).poll(&mut Context::from_waker(&wakers[1])), Poll::Ready(3));
    }
}
