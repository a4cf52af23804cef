//! A session: what a client may do, and what comes of what it asks.

use super::member::Member;
use crate::frame;
use crate::keys::Failed;
use crate::mailbox::{Ending, Mailbox};
use crate::options::{Allowance, Limits};
use crate::protocol::reply::{self, Answer, Wanted};
use crate::protocol::{self, ApiKey, BadEntry, Code, Echo, Leave, Refusal, Request};
use crate::roll::Entry;
use crate::shared::{Shared, Supply};
use bytes::Bytes;
use carom_core::feed::{Instrument, Level};
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

const GUESSING: Ending = Ending::new(1008, "too many wrong keys");
pub(crate) const REVOKED: Ending = Ending::new(4401, "key revoked");

/// So many entries of what it has cost a client as much as one that it subscribes to: nobody upstream is asked.
const TOLD: usize = 16;

/// A client between and during its requests. Dropping it gives back all that it has.
pub(crate) struct Session {
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    entry: Arc<Entry>,
    allowance: Allowance,
    /// Who it is, when it has said so.
    member: Option<Member>,
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>, mailbox: Arc<Mailbox>, entry: Arc<Entry>) -> Session {
        let allowance = Allowance::full(Instant::now(), &shared.options.limits);
        Session { shared, mailbox, entry, allowance, member: None }
    }

    pub(crate) fn is_authenticated(&self) -> bool {
        self.member.is_some()
    }

    /// Serves one request: the reply is in the mailbox then. The client is to be closed if an ending comes back.
    ///
    /// Cancel safe: what was under way is given back, and so is everything else when the session is dropped with it.
    pub(crate) async fn serve(mut self, message: Bytes) -> (Session, Option<Ending>) {
        let asked = protocol::parse(&message);
        drop(message);
        tracing::debug!(understood = asked.is_ok(), "a request has come");
        let (needs, echo) = match &asked {
            Ok(request) => (request.needs_authentication(), request.echo().cloned()),
            Err(refusal) => (refusal.needs_authentication(), refusal.echo().cloned()),
        };
        let answered = match asked {
            _ if needs && self.member.is_none() => Err(Refusal::not_authenticated()),
            Err(refusal) => Err(refusal),
            Ok(Request::Authenticate { key, .. }) => {
                let ending = self.authenticate(key, echo).await;
                return (self, ending);
            }
            Ok(request) => self.answer(request).await,
        };
        match answered {
            Ok(Some(text)) => self.tell(&text),
            // It is in the mailbox already.
            Ok(None) => {}
            Err(refusal) => self.tell(&reply::error(&refusal.echoing(echo))),
        }
        (self, None)
    }

    async fn authenticate(&mut self, key: Option<ApiKey>, echo: Option<Echo>) -> Option<Ending> {
        let Some(key) = key else {
            self.tell(&reply::authentication_refused(&Refusal::key_required().echoing(echo)));
            return None;
        };
        let Some(known) = self.shared.keys.find(key.reveal()) else {
            drop(key);
            self.shared.counters.wrong_keys.add(1);
            self.shared.troubles.wrong_key(self.entry.address());
            let Failed { delay, close, .. } = {
                let mut attempts = self.shared.attempts.lock().unwrap_or_else(PoisonError::into_inner);
                attempts.failed(Instant::now(), self.entry.address())
            };
            tokio::time::sleep(delay).await;
            self.tell(&reply::authentication_refused(&Refusal::invalid_key().echoing(echo)));
            return close.then_some(GUESSING);
        };
        self.entry.is(known.clone());
        // Keys that were read again just now were compared with those that clients had then.
        if !self.shared.keys.have(&known) {
            return Some(REVOKED);
        }
        let identity = known.identity;
        let same = self.member.as_ref().is_some_and(|member| member.is(&identity));
        if !same {
            // What it had as somebody else is given back before it is somebody new.
            self.member = None;
            let member = Member::new(&self.shared, &identity, &self.mailbox);
            self.entry.takes(member.seat());
            tracing::debug!(broker = &*identity.broker, user = &*identity.user, "a client has said who it is");
            self.member = Some(member);
        }
        self.tell(&reply::authenticated(&identity.broker, &identity.user));
        None
    }

    /// The reply to a request, if it is not in the mailbox already.
    async fn answer(&mut self, request: Request) -> Result<Option<String>, Refusal> {
        let text = match request {
            // Served before it comes here.
            Request::Authenticate { .. } => return Ok(None),
            Request::Ping { timestamp, id, echo } => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                reply::pong(now.as_millis() as u64, timestamp.as_ref(), id.as_ref(), echo.as_ref())
            }
            Request::SupportedBrokers { echo } => reply::supported_brokers(&self.shared.brokers(), echo.as_ref()),
            Request::Subscribe { entries, mode, depth, echo } => {
                self.subscribe(&entries, Level { mode, depth }, echo.as_ref()).await?;
                return Ok(None);
            }
            Request::Unsubscribe { entries, echo } => self.unsubscribe(&entries, echo.as_ref())?,
            Request::UnsubscribeAll { echo } => {
                let member = self.member()?;
                let left = member.leave_all();
                let answers: Vec<_> = left.iter().map(|topic| Answer::served(&topic.instrument, ())).collect();
                reply::unsubscribed(member.broker(), &answers, echo.as_ref())
            }
            Request::SubscribeOrders { echo } => {
                self.member()?.set_orders(true);
                reply::orders_subscribed(echo.as_ref())
            }
            Request::UnsubscribeOrders { echo } => {
                self.member()?.set_orders(false);
                reply::orders_unsubscribed(echo.as_ref())
            }
            Request::BrokerInfo { echo } => {
                let member = self.member()?;
                let connected = member.supply().is_some_and(Supply::is_connected);
                reply::broker_info(member.broker(), connected, member.user(), echo.as_ref())
            }
            Request::Subscriptions { echo } => {
                let member = self.member.as_ref().ok_or_else(Refusal::not_authenticated)?;
                if !self.allowance.take(Instant::now(), &self.shared.options.limits, 1) {
                    return Err(too_fast(&self.shared.options.limits));
                }
                let (own, all) = (member.subscriptions(), member.wanted());
                self.allowance.owe((own.len() + all.len()) / TOLD);
                let all: Vec<_> =
                    all.iter().map(|(instrument, clients)| Wanted { instrument, clients: *clients }).collect();
                reply::subscriptions(member.broker(), &own, &all, echo.as_ref())
            }
        };
        Ok(Some(text))
    }

    async fn subscribe(
        &mut self,
        entries: &[Result<Instrument, BadEntry>],
        level: Level,
        echo: Option<&Echo>,
    ) -> Result<(), Refusal> {
        let member = self.member.as_ref().ok_or_else(Refusal::not_authenticated)?;
        let topics = member.topics(entries, level)?;
        let limits = &self.shared.options.limits;
        let limit = limits.topics_per_client;
        if let Some(count) = member.too_many_with(&topics, limit) {
            let message = format!(
                "A client may have {limit} topics (topics_per_client), and with these it would have {count} or more"
            );
            return Err(Refusal::new(Code::TooManyTopics, message));
        }
        // Those that are wrong or there twice are answered, too.
        if !self.allowance.take(Instant::now(), limits, entries.len()) {
            return Err(too_fast(limits));
        }
        member.subscribe(topics, entries, level, echo).await;
        Ok(())
    }

    fn unsubscribe(&mut self, entries: &[Result<Leave, BadEntry>], echo: Option<&Echo>) -> Result<String, Refusal> {
        let member = self.member.as_ref().ok_or_else(Refusal::not_authenticated)?;
        let limits = &self.shared.options.limits;
        // What it has was paid for when it subscribed.
        let beyond = entries.len().saturating_sub(member.count());
        if beyond > 0 && !self.allowance.take(Instant::now(), limits, beyond) {
            return Err(too_fast(limits));
        }
        let answers: Vec<Answer<'_, ()>> = entries
            .iter()
            .map(|entry| match entry {
                Ok(Leave { instrument, mode }) => {
                    member.leave(instrument, *mode);
                    Answer::served(instrument, ())
                }
                Err(entry) => Answer::from(entry),
            })
            .collect();
        Ok(reply::unsubscribed(member.broker(), &answers, echo))
    }

    fn member(&self) -> Result<&Member, Refusal> {
        self.member.as_ref().ok_or_else(Refusal::not_authenticated)
    }

    fn tell(&self, text: &str) {
        self.mailbox.reply(Instant::now(), frame::text(text)).into_iter().for_each(Waker::wake);
    }
}

fn too_fast(limits: &Limits) -> Refusal {
    let (rate, burst) = (limits.subscribe_rate, limits.subscribe_burst);
    let message = format!(
        "A client may name {burst} topics at once (subscribe_burst), and then {rate} per second (subscribe_rate)"
    );
    Refusal::new(Code::RateLimited, message)
}
