//! The warm path allocates nothing.

use carom::set::LeaseOptions;
use carom::{Backend, Connect, Set, Share};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

struct Numbers;

impl Connect for Numbers {
    type Connection = u64;
    type Error = std::io::Error;

    async fn connect(&self, _backend: &Backend) -> Result<u64, std::io::Error> {
        Ok(7)
    }
}

impl Share for Numbers {
    fn shut(&self, _connection: &u64) {}
}

/// Leases of a warm set are ready at the first poll.
macro_rules! now {
    ($leasing:expr) => {{
        let leasing = pin!($leasing);
        match leasing.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(lease) => lease.unwrap(),
            Poll::Pending => panic!("a warm set serves at once"),
        }
    }};
}

#[tokio::test]
async fn leasing_and_letting_go_of_a_warm_connection_allocates_nothing() {
    let backends = [1, 2, 3].map(|last| Backend::fixed(SocketAddr::from(([10, 0, 0, last], 6650))));
    let set = Set::builder(Numbers).backends(backends.clone()).build().unwrap();
    for backend in &backends {
        drop(set.lease_to(backend).await.unwrap());
    }
    let role: Arc<str> = "producer".into();
    let round = || {
        let any = [now!(set.lease()), now!(set.lease()), now!(set.lease())];
        let one = now!(set.lease_to(&backends[1]));
        let options = LeaseOptions::default().backend(backends[2].clone()).place(0).role(Arc::clone(&role));
        let other = now!(set.lease_with(options));
        drop((any, one, other));
    };
    round(); // the tables of roles grow once
    let counted = allocation_counter::measure(|| (0..1000).for_each(|_| round()));
    assert_eq!(counted.count_total, 0);
}
