//! Latencies in buckets that are the wider the longer they are: any number of them in bounded memory, each right to 0.4 %.
//!
//! Below 128 ns every nanosecond has its bucket; from there on each doubling is divided into 128 of one width. What is told of a
//! bucket is its middle, which is off by at most half a width, 1/256 of the latency.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Into how many buckets a doubling is divided.
const PARTS: u64 = 1 << PART_BITS;
const PART_BITS: u32 = 7;
/// In nanoseconds, a bit more than a day: no request is given longer.
const LONGEST: u64 = 100_000_000_000_000;

/// How many latencies there were of which length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Histogram {
    /// As many as the longest one needs; about five thousand hold all that there can be.
    buckets: Vec<u64>,
    count: u64,
    /// In nanoseconds, as all that follows.
    sum: u128,
    /// What is told of the two ends is exact.
    least: u64,
    most: u64,
}

/// Latencies up to a length, and above that of the row before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) up_to: Duration,
    pub(super) count: u64,
}

impl Histogram {
    pub(super) fn record(&mut self, latency: Duration) {
        let nanoseconds = latency.as_nanos().min(LONGEST.into()) as u64;
        let bucket = bucket_of(nanoseconds);
        self.reach(bucket + 1);
        self.buckets[bucket] += 1;
        self.least = if self.count == 0 { nanoseconds } else { self.least.min(nanoseconds) };
        self.most = self.most.max(nanoseconds);
        self.count += 1;
        self.sum += u128::from(nanoseconds);
    }

    /// As if all that was recorded there had been recorded here.
    pub(super) fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        self.reach(other.buckets.len());
        for (here, there) in self.buckets.iter_mut().zip(&other.buckets) {
            *here += there;
        }
        self.least = if self.count == 0 { other.least } else { self.least.min(other.least) };
        self.most = self.most.max(other.most);
        self.count += other.count;
        self.sum += other.sum;
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The shortest; exact. Of nothing it is zero, as all that is told.
    pub(super) fn min(&self) -> Duration {
        Duration::from_nanos(self.least)
    }

    /// The longest; exact.
    pub(super) fn max(&self) -> Duration {
        Duration::from_nanos(self.most)
    }

    /// Exact, to the nanosecond.
    pub(super) fn mean(&self) -> Duration {
        let mean = self.sum / u128::from(self.count.max(1));
        Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The latency that so many of 100 000 do not exceed: 50 000 is the median, 99 900 p99.9. It is that of the request with
    /// this rank, never one between two.
    pub(super) fn percentile(&self, of_100_000: u32) -> Duration {
        let rank = (u128::from(self.count) * u128::from(of_100_000)).div_ceil(100_000).max(1);
        let mut seen = 0;
        let found = self.occupied().find(|(_, count)| {
            seen += u128::from(*count);
            seen >= rank
        });
        Duration::from_nanos(found.map_or(self.most, |(nanoseconds, _)| nanoseconds))
    }

    /// All of them in at most so many rows, for which there are 15 at least, with round ends; empty ones in between are there too.
    pub(super) fn rows(&self, most: usize) -> Vec<Row> {
        let (Some((first, _)), Some((last, _))) = (self.occupied().next(), self.occupied().last()) else {
            return Vec::new();
        };
        let fine_enough = STEPS.iter().find(|steps| ends(steps, first..=last).count() <= most);
        let mut rows: Vec<_> = ends(fine_enough.unwrap_or(&STEPS[STEPS.len() - 1]), first..=last)
            .map(|end| Row { up_to: Duration::from_nanos(end), count: 0 })
            .collect();
        let mut at = 0;
        for (nanoseconds, count) in self.occupied() {
            while rows[at].up_to < Duration::from_nanos(nanoseconds) && at + 1 < rows.len() {
                at += 1;
            }
            rows[at].count += count;
        }
        rows
    }

    /// The middle of each bucket that is not empty, no further than the ends that are known, and what is in it.
    fn occupied(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let middle = |bucket: usize| middle_of(bucket).clamp(self.least, self.most);
        let buckets = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        buckets.map(move |(bucket, count)| (middle(bucket), *count))
    }

    fn reach(&mut self, length: usize) {
        if self.buckets.len() < length {
            self.buckets.resize(length, 0);
        }
    }
}

/// Ends of rows between 1 and 10, in hundredths, finer ones first.
const STEPS: [&[u64]; 4] =
    [&[100, 125, 160, 200, 250, 320, 400, 500, 640, 800], &[100, 160, 250, 400, 640], &[100, 200, 500], &[100]];

/// From the first that is not below the shortest to the first that is not below the longest.
fn ends<'a>(steps: &'a [u64], latencies: RangeInclusive<u64>) -> impl Iterator<Item = u64> + 'a {
    let (shortest, longest) = latencies.into_inner();
    let decades = (0..=14).map(|power| 10_u64.pow(power));
    let ends = decades.flat_map(|decade| steps.iter().map(move |step| decade * step / 100));
    let mut reached = false;
    ends.skip_while(move |end| *end < shortest).take_while(move |end| {
        let goes_on = !reached;
        reached = *end >= longest;
        goes_on
    })
}

