//! The floor: the least that still waits in turn, a semaphore and a mutexed stack, with no notion of a broken connection.

use crate::measure::Subject;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

#[derive(Clone)]
pub struct Floor(Arc<Shared>);

struct Shared {
    permits: Semaphore,
    idle: Mutex<Vec<u64>>,
}

pub struct Guard {
    shared: Arc<Shared>,
    connection: u64,
}

impl Subject for Floor {
    const NAME: &'static str = "floor";

    type Guard<'a> = Guard;

    async fn open(connections: usize) -> Self {
        Self(Arc::new(Shared { permits: Semaphore::new(connections), idle: Mutex::new(vec![1; connections]) }))
    }

    async fn claim(&self) -> Guard {
        let permit = self.0.permits.acquire().await.expect("never closed");
        permit.forget();
        let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = idle.pop().expect("a permit stands for a connection");
        drop(idle);
        Guard { shared: Arc::clone(&self.0), connection }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut idle = self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(self.connection);
        drop(idle);
        self.shared.permits.add_permits(1);
    }
}
