//! The upstream notices what a feed may not do, and whoever asks it anything hears of it.

use carom::feed::{Adapter, Change, Instrument, Level, Mode, Pacing};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use testkit::feed::{OnHeartbeat, Upstream};

const LEVEL: Level = Level { mode: Mode::Ltp, depth: 5 };

fn change(number: usize, from: Option<Level>, to: Option<Level>) -> Change {
    Change { instrument: Instrument::new("NSE", format!("S{number}")), from, to }
}

fn add(number: usize) -> Change {
    change(number, None, Some(LEVEL))
}

/// What is said to whoever asks, and to whoever only drops it.
fn complaint(upstream: Upstream) -> String {
    let said = |outcome: std::thread::Result<()>| match outcome {
        Ok(()) => panic!("it complains"),
        Err(payload) => payload.downcast_ref::<String>().expect("in words").clone(),
    };
    let asked = said(catch_unwind(AssertUnwindSafe(|| drop(upstream.carried_by_each()))));
    let dropped = said(catch_unwind(AssertUnwindSafe(|| drop(upstream))));
    assert_eq!(asked, dropped);
    asked
}

#[tokio::test(start_paused = true)]
async fn a_feed_that_behaves_hears_nothing() {
    let upstream = Upstream::new();
    upstream.max_topics(1);
    let (mut writer, _reader) = upstream.open().await.unwrap();
    upstream.write(&mut writer, &[add(1)]).await.unwrap();
    upstream.heartbeat(&mut writer).await.unwrap();
    tokio::time::advance(Duration::from_millis(100)).await;
    upstream.write(&mut writer, &[change(1, Some(LEVEL), None), add(2)]).await.unwrap();
    assert_eq!(upstream.carried_by_each(), [(1, 1)].into());
}

#[tokio::test(start_paused = true)]
async fn a_change_of_what_is_not_carried_is_noticed() {
    let upstream = Upstream::new();
    let (mut writer, _reader) = upstream.open().await.unwrap();
    upstream.write(&mut writer, &[change(1, Some(LEVEL), None)]).await.unwrap();
    let said = complaint(upstream);
    assert!(said.contains("None is carried of NSE:S1"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn too_many_topics_too_big_a_batch_and_too_soon_a_write_are_noticed() {
    let upstream = Upstream::new().pacing(Pacing { batch: 2, pace: Duration::from_millis(100), heartbeat: None });
    upstream.max_topics(3);
    let (mut writer, _reader) = upstream.open().await.unwrap();
    upstream.write(&mut writer, &[add(1), add(2), add(3)]).await.unwrap();
    tokio::time::advance(Duration::from_millis(99)).await;
    upstream.write(&mut writer, &[add(4)]).await.unwrap();
    let said = complaint(upstream);
    for part in ["3 changes in a write of at most 2", "a write 99ms after the last", "4 topics on connection 1"] {
        assert!(said.contains(part), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_after_something_that_was_cut_short_is_noticed() {
    let upstream = Upstream::new();
    upstream.on_heartbeat(OnHeartbeat::Never);
    let (mut writer, _reader) = upstream.open().await.unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(1), upstream.heartbeat(&mut writer)).await.is_err());
    upstream.write(&mut writer, &[add(1)]).await.unwrap();
    let said = complaint(upstream);
    assert!(said.contains("cut short"), "{said}");
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "it did not come to that")]
async fn what_never_happens_is_not_waited_for_for_ever() {
    Upstream::new().until(|upstream| upstream.opened() == 1).await;
}
