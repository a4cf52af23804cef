//! The low-pass filter: a floor under the size of a pool, so that it does not shrink on every dip.
//!
//! Load comes in bursts. A pool that closed its surplus connections between two bursts would open them again for the
//! next one, and the callers would pay for the handshakes. So the pool samples the size it could do with and never goes
//! below a weighted mean of the last 128 samples, in which recent ones count most: with a sample every 200 ms, half the
//! weight is younger than 0.8 s and nothing is older than 25.6 s.
//!
//! ```
//! use carom_core::filter::LowPass;
//!
//! let mut filter = LowPass::new();
//! for _ in 0..128 {
//!     filter.sample(10);
//! }
//! assert_eq!(filter.floor(), 10);
//!
//! // A dip of one sample hardly shows; a second without load brings the floor to half.
//! filter.sample(2);
//! assert_eq!(filter.floor(), 9);
//! for _ in 0..4 {
//!     filter.sample(2);
//! }
//! assert_eq!(filter.floor(), 5);
//! ```

use std::time::Duration;

/// Samples in the window.
const LENGTH: usize = 128;

/// The weight of a sample relative to the next newer one: e to the power of -0.2.
const DECAY: f64 = 0.818_730_753_077_981_9;

/// How far above an integer, relative to it, the mean may be and still count as that integer.
///
/// It lies between two numbers. Rounding errors of the mean stay below 128 half-units in the last place, 1.5e-14. The
/// oldest tap weighs 1.7e-12 and should keep its say until it leaves the window; at 1e-13 it does, for every step down
/// by more than a sixteenth.
const EPSILON: f64 = 1e-13;

/// The weights, that of the newest sample first; their sum is 1.
static TAPS: [f64; LENGTH] = taps();

/// A mean of the latest 128 samples in which each weighs e^-0.2 of its successor.
///
/// It has no clock: the caller takes a sample every [`LowPass::INTERVAL`], and may stop doing so while
/// [`is_settled`](LowPass::is_settled) and the value to sample is still the same.
#[derive(Clone, Debug)]
pub struct LowPass {
    /// A ring: the oldest sample is at `oldest`, newer ones follow, wrapping around at the end.
    samples: [u32; LENGTH],
    oldest: usize,
    latest: u32,
    /// How many of the latest samples are equal, at most all.
    run: usize,
}

impl LowPass {
    /// Time between two samples.
    pub const INTERVAL: Duration = Duration::from_millis(200);

    /// A filter that has seen nothing but zeros.
    pub const fn new() -> Self {
        Self { samples: [0; LENGTH], oldest: 0, latest: 0, run: LENGTH }
    }

    /// Takes the next sample; the oldest leaves the window.
    pub fn sample(&mut self, value: u32) {
        self.run = if value == self.latest { (self.run + 1).min(LENGTH) } else { 1 };
        self.latest = value;
        self.samples[self.oldest] = value;
        self.oldest = (self.oldest + 1) % LENGTH;
    }

    /// The weighted mean of the window.
    pub fn value(&self) -> f64 {
        let (newer, older) = self.samples.split_at(self.oldest);
        // Oldest first, which weigh least: adding small terms before large ones keeps the rounding errors small.
        let by_weight = older.iter().chain(newer).zip(TAPS.iter().rev());
        by_weight.map(|(&sample, tap)| f64::from(sample) * tap).sum()
    }

    /// The mean as a number of slots: rounded up, but a steady integer stays that integer.
    pub fn floor(&self) -> usize {
        let value = self.value();
        (value - value * EPSILON).ceil() as usize
    }

    /// Whether the whole window equals the latest sample, so that another one like it would change nothing.
    pub fn is_settled(&self) -> bool {
        self.run == LENGTH
    }
}

impl Default for LowPass {
    fn default() -> Self {
        Self::new()
    }
}

