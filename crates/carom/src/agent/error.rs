//! Why a request failed: at which step, at which backend, after how many attempts.

use super::dial::DialError;
use super::http1::Trouble;
use crate::Backend;
use crate::cause::Cause;
use crate::pool::{ClaimError, Summary};
use crate::set::LeaseError;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

type Source = Arc<dyn StdError + Send + Sync>;

/// The step at which a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// The request itself makes no sense: nothing was sent.
    Request,
    /// Nobody is known who serves the origin.
    Resolve,
    /// No connection was free in time, or too many wait for one.
    Claim,
    /// No connection could be made.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// The request could not be sent.
    Send,
    /// No answer came, or not a whole one, or something that is none.
    Receive,
    /// The head of the answer took longer than `timeout` allows.
    Timeout,
    /// The agent or the origin is closed.
    Closed,
}

/// The name of the step, in lower case.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Request => "request",
            Step::Resolve => "resolve",
            Step::Claim => "claim",
            Step::Connect => "connect",
            Step::Tls => "tls",
            Step::Send => "send",
            Step::Receive => "receive",
            Step::Timeout => "timeout",
            Step::Closed => "closed",
        })
    }
}

/// Why a request, or the reading of its answer, failed.
///
/// [`step`](Error::step) says where, and `source()` is the real cause: what the system, TLS, DNS or the HTTP parser said.
#[derive(Clone)]
pub struct Error {
    // It is moved with every result, failed or not.
    failure: Box<Failure>,
}

#[derive(Clone)]
struct Failure {
    step: Step,
    /// What went wrong, in words.
    problem: String,
    origin: Option<Arc<str>>,
    backend: Option<Backend>,
    attempts: u32,
    source: Option<Source>,
}

impl Error {
    /// At which step it failed.
    pub fn step(&self) -> Step {
        self.failure.step
    }

    /// The origin that was asked, as `http://api.example.com`.
    pub fn origin(&self) -> Option<&str> {
        self.failure.origin.as_deref()
    }

    /// The backend that it failed at, if it came so far.
    pub fn backend(&self) -> Option<&Backend> {
        self.failure.backend.as_ref()
    }

    /// How many times the request was tried on a connection.
    pub fn attempts(&self) -> u32 {
        self.failure.attempts
    }

    pub(super) fn new(step: Step, problem: impl Into<String>) -> Error {
        let failure = Failure { step, problem: problem.into(), origin: None, backend: None, attempts: 0, source: None };
        Error { failure: Box::new(failure) }
    }

    pub(super) fn request(problem: impl Into<String>) -> Error {
        Error::new(Step::Request, problem)
    }

    pub(super) fn closed() -> Error {
        Error::new(Step::Closed, "is closed")
    }

    pub(super) fn timed_out(after: Duration) -> Error {
        Error::new(Step::Timeout, format!("no answer within {after:?}"))
    }

    /// Somebody's request body failed.
    pub(super) fn body(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        Error::new(Step::Send, "the body of the request failed").caused_by(source.into())
    }

    pub(super) fn caused_by(mut self, source: impl Into<Source>) -> Error {
        self.failure.source = Some(source.into());
        self
    }

    pub(super) fn at(mut self, backend: &Backend) -> Error {
        self.failure.backend = Some(backend.clone());
        self
    }

    pub(super) fn of(mut self, origin: &Arc<str>) -> Error {
        self.failure.origin = Some(Arc::clone(origin));
        self
    }

    pub(super) fn after(mut self, attempts: u32) -> Error {
        self.failure.attempts = attempts;
        self
    }
}

/// Takes apart why no connection was claimed: what matters is what failed below.
impl From<ClaimError> for Error {
    fn from(error: ClaimError) -> Error {
        match &error {
            ClaimError::Closed { .. } => Error::closed(),
            ClaimError::Busy { .. } | ClaimError::Full { .. } | ClaimError::Shed { .. } => {
                Error::new(Step::Claim, error.to_string())
            }
            ClaimError::NoBackends { summary } => Error::unresolved(summary.cause.as_ref()),
            ClaimError::Failed { summary, .. } | ClaimError::TimedOut { summary, .. } => {
                Error::unclaimed(&error, summary)
            }
        }
    }
}

