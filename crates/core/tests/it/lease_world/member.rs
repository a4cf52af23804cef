//! A member as the world knows it: a machine, a clock that is not quite right, and connections that it has while it owns.

use super::Moment;
use carom_core::feed::lease::{Machine, Standing};
use std::time::{Duration, Instant};

pub(crate) struct Member {
    /// `None` while the process does not run.
    pub(crate) machine: Option<Machine>,
    /// Which process it is, as each has a name of its own.
    pub(crate) life: u64,
    /// How fast its clock runs.
    pub(crate) rate: f64,
    /// What its clock says when the world begins.
    pub(crate) base: Instant,
    /// What it thinks the time is, when the world begins: close to what others think.
    pub(crate) wall: Duration,
    /// It runs on only then.
    pub(crate) stopped_until: Moment,
    /// Nothing gets from it to the register or back.
    pub(crate) is_cut_off: bool,
    /// The hold in which it has connections to the upstream. They end when it does so, or with it.
    pub(crate) connected: Option<u64>,
}

impl Member {
    pub(crate) fn clock(&self, moment: Moment) -> Instant {
        self.base + moment.mul_f64(self.rate)
    }

    /// When its machine is to be told the time, if it runs.
    pub(crate) fn next_timeout(&self) -> Option<Moment> {
        let due = self.machine.as_ref()?.next_timeout()?;
        Some(self.moment(due).max(self.stopped_until))
    }

    /// When the hold that it has ends by its own clock.
    pub(crate) fn hold_ends(&self) -> Option<Moment> {
        match self.machine.as_ref()?.standing() {
            Standing::Mine { until, .. } => Some(self.moment(until)),
            Standing::Other { .. } | Standing::Nobody => None,
        }
    }

    /// The hold that it has by its own clock, whether it runs or not.
    pub(crate) fn holds(&self, moment: Moment) -> Option<u64> {
        match self.machine.as_ref()?.standing() {
            Standing::Mine { epoch, until } if self.clock(moment) < until => Some(epoch),
            Standing::Mine { .. } | Standing::Other { .. } | Standing::Nobody => None,
        }
    }

    /// When its clock says this.
    fn moment(&self, says: Instant) -> Moment {
        let mut moment = says.saturating_duration_since(self.base).div_f64(self.rate);
        // Never a bit too early, or a timeout would be told again and again.
        while self.clock(moment) < says {
            moment += Duration::from_nanos(100);
        }
        moment
    }
}
