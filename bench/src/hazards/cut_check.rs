//! A check hangs and is cut by its timeout, its answer still to come: is the connection lent again?

use super::pools::{self, When};
use super::service::{Answer, Service, Wire};
use super::{Cell, Hazard, Verdict, observe};
use std::time::Duration;

pub const HAZARD: Hazard = Hazard {
    when: "a check hangs and is cut by a timeout",
    carom: || observe(carom),
    bb8: || observe(bb8),
    deadpool: || observe(deadpool),
    qorb: || both(observe(qorb_at_claim), observe(qorb_from_time_to_time)),
    mobc: || observe(mobc),
};

const TIMEOUT: Duration = Duration::from_millis(100);

/// The check is in the background here: the first claim comes while it hangs.
async fn carom() -> Cell {
    let service = Service::new();
    let pool = pools::carom(&service, 1, TIMEOUT * 10)
        .check_after(Duration::from_millis(20))
        .check_timeout(TIMEOUT)
        .build()
        .expect("the options are valid");
    drop(pool.claim().await);
    service.on_next_check(Answer::Never);
    service.until_checks(service.checks() + 1).await;
    match pool.claim_within(TIMEOUT / 4).await {
        Ok(wire) => judge(&wire),
        Err(_) => judge(&pool.claim().await.expect("the service answers again")),
    }
}

async fn bb8() -> Cell {
    let service = Service::new();
    let pool = pools::bb8(&service, 1, TIMEOUT);
    drop(pool.get().await);
    service.on_next_check(Answer::Never);
    match pool.get().await {
        Ok(wire) => judge(&wire),
        Err(_) => judge(&pool.get().await.expect("the service answers again")),
    }
}

async fn deadpool() -> Cell {
    let service = Service::new();
    let pool = pools::deadpool(&service, 1, TIMEOUT);
    drop(pool.get().await);
    service.on_next_check(Answer::Never);
    match pool.get().await {
        Ok(wire) => judge(&wire),
        Err(_) => judge(&pool.get().await.expect("the service answers again")),
    }
}

async fn qorb_at_claim() -> Cell {
    let service = Service::new();
    let pool = pools::qorb(&service, When::AtClaim, 1, TIMEOUT);
    drop(pool.claim().await);
    service.on_next_check(Answer::Never);
    match pool.claim().await {
        Ok(wire) => judge(&wire),
        Err(_) => judge(&pool.claim().await.expect("the service answers again")),
    }
}

async fn qorb_from_time_to_time() -> Cell {
    let service = Service::new();
    let pool = pools::qorb(&service, When::FromTimeToTime, 1, TIMEOUT);
    drop(pool.claim().await);
    service.on_next_check(Answer::Never);
    service.until_checks(service.checks() + 1).await;
    match pool.claim().await {
        Ok(wire) => judge(&wire),
        Err(_) => judge(&pool.claim().await.expect("the service answers again")),
    }
}

async fn mobc() -> Cell {
    let service = Service::new();
    let pool = pools::mobc(&service, 1, TIMEOUT);
    drop(pool.get().await);
    service.on_next_check(Answer::Never);
    match pool.get().await {
        Ok(wire) => judge(&wire),
        Err(_) => judge(&pool.get().await.expect("the service answers again")),
    }
}

fn judge(wire: &Wire) -> Cell {
    Cell::judged(wire.in_order(), if wire.in_order() { "closed" } else { "lent, with the answer still to come" })
}

fn both(at_claim: Cell, from_time_to_time: Cell) -> Cell {
    let right = [&at_claim, &from_time_to_time].iter().all(|cell| cell.verdict == Verdict::Right);
    Cell::judged(right, format!("`on_acquire`: {}; `is_valid`: {}", at_claim.text, from_time_to_time.text))
}

#[cfg(test)]
mod tests {
    #[test]
    fn carom_never_lends_what_is_in_an_unknown_state() {
        super::HAZARD.holds(&["bb8", "qorb"]);
    }
}
