//! Running many schedules, each from its own seed, and telling what happened when one fails.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

/// How many of the latest events are shown; all of them when the seed was asked for.
const SHOWN: usize = 80;

/// The latest events, if anybody wants to know.
#[derive(Clone, Default)]
pub(crate) struct Trace {
    lines: Option<Rc<RefCell<VecDeque<String>>>>,
    shown: usize,
}

impl Trace {
    pub(crate) fn on(shown: usize) -> Trace {
        Trace { lines: Some(Rc::default()), shown }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.lines.is_some()
    }

    pub(crate) fn add(&self, line: String) {
        if let Some(lines) = &self.lines {
            let mut lines = lines.borrow_mut();
            if lines.len() == self.shown {
                lines.pop_front();
            }
            lines.push_back(line);
        }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.iter().flat_map(|lines| lines.borrow().clone()).collect()
    }

    fn print(&self) {
        for line in self.lines() {
            eprintln!("{line}");
        }
    }
}

/// Runs the schedule for every seed, or for the one that `CAROM_SEED` names. `CAROM_SCHEDULES` says how many.
///
/// A schedule that fails is run again with its events recorded, which costs nothing as long as none fails.
pub(crate) fn for_each_schedule(usual: u64, schedule: impl Fn(u64, &Trace)) {
    let seeds = match (number("CAROM_SEED"), number("CAROM_SCHEDULES")) {
        (Some(seed), _) => seed..=seed,
        (None, many) => 1..=many.unwrap_or(usual),
    };
    for seed in seeds {
        let run = |trace: &Trace| catch_unwind(AssertUnwindSafe(|| schedule(seed, trace)));
        let Err(first) = run(&Trace::default()) else { continue };
        let trace = Trace::on(if number("CAROM_SEED").is_some() { usize::MAX } else { SHOWN });
        let again = run(&trace);
        eprintln!("what happened lately:");
        trace.print();
        eprintln!("rerun with CAROM_SEED={seed}");
        assert!(again.is_err(), "the same seed went well the second time: the simulation depends on something else");
        resume_unwind(first);
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}
