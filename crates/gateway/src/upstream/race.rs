//! Several ways to the same thing: whichever gets there first.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::future::Future;
use std::time::Duration;
use tokio::time::sleep;

/// How long each is alone before the next one sets out, too: longer than most need, and short beside the time that there is.
const HEAD_START: Duration = Duration::from_millis(250);

/// What comes of the first that succeeds; the others are dropped. The next one sets out when those before have failed, or have taken
/// too long: one that never answers holds up nobody. If all fail, the last problem; none if there was nothing to try.
pub(super) async fn first<F, T, E>(attempts: impl IntoIterator<Item = F>) -> Result<T, Option<E>>
where
    F: Future<Output = Result<T, E>>,
{
    let (mut waiting, mut running, mut problem) =
        (attempts.into_iter().fuse(), FuturesUnordered::<F>::new(), None::<E>);
    loop {
        let next = waiting.next();
        let started = next.is_some();
        running.extend(next);
        tokio::select! {
            done = running.next() => match done {
                Some(Ok(done)) => return Ok(done),
                Some(Err(error)) => problem = Some(error),
                None => return Err(problem),
            },
            () = sleep(HEAD_START), if started => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    /// So long it takes, in milliseconds, and that comes of it.
    async fn attempt(millis: u64, result: Result<u8, u8>) -> Result<u8, u8> {
        sleep(Duration::from_millis(millis)).await;
        result
    }

    const NEVER: u64 = 3_600_000;

    #[tokio::test(start_paused = true)]
    async fn one_that_never_answers_holds_up_nobody() {
        let start = Instant::now();
        assert_eq!(first([attempt(NEVER, Ok(1)), attempt(NEVER, Ok(2)), attempt(10, Ok(3))]).await, Ok(3));
        assert!(start.elapsed() < Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_is_not_given_up_when_others_set_out() {
        assert_eq!(first([attempt(400, Ok(1)), attempt(NEVER, Ok(2)), attempt(NEVER, Ok(3))]).await, Ok(1));
        assert_eq!(first([attempt(600, Ok(1)), attempt(10, Err(2))]).await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_sets_out_at_once_when_one_fails() {
        let start = Instant::now();
        assert_eq!(first([attempt(10, Err(1)), attempt(10, Ok(2)), attempt(0, Ok(3))]).await, Ok(2));
        assert!(start.elapsed() < HEAD_START);
    }

    #[tokio::test(start_paused = true)]
    async fn when_all_fail_the_last_problem_is_told() {
        assert_eq!(first([attempt(NEVER, Err(1)), attempt(10, Err(2))]).await, Err(Some(1)));
        assert_eq!(first(std::iter::once(attempt(0, Ok(1))).take(0)).await, Err(None));
    }
}