/// Powers of [`DECAY`], divided by their sum. Products instead of `exp`, whose last digits differ between platforms.
const fn taps() -> [f64; LENGTH] {
    let mut taps = [1.0; LENGTH];
    let mut sum = taps[0];
    let mut i = 1;
    while i < LENGTH {
        taps[i] = taps[i - 1] * DECAY;
        sum += taps[i];
        i += 1;
    }
    i = 0;
    while i < LENGTH {
        taps[i] /= sum;
        i += 1;
    }
    taps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(value: u32) -> LowPass {
        let mut filter = LowPass::new();
        repeat(&mut filter, value, LENGTH);
        filter
    }

    fn repeat(filter: &mut LowPass, value: u32, times: usize) {
        for _ in 0..times {
            filter.sample(value);
        }
    }

    /// The value after so many samples of `to`, to four decimals, for each count asked for.
    fn assert_step(mut filter: LowPass, to: u32, expected: &[(usize, &str)]) {
        let mut taken = 0;
        for &(samples, value) in expected {
            repeat(&mut filter, to, samples - taken);
            taken = samples;
            assert_eq!(format!("{:.4}", filter.value()), value, "after {samples} samples of {to}");
        }
    }

    #[test]
    fn taps_decay_and_sum_to_one() {
        let first: Vec<_> = TAPS[..5].iter().map(|tap| format!("{tap:.6}")).collect();
        assert_eq!(first, ["0.181269", "0.148411", "0.121508", "0.099483", "0.081450"]);
        assert!((TAPS.iter().sum::<f64>() - 1.0).abs() < 1e-15);
        let last = TAPS[0] * (-0.2 * 127.0_f64).exp();
        assert!((TAPS[127] / last - 1.0).abs() < 1e-13);
    }

    #[test]
    fn a_step_up_is_followed_slowly() {
        let expected = [
            (1, "0.3625"),
            (2, "0.6594"),
            (3, "0.9024"),
            (5, "1.2642"),
            (10, "1.7293"),
            (20, "1.9634"),
            (30, "1.9950"),
        ];
        assert_step(LowPass::new(), 2, &expected);
    }

    #[test]
    fn a_step_down_is_followed_slowly() {
        let expected = [
            (1, "8.5498"),
            (2, "7.3626"),
            (3, "6.3905"),
            (4, "5.5946"),
            (5, "4.9430"),
            (7, "3.9728"),
            (10, "3.0827"),
            (15, "2.3983"),
            (20, "2.1465"),
            (25, "2.0539"),
        ];
        assert_step(steady(10), 2, &expected);
    }

    #[test]
    fn one_surplus_slot_lingers_for_the_whole_window() {
        let mut filter = steady(10);
        repeat(&mut filter, 2, 10);
        assert_eq!(filter.floor(), 4);
        for samples in 11..LENGTH {
            filter.sample(2);
            assert_eq!(filter.floor(), 3, "after {samples} samples");
        }
        filter.sample(2);
        assert_eq!(filter.floor(), 2);
    }

    #[test]
    fn a_steady_integer_stays_that_integer() {
        let large = [4_095, 4_097, 9_999, 65_535, 65_537, 99_991, 100_000, 1_000_003, u32::MAX];
        for value in (0..=2_000).chain(large) {
            let mut filter = steady(value);
            // The ring starts anywhere: the sum must not depend on where.
            for _ in 0..3 {
                assert_eq!(filter.floor(), value as usize);
                filter.sample(value);
            }
        }
    }

    #[test]
    fn rounding_errors_do_not_cost_a_slot() {
        // Without the epsilon some integers come out a hair above themselves and a pool would keep one slot too many:
        // the first four with cueball's taps, 47 with these.
        for value in [7, 9, 14, 18, 47] {
            assert_eq!(steady(value).floor(), value as usize);
        }
    }

    #[test]
    fn the_floor_never_leaves_the_range_of_the_samples() {
        let mut filter = steady(7);
        for i in 0..10_000_u32 {
            filter.sample(7 + i % 3);
            assert!((7..=9).contains(&filter.floor()));
        }
    }

    #[test]
    fn settled_when_the_window_is_one_value() {
        let mut filter = LowPass::new();
        assert!(filter.is_settled());
        filter.sample(0);
        assert!(filter.is_settled());

        repeat(&mut filter, 5, LENGTH - 1);
        assert!(!filter.is_settled());
        filter.sample(5);
        assert!(filter.is_settled());
        let value = filter.value();
        filter.sample(5);
        assert!(filter.is_settled());
        assert_eq!(filter.value(), value);

        filter.sample(6);
        assert!(!filter.is_settled());
        filter.sample(5);
        repeat(&mut filter, 5, LENGTH - 2);
        assert!(!filter.is_settled(), "the 6 is still in the window");
        filter.sample(5);
        assert!(filter.is_settled());
    }

    #[test]
    fn the_window_forgets() {
        let mut filter = steady(100_000);
        repeat(&mut filter, 0, LENGTH - 1);
        assert_eq!(filter.floor(), 1);
        filter.sample(0);
        assert_eq!(filter.floor(), 0);
        assert_eq!(filter.value(), 0.0);
    }
}
