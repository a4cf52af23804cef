//! The fence: what only an owner may do is cut short when it is not the owner any more.

use super::{Role, clock};
use std::pin::pin;
use std::task::Poll;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// A fence around one hold of a lease: from when somebody found itself the owner until it is not, by its own clock.
///
/// Nobody has to say that it has fallen: whoever cannot be reached, or was stopped for a while, has to know by itself.
#[derive(Clone, Debug)]
pub struct Fence {
    roles: watch::Receiver<Role>,
    epoch: u64,
}

/// This member is not the owner, or not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("this gateway does not own the upstream")]
pub struct Fenced;

impl Fence {
    /// A fence around the hold that this member has now.
    ///
    /// # Errors
    /// It has none.
    pub fn around(roles: &watch::Receiver<Role>) -> Result<Fence, Fenced> {
        let epoch = roles.borrow().owns(Instant::now()).ok_or(Fenced)?;
        Ok(Fence { roles: roles.clone(), epoch })
    }

    /// Which hold is inside.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether it stands, at this very time.
    pub fn stands(&self) -> bool {
        self.until().is_some_and(|until| clock::now() < until)
    }

    /// Lasts for as long as the fence stands. Cancelling it changes nothing.
    pub async fn fallen(&self) {
        let mut roles = self.roles.clone();
        loop {
            roles.mark_unchanged();
            let Some(until) = self.until().filter(|until| clock::now() < *until) else { return };
            tokio::select! {
                // Without anybody who renews the lease it is as good as gone.
                changed = roles.changed() => if changed.is_err() { return },
                // It may have been renewed in this very moment: asked again above.
                () = sleep_until(clock::timer(until)) => {}
            }
        }
    }

    /// What the future says, unless the fence falls first: then the future is dropped, and nothing is said however far it was.
    ///
    /// Cancelling it cancels the future.
    ///
    /// # Errors
    /// The fence has fallen.
    pub async fn guard<F: Future>(&self, future: F) -> Result<F::Output, Fenced> {
        let (mut fallen, mut future) = (pin!(self.fallen()), pin!(future));
        std::future::poll_fn(|context| {
            // The clock before the timer: who wakes up after a long sleep may find the future done and the timer not yet.
            if !self.stands() || fallen.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(Fenced));
            }
            future.as_mut().poll(context).map(Ok)
        })
        .await
    }

    fn until(&self) -> Option<Instant> {
        match *self.roles.borrow() {
            Role::Owner { epoch, until } if epoch == self.epoch => Some(until),
            Role::Owner { .. } | Role::Follower { .. } | Role::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::time::{advance, timeout};

    const HOLD: Duration = Duration::from_secs(2);

    fn owner(epoch: u64) -> Role {
        Role::Owner { epoch, until: Instant::now() + HOLD }
    }

    #[tokio::test(start_paused = true)]
    async fn only_an_owner_has_a_fence() {
        let (roles, role) = watch::channel(Role::Unknown);
        assert_eq!(Fence::around(&role).unwrap_err(), Fenced);
        roles.send_replace(Role::Follower { owner: Arc::from("other"), epoch: 3 });
        assert_eq!(Fence::around(&role).unwrap_err(), Fenced);
        roles.send_replace(owner(4));
        assert_eq!(Fence::around(&role).unwrap().epoch(), 4);
        advance(HOLD).await;
        assert_eq!(Fence::around(&role).unwrap_err(), Fenced, "nobody said that it is over");
    }

    #[tokio::test(start_paused = true)]
    async fn it_falls_by_its_own_clock() {
        let (_roles, role) = watch::channel(owner(1));
        let fence = Fence::around(&role).unwrap();
        let start = Instant::now();
        assert_eq!(fence.guard(pending::<()>()).await, Err(Fenced));
        assert_eq!(start.elapsed(), HOLD);
        assert!(!fence.stands());
    }

    #[tokio::test(start_paused = true)]
    async fn it_stands_for_as_long_as_the_hold_is_renewed() {
        let (roles, role) = watch::channel(owner(1));
        let fence = Fence::around(&role).unwrap();
        let start = Instant::now();
        let renewing = async {
            for _ in 0..10 {
                tokio::time::sleep(HOLD / 4).await;
                roles.send_replace(owner(1));
            }
            pending::<()>().await;
        };
        tokio::select! {
            () = renewing => unreachable!("it goes on for ever"),
            said = fence.guard(pending::<()>()) => assert_eq!(said, Err(Fenced)),
        }
        assert_eq!(start.elapsed(), HOLD / 4 * 10 + HOLD);
    }

    #[tokio::test(start_paused = true)]
    async fn it_falls_at_once_when_the_hold_is_another_or_nobody_says_any_more() {
        for end in [Some(Role::Unknown), Some(owner(2)), None] {
            let (roles, role) = watch::channel(owner(1));
            let fence = Fence::around(&role).unwrap();
            let guarded = tokio::spawn(async move { (fence.guard(pending::<()>()).await, Instant::now()) });
            let start = Instant::now();
            tokio::task::yield_now().await;
            match end {
                Some(role) => drop(roles.send_replace(role)),
                None => drop(roles),
            }
            assert_eq!(guarded.await.unwrap(), (Err(Fenced), start));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_done_in_time_is_said_and_what_is_done_too_late_is_not() {
        let (_roles, role) = watch::channel(owner(1));
        let fence = Fence::around(&role).unwrap();
        assert_eq!(fence.guard(ready(7)).await, Ok(7));
        // A process that is stopped finds everything done when it goes on.
        advance(HOLD).await;
        assert_eq!(fence.guard(ready(7)).await, Err(Fenced));
        assert!(timeout(HOLD, fence.fallen()).await.is_ok());
    }
}
