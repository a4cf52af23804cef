//! Waiting times counted in buckets that widen with the time, so that recording one costs a few ns.

use std::time::Duration;

/// Each doubling of the time is split into this many buckets, so a quantile is off by 3 % at most.
const PER_DOUBLING: usize = 1 << SPLIT_BITS;
const SPLIT_BITS: u32 = 5;
/// Longer waits, from about 73 minutes on, are counted in the last bucket.
const DOUBLINGS: usize = 38;
const BUCKETS: usize = PER_DOUBLING * DOUBLINGS;

pub struct Waits {
    buckets: Vec<u32>,
    max: Duration,
}

impl Waits {
    pub fn new() -> Self {
        Self { buckets: vec![0; BUCKETS], max: Duration::ZERO }
    }

    pub fn record(&mut self, wait: Duration) {
        self.buckets[bucket_of(wait.as_nanos() as u64)] += 1;
        self.max = self.max.max(wait);
    }

    pub fn sum(parts: &[Self]) -> Self {
        let mut total = Self::new();
        for part in parts {
            for (sum, count) in total.buckets.iter_mut().zip(&part.buckets) {
                *sum += count;
            }
            total.max = total.max.max(part.max);
        }
        total
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().copied().map(u64::from).sum()
    }

    /// The middle of the bucket that holds the given share of the waits.
    pub fn quantile_us(&self, share: f64) -> f64 {
        let wanted = (self.count() as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= wanted {
                let middle = (lowest_of(bucket) + lowest_of(bucket + 1)) as f64 / 2.0;
                return middle / 1000.0;
            }
        }
        self.max_us()
    }

    pub fn max_us(&self) -> f64 {
        self.max.as_nanos() as f64 / 1000.0
    }
}

fn bucket_of(ns: u64) -> usize {
    let doubling = (ns | 1).ilog2().saturating_sub(SPLIT_BITS);
    let within = (ns >> doubling) as usize;
    (doubling as usize * PER_DOUBLING + within).min(BUCKETS - 1)
}

/// The least number of ns that falls into the bucket.
fn lowest_of(bucket: usize) -> u64 {
    let doubling = (bucket / PER_DOUBLING).saturating_sub(1);
    ((bucket - doubling * PER_DOUBLING) as u64) << doubling
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_begins_where_the_one_before_ends() {
        for bucket in 1..BUCKETS {
            let lowest = lowest_of(bucket);
            assert_eq!(bucket_of(lowest), bucket);
            assert_eq!(bucket_of(lowest - 1), bucket - 1);
        }
    }

    #[test]
    fn quantiles_come_within_three_percent() {
        let mut waits = Waits::new();
        for us in 1..=10_000 {
            waits.record(Duration::from_micros(us));
        }
        for (share, exact) in [(0.5, 5_000.0), (0.99, 9_900.0)] {
            let error = (waits.quantile_us(share) / exact - 1.0).abs();
            assert!(error < 0.03, "{share} is off by {error}");
        }
        assert_eq!(waits.max_us(), 10_000.0);
        assert_eq!(waits.count(), 10_000);
    }
}
