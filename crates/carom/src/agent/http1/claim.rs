//! A claim of an HTTP/1 connection that does not wait for servers that refuse to speak HTTP/1.

use super::Connector;
use crate::agent::error::Error;
use crate::pool::{ClaimError, Claiming, State};
use crate::{Claim, ClaimOptions, Pool};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::futures::Notified;

/// As [`Claiming`]. While every backend is dead, it fails as soon as the reason is that HTTP/1 was refused: that does not pass
/// like an outage, and another protocol may work.
pub(crate) struct ClaimFuture<'pool> {
    pool: &'pool Pool<Connector>,
    claiming: Claiming<'pool, Connector>,
    /// There once the claim has to wait.
    refused: Option<Pin<Box<Notified<'pool>>>>,
}

#[track_caller]
pub(crate) fn claim(pool: &Pool<Connector>, options: ClaimOptions) -> ClaimFuture<'_> {
    ClaimFuture { pool, claiming: pool.claim_with(options), refused: None }
}

impl Future for ClaimFuture<'_> {
    type Output = Result<Claim<Connector>, ClaimError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(claimed) = Pin::new(&mut self.claiming).poll(cx) {
            return Poll::Ready(claimed);
        }
        // Without TLS no protocol is refused.
        let pool = self.pool;
        let Some(refusals) = &pool.connector().refusals else { return Poll::Pending };
        loop {
            let refused = self.refused.get_or_insert_with(|| Box::pin(refusals.notified()));
            ready!(refused.as_mut().poll(cx));
            self.refused = None;
            if pool.state() == State::Failed {
                match pool.try_claim() {
                    Err(error) if !Error::from(error.clone()).refuses_protocol() => {}
                    claimed => return Poll::Ready(claimed),
                }
            }
        }
    }
}