fn bucket_of(nanoseconds: u64) -> usize {
    // By how many bits it is longer than what has a bucket of its own.
    let shift = (u64::BITS - nanoseconds.leading_zeros()).saturating_sub(PART_BITS + 1);
    let part = nanoseconds >> shift;
    (u64::from(shift) * PARTS + part) as usize
}

fn middle_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket / PARTS).saturating_sub(1);
    let part = bucket - shift * PARTS;
    (part << shift) + ((1_u64 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: f64 = 1.0 / 256.0;

    fn of(nanoseconds: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        nanoseconds.into_iter().for_each(|one| histogram.record(Duration::from_nanos(one)));
        histogram
    }

    /// Latencies from nanoseconds to hours, each doubling as likely as the others.
    fn spread(count: usize) -> Vec<u64> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        (0..count).map(|_| next() >> (20 + next() % 43)).collect()
    }

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        for bucket in 0..7424 {
            assert_eq!(bucket_of(middle_of(bucket)), bucket);
        }
        assert_eq!(bucket_of(u64::MAX), 7423);
        let mut around: Vec<_> = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]).collect();
        around.sort_unstable();
        assert!(around.is_sorted_by_key(|latency| bucket_of(*latency)));
    }

    #[test]
    fn what_is_told_of_a_latency_is_off_by_no_more_than_said() {
        for latency in spread(100_000).into_iter().chain((0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1, u64::MAX])) {
            let told = middle_of(bucket_of(latency));
            assert!(told.abs_diff(latency) as f64 <= latency as f64 * BOUND, "{latency}: {told}");
        }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_list() {
        for count in [1, 2, 3, 10, 99, 100, 101, 1000, 50_000] {
            let mut latencies = spread(count);
            let histogram = of(latencies.iter().copied());
            latencies.sort_unstable();
            for share in [0, 1, 1000, 50_000, 90_000, 99_000, 99_900, 99_999, 100_000] {
                let rank = (count * share as usize).div_ceil(100_000).max(1);
                let (exact, told) = (latencies[rank - 1], histogram.percentile(share).as_nanos() as f64);
                assert!((told - exact as f64).abs() <= exact as f64 * BOUND, "{share} of {count}: {exact}, {told}");
            }
            assert_eq!(histogram.min().as_nanos(), u128::from(latencies[0]));
            assert_eq!(histogram.max().as_nanos(), u128::from(latencies[count - 1]));
            let sum: u128 = latencies.iter().map(|latency| u128::from(*latency)).sum();
            assert_eq!(histogram.mean().as_nanos(), sum / count as u128);
        }
    }

    #[test]
    fn merged_they_are_as_one() {
        let latencies = spread(10_000);
        let (left, right) = latencies.split_at(3_000);
        for (one, other) in [(left, right), (right, left), (&latencies, &[]), (&[], &latencies)] {
            let mut merged = of(one.iter().copied());
            merged.merge(&of(other.iter().copied()));
            assert_eq!(merged, of(latencies.iter().copied()));
        }
    }

    #[test]
    fn rows_are_few_and_hold_everything() {
        for latencies in
            [spread(5_000), vec![7], vec![100_000; 9], vec![0, LONGEST], vec![LONGEST], (150_000..180_000).collect()]
        {
            let histogram = of(latencies.iter().copied());
            let rows = histogram.rows(16);
            assert!((1..=16).contains(&rows.len()), "{rows:?}");
            assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), histogram.count());
            assert!(rows.is_sorted_by(|one, next| one.up_to < next.up_to), "{rows:?}");
            assert!(rows[0].count > 0 && rows[rows.len() - 1].count > 0, "{rows:?}");
            for (row, below) in rows.iter().skip(1).zip(&rows) {
                let (from, to) = (below.up_to.as_nanos() as f64, row.up_to.as_nanos() as f64);
                let inside = latencies.iter().filter(|&&latency| latency as f64 > from && latency as f64 <= to).count();
                let near = |end: f64| latencies.iter().filter(|&&one| (one as f64 - end).abs() <= end * BOUND).count();
                let (told, off) = (row.count as usize, near(from) + near(to));
                assert!(told.abs_diff(inside) <= off, "{row:?}: {inside}, {off}");
            }
        }
        let endless = of([u64::MAX]);
        assert_eq!((endless.max(), endless.rows(16).len()), (Duration::from_nanos(LONGEST), 1));
        let rows = of([150_000, 310_000, 320_000, 9_000_000]).rows(16);
        let shown: Vec<_> = rows.iter().map(|row| (row.up_to.as_micros(), row.count)).filter(|row| row.1 > 0).collect();
        assert_eq!(shown, [(160, 1), (400, 2), (10_000, 1)]);
    }

    #[test]
    fn of_nothing_all_is_zero() {
        let nothing = Histogram::default();
        let told = [nothing.min(), nothing.mean(), nothing.percentile(50_000), nothing.max()];
        assert_eq!((told, nothing.rows(16)), ([Duration::ZERO; 4], Vec::new()));
    }
}
