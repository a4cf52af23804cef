//! Seeded chance: the only source of it in this crate, so that a run can be repeated from its seed.
//!
//! ```
//! use carom_core::random::Random;
//!
//! let (mut one, mut other) = (Random::new(7), Random::new(7));
//! assert_eq!(one.below(100), other.below(100));
//! ```

use std::time::Duration;

/// A small, fast generator (SplitMix64). Not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator whose whole sequence follows from `seed`.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// Two different numbers in `0..bound`, which is at least 2, from one draw.
    #[inline]
    pub(crate) fn two_below(&mut self, bound: usize) -> (usize, usize) {
        let (bits, bound) = (self.bits(), bound as u64);
        let first = ((bits >> 32) * bound) >> 32;
        let second = ((bits & 0xffff_ffff) * (bound - 1)) >> 32;
        (first as usize, (second + u64::from(second >= first)) as usize)
    }

    /// A number in `0.0..1.0`.
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }

    /// `base` spread evenly over `base * (1 - spread / 2) ..= base * (1 + spread / 2)`.
    pub fn around(&mut self, base: Duration, spread: f64) -> Duration {
        base.mul_f64(1.0 - spread / 2.0 + self.fraction() * spread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_stays_below_and_reaches_everything() {
        let mut random = Random::new(1);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[random.below(5)] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn two_below_are_different_and_every_pair_is_as_likely() {
        let mut random = Random::new(3);
        let mut seen = [[0; 3]; 3];
        for _ in 0..6_000 {
            let (first, second) = random.two_below(3);
            seen[first][second] += 1;
        }
        for (first, row) in seen.iter().enumerate() {
            for (second, &count) in row.iter().enumerate() {
                let expected = if first == second { 0..=0 } else { 850..=1_150 };
                assert!(expected.contains(&count), "{first}, {second}: {count}");
            }
        }
        assert!((0..100).all(|_| matches!(random.two_below(2), (0, 1) | (1, 0))));
    }

    #[test]
    fn around_keeps_within_its_spread_and_zero_means_none() {
        let mut random = Random::new(2);
        let base = Duration::from_millis(100);
        for _ in 0..1000 {
            let spread = random.around(base, 0.2);
            assert!(spread >= Duration::from_millis(90) && spread <= Duration::from_millis(110));
        }
        assert_eq!(random.around(base, 0.0), base);
    }
}
