//! Watching: while a feed stands still because its credential was refused, another one is looked for.

use super::{Credential, Source};
use carom::feed::{Adapter, Feed, State};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// Looks after the credential of one feed; made by [`Credential::watch`]. Dropping it ends that.
#[derive(Debug)]
#[must_use = "nobody watches when it is dropped"]
pub struct Watcher {
    task: JoinHandle<()>,
}

impl Credential {
    /// Whenever the upstream has refused this credential, looks for another one, a file's every second, a command's at once
    /// and then every minute, and lets the feed go on when there is one. The watcher holds a handle to the feed; it ends by
    /// itself when the feed is closed.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn watch<A: Adapter>(&self, feed: &Feed<A>) -> Watcher {
        Watcher { task: tokio::spawn(follow(self.clone(), feed.clone())) }
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

async fn follow<A: Adapter>(credential: Credential, feed: Feed<A>) {
    let Some(interval) = credential.interval() else { return };
    let mut states = feed.states();
    let mut due = Instant::now();
    loop {
        let told = *states.borrow_and_update();
        match told {
            State::Stopped => return,
            State::Running | State::Stopping => {
                if states.changed().await.is_err() {
                    return;
                }
            }
            // A feed that goes on and is refused again at once may be seen as refused all the time: so looking goes on too.
            State::Refused => tokio::select! {
                changed = states.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = sleep_until(due) => {
                    look(&credential, &feed).await;
                    // An upstream that refuses every credential is asked this often and not more.
                    due = Instant::now() + interval;
                }
            },
        }
    }
}

async fn look<A: Adapter>(credential: &Credential, feed: &Feed<A>) {
    match credential.renewed().await {
        Ok(true) if feed.state() == State::Refused => {
            tracing::info!(feed = feed.name(), "another credential was found");
            feed.resume();
        }
        Ok(_) => {}
        Err(error) => {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(feed = feed.name(), error = %error, source, "no other credential was found");
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}
