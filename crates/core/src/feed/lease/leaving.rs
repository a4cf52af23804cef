//! Giving a lease back: it is written free, so that nobody waits for a holder who is gone.

use super::{Entry, Hold, Holder, Leaving, Look, Machine, Mark, Part, RequestId, State, Upkeep, Written};
use std::mem;
use std::time::Instant;

impl Machine {
    /// Gives the lease back and takes no further part. This member does not hold from now on: whatever it did as a holder has
    /// ended before. See [`has_left`](Machine::has_left).
    pub fn release(&mut self, now: Instant) {
        self.part = Part::Leaver;
        self.give_back(now);
    }

    /// Gives the lease back, if this member has it, and claims nothing until it is told to [stand in](Machine::stand_in) again.
    pub fn stand_aside(&mut self, now: Instant) {
        if self.part == Part::Candidate {
            self.part = Part::Aside;
            self.give_back(now);
        }
    }

    /// Claims the lease again when it can be had.
    pub fn stand_in(&mut self, now: Instant) {
        if self.part == Part::Aside {
            self.part = Part::Candidate;
            // What is free need not be so for longer.
            if let State::Watching { look: Look::At(at), .. } = &mut self.state {
                *at = now.min(*at);
            }
            self.handle_timeout(now);
        }
    }

    fn give_back(&mut self, now: Instant) {
        self.handle_timeout(now);
        self.state = match mem::replace(&mut self.state, State::Left) {
            // There is nothing of this member's, or only what others have begun to wait for already.
            State::Watching { sight, look } => match self.part {
                Part::Leaver => State::Left,
                Part::Aside | Part::Candidate => State::Watching { sight, look },
            },
            State::Left => State::Left,
            State::Claiming { request, epoch, sent, .. } => self.settle(request, sent, epoch),
            State::Holding { hold, upkeep: Upkeep::Renewing { request, sent } } => {
                self.settle(request, sent, hold.epoch)
            }
            State::Holding { hold: Hold { revision, epoch, .. }, upkeep: Upkeep::RenewAt(_) } => {
                self.free(now, revision, epoch)
            }
            State::Holding { upkeep: Upkeep::Looking(look), .. } => State::Leaving(Leaving::Looking(look)),
            State::Leaving(leaving) => State::Leaving(leaving),
        };
        self.handle_timeout(now);
    }

    /// The entry for one who leaves.
    pub(super) fn leaver_saw(&mut self, now: Instant, entry: Entry) -> State {
        match &entry.mark.holder {
            Holder::Member(member) if *member == self.me => self.free(now, entry.revision, entry.mark.epoch),
            Holder::Member(_) | Holder::Free | Holder::Unknown => self.given_back(now),
        }
    }

    pub(super) fn leaver_wrote(
        &mut self,
        now: Instant,
        leaving: Leaving,
        request: RequestId,
        written: Written,
    ) -> State {
        let later = State::Leaving(Leaving::Looking(Look::At(now + self.options.pause())));
        match (leaving, written) {
            (Leaving::Settling { request: asked, epoch, .. }, Written::Done(revision)) if asked == request => {
                self.free(now, revision, epoch)
            }
            (Leaving::Freeing { request: asked, .. }, Written::Done(_)) if asked == request => self.given_back(now),
            (
                Leaving::Settling { request: asked, .. } | Leaving::Freeing { request: asked, .. },
                Written::Conflict | Written::Failed,
            ) if asked == request => later,
            (leaving, _) => State::Leaving(leaving),
        }
    }

    /// Nothing is left of its hold.
    fn given_back(&self, now: Instant) -> State {
        match self.part {
            Part::Leaver => State::Left,
            Part::Aside | Part::Candidate => State::Watching { sight: None, look: Look::At(now) },
        }
    }

    fn settle(&self, request: RequestId, sent: Instant, epoch: u64) -> State {
        State::Leaving(Leaving::Settling { request, deadline: sent + self.options.renew, epoch })
    }

