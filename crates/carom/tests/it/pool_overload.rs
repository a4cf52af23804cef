//! Overload: with a target delay a pool serves what it can, about as late as it was told, and sheds the rest.

use carom::{ClaimError, Pool};
use std::net::SocketAddr;
use std::time::Duration;
use testkit::backends::Scripted;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

const CONNECTIONS: usize = 2;
const USE: Duration = Duration::from_millis(50);

struct Ended {
    arrived: Duration,
    served: bool,
    waited: Duration,
}

/// Twice as many claims as the pool can serve, evenly spaced, for `period`.
async fn overload(target: Option<Duration>, timeout: Duration, period: Duration) -> Vec<Ended> {
    let address = SocketAddr::from(([10, 0, 0, 1], 80));
    let pool = Pool::builder(Scripted::new())
        .backends([address])
        .spares(CONNECTIONS)
        .maximum(CONNECTIONS)
        .target_delay(target)
        .claim_timeout(timeout)
        .build()
        .unwrap();
    drop(pool.claim().await.unwrap());
    let between = USE / (2 * CONNECTIONS as u32);
    let (start, mut claims) = (Instant::now(), JoinSet::new());
    for number in 0.. {
        let arrives = between * number;
        if arrives > period {
            break;
        }
        sleep_until(start + arrives).await;
        let pool = pool.clone();
        claims.spawn(async move {
            let asked = Instant::now();
            let claim = pool.claim().await;
            let (served, waited) = (claim.is_ok(), asked.elapsed());
            match claim {
                Ok(_claim) => sleep(USE).await,
                Err(ClaimError::Shed { waited: told, .. }) => assert_eq!(told, waited),
                Err(ClaimError::TimedOut { .. }) => assert!(waited >= timeout),
                Err(error) => panic!("{error}"),
            }
            Ended { arrived: arrives, served, waited }
        });
    }
    let ended = claims.join_all().await;
    assert_eq!(pool.snapshot().pool.waiting, 0);
    ended
}

fn mean_wait(ended: &[Ended], from: Duration) -> Duration {
    let served: Vec<Duration> =
        ended.iter().filter(|ended| ended.served && ended.arrived >= from).map(|ended| ended.waited).collect();
    served.iter().sum::<Duration>() / served.len() as u32
}

#[tokio::test(start_paused = true)]
async fn what_is_served_under_twice_the_load_waited_about_the_target() {
    for target in [300, 500, 1000, 1500, 2000, 2500, 5000].map(Duration::from_millis) {
        let period = target * 12 + Duration::from_secs(5);
        let ended = overload(Some(target), Duration::from_secs(600), period).await;
        let served = ended.iter().filter(|ended| ended.served).count() as f64;
        let capacity = (period + target).as_secs_f64() * CONNECTIONS as f64 / USE.as_secs_f64();
        let share = mean_wait(&ended, target * 2).as_secs_f64() / target.as_secs_f64();
        assert!((0.75..=1.05).contains(&share), "{:.0} % of {target:?}", share * 100.0);
        assert!(served > capacity * 0.9, "{served} served, {capacity} possible");
        assert!(ended.iter().all(|ended| ended.waited <= target * 10), "nobody waits for ever");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_s_own_timeout_still_holds() {
    let timeout = Duration::from_millis(200);
    let ended = overload(Some(Duration::from_secs(5)), timeout, Duration::from_secs(5)).await;
    assert!(ended.iter().all(|ended| ended.waited <= timeout + Duration::from_millis(1)));
    assert!(ended.iter().any(|ended| !ended.served));
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_not_an_overload() {
    let address = SocketAddr::from(([10, 0, 0, 1], 80));
    let pool = Pool::builder(Scripted::new())
        .backends([address])
        .spares(1)
        .maximum(1)
        .target_delay(Duration::from_millis(20))
        .build()
        .unwrap();
    drop(pool.claim().await.unwrap());
    let mut burst = JoinSet::new();
    for _ in 0..9 {
        let pool = pool.clone();
        burst.spawn(async move {
            let _claim = pool.claim().await?;
            sleep(Duration::from_millis(10)).await;
            Ok::<(), ClaimError>(())
        });
    }
    // The line stands for 80 ms, longer than the target, but not long enough to mean anything.
    for ended in burst.join_all().await {
        ended.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_target_everyone_waits_for_their_timeout() {
    let ended = overload(None, Duration::from_secs(2), Duration::from_secs(20)).await;
    let wait = mean_wait(&ended, Duration::from_secs(8));
    assert!(wait > Duration::from_millis(1800), "the line is as long as the timeout allows: {wait:?}");
}
