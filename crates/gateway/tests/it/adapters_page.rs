//! The page on adapters shows the example as it is, and the example runs.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const PAGE: &str = include_str!("../../../../docs/adapters.md");
const EXAMPLE: &str = include_str!("../../examples/adapter.rs");

#[test]
fn the_example_runs() {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(crate::adapter::main().map_err(|error| error.to_string())));
    told.recv_timeout(Duration::from_secs(120)).expect("it comes to an end").unwrap();
}

#[test]
fn the_page_shows_the_example_and_it_is_short() {
    assert!(EXAMPLE.lines().count() < 150, "it has {} lines", EXAMPLE.lines().count());
    let shown = PAGE.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    assert!(shown == Some(EXAMPLE), "docs/adapters.md does not show crates/gateway/examples/adapter.rs as it is");
}
