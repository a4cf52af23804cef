//! Watching: while a feed stands still because its credential was refused, another one is looked for.

use super::{Credential, CredentialError, Look, Source};
use carom::feed::{Adapter, Feed, State};
use std::borrow::Cow;
use std::error::Error;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// How often it is said that there is no credential, for as long as the reason is the same.
const REMINDER: Duration = Duration::from_secs(300);

/// Looks after the credential of one feed; made by [`Credential::watch`]. Dropping it ends that.
#[derive(Debug)]
#[must_use = "nobody watches when it is dropped"]
pub struct Watcher {
    credential: Credential,
    resume: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Credential {
    /// Whenever the upstream has refused this credential, looks for another one, a file's every second, a command's at once
    /// and then every minute, and lets the feed go on when there is one. A file that was written anew is another one; one that
    /// stays the same is presented once more every [`retry_interval`](Credential::retry_interval). A feed may go on without one,
    /// served by another gateway: a file is looked at meanwhile, and when there is another one the feed is told. The watcher
    /// holds a handle to the feed; it ends by itself when the feed is closed.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn watch<A: Adapter>(&self, feed: &Feed<A>) -> Watcher {
        let resume = Arc::new(Notify::new());
        let task = tokio::spawn(follow(self.clone(), feed.clone(), Arc::clone(&resume)));
        Watcher { credential: self.clone(), resume, task }
    }

    /// What another one will come from.
    fn awaited(&self) -> Cow<'static, str> {
        match &self.source {
            Source::Fixed(_) => Cow::Borrowed("somebody who says that it is to be tried again: it is a fixed one"),
            Source::File(path) => Cow::Owned(format!("the file {}", path.display())),
            // Arguments may be secret themselves.
            Source::Command(argv) => {
                let program = argv.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
                Cow::Owned(format!("the command {program}"))
            }
        }
    }

    /// From one look to the next while the feed does not need another one now. A command is not run for that: it may log in.
    fn idle_interval(&self) -> Option<Duration> {
        match self.source {
            Source::Fixed(_) | Source::Command(_) => None,
            Source::File(_) => self.interval().filter(|_| self.is_refused()),
        }
    }

    /// From one look to the next; a fixed one cannot change.
    fn interval(&self) -> Option<Duration> {
        match self.source {
            Source::Fixed(_) => None,
            Source::File(_) => Some(Duration::from_secs(1)),
            Source::Command(_) => Some(Duration::from_secs(60)),
        }
    }
}

impl Watcher {
    /// Whether the upstream has refused the latest credential, also where the feed goes on without.
    pub fn awaits_another(&self) -> bool {
        self.credential.is_refused()
    }

    /// Somebody says that the upstream is to be tried again, now: a feed that was refused goes on with whatever is found, be
    /// it the credential that was refused, or a fixed one; and one that goes on without is told. It does nothing to feeds whose
    /// credential was not refused, and does not wait.
    pub fn resume(&self) {
        self.resume.notify_one();
    }
}

async fn follow<A: Adapter>(credential: Credential, feed: Feed<A>, resume: Arc<Notify>) {
    let interval = credential.interval();
    let mut states = feed.states();
    let mut complaints = Complaints::default();
    let (mut due, mut once_more_at) = (Instant::now(), Instant::now());
    let mut before = State::Running;
    loop {
        let told = *states.borrow_and_update();
        if (std::mem::replace(&mut before, told), told) == (State::Running, State::Refused) {
            tracing::warn!(feed = feed.name(), awaited = %credential.awaited(), "another credential is waited for");
        }
        match told {
            State::Stopped => return,
            State::Running | State::Stopping => {
                let once_more = tokio::select! {
                    biased;
                    changed = states.changed() => match changed {
                        Ok(()) => None,
                        Err(_) => return,
                    },
                    // Said too early, it is not to be remembered.
                    () = resume.notified() => credential.is_refused().then_some(true),
                    () = at(credential.idle_interval().map(|interval| Instant::now() + interval)) => Some(false),
                };
                if let Some(once_more) = once_more
                    && let found @ Ok(Look::Another | Look::OnceMore) = credential.look(once_more).await
                {
                    tell(feed.name(), found, &mut complaints);
                    feed.resume();
                }
                once_more_at = Instant::now() + credential.retry_interval;
            }
            // A feed that goes on and is refused again at once may be seen as refused all the time: so looking goes on too.
            State::Refused => {
                let next = interval.map(|_| due.min(once_more_at));
                let once_more = tokio::select! {
                    changed = states.changed() => match changed {
                        Ok(()) => continue,
                        Err(_) => return,
                    },
                    () = resume.notified() => true,
                    () = at(next) => Instant::now() >= once_more_at,
                };
                let found = credential.look(once_more).await;
                let goes_on = matches!(found, Ok(Look::Another | Look::OnceMore));
                tell(feed.name(), found, &mut complaints);
                if goes_on {
                    feed.resume();
                }
                // An upstream that refuses every credential is asked this often and not more.
                due = Instant::now() + interval.unwrap_or_default();
                if goes_on || once_more {
                    once_more_at = Instant::now() + credential.retry_interval;
                }
            }
        }
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}

fn tell(feed: &str, found: Result<Look, CredentialError>, complaints: &mut Complaints) {
    match found {
        Ok(Look::Refused) => complaints.settle(),
        Ok(Look::Another) => {
            complaints.settle();
            tracing::info!(feed, "another credential was found");
        }
        Ok(Look::OnceMore) => {
            complaints.settle();
            tracing::info!(feed, "the credential that was refused is presented once more");
        }
        Err(error) => {
            let source = error.source().map(ToString::to_string);
            if complaints.is_news(format!("{error}: {source:?}"), Instant::now()) {
                tracing::warn!(feed, error = %error, source, "no other credential was found");
            }
        }
    }
}

/// What was complained about, and when: looking every second is no reason to say the same every second.
#[derive(Default)]
struct Complaints {
    said: Option<(String, Instant)>,
}

impl Complaints {
    /// Whether this is to be said now.
    fn is_news(&mut self, complaint: String, now: Instant) -> bool {
        let known = self.said.as_ref().is_some_and(|(said, at)| *said == complaint && now < *at + REMINDER);
        if !known {
            self.said = Some((complaint, now));
        }
        !known
    }

    /// Nothing is wrong any more.
    fn settle(&mut self) {
        self.said = None;
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_complaint_is_made_once_and_then_rarely() {
        let (mut complaints, begun) = (Complaints::default(), Instant::now());
        let mut said =
            |complaint: &str, seconds| complaints.is_news(complaint.to_owned(), begun + Duration::from_secs(seconds));
        assert_eq!((0..700).filter(|&second| said("it is gone", second)).collect::<Vec<_>>(), [0, 300, 600]);
        assert!(said("it is empty", 700) && !said("it is empty", 701) && said("it is gone", 702));
        complaints.settle();
        assert!(complaints.is_news("it is gone".to_owned(), begun + Duration::from_secs(703)));
    }
}
