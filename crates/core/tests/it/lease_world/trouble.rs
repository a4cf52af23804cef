//! What goes wrong: members are stopped, killed, cut off and sent away, and the register forgets.

use super::setting::{ms, one_of};
use super::{Event, Moment, World};
use carom_core::feed::lease::Machine;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
enum Trouble {
    Stopped,
    /// The worst of stops: a holder cannot renew, and is stopped just before its hold ends.
    StoppedAtTheEnd,
    Killed,
    CutOff,
    Leaves,
    Forgets,
}

impl World {
    pub(crate) fn kill(&mut self, member: usize) {
        self.end_life(member);
    }

    pub(crate) fn release(&mut self, member: usize) {
        self.tell(member, |machine, now| machine.release(now));
    }

    /// Nothing gets from a member to the register or back from now on; or it does.
    pub(crate) fn cut(&mut self, member: usize, is_cut_off: bool) {
        self.members[member].is_cut_off = is_cut_off;
    }

    /// The register is restored from what was so in the hold before.
    pub(crate) fn go_back(&mut self) {
        self.register.go_back();
        self.nothing_arrives();
    }

    pub(crate) fn lose_everything(&mut self) {
        self.register.lose_everything();
        self.nothing_arrives();
    }

    /// Revisions mean something else from now on, so nothing that was written for the old ones may arrive.
    fn nothing_arrives(&mut self) {
        self.events.retain(|_, event| !matches!(event, Event::Write(..)));
    }

    /// Nothing goes wrong from now on: what is under way arrives at once, and everybody runs and can be reached.
    pub(crate) fn calm_down(&mut self) {
        let (setting, clock) = (&mut self.setting, self.clock);
        (setting.loses, setting.slow, setting.trouble_every) = (0.0, 0.0, None);
        for event in std::mem::take(&mut self.events).into_values() {
            match event {
                Event::Trouble | Event::Starts(_) | Event::Stops(_) | Event::IsBack(_) => {}
                Event::Read(..) | Event::Write(..) | Event::WasRead(..) | Event::WasWritten(..) | Event::Changed(_) => {
                    self.after(Duration::ZERO, event);
                }
            }
        }
        for member in 0..self.members.len() {
            let place = &mut self.members[member];
            (place.stopped_until, place.is_cut_off) = (clock, false);
            if place.machine.is_none() {
                self.start(member);
            }
        }
    }

    pub(super) fn next_trouble(&mut self) {
        if let Some(every) = self.setting.trouble_every {
            let soon = self.up_to(every * 2);
            self.after(soon, Event::Trouble);
        }
    }

    pub(super) fn trouble(&mut self) {
        let member = match self.holder().filter(|_| self.random.chance(0.5)) {
            Some(holder) => holder,
            None => self.random.below(self.members.len()),
        };
        let kinds = [
            Trouble::Stopped,
            Trouble::StoppedAtTheEnd,
            Trouble::Killed,
            Trouble::CutOff,
            Trouble::Leaves,
            Trouble::Forgets,
        ];
        let trouble = one_of(&mut self.random, &kinds);
        if self.trace.is_on() {
            self.trace.add(format!("{:?} {trouble:?} {member}", self.clock));
        }
        match trouble {
            Trouble::Stopped => {
                let time = self.up_to(self.setting.stops_for);
                self.stop(member, time);
            }
            Trouble::StoppedAtTheEnd => {
                let Some(end) = self.members[member].hold_ends() else { return };
                let before = self.up_to(ms(2));
                let left = end.saturating_sub(self.clock + before);
                self.after(left, Event::Stops((member, self.members[member].life)));
                self.cut_off(member);
            }
            Trouble::Killed => {
                self.end_life(member);
                let pause = self.up_to(ms(10_000));
                self.after(pause, Event::Starts(member));
            }
            Trouble::CutOff => self.cut_off(member),
            Trouble::Leaves if self.members[member].stopped_until <= self.clock => self.release(member),
            Trouble::Forgets if self.setting.forgets && self.random.chance(0.5) => self.register.lose_entry(),
            // A claim must last for long enough to be seen: one that was forgotten before has never been, for those who did not
            // look meanwhile.
            Trouble::Forgets
                if self.setting.forgets
                    && self.clock > self.register.claimed + self.setting.by_any_clock(self.setting.options.hold) =>
            {
                self.lose_everything();
            }
            Trouble::Leaves | Trouble::Forgets => {}
        }
    }

    pub(super) fn stop(&mut self, member: usize, time: Duration) {
        let (clock, place) = (self.clock, &mut self.members[member]);
        // Not twice in a row: that would be one that lasts longer.
        if place.stopped_until + self.setting.options.hold < clock {
            place.stopped_until = clock + time;
        }
    }

    fn cut_off(&mut self, member: usize) {
        self.members[member].is_cut_off = true;
        let time = self.up_to(self.setting.options.ttl * 3);
        self.after(time, Event::IsBack(member));
    }

    pub(super) fn start(&mut self, member: usize) {
        if self.members[member].machine.is_some() {
            return;
        }
        self.lives += 1;
        let (life, seed, place) = (self.lives, self.random.bits(), &mut self.members[member]);
        let (now, wall) = (place.clock(self.clock), place.wall + self.clock);
        let name = format!("{member}, life {life}").into();
        let machine = Machine::new(now, name, self.setting.options, wall, seed).expect("the options are sound");
        (place.machine, place.life, place.stopped_until) = (Some(machine), life, Moment::ZERO);
    }

    /// A process that ends takes its connections with it.
    pub(super) fn end_life(&mut self, member: usize) {
        let place = &mut self.members[member];
        (place.machine, place.connected, place.life) = (None, None, 0);
    }
}
