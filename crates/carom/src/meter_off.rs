//! The meter, where the feature `metrics` is off: nothing, under the same names.

use crate::monitor::Monitor;
use carom_core::backend::Backend;
use std::time::Instant;

/// What was recorded last: nothing.
#[derive(Clone, Default)]
pub(crate) struct Recorded;

/// Meters nothing.
pub(crate) struct Meter;

impl Meter {
    pub(crate) fn new(_: &Monitor, _: &str) -> Meter {
        Meter
    }

    pub(crate) fn timer(&self, _: &Backend) -> Timer {
        Timer
    }
}

/// Keeps no time.
#[derive(Default)]
pub(crate) struct Timer;

impl Timer {
    #[inline]
    pub(crate) fn is_kept(&self) -> bool {
        false
    }

    pub(crate) fn created(&mut self) {}

    #[inline]
    pub(crate) fn lent(&mut self) {}

    pub(crate) fn lent_after(&mut self, _: Instant) {}

    #[inline]
    pub(crate) fn back(&mut self) {}
}
