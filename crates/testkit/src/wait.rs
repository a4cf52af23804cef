//! Waiting in tests with real sockets, with a limit that only a failure reaches.

use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Far longer than anything in a test takes, also on a machine with ten times the load that it can take.
pub const LIMIT: Duration = Duration::from_secs(300);

/// Short for `Duration::from_millis`.
pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The output of `future`.
///
/// # Panics
///
/// After [`LIMIT`].
#[track_caller]
pub fn soon<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    async move { timeout(LIMIT, future).await.unwrap_or_else(|_| panic!("{caller}: not done after {LIMIT:?}")) }
}

/// The output of `future`.
///
/// # Panics
///
/// After [`LIMIT`], with `what`.
pub async fn expect<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(LIMIT, future).await.unwrap_or_else(|_| panic!("not after {LIMIT:?}: {what}"))
}

/// Returns when `condition` holds; looks every millisecond.
///
/// # Panics
///
/// After [`LIMIT`], with `what`.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    let held = async {
        while !condition() {
            sleep(ms(1)).await;
        }
    };
    expect(what, held).await;
}
