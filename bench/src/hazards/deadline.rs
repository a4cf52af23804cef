//! A claim with a timeout, when checks fail or nothing answers any more: is it back in time?

use super::pools::{self, When};
use super::service::{Answer, Service};
use super::{Cell, Hazard, Verdict, after, observe};
use std::time::{Duration, Instant};
use tokio::time::timeout;

pub const CHECKS_FAIL: Hazard = Hazard {
    when: "a claim may take 200 ms and every check fails",
    carom: || observe(|| carom(checks_fail)),
    bb8: || observe(|| bb8(checks_fail)),
    deadpool: || observe(|| deadpool(checks_fail)),
    qorb: || observe(|| qorb(checks_fail)),
    mobc: || observe(|| mobc(checks_fail)),
};

pub const SERVICE_HANGS: Hazard = Hazard {
    when: "a claim may take 200 ms and the service hangs (4 idle connections)",
    carom: || observe(|| carom(service_hangs)),
    bb8: || observe(|| bb8(service_hangs)),
    deadpool: || observe(|| deadpool(service_hangs)),
    qorb: || observe(|| qorb(service_hangs)),
    mobc: || observe(|| mobc(service_hangs)),
};

const CONNECTIONS: usize = 4;
const TIMEOUT: Duration = Duration::from_millis(200);
/// Later than this is too late, even on a busy machine.
const TOLERABLE: Duration = Duration::from_millis(600);
const GIVEN_UP: Duration = Duration::from_secs(2);

fn checks_fail(service: &Service) {
    service.on_check(Answer::Refusal);
}

fn service_hangs(service: &Service) {
    service.on_check(Answer::Never);
    service.on_connect(Answer::Never);
}

/// Claims once every connection is under its check: at any other time one would be lent at once.
async fn carom(trouble: fn(&Service)) -> Cell {
    let service = Service::new();
    let pool = pools::carom(&service, CONNECTIONS, TIMEOUT)
        .check_after(Duration::from_millis(20))
        .build()
        .expect("the options are valid");
    use_all(|| pool.claim()).await;
    trouble(&service);
    service.until_checks(service.checks() + CONNECTIONS).await;
    judge(pool.claim()).await
}

async fn bb8(trouble: fn(&Service)) -> Cell {
    let service = Service::new();
    let pool = pools::bb8(&service, CONNECTIONS as u32, TIMEOUT);
    use_all(|| pool.get()).await;
    trouble(&service);
    judge(pool.get()).await
}

async fn deadpool(trouble: fn(&Service)) -> Cell {
    let service = Service::new();
    let pool = pools::deadpool(&service, CONNECTIONS, TIMEOUT);
    use_all(|| pool.get()).await;
    trouble(&service);
    let mut cell = judge(pool.get()).await;
    if cell.verdict == Verdict::Wrong {
        cell.text.push_str("; its timeouts are for each phase");
    }
    cell
}

async fn qorb(trouble: fn(&Service)) -> Cell {
    let service = Service::new();
    let pool = pools::qorb(&service, When::AtClaim, CONNECTIONS, TIMEOUT);
    use_all(|| pool.claim()).await;
    trouble(&service);
    judge(pool.claim()).await
}

async fn mobc(trouble: fn(&Service)) -> Cell {
    let service = Service::new();
    let pool = pools::mobc(&service, CONNECTIONS as u64, TIMEOUT);
    use_all(|| pool.get()).await;
    // They go back in tasks of their own.
    tokio::task::yield_now().await;
    trouble(&service);
    judge(pool.get()).await
}

async fn use_all<T, E, F: Future<Output = Result<T, E>>>(claim: impl Fn() -> F) {
    let mut guards = Vec::new();
    for _ in 0..CONNECTIONS {
        guards.push(claim().await.ok().expect("the service answers"));
    }
}

async fn judge<T, E>(claim: impl Future<Output = Result<T, E>>) -> Cell {
    let start = Instant::now();
    let Ok(outcome) = timeout(GIVEN_UP, claim).await else {
        return Cell::wrong(format!("not back {}", after(GIVEN_UP)));
    };
    let taken = start.elapsed();
    let what = if outcome.is_ok() { "served" } else { "refused" };
    Cell::judged(taken <= TOLERABLE, format!("{what} {}", after(taken)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn carom_is_back_in_time_when_checks_fail() {
        super::CHECKS_FAIL.holds(&["qorb"]);
    }

    #[test]
    fn carom_is_back_in_time_when_nothing_answers() {
        super::SERVICE_HANGS.holds(&["deadpool", "qorb"]);
    }
}
