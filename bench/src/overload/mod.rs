//! Twice the load that a pool can carry: how much of it is still served in time.

mod contenders;

use crate::measure::{Cut, on_own_runtime};
use crate::report::{self, cell};
use crate::waits::Waits;
use contenders::{Bb8, Carom, Contender, Deadpool, Mobc, Qorb};
use serde_json::{Value, json};
use std::io;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

const CONNECTIONS: usize = 8;
/// How long each use takes: 800 uses a second at most, a few less as the timer counts in whole ms.
const USE: Duration = Duration::from_millis(10);
/// 1600 arrivals a second.
const BETWEEN: Duration = Duration::from_micros(625);
/// How long a claim may wait.
const PATIENCE: Duration = Duration::from_secs(1);
/// A use that ends later than this after its arrival was for nothing.
const IN_TIME: Duration = Duration::from_millis(250);
/// What a run may take beyond the time of its arrivals.
const GRACE: Duration = Duration::from_secs(8);

/// For how long the load arrives. What comes in the lead, until the line is as long as it gets, is not counted, nor is what
/// comes in the last `PATIENCE`, which has the pool to itself.
pub struct Load {
    lead: Duration,
    counted: Duration,
}

impl Load {
    pub const FULL: Self = Self { lead: Duration::from_secs(2), counted: Duration::from_secs(5) };
    pub const QUICK: Self = Self { lead: Duration::from_secs(1), counted: Duration::from_millis(500) };
}

/// What became of one arrival.
struct Ended {
    arrived: Duration,
    /// From the arrival until the claim was served or refused.
    waited: Duration,
    /// From the arrival until the end of the use, if it was served.
    done: Option<Duration>,
}

/// What became of all that were counted, per second of their arrivals.
struct Figures {
    in_time_s: f64,
    served_s: f64,
    refused_s: f64,
    served_p50_ms: f64,
    served_p99_ms: f64,
    refused_p50_ms: f64,
}

/// Prints and keeps what each pool makes of the load.
pub fn report(load: &Load) -> io::Result<()> {
    let runs = [
        (Carom::<100>::NAME, run::<Carom<100>> as fn(&Load) -> Result<Figures, Cut>),
        (Carom::<0>::NAME, run::<Carom<0>>),
        (Bb8::NAME, run::<Bb8>),
        (Deadpool::NAME, run::<Deadpool>),
        (Qorb::NAME, run::<Qorb>),
        (Mobc::NAME, run::<Mobc>),
    ];
    println!(
        "\n{:<26} {:>10} {:>9} {:>10} {:>12} {:>12} {:>14}",
        "twice the load", "in time/s", "served/s", "refused/s", "wait p50 ms", "wait p99 ms", "refused p50 ms",
    );
    let mut rows = Vec::new();
    for (pool, run) in runs {
        let outcome = run(load);
        let figure = |figure: fn(&Figures) -> f64| outcome.as_ref().map(figure).map_err(|cut| *cut);
        println!(
            "{pool:<26} {:>10} {:>9} {:>10} {:>12} {:>12} {:>14}",
            cell(figure(|figures| figures.in_time_s), 0),
            cell(figure(|figures| figures.served_s), 0),
            cell(figure(|figures| figures.refused_s), 0),
            cell(figure(|figures| figures.served_p50_ms), 0),
            cell(figure(|figures| figures.served_p99_ms), 0),
            cell(figure(|figures| figures.refused_p50_ms), 0),
        );
        rows.push(to_json(pool, outcome.as_ref().ok()));
    }
    report::write("overload.json", rows)
}

fn to_json(pool: &str, figures: Option<&Figures>) -> Value {
    let mut row = json!({ "pool": pool });
    if let Some(figures) = figures {
        row["in_time_s"] = json!(figures.in_time_s);
        row["served_s"] = json!(figures.served_s);
        row["refused_s"] = json!(figures.refused_s);
        row["served_p50_ms"] = json!(figures.served_p50_ms);
        row["served_p99_ms"] = json!(figures.served_p99_ms);
        row["refused_p50_ms"] = json!(figures.refused_p50_ms);
    }
    row
}

fn run<C: Contender>(load: &Load) -> Result<Figures, Cut> {
    let Load { lead, counted } = *load;
    let period = lead + counted + PATIENCE;
    let ended = on_own_runtime(period + GRACE, arrive::<C>(period))?;
    let within = lead..lead + counted;
    Ok(Figures::of(ended.into_iter().filter(|ended| within.contains(&ended.arrived)), counted))
}

/// Arrivals do not wait for each other, so that a slow pool cannot thin them out; there are never more of them than fit
/// into `period`.
async fn arrive<C: Contender>(period: Duration) -> Vec<Ended> {
    let pool = C::open().await;
    let mut guards = Vec::new();
    for _ in 0..CONNECTIONS {
        guards.push(pool.claim().await.expect("nobody else claims"));
    }
    drop(guards);
    let (start, mut arrivals) = (Instant::now(), JoinSet::new());
    for number in 0.. {
        let arrived = BETWEEN * number;
        if arrived >= period {
            break;
        }
        sleep_until(start + arrived).await;
        let pool = pool.clone();
        arrivals.spawn(async move {
            let claim = pool.claim().await;
            let waited = (start + arrived).elapsed();
            let mut done = None;
            if let Some(_guard) = claim {
                sleep(USE).await;
                done = Some((start + arrived).elapsed());
            }
            Ended { arrived, waited, done }
        });
    }
    arrivals.join_all().await
}

impl Figures {
    fn of(all: impl Iterator<Item = Ended>, counted: Duration) -> Self {
        let (mut in_time, mut served, mut refused) = (0_u32, Waits::new(), Waits::new());
        for ended in all {
            match ended.done {
                Some(done) => {
                    served.record(ended.waited);
                    in_time += u32::from(done <= IN_TIME);
                }
                None => refused.record(ended.waited),
            }
        }
        let per_second = |count: f64| count / counted.as_secs_f64();
        Self {
            in_time_s: per_second(f64::from(in_time)),
            served_s: per_second(served.count() as f64),
            refused_s: per_second(refused.count() as f64),
            served_p50_ms: served.quantile_us(0.50) / 1000.0,
            served_p99_ms: served.quantile_us(0.99) / 1000.0,
            refused_p50_ms: refused.quantile_us(0.50) / 1000.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arrival_is_served_or_refused() {
        let period = Duration::from_millis(300);
        let ended = on_own_runtime(GRACE, arrive::<Carom<0>>(period)).unwrap();
        assert_eq!(ended.len() as u32, period.as_micros().div_ceil(BETWEEN.as_micros()) as u32);
        let figures = Figures::of(ended.into_iter(), period);
        assert!((figures.served_s + figures.refused_s - 1600.0).abs() < 1.0);
        assert!(figures.in_time_s > 0.0, "while the line is short, all are in time");
    }

    #[test]
    fn what_ends_late_is_not_in_time() {
        let ended = |done| Ended { arrived: Duration::ZERO, waited: Duration::from_millis(100), done };
        let all = [ended(Some(IN_TIME)), ended(Some(IN_TIME + Duration::from_millis(1))), ended(None)];
        let figures = Figures::of(all.into_iter(), Duration::from_secs(1));
        assert_eq!((figures.in_time_s, figures.served_s, figures.refused_s), (1.0, 2.0, 1.0));
    }
}
