//! What a response tells about its backend.

use http::header::RETRY_AFTER;
use http::{Response, StatusCode};

/// Counts for or against the backend that sent a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// A successful use.
    Success,
    /// A failed use: the backend cannot serve at the moment.
    Failure,
    /// Neither: an error of the application, or a backend that says when it can serve again.
    Neutral,
}

impl Evidence {
    /// 502, 503 and 504 are failures, except a 503 with `Retry-After`; other server errors are neutral.
    pub(crate) fn of<B>(response: &Response<B>) -> Evidence {
        match response.status() {
            StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => Evidence::Failure,
            StatusCode::SERVICE_UNAVAILABLE if !response.headers().contains_key(RETRY_AFTER) => Evidence::Failure,
            status if status.is_server_error() => Evidence::Neutral,
            _ => Evidence::Success,
        }
    }
}

/// Why a use of a backend failed: shown if the backend is ejected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FailedUse {
    #[error("status {0}")]
    Status(StatusCode),
    #[error("timed out before the response head")]
    TimedOut,
    #[error("reset before the response head: {0}")]
    Reset(String),
    #[error("response cut short")]
    CutShort,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateway_errors_are_failures_and_other_server_errors_are_neutral() {
        let of = |status: u16| Evidence::of(&Response::builder().status(status).body(()).unwrap());
        for status in [200, 304, 404, 429, 499] {
            assert_eq!(of(status), Evidence::Success, "{status}");
        }
        for status in [502, 503, 504] {
            assert_eq!(of(status), Evidence::Failure, "{status}");
        }
        for status in [500, 501, 505, 599] {
            assert_eq!(of(status), Evidence::Neutral, "{status}");
        }
    }

    #[test]
    fn a_503_with_retry_after_is_neutral() {
        let response = Response::builder().status(503).header(RETRY_AFTER, "5").body(()).unwrap();
        assert_eq!(Evidence::of(&response), Evidence::Neutral);
    }
}
