//! A claim ends on a thread without a runtime: does dropping it panic, and is its place in the pool lost?

use super::pools::{self, When};
use super::service::{Service, Wire};
use super::{Cell, Hazard, Verdict, observe};
use std::ops::DerefMut;
use std::panic;
use std::thread;
use std::time::Duration;

pub const HAZARD: Hazard = Hazard {
    when: "a claim is dropped outside the runtime",
    carom: || both(observe(|| carom(false)), observe(|| carom(true))),
    bb8: || with_min_idle(both(observe(|| bb8(false)), observe(|| bb8(true)))),
    deadpool: || both(observe(|| deadpool(false)), observe(|| deadpool(true))),
    qorb: || both(observe(|| qorb(false)), observe(|| qorb(true))),
    mobc: || both(observe(|| mobc(false)), observe(|| mobc(true))),
};

/// The thread's name.
const OUTSIDE: &str = "outside the runtime";
const TIMEOUT: Duration = Duration::from_millis(500);

async fn carom(broken: bool) -> Cell {
    let pool = pools::carom(&Service::new(), 1, TIMEOUT).build().expect("the options are valid");
    let panicked = end_outside(pool.claim().await.expect("the service answers"), broken);
    judge(panicked, pool.claim().await.is_ok())
}

async fn bb8(broken: bool) -> Cell {
    let pool = pools::bb8(&Service::new(), 1, TIMEOUT);
    let panicked = end_outside(pool.get_owned().await.expect("the service answers"), broken);
    judge(panicked, pool.get().await.is_ok())
}

async fn deadpool(broken: bool) -> Cell {
    let pool = pools::deadpool(&Service::new(), 1, TIMEOUT);
    let panicked = end_outside(pool.get().await.expect("the service answers"), broken);
    judge(panicked, pool.get().await.is_ok())
}

async fn qorb(broken: bool) -> Cell {
    let pool = pools::qorb(&Service::new(), When::AfterUse, 1, TIMEOUT);
    let panicked = end_outside(pool.claim().await.expect("the service answers"), broken);
    judge(panicked, pool.claim().await.is_ok())
}

async fn mobc(broken: bool) -> Cell {
    let pool = pools::mobc(&Service::new(), 1, TIMEOUT);
    let panicked = end_outside(pool.get().await.expect("the service answers"), broken);
    judge(panicked, pool.get().await.is_ok())
}

/// Whether the drop panicked.
fn end_outside<G: DerefMut<Target = Wire> + Send + 'static>(mut guard: G, broken: bool) -> bool {
    guard.broken = broken;
    let outside = thread::Builder::new().name(OUTSIDE.to_string());
    outside.spawn(move || drop(guard)).expect("the thread starts").join().is_err()
}

fn judge(panicked: bool, served_again: bool) -> Cell {
    match (panicked, served_again) {
        (false, true) => Cell::right("comes back"),
        (true, true) => Cell::wrong("panics"),
        (true, false) => Cell::wrong("panics, and its place is lost"),
        (false, false) => Cell::wrong("its place is lost"),
    }
}

fn both(sound: Cell, broken: Cell) -> Cell {
    match (sound.verdict, broken.verdict) {
        (Verdict::Right, Verdict::Right) => sound,
        (Verdict::Right, _) => Cell::wrong(format!("a broken one {}", broken.text)),
        _ => sound,
    }
}

/// What makes bb8 replace a broken connection when it comes back, and not at the next claim.
fn with_min_idle(mut cell: Cell) -> Cell {
    if cell.verdict == Verdict::Wrong {
        cell.text.push_str(" (with `min_idle`)");
    }
    cell
}

/// A panic of a drop is in the table; its backtrace need not be in the way.
pub fn silence_panics() {
    let others = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        if thread::current().name() != Some(OUTSIDE) {
            others(panicked);
        }
    }));
}

#[cfg(test)]
mod tests {
    #[test]
    fn carom_takes_back_what_ends_outside_a_runtime() {
        super::HAZARD.holds(&["bb8", "mobc"]);
    }
}
