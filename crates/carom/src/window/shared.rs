//! What a requester's users and its driver share: the machine, and those who wait for answers.
//!
//! One lock around all of it, held for short steps; whoever is served by a step is woken after it.

use super::Transport;
use super::error::{Account, Panicked, RequestError, Told, impossible, refused};
use super::judge::Judge;
use super::transport::Kind;
use crate::clock;
use crate::quiet::drop_quietly;
use crate::sync::{Mutex, MutexGuard};
use carom_core::window::{
    self as core, Action, Delivery, Goal, Machine, Node, Outcome, Place, RequestId, SocketId, Verdict,
};
use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::Instant;
use tokio::sync::Notify;

pub(super) type Cause = Arc<dyn Error + Send + Sync>;

/// The part of a requester that outlives its handles for as long as its driver runs.
pub(super) struct Shared<T: Transport> {
    pub(super) name: Arc<str>,
    pub(super) transport: T,
    state: Mutex<Table<T>>,
    /// Wakes the driver.
    pub(super) wake: Notify,
}

/// What the lock protects.
pub(super) struct Table<T: Transport> {
    pub(super) machine: Machine<T::Node, T::Tag>,
    callers: BTreeMap<RequestId, Caller<T>>,
    /// What the machine wants done, in order.
    pub(super) actions: VecDeque<Action<T::Node>>,
    /// Why the last request that has ended failed, if it did.
    pub(super) failure: Option<Failure>,
}

/// Why a request failed, without what was answered.
pub(super) type Failure = Arc<RequestError<()>>;

/// Somebody who waits for answers.
struct Caller<T: Transport> {
    request: Arc<T::Request>,
    goal: Goal,
    /// With the driver while it judges.
    judge: Option<Judge<T::Answer>>,
    /// What was heard, by the place of who said it among those that were asked.
    heard: BTreeMap<usize, Heard<T::Answer>>,
    progress: Progress<T::Answer>,
}

enum Heard<A> {
    Answer(Kind, A),
    Failure(Cause),
}

pub(super) enum Progress<A> {
    Waiting(Waker),
    Ended(Ended<A>),
}

/// How a request has ended.
pub(super) struct Ended<A> {
    pub(super) outcome: Outcome,
    /// What every node said, with the key of its answer.
    pub(super) accounts: Vec<(Option<core::Key>, Account<A>)>,
}

