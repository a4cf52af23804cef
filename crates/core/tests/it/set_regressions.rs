//! Bugs of the set machine that were found and mended; each test is named for what it pins.

use carom_core::backend::Backend;
use carom_core::set::{Action, Delivery, Leased, Machine, Options, Want};
use std::time::Instant;

#[test]
#[allow(clippy::disallowed_methods, reason = "any moment will do, and tests have no other")]
fn with_a_connection_for_each_lease_those_who_waited_for_the_resolver_are_served() {
    let now = Instant::now();
    let mut machine = Machine::new(Options { per_backend: 0, ..Options::default() }, 1, now).unwrap();
    for _ in 0..3 {
        assert!(matches!(machine.lease(now, Want::any()), Leased::Waiting(_)));
    }
    machine.handle_backends(now, &[Backend::fixed("10.0.0.1:6650".parse().unwrap())]);
    let dialled: Vec<_> = std::iter::from_fn(|| machine.poll_action())
        .filter_map(|action| match action {
            Action::Dial { connection, .. } => Some(connection),
            _ => None,
        })
        .collect();
    assert_eq!(dialled.len(), 3);
    dialled.iter().for_each(|connection| machine.handle_connected(now, *connection));
    let granted: Vec<_> = std::iter::from_fn(|| machine.poll_delivery())
        .map(|delivery| match delivery {
            Delivery::Granted { connection, .. } => connection,
            Delivery::Refused { refusal, .. } => panic!("{refusal:?}"),
        })
        .collect();
    assert_eq!(granted, dialled, "each has its own");
}
