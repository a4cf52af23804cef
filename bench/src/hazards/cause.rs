//! Connecting fails for a reason: does the claim's error tell it?

use super::pools::{self, When};
use super::service::{Answer, REFUSAL, Service};
use super::{Cell, Hazard, after, observe};
use std::error::Error;
use std::time::{Duration, Instant};

pub const HAZARD: Hazard = Hazard {
    when: "every connect fails: \"password rejected\"",
    carom: || observe(carom),
    bb8: || observe(bb8),
    deadpool: || observe(deadpool),
    qorb: || observe(qorb),
    mobc: || observe(mobc),
};

const TIMEOUT: Duration = Duration::from_millis(500);

async fn carom() -> Cell {
    let pool = pools::carom(&refusing(), 1, TIMEOUT).build().expect("the options are valid");
    told(pool.claim()).await
}

async fn bb8() -> Cell {
    let pool = pools::bb8(&refusing(), 1, TIMEOUT);
    told(pool.get()).await
}

async fn deadpool() -> Cell {
    let pool = pools::deadpool(&refusing(), 1, TIMEOUT);
    told(pool.get()).await
}

async fn qorb() -> Cell {
    let pool = pools::qorb(&refusing(), When::AfterUse, 1, TIMEOUT);
    told(pool.claim()).await
}

async fn mobc() -> Cell {
    let pool = pools::mobc(&refusing(), 1, TIMEOUT);
    told(pool.get()).await
}

fn refusing() -> Service {
    let service = Service::new();
    service.on_connect(Answer::Refusal);
    service
}

async fn told<T, E: Error + 'static>(claim: impl Future<Output = Result<T, E>>) -> Cell {
    let start = Instant::now();
    let Err(error) = claim.await else {
        return Cell::wrong("claimed nonetheless");
    };
    let after = after(start.elapsed());
    if tells(&error, REFUSAL) {
        Cell::right(format!("the error says so, {after}"))
    } else {
        Cell::wrong(format!("says \"{error}\", {after}"))
    }
}

/// The text of the error or of anything behind it.
fn tells(mut error: &(dyn Error + 'static), what: &str) -> bool {
    loop {
        if error.to_string().contains(what) {
            return true;
        }
        match error.source() {
            Some(source) => error = source,
            None => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn carom_says_why() {
        super::HAZARD.holds(&["bb8", "qorb"]);
    }
}
