//! The figures of a run, their medians, and where carom is worse than a peer.

use super::load::Record;
use crate::measure::median;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A response after longer than this is late.
const LATE: Duration = Duration::from_secs(1);
/// A response after longer than this is slow: five times the usual.
const SLOW: Duration = Duration::from_millis(100);
/// Nine tenths of the fair share, over a window of this many seconds.
const WINDOW: f64 = 1.0;
const STEP: f64 = 0.05;
const ENOUGH: f64 = 0.9;
/// What counts as equal: within this many requests, this many seconds, or this factor.
const REQUESTS: f64 = 2.0;
const SECONDS: f64 = 0.5;
const FACTOR: f64 = 1.1;
/// With less than this multiple of its fair share before the fault, the node has too few of a peer's requests for a comparison.
const EXPOSED: f64 = 0.8;

/// One run.
#[derive(Clone, Debug)]
pub struct Figures {
    pub requests: usize,
    pub failed: usize,
    pub late: usize,
    /// Late ones included.
    pub slow: usize,
    /// Seconds from the repair until the node had its share again, if it had.
    pub back: Option<f64>,
    /// The share of the node before the fault, as a multiple of the fair share.
    pub share_before: f64,
    /// The most frequent reason of failures.
    pub reason: Option<String>,
}

/// When things happened in a run.
pub struct Course {
    pub warm: Instant,
    pub failed: Instant,
    pub repaired: Instant,
    pub ended: Instant,
    pub nodes: usize,
    /// The node that failed.
    pub port: u16,
}

impl Figures {
    /// Requests that ended after the beginning of the fault, each counted once.
    pub fn new(records: &[Record], course: &Course) -> Figures {
        let measured: Vec<&Record> = records.iter().filter(|record| record.ended >= course.failed).collect();
        let mut reasons = BTreeMap::<&str, usize>::new();
        for record in &measured {
            if let Err(reason) = &record.outcome {
                *reasons.entry(reason).or_default() += 1;
            }
        }
        let longer_than = |time| {
            let longer = |record: &&&Record| record.outcome.is_ok() && record.ended - record.started > time;
            measured.iter().filter(longer).count()
        };
        let before = |record: &&Record| record.started >= course.warm && record.ended < course.failed;
        let responses = records.iter().filter(before).filter(|record| record.outcome.is_ok()).count();
        let own = records.iter().filter(before).filter(|record| record.outcome == Ok(course.port)).count();
        Figures {
            requests: measured.len(),
            failed: reasons.values().sum(),
            late: longer_than(LATE),
            slow: longer_than(SLOW),
            back: back_after(records, course),
            share_before: own as f64 * course.nodes as f64 / responses.max(1) as f64,
            reason: reasons.into_iter().max_by_key(|(_, count)| *count).map(|(reason, _)| reason.to_owned()),
        }
    }
}

impl Figures {
    /// Whether the node had its share of requests before the fault.
    pub fn is_exposed(&self) -> bool {
        self.share_before >= EXPOSED
    }
}

/// Seconds from the repair until the beginning of the first window in which the node has its share.
pub fn back_after(records: &[Record], course: &Course) -> Option<f64> {
    let since = |at: Instant| at.saturating_duration_since(course.repaired).as_secs_f64();
    let after = |at: &Instant| *at >= course.repaired;
    let mut arrivals: Vec<f64> = records.iter().map(|record| record.started).filter(after).map(since).collect();
    let own = records.iter().filter(|record| record.outcome == Ok(course.port));
    let mut own: Vec<f64> = own.map(|record| record.ended).filter(after).map(since).collect();
    arrivals.sort_unstable_by(f64::total_cmp);
    own.sort_unstable_by(f64::total_cmp);
    first_share(&arrivals, &own, course.nodes, since(course.ended))
}

/// The times are sorted, as this runs ten times a second for each peer.
fn first_share(arrivals: &[f64], own: &[f64], nodes: usize, until: f64) -> Option<f64> {
    let before = |times: &[f64], end: f64| times.partition_point(|at| *at < end);
    let within = |times: &[f64], begin: f64| before(times, begin + WINDOW) - before(times, begin);
    let windows = ((until - WINDOW) / STEP).floor();
    if windows < 0.0 {
        return None;
    }
    (0..=windows as u32).map(|step| f64::from(step) * STEP).find(|&begin| {
        let arrived = within(arrivals, begin);
        arrived > 0 && within(own, begin) as f64 >= ENOUGH * arrived as f64 / nodes as f64
    })
}

/// The medians of some runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Medians {
    pub failed: f64,
    pub late: f64,
    pub slow: f64,
    /// Infinite if the node had no share in most runs.
    pub back: f64,
}

impl Medians {
    pub fn new(runs: &[Figures]) -> Medians {
        let of = |figure: fn(&Figures) -> f64| median(runs.iter().map(figure).collect());
        Medians {
            failed: of(|run| run.failed as f64),
            late: of(|run| run.late as f64),
            slow: of(|run| run.slow as f64),
            back: of(|run| run.back.unwrap_or(f64::INFINITY)),
        }
    }

    /// The medians of the runs in which the node had its share of requests before the fault; `None` if there was none.
    pub fn of_exposed(runs: &[Figures]) -> Option<Medians> {
        let exposed: Vec<Figures> = runs.iter().filter(|run| run.is_exposed()).cloned().collect();
        (!exposed.is_empty()).then(|| Medians::new(&exposed))
    }

