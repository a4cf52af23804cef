//! The service that every pool is put in front of: it answers as told, and remembers what it was asked.

use std::future::pending;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::sleep;

/// What the refusal of a connection says.
pub const REFUSAL: &str = "password rejected";

pub const NODE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

#[derive(Clone)]
pub struct Service(Arc<Script>);

struct Script {
    on_connect: Mutex<Answer>,
    on_check: Mutex<Answer>,
    on_next_check: Mutex<Option<Answer>>,
    connects: AtomicUsize,
    checks: AtomicUsize,
}

#[derive(Clone, Copy)]
pub enum Answer {
    AtOnce,
    After(Duration),
    Refusal,
    Never,
}

/// A connection to the service. It is in order while every check it was asked for has been answered: another answer
/// under way would be taken for that of its user's first question.
pub struct Wire {
    pub broken: bool,
    asked: usize,
    answered: usize,
}

impl Wire {
    pub fn in_order(&self) -> bool {
        self.asked == self.answered
    }
}

impl Service {
    pub fn new() -> Self {
        Self(Arc::new(Script {
            on_connect: Mutex::new(Answer::AtOnce),
            on_check: Mutex::new(Answer::AtOnce),
            on_next_check: Mutex::new(None),
            connects: AtomicUsize::new(0),
            checks: AtomicUsize::new(0),
        }))
    }

    /// What connects get from now on.
    pub fn on_connect(&self, answer: Answer) {
        set(&self.0.on_connect, answer);
    }

    /// What checks get from now on.
    pub fn on_check(&self, answer: Answer) {
        set(&self.0.on_check, answer);
    }

    /// What one check gets, before the others go on as told.
    pub fn on_next_check(&self, answer: Answer) {
        set(&self.0.on_next_check, Some(answer));
    }

    /// Connects begun so far.
    pub fn connects(&self) -> usize {
        self.0.connects.load(Ordering::Relaxed)
    }

    pub async fn until_connects(&self, count: usize) {
        while self.connects() < count {
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// Checks begun so far.
    pub fn checks(&self) -> usize {
        self.0.checks.load(Ordering::Relaxed)
    }

    pub async fn until_checks(&self, count: usize) {
        while self.checks() < count {
            sleep(Duration::from_millis(2)).await;
        }
    }

    pub async fn open(&self) -> io::Result<Wire> {
        self.0.connects.fetch_add(1, Ordering::Relaxed);
        get(&self.0.on_connect).arrives().await?;
        Ok(Wire { broken: false, asked: 0, answered: 0 })
    }

    pub async fn ping(&self, wire: &mut Wire) -> io::Result<()> {
        self.0.checks.fetch_add(1, Ordering::Relaxed);
        wire.asked += 1;
        let next = self.0.on_next_check.lock().unwrap_or_else(PoisonError::into_inner).take();
        let outcome = next.unwrap_or_else(|| get(&self.0.on_check)).arrives().await;
        wire.answered += 1;
        outcome
    }
}

impl Answer {
    async fn arrives(self) -> io::Result<()> {
        match self {
            Self::AtOnce => Ok(()),
            Self::After(delay) => {
                sleep(delay).await;
                Ok(())
            }
            Self::Refusal => Err(io::Error::other(REFUSAL)),
            Self::Never => pending().await,
        }
    }
}

fn set<T>(place: &Mutex<T>, value: T) {
    *place.lock().unwrap_or_else(PoisonError::into_inner) = value;
}

fn get<T: Copy>(place: &Mutex<T>) -> T {
    *place.lock().unwrap_or_else(PoisonError::into_inner)
}
