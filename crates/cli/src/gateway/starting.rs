//! The start of a gateway: now, or as soon as NATS is there, which may be started along with this, and later.

use super::{Request, Serving};
use crate::failure::{Failure, say};
use crate::output::announce;
use crate::up::Board;
use carom_core::seldom::Seldom;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// From an attempt to the next one.
const AGAIN: Duration = Duration::from_secs(1);

/// Why a gateway has not started.
#[derive(Debug)]
pub(super) enum Unstarted {
    /// NATS is not there, or not ready, which is likely to change.
    Waiting(String),
    /// Something is wrong.
    Failed(Failure),
}

/// Has a gateway started for a board, for as long as this is held.
pub(crate) struct Starting {
    board: Arc<Board>,
    /// What people are told when it has started late.
    summary: fn(&Serving) -> String,
    /// Tries, if NATS was not there.
    task: JoinSet<()>,
}

impl Starting {
    pub(crate) fn new(board: Arc<Board>, summary: fn(&Serving) -> String) -> Starting {
        Starting { board, summary, task: JoinSet::new() }
    }

    /// Starts it, or waits for NATS from now on: the board has the gateway then, or what is waited for. Cancelled, it has neither.
    ///
    /// # Errors
    /// When it cannot be started for another reason. One that comes up while NATS is waited for is told, and it is tried again:
    /// others are served by then.
    pub(crate) async fn start(&mut self, request: Request) -> Result<(), Failure> {
        let request = Arc::new(request);
        match Serving::start(Arc::clone(&request)).await {
            Ok(serving) => self.board.gateway_is(serving),
            Err(Unstarted::Failed(failure)) => return Err(failure),
            Err(unstarted @ Unstarted::Waiting(_)) => self.again(request, unstarted.to_string()),
        }
        Ok(())
    }

    /// Starts this one in the place of one that was waited for until now, or none, if none is wanted any more.
    pub(crate) fn start_instead(&mut self, request: Option<Request>, why: String) {
        match request {
            Some(request) => {
                request.warn();
                self.again(Arc::new(request), why);
            }
            None => self.board.gateway_is_off(),
        }
    }

    fn again(&mut self, request: Arc<Request>, why: String) {
        self.board.gateway_waits(&why);
        self.task.spawn(try_again(request, why, Arc::clone(&self.board), self.summary));
    }

    /// Waits until one that was waited for has started; for ever if none is. Cancelling it loses nothing.
    pub(crate) async fn comes(&mut self) {
        if self.task.join_next().await.is_none() {
            std::future::pending().await
        }
    }

    /// Tries no more.
    pub(crate) async fn end(&mut self) {
        self.task.shutdown().await;
    }
}

async fn try_again(request: Arc<Request>, mut why: String, board: Arc<Board>, summary: fn(&Serving) -> String) {
    let mut reasons = Reasons::default();
    loop {
        if reasons.is_news(&why, Instant::now()) {
            say(&why);
        }
        sleep(AGAIN).await;
        match Serving::start(Arc::clone(&request)).await {
            Ok(serving) => {
                announce(&summary(&serving));
                return board.gateway_is(serving);
            }
            Err(unstarted) => why = unstarted.to_string(),
        }
        board.gateway_waits(&why);
    }
}

/// What was told of why it has not started.
#[derive(Default)]
struct Reasons {
    last: String,
    seldom: Seldom,
}

impl Reasons {
    /// Whether this is to be told: another one is, and not more than one in a minute. Of several servers each may have its own.
    fn is_news(&mut self, why: &str, now: Instant) -> bool {
        let is_news = why != self.last && self.seldom.happened(now).is_some();
        if is_news {
            why.clone_into(&mut self.last);
        }
        is_news
    }
}

impl From<Failure> for Unstarted {
    fn from(failure: Failure) -> Unstarted {
        Unstarted::Failed(failure)
    }
}

impl fmt::Display for Unstarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unstarted::Waiting(problem) => write!(f, "waiting for NATS: {problem}"),
            Unstarted::Failed(failure) => write!(f, "the gateway cannot start yet: {failure}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_alternate_are_told_once_a_minute() {
        let (start, mut reasons) = (Instant::now(), Reasons::default());
        let mut told = |second: u64, why: &str| reasons.is_news(why, start + Duration::from_secs(second));
        assert!(told(0, "a is away"), "the first is told at once");
        let times = (1..=120).filter(|second| told(*second, if second % 2 == 0 { "a is away" } else { "b is away" }));
        assert_eq!(times.collect::<Vec<_>>(), [61], "b, and then a before the minute is over");
        assert!(!told(1000, "b is away"), "it is known");
        assert!(told(1001, "a is away"));
    }
}
