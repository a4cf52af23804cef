//! What an answer means, by the kind of question.

use super::hosts::Along;
use super::lookup::{Found, Outcome, State};
use super::publish::News;
use super::question::{Answer, AskId, Kind, Target};
use super::{LookupId, Machine, Source};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long "there are none" holds when the answer does not say.
const NOTHING: Duration = Duration::from_secs(60);
/// How long nameservers that do not know SRV are not asked for it.
const NOT_IMPLEMENTED: Duration = Duration::from_secs(3600);
/// How soon SRV that never worked is asked for again, without and with addresses to live on.
const SRV_NEVER_WORKED: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(900));
/// How soon addresses in trouble are asked for again, at the latest.
const STALE: Duration = Duration::from_secs(60);
/// How soon AAAA that was never answered is asked for again where A is.
const AAAA_NEVER_WORKED: Duration = Duration::from_secs(3600);

impl Machine {
    /// A question has ended. An answer nobody waits for changes nothing.
    pub fn handle_answer(&mut self, now: Instant, ask: AskId, answer: Answer) {
        let Some(id) = self.asking.remove(&ask) else { return };
        self.counters.ended(&answer);
        match self.lookups[&id].question.kind {
            Kind::Srv => self.srv_answered(now, id, answer),
            Kind::Aaaa | Kind::A => self.addresses_answered(now, id, answer),
        }
        // Last, so that what the answer gives rise to is awaited before this is not.
        self.no_longer_awaited(id);
        self.pump();
        self.publish(now);
    }

    fn srv_answered(&mut self, now: Instant, id: LookupId, answer: Answer) {
        match answer {
            Answer::Targets { mut targets, additional, whole, ttl } if !targets.is_empty() => {
                // The same place twice counts once, at its best priority.
                targets.sort_unstable();
                let mut seen = BTreeSet::new();
                targets.retain(|target| seen.insert((Arc::clone(&target.name), target.port)));
                self.rest(now, id, ttl);
                self.srv_found(id, targets, &Along { additional: &additional, whole, ttl });
            }
            // An empty list is as good as none.
            Answer::Targets { .. } | Answer::Addresses { .. } | Answer::Nothing { .. } => {
                let ttl = if let Answer::Nothing { ttl, .. } = answer { ttl } else { None };
                self.rest(now, id, ttl.unwrap_or(NOTHING));
                self.srv_absent(id, !matches!(answer, Answer::Nothing { exists: false, .. }));
            }
            Answer::NotImplemented => {
                self.rest(now, id, NOT_IMPLEMENTED);
                self.srv_absent(id, true);
            }
            Answer::NotOffered { ttl } => {
                self.rest(now, id, ttl);
                if self.source == Source::Undecided {
                    self.source = Source::Service;
                }
                self.trouble(now, id);
            }
            Answer::Refused => self.srv_exhausted(now, id),
            Answer::Trouble => {
                if !self.try_again(now, id) {
                    self.srv_exhausted(now, id);
                }
            }
        }
    }

    fn srv_found(&mut self, id: LookupId, targets: Vec<Target>, along: &Along<'_>) {
        if self.lookup(id).succeed(Found::Targets(targets.clone()), along.ttl) {
            self.news.raise(News::Some);
        }
        self.source = Source::Service;
        self.use_targets(targets, along);
    }

    /// There are no SRV records: the domain's own addresses serve.
    fn srv_absent(&mut self, id: LookupId, exists: bool) {
        let lookup = self.lookup(id);
        lookup.forget();
        lookup.outcome = Outcome::Nothing { exists };
        self.news.raise(News::Some);
        self.use_domain();
    }

    fn srv_exhausted(&mut self, now: Instant, id: LookupId) {
        let (alone, with_addresses) = SRV_NEVER_WORKED;
        let known = !self.published.backends.is_empty();
        let again = self.lookup(id).ttl.unwrap_or(if known { with_addresses } else { alone });
        self.rest(now, id, again);
        self.trouble(now, id);
        match self.source {
            Source::Undecided => self.use_domain(),
            Source::Service => self.ask_for_given(),
            Source::Domain => {}
        }
    }

    fn addresses_answered(&mut self, now: Instant, id: LookupId, answer: Answer) {
        let kind = self.lookups[&id].question.kind;
        match answer {
            Answer::Addresses { mut addresses, ttl } if !addresses.is_empty() => {
                addresses.sort_unstable();
                addresses.dedup();
                self.rest(now, id, ttl);
                if self.lookup(id).succeed(Found::Addresses(addresses), ttl) {
                    self.news.raise(News::Some);
                }
            }
            Answer::Addresses { .. } | Answer::Targets { .. } | Answer::NotOffered { .. } => {
                self.no_addresses(now, id, true, None);
            }
            Answer::Nothing { exists, ttl } => self.no_addresses(now, id, exists, ttl),
            Answer::NotImplemented if kind == Kind::Aaaa => self.no_addresses(now, id, true, None),
            Answer::Refused => self.addresses_exhausted(now, id),
            Answer::NotImplemented | Answer::Trouble => {
                if !self.try_again(now, id) {
                    self.addresses_exhausted(now, id);
                }
            }
        }
        let name = Arc::clone(&self.lookups[&id].question.name);
        self.prune(&name);
    }

    fn no_addresses(&mut self, now: Instant, id: LookupId, exists: bool, ttl: Option<Duration>) {
        self.rest(now, id, ttl.unwrap_or(NOTHING));
        self.lookup(id).disappoint(now, Outcome::Nothing { exists });
        self.news.raise(News::Some);
    }

    fn addresses_exhausted(&mut self, now: Instant, id: LookupId) {
        let lookup = &self.lookups[&id];
        let host = &self.hosts[&lookup.question.name];
        let again = match (&lookup.found, lookup.ttl) {
            (Some(_), Some(ttl)) => ttl.min(STALE),
            // Where A works, AAAA is not urgent.
            _ if id == host.aaaa && !self.lookups[&host.a].addresses().is_empty() => {
                if lookup.answered {
                    STALE
                } else {
                    AAAA_NEVER_WORKED
                }
            }
            _ => self.policy(lookup.question.kind).longest_delay(),
        };
        self.rest(now, id, again);
        self.trouble(now, id);
    }

    /// Ends in trouble, which is news each time: the cause may be another.
    fn trouble(&mut self, now: Instant, id: LookupId) {
        self.lookup(id).disappoint(now, Outcome::Trouble);
        self.news.raise(News::Trouble);
    }

    /// An attempt failed. Whether another is made.
    fn try_again(&mut self, now: Instant, id: LookupId) -> bool {
        let lookup = self.lookups.get_mut(&id).expect("the lookup that was asked for");
        let State::Asking { tries, .. } = &lookup.state else { return false };
        let mut tries = tries.clone();
        let policy = self.options.recovery.for_dns(lookup.question.kind == Kind::Srv);
        let Some(delay) = tries.fail(policy, &mut self.random) else { return false };
        lookup.faltered = true;
        lookup.enter(State::Delayed { tries });
        self.wake_at(now + delay, id);
        true
    }

    /// Rests for about this long, within the bounds of a TTL.
    fn rest(&mut self, now: Instant, id: LookupId, about: Duration) {
        let about = about.clamp(self.options.min_ttl, self.options.max_ttl);
        let policy = self.options.recovery.for_dns(self.lookups[&id].question.kind == Kind::Srv);
        let time = policy.spread_forward(about, &mut self.random);
        self.lookup(id).enter(State::Resting);
        self.wake_at(now + time, id);
    }
}
