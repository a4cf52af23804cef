//! The warm path allocates nothing.

use carom::{Pool, connect_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

fn addresses() -> [SocketAddr; 3] {
    [1, 2, 3].map(|last| SocketAddr::from(([10, 0, 0, last], 80)))
}

/// Claims of a warm pool are ready at the first poll.
macro_rules! claim_now {
    ($pool:expr) => {{
        let claiming = pin!($pool.claim());
        match claiming.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(claim) => claim.unwrap(),
            Poll::Pending => panic!("a warm pool serves at once"),
        }
    }};
}

#[tokio::test]
async fn claiming_and_releasing_a_warm_connection_allocates_nothing() {
    let pool = Pool::builder(connect_fn(|_| async { Ok::<u64, std::io::Error>(7) }))
        .backends(addresses())
        .spares(8)
        .maximum(8)
        .build()
        .unwrap();
    let mut all = Vec::new();
    for _ in 0..8 {
        all.push(pool.claim().await.unwrap());
    }
    drop(all);
    let counted = allocation_counter::measure(|| {
        for _ in 0..1000 {
            let one = claim_now!(pool);
            let other = claim_now!(pool);
            drop((one, other));
        }
    });
    assert_eq!(counted.count_total, 0);
}

#[tokio::test]
async fn waiting_and_being_handed_a_connection_allocates_nothing_either() {
    let pool = Pool::builder(connect_fn(|_| async { Ok::<u64, std::io::Error>(7) }))
        .backends(addresses())
        .spares(1)
        .maximum(1)
        .build()
        .unwrap();
    drop(pool.claim().await.unwrap());
    let hand_over = || {
        let held = claim_now!(pool);
        let mut waiting = pin!(pool.claim());
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        drop(held);
        assert!(waiting.as_mut().poll(&mut context).is_ready());
    };
    hand_over(); // the line's table grows once
    let counted = allocation_counter::measure(|| (0..1000).for_each(|_| hand_over()));
    assert_eq!(counted.count_total, 0);
}