impl Error {
    pub(super) fn unresolved(cause: Option<&Cause>) -> Error {
        let unresolved = Error::new(Step::Resolve, "nobody is known who serves it");
        match cause {
            Some(Cause::Resolve { error }) => unresolved.caused_by(Arc::clone(error)),
            Some(
                Cause::Connect { .. }
                | Cause::Check { .. }
                | Cause::Recycle { .. }
                | Cause::HealthCheck { .. }
                | Cause::Use { .. },
            )
            | None => unresolved,
        }
    }

    fn unclaimed(error: &ClaimError, summary: &Summary) -> Error {
        if summary.known == 0 {
            return Error::unresolved(summary.cause.as_ref());
        }
        // While some work, what failed elsewhere is not why this one had to wait.
        let works = summary.busy + summary.idle > 0;
        match &summary.cause {
            Some(Cause::Connect { backend, error }) if !works => {
                Error::unconnected(error).at(backend).caused_by(Arc::clone(error))
            }
            None if !works && summary.connecting > 0 => Error::new(Step::Connect, error.to_string()),
            Some(cause) => {
                let (Cause::Connect { error: source, .. }
                | Cause::Check { error: source, .. }
                | Cause::Recycle { error: source, .. }
                | Cause::HealthCheck { error: source, .. }
                | Cause::Use { error: source, .. }
                | Cause::Resolve { error: source }) = cause;
                let failed = Error::new(Step::Claim, error.to_string()).caused_by(Arc::clone(source));
                match cause.backend() {
                    Some(backend) if !works => failed.at(backend),
                    Some(_) | None => failed,
                }
            }
            None => Error::new(Step::Claim, error.to_string()),
        }
    }

    fn unconnected(error: &Source) -> Error {
        match dial_error(&**error) {
            Some(DialError::Tls(_) | DialError::Protocol { .. }) => Error::new(Step::Tls, "TLS failed"),
            Some(DialError::Connect(_) | DialError::Http2(_) | DialError::Ended) | None => {
                Error::new(Step::Connect, "connecting failed")
            }
        }
    }
}

/// Takes apart why there was no share of a connection, as above.
impl From<LeaseError> for Error {
    fn from(error: LeaseError) -> Error {
        let summary = match &error {
            LeaseError::Unreachable { summary, .. }
            | LeaseError::Failed { summary }
            | LeaseError::TimedOut { summary, .. } => summary,
            LeaseError::NoSuchPlace { .. } => return Error::new(Step::Claim, error.to_string()),
            LeaseError::Closed { .. } => return Error::closed(),
        };
        match &summary.cause {
            cause if summary.known == 0 => Error::unresolved(cause.as_ref()),
            Some(Cause::Connect { backend, error }) if summary.connected == 0 => {
                Error::unconnected(error).at(backend).caused_by(Arc::clone(error))
            }
            Some(_) | None if summary.connected == 0 => Error::new(Step::Connect, error.to_string()),
            Some(_) | None => Error::new(Step::Claim, error.to_string()),
        }
    }
}

impl Error {
    /// Whether it failed because nobody speaks what was offered.
    pub(super) fn refuses_protocol(&self) -> bool {
        let said = self.failure.source.as_deref().and_then(dial_error);
        said.is_some_and(|error| matches!(error, DialError::Protocol { .. }))
    }
}

