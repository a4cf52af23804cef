//! The body of an answer as it comes from a connection, whichever way that was asked.

use super::plain::Told;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A body that is to be read from its connection.
#[derive(Debug)]
pub(crate) enum Coming {
    /// It comes through hyper.
    Full(Incoming),
    /// It comes as it is.
    Plain(Told),
}

/// Why not all of it came.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Breach {
    #[error(transparent)]
    Http(#[from] hyper::Error),
    #[error(transparent)]
    Stream(#[from] io::Error),
}

impl Breach {
    /// What was said below, for those who look for it.
    pub(super) fn into_source(self) -> Arc<dyn Error + Send + Sync> {
        match self {
            Breach::Http(error) => Arc::new(error),
            Breach::Stream(error) => Arc::new(error),
        }
    }
}

impl Coming {
    /// The next piece of one that needs its connection no more.
    pub(super) fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Breach>>> {
        match self {
            Coming::Full(incoming) => {
                let frame = ready!(Pin::new(incoming).poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(Breach::Http)))
            }
            Coming::Plain(told) => Poll::Ready(told.take_ready().map(|piece| Ok(Frame::data(piece)))),
        }
    }

    pub(super) fn is_end_stream(&self) -> bool {
        match self {
            Coming::Full(incoming) => incoming.is_end_stream(),
            Coming::Plain(told) => told.length() == 0,
        }
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        match self {
            Coming::Full(incoming) => incoming.size_hint(),
            Coming::Plain(told) => SizeHint::with_exact(told.length()),
        }
    }
}
