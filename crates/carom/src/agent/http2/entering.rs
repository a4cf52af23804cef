//! Getting in: a share of a connection that takes one more request, found where there is room or waited for where there is none.

use super::Connector;
use super::gate::{Pass, Shut};
use crate::agent::dial::Made;
use crate::agent::error::{Error, Step};
use crate::agent::stalls::Pulse;
use crate::set::{LeaseOptions, Set};
use crate::{Backend, Lease};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// How many connections in a row may turn out to take no more requests. Each is retired, so that the next is another.
const LOOKS: u32 = 8;

/// What a request holds of a connection.
pub(crate) struct Seat {
    pub(super) lease: Lease<Connector>,
    pub(super) pass: Pass,
}

/// Those who wait, on whatever connection of an origin, until the far side takes one more request.
#[derive(Debug, Default)]
pub(crate) struct Line {
    waiting: AtomicUsize,
    /// More than these are turned away.
    most: Option<usize>,
}

impl Seat {
    pub(crate) fn backend(&self) -> &Backend {
        self.lease.backend()
    }

    pub(crate) fn pulse(&self) -> &Arc<Pulse> {
        self.lease.pulse()
    }

    /// How long it took to make the connection; `None` when it has had a request before. From now on it has.
    pub(crate) fn begin_use(&self) -> Option<Made> {
        self.lease.begin_use()
    }
}

/// Somebody who waits; dropped, they do no more.
struct Waiting<'line>(&'line Line);

/// A share of a connection with room, rather not of the backend to be avoided; if all are full, it is waited for, for at most
/// `patience`.
///
/// Cancel safe: whoever gives up lets the next in.
pub(crate) async fn enter(set: &Set<Connector>, avoid: Option<&Backend>, patience: Duration) -> Result<Seat, Error> {
    let mut looks = 1;
    loop {
        let mut options = LeaseOptions::default();
        if let Some(backend) = avoid {
            options = options.avoid(backend.clone());
        }
        let lease = set.lease_with(options).await?;
        let news = lease.limit_news();
        if let Some(limit) = news {
            lease.limit(limit);
        }
        let pass = match lease.try_enter() {
            Ok(Some(pass)) => Ok(pass),
            // The set knows better now.
            Ok(None) if news.is_some() => continue,
            // It knew: all are full.
            Ok(None) => wait(&lease, patience).await?,
            Err(Shut) => Err(Shut),
        };
        match pass {
            Ok(pass) => {
                if lease.is_old() {
                    // Whoever comes next has a new one.
                    lease.retire();
                }
                return Ok(Seat { lease, pass });
            }
            Err(Shut) => {
                lease.retire();
                if looks == LOOKS {
                    let ended = Error::new(Step::Send, "no connection takes any more requests");
                    return Err(ended.at(lease.backend()));
                }
                looks += 1;
            }
        }
    }
}

/// A share of a connection to this backend, however many requests are under way there.
pub(crate) async fn enter_at(set: &Set<Connector>, backend: Backend) -> Option<Seat> {
    let lease = set.lease_with(LeaseOptions::default().backend(backend)).await.ok()?;
    let pass = lease.enter().await.ok()?;
    Some(Seat { lease, pass })
}

async fn wait(lease: &Lease<Connector>, patience: Duration) -> Result<Result<Pass, Shut>, Error> {
    let busy = |problem: String| Error::new(Step::Claim, problem).at(lease.backend());
    let _waiting = lease
        .line()
        .join()
        .map_err(|most| busy(format!("the servers take no more requests at a time, and {most} wait already")))?;
    timeout(patience, lease.enter())
        .await
        .map_err(|_| busy(format!("the server takes no more requests at a time: waited {patience:?} for one to end")))
}

impl Line {
    pub(crate) fn new(most: Option<usize>) -> Arc<Line> {
        Arc::new(Line { most, ..Line::default() })
    }

    /// Stands in line; if that is too long already, how many may.
    fn join(&self) -> Result<Waiting<'_>, usize> {
        let ahead = self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(self);
        match self.most {
            Some(most) if ahead >= most => Err(most),
            Some(_) | None => Ok(waiting),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_wait_as_may_and_whoever_leaves_makes_room() {
        let line = Line::new(Some(2));
        let first = line.join().unwrap();
        let _second = line.join().unwrap();
        assert_eq!(line.join().err(), Some(2));
        assert_eq!(line.join().err(), Some(2), "those who were turned away do not wait");
        drop(first);
        assert!(line.join().is_ok());
        assert_eq!(Line::new(Some(0)).join().err(), Some(0));
        assert!(Line::new(None).join().is_ok());
    }
}