/// What a dial said, if that is what it was.
fn dial_error<'a>(error: &'a (dyn StdError + Send + Sync + 'static)) -> Option<&'a DialError> {
    match error.downcast_ref::<Trouble>() {
        Some(Trouble::Dial(error)) => Some(error),
        Some(Trouble::Http(_) | Trouble::Ping(_) | Trouble::Closes) | None => error.downcast_ref(),
    }
}

/// `http://api.example.com: connecting failed (10.0.0.1:80, 2 attempts)`.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { step, problem, origin, backend, attempts, .. } = &*self.failure;
        match (origin, step) {
            (Some(origin), Step::Closed) => write!(f, "{origin} {problem}")?,
            (Some(origin), _) => write!(f, "{origin}: {problem}")?,
            (None, Step::Closed) => write!(f, "the agent {problem}")?,
            (None, _) => f.write_str(problem)?,
        }
        let tried = (*attempts > 1).then(|| format!("{attempts} attempts"));
        match (backend, tried) {
            (Some(backend), Some(tried)) => write!(f, " ({backend}, {tried})"),
            (Some(backend), None) => write!(f, " ({backend})"),
            (None, Some(tried)) => write!(f, " ({tried})"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { step, problem, origin, backend, attempts, source } = &*self.failure;
        f.debug_struct("Error")
            .field("step", step)
            .field("problem", problem)
            .field("origin", origin)
            .field("backend", backend)
            .field("attempts", attempts)
            .field("source", source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        let source = self.failure.source.as_deref()?;
        // What a dial says in full is what was said below it.
        Some(match dial_error(source) {
            Some(DialError::Connect(error)) => error,
            Some(DialError::Tls(error)) => error,
            Some(DialError::Protocol { .. } | DialError::Http2(_) | DialError::Ended) | None => source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::{DnsOptions, resolver_for};
    use crate::tls::ConnectError;
    use std::io;

    fn backend() -> Backend {
        Backend::fixed("10.0.0.1:443".parse().unwrap())
    }

    /// A pool of ten that nobody is served from.
    fn summary(busy: usize, known: usize, cause: Option<Cause>) -> Box<Summary> {
        let (total, connecting) = (busy + 1, 1);
        let pool = "http://api.test".into();
        let (idle, maximum, waiting, ahead, dead) = (0, 10, 3, 2, 0);
        Box::new(Summary { pool, total, idle, busy, connecting, maximum, waiting, ahead, dead, known, cause })
    }

    fn timed_out(busy: usize, known: usize, cause: Option<Cause>) -> Error {
        ClaimError::TimedOut { waited: Duration::from_secs(30), summary: summary(busy, known, cause) }.into()
    }

    fn connect(error: impl StdError + Send + Sync + 'static) -> Option<Cause> {
        Some(Cause::Connect { backend: Arc::new(backend()), error: Arc::new(error) })
    }

    #[test]
    fn a_claim_that_failed_is_taken_apart_into_the_step_that_did() {
        let refused = || Trouble::Dial(DialError::Connect(io::ErrorKind::ConnectionRefused.into()));
        let error = timed_out(0, 1, connect(refused()));
        assert_eq!((error.step(), error.backend()), (Step::Connect, Some(&backend())));
        let source = error.source().unwrap().downcast_ref::<io::Error>();
        assert_eq!(source.unwrap().kind(), io::ErrorKind::ConnectionRefused, "what the system said");

        let alert = Trouble::Dial(DialError::Tls(ConnectError::Refused { alert: "HandshakeFailure".into() }));
        let error = timed_out(0, 1, connect(alert));
        assert_eq!(error.step(), Step::Tls);
        assert!(error.source().unwrap().is::<ConnectError>());

        let late = crate::connect::ConnectError::ConnectTimedOut(Duration::from_secs(2));
        assert_eq!(timed_out(0, 1, connect(late)).step(), Step::Connect);
        assert_eq!(timed_out(0, 1, None).step(), Step::Connect, "it was still being made");
        assert_eq!(timed_out(10, 1, None).step(), Step::Claim);
        assert_eq!(timed_out(9, 2, connect(refused())).step(), Step::Claim, "others work, and are busy");

        let nothing = resolver_for("a..b", DnsOptions::default()).unwrap_err();
        let error = timed_out(0, 0, Some(Cause::Resolve { error: Arc::new(nothing) }));
        assert_eq!((error.step(), error.source().is_some()), (Step::Resolve, true));
        let closed = ClaimError::Closed { pool: "http://api.test".into() };
        assert_eq!(Error::from(closed).step(), Step::Closed);
        assert_eq!(Error::from(ClaimError::Full { summary: summary(10, 1, None) }).step(), Step::Claim);
    }

    #[test]
    fn the_text_says_origin_backend_and_attempts() {
        let origin = Arc::from("https://api.test");
        let error = Error::new(Step::Receive, "no answer came").of(&origin).at(&backend());
        assert_eq!(error.to_string(), "https://api.test: no answer came (10.0.0.1:443)");
        assert_eq!(error.after(3).to_string(), "https://api.test: no answer came (10.0.0.1:443, 3 attempts)");
        assert_eq!(Error::closed().of(&origin).to_string(), "https://api.test is closed");
        assert_eq!(Error::closed().to_string(), "the agent is closed");
    }

    #[test]
    fn a_result_stays_small() {
        assert_eq!(size_of::<Error>(), size_of::<usize>(), "it is moved with every answer");
    }
}