/// What somebody who waits finds. What is not asked for is dropped when the lock has been let go.
pub(super) enum Collected<T: Transport> {
    Nothing(#[allow(dead_code, reason = "dropped after the lock is let go")] Option<Progress<T::Answer>>),
    Ended(
        Ended<T::Answer>,
        #[allow(dead_code, reason = "dropped after the lock is let go")] (Arc<T::Request>, Option<Judge<T::Answer>>),
    ),
    /// Nobody knows of it: its driver has ended.
    Gone,
}

/// What is left of somebody who is gone; to be dropped when the lock has been let go.
#[must_use = "to be dropped when the lock has been let go"]
pub(super) struct Left<T: Transport>(#[allow(dead_code, reason = "only dropped")] Option<Caller<T>>);

impl<T: Transport> Shared<T> {
    pub(super) fn new(name: Arc<str>, transport: T, machine: Machine<T::Node, T::Tag>) -> Shared<T> {
        let table = Table { machine, callers: BTreeMap::new(), actions: VecDeque::new(), failure: None };
        Shared { name, transport, state: Mutex::new(table), wake: Notify::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Table<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One step under the lock; then those it served are woken, and the driver if it has something to do.
    pub(super) fn step<R>(&self, step: impl FnOnce(&mut Table<T>) -> R) -> R {
        let (result, (wakers, outdated), attention) = {
            let mut table = self.lock();
            let (before, closed) = (table.machine.next_timeout(), table.machine.is_closed());
            let result = step(&mut table);
            let settled = table.settle(&self.name);
            let sooner = clock::is_sooner(table.machine.next_timeout(), before);
            (result, settled, sooner || !table.actions.is_empty() || table.machine.is_closed() != closed)
        };
        wakers.into_iter().for_each(Waker::wake);
        if attention {
            self.wake.notify_one();
        }
        drop_quietly(&self.name, outdated);
        result
    }
}

impl<T: Transport> Table<T> {
    pub(super) fn wait(
        &mut self,
        id: RequestId,
        (request, goal): (T::Request, Goal),
        judge: Judge<T::Answer>,
        waker: Waker,
    ) {
        let caller = Caller {
            request: Arc::new(request),
            goal,
            judge: Some(judge),
            heard: BTreeMap::new(),
            progress: Progress::Waiting(waker),
        };
        self.callers.insert(id, caller);
    }

    pub(super) fn collect(&mut self, id: RequestId, waker: &Waker) -> Collected<T> {
        match self.callers.remove(&id) {
            Some(Caller { request, judge, progress: Progress::Ended(ended), .. }) => {
                Collected::Ended(ended, (request, judge))
            }
            Some(mut caller) => {
                let known = match &caller.progress {
                    Progress::Waiting(known) => known.will_wake(waker),
                    Progress::Ended(_) => true,
                };
                let fresh = (!known).then(|| Progress::Waiting(waker.clone()));
                let old = fresh.map(|fresh| std::mem::replace(&mut caller.progress, fresh));
                self.callers.insert(id, caller);
                Collected::Nothing(old)
            }
            None => Collected::Gone,
        }
    }

    /// Somebody who waited is gone.
    pub(super) fn withdraw(&mut self, now: Instant, id: RequestId) -> Left<T> {
        self.machine.forget(now, id);
        Left(self.callers.remove(&id))
    }

    /// What a socket that is ready is to send, if anybody still waits for the answer.
    pub(super) fn sending(&mut self, now: Instant, socket: SocketId, id: RequestId) -> Option<Arc<T::Request>> {
        let wanted = self.machine.handle_sending(now, socket, id);
        self.callers.get(&id).filter(|_| wanted).map(|caller| Arc::clone(&caller.request))
    }

    /// Who judges an answer, if anybody waits for it. It comes back with [`Table::judge_again`].
    pub(super) fn judge(
        &mut self,
        now: Instant,
        socket: SocketId,
        tag: &T::Tag,
    ) -> Option<(RequestId, Judge<T::Answer>)> {
        let Some(Place { request, .. }) = self.machine.awaited(socket, tag) else {
            // Nobody does, whatever it says; but now it has come.
            self.machine.handle_answer(now, socket, tag, Verdict::Invalid);
            return None;
        };
        let judge = self.callers.get_mut(&request)?.judge.take()?;
        Some((request, judge))
    }

    pub(super) fn judge_again(&mut self, request: RequestId, judge: Judge<T::Answer>) -> Option<Judge<T::Answer>> {
        match self.callers.get_mut(&request) {
            Some(caller) => caller.judge.replace(judge),
            None => Some(judge),
        }
    }

    /// A node has answered; what nobody waits for is handed back.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        (socket, tag): (SocketId, &T::Tag),
        verdict: Verdict,
        (kind, answer): (Kind, T::Answer),
    ) -> Option<T::Answer> {
        let Some(Place { request, place }) = self.machine.handle_answer(now, socket, tag, verdict) else {
            return Some(answer);
        };
        match self.callers.get_mut(&request) {
            Some(caller) => {
                caller.heard.insert(place, Heard::Answer(kind, answer));
                None
            }
            None => Some(answer),
        }
    }

    /// A socket could not be opened, or has ended.
    pub(super) fn ended(&mut self, now: Instant, socket: SocketId, cause: &Cause) {
        for Place { request, place } in self.machine.handle_ended(now, socket) {
            if let Some(caller) = self.callers.get_mut(&request) {
                caller.heard.insert(place, Heard::Failure(Arc::clone(cause)));
            }
        }
    }

    /// Collects what the machine wants done, and puts how requests ended into the hands of those who wait. Who is to be woken, and
    /// what is to be dropped, when the lock has been let go.
    fn settle(&mut self, requester: &Arc<str>) -> (Vec<Waker>, Vec<Failure>) {
        self.actions.extend(std::iter::from_fn(|| self.machine.poll_action()));
        let (mut wakers, mut outdated) = (Vec::new(), Vec::new());
        while let Some(Delivery { request, outcome, accounts }) = self.machine.poll_delivery() {
            let Some(caller) = self.callers.get_mut(&request) else { continue };
            let mut heard = std::mem::take(&mut caller.heard);
            let accounts = accounts.into_iter().enumerate().map(|(place, account)| {
                let (key, told) = in_words(account.told, heard.remove(&place));
                (key, Account { node: account.node.name().into(), told, sent: account.sent })
            });
            let ended = Ended { outcome, accounts: accounts.collect() };
            outdated.extend(std::mem::replace(&mut self.failure, ended.failure(requester, caller.goal)));
            let ended = Progress::Ended(ended);
            if let Progress::Waiting(waker) = std::mem::replace(&mut caller.progress, ended) {
                wakers.push(waker);
            }
        }
        (wakers, outdated)
    }
}

impl<A> Ended<A> {
    /// Why it failed, if it did.
    fn failure(&self, requester: &Arc<str>, goal: Goal) -> Option<Failure> {
        let failure = match &self.outcome {
            Outcome::Reached(_) | Outcome::Complete | Outcome::Closed => return None,
            Outcome::Impossible => {
                let accounts = self.accounts.iter().map(|(_, account)| account.bare()).collect();
                impossible(requester, goal, accounts)
            }
            Outcome::TimedOutInLine { after } => {
                RequestError::TimedOut { requester: Arc::clone(requester), waited: *after }
            }
            Outcome::Refused(refusal) => refused(requester, refusal.clone()),
        };
        Some(Arc::new(failure))
    }
}

/// What a node said, put together from what the machine and the driver know of it.
fn in_words<A>(told: core::Told, heard: Option<Heard<A>>) -> (Option<core::Key>, Told<A>) {
    match (told, heard) {
        (core::Told::Answered(key), Some(Heard::Answer(Kind::Reply, answer))) => (Some(key), Told::Reply(answer)),
        (core::Told::Answered(key), Some(Heard::Answer(Kind::Nack, answer))) => (Some(key), Told::Nack(answer)),
        (core::Told::Invalid, Some(Heard::Answer(Kind::Reply, answer))) => (None, Told::Invalid(answer)),
        (core::Told::Invalid, Some(Heard::Answer(Kind::Nack, answer))) => (None, Told::Nack(answer)),
        (core::Told::Ended, Some(Heard::Failure(cause))) => (None, Told::Closed(cause)),
        (core::Told::NoAck { after }, _) => (None, Told::NoAck { after }),
        (core::Told::NoReply { after }, _) => (None, Told::NoReply { after }),
        (core::Told::NotAsked, _) => (None, Told::NotAsked),
        (core::Told::Waiting, _) => (None, Told::Waiting),
        // What was heard is noted in the step in which the machine is told.
        (core::Told::Answered(_) | core::Told::Invalid | core::Told::Ended, _) => {
            (None, Told::Closed(Arc::new(Panicked)))
        }
    }
}
