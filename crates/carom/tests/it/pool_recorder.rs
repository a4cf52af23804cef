//! A recorder of metrics that panics: the pool goes on, and loses nothing.

use carom::{Monitor, Pool, connect_fn};
use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    set_default_local_recorder,
};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

struct Panics;

impl HistogramFn for Panics {
    fn record(&self, value: f64) {
        panic!("{value} is too much for it");
    }
}

impl Recorder for Panics {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        // What panics while connecting is an attempt that failed, as if the connector had.
        if key.name().ends_with("create_time") { Histogram::noop() } else { Histogram::from_arc(Arc::new(Panics)) }
    }
}

#[tokio::test(start_paused = true)]
async fn a_recorder_that_panics_costs_no_slot() {
    let _recorded = set_default_local_recorder(&Panics);
    let address = SocketAddr::from(([10, 0, 0, 1], 80));
    let pool = Pool::builder(connect_fn(|_| async { Ok::<_, Infallible>(()) }))
        .name("recorded")
        .backends([address])
        .spares(1)
        .maximum(1)
        .monitor(&Monitor::metered())
        .build()
        .unwrap();
    for turn in 0..12 {
        // The only one there is: it would not come again if it were lost.
        let mut claim = pool.claim().await.unwrap();
        match turn % 4 {
            0 => claim.discard(),
            1 => claim.detach(),
            2 => claim.report_failure(),
            _ => drop(claim),
        }
    }
    let lent = pool.claim().await.unwrap();
    let waits = async { pool.claim().await.map(drop) };
    let gives_back = async { drop(lent) };
    tokio::join!(biased; waits, gives_back).0.unwrap();
    assert_eq!(pool.lent().len(), 0);
}
