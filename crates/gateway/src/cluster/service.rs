//! The service: what the owner of an upstream does for other members. Their interests are counted in its own feed.

use super::guest::{self, Guest};
use super::member::Member;
use super::message::{Answer, Ask, RefusedAt, Session, Stands, What};
use crate::bus::nats::post::Letter;
use crate::source::{Held, Source};
use carom::feed::{Instrument, Level, Pending, SubscribeError, Topic};
use futures_util::StreamExt;
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// A session that was silent for this long is over.
const SILENCE: Duration = Duration::from_secs(5);

/// How often silent ones are looked for.
const LOOK: Duration = Duration::from_secs(1);

/// How long something is waited for that cannot be had: a member waits for 3 s before it tells its clients that nobody has
/// answered, and is to know why by then.
const IN_VAIN: Duration = Duration::from_secs(2);

/// So many are answered at a time; the others wait at NATS.
const MOST_ASKS: usize = 256;

/// So many sessions there can be: each member has as many as its feed has connections.
const MOST_SESSIONS: usize = 4_096;

/// See the [module](self). Cheap to clone; all clones are the same.
#[derive(Clone)]
pub(crate) struct Service {
    member: Member,
    source: Arc<dyn Source>,
    sessions: Arc<Mutex<BTreeMap<Session, Guest>>>,
}

impl Service {
    pub(crate) fn new(member: Member, source: Arc<dyn Source>) -> Service {
        Service { member, source, sessions: Arc::default() }
    }

    /// How many sessions there are.
    pub(crate) fn sessions(&self) -> usize {
        self.lock().len()
    }

    /// Answers what is asked, for as long as this member takes part.
    pub(crate) async fn run(self) {
        let subject = self.member.subjects.ask(&self.member.name);
        let mut letters = match self.member.post.hear(subject).await {
            Ok(letters) => letters,
            Err(error) => return tracing::error!(%error, "other gateways cannot be served"),
        };
        let mut roles = self.member.roles.clone();
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut answering = JoinSet::new();
        loop {
            tokio::select! {
                letter = letters.next(), if answering.len() < MOST_ASKS => match letter {
                    Some(letter) => drop(answering.spawn(self.clone().answer(letter))),
                    None => return,
                },
                Some(_) = answering.join_next() => {}
                _ = looks.tick() => self.look(),
                changed = roles.changed() => match changed {
                    Ok(()) => self.look(),
                    Err(_) => return,
                },
            }
        }
    }

    /// Forgets sessions that are silent, or that began when this member was the owner for another time.
    fn look(&self) {
        let (now, owned) = (Instant::now(), self.owned());
        let over = |guest: &Guest| owned != Some(guest.epoch) || now.duration_since(guest.heard) >= SILENCE;
        let _forgotten: Vec<(Session, Guest)> = {
            let mut sessions = self.lock();
            let sessions_over: Vec<_> =
                sessions.iter().filter(|(_, guest)| over(guest)).map(|(session, _)| session.clone()).collect();
            sessions_over.iter().filter_map(|session| sessions.remove_entry(session)).collect()
        };
    }

    async fn answer(self, letter: Letter) {
        let Ok(ask) = serde_json::from_slice(&letter.payload) else {
            return tracing::debug!("what another member asked makes no sense");
        };
        let answer = self.done(ask).await;
        let (Some(reply), Ok(text)) = (letter.reply, serde_json::to_vec(&answer)) else { return };
        // Whoever asked asks again.
        let _ = self.member.post.send(reply, text.into()).await;
    }

    async fn done(&self, Ask { version, epoch, session, what }: Ask) -> Answer {
        if self.owned() != Some(epoch) {
            return Answer::NotHere;
        }
        let stands = match what {
            What::Hello => Some(Stands::default()),
            What::Open => self.open(epoch, session),
            What::Beat => self.beat(&session),
            What::Change(wanted) => match wanted.into_iter().map(|wanted| wanted.meant()).collect() {
                Some(wanted) => self.change(&session, wanted).await,
                None => None,
            },
            What::Bye => {
                let _forgotten = self.lock().remove(&session);
                Some(Stands::default())
            }
        };
        match stands {
            None => Answer::NotHere,
            Some(Stands { refused, .. }) if version == 0 => Answer::Done(refused),
            Some(stands) => Answer::Stands(stands),
        }
    }

