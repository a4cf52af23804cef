//! A request under way: the future that brings what nodes say, and forgets the request when it is dropped.

use super::Transport;
use super::error::{Account, RequestError, Told, impossible, refused};
use super::judge::Judge;
use super::shared::{Collected, Ended, Shared};
use crate::clock;
use carom_core::window::{Ask, Outcome, Refusal, RequestId};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tracing::Span;

/// An answer, and who gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered<A> {
    /// The name of the node.
    pub node: Arc<str>,
    /// What it said.
    pub answer: A,
}

/// A request under way; made by [`any`](super::Requester::any), [`quorum`](super::Requester::quorum) and
/// [`all`](super::Requester::all). It begins when it is first polled; before that it can be told more.
///
/// Cancel safe: dropping it forgets the request everywhere, and it is sent to nobody from then on. What was sent is not taken
/// back.
#[must_use = "a request does nothing until it is awaited"]
pub struct Asking<'requester, T: Transport, O> {
    shared: &'requester Arc<Shared<T>>,
    ask: Ask,
    progress: Progress<T>,
    finish: Finish<T::Answer, O>,
    span: Span,
}

/// Turns the accounts of a request that has reached its goal into what was asked for.
pub(super) type Finish<A, O> = fn(Arc<str>, Vec<Account<A>>) -> Result<O, RequestError<A>>;

enum Progress<T: Transport> {
    New { request: T::Request, judge: Judge<T::Answer> },
    Waiting(RequestId),
    Over,
}

impl<'requester, T: Transport, O> Asking<'requester, T, O> {
    pub(super) fn new(
        shared: &'requester Arc<Shared<T>>,
        request: T::Request,
        ask: Ask,
        judge: Judge<T::Answer>,
        finish: Finish<T::Answer, O>,
    ) -> Asking<'requester, T, O> {
        let span = tracing::debug_span!("request", requester = &*shared.name);
        Asking { shared, ask, progress: Progress::New { request, judge }, finish, span }
    }

    /// Only these nodes, by name. Default: all there are. Unknown names, or none, are an error.
    pub fn nodes(mut self, names: impl IntoIterator<Item = impl Into<Arc<str>>>) -> Self {
        self.ask.nodes = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// How many nodes are asked at first. More are as some fail, disagree or are silent for
    /// [`hedge_after`](super::Builder::hedge_after), so that the largest group of equal answers and those still waited for are
    /// together as many, not counting the silent ones. At least 1, or the request fails; when more answers are needed than this,
    /// as many. Default: `read_nodes` for [`any`](super::Requester::any), all nodes otherwise;
    /// [`all`](super::Requester::all) always asks all.
    pub fn at_once(mut self, nodes: usize) -> Self {
        self.ask.at_once = Some(nodes);
        self
    }

    /// How long a node may take to say anything, from when it is asked. Default: the requester's. The request fails if it is
    /// above `reply_timeout`, the requester's if there is no other.
    pub fn ack_timeout(mut self, timeout: Duration) -> Self {
        self.ask.ack_timeout = Some(timeout);
        self
    }

    /// How long a node that has acknowledged may take to answer, from when it is asked. Default: the requester's. The
    /// request fails if it is below `ack_timeout`, the requester's if there is no other.
    pub fn reply_timeout(mut self, timeout: Duration) -> Self {
        self.ask.reply_timeout = Some(timeout);
        self
    }

    /// Whether the request is sent again to a node whose connection ended after it was sent: on a new connection with the
    /// identity of its window, after 100 ms and then at growing intervals of up to 2 s, until the node's deadline. Default: no,
    /// the node has failed then. Only for requests that nodes recognise when they come twice.
    pub fn reconnect(mut self, reconnect: bool) -> Self {
        self.ask.reconnect = reconnect;
        self
    }

    fn begin(
        &mut self,
        request: T::Request,
        judge: Judge<T::Answer>,
        context: &Context<'_>,
    ) -> Poll<Result<O, RequestError<T::Answer>>> {
        let tag = self.shared.transport.tag(&request);
        let (ask, goal, now) = (self.ask.clone(), self.ask.goal, clock::now());
        let begun = self.shared.step(|table| match table.machine.request(now, tag, ask) {
            Ok(id) => {
                table.wait(id, (request, goal), judge, context.waker().clone());
                Ok(id)
            }
            // They are dropped when the lock has been let go.
            Err(refusal) => Err((refusal, request, judge)),
        });
        match begun {
            Ok(id) => {
                self.progress = Progress::Waiting(id);
                Poll::Pending
            }
            Err((refusal, ..)) => Poll::Ready(Err(self.refused(refusal))),
        }
    }

    fn collect(&mut self, id: RequestId, context: &Context<'_>) -> Poll<Result<O, RequestError<T::Answer>>> {
        let collected = self.shared.lock().collect(id, context.waker());
        let outcome = match collected {
            Collected::Nothing(_) => {
                self.progress = Progress::Waiting(id);
                return Poll::Pending;
            }
            // What had become of it is gone with the driver.
            Collected::Gone => Err(RequestError::Closed { requester: Arc::clone(&self.shared.name), sent: true }),
            Collected::Ended(ended, _) => self.ended(ended),
        };
        Poll::Ready(outcome)
    }

    fn ended(&self, Ended { outcome, accounts }: Ended<T::Answer>) -> Result<O, RequestError<T::Answer>> {
        let requester = Arc::clone(&self.shared.name);
        let everybody =
            |accounts: Vec<(_, Account<T::Answer>)>| accounts.into_iter().map(|(_, account)| account).collect();
        match outcome {
            Outcome::Reached(key) => {
                let agreed = accounts.into_iter().filter(|(of, _)| *of == Some(key)).map(|(_, account)| account);
                (self.finish)(requester, agreed.collect())
            }
            Outcome::Complete => (self.finish)(requester, everybody(accounts)),
            Outcome::Impossible => Err(impossible(&requester, self.ask.goal, everybody(accounts))),
            Outcome::TimedOutInLine { after } => Err(RequestError::TimedOut { requester, waited: after }),
            Outcome::Refused(refusal) => Err(self.refused(refusal)),
            Outcome::Closed => {
                let sent = accounts.iter().any(|(_, account)| account.sent);
                Err(RequestError::Closed { requester, sent })
            }
        }
    }

    fn refused(&self, refusal: Refusal) -> RequestError<T::Answer> {
        refused(&self.shared.name, refusal)
    }
}

