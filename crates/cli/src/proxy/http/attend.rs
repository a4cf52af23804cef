//! What goes on with a client is attended to: it ends when the client keeps us waiting, and in good order when the door is closed.

use super::visit::Visit;
use crate::proxy::silence::Silence;
use crate::proxy::when_woken::WhenWoken;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};
use tokio::time::sleep_until;

/// What becomes of it when its end was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It comes to its end by itself.
    Finish,
    /// It has none that is worth waiting for.
    Leave,
}

/// How long a client that has kept us waiting has to hear that it is over. In HTTP/2 it learns what was not looked at any more.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Does it. `None` when the client keeps us waiting, or when there is nothing to wait for and the door has been closed for
/// longer than `grace`: then it is to be dropped.
pub(super) async fn attend<F: Future>(
    visit: &Visit,
    grace: Duration,
    mut doing: Pin<&mut F>,
    end: impl Fn(Pin<&mut F>) -> Next,
) -> Option<F::Output> {
    let mut closed = visit.closed.clone();
    // Both are waited for beside each poll of what is done, and nearly always in vain.
    let mut coming = pin!(closed.comes());
    let mut closed = WhenWoken::new(coming.as_mut());
    let (mut closing, mut ending, mut parting) = (None, false, false);
    let timeout = visit.requests.idle_timeout;
    let mut silence = Silence::new(timeout.unwrap_or_default());
    let mut sleep = pin!(silence.wait());
    let mut look = WhenWoken::new(sleep.as_mut());
    loop {
        tokio::select! {
            biased;
            done = &mut doing => return Some(done),
            deadline = &mut closed, if closing.is_none() => {
                let now = Instant::now();
                closing = Some(now + grace.min(deadline.saturating_duration_since(now) / 2));
            }
            () = until(closing), if closing.is_some() && !ending => {
                ending = true;
                if end(doing.as_mut()) == Next::Leave {
                    return None;
                }
            }
            () = &mut look, if timeout.is_some() => {
                if !silence.lasts(visit.pulse.turn()) {
                    look.change(|look| look.reset(silence.next()));
                } else if parting || end(doing.as_mut()) == Next::Leave {
                    return None;
                } else {
                    // If something comes after all, it is finished: the end has been told.
                    (parting, ending) = (true, true);
                    look.change(|look| look.reset((Instant::now() + LAST_WORDS).into()));
                }
            }
        }
    }
}

async fn until(time: Option<Instant>) {
    if let Some(time) = time {
        sleep_until(time.into()).await;
    }
}
