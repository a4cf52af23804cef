//! The clock of tests with real sockets: moved forward where a test would have to wait for time to pass.
//!
//! ```
//! use std::time::Duration;
//! use testkit::clock::advance;
//! use tokio::time::{Instant, sleep};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let hour = Duration::from_secs(3600);
//! let (start, sleeping) = (Instant::now(), tokio::spawn(sleep(hour)));
//! tokio::task::yield_now().await; // the task sets its timer
//! advance(hour).await;
//! sleeping.await.unwrap();
//! assert!(start.elapsed() >= hour);
//! # });
//! ```

use std::time::Duration;
use tokio::time;

/// Moves tokio's clock forward by `duration`: timers that are due by then fire at once.
///
/// Time is not paused: it runs on before and after, so peers on real sockets have the time that they need. A timer fires once,
/// however often it would have in that time. Everything that is bounded by [`soon`](crate::wait::soon) and still under way is
/// moved towards its limit, too.
///
/// # Panics
///
/// In a runtime of several threads, and where time is paused.
pub async fn advance(duration: Duration) {
    time::pause();
    time::advance(duration).await;
    time::resume();
}