    fn failed_or_late(&self) -> f64 {
        self.failed + self.late
    }

    fn failed_or_slow(&self) -> f64 {
        self.failed + self.slow
    }

    /// In what carom is worse than the best peer. A request that fails at once is not late, so late requests are compared
    /// together with failed ones. The time until a node has its share counts only beside peers that do not pay for it: a faulty
    /// node that keeps getting requests never loses its share.
    pub fn defects(&self, peers: &[(&str, Medians)]) -> Vec<String> {
        let mut defects = Vec::new();
        let mut compare = |what: &str, figure: fn(&Medians) -> f64, tolerance: f64, peers: &[(&str, Medians)]| {
            let Some((name, best)) = peers.iter().min_by(|a, b| figure(&a.1).total_cmp(&figure(&b.1))) else { return };
            let (own, best) = (figure(self), figure(best));
            if !no_worse(own, best, tolerance) {
                defects.push(format!("{what}: {}, {name} {}", number(own), number(best)));
            }
        };
        compare("failed", |medians| medians.failed, REQUESTS, peers);
        compare("failed or late", Medians::failed_or_late, REQUESTS, peers);
        let equals = peers.iter().copied().filter(|(_, peer)| {
            no_worse(peer.failed, self.failed, REQUESTS)
                && no_worse(peer.failed_or_late(), self.failed_or_late(), REQUESTS)
                && no_worse(peer.failed_or_slow(), self.failed_or_slow(), REQUESTS)
        });
        compare("seconds until share", |medians| medians.back, SECONDS, &equals.collect::<Vec<_>>());
        defects
    }
}

fn no_worse(own: f64, best: f64, tolerance: f64) -> bool {
    own <= best + tolerance || own <= best * FACTOR
}

pub fn number(figure: f64) -> String {
    if figure.is_infinite() {
        format!("over {}", super::LIMIT.as_secs())
    } else if figure.fract() == 0.0 {
        format!("{figure:.0}")
    } else {
        format!("{figure:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn medians(failed: f64, late: f64, back: f64) -> Medians {
        Medians { failed, late, slow: late, back }
    }

    #[test]
    fn node_has_its_share_from_the_first_window_with_nine_tenths() {
        let arrivals: Vec<f64> = (0..900).map(|number| f64::from(number) / 90.0).collect();
        let own: Vec<f64> = arrivals.iter().copied().filter(|at| *at >= 3.0).step_by(3).collect();
        let begin = first_share(&arrivals, &own, 3, 10.0).unwrap();
        assert!((2.85..3.0).contains(&begin), "{begin}");
        assert_eq!(first_share(&arrivals, &own, 3, 3.5), None);
        assert_eq!(first_share(&arrivals, &own, 3, 0.5), None);
        assert_eq!(first_share(&arrivals, &arrivals, 1, 10.0), Some(0.0));
    }

    #[test]
    fn requests_count_once_as_failed_late_or_served() {
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let record = |started, ended, outcome| Record { started: at(started), ended: at(ended), outcome };
        let records = [
            record(0.0, 0.5, Ok(1)),
            record(0.5, 0.6, Ok(2)),
            record(0.9, 1.0, Err("reset".into())),
            record(1.0, 1.5, Ok(2)),
            record(1.0, 2.5, Ok(1)),
            record(1.0, 6.0, Err("no response".into())),
            record(1.1, 1.2, Err("reset".into())),
        ];
        let course = Course { warm: at(0.0), failed: at(1.0), repaired: at(2.0), ended: at(7.0), nodes: 2, port: 1 };
        let figures = Figures::new(&records, &course);
        assert_eq!((figures.requests, figures.failed, figures.late, figures.slow), (5, 3, 1, 2));
        assert_eq!(figures.share_before, 1.0);
        assert_eq!(figures.reason.as_deref(), Some("reset"));
        assert_eq!(figures.back, None);
    }

    #[test]
    fn runs_in_which_the_node_had_few_requests_are_not_compared() {
        let run = |failed, share_before| Figures {
            requests: 1000,
            failed,
            late: 0,
            slow: 0,
            back: Some(0.0),
            share_before,
            reason: None,
        };
        let runs = [run(0, 0.0), run(0, 0.5), run(6, 1.1), run(4, 0.8), run(5, 2.4)];
        assert_eq!(Medians::new(&runs).failed, 4.0);
        assert_eq!(Medians::of_exposed(&runs).map(|medians| medians.failed), Some(5.0));
        assert_eq!(Medians::of_exposed(&runs[..2]), None);
    }

    #[test]
    fn a_row_is_a_defect_beyond_ten_percent_and_two_requests() {
        let peers = [("a", medians(20.0, 0.0, 0.0)), ("b", medians(0.0, 100.0, 5.0))];
        assert!(medians(2.0, 20.0, 5.5).defects(&peers).is_empty());
        assert!(medians(0.0, 110.0, 5.5).defects(&[peers[1]]).is_empty());
        let defects = medians(5.0, 20.0, f64::INFINITY).defects(&peers);
        assert_eq!(defects, ["failed: 5, b 0", "failed or late: 25, a 20"]);
        let defects = medians(0.0, 0.0, 9.5).defects(&[("c", medians(2.0, 0.0, 1.0))]);
        assert_eq!(defects, ["seconds until share: 9.5, c 1"]);
    }
}
