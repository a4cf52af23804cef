//! What the register says, and what follows from it.

use super::{Entry, Hold, Holder, Leaving, Look, Machine, Mark, Part, RequestId, Sight, State, Upkeep, Written};
use std::mem;
use std::time::{Duration, Instant};

impl Machine {
    /// The entry may have changed: who watches reads it now rather than later.
    pub fn handle_changed(&mut self, now: Instant) {
        // Nothing looks like nothing: somebody may have claimed, and been forgotten again, since it was looked at.
        let anew = now + self.options.ttl;
        if let State::Watching { sight, look } = &mut self.state {
            if let Some(Sight { entry: Entry { mark: Mark { holder: Holder::Unknown, .. }, .. }, claim_at, .. }) = sight
            {
                *claim_at = anew.max(*claim_at);
            }
            if let Look::At(at) = look {
                *at = now.min(*at);
            }
        }
        self.handle_timeout(now);
    }

    /// A read has been answered; `None` if it failed.
    pub fn handle_read(&mut self, now: Instant, request: RequestId, entry: Option<Entry>) {
        self.handle_timeout(now);
        let later = Look::At(now + self.options.pause());
        self.state = match (mem::replace(&mut self.state, State::Left), entry) {
            (State::Watching { sight, look }, Some(entry)) if look.is(request) => self.saw(now, sight, entry),
            (State::Watching { sight, look }, None) if look.is(request) => State::Watching { sight, look: later },
            (State::Holding { hold, upkeep: Upkeep::Looking(look) }, Some(entry)) if look.is(request) => {
                self.holder_saw(now, hold, entry)
            }
            (State::Holding { hold, upkeep: Upkeep::Looking(look) }, None) if look.is(request) => {
                State::Holding { hold, upkeep: Upkeep::Looking(later) }
            }
            (State::Leaving(Leaving::Looking(look)), Some(entry)) if look.is(request) => self.leaver_saw(now, entry),
            (State::Leaving(Leaving::Looking(look)), None) if look.is(request) => {
                State::Leaving(Leaving::Looking(later))
            }
            // It comes too late: nobody waits for it.
            (state, _) => state,
        };
        self.handle_timeout(now);
    }

    /// A write has been answered.
    pub fn handle_written(&mut self, now: Instant, request: RequestId, written: Written) {
        self.handle_timeout(now);
        let later = Look::At(now + self.options.pause());
        self.state = match (mem::replace(&mut self.state, State::Left), written) {
            (State::Claiming { epoch, sent, request: asked, .. }, Written::Done(revision)) if asked == request => {
                self.known = self.known.max(epoch);
                self.held(Hold { revision, epoch, until: sent + self.options.hold }, sent)
            }
            (State::Claiming { mut sight, request: asked, .. }, Written::Conflict) if asked == request => {
                // It was not the same all the time, also if it looks so again.
                sight.claim_at = now + self.patience(&sight.entry.mark);
                State::Watching { sight: Some(sight), look: later }
            }
            (State::Claiming { sight, request: asked, .. }, Written::Failed) if asked == request => {
                State::Watching { sight: Some(sight), look: later }
            }
            (State::Holding { hold, upkeep: Upkeep::Renewing { sent, request: asked } }, Written::Done(revision))
                if asked == request =>
            {
                self.held(Hold { revision, until: sent + self.options.hold, ..hold }, sent)
            }
            (
                State::Holding { hold, upkeep: Upkeep::Renewing { request: asked, .. } },
                Written::Conflict | Written::Failed,
            ) if asked == request => State::Holding { hold, upkeep: Upkeep::Looking(later) },
            (State::Leaving(leaving), written) => self.leaver_wrote(now, leaving, request, written),
            // It comes too late. If it was done all the same, the entry says so.
            (state, _) => state,
        };
        self.handle_timeout(now);
    }

    fn held(&self, hold: Hold, sent: Instant) -> State {
        State::Holding { hold, upkeep: Upkeep::RenewAt(sent + self.options.renew) }
    }

    /// The entry for one who is not a holder.
    fn saw(&mut self, now: Instant, before: Option<Sight>, entry: Entry) -> State {
        self.known = self.known.max(entry.mark.epoch);
        self.highest = self.highest.max(entry.mark.epoch);
        let sight = match before {
            // Who has not looked for long does not know that it was the same all the time.
            Some(sight) if sight.entry == entry && now.saturating_duration_since(sight.seen) <= self.options.hold => {
                Sight { seen: now, ..sight }
            }
            Some(_) | None => {
                let claim_at = now + self.patience(&entry.mark);
                Sight { entry, seen: now, claim_at }
            }
        };
        let again = now + self.options.renew;
        match self.part {
            Part::Candidate if now >= sight.claim_at => {}
            Part::Candidate => {
                let look = Look::At(sight.claim_at.min(again));
                return State::Watching { sight: Some(sight), look };
            }
            Part::Aside | Part::Leaver => return State::Watching { sight: Some(sight), look: Look::At(again) },
        }
        let epoch = self.next_epoch();
        self.highest = epoch;
        let request = self.write(sight.entry.revision, Mark { holder: Holder::Member(self.me.clone()), epoch });
        State::Claiming { sight, epoch, sent: now, request }
    }

    /// The entry for a holder whose renewal was not done, or not heard of.
    fn holder_saw(&mut self, now: Instant, hold: Hold, entry: Entry) -> State {
        let own = Mark { holder: Holder::Member(self.me.clone()), epoch: hold.epoch };
        if entry.mark == own {
            // A renewal of which nothing was heard may have been done. When it was sent is not known, so it does not count.
            return self.renew(now, Hold { revision: entry.revision, ..hold });
        }
        // The register has forgotten, or somebody wrote into it who should not have. There may be another holder soon: better
        // to end early than late.
        self.saw(now, None, entry)
    }

    /// How long an entry is looked at before it is claimed.
    fn patience(&mut self, Mark { holder, epoch }: &Mark) -> Duration {
        let a_little = self.options.pause().mul_f64(self.random.fraction());
        match holder {
            // The register has gone back to what it was before: whoever held later may not know yet.
            Holder::Member(_) | Holder::Free if *epoch < self.known => self.options.ttl + a_little,
            // Nobody else can have held since this was written, and this member does not.
            Holder::Member(member) if *member == self.me => Duration::ZERO,
            Holder::Free => a_little,
            Holder::Member(_) | Holder::Unknown => self.options.ttl + a_little,
        }
    }

    fn next_epoch(&self) -> u64 {
        let millis = u64::try_from(self.wall.as_millis()).unwrap_or(u64::MAX);
        self.highest.saturating_add(1).max(millis)
    }
}
