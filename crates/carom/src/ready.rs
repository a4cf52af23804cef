//! Readiness: waiting until a number of backends is connected, before a program serves.

use crate::cause::{Cause, Several};
use crate::clock;
use carom_core::backend::{Backend, BackendState};
use carom_core::pool::Readiness;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// Most backends that the text of an error names.
const MOST_NAMED: usize = 8;

/// Why too few backends were ready; see [`Pool::ready`](crate::Pool::ready).
///
/// `source()` is the last real error of a backend that was not ready, or the resolver's.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReadyError {
    /// Too few backends were ready in time.
    #[non_exhaustive]
    TimedOut {
        /// The name of the pool, set or origin.
        name: Arc<str>,
        /// How long the caller waited.
        waited: Duration,
        /// How many backends were ready.
        ready: usize,
        /// How many were wanted: `n`, but at most all known backends.
        wanted: usize,
        /// The known backends that were not ready, most preferred first.
        unready: Vec<Unready>,
        /// The last real error.
        cause: Option<Cause>,
    },
    /// The pool, set or agent is closed, or the runtime it lived on has ended.
    #[non_exhaustive]
    Closed {
        /// The name of the pool, set or origin.
        name: Arc<str>,
    },
    /// The origin cannot be set up: its URI or an option of the agent is invalid.
    #[non_exhaustive]
    Origin {
        /// The reason.
        error: Arc<dyn Error + Send + Sync>,
    },
}

/// A backend that was not ready.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unready {
    /// Which backend.
    pub backend: Arc<Backend>,
    /// Its state.
    pub state: BackendState,
    /// Why it failed last; `None` if it has not failed, for example while the first connect is still under way.
    pub cause: Option<Cause>,
}

/// ``timed out after 5s: 0 of 2 backends of `orders` ready, 1 wanted; last connect errors: 10.0.0.1:5432: refused; 10.0.0.2:5432: refused``
impl fmt::Display for ReadyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadyError::TimedOut { name, waited, ready, wanted, unready, cause } => {
                let waited = Duration::from_millis(waited.as_millis() as u64);
                write!(f, "timed out after {waited:?}: ")?;
                match ready + unready.len() {
                    0 => write!(f, "no backends of `{name}` are known, {wanted} wanted")?,
                    known if known == *wanted => write!(f, "{ready} of {known} backends of `{name}` ready")?,
                    known => write!(f, "{ready} of {known} backends of `{name}` ready, {wanted} wanted")?,
                }
                if unready.is_empty() {
                    return cause.as_ref().map_or(Ok(()), |cause| write!(f, "; {cause}"));
                }
                let named = || unready.iter().take(MOST_NAMED);
                let causes: Vec<&Cause> = named().filter_map(|unready| unready.cause.as_ref()).collect();
                if !causes.is_empty() {
                    write!(f, "; {}", Several(causes))?;
                }
                for Unready { backend, state, .. } in named().filter(|unready| unready.cause.is_none()) {
                    write!(f, "; {backend} is {}", format!("{state:?}").to_lowercase())?;
                }
                match unready.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
                    Some(more) => write!(f, "; {more} more are not ready"),
                    None => Ok(()),
                }
            }
            ReadyError::Closed { name } => write!(f, "`{name}` is closed"),
            ReadyError::Origin { error } => error.fmt(f),
        }
    }
}

impl Error for ReadyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ReadyError::TimedOut { cause, .. } => cause.as_ref().map(Cause::error),
            ReadyError::Closed { .. } => None,
            ReadyError::Origin { error } => error.source(),
        }
    }
}

/// A pool or a set whose backends a caller waits for.
pub(crate) trait Readies {
    fn name(&self) -> &Arc<str>;

    /// Notified after each turn of the driver.
    fn turned(&self) -> &Notify;

    /// A caller waits until `n` backends are ready.
    fn expect_ready(&self, n: usize);

    /// The caller no longer waits.
    fn forget_ready(&self, n: usize);

    /// How many backends are ready; `None` when the pool or set is closed.
    fn readiness(&self) -> Option<Readiness>;

    /// The known backends that are not ready, and the last real error.
    fn unready(&self) -> (Vec<Unready>, Option<Cause>);
}

/// Waits until `n` backends are ready. `runtime` keeps the time for callers that have no runtime of their own.
pub(crate) async fn until_ready<R: Readies>(
    shared: &R,
    runtime: &Handle,
    n: usize,
    within: Duration,
) -> Result<(), ReadyError> {
    if n == 0 {
        return Ok(());
    }
    let since = clock::now();
    let _expected = Expected::new(shared, n);
    let sleep = {
        let here = Handle::try_current().unwrap_or_else(|_| runtime.clone());
        let _context = here.enter();
        tokio::time::sleep(within)
    };
    let name = || Arc::clone(shared.name());
    let ready = async {
        loop {
            let turned = shared.turned().notified();
            match shared.readiness() {
                Some(readiness) if readiness.is_enough(n) => return Ok(()),
                Some(_) => turned.await,
                None => return Err(ReadyError::Closed { name: name() }),
            }
        }
    };
    tokio::select! {
        biased;
        result = ready => result,
        () = sleep => {
            let Some(readiness) = shared.readiness() else { return Err(ReadyError::Closed { name: name() }) };
            let (unready, cause) = shared.unready();
            let waited = clock::now().saturating_duration_since(since);
            let (ready, wanted) = (readiness.ready, readiness.wanted(n));
            Err(ReadyError::TimedOut { name: name(), waited, ready, wanted, unready, cause })
        }
    }
}

/// Ends the wait of a caller when dropped.
struct Expected<'a, R: Readies> {
    shared: &'a R,
    n: usize,
}

impl<'a, R: Readies> Expected<'a, R> {
    fn new(shared: &'a R, n: usize) -> Expected<'a, R> {
        shared.expect_ready(n);
        Expected { shared, n }
    }
}

impl<R: Readies> Drop for Expected<'_, R> {
    fn drop(&mut self) {
        self.shared.forget_ready(self.n);
    }
}
