//! The queue: a lock-free pop and push, a lower bound that does not wait but asks again and again.

use crate::measure::Subject;
use crossbeam_queue::ArrayQueue;
use std::sync::Arc;
use tokio::task::yield_now;

#[derive(Clone)]
pub struct Queue(Arc<ArrayQueue<u64>>);

pub struct Guard<'a> {
    idle: &'a ArrayQueue<u64>,
    connection: u64,
}

impl Subject for Queue {
    const NAME: &'static str = "queue";

    type Guard<'a> = Guard<'a>;

    async fn open(connections: usize) -> Self {
        let idle = ArrayQueue::new(connections);
        for _ in 0..connections {
            idle.push(1).expect("there is room for each connection");
        }
        Self(Arc::new(idle))
    }

    async fn claim(&self) -> Guard<'_> {
        loop {
            if let Some(connection) = self.0.pop() {
                return Guard { idle: &self.0, connection };
            }
            yield_now().await;
        }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let pushed = self.idle.push(self.connection);
        debug_assert!(pushed.is_ok(), "only what was popped is pushed");
    }
}