    fn free(&mut self, now: Instant, over: u64, epoch: u64) -> State {
        let request = self.write(over, Mark { holder: Holder::Free, epoch });
        State::Leaving(Leaving::Freeing { request, deadline: now + self.options.renew })
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::super::{Action, Options, Standing};
    use super::*;
    use std::time::Duration;

    /// A register of one entry, to which one member speaks.
    struct Stage {
        machine: Machine,
        now: Instant,
        entry: Entry,
        writes: usize,
    }

    impl Stage {
        fn new() -> Stage {
            let now = Instant::now();
            let wall = Duration::from_secs(1_800_000_000);
            let machine = Machine::new(now, "me".into(), Options::default(), wall, 3).unwrap();
            Stage { machine, now, entry: Entry::absent(), writes: 0 }
        }

        /// Answers whatever is asked, for so long.
        fn pass(&mut self, time: Duration) {
            let until = self.now + time;
            loop {
                self.machine.handle_timeout(self.now);
                while let Some(action) = self.machine.poll_action() {
                    self.answer(action);
                }
                match self.machine.next_timeout() {
                    Some(next) if next <= until => self.now = self.now.max(next),
                    Some(_) | None => break,
                }
            }
            self.now = until;
        }

        fn answer(&mut self, action: Action) {
            match action {
                Action::Read { request } => self.machine.handle_read(self.now, request, Some(self.entry.clone())),
                Action::Write { request, over, mark } if over == self.entry.revision => {
                    self.writes += 1;
                    self.entry = Entry { revision: over + 1, mark };
                    self.machine.handle_written(self.now, request, Written::Done(over + 1));
                }
                Action::Write { request, .. } => self.machine.handle_written(self.now, request, Written::Conflict),
            }
        }

        fn holds(&self) -> bool {
            matches!(self.machine.standing(), Standing::Mine { .. })
        }
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn who_stands_aside_gives_the_lease_back_and_knows_who_has_it() {
        let mut stage = Stage::new();
        stage.pass(LONG);
        assert!(stage.holds());
        stage.machine.stand_aside(stage.now);
        assert_eq!(stage.machine.standing(), Standing::Nobody, "at once");
        stage.pass(LONG);
        let Entry { mark: Mark { holder, epoch }, .. } = stage.entry.clone();
        assert_eq!((holder, stage.holds()), (Holder::Free, false), "it is free for as long as nobody else wants it");
        let other = Mark { holder: Holder::Member("other".into()), epoch: epoch + 1 };
        stage.entry = Entry { revision: stage.entry.revision + 1, mark: other };
        let writes = stage.writes;
        stage.pass(LONG);
        assert_eq!(stage.machine.standing(), Standing::Other { holder: "other".into(), epoch: epoch + 1 });
        assert_eq!(stage.writes, writes, "also if the other one is gone");
        stage.machine.stand_in(stage.now);
        stage.pass(LONG);
        assert!(stage.holds());
    }

    #[test]
    fn who_stands_in_again_takes_what_is_free_at_once() {
        let mut stage = Stage::new();
        stage.pass(LONG);
        for _ in 0..3 {
            stage.machine.stand_aside(stage.now);
            stage.pass(LONG);
            stage.machine.stand_in(stage.now);
            stage.pass(Duration::from_millis(500));
            assert!(stage.holds());
        }
        // Before anybody has answered.
        stage.machine.stand_aside(stage.now);
        stage.machine.stand_in(stage.now);
        stage.pass(Duration::from_secs(1));
        assert!(stage.holds());
    }

    #[test]
    fn who_leaves_leaves_also_when_it_stands_aside() {
        for passed in [Duration::ZERO, LONG] {
            let mut stage = Stage::new();
            stage.pass(LONG);
            stage.machine.stand_aside(stage.now);
            stage.pass(passed);
            stage.machine.release(stage.now);
            stage.machine.stand_in(stage.now);
            stage.pass(LONG);
            assert!(stage.machine.has_left());
            assert_eq!(stage.entry.mark.holder, Holder::Free);
        }
    }
}
