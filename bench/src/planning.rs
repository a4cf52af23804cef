//! How long it takes to plan for 10,000 backends, to read from the plan what has to change, and to see that a set of them
//! that the resolver publishes again has no news.

use crate::bars::{Bar, Limit};
use crate::measure::median;
use crate::report;
use carom_core::backend::Backend;
use carom_core::plan::{Have, Spread, plan};
use carom_core::pool::{Machine, Options};
use carom_core::random::Random;
use serde_json::json;
use std::hint::black_box;
use std::io;
use std::time::Instant;

const BACKENDS: usize = 10_000;
const SLOTS_EACH: usize = 2;
const REPETITIONS: usize = 31;

/// Prints and keeps the time of each case.
pub fn report() -> io::Result<()> {
    println!();
    let mut rows = Vec::new();
    for (case, backends) in cases() {
        let plan_ms = plan_ms(&backends);
        let bar = Bar {
            what: format!("planning {BACKENDS} backends, {case}: ms"),
            figure: Some(plan_ms),
            limit: Limit::AtMost(10.0),
        };
        println!("{bar}");
        rows.push(json!({ "case": case, "backends": BACKENDS, "plan_ms": plan_ms }));
    }
    let again_ms = again_ms();
    let bar = Bar {
        what: format!("{BACKENDS} backends published again, no news: ms"),
        figure: Some(again_ms),
        limit: Limit::AtMost(5.0),
    };
    println!("{bar}");
    rows.push(json!({ "case": "published again", "backends": BACKENDS, "again_ms": again_ms }));
    report::write("planning.json", rows)
}

fn cases() -> [(&'static str, Vec<Have>); 4] {
    let backends = |have: fn(usize) -> Have| (0..BACKENDS).map(have).collect();
    [
        ("none connected", backends(|_| Have::default())),
        ("as planned", backends(|_| Have { slots: SLOTS_EACH, ..Have::default() })),
        ("with weights", backends(|at| Have { weight: (at * 7_919 % 65_536) as u16, ..Have::default() })),
        (
            "with weights, as many as planned on average",
            backends(|at| Have { slots: SLOTS_EACH, weight: (at * 7_919 % 65_536) as u16 }),
        ),
    ]
}

fn plan_ms(backends: &[Have]) -> f64 {
    let target = BACKENDS * SLOTS_EACH;
    let times = (0..REPETITIONS).map(|_| {
        let start = Instant::now();
        let plan = plan(black_box(backends), target, 2 * target, Spread::Even);
        black_box(plan.additions(backends).count() + plan.removals(backends).count());
        start.elapsed().as_secs_f64() * 1000.0
    });
    median(times.collect())
}

/// In another order each time, as DNS servers like to do.
fn again_ms() -> f64 {
    let name = |at: usize| format!("node-{at}.example.com");
    let address = |at: usize| ([10, 0, (at / 250) as u8, (at % 250) as u8], 80).into();
    let mut backends: Vec<Backend> = (0..BACKENDS).map(|at| Backend::new(name(at), address(at))).collect();
    let now = Instant::now();
    let mut machine = Machine::new(Options::default(), 1, now).expect("the defaults make sense");
    machine.handle_backends(now, &backends);
    machine.handle_timeout(now);
    let times = (0..REPETITIONS).map(|turn| {
        let mut random = Random::new(turn as u64);
        backends.sort_by_cached_key(|_| random.bits());
        let start = Instant::now();
        machine.handle_backends(now, black_box(&backends));
        start.elapsed().as_secs_f64() * 1000.0
    });
    median(times.collect())
}
