//! Many callers take turns on few connections: are they served in the order in which they came?

use super::{Cell, Hazard, observe};
use crate::measure::{Subject, open_warm};
use crate::peers;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::{JoinSet, yield_now};
use tokio::time::sleep;

pub const HAZARD: Hazard = Hazard {
    when: "64 callers take turns on 8 connections, on one thread",
    carom: || observe(take_turns::<peers::carom::Carom>),
    bb8: || observe(take_turns::<peers::bb8::Bb8>),
    deadpool: || observe(take_turns::<peers::deadpool::Deadpool>),
    qorb: || observe(take_turns::<peers::qorb::Qorb>),
    mobc: || observe(take_turns::<peers::mobc::Mobc>),
};

const CALLERS: usize = 64;
const CONNECTIONS: usize = 8;
const PERIOD: Duration = Duration::from_millis(500);

/// Who waits. All callers share one thread, so a number taken right before a claim is its place in line.
#[derive(Default)]
struct Line {
    came: u64,
    served: u64,
    waiting: BTreeSet<u64>,
    /// Served although somebody had waited for longer.
    overtaking: u64,
    /// The most that were served before somebody they came after.
    longest_overtaken: u64,
}

impl Line {
    fn come(&mut self) -> u64 {
        let number = self.came;
        self.came += 1;
        self.waiting.insert(number);
        number
    }

    fn serve(&mut self, number: u64) {
        let overtakes = self.waiting.first().is_some_and(|first| *first < number);
        self.overtaking += u64::from(overtakes);
        self.longest_overtaken = self.longest_overtaken.max(self.overtook(number));
        self.waiting.remove(&number);
        self.served += 1;
    }

    /// How many that came after `number` have been served already.
    fn overtook(&self, number: u64) -> u64 {
        let earlier_served = number - self.waiting.range(..number).count() as u64;
        self.served - earlier_served
    }
}

async fn take_turns<S: Subject>() -> Cell {
    let pool = open_warm::<S>(CONNECTIONS).await;
    let line = Arc::new(Mutex::new(Line::default()));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (pool, line) = (pool.clone(), Arc::clone(&line));
        callers.spawn(async move {
            loop {
                let number = lock(&line).come();
                let guard = pool.claim().await;
                lock(&line).serve(number);
                yield_now().await;
                drop(guard);
            }
        });
    }
    sleep(PERIOD).await;
    callers.abort_all();
    judge(&lock(&line))
}

fn judge(line: &Line) -> Cell {
    let still_waiting = line.waiting.iter().map(|number| line.overtook(*number));
    let longest = still_waiting.fold(line.longest_overtaken, u64::max);
    if line.overtaking == 0 {
        return Cell::right("served in order");
    }
    let share = line.overtaking as f64 / line.served as f64 * 100.0;
    Cell::wrong(format!("{share:.0} % of claims overtake; one was overtaken {longest} times"))
}

fn lock(line: &Mutex<Line>) -> MutexGuard<'_, Line> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carom_serves_in_order() {
        HAZARD.holds(&["bb8"]);
    }

    #[test]
    fn who_overtakes_whom_is_counted() {
        let mut line = Line::default();
        let [first, second, third] = [line.come(), line.come(), line.come()];
        line.serve(third);
        line.serve(second);
        assert_eq!((line.overtaking, line.longest_overtaken, line.overtook(first)), (2, 1, 2));
        line.serve(first);
        assert_eq!((line.overtaking, line.longest_overtaken), (2, 2));
    }
}