    /// None if there is no room.
    fn open(&self, epoch: u64, session: Session) -> Option<Stands> {
        let mut sessions = self.lock();
        if sessions.len() >= MOST_SESSIONS {
            return None;
        }
        // One that is there already has asked twice.
        sessions.entry(session).or_insert_with(|| Guest::new(epoch));
        Some(Stands::default())
    }

    /// Each is waited for until the upstream has answered, or the feed says that it is pending. None if there is no such session,
    /// or the feed is closed.
    async fn change(&self, session: &Session, wanted: Vec<(Instrument, Option<Level>)>) -> Option<Stands> {
        self.visit(session, |_| ())?;
        let asked = wanted.into_iter().map(|(instrument, level)| async move {
            let held = match level {
                None => None,
                Some(level) => {
                    let topic = Topic { instrument: instrument.clone(), level };
                    Some((level, self.hold(topic).await))
                }
            };
            (instrument, held)
        });
        let asked = join_all(asked).await;
        let instruments: Vec<Instrument> = asked.iter().map(|(instrument, _)| instrument.clone()).collect();
        let (mut refused, mut given_back) = (Vec::new(), Vec::new());
        let topics = self.visit(session, |guest| {
            for (at, (instrument, held)) in asked.into_iter().enumerate() {
                let before = match held {
                    None => guest.keep(instrument, None),
                    Some((level, Ok(held))) => guest.keep(instrument, Some((level, held))),
                    Some((_, Err(error))) => {
                        refused.push((at, error));
                        None
                    }
                };
                given_back.extend(before);
            }
            guest.topics(Some(&instruments))
        })?;
        let stands = self.tell(session, topics, false)?;
        let refused = refused.into_iter().map(told).collect::<Option<_>>()?;
        Some(Stands { refused, ..stands })
    }

    /// What has changed of what a session has since it was last told; none if there is no such one.
    fn beat(&self, session: &Session) -> Option<Stands> {
        // Mostly everything is carried, and nothing is news.
        let topics = match self.visit(session, |guest| guest.is_content())? && self.source.is_whole() {
            true => Vec::new(),
            false => self.visit(session, |guest| guest.topics(None))?,
        };
        self.tell(session, topics, true)
    }

    /// The feed and its adapter are asked without the lock: it may take long, and others beat meanwhile. What was told of the same
    /// session in between may be newer; then the next beat finds that it has changed.
    fn tell(&self, session: &Session, topics: Vec<Topic>, only_news: bool) -> Option<Stands> {
        let standing = guest::standing(&*self.source, topics);
        let stands = self.visit(session, |guest| guest.tell(standing, only_news))?;
        let reason = if stands.lacks() { guest::reason(&*self.source) } else { None };
        Some(Stands { reason, ..stands })
    }

    async fn hold(&self, topic: Topic) -> Result<Held, SubscribeError> {
        let subscribe = || Held::subscribe(Arc::clone(&self.source), topic.clone());
        let mut waiting = pin!(subscribe());
        if let Ok(held) = timeout(IN_VAIN, &mut waiting).await {
            return held;
        }
        match self.source.pending(&topic) {
            // Whoever comes now is told at once; then the first may go, and the interest stays.
            Some(Pending::Down | Pending::Credential | Pending::NoCredential) => subscribe().await,
            Some(Pending::Unanswered) | None => waiting.await,
        }
    }

    /// Something is heard of a session; none if there is no such one.
    fn visit<R>(&self, session: &Session, visit: impl FnOnce(&mut Guest) -> R) -> Option<R> {
        let mut sessions = self.lock();
        let guest = sessions.get_mut(session)?;
        guest.heard = Instant::now();
        Some(visit(guest))
    }

    /// The epoch in which this member is the owner, if it is.
    fn owned(&self) -> Option<u64> {
        self.member.roles.borrow().owns(Instant::now())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Session, Guest>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a member is told of something that is not to be had; none if that is because of the feed, and not for good.
fn told((at, error): (usize, SubscribeError)) -> Option<RefusedAt> {
    let reason = match error {
        SubscribeError::Refused { reason, .. } => reason.to_string(),
        SubscribeError::CapacityReached { .. } => error.to_string(),
        _ => return None,
    };
    Some(RefusedAt { at, reason })
}