/// The one answer that was enough.
pub(super) fn one<A>(requester: Arc<str>, accounts: Vec<Account<A>>) -> Result<Answered<A>, RequestError<A>> {
    let mut agreed = agreed(requester.clone(), accounts)?;
    agreed.pop().ok_or(RequestError::NoAnswer { requester, accounts: Vec::new() })
}

/// The answers that agree: all of them are replies, or all are refusals.
pub(super) fn agreed<A>(requester: Arc<str>, accounts: Vec<Account<A>>) -> Result<Vec<Answered<A>>, RequestError<A>> {
    if !accounts.iter().all(|account| matches!(account.told, Told::Reply(_))) {
        return Err(RequestError::Refused { requester, refusals: accounts });
    }
    let replies = accounts.into_iter().filter_map(|Account { node, told, .. }| match told {
        Told::Reply(answer) => Some(Answered { node, answer }),
        Told::Nack(_)
        | Told::Invalid(_)
        | Told::NoAck { .. }
        | Told::NoReply { .. }
        | Told::Closed(_)
        | Told::Waiting
        | Told::NotAsked => None,
    });
    Ok(replies.collect())
}

/// What everybody said.
pub(super) fn everybody<A>(_: Arc<str>, accounts: Vec<Account<A>>) -> Result<Vec<Account<A>>, RequestError<A>> {
    Ok(accounts)
}

impl<T: Transport, O> Future for Asking<'_, T, O> {
    type Output = Result<O, RequestError<T::Answer>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let span = self.span.clone();
        let _entered = span.enter();
        let polled = match std::mem::replace(&mut self.progress, Progress::Over) {
            Progress::New { request, judge } => self.begin(request, judge, context),
            Progress::Waiting(id) => self.collect(id, context),
            Progress::Over => panic!("a request was polled after it had ended"),
        };
        if let Poll::Ready(ended) = &polled {
            tracing::debug!(requester = &*self.shared.name, succeeded = ended.is_ok(), "a request has ended");
        }
        polled
    }
}

/// Nothing in it is pinned.
impl<T: Transport, O> Unpin for Asking<'_, T, O> {}

impl<T: Transport, O> Drop for Asking<'_, T, O> {
    fn drop(&mut self) {
        let Progress::Waiting(id) = self.progress else { return };
        let _left = self.shared.step(|table| table.withdraw(clock::now(), id));
    }
}

impl<T: Transport, O> fmt::Debug for Asking<'_, T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").field("requester", &self.shared.name).field("ask", &self.ask).finish_non_exhaustive()
    }
}
